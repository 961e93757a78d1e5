/*
 * validate_random.c - randomly drawn cells for mvbench validate: all strategies; on two workers, or
 * on three or four whose steps have a given time, because a machine of two cores can run these.
 */
#include "results/ask/ask.h"
#include "runtime/config/config.h"
#include "sim/validate.h"

#include <math.h>
#include <string.h>

static const char *const workload_names[] = {"softmax", "mlp", "tanh_mlp", "lenet", "resnet"};
enum { BATCH_LEAST = 20, BATCH_MOST = 300, INTERVAL_MOST = 20, EPOCHS = 3 };
/* a short epoch of the largest net; and longer steps than those of the two smallest take */
#define SMALL_RESNET "resnet.depth = 20\ntrain-rows = 512\n"
#define GIVEN_TIME   "step-time = 10ms\n"

static int64_t whole(uint64_t *rng, int64_t n)
{
	return (int64_t)(rng_uniform(rng) * (double)n);
}

/* Log-uniform: as many below the geometric mean of the two as above; both are possible. */
static int64_t of_any_size(uint64_t *rng, double least, double most)
{
	return (int64_t)(least * pow((most + 1) / least, rng_uniform(rng)));
}

char *random_cells(int64_t n, int64_t seed)
{
	struct text t;
	FILE *f = text_open(&t);
	uint64_t rng = rng_seed(seed, RNG_CELLS, 0);
	int64_t all = 0;
	while (strategies[all])
		all++;
	fprintf(f, "[defaults]\nepochs = %d\nlr = 0.001\n", EPOCHS); /* no cell diverges */
	for (int64_t i = 0; i < n; i++) {
		const struct strategy *s = strategies[whole(&rng, all)];
		int64_t kind = whole(&rng, sizeof workload_names / sizeof *workload_names);
		const char *workload = workload_names[kind];
		int64_t batch = of_any_size(&rng, BATCH_LEAST, BATCH_MOST);
		int64_t interval = of_any_size(&rng, 1, INTERVAL_MOST);
		bool many = whole(&rng, 2) && kind < 2 && !s->local && !s->model_workers;
		bool overlaps = whole(&rng, 2) && strcmp(s->plugin.name, "allreduce") == 0;
		int64_t workers = s->local ? 1 : many ? 3 + whole(&rng, 2) : 2;
		fprintf(f,
			"[cell %lld]\nworkload = %s\nstrategy = %s\nworkers = %lld\n"
			"batch = %lld\nsync-every = %lld\n%s%s%s",
			(long long)i + 1, workload, s->plugin.name, (long long)workers,
			(long long)batch, strategy_has_interval(s) ? (long long)interval : 1,
			many ? GIVEN_TIME : "", overlaps ? "allreduce.overlap = true\n" : "",
			strcmp(workload, "resnet") == 0 ? SMALL_RESNET : "");
	}
	return text_close(&t);
}
