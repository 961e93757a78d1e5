/*
 * coding.c - the coded communicator: what its workers reduce or exchange travels as messages of a
 * codec (strategies/codecs/codec.h). It has the counters of the one that it was made from;
 * operations that have no codec use the floats as they are.
 *
 * A sum of u over N workers, for floats first .. first + n - 1 of a vec of P floats, which are
 * whole tensors: the model, or some of its layers:
 *
 *   gathered   all get all messages, and add them in the order of ranks
 *   scattered  part j of u goes to worker j as a message; it adds them in the order of ranks, and
 *              sends its sum to all as a message
 *   summed     messages are vectors of floats; the sum of messages is decoded, or is a part of the
 *              next round's message
 *
 * All workers compute the same floats, bit for bit, in real and in simulated runs.
 *
 * Feedback. u = given + kept, then kept = u - decoded(own message). In a scattered sum the worker
 * that adds part j also keeps what encoding the sum has lost of it. Over all workers, what is kept
 * and what was summed is then what was given. Only one vec has what is kept: when a strategy goes
 * on to another one (periodic, after its first steps), it begins with nothing.
 *
 * Pairs. Two workers that exchange their models w keep m, which both know, at first the initial
 * model. Each sends q = encoded(w - m). The other's model is then taken as w + q_other - q_own, so
 * that the average of the two is w + (q_other - q_own) / 2: it does not change their sum. m gains
 * (q_own + q_other) / 2. So w - m loses q_own: what a codec has lost is in the next message.
 * (CHOCO, arXiv 1902.00340, also sends changes since a known model, but one that all neighbours
 * know.)
 *
 * Vectors of a GPU. Of codecs with a form, kernels encode and decode them where they are, and what
 * is kept is there, too: only messages cross to the host and back. Otherwise, and of pairs, the
 * floats are copied to the host and back.
 *
 * Memory of a worker: P floats for what is kept, P for each partner of a pair, and the messages. A
 * checkpoint has what is kept, and of pairs m of all other workers.
 */
#include "runtime/comm/coding.h"
#include "runtime/config/run.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum given { GIVEN_NONE, GIVEN_GRADIENT, GIVEN_OTHER };

struct buffer {
	float *x;
	size_t room; /* [floats] */
};

struct sum { /* under way */
	size_t first, n;
	float *x;              /* the floats: of the vec, which may be on a GPU, or staged */
	struct buffer in, out; /* messages */
	struct tensor *tensor; /* [tensors + 1] of these floats */
	struct code code;
	int *counts, *firsts, *counts_in, *firsts_in; /* [workers] of messages, in floats */
	size_t apart; /* length of a message that is sent by itself; 0: MPI gathers or scatters */
};

struct coding {
	struct worker *w;
	const struct codec *codec;
	size_t n; /* P */
	struct tensor *tensor;
	size_t tensors;
	int rank, size;
	bool data, feedback;
	/* A GPU that encodes and decodes, and holds the floats; NULL: the host does. There: the
	 * last message; what is kept. */
	struct device *gpu;
	struct code_form form;
	struct vec *wire, *kept_there;
	float *kept;  /* [P], of the GPU or the host; NULL: no feedback */
	float *state; /* of the codec: [states] */
	size_t states;
	float *origin; /* [P]: the initial model, for pairs */
	float *staged; /* [P], for pairs [2 P]: of vectors of a device with its own memory */
	float *own;    /* [P], of an exchange */
	float **known; /* [workers][P]: m of each partner; NULL: none yet */
	struct progress {
		int64_t messages, given;
	} at; /* in checkpoints */
	struct sum sum[LINK_SLOTS];
	struct sum asked; /* of coding_sum_bytes, coding_exchange_bytes */
};

/* ---- Messages ---- */

