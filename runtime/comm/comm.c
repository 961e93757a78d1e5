/*
 * comm.c - the communication calls of strategies. Each wrapper checks its arguments, counts bytes,
 * measures its time, and calls the platform's link.
 *
 * Bytes are those that a rank sends in a bandwidth-optimal algorithm (nccl-tests' convention); they
 * are therefore the same on every platform. For n floats over N ranks, all ranks together send
 *   allreduce 2 (N - 1) n, broadcast (N - 1) n, allgather (N - 1) n, exchange n each.
 * If N does not divide a total, the ranks' shares still add up to it exactly.
 *
 * Communicating and waiting: a rank inside a collective or message cannot measure how long it
 * waits. The last rank to arrive does not wait. The shortest duration over the ranks is therefore
 * the cost of the operation; the rest of the other ranks' durations is waiting. The durations are
 * kept during a segment and compared after it (stats_reduce).
 *
 * Vectors of a device with its own memory (ops->peer) use a transport, which the first reduction
 * chooses (transport.c). The device is idle when the clock of a wrapper starts and stops.
 */
#include "runtime/comm/coding.h"
#include "runtime/comm/transport.h"

#include <math.h>
#include <stdlib.h>

struct request {
	struct comm *comm; /* NULL: not under way */
	struct device *dev;
	size_t n;
	struct vec *v; /* of a coded sum */
};

struct comm {
	struct link *link;
	int rank, size;
	bool part; /* has only a part of the workers */
	struct stats *stats;
	struct request slot[LINK_SLOTS];
	const char *wanted;          /* --transport */
	struct transport *transport; /* for a device's vectors; NULL before the first */
	struct comm *next,
		*before;       /* list: all workers first, then the communicators split from it */
	struct coding *coding; /* NULL: floats travel as they are */
	bool *joined;          /* [1 + size]: were there operations with ALL, with each peer? */
};

/* ---- Operations with peers ---- */

enum { ALONE = -2, ALL = -1 }; /* in place of a peer's rank: no peer; all ranks of c */

/* Compares durations of this worker's operations with a peer, or with ALL of c, in the order that
 * all of them share. A rank may have kept fewer than others. */
static void compare_durations(struct stats *s, struct comm *c, int peer, int rank)
{
	size_t kept = smaller(s->joint_ops, s->room), n = 0;
	struct least *x AUTOFREE = must(malloc((kept + 1) * sizeof *x));
	struct joint_op **of AUTOFREE = must(malloc((kept + 1) * sizeof *of));
	for (struct joint_op *m = s->joint_op; m < s->joint_op + kept; m++)
		if (m->comm == c && m->peer == peer) {
			x[n] = (struct least){.x = m->s, .rank = rank};
			of[n++] = m;
		}
	double all = (double)n;
	if (peer == ALL) {
		link_reduce_all(c->link, &all, 1, REDUCE_MIN);
		link_reduce_all(c->link, x, (int)all, REDUCE_LEAST);
	} else {
		float mine = (float)n, its;
		link_shift(c->link, peer, &mine, peer, &its, 1);
		all = fminf(mine, its);
		size_t floats = (size_t)all * sizeof *x / sizeof(float);
		struct least *y AUTOFREE = must(malloc((n + 1) * sizeof *y));
		link_shift(c->link, peer, (float *)(void *)x, peer, (float *)(void *)y, floats);
		for (size_t i = 0; i < (size_t)all; i++)
			x[i] = is_less(y[i], x[i]) ? y[i] : x[i];
	}
	for (size_t i = 0; i < (size_t)all; i++) {
		of[i]->shortest_s = x[i].x;
		of[i]->last = (int16_t)x[i].rank;
	}
	if ((size_t)all < n)
		s->compared = smaller(s->compared, (size_t)(of[(size_t)all] - s->joint_op));
}

/* All ranks go through communicators and peers in the same order, which avoids a deadlock. */
void stats_reduce(struct worker *w)
{
	struct stats *s = w->loop->stats;
	s->compared = smaller(s->joint_ops, s->room);
	for (struct comm *c = w->all; c; c = c->next) {
		for (int with = ALL; with < c->size; with++)
			if (c->joined[1 + with])
				compare_durations(s, c, with, w->rank);
	}
}

