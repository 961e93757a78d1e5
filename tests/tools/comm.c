/*
 * comm.c - tests of communication that run on every rank:
 *   [mpirun -n N] comm [N [TRANSPORT]]
 * With TRANSPORT the vectors are on GPUs. Exit status 0 and "ok" when every check held; a
 * failed CHECK ends all ranks.
 */
#include "runtime/device/device.h"
#include "runtime/config/run.h"
#include "runtime/table/table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BIG = 300001 }; /* an odd length, above every eager limit */

static struct vec *filled(struct worker *w, size_t n, float a, float per_index)
{
	float *host AUTOFREE = must(malloc((n + 1) * sizeof *host));
	struct vec *v = vec_new(w, n);
	for (size_t i = 0; i < n; i++)
		host[i] = a + per_index * (float)(i % 97);
	vec_put(v, host);
	return v;
}

static void expect(const struct vec *v, size_t first, size_t n, float a, float per_index,
		   const char *what)
{
	float *host AUTOFREE = must(malloc((vec_len(v) + 1) * sizeof *host));
	vec_get(v, host);
	for (size_t i = 0; i < n; i++) {
		float want = a + per_index * (float)(i % 97);
		CHECK(fabsf(host[first + i] - want) <= 1e-5f * (1 + fabsf(want)),
		      "%s: float %zu is %g, not %g", what, i, (double)host[first + i],
		      (double)want);
	}
}

static float sum_of_ranks(int n)
{
	return (float)(n * (n - 1) / 2);
}

static void collectives(struct worker *w, size_t n)
{
	int rank = w->rank, size = w->trainers;
	struct stats *s = w->loop->stats;
	struct vec *v = filled(w, n, (float)rank, 1);
	stats_reset(s);
	comm_allreduce(w->all, v, COMM_SUM);
	expect(v, 0, n, sum_of_ranks(size), (float)size, "allreduce sum");
	double sent = (double)s->bytes_sent;
	link_reduce_all(comm_link(w->all), &sent, 1, REDUCE_SUM);
	CHECK(sent == 2.0 * (size - 1) * (double)n * sizeof(float), "allreduce counted %g bytes",
	      sent);
	comm_allreduce(w->all, v, COMM_MEAN);
	expect(v, 0, n, sum_of_ranks(size), (float)size, "allreduce mean of equals");

	vec_fill(v, (float)rank);
	comm_broadcast(w->all, size - 1, v);
	expect(v, 0, n, (float)(size - 1), 0, "broadcast");

	struct vec *mine = filled(w, n + (size_t)rank, (float)rank, 0);
	struct vec *all = vec_new(w, (size_t)size * n + (size_t)(size * (size - 1) / 2));
	comm_allgather(w->all, all, mine);
	for (int r = 0, at = 0; r < size; at += (int)n + r, r++)
		expect(all, (size_t)at, n + (size_t)r, (float)r, 0, "allgather of unequal parts");
	vec_free(all);
	vec_free(mine);
	mine = filled(w, n, (float)rank, 0);
	all = vec_new(w, (size_t)size * n);
	stats_reset(s);
	comm_allgather_equal(w->all, all, mine);
	for (int r = 0; r < size; r++)
		expect(all, (size_t)r * n, n, (float)r, 0, "allgather of equal parts");
	sent = (double)s->bytes_sent;
	link_reduce_all(comm_link(w->all), &sent, 1, REDUCE_SUM);
	CHECK(sent == (double)(size * (size - 1)) * (double)n * sizeof(float),
	      "allgather counted %g bytes", sent);
	vec_free(all);
	vec_free(mine);
	vec_free(v);
}