static struct code code_of(const struct coding *k, struct sum *s, size_t first, size_t n)
{
	if (!s->tensor)
		s->tensor = must(malloc((k->tensors + 1) * sizeof *s->tensor));
	return (struct code){.opts = k->w->codec_opts,
			     .n = n,
			     .tensor = s->tensor,
			     .tensors = tensors_cut(k->tensor, k->tensors, first, n, s->tensor),
			     .workers = k->size};
}

static size_t first_of_part(const struct coding *k, const struct code *whole, int j)
{
	size_t block = k->codec->block ? k->codec->block(whole->opts) : 1;
	size_t blocks = (whole->n + block - 1) / block;
	return smaller(part_of(blocks, (size_t)k->size, (size_t)j) * block, whole->n);
}

/* Of part j, a row of its own. */
static struct code code_of_part(const struct coding *k, const struct code *whole, int j,
				struct tensor *row)
{
	struct code c = *whole;
	c.n = first_of_part(k, whole, j + 1) - first_of_part(k, whole, j);
	*row = (struct tensor){.first = 0, .rows = 1, .columns = c.n};
	c.tensor = row;
	c.tensors = 1;
	c.key += 0x9e3779b97f4a7c15u * (uint64_t)(1 + j);
	return c;
}

/* [floats] */
static size_t length_of_message(const struct coding *k, const struct code *c)
{
	size_t bytes = k->codec->bytes(c);
	CHECK(bytes % sizeof(float) == 0, "codec %s: a message of %zu bytes is not whole words",
	      k->codec->plugin.name, bytes);
	return bytes / sizeof(float);
}

static void buffer_free(const struct coding *k, struct buffer *b)
{
	if (k->gpu && b->x)
		k->gpu->ops->peer->pinned_free(k->gpu, b->x);
	else
		free(b->x);
}

/* Without data, messages have lengths only. */
static float *buffer_grown(const struct coding *k, struct buffer *b, size_t n)
{
	if (!k->data)
		return link_nowhere();
	if (b->room < n) {
		buffer_free(k, b);
		b->x = k->gpu ? k->gpu->ops->peer->pinned_new(k->gpu, n)
			      : must(aligned_alloc(64, (n * sizeof *b->x + 64) / 64 * 64));
		b->room = n;
	}
	return b->x;
}

static void encode(const struct coding *k, const struct code *c, float *wire, const float *x)
{
	nsec since = clock_now();
	if (k->gpu) {
		size_t words = length_of_message(k, c);
		vec_room("a codec", "message", k->wire, words);
		k->gpu->ops->peer->encode(k->gpu, &k->form, c, k->wire->data, words, x);
		k->gpu->ops->get(k->gpu, wire, k->wire->data, words);
	} else if (k->data) {
		k->codec->encode(c, wire, x);
	}
	code_charge(k->codec, c->opts, c->n, false);
	traced(k->w->loop->stats, TRACE_PACK, since, clock_now(), -1);
}

/* wire NULL: the message that the GPU has encoded last. */
static bool decode_there(const struct coding *k, const struct code *c, float *y, const float *wire,
			 bool add)
{
	size_t words = length_of_message(k, c);
	vec_room("a codec", "message", k->wire, words);
	if (wire)
		k->gpu->ops->put(k->gpu, k->wire->data, wire, words);
	return k->gpu->ops->peer->decode(k->gpu, &k->form, c, y, k->wire->data, words, add);
}

static void decode(const struct coding *k, const struct code *c, float *y, const float *wire,
		   bool add, int from)
{
	bool right = k->gpu ? decode_there(k, c, y, wire, add)
			    : !k->data || k->codec->decode(c, y, wire, add);
	code_charge(k->codec, c->opts, c->n, true);
	if (!right)
		failure("--codec=%s: worker %d received a message from worker %d that the codec "
			"cannot have made; are all processes of the same version?",
			k->codec->plugin.name, k->rank, from);
}

/* ---- Feedback ---- */

/* Of these floats; NULL: no feedback, or no data. */
static float *kept_at(const struct coding *k, size_t first)
{
	return k->kept ? k->kept + first : NULL;
}

