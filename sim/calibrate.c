/*
 * calibrate.c - mvbench calibrate: measures this machine for the simulator.
 *
 * For each number of workers that compute side by side it starts them for real: they train without
 * a word to each other (periodic averaging that never comes due), which gives the times of a step,
 * and then measure what else costs time (measure.c). Numbers of workers beyond the cores tell what
 * oversubscription costs. Where messages were measured, the same measuring runs once more on the
 * simulated machine; what an allreduce takes beyond its simulated messages is the cost of its sums.
 */
#include "sim/sim.h"
#include "results/run/run.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct calibrate_flags {
	const char *counts, *out;
	double seconds;
	int64_t visits;
};

#define OWNER struct calibrate_flags
static const struct option calibrate_flags[] = {
	OPTION(counts, STRING, "counts", "auto",
	       "numbers of workers side by side; auto: 1, 2, 4, ... to the cores, and twice the "
	       "cores [list]"),
	OPTION(seconds, TIME, "seconds", "1s",
	       "of training that is measured, for each of them and repetition [time]", .min = 0.01,
	       .max = 3600),
	OPTION(visits, INT, "visits", "3",
	       "how often steps are measured, other numbers of workers in between; the median "
	       "repetition counts, so that a busy moment does not [repetitions]",
	       .min = 1, .max = 99),
	OPTION(out, STRING, "out", "",
	       "writes this machine as a platform too, such as local.xml; simulations take it "
	       "from the database [file]"),
	{0},
};

/* What the workers of a repetition are told beside their configuration. */
#define SECONDS_VARIABLE    "MVBENCH_CALIBRATE_SECONDS"
#define REPETITION_VARIABLE "MVBENCH_CALIBRATE_REPETITION"

static int repetition_number(void)
{
	const char *text = getenv(REPETITION_VARIABLE);
	return text ? atoi(text) : 0;
}

/* ---- A worker's life ---- */

struct measuring {
	const struct config *config;
	const struct plan *plan;
	struct points points;
};

static void take_steps(void *self, struct worker *w, const float *step_s, size_t n)
{
	struct measuring *m = self;
	if (!world_is_virtual)
		measure_steps(w, step_s, n, repetition_number(), &m->points);
}

static void take_costs(void *self, struct worker *w)
{
	struct measuring *m = self;
	measure_costs(w, &m->points);
}

static const struct point *point_at(const struct points *p, const char *name, double x)
{
	for (size_t i = 0; i < p->n; i++)
		if (strcmp(p->point[i].name, name) == 0 && p->point[i].x == x)
			return &p->point[i];
	return NULL;
}

/* What the simulated allreduces lack of the real ones, which the newest calibration has. */
static void add_sums(const struct simulation *s, const struct points *simulated, struct points *out)
{
	for (size_t i = 0; i < simulated->n; i++) {
		const struct point *p = &simulated->point[i], *real;
		if (strcmp(p->name, "allreduce") != 0)
			continue;
		real = point_at(&s->points, "allreduce", p->x);
		points_add(out, "sim_allreduce", p->x, p->value);
		if (real)
			points_add(out, cost_names[COST_SUM], p->x,
				   real->value > p->value ? real->value - p->value : 0);
	}
}

static char *keep(struct measuring *m)
{
	const struct simulation *sim = m->plan->simulation;
	struct points sums = {.n = 0};
	struct store *s AUTOCLOSE = NULL;
	TRY(store_open(&s, m->config->own.db, STORE_WRITE));
	if (sim) {
		add_sums(sim, &m->points, &sums);
		char *wrong = calibration_add(s, sim->calibration_id, &sums);
		free(sums.point);
		return wrong;
	}
	if (repetition_number() == 0)
		return calibration_save(s, m->config, m->plan, &m->points);
	return calibration_add(s, calibration_newest(s, m->config, m->plan), &m->points);
}

static char *end_measuring(void *self, const char *status, const char *reason)
{
	(void)status;
	return reason ? sentence("%s", reason) : keep(self);
}