/* Counts an operation since then as communication. with: the peer, ALL or ALONE. */
static void count(struct comm *c, enum trace_kind kind, int with, nsec since, int64_t bytes)
{
	struct stats *s = c->stats;
	nsec now = clock_now(), dt = now - since;
	int64_t nth = with == ALONE ? -1 : (int64_t)s->joint_ops++;
	s->comm += dt;
	s->bytes_sent += bytes;
	pulse_step();
	if (nth >= 0 && (size_t)nth < s->room)
		s->joint_op[nth] =
			(struct joint_op){.comm = c, .s = (float)dt * 1e-9f, .peer = (int16_t)with};
	if (with != ALONE)
		c->joined[1 + with] = true;
	if (__builtin_expect(s->trace == NULL, 1))
		return;
	struct slice *e = trace_add(s->trace, kind, since, now);
	/* ranks in a part of the workers are not ranks of the run */
	e->peer = c->part || with < 0 ? -1 : with;
	e->bytes = bytes;
	e->joint_op = nth;
}

/* This rank's share of the bytes that all ranks together send in a collective. */
static int64_t share_of(const struct comm *c, size_t total_floats)
{
	return share_of_bytes(total_floats, c->rank, c->size);
}

static struct comm *comm_new(struct link *link, int rank, int size, struct stats *stats)
{
	struct comm *c = must(calloc(1, sizeof *c));
	*c = (struct comm){.link = link, .rank = rank, .size = size, .stats = stats};
	c->joined = must(calloc(1 + (size_t)size, sizeof *c->joined));
	return c;
}

struct comm *comm_layout(int rank, int size)
{
	return comm_new(NULL, rank, size, NULL);
}

struct comm *comm_world_trainers(struct worker *w, const char *transport)
{
	struct comm *c = comm_new(link_world(w->trainers), w->rank, w->trainers, w->loop->stats);
	c->wanted = transport;
	return c;
}

static struct comm *comm_after(struct comm *c, struct link *l)
{
	struct comm *part = comm_new(l, link_rank(l), link_size(l), c->stats);
	part->wanted = c->wanted;
	part->part = c->part || part->size < c->size;
	part->before = c;
	part->next = c->next;
	if (c->next)
		c->next->before = part;
	c->next = part;
	return part;
}

struct comm *comm_divide(struct comm *c, int color)
{
	return comm_after(c, link_split(c->link, color));
}

struct comm *comm_split(struct comm *c, int color)
{
	struct comm *part = comm_divide(c, color);
	link_prepare_sums(part->link, 0);
	return part;
}

struct comm *comm_split_places(struct comm *c, int *n)
{
	int first = world_place();
	if (first < 0 && c->size > 1) { /* in the real world */
		struct link *node = link_of_node(c->link);
		first = c->rank;
		link_broadcast(node, 0, &first, sizeof first);
		link_free(node);
	}
	double places = c->size == 1 || first == c->rank;
	if (c->size > 1)
		link_reduce_all(c->link, &places, 1, REDUCE_SUM);
	*n = (int)places;
	return comm_split(c, first < 0 ? 0 : first);
}

struct comm *comm_coded(struct worker *w, struct comm *c, const struct vec *v,
			const struct tensor *tensor, size_t tensors)
{
	const int codes = strategy_codes(w->loop->strategy, w->run, w->opts);
	if (c->size == 1 || !w->codec || !w->codec->encode || codes == CODES_PUSHES ||
	    codes == CODES_MOVES) /* runtime/table/coded.c has these */
		return c;
	struct comm *coded = comm_divide(c, 0);
	coded->coding = coding_new(w, c->rank, c->size, v, tensor, tensors);
	if (w->codec->sums == CODEC_SUMMED)
		comm_prepare_sums(coded, v);
	return coded;
}