/* y += a x */
static void add_times(const struct coding *k, float *y, float a, const float *x, size_t n)
{
	if (k->gpu)
		k->gpu->ops->axpy(k->gpu, y, a, x, n);
	for (size_t i = 0; !k->gpu && i < n; i++)
		y[i] += a * x[i];
}

/* x += kept */
static void add_kept(const struct coding *k, const struct sum *s)
{
	if (k->kept)
		add_times(k, s->x, 1, k->kept + s->first, s->n);
	if (k->feedback)
		world_charge((double)s->n);
}

/* kept = x - decoded(own message), which was encoded last */
static void keep_rest(const struct coding *k, const struct code *c, const float *wire,
		      const float *x, float *kept)
{
	if (!k->feedback)
		return;
	decode(k, c, kept, k->gpu ? NULL : wire, false, k->rank);
	if (k->gpu) {
		k->gpu->ops->scale(k->gpu, kept, -1, c->n);
		add_times(k, kept, 1, x, c->n);
	}
	for (size_t i = 0; !k->gpu && kept && i < c->n; i++)
		kept[i] = x[i] - kept[i];
	world_charge((double)c->n);
}

/* ---- Sums ---- */

/* MPI lays messages behind each other. SMPI copies those that begin beyond the room of messages
 * without data, and MPI counts in int. Longer sums of lengths only therefore go from worker to
 * worker, each message by itself: they take as long, but do not travel while workers compute. */
static bool lies_in_a_row(const struct coding *k, size_t words)
{
	return k->data || words <= NOWHERE_BYTES / sizeof(float);
}

static void send_apart(const struct coding *k, struct link *l, size_t n)
{
	float *x = link_nowhere();
	for (int j = 1; j < k->size; j++)
		link_shift(l, (k->rank + j) % k->size, x, (k->rank + k->size - j) % k->size, x, n);
}

static void make_lists(const struct coding *k, struct sum *s)
{
	size_t n = (size_t)k->size;
	s->counts = must(calloc(4 * n, sizeof *s->counts));
	s->firsts = s->counts + n;
	s->counts_in = s->counts + 2 * n;
	s->firsts_in = s->counts + 3 * n;
}

static void start_gathered(struct coding *k, struct link *l, int slot, struct sum *s)
{
	size_t n = length_of_message(k, &s->code);
	float *out = buffer_grown(k, &s->out, n);
	s->apart = lies_in_a_row(k, n * (size_t)k->size) ? 0 : n;
	CHECK(s->apart || n * (size_t)k->size <= INT_MAX, "messages of %zu words to %d workers", n,
	      k->size);
	float *in = buffer_grown(k, &s->in, n * (size_t)k->size);
	encode(k, &s->code, out, s->x);
	keep_rest(k, &s->code, out, s->x, kept_at(k, s->first));
	if (s->apart)
		return;
	for (int j = 0; j < k->size; j++) {
		s->counts[j] = (int)n;
		s->firsts[j] = (int)n * j;
	}
	link_allgather_start(l, slot, in, s->counts, s->firsts, out, (int)n);
}

static void end_gathered(struct coding *k, struct sum *s)
{
	size_t n = length_of_message(k, &s->code);
	const float *in = buffer_grown(k, &s->in, 0);
	for (int j = 0; j < k->size; j++)
		decode(k, &s->code, s->x, in + (k->data ? n * (size_t)j : 0), j > 0, j);
}