/* Reductions of a part of a vector: maximum of floats; sums of the same bytes as int32 and int8. */
static void kinds(struct worker *w, size_t n)
{
	const int size = w->trainers, ranks = size * (size - 1) / 2;
	struct vec *v = vec_new(w, n + 2);
	float *host AUTOFREE = must(calloc(n + 2, sizeof *host));
	int8_t *small = (int8_t *)host;
	for (size_t i = 0; i < n; i++)
		host[i + 1] = (float)((w->rank + (int)(i % 7)) % size) - 1.5f;
	vec_put(v, host);
	comm_allreduce_part(w->all, v, 1, n, COMM_MAX);
	expect(v, 1, n, (float)size - 2.5f, 0, "the largest");
	for (size_t i = 0; i < n; i++) {
		int32_t x = (w->rank - 1) * (1 + (int)(i % 89) * 1000003);
		memcpy(host + i + 1, &x, sizeof x);
	}
	vec_put(v, host);
	comm_allreduce_part(w->all, v, 1, n, COMM_SUM_INT32);
	vec_get(v, host);
	for (size_t i = 0; i < n; i++) {
		int32_t x, want = (ranks - size) * (1 + (int)(i % 89) * 1000003);
		memcpy(&x, host + i + 1, sizeof x);
		CHECK(x == want, "whole number %zu is %d, not %d", i, x, want);
	}
	for (size_t i = 4; i < 4 * n + 4; i++)
		small[i] = (int8_t)((w->rank + (int)(i % 2)) % 2 ? 1 : -1);
	vec_put(v, host);
	comm_allreduce_part(w->all, v, 1, n, COMM_SUM_INT8);
	vec_get(v, host);
	for (size_t i = 4; i < 4 * n + 4; i++)
		CHECK(small[i] == (size % 2 ? (i % 2 ? 1 : -1) : 0), "vote %zu is %d", i, small[i]);
	CHECK(host[0] == 0 && host[n + 1] == 0, "the floats around the part are %g and %g",
	      (double)host[0], (double)host[n + 1]);
	vec_free(v);
}

/* A symmetric exchange of more bytes than any eager limit must not hang. */
static void pairs(struct worker *w, size_t n)
{
	int peer = w->rank ^ 1;
	if (peer >= w->trainers)
		return;
	struct vec *out = filled(w, n, (float)w->rank, 1), *in = vec_new(w, n);
	comm_exchange(w->all, peer, out, peer, in);
	expect(in, 0, n, (float)peer, 1, "exchange");
	if (w->rank < peer)
		comm_send(w->all, peer, out);
	else
		comm_recv(w->all, peer, in);
	if (w->rank > peer)
		expect(in, 0, n, (float)peer, 1, "receive");
	vec_free(out);
	vec_free(in);
}

/* Reductions of three parts of a vector. A rank may wait for them in any order, and other ranks in
 * another one. */
static void under_way(struct worker *w, size_t n)
{
	enum { PARTS = 3 };
	struct request *r[PARTS];
	size_t first[PARTS + 1];
	struct vec *v = vec_new(w, n);
	for (size_t i = 0; i <= PARTS; i++)
		first[i] = part_of(n, PARTS, i);
	for (size_t i = 0; i < PARTS; i++) {
		struct vec *part = vec_slice(v, first[i], first[i + 1] - first[i]);
		vec_fill(part, (float)((w->rank + 1) * (i == 0 ? 1 : i == 1 ? 10 : 100)));
		vec_free(part);
	}
	if (w->loop->dev->ops->sync) /* input must be final at the start */
		w->loop->dev->ops->sync(w->loop->dev);
	for (size_t i = 0; i < PARTS; i++)
		r[i] = comm_allreduce_start(w->all, v, first[i], first[i + 1] - first[i]);
	for (int i = 0; i < PARTS; i++)
		comm_wait(r[(i * 2 + w->rank) % PARTS]);
	float sum = sum_of_ranks(w->trainers) + (float)w->trainers;
	for (size_t i = 0; i < PARTS; i++)
		expect(v, first[i], first[i + 1] - first[i],
		       sum * (i == 0   ? 1
			      : i == 1 ? 10
				       : 100),
		       0, "three reductions under way");
	vec_free(v);
}