/* ctx: the configuration. */
static int measure(void *ctx, struct status_page *page)
{
	const struct config *c = ctx;
	const char *seconds = getenv(SECONDS_VARIABLE);
	struct measuring m = {.config = c};
	struct plan plan;
	struct simulation simulation = {.platform_file = NULL};
	struct sink sink = {.self = &m,
			    .steps = take_steps,
			    .steps_wanted_s = seconds ? atof(seconds) : 1,
			    .model = repetition_number() > 0 ? NULL : take_costs,
			    .end = end_measuring};
	worker_introduce(c);
	char *wrong = plan_make(c, &plan);
	if (!wrong && world_is_virtual)
		wrong = simulation_find(c, &plan, &simulation);
	if (wrong) {
		if (rank_of_launcher() <= 0)
			status_end(page, EXIT_USER, wrong);
		free(wrong);
		return EXIT_OK;
	}
	if (world_is_virtual) {
		plan.simulation = &simulation;
		panic_to(page->reason, sizeof page->reason);
	}
	m.plan = &plan;
	train(c, &plan, &sink, page);
	free(m.points.point);
	simulation_fini(&simulation);
	return EXIT_OK;
}

/* ---- In front ---- */

enum { COUNTS_MOST = 32 };

static char *read_counts(const char *text, int *count, int *n)
{
	*n = 0;
	if (strcmp(text, "auto") == 0) {
		int cores = usable_cores();
		for (int k = 1; k < cores && *n < COUNTS_MOST - 2; k *= 2)
			count[(*n)++] = k;
		count[(*n)++] = cores;
		count[(*n)++] = 2 * cores;
		return NULL;
	}
	for (const char *at = text; *at && *n < COUNTS_MOST;) {
		char *end;
		long k = strtol(at, &end, 10);
		if (end == at || k < 1 || k > WORKERS_MOST || (*end && *end != ','))
			return sentence("--counts=%s: numbers of workers are wanted, as in "
					"--counts=1,2",
					text);
		count[(*n)++] = (int)k;
		at = *end ? end + 1 : end;
	}
	return *n ? NULL : sentence("--counts=: numbers of workers are wanted, as in --counts=1,2");
}

/* The configuration of one measuring: what was given, and settings of our own over it. */
static char *config_for(struct config *c, const struct arguments *a, int workers, bool sim)
{
	char count[16];
	snprintf(count, sizeof count, "%d", workers);
	const struct setting own[] = {
		{"strategy", "periodic"},
		{"workers", count},
		{"sync-every", "1000000000"},
		{"barrier-every", "1"},
		{"epochs", sim ? "1" : "100"},
		{"servers", "0"},
		{"table-home", "auto"},
		{"deal", "auto"},
		{"straggle", "0"},
		{"platform", sim ? "sim" : "mpi"},
		{"sim.platform", "local"},
		{"sim.train", "false"},
		{"label", "calibrate"},
		{"record", "false"},
		{"judge-every", "0"},
		{"speed", ""},
		{"pause", ""},
		{"leave", ""},
		{"sim.slow-link", ""},
		{"sim.replay", "0"},
		{"sim.step-time", "auto"},
		{"sim.update-time", "auto"},
	};
	size_t owns = sizeof own / sizeof *own, n = a->options + owns;
	struct setting *all AUTOFREE = must(calloc(n, sizeof *all));
	memcpy(all, a->option, a->options * sizeof *all);
	memcpy(all + a->options, own, sizeof own);
	return config_init(c, all, n, true);
}

static int launch_one(const struct arguments *a, int workers, bool sim)
{
	struct config c AUTOCONFIG = {0};
	struct progress progress = {.quiet = true};
	struct watcher watcher = {.self = &progress, .tick = progress_tick};
	struct status_page *page = NULL;
	char *why = NULL, *wrong = config_for(&c, a, workers, sim);
	if (wrong)
		return complain(wrong);
	progress_start(&progress);
	int status = launch(&c, "calibrate", measure, &c, &watcher, &page, &why);
	progress_end(&progress);
	if (why)
		complain(why);
	status_free(page);
	return status;
}

/* Copies the platform that a simulation of so many workers would take. */
static char *write_platform(const struct arguments *a, const char *file, int workers)
{
	struct config c AUTOCONFIG = {0};
	struct plan plan;
	struct simulation s;
	struct output out;
	TRY(config_for(&c, a, workers, true));
	TRY(plan_make(&c, &plan));
	TRY(simulation_find(&c, &plan, &s));
	char *text AUTOFREE = text_read(s.platform_file);
	simulation_fini(&s);
	TRY(output_open(&out, "--out=", file));
	if (text)
		fputs(text, out.f);
	return output_close(&out, text ? NULL : sentence("--out=%s: its platform is gone", file));
}

