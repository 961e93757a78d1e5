/*
 * gossip.c - decentralised averaging: trainers average in pairs; there is no sum over all.
 *
 * This is neither D-PSGD (Lian et al., NIPS 2017, arXiv 1705.09056), whose gradient is of the model
 * before the averaging, nor AD-PSGD (Lian et al., ICML 2018, arXiv 1710.06952), whose workers do
 * not wait: here a pair averages after its steps, and both wait for each other, on a fixed schedule
 * of rounds as in SGP (Assran et al., ICML 2019, arXiv 1811.10792).
 *
 *   each step:               v = m v + g;  w -= lr v            local
 *   every X steps, round t:  w_i = w_j = (w_i + w_j) / 2        for each pair (i, j) of the round
 *
 * ring:      of an even N, rounds pair (1, 2), ..., (N - 1, 0) and (0, 1), (2, 3), ... in turn; of
 *            an odd N worker t mod N sits out, and the others pair up along the ring after it
 * hypercube: j = i xor 2^(t mod log2 N): log2 N rounds without steps between would average all
 *
 * A round does not change the mean over the trainers, which is the evaluated model. It sends P
 * floats a trainer (none for one that sits out), for any N; an averaging of all sends 2 (N - 1) / N
 * P. It waits for one neighbour, which has waited for its own: in simulations a quarter longer than
 * the slower of two workers takes.
 */
#include "mvbench.h"

#include <string.h>

struct gossip_opts {
	const char *schedule;
};

struct gossip {
	struct vec *other; /* the neighbour's w */
};

#define OWNER struct gossip_opts
static const struct option gossip_options[] = {
	OPTION(schedule, CHOICE, "schedule", "ring",
	       "which workers average in pairs: neighbours on a ring, or workers whose ranks "
	       "differ in one bit",
	       .choices = "ring|hypercube"),
	{0},
};

static bool gossip_on_hypercube(const struct gossip_opts *o)
{
	return strcmp(o->schedule, "hypercube") == 0;
}

static char *gossip_refuse(const struct run *run, const void *opts)
{
	int64_t n = run_workers(run);
	if (strcmp(run_reduce(run), "sum") == 0)
		return sentence(
			"--reduce=sum: gossip averages the models of two workers, and makes no "
			"sum over all workers; use --reduce=mean");
	if (gossip_on_hypercube(opts) && (n & (n - 1)))
		return sentence("--workers=%d: a hypercube needs a power of two (2, 4, 8, ...); "
				"give one, or --gossip.schedule=ring",
				(int)n);
	return NULL;
}

static void gossip_init(struct worker *w)
{
	struct gossip *s = w->state;
	s->other = vec_new(w, vec_len(w->param));
}

/* The partner of `rank` of n in round t; itself if it sits out. */
static int gossip_on_ring(int rank, int n, int64_t t)
{
	int turn = (int)((t + 1) % (n % 2 ? n : 2));
	int place = (rank - turn + n) % n; /* pairs are places (0, 1), (2, 3), ... */
	return (place ^ 1) < n ? ((place ^ 1) + turn) % n : rank;
}

static int gossip_on_cube(int rank, int n, int64_t t)
{
	int bits = 0;
	while (1 << bits < n)
		bits++;
	return rank ^ (1 << (t % bits));
}

static void gossip_step(struct worker *w)
{
	struct gossip *s = w->state;
	int rank = comm_rank(w->data_group), n = comm_size(w->data_group);
	int64_t every = run_sync_every(w->run), t = w->step / every - 1;
	local_step(w, 1);
	if (n == 1 || w->step % every)
		return;
	int peer = gossip_on_hypercube(w->opts) ? gossip_on_cube(rank, n, t)
						: gossip_on_ring(rank, n, t);
	consensus_mark(w);
	if (peer == rank)
		return;
	comm_exchange(w->coded, peer, w->param, s->other);
	vec_scale(w->param, 0.5f); /* exact, so both ends of a pair round alike */
	vec_axpy(w->param, 0.5f, s->other);
	local_met(w);
}

static void gossip_fini(struct worker *w)
{
	struct gossip *s = w->state;
	vec_free(s->other);
}

static double gossip_bytes(const struct worker *w)
{
	int n = comm_size(w->data_group);
	double paired = n - n % 2; /* trainers in a round */
	return paired / n * comm_exchange_bytes(w->coded, vec_len(w->param)) /
	       (double)run_sync_every(w->run);
}

const struct strategy strategy_gossip = {
	.plugin = {.name = "gossip",
		   .summary =
			   "decentralised: every X steps a worker averages with one neighbour, and "
			   "waits for it; neither D-PSGD nor AD-PSGD",
		   .options = gossip_options,
		   .opts_size = sizeof(struct gossip_opts)},
	.state_size = sizeof(struct gossip),
	.refuse = gossip_refuse,
	.init = gossip_init,
	.step = gossip_step,
	.fini = gossip_fini,
	.average = true,
	.codes = CODES_PAIRS,
	.meets = MEETS_ALONE,
	.bytes_per_step = gossip_bytes,
	.epoch_time = "steps (step + wait for a neighbour / sqrt X + message / X)",
};