static void start_scattered(struct coding *k, struct link *l, int slot, struct sum *s)
{
	struct tensor row;
	size_t all = 0, longest = 0;
	for (int j = 0; j < k->size; j++) {
		struct code part = code_of_part(k, &s->code, j, &row);
		size_t n = length_of_message(k, &part);
		s->firsts[j] = (int)all;
		s->counts[j] = (int)n;
		all += n;
		longest = n > longest ? n : longest;
	}
	s->apart = lies_in_a_row(k, all) ? 0 : longest;
	CHECK(s->apart || all <= INT_MAX, "a message of more than %d words", INT_MAX);
	float *out = buffer_grown(k, &s->out, all);
	for (int j = 0; j < k->size; j++) {
		struct code part = code_of_part(k, &s->code, j, &row);
		size_t first = first_of_part(k, &s->code, j);
		float *wire = out + (k->data ? s->firsts[j] : 0);
		const float *x = s->x + (k->data ? first : 0);
		encode(k, &part, wire, x);
		keep_rest(k, &part, wire, x, kept_at(k, s->first + first));
	}
	if (s->apart)
		return;
	for (int j = 0; j < k->size; j++) {
		s->counts_in[j] = s->counts[k->rank];
		s->firsts_in[j] = s->counts[k->rank] * j;
	}
	float *in = buffer_grown(k, &s->in, (size_t)s->counts[k->rank] * (size_t)k->size);
	link_alltoall_start(l, slot, in, s->counts_in, s->firsts_in, out, s->counts, s->firsts);
}

static void end_scattered(struct coding *k, struct link *l, struct sum *s)
{
	struct tensor row;
	struct code own = code_of_part(k, &s->code, k->rank, &row);
	size_t first = first_of_part(k, &s->code, k->rank), n = (size_t)s->counts[k->rank];
	float *y = s->x + (k->data ? first : 0);
	float *kept = kept_at(k, s->first + first);
	const float *in = buffer_grown(k, &s->in, 0);
	for (int j = 0; j < k->size; j++)
		decode(k, &own, y, in + (k->data ? n * (size_t)j : 0), j > 0, j);
	own.total = true;
	own.key = ~own.key;
	float *out = buffer_grown(k, &s->out, 0);
	encode(k, &own, out, y);
	if (kept)
		add_times(k, kept, 1, y, own.n);
	float *all = buffer_grown(k, &s->in,
				  (size_t)s->firsts[k->size - 1] + (size_t)s->counts[k->size - 1]);
	if (s->apart)
		send_apart(k, l, s->apart);
	else
		link_allgather(l, all, s->counts, s->firsts, out, (int)n);
	for (int j = 0; j < k->size; j++) {
		struct code part = code_of_part(k, &s->code, j, &row);
		part.total = true;
		size_t at = first_of_part(k, &s->code, j);
		decode(k, &part, s->x + (k->data ? at : 0), all + (k->data ? s->firsts[j] : 0),
		       false, j);
	}
	if (kept)
		add_times(k, kept, -1, y, own.n);
	if (k->feedback)
		world_charge(2 * (double)own.n);
}

static void start_summed(struct coding *k, struct link *l, int slot, struct sum *s)
{
	size_t n = length_of_message(k, &s->code);
	float *out = buffer_grown(k, &s->out, n);
	encode(k, &s->code, out, s->x);
	if (!k->codec->joint)
		keep_rest(k, &s->code, out, s->x, kept_at(k, s->first));
	link_allreduce_start(l, slot, out, n);
}

static void end_summed(struct coding *k, struct link *l, struct sum *s)
{
	struct buffer *now = &s->out, *before = &s->in, *swap;
	float *wire = buffer_grown(k, now, 0);
	size_t n = length_of_message(k, &s->code);
	world_charge_sum(n, k->size);
	for (s->code.round = 1; s->code.round < k->codec->rounds; s->code.round++) {
		swap = now, now = before, before = swap;
		s->code.sum = wire;
		n = length_of_message(k, &s->code);
		wire = buffer_grown(k, now, n);
		encode(k, &s->code, wire, s->x);
		link_allreduce(l, wire, n, COMM_SUM);
		world_charge_sum(n, k->size);
	}
	s->code.round--;
	float *kept = k->codec->joint ? kept_at(k, s->first) : NULL;
	if (kept)
		memcpy(kept, s->x, s->n * sizeof *kept);
	decode(k, &s->code, s->x, wire, false, k->rank);
	for (size_t i = 0; kept && i < s->n; i++)
		kept[i] -= s->x[i] / (float)k->size;
	if (k->feedback && k->codec->joint)
		world_charge(2 * (double)s->n);
	s->code.round = 0;
}