/* Floats whose sum depends on the order: of all magnitudes, different on each rank. */
static float uneven(int rank, size_t i)
{
	const uint32_t bits = (uint32_t)(i + 1) * 2654435761u ^ (uint32_t)(rank + 1) * 40503u;
	return ldexpf((float)(bits % 1000003) - 500001, (int)(bits >> 28) - 8);
}

static void put_uneven(struct worker *w, struct vec *v)
{
	float *host AUTOFREE = must(malloc((vec_len(v) + 1) * sizeof *host));
	for (size_t i = 0; i < vec_len(v); i++)
		host[i] = uneven(w->rank, i);
	vec_put(v, host);
}

static void expect_same_bits(struct worker *w, const struct vec *v)
{
	float *host AUTOFREE = must(malloc((vec_len(v) + 1) * sizeof *host));
	uint64_t *all AUTOFREE = must(calloc((size_t)w->trainers, sizeof *all));
	vec_get(v, host);
	uint64_t mine = hash_of(HASH_START, host, vec_len(v) * sizeof *host);
	link_gather(comm_link(w->all), -1, &mine, all, sizeof mine);
	for (int k = 0; k < w->trainers; k++)
		CHECK(all[k] == mine, "the sum of %zu floats has other bits on rank %d", vec_len(v),
		      k);
}

/* The ranks of this test are on one machine: the sum is in their order, bit for bit. Lengths around
 * lines of the cache, and beyond the memory that the ranks share for it. */
static void ordered(struct worker *w)
{
	static const size_t lengths[] = {1, 15, 16, 17, 33, 4099, 131072, 131073, 400000};
	if (w->loop->dev->ops->peer)
		return;
	for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++) {
		const size_t n = lengths[k];
		float *host AUTOFREE = must(malloc(n * sizeof *host));
		struct vec *v = vec_new(w, n);
		for (int times = 0; times < 3; times++) {
			put_uneven(w, v);
			comm_allreduce(w->all, v, COMM_SUM);
		}
		vec_get(v, host);
		for (size_t i = 0; i < n; i++) {
			float want = uneven(0, i);
			for (int r = 1; r < w->trainers; r++)
				want += uneven(r, i);
			CHECK(host[i] == want, "float %zu of %zu is %a, not %a", i, n,
			      (double)host[i], (double)want);
		}
		vec_free(v);
	}
}

/* A started sum ends although its ranks do not wait for it, if they let it progress. */
static void progresses(struct worker *w, size_t n)
{
	const nsec limit = 20000000000;
	if (w->loop->dev->ops->peer)
		return;
	struct vec *v = filled(w, n, (float)w->rank, 1), *u = vec_new(w, n);
	put_uneven(w, u);
	struct request *first = comm_allreduce_start(w->all, v, 0, n);
	struct request *second = comm_allreduce_start(w->all, u, 0, n);
	for (nsec since = clock_now(); link_progress_sums(); usleep(20))
		CHECK(clock_now() - since < limit, "a started sum of %zu floats makes no progress",
		      n);
	expect(v, 0, n, sum_of_ranks(w->trainers), (float)w->trainers, "a sum before its wait");
	comm_wait(second);
	comm_wait(first);
	expect_same_bits(w, u);
	vec_free(u);
	vec_free(v);
}

