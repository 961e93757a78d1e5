/*
 * validate_random.c - randomly drawn cells for mvbench validate: all strategies, optimisers and
 * codecs, with and without servers.
 *
 * Half of the cells are to communicate for 5 % of an epoch or more: there a wrong time of
 * communication shows. They have small batches, and few steps between synchronisations. In a lab
 * the interval follows from the rate of the links.
 *
 * On this machine a worker computes at full speed if it has a core; more workers than cores have
 * steps of a given time, as all workers of a lab have, which share the cores. A drawn cell that is
 * refused, such as a codec of a strategy that sends none, is drawn again.
 */
#include "runtime/config/clusters.h"
#include "runtime/config/config.h"
#include "runtime/config/plan.h"
#include "sim/validate.h"
#include "strategies/codecs/codec.h"
#include "strategies/optimizers/optimizer.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

/* Learning rates are a quarter of the recipes', so that no cell diverges. */
static const struct {
	const char *name, *lr;
	const char *options[4][2];
	int params; /* of those that are cheap enough for given step times; 0: it is not */
} workload[] = {
	{"softmax", "0.03", {{NULL}}, 7850},
	{"mlp", "0.005", {{NULL}}, 101770},
	{"tanh_mlp", "0.025", {{NULL}}, 0},
	{"gpt",
	 "0.01",
	 {{"gpt.layers", "2"}, {"gpt.width", "32"}, {"gpt.heads", "4"}, {"train-rows", "2048"}},
	 0},
	{"lenet", "0.005", {{NULL}}, 0},
	{"resnet", "0.025", {{"resnet.depth", "20"}, {"train-rows", "512"}}, 0},
};
enum { WORKLOADS = sizeof workload / sizeof *workload, TALKATIVE = 4 /* the first ones */ };

/* Of other optimisers than these, the workload's. */
static const struct setting optimizer_lr[] = {{"adamw", "0.0005"}, {"adagrad", "0.005"},
					      {"lamb", "0.002"},   {"lion", "0.0001"},
					      {"muon", "0.005"},   {NULL, NULL}};
/* The first ones have mlp, as its messages are long enough; the others softmax. */
static const char *const rates[] = {"1gbit",  "500mbit", "200mbit", "100mbit",
				    "50mbit", "20mbit",  "10mbit"};
enum {
	BATCH_LEAST = 20,
	BATCH_MOST = 300,
	BATCH_TALKS = 60,
	INTERVAL_MOST = 20,
	INTERVAL_TALKS = 4,
	EPOCHS = 3,
	WORKERS = 4,
	LAB_STEPS = 64, /* of an epoch */
	RATES = sizeof rates / sizeof *rates,
	RATES_FAST = 4,
	TRIES = 200
};
static const double step_s = 0.01, lab_step_s = 0.02, share_talks = 0.05, share_most = 0.6;

struct drawn {
	struct setting setting[24];
	char value[24][32];
	size_t n;
};

__attribute__((format(printf, 3, 4))) static void put(struct drawn *d, const char *name,
						      const char *format, ...)
{
	va_list args;
	CHECK(d->n < sizeof d->setting / sizeof *d->setting, "a cell with %zu options", d->n);
	va_start(args, format);
	vsnprintf(d->value[d->n], sizeof d->value[0], format, args);
	va_end(args);
	d->setting[d->n] = (struct setting){name, d->value[d->n]};
	d->n++;
}

static int64_t whole(uint64_t *rng, int64_t n)
{
	return (int64_t)(rng_uniform(rng) * (double)n);
}

/* Log-uniform: as many below the geometric mean of the two as above; both are possible. */
static int64_t of_any_size(uint64_t *rng, double least, double most)
{
	return (int64_t)(least * pow((most + 1) / least, rng_uniform(rng)));
}

/* Of a list that ends at NULL. */
static int64_t length(const void *list)
{
	const void *const *at = list;
	int64_t n = 0;
	while (at[n])
		n++;
	return n;
}

static void draw_optimizer(struct drawn *d, uint64_t *rng, const char *lr)
{
	const struct optimizer *o = optimizers[whole(rng, length(optimizers))];
	for (const struct setting *s = optimizer_lr; s->name; s++)
		lr = strcmp(s->name, o->plugin.name) == 0 ? s->value : lr;
	put(d, "optimizer", "%s", o->plugin.name);
	put(d, "lr", "%s", lr);
}