/* Where the codec's state for the floats from `first` on is. */
static float *state_at(const struct coding *k, struct sum *s, size_t first)
{
	if (!k->state || first == 0)
		return k->state;
	struct code c = code_of(k, s, 0, first);
	return k->state + k->codec->state(&c);
}

/* What a worker sends in a sum, or with rank -1 a worker on average [bytes]. */
static double sent_of(const struct coding *k, struct code c, int rank)
{
	double size = k->size, floats = 0;
	int rounds = k->codec->rounds ? k->codec->rounds : 1;
	struct tensor row;
	if (k->codec->sums == CODEC_GATHERED)
		floats = (size - 1) * (double)length_of_message(k, &c);
	for (int j = 0; k->codec->sums == CODEC_SCATTERED && j < k->size; j++) {
		struct code part = code_of_part(k, &c, j, &row);
		double one = (double)length_of_message(k, &part);
		floats += rank < 0    ? 2 * (size - 1) / size * one
			  : j == rank ? (size - 1) * one
				      : one;
	}
	double bytes = sizeof(float) * floats;
	for (; k->codec->sums == CODEC_SUMMED && c.round < rounds; c.round++) {
		size_t all = 2 * (size_t)(k->size - 1) * length_of_message(k, &c);
		bytes += rank < 0 ? sizeof(float) * (double)all / size
				  : (double)share_of_bytes(all, rank, k->size);
	}
	return bytes;
}

double coding_sum_bytes(struct coding *k, size_t first, size_t n)
{
	return sent_of(k, code_of(k, &k->asked, first, n), -1);
}

int64_t coding_start(struct coding *k, struct link *l, int slot, struct vec *v, size_t first,
		     size_t n)
{
	struct sum *s = &k->sum[slot];
	enum given what = v == k->w->grad ? GIVEN_GRADIENT : GIVEN_OTHER;
	CHECK(v->n == k->n, "a coded sum of a vec of %zu floats, not %zu", v->n, k->n);
	bool other = what != (enum given)k->at.given && k->kept;
	if (other && k->gpu)
		vec_fill(k->kept_there, 0);
	else if (other)
		memset(k->kept, 0, v->n * sizeof *k->kept);
	CHECK(!k->feedback || k->at.given != GIVEN_OTHER || what == GIVEN_OTHER,
	      "a strategy goes back to coded sums of gradients: feedback has room for one vec");
	k->at.given = what;
	if (!s->counts)
		make_lists(k, s);
	s->first = first;
	s->n = n;
	s->x = k->staged ? k->staged + first : vec_floats(v, first);
	if (k->staged)
		v->dev->ops->get(v->dev, s->x, v->data + first, n);
	float *state = state_at(k, s, first);
	s->code = code_of(k, s, first, n);
	s->code.state = state;
	s->code.common = rng_seed(k->w->run->seed, RNG_CODEC, k->at.messages);
	s->code.key = rng_seed((int64_t)(s->code.common >> 1), RNG_CODEC, 1 + k->rank);
	k->at.messages++;
	add_kept(k, s);
	switch (k->codec->sums) {
	case CODEC_GATHERED:
		start_gathered(k, l, slot, s);
		break;
	case CODEC_SCATTERED:
		start_scattered(k, l, slot, s);
		break;
	case CODEC_SUMMED:
		start_summed(k, l, slot, s);
	}
	return (int64_t)sent_of(k, s->code, k->rank);
}

