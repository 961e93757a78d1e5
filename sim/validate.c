/*
 * validate.c - mvbench validate: runs the same cells real and simulated, and compares them.
 *
 * The cells are those of a job file. Each is simulated once, because simulations repeat themselves.
 * The real runs come in rounds: every round runs all cells, every other round in reverse order, so
 * that changes in load affect all cells alike. validate_report.c reports the errors.
 */
#include "results/run/cells.h"
#include "runtime/config/hosts.h"
#include "sim/sim.h"
#include "sim/validate.h"
#include "runtime/launch/lab.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define LABEL     "validate" /* of the runs made here, unless another is given */
#define OWN_CELLS "workloads/sweeps/validate.ini"

#define OWNER struct validate_flags
static const struct option validate_flags[] = {
	OPTION(only, CHOICE, "only", "all",
	       "do only this part: the real runs; the simulations, which are compared with the "
	       "recorded real runs; or the report on recorded runs",
	       .choices = "all|real|sim|report"),
	OPTION(random, INT, "random", "0",
	       "instead of a job file, this number of cells drawn with --seed: all strategies, "
	       "optimisers and codecs, six workloads, batches of 20 to 300 rows, intervals of 1 to "
	       "20 steps, two to four workers, with or without a server; with --lab links of 10 "
	       "Mbit/s to 1 Gbit/s; 0: a job file [cells]",
	       .min = 0, .max = 1000),
	OPTION(repetitions, INT, "repetitions", "5",
	       "real runs of each cell; their median counts [repetitions]", .min = 1, .max = 1000),
	OPTION(calibrate, BOOL, "calibrate", "true",
	       "with real runs, on platform local: calibrate this machine again in each round, "
	       "because its speed can drift; false: use the recorded calibration [true/false]"),
	OPTION(seconds, TIME, "seconds", "1s",
	       "training time that each calibration measures, as in mvbench calibrate [time]",
	       .min = 0.01, .max = 3600),
	OPTION(lab, INT, "lab", "0",
	       "run the cells in a lab with this number of hosts, whose links have each cell's "
	       "--lab.rate and are calibrated first; 0: on this machine [hosts]",
	       .min = 0, .max = LAB_HOSTS_MOST),
	OPTION(median, REAL, "threshold-median", "5",
	       "largest accepted median error of epoch times [%]", .min = 0, .max = 1e6),
	OPTION(p90, REAL, "threshold-p90", "10",
	       "largest accepted 90th percentile of the errors of epoch times [%]", .min = 0,
	       .max = 1e6),
	OPTION(comm_median, REAL, "threshold-comm-median", "10",
	       "largest accepted median error of communication and waiting, relative to "
	       "themselves, in cells where they are 5 % of the epoch or more [%]",
	       .min = 0, .max = 1e6),
	OPTION(comm_p90, REAL, "threshold-comm-p90", "25",
	       "largest accepted 90th percentile of these errors [%]", .min = 0, .max = 1e6),
	OPTION(format, CHOICE, "format", "text",
	       "format of the report; csv has the cells only; csv and json are not rounded [name]",
	       .choices = "text|markdown|csv|json"),
	OPTION(out, STRING, "out", "", "write the report to this file instead of stdout [file]"),
	{0},
};

static bool wants(const struct validate_flags *f, const char *part)
{
	return strcmp(f->only, part) == 0 ||
	       (strcmp(f->only, "all") == 0 && strcmp(part, "report"));
}

/* ---- The cells, real and simulated --------------------------------------- */

struct cells {
	struct sweep real, simulated; /* cell i of one is cell i of the other */
	bool far;                     /* between hosts, whose links are calibrated */
};

static void cells_free(struct cells *c)
{
	sweep_free(&c->real);
	sweep_free(&c->simulated);
}

/* The job file's cells with the given options. Real workers have no sim.* options. These are part
 * of a cell's identity, so they get their defaults. */