void *comm_kept(struct comm *c, int i, size_t *bytes)
{
	return c->coding ? coding_kept(c->coding, i, bytes) : NULL;
}

struct vec *comm_kept_there(struct comm *c)
{
	return c->coding ? coding_kept_there(c->coding) : NULL;
}

void comm_free(struct comm *c)
{
	if (!c)
		return;
	for (int i = 0; i < LINK_SLOTS; i++)
		CHECK(!c->slot[i].comm, "a reduction that was started is never waited for");
	if (c->before)
		c->before->next = c->next;
	if (c->next)
		c->next->before = c->before;
	transport_free(c->transport);
	link_free(c->link);
	coding_free(c->coding);
	free(c->joined);
	free(c);
}

struct link *comm_link(struct comm *c)
{
	return c->link;
}

int comm_rank(const struct comm *c)
{
	return c->rank;
}

int comm_size(const struct comm *c)
{
	return c->size;
}

/* ---- Vectors of a device with its own memory ---- */

static inline bool is_far(const struct device *d)
{
	return __builtin_expect(d->ops->peer != NULL, 0);
}

/* NULL: the link reads and writes vectors of d where they are. */
static struct transport *transport_of(struct comm *c, struct device *d)
{
	if (!is_far(d))
		return NULL;
	if (!c->transport)
		c->transport = transport_new(c->link, d);
	CHECK(c->transport->dev == d, "vectors of two devices in one communicator");
	CHECK(!d->in_graph, "communication in what a device keeps as a graph");
	return c->transport;
}

char *comm_try(struct comm *c, const struct vec *v, const char *name)
{
	if (c->size == 1 || !is_far(v->dev))
		return NULL;
	return transport_choose(transport_of(c, v->dev), name, v->n);
}

void comm_prepare(struct comm *c, const struct vec *v)
{
	char *wrong = comm_try(c, v, c->wanted);
	if (wrong)
		user_error("--transport=%s: %s", c->wanted, wrong);
}

void comm_prepare_sums(struct comm *c, const struct vec *v)
{
	if (c->size > 1 && !is_far(v->dev))
		link_prepare_sums(c->link, v->n);
}

const char *comm_transport(const struct comm *c)
{
	return c->transport && c->transport->ops ? c->transport->ops->name : NULL;
}

const char *comm_messages(const struct comm *c)
{
	const struct transport *t = c->transport;
	return !t ? NULL : t->ops && t->ops->direct ? t->ops->name : transport_staged.name;
}

static struct transport *reducer_of(struct comm *c, const struct vec *v)
{
	if (!comm_transport(c))
		comm_prepare(c, v);
	return transport_of(c, v->dev);
}

/* Work that the device still does when a wrapper is called counts as computing. */
static nsec clock_after(struct device *d)
{
	device_sync(d);
	return clock_now();
}

/* ---- The wrappers ---- */

static void check_peer(const struct comm *c, int peer)
{
	CHECK(peer >= 0 && peer < c->size && peer != c->rank, "rank %d of %d talks to rank %d",
	      c->rank, c->size, peer);
}

void comm_send(struct comm *c, int to, const struct vec *v)
{
	nsec t = clock_after(v->dev);
	check_peer(c, to);
	struct transport *by = transport_of(c, v->dev);
	link_send(c->link, to, transport_out(by, vec_floats(v, 0), v->n, 0), v->n);
	count(c, TRACE_SEND, to, t, (int64_t)(v->n * sizeof(float)));
}

void comm_recv(struct comm *c, int from, struct vec *v)
{
	nsec t = clock_after(v->dev);
	check_peer(c, from);
	struct transport *by = transport_of(c, v->dev);
	link_recv(c->link, from, transport_in(by, vec_floats(v, 0), v->n), v->n);
	transport_arrived(by, v->data, v->n);
	count(c, TRACE_RECV, from, t, 0);
}