/* So do the collectives of a codec's sums. */
static void gathers_progress(struct worker *w, size_t n)
{
	const nsec limit = 20000000000;
	const size_t size = (size_t)w->trainers;
	struct link *l = comm_link(w->all);
	int *counts AUTOFREE = must(calloc(size, sizeof *counts)),
		    *firsts AUTOFREE = must(calloc(size, sizeof *firsts));
	float *mine AUTOFREE = must(calloc(n, sizeof *mine)),
		    *all AUTOFREE = must(calloc(size * n, sizeof *all));
	if (size == 1)
		return;
	for (size_t k = 0; k < size; k++) {
		counts[k] = (int)n;
		firsts[k] = (int)(k * n);
	}
	for (size_t i = 0; i < n; i++)
		mine[i] = (float)(w->rank + 1);
	link_allgather_start(l, 0, all, counts, firsts, mine, (int)n);
	for (nsec since = clock_now(); link_progress_sums(); usleep(20))
		CHECK(clock_now() - since < limit, "a started gather makes no progress");
	for (size_t k = 0; k < size; k++)
		CHECK(all[k * n] == (float)(k + 1) && all[k * n + n - 1] == (float)(k + 1),
		      "before its wait, a gather has %g of rank %zu", (double)all[k * n], k);
	link_start_wait(l, 0);
	CHECK(!link_progress_sums(), "a gather is under way after its wait");
}

/* Some ranks wait for a sum before a barrier, others after it. */
static void around_a_barrier(struct worker *w)
{
	enum { N = 100003 };
	struct vec *v = filled(w, N, (float)w->rank, 1);
	device_sync(w->loop->dev);
	struct request *r = comm_allreduce_start(w->all, v, 0, N);
	if (w->rank % 2)
		comm_wait(r);
	comm_barrier(w->all);
	if (w->rank % 2 == 0)
		comm_wait(r);
	expect(v, 0, N, sum_of_ranks(w->trainers), (float)w->trainers, "a sum around a barrier");
	vec_free(v);
}

/* With NCCL and with mapped memory (ipc), a started reduction ends without comm_wait, and does not
 * wait for the device's computations. */
static void beside(struct worker *w)
{
	enum { N = 4099 };
	const char *by = comm_transport(w->all);
	const struct peer_ops *peer = w->loop->dev->ops->peer;
	if (!by || (strcmp(by, "nccl") != 0 && strcmp(by, "ipc") != 0))
		return;
	struct vec *v = vec_new(w, 2 * N), *late = vec_new(w, N);
	vec_fill(v, (float)w->rank);
	device_sync(w->loop->dev);
	vec_fill(late, 1); /* the device computes meanwhile */
	struct request *r = comm_allreduce_start(w->all, v, 0, N);
	link_barrier(comm_link(w->all));
	struct request *next = comm_allreduce_start(w->all, v, N, N);
	float first = -1;
	peer->use_second_stream(w->loop->dev, true);
	w->loop->dev->ops->get(w->loop->dev, &first, v->data, 1);
	peer->use_second_stream(w->loop->dev, false);
	CHECK(first == sum_of_ranks(w->trainers), "a started sum is %g, not %g", (double)first,
	      (double)sum_of_ranks(w->trainers));
	comm_wait(next);
	comm_wait(r);
	expect(v, 0, 2 * N, sum_of_ranks(w->trainers), 0, "a sum that was started early");
	expect(late, 0, N, 1, 0, "a vector that was computed meanwhile");
	vec_free(late);
	vec_free(v);
}

/* Reductions in a row: ranks arrive early and late, and no result is read in between. */
static void in_a_row(struct worker *w)
{
	enum { TIMES = 12, N = 5003 };
	struct vec *v[TIMES];
	for (int i = 0; i < TIMES; i++)
		v[i] = filled(w, N, (float)(w->rank * (i + 1)), 0);
	for (int i = 0; i < TIMES; i++) {
		if ((w->rank + i) % 3 == 0)
			usleep(2000);
		vec_scale(v[i], 2);
		comm_allreduce_part(w->all, v[i], 0, N - 3, i % 2 ? COMM_MEAN : COMM_SUM);
	}
	for (int i = 0; i < TIMES; i++) {
		float sum = 2 * (float)(i + 1) * sum_of_ranks(w->trainers);
		expect(v[i], 0, N - 3, i % 2 ? sum / (float)w->trainers : sum, 0,
		       "a reduction in a row");
		expect(v[i], N - 3, 3, 2 * (float)(w->rank * (i + 1)), 0, "the rest of the vector");
		vec_free(v[i]);
	}
}