static char *read_world(const char *path, const struct arguments *a, bool simulated, bool far,
			struct sweep *s)
{
	const struct setting label = {"label", LABEL},
			     top[] = {{"platform", simulated ? "sim" : "mpi"},
				      {"sim.platform", "hosts"}};
	struct settings all ENDS_WITH(settings_free) = {.n = 0};
	settings_give(&all, &label, 1);
	settings_give(&all, a->option, a->options);
	settings_give(&all, top, simulated && far ? 2 : 1);
	for (const struct option *o = run_options; o->name && !simulated; o++)
		if (strncmp(o->name, "sim.", 4) == 0)
			settings_give(&all, &(struct setting){o->name, o->def}, 1);
	return sweep_read(path, all.setting, all.n, s, NULL, true);
}

static char *cells_read(const char *path, const struct arguments *a, struct cells *c)
{
	if (arguments_value(a, "platform"))
		return sentence("--platform: validate runs every cell on both platforms; "
				"leave it out");
	TRY(read_world(path, a, false, c->far, &c->real));
	TRY(read_world(path, a, true, c->far, &c->simulated));
	for (size_t i = 0; i < c->real.cells && !c->far; i++)
		if (*c->real.cell[i].config.harness.hostfile ||
		    *c->real.cell[i].config.harness.lab_rate)
			return sentence("%s: a cell has a hostfile or lab.rate: give --lab=N, or "
					"--hostfile to the command",
					path);
	return c->real.cells == c->simulated.cells
		       ? NULL
		       : sentence("a cell has only one simulation: give each option of sim.* one "
				  "value");
}

/* Everything that the simulations lack, such as calibrations: prints each message once and returns
 * the last. */
static char *plan_simulated(struct sweep *s)
{
	char **said AUTOFREE = must(calloc(s->cells + 1, sizeof *said));
	size_t n = 0, k;
	for (size_t i = 0; i < s->cells; i++) {
		struct cell *c = &s->cell[i];
		char *wrong = plan_make(&c->config, &c->plan);
		if (!wrong)
			wrong = simulation_check(&c->config, &c->plan);
		for (k = 0; wrong && k < n && strcmp(said[k], wrong) != 0; k++)
			;
		if (wrong && k == n)
			said[n++] = wrong;
		else
			free(wrong);
	}
	for (k = 0; k + 1 < n; k++)
		complain(said[k]);
	return n ? said[n - 1] : NULL;
}

/* What this command calibrates by itself. */
enum calibrated { NOTHING, MACHINE, WIRES };
static enum calibrated calibrates(const struct validate_flags *f, const struct cells *c)
{
	const char *platform = c->simulated.cell[0].config.run.sim_platform;
	if (!f->calibrate || strcmp(f->only, "all") != 0)
		return NOTHING;
	return c->far ? WIRES : strcmp(platform, "local") == 0 ? MACHINE : NOTHING;
}

/* Nothing starts before all can run. */
static char *cells_plan(const char *path, struct cells *c, const struct validate_flags *f)
{
	char *wrong = wants(f, "real") ? sweep_plan(path, &c->real) : NULL;
	if (wrong || !wants(f, "sim") || calibrates(f, c))
		return wrong;
	return plan_simulated(&c->simulated);
}

/* As JSON, for the queries; "[]": the report is about all cells. Heap. */
static char *cells_text(const struct cells *c)
{
	struct text t;
	FILE *f = text_open(&t);
	fputc('[', f);
	for (size_t i = 0; c && i < c->real.cells; i++) {
		fprintf(f, "%s{\"real\": \"%s\", \"simulated\": \"%s\", \"what\": ", i ? ", " : "",
			c->real.cell[i].hash, c->simulated.cell[i].hash);
		text_json(f, c->real.cell[i].what);
		fputc('}', f);
	}
	fputc(']', f);
	return text_close(&t);
}

/* ---- Running ------------------------------------------------------------- */