void comm_exchange(struct comm *c, int to, const struct vec *out, int from, struct vec *in)
{
	nsec t = clock_after(out->dev);
	check_peer(c, to);
	check_peer(c, from);
	CHECK(out->n == in->n, "exchange of %zu floats for %zu", out->n, in->n);
	if (c->coding) {
		CHECK(to == from, "a coded exchange of rank %d with %d and %d", c->rank, to, from);
		coding_exchange(c->coding, c->link, to, out, in);
		count(c, TRACE_EXCHANGE, to, t, (int64_t)comm_exchange_bytes(c, out->n));
		return;
	}
	struct transport *by = transport_of(c, out->dev);
	float *x = transport_in(by, vec_floats(in, 0), 2 * in->n);
	const float *y = transport_out(by, vec_floats(out, 0), out->n, in->n);
	link_shift(c->link, to, y, from, x, out->n);
	transport_arrived(by, in->data, in->n);
	count(c, TRACE_EXCHANGE, to == from ? to : ALL, t, (int64_t)(out->n * sizeof *x));
}

/* A slot that is free; the most may be under way. */
static int free_slot(const struct comm *c)
{
	int i = 0;
	while (i < LINK_SLOTS && c->slot[i].comm)
		i++;
	CHECK(i < LINK_SLOTS, "more than %d reductions under way", LINK_SLOTS);
	return i;
}

static void allreduce_coded(struct comm *c, struct vec *v, size_t first, size_t n, enum reduce op)
{
	CHECK(op == COMM_SUM || op == COMM_MEAN, "a codec is for sums and means of floats");
	nsec t = clock_after(v->dev);
	int slot = free_slot(c);
	int64_t bytes = coding_start(c->coding, c->link, slot, v, first, n);
	coding_end(c->coding, c->link, slot, v);
	count(c, TRACE_ALLREDUCE, ALL, t, bytes);
	if (op == COMM_MEAN)
		v->dev->ops->scale(v->dev, vec_floats(v, first), 1.0f / (float)c->size, n);
}

void comm_allreduce_part(struct comm *c, struct vec *v, size_t first, size_t n, enum reduce op)
{
	CHECK(first + n <= v->n, "allreduce of [%zu, %zu) of %zu", first, first + n, v->n);
	if (c->size == 1)
		return;
	if (c->coding) {
		allreduce_coded(c, v, first, n, op);
		return;
	}
	bool far = is_far(v->dev);
	nsec t = clock_after(v->dev);
	if (far) {
		world_enter("allreduce", -1);
		transport_allreduce(reducer_of(c, v), v->data + first, n, op);
		device_sync(v->dev);
		world_leave();
	} else {
		link_allreduce(c->link, vec_floats(v, first), n, op);
	}
	world_charge_sum(n, c->size);
	count(c, TRACE_ALLREDUCE, ALL, t, share_of(c, 2 * (size_t)(c->size - 1) * n));
	if (op == COMM_MEAN && !far)
		v->dev->ops->scale(v->dev, vec_floats(v, first), 1.0f / (float)c->size, n);
}

void comm_allreduce(struct comm *c, struct vec *v, enum reduce op)
{
	comm_allreduce_part(c, v, 0, v->n, op);
}

struct request *comm_allreduce_start(struct comm *c, struct vec *v, size_t first, size_t n)
{
	CHECK(first + n <= v->n, "allreduce of [%zu, %zu) of %zu", first, first + n, v->n);
	int i = free_slot(c);
	c->slot[i] = (struct request){.comm = c, .dev = v->dev, .n = n, .v = v};
	if (c->coding) {
		nsec t = clock_now();
		int64_t bytes = coding_start(c->coding, c->link, i, v, first, n);
		count(c, TRACE_SEND, ALONE, t, bytes);
	} else if (c->size > 1) {
		nsec t = clock_now();
		if (is_far(v->dev)) { /* may wait until the others have taken earlier sums */
			struct transport *by = reducer_of(c, v);
			world_enter("allreduce", -1);
			peer_of(by)->use_second_stream(v->dev, true);
			by->ops->start(by, i, v->data + first, n);
			peer_of(by)->use_second_stream(v->dev, false);
			world_leave();
		} else {
			link_allreduce_start(c->link, i, vec_floats(v, first), n);
		}
		count(c, TRACE_SEND, ALONE, t, share_of(c, 2 * (size_t)(c->size - 1) * n));
	}
	return &c->slot[i];
}