static void groups(struct worker *w)
{
	struct comm *half = comm_split(w->all, w->rank % 2);
	struct vec *v = filled(w, 7, 1, 0);
	int odd = w->trainers / 2, members = w->rank % 2 ? odd : w->trainers - odd;
	CHECK(comm_size(half) == members, "%d in a group of %d", comm_size(half), members);
	CHECK(comm_rank(half) == w->rank / 2, "rank %d in its group", comm_rank(half));
	comm_allreduce(half, v, COMM_SUM);
	expect(v, 0, 7, (float)members, 0, "allreduce in a group");
	vec_free(v);
	comm_free(half);
}

/* Operations that are not timed: gathering unequal parts, and agreeing on a message. */
static void off_the_clock(struct worker *w)
{
	struct link *l = comm_link(w->all);
	size_t own = (size_t)(w->rank * 3 % 5), at = 0, bytes = 0;
	float part[5];
	for (size_t i = 0; i < own; i++)
		part[i] = (float)(10 * w->rank) + (float)i;
	float *all AUTOFREE = link_gather_parts(l, part, own * sizeof *part, &bytes);
	CHECK(!all == (w->rank != 0), "rank %d gathers", w->rank);
	for (int k = 0; all && k < w->trainers; k++)
		for (int i = 0; i < k * 3 % 5; i++, at++)
			CHECK(all[at] == (float)(10 * k + i), "part %d has %g", k, (double)all[at]);
	CHECK(!all || bytes == at * sizeof *all, "%zu bytes of parts", bytes);
	CHECK(!link_agree(l, NULL), "a message, although no rank has one");
	char *said AUTOFREE = link_agree(l, w->rank ? sentence("of rank %d", w->rank) : NULL);
	CHECK(w->trainers == 1 ? !said : said && strcmp(said, "of rank 1") == 0,
	      "rank %d received \"%s\"", w->rank, said ? said : "");
}

int main(int argc, char **argv)
{
	const char *transport = argc > 2 ? argv[2] : "auto";
	struct run run = {.workers = argc > 1 ? atoi(argv[1]) : 1};
	struct device dev = {.ops = argc > 2 ? &device_cuda : &device_cpu, .precision = "float32"};
	struct stats stats;
	struct loop loop = {.dev = &dev, .stats = &stats};
	struct worker w = {.run = &run, .model = &loop.model, .loop = &loop};
	stats_init(&stats, 1 << 12);
	platform_start(&w);
	dev.number = w.rank;
	dev.ops->open(&dev, 1);
	w.all = comm_world_trainers(&w, transport);
	w.model_group = comm_split(w.all, w.rank);
	w.data_group = comm_split(w.all, 0);
	/* of different lengths, as parts of a model; shorter than later vectors */
	struct vec *some = vec_new(&w, 500 + 700 * (size_t)w.rank);
	comm_prepare(w.all, some);
	vec_free(some);
	const size_t sizes[] = {0, 1, 3, 1000, BIG};
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		under_way(&w, sizes[i]);
		progresses(&w, sizes[i]);
		collectives(&w, sizes[i]);
		kinds(&w, sizes[i]);
		pairs(&w, sizes[i]);
	}
	gathers_progress(&w, BIG);
	around_a_barrier(&w);
	ordered(&w);
	beside(&w);
	in_a_row(&w);
	groups(&w);
	off_the_clock(&w);
	const char *by = comm_transport(w.all);
	CHECK(!by == (argc <= 2 || w.trainers == 1), "vectors go by %s", by ? by : "nothing");
	CHECK(!by || strcmp(transport, "auto") == 0 || strcmp(by, transport) == 0,
	      "--transport=%s, and %s was used", transport, by);
	comm_free(w.data_group);
	comm_free(w.model_group);
	if (w.rank == 0)
		puts("ok");
	comm_free(w.all);
	dev.ops->close(&dev);
	stats_fini(&stats);
	platform_stop();
	return 0;
}