struct doing {
	size_t runs, ended, failed;
	nsec began;
	double seconds; /* of a calibration */
	int status;     /* that ends everything: interrupted, or refused */
};

static void say_end(const struct doing *d, const struct cell *c, const char *world,
		    const struct outcome *o)
{
	fprintf(stderr, "%zu/%zu %s: %s: ", d->ended, d->runs, world, c->what);
	if (o->status == EXIT_OK)
		fprintf(stderr, "%.3f s\n", page_seconds(o->page));
	else
		fprintf(stderr, "%s%s%s\n", outcome_word(o->status), o->why ? ": " : "",
			o->why ? o->why : "");
}

static void validate_cell(struct doing *d, const struct cell *c, const char *world)
{
	char before[96];
	double mean = d->ended ? 1e-9 * (double)(clock_now() - d->began) / (double)d->ended : 0;
	struct progress progress = {.before = before,
				    .later_s = mean * (double)(d->runs - d->ended - 1)};
	struct outcome o;
	snprintf(before, sizeof before, "%zu/%zu %s %s ", d->ended + 1, d->runs, world,
		 c->config.run.strategy);
	run_cell(&c->config, &progress, &o);
	if (o.status == EXIT_INTERRUPTED || o.status == EXIT_USER)
		d->status = o.status;
	else
		d->ended++;
	d->failed += o.status != EXIT_OK && o.status != EXIT_INTERRUPTED;
	if (o.status == EXIT_USER)
		complain(sentence("%s: %s: %s", world, c->what, o.why));
	else if (o.status != EXIT_INTERRUPTED)
		say_end(d, c, world, &o);
	if (!d->status && o.page && o.page->interrupted) /* when the run was already done */
		d->status = EXIT_INTERRUPTED;
	outcome_fini(&o);
}

/* The first cell that needs the same calibration as cell i. */
static size_t calibrated_for(const struct sweep *s, size_t i)
{
	char *key AUTOFREE = calibration_key(&s->cell[i].config);
	for (size_t k = 0; k < i; k++) {
		char *other AUTOFREE = calibration_key(&s->cell[k].config);
		if (strcmp(key, other) == 0)
			return k;
	}
	return i;
}

/* Measures what cell i needs, unless done[] says that this was measured for another cell. */
static void calibrate(struct doing *d, const struct cells *c, size_t i, bool *done, int repetition,
		      bool simulated)
{
	size_t first = calibrated_for(&c->simulated, i);
	const struct config *config = &c->simulated.cell[first].config;
	if (done[first] || d->status || (simulated && config->run.workers == 1))
		return;
	done[first] = true;
	d->status = calibration_repeat(config, (int)config->run.workers, false, simulated,
				       repetition, d->seconds);
}

static void calibrate_all(struct doing *d, const struct cells *c, int repetition, bool simulated)
{
	size_t n = c->simulated.cells;
	bool *done AUTOFREE = must(calloc(n, sizeof *done));
	for (size_t i = 0; i < n; i++)
		calibrate(d, c, i, done, repetition, simulated);
}

/* Runs each cell right after the calibration that it needs, because a machine's speed drifts. */
static void do_round(struct doing *d, const struct cells *c, const struct validate_flags *f,
		     int round)
{
	size_t n = c->real.cells;
	bool *done AUTOFREE = must(calloc(n, sizeof *done));
	char world[48];
	snprintf(world, sizeof world, "real, round %d", round + 1);
	for (size_t k = 0; k < n && !d->status; k++) {
		size_t i = round % 2 ? n - 1 - k : k;
		if (calibrates(f, c) == MACHINE)
			calibrate(d, c, i, done, round, false);
		if (!d->status)
			validate_cell(d, &c->real.cell[i], world);
	}
}

/* The number of hosts that a cell's ranks are on. */
static int hosts_of(const struct config *c)
{
	int ranks = (int)(c->run.workers + c->run.servers), hosts = 1;
	int *number AUTOFREE = must(calloc((size_t)ranks, sizeof *number));
	char *wrong AUTOFREE = config_hosts(c, number);
	for (int i = 0; i < ranks && !wrong; i++)
		hosts = number[i] >= hosts ? number[i] + 1 : hosts;
	return hosts;
}