static void tell_repetition(int repetition, double seconds)
{
	char text[32];
	snprintf(text, sizeof text, "%d", repetition);
	setenv(REPETITION_VARIABLE, text, 1);
	snprintf(text, sizeof text, "%g", seconds);
	setenv(SECONDS_VARIABLE, text, 1);
}

int calibration_repeat(const struct config *c, int repetition, bool simulated)
{
	struct arguments a;
	char **words AUTOWORDS = config_words(c);
	int n = 0;
	while (words[n])
		n++;
	char *wrong = arguments_read(&a, n, words, NULL, NULL);
	CHECK(!wrong, "%s", wrong);
	/* what a worker has of it, whatever strategy shares it out here */
	char *batch AUTOFREE = sentence("%lld", (long long)c->run.batch);
	for (size_t i = 0; i < a.options && c->run.global_batch; i++)
		if (strcmp(a.option[i].name, "global-batch") == 0) {
			free((char *)(uintptr_t)a.option[i].name);
			a.option[i] = (struct setting){must(strdup("batch")), batch};
		}
	tell_repetition(repetition, 1);
	int status = launch_one(&a, (int)c->run.workers, simulated);
	arguments_free(&a);
	return status;
}

/* Everything is checked before anything is measured. before: the calibration that is the newest
 * now. */
static char *check(const struct config *c, int64_t *before)
{
	struct plan plan;
	struct store *s AUTOCLOSE = NULL;
	TRY(plan_make(c, &plan));
	TRY(store_check(c->own.db));
	if (access(c->own.db, F_OK) != 0)
		return NULL;
	TRY(store_open(&s, c->own.db, STORE_READ));
	*before = calibration_last(s);
	return NULL;
}

static char *print_newer(const struct config *c, int64_t before)
{
	struct store *s AUTOCLOSE = NULL;
	TRY(store_open(&s, c->own.db, STORE_READ));
	return calibration_print(s, stdout, before);
}

static char *calibrate(const struct arguments *a, const struct calibrate_flags *f, int *status)
{
	int count[COUNTS_MOST], n, side_by_side = 1;
	struct config c AUTOCONFIG = {0};
	int64_t before = 0;
	TRY(read_counts(f->counts, count, &n));
	TRY(config_for(&c, a, 1, false));
	if (c.run.global_batch)
		return sentence("--global-batch=%lld: what is calibrated is the mini-batch of one "
				"worker; give --batch",
				(long long)c.run.global_batch);
	for (int i = 0; i < n; i++)
		if (count[i] > 1 && (side_by_side == 1 || count[i] <= usable_cores()))
			side_by_side = count[i];
	if (*f->out && side_by_side == 1)
		return sentence("--out=%s: one worker sends no messages; give --counts=1,2",
				f->out);
	TRY(check(&c, &before));
	for (int repetition = 0; repetition < f->visits; repetition++) {
		tell_repetition(repetition, f->seconds);
		for (int i = 0; i < n && *status == EXIT_OK; i++) {
			fprintf(stderr,
				"repetition %d of %lld: %s, batch %lld, %d worker%s side by side\n",
				repetition + 1, (long long)f->visits, c.run.workload,
				(long long)c.run.batch, count[i], plural(count[i]));
			*status = launch_one(a, count[i], false);
			if (*status == EXIT_OK && count[i] > 1 && repetition == 0)
				*status = launch_one(a, count[i], true);
		}
	}
	if (*status != EXIT_OK)
		return NULL;
	TRY(print_newer(&c, before));
	return *f->out ? write_platform(a, f->out, side_by_side) : NULL;
}

static char *run_calibrate(void *flags, struct arguments *a, int *status)
{
	struct status_page *page = status_of_launcher();
	struct config c AUTOCONFIG = {0};
	char *wrong =
		page ? config_init(&c, a->option, a->options, true) : calibrate(a, flags, status);
	if (page && !wrong)
		*status = measure(&c, page);
	status_free(page);
	return wrong;
}

const struct command command_calibrate = {
	.name = "calibrate",
	.summary = "measure this machine for the simulator",
	.usage = "[--option=value ...]",
	.about =
		"Measures this machine for simulations (--platform=sim): what a step of a workload "
		"takes, what pushes, updates and messages cost, and what oversubscription does. "
		"Give the options of mvbench run that say what is computed: --workload, --batch, "
		"--device, --threads.",
	.options = calibrate_flags,
	.size = sizeof(OWNER),
	.run_options = true,
	.example = "--workload=mlp",
	.run = run_calibrate,
};