void comm_wait(struct request *r)
{
	struct comm *c = r->comm;
	CHECK(c, "waits twice for one request");
	if (c->coding) {
		nsec t = clock_after(r->dev);
		coding_end(c->coding, c->link, (int)(r - c->slot), r->v);
		count(c, TRACE_ALLREDUCE, ALL, t, 0);
	} else if (c->size > 1) {
		nsec t = clock_after(r->dev);
		if (is_far(r->dev)) {
			world_enter("allreduce", -1);
			c->transport->ops->wait(c->transport, (int)(r - c->slot));
			device_sync(r->dev);
			world_leave();
		} else {
			link_allreduce_wait(c->link, (int)(r - c->slot));
		}
		world_charge_sum(r->n, c->size);
		count(c, TRACE_ALLREDUCE, ALL, t, 0);
	}
	r->comm = NULL;
}

double comm_sum_bytes(const struct comm *c, size_t first, size_t n)
{
	double size = c->size;
	return c->coding ? coding_sum_bytes(c->coding, first, n)
			 : 2 * (size - 1) / size * sizeof(float) * (double)n;
}

double comm_exchange_bytes(const struct comm *c, size_t n)
{
	return c->coding ? coding_exchange_bytes(c->coding, n) : sizeof(float) * (double)n;
}

static void gather_vectors(struct comm *c, struct vec *all, const struct vec *mine, bool equal)
{
	int counts[c->size], firsts[c->size], n = (int)mine->n;
	if (c->size == 1) {
		CHECK(all->n == mine->n, "gathers %zu floats into %zu", mine->n, all->n);
		all->dev->ops->copy(all->dev, all->data, mine->data, mine->n);
		return;
	}
	CHECK(mine->n <= INT_MAX, "gathers %zu floats, %d is the most", mine->n, INT_MAX);
	nsec t = clock_after(mine->dev);
	if (!equal)
		link_gather(c->link, -1, &n, counts, sizeof n);
	size_t total = 0;
	for (int i = 0; i < c->size; i++) {
		counts[i] = equal ? n : counts[i];
		firsts[i] = (int)total;
		total += (size_t)counts[i];
	}
	CHECK(total == all->n, "gathers %zu floats into %zu", total, all->n);
	struct transport *by = transport_of(c, mine->dev);
	float *x = transport_in(by, vec_floats(all, 0), total + mine->n);
	const float *y = transport_out(by, vec_floats(mine, 0), mine->n, total);
	link_allgather(c->link, x, counts, firsts, y, n);
	transport_arrived(by, all->data, total);
	count(c, TRACE_ALLGATHER, ALL, t, share_of(c, (size_t)(c->size - 1) * total));
}

void comm_allgather(struct comm *c, struct vec *all, const struct vec *mine)
{
	gather_vectors(c, all, mine, false);
}

void comm_allgather_equal(struct comm *c, struct vec *all, const struct vec *mine)
{
	gather_vectors(c, all, mine, true);
}

void comm_broadcast(struct comm *c, int root, struct vec *v)
{
	if (c->size == 1)
		return;
	nsec t = clock_after(v->dev);
	struct transport *by = transport_of(c, v->dev);
	float *x = transport_in(by, vec_floats(v, 0), v->n);
	if (c->rank == root)
		transport_out(by, v->data, v->n, 0);
	link_broadcast(c->link, root, x, v->n * sizeof *x);
	if (c->rank != root)
		transport_arrived(by, v->data, v->n);
	count(c, TRACE_BROADCAST, ALL, t, share_of(c, (size_t)(c->size - 1) * v->n));
}

/* A barrier moves no data: all of its time is waiting. */
void comm_barrier(struct comm *c)
{
	if (c->size == 1)
		return;
	nsec t = clock_now();
	link_barrier(c->link);
	stats_spent(c->stats, TRACE_BARRIER, t, -1);
}