/* For each rate of the links and number of hosts; and the costs of updates. */
static void calibrate_wires(struct doing *d, const struct cells *c)
{
	size_t n = c->simulated.cells;
	int *hosts AUTOFREE = must(calloc(n, sizeof *hosts));
	for (size_t i = 0; i < n && !d->status; i++) {
		const struct config *mine = &c->simulated.cell[i].config;
		hosts[i] = hosts_of(mine);
		bool wires = hosts[i] > 1, costs = true;
		for (size_t k = 0; k < i; k++) {
			const struct config *other = &c->simulated.cell[k].config;
			wires &= strcmp(mine->harness.lab_rate, other->harness.lab_rate) != 0 ||
				 hosts[i] != hosts[k];
			costs &= mine->workload != other->workload ||
				 mine->run.batch != other->run.batch ||
				 strcmp(mine->run.optimizer, other->run.optimizer) != 0 ||
				 strcmp(mine->run.precision, other->run.precision) != 0 ||
				 mine->run.threads != other->run.threads;
		}
		for (int simulated = 0; wires && simulated < 2 && !d->status; simulated++)
			d->status =
				calibration_repeat(mine, hosts[i], true, simulated, 0, d->seconds);
		if (costs && !d->status)
			d->status = calibration_repeat(mine, 1, false, false, 0, d->seconds);
	}
}

static void simulate(struct doing *d, const struct cells *c)
{
	for (size_t i = 0; i < c->simulated.cells && !d->status; i++)
		validate_cell(d, &c->simulated.cell[i], "simulated");
}

static void do_runs(struct doing *d, const struct cells *c, const struct validate_flags *f)
{
	size_t n = c->real.cells;
	int64_t rounds = wants(f, "real") ? f->repetitions : 0;
	sigset_t signals = end_signals(), before;
	d->runs = (wants(f, "sim") ? n : 0) + (size_t)rounds * n;
	d->began = clock_now();
	sigprocmask(SIG_BLOCK, &signals, &before); /* a signal now reaches the next run */
	if (calibrates(f, c) == WIRES)
		calibrate_wires(d, c);
	if (wants(f, "sim") && calibrates(f, c) != MACHINE)
		simulate(d, c);
	for (int64_t round = 0; round < rounds && !d->status; round++)
		do_round(d, c, f, (int)round);
	if (calibrates(f, c) == MACHINE) {
		calibrate_all(d, c, (int)rounds, false);
		calibrate_all(d, c, 0, true);
		simulate(d, c);
	}
	sigprocmask(SIG_SETMASK, &before, NULL);
	if (d->status == EXIT_INTERRUPTED)
		fprintf(stderr,
			"mvbench: %zu of %zu runs are recorded; --only=report reports them\n",
			d->ended, d->runs);
}

/* ---- The command --------------------------------------------------------- */

/* *reported: `out` has a report. */
static char *run_and_report(const struct cells *c, const struct validate_flags *f,
			    bool all_of_label, FILE *out, int *status, bool *reported)
{
	const struct harness_options *first = &c->real.cell[0].config.harness;
	struct doing d = {.seconds = f->seconds};
	if (strcmp(f->only, "report") != 0)
		do_runs(&d, c, f);
	*status = d.status;
	if (d.status)
		return NULL;
	char *cells AUTOFREE = cells_text(all_of_label ? NULL : c);
	bool past = false;
	*reported = strcmp(f->only, "real") != 0;
	if (!*reported) {
		fprintf(stderr, "%zu runs are recorded, %zu failed; --only=sim compares them\n",
			d.ended, d.failed);
	} else {
		TRY(validate_report(first->db, first->label, cells, f, out, &past));
	}
	*status = past || d.failed ? EXIT_FAILED : EXIT_OK;
	return NULL;
}