/* The steps between two synchronisations in which the model's floats, each sent twice, take this
 * share of the time. */
static int64_t interval_of(int params, const char *rate, double share)
{
	const double wire_s = 2 * 32.0 * params / bit_rate(rate),
		     between_s = wire_s * (1 - share) / share;
	return (int64_t)fmin(fmax(round(between_s / lab_step_s), 1), LAB_STEPS);
}

/* Returns the rate of the links; NULL: of no lab. */
static const char *random_draw(struct drawn *d, uint64_t *rng, int64_t hosts)
{
	static const char *const overlaps[] = {"false", "true", "next"};
	const struct strategy *s;
	do
		s = strategies[whole(rng, length(strategies))];
	while (hosts && s->local); /* it needs no second host */
	const bool talks = whole(rng, 2);
	const int64_t wire = whole(rng, RATES);
	const int64_t kind = hosts ? wire < RATES_FAST : whole(rng, talks ? TALKATIVE : WORKLOADS);
	const bool paced = hosts || (workload[kind].params && !s->model_workers && whole(rng, 2));
	const int64_t most = hosts                      ? (hosts < WORKERS ? hosts : WORKERS)
			     : paced                    ? WORKERS
			     : usable_cores() < WORKERS ? usable_cores()
							: WORKERS;
	const int64_t workers = s->local ? 1 : most > 2 ? 2 + whole(rng, most - 1) : 2;
	const int64_t batch = of_any_size(rng, BATCH_LEAST, talks ? BATCH_TALKS : BATCH_MOST);
	int64_t interval = of_any_size(rng, 1, talks ? INTERVAL_TALKS : INTERVAL_MOST);
	const double share = talks ? share_talks + rng_uniform(rng) * (share_most - share_talks)
				   : (1 - rng_uniform(rng)) * share_talks;
	if (hosts)
		interval = interval_of(workload[kind].params, rates[wire], share);
	interval = strategy_has_interval(s) ? interval : 1;
	d->n = 0;
	put(d, "workload", "%s", workload[kind].name);
	put(d, "strategy", "%s", s->plugin.name);
	put(d, "workers", "%lld", (long long)workers);
	put(d, "batch", "%lld", (long long)batch);
	put(d, "sync-every", "%lld", (long long)interval);
	draw_optimizer(d, rng, workload[kind].lr);
	for (int i = 0; i < 4 && workload[kind].options[i][0]; i++)
		put(d, workload[kind].options[i][0], "%s", workload[kind].options[i][1]);
	if (paced && !s->local)
		put(d, "step-time", "%gms", 1e3 * (hosts ? lab_step_s : step_s));
	if (hosts)
		put(d, "train-rows", "%lld", (long long)(LAB_STEPS * workers * batch));
	if (s->terms && whole(rng, 3) == 0)
		put(d, "servers", "1");
	if (s->codes != CODES_NOTHING && whole(rng, 4) == 0)
		put(d, "codec", "%s", codecs[whole(rng, length(codecs))]->plugin.name);
	if (strcmp(s->plugin.name, "allreduce") == 0)
		put(d, "allreduce.overlap", "%s", overlaps[whole(rng, 3)]);
	return hosts ? rates[wire] : NULL;
}

static bool can_run(const struct drawn *d)
{
	struct config c AUTOCONFIG = {0};
	struct plan p;
	char *wrong AUTOFREE = config_init(&c, d->setting, d->n, false);
	if (!wrong)
		wrong = plan_make(&c, &p);
	return !wrong;
}

char *random_cells(int64_t n, int64_t seed, int64_t hosts)
{
	struct text t;
	FILE *f = text_open(&t);
	uint64_t rng = rng_seed(seed, RNG_CELLS, hosts);
	fprintf(f, "[defaults]\nepochs = %d\n", EPOCHS);
	for (int64_t i = 0; i < n; i++) {
		struct drawn d;
		const char *rate;
		int tries = 0;
		do
			rate = random_draw(&d, &rng, hosts);
		while (!can_run(&d) && ++tries < TRIES);
		fprintf(f, "[cell %lld]\n", (long long)i + 1);
		for (size_t k = 0; k < d.n; k++)
			fprintf(f, "%s = %s\n", d.setting[k].name, d.setting[k].value);
		if (rate)
			fprintf(f, "lab.rate = %s\n", rate);
	}
	return text_close(&t);
}