void coding_end(struct coding *k, struct link *l, int slot, struct vec *v)
{
	struct sum *s = &k->sum[slot];
	if (k->codec->sums == CODEC_SUMMED)
		link_allreduce_wait(l, slot);
	else if (s->apart)
		send_apart(k, l, s->apart);
	else
		link_start_wait(l, slot);
	switch (k->codec->sums) {
	case CODEC_GATHERED:
		end_gathered(k, s);
		break;
	case CODEC_SCATTERED:
		end_scattered(k, l, s);
		break;
	case CODEC_SUMMED:
		end_summed(k, l, s);
	}
	if (k->staged)
		v->dev->ops->put(v->dev, v->data + s->first, s->x, s->n);
	device_sync(k->gpu);
}

/* ---- Pairs ---- */

double coding_exchange_bytes(struct coding *k, size_t n)
{
	struct code c = code_of(k, &k->asked, 0, n);
	return sizeof(float) * (double)length_of_message(k, &c);
}

static float *known_of(struct coding *k, int peer)
{
	size_t n = k->data ? k->n : 0;
	if (!k->known[peer]) {
		k->known[peer] = must(malloc((n + 1) * sizeof **k->known));
		memcpy(k->known[peer], k->origin, n * sizeof **k->known);
	}
	return k->known[peer];
}

void coding_exchange(struct coding *k, struct link *l, int peer, const struct vec *out,
		     struct vec *in)
{
	struct sum *s = &k->sum[0];
	size_t n = out->n;
	CHECK(k->origin && n == k->n, "a coded exchange of %zu floats", n);
	s->code = code_of(k, s, 0, n);
	size_t words = length_of_message(k, &s->code);
	float *wire = buffer_grown(k, &s->out, words), *got = buffer_grown(k, &s->in, words);
	/* both ends have made the same number of exchanges with each other, but not with others */
	int low = peer < k->rank ? peer : k->rank, high = peer < k->rank ? k->rank : peer;
	uint64_t pair = (uint64_t)k->w->step << 32 | (uint64_t)low << 16 | (uint64_t)high;
	s->code.common = rng_seed(k->w->run->seed, RNG_CODEC, (int64_t)pair);
	s->code.key = rng_seed((int64_t)(s->code.common >> 1), RNG_CODEC, 1 + k->rank);
	s->code.workers = 2;
	float *m = known_of(k, peer), *own = k->own,
	      *its = k->staged ? k->staged : vec_floats(in, 0);
	const float *w = vec_floats(out, 0);
	if (k->staged) {
		out->dev->ops->get(out->dev, k->staged + n, out->data, n);
		w = k->staged + n;
	}
	for (size_t i = 0; k->data && i < n; i++)
		its[i] = w[i] - m[i];
	encode(k, &s->code, wire, its);
	link_shift(l, peer, wire, peer, got, words);
	decode(k, &s->code, own, wire, false, k->rank);
	decode(k, &s->code, its, got, false, peer);
	for (size_t i = 0; k->data && i < n; i++) {
		float other = its[i];
		m[i] += 0.5f * (own[i] + other);
		its[i] = w[i] + (other - own[i]);
	}
	world_charge(4 * (double)n);
	if (k->staged)
		in->dev->ops->put(in->dev, in->data, its, n);
}

/* ---- Opening ---- */

/* Messages of all floats: sums that are not under way at the same time use the first slot. Returns
 * the length of the longest message [floats]. */
static size_t make_message_room(struct coding *k, struct sum *s, struct code c)
{
	size_t all = 0, longest = 0;
	struct tensor row;
	for (int j = 0; k->codec->sums == CODEC_SCATTERED && j < k->size; j++) {
		struct code part = code_of_part(k, &c, j, &row);
		size_t n = length_of_message(k, &part);
		all += n;
		longest = n > longest ? n : longest;
	}
	for (; k->codec->sums != CODEC_SCATTERED && c.round <= k->codec->rounds; c.round++) {
		size_t n = length_of_message(k, &c);
		longest = n > longest ? n : longest;
		all = longest;
	}
	if (k->w->loop->strategy->codes == CODES_PAIRS)
		all = longest = length_of_message(k, &c);
	buffer_grown(k, &s->out, all);
	buffer_grown(k, &s->in,
		     k->codec->sums == CODEC_SUMMED ? longest : longest * (size_t)k->size);
	return longest;
}