/* Do options select cells? Those for the database and the label do not. */
static bool names_cells(const struct arguments *a)
{
	for (size_t i = 0; i < a->options; i++) {
		const struct option *o = option_find(run_options, a->option[i].name);
		if (!o || !o->incidental)
			return true;
	}
	return a->words > 0;
}

/* The job file if none is named: one that --random draws, or our own. */
static char *find_file(const struct arguments *a, const struct validate_flags *f, char **path)
{
	const char *seed = arguments_value(a, "seed");
	if (f->random) {
		char *text AUTOFREE = random_cells(f->random, seed ? atoll(seed) : 1, f->lab);
		*path = file_in_memory(text);
		return NULL;
	}
	*path = installed_path(OWN_CELLS);
	return *path ? NULL
		     : sentence("%s is missing: it belongs next to the program's build folder, "
				"or in ../share/mvbench; or give a job file",
				OWN_CELLS);
}

static char *find_cells(const struct arguments *a, const struct validate_flags *f, char **path,
			struct cells *c)
{
	if (a->words && f->random)
		return sentence("%s: --random=%lld draws the cells; leave one of the two out",
				a->word[0], (long long)f->random);
	TRY(launcher_refuse("validate"));
	TRY(sweep_find(a, "validate", NULL, path));
	TRY(calibration_is_far(a, f->lab, &c->far));
	if (!*path)
		TRY(find_file(a, f, path));
	return cells_read(*path, a, c);
}

static char *run_validate(void *options, struct arguments *a, int *status)
{
	const struct validate_flags *f = options;
	struct cells c ENDS_WITH(cells_free) = {.real = {.cell = NULL}};
	bool all_of_label = strcmp(f->only, "report") == 0 && !names_cells(a) && !f->random;
	char *path AUTOFREE = NULL;
	struct output out;
	TRY(find_cells(a, f, &path, &c));
	TRY(cells_plan(path, &c, f));
	if (strcmp(f->only, "report") != 0)
		TRY(store_check(c.real.cell[0].config.harness.db));
	TRY(output_open(&out, "--out=", f->out));
	bool reported = false;
	char *wrong = run_and_report(&c, f, all_of_label, out.f, status, &reported);
	if (wrong || reported)
		return output_close(&out, wrong);
	free(output_close(&out, sentence("nothing to report"))); /* an older file remains */
	return NULL;
}

const struct command command_validate = {
	.name = "validate",
	.summary = "compare the simulator with real runs, cell by cell",
	.usage = "[FILE.ini] [--option=value ...]",
	.about = "Runs the cells of a job file real and simulated, and reports the errors of the "
		 "simulation: of epoch time, of communication and waiting (several ranks; relative "
		 "to themselves, and as their share of the epoch), of the histogram of staleness "
		 "(total variation distance; several workers that push), and of the final test "
		 "loss. Without a file: softmax and mlp with "
		 "batch 32 on 1 and 2 workers, with allreduce, and with asgd and periodic every 1, "
		 "4 and 16 steps. Options of mvbench run replace those of the file, lists too. "
		 "Runs get the label " LABEL ", unless --label gives another. It calibrates right "
		 "before each cell, and after the last round.\n\n"
		 "A real time is the median over the rounds of a run's median epoch; spread is the "
		 "largest minus the smallest of the rounds. Cells with more workers than cores are "
		 "listed separately. Earlier runs with this label count too: equal real runs on "
		 "this machine that are not older than the calibration, and the newest simulation. "
		 "mvbench plot simulated_real draws the result.\n\n"
		 "Exit status: 0 within the thresholds, 1 above one, or cells are missing, 2 "
		 "refused, 130 interrupted.",
	.options = validate_flags,
	.words = job_files_each,
	.size = sizeof(OWNER),
	.run_options = true,
	.run = run_validate,
	.interrupted = STARTS_AGAIN,
};