struct coding *coding_new(struct worker *w, int rank, int size, const struct vec *v,
			  const struct tensor *tensor, size_t tensors)
{
	struct coding *k = must(calloc(1, sizeof *k));
	const size_t n = vec_len(v);
	bool pairs = w->loop->strategy->codes == CODES_PAIRS;
	*k = (struct coding){.w = w,
			     .codec = w->codec,
			     .n = n,
			     .tensor = must(malloc((tensors + 1) * sizeof *tensor)),
			     .tensors = tensors,
			     .rank = rank,
			     .size = size,
			     .data = vec_has_data(w->param),
			     .feedback = strcmp(w->run->codec_feedback, "true") == 0 && !pairs};
	memcpy(k->tensor, tensor, tensors * sizeof *tensor);
	const bool far = k->data && w->loop->dev->ops->peer;
	if (far && !pairs && k->codec->form)
		k->form = k->codec->form(w->codec_opts);
	k->gpu = k->form.kind != FORM_HOST ? w->loop->dev : NULL;
	if (k->gpu && k->feedback)
		k->kept_there = vec_new(w, n);
	if (k->data && k->feedback)
		k->kept = k->gpu ? k->kept_there->data : must(calloc(n + 1, sizeof *k->kept));
	if (far && !k->gpu)
		k->staged = must(calloc((pairs ? 2 : 1) * n + 1, sizeof *k->staged));
	if (pairs) {
		k->known = must(calloc((size_t)size, sizeof *k->known));
		k->own = must(calloc(k->data ? n + 1 : 1, sizeof *k->own));
		k->origin = must(calloc(k->data ? n + 1 : 1, sizeof *k->origin));
		if (k->data)
			vec_get(w->param, k->origin);
	}
	struct code c = code_of(k, &k->sum[0], 0, n);
	k->states = k->data && k->codec->state ? k->codec->state(&c) : 0;
	k->state = k->states ? must(calloc(k->states, sizeof *k->state)) : NULL;
	make_lists(k, &k->sum[0]);
	size_t longest = make_message_room(k, &k->sum[0], c);
	k->wire = k->gpu ? vec_new(w, longest) : NULL;
	code_of(k, &k->asked, 0, n);
	return k;
}

void *coding_kept(struct coding *k, int i, size_t *bytes)
{
	enum { AT, KEPT, STATE, KNOWN };
	const bool pair = i >= KNOWN && k->known && k->data && i - KNOWN != k->rank;
	*bytes = i == AT      ? sizeof k->at
		 : i == STATE ? k->states * sizeof *k->state
			      : k->n * sizeof *k->kept;
	return i == AT      ? (void *)&k->at
	       : i == KEPT  ? (k->gpu ? NULL : k->kept)
	       : i == STATE ? k->state
	       : pair       ? known_of(k, i - KNOWN)
			    : NULL;
}

struct vec *coding_kept_there(struct coding *k)
{
	return k->kept_there;
}

void coding_free(struct coding *k)
{
	if (!k)
		return;
	for (int i = 0; i < LINK_SLOTS; i++) {
		buffer_free(k, &k->sum[i].in);
		buffer_free(k, &k->sum[i].out);
		free(k->sum[i].tensor);
		free(k->sum[i].counts);
	}
	free(k->asked.tensor);
	free(k->tensor);
	for (int i = 0; k->known && i < k->size; i++)
		free(k->known[i]);
	free(k->known);
	if (!k->gpu)
		free(k->kept);
	vec_free(k->kept_there);
	vec_free(k->wire);
	free(k->state);
	free(k->origin);
	free(k->staged);
	free(k->own);
	free(k);
}
