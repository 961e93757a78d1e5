/*
 * calibrate.c - mvbench calibrate: measures this machine for the simulator.
 *
 * For each number of workers side by side it starts real workers. They first train without
 * communication (periodic averaging that is never due), which gives the times of a step. Then they
 * measure the other costs (measure.c). Numbers above the number of cores show the cost of
 * oversubscription. If messages were measured, the same measurements run once more on the simulated
 * machine. The cost of an allreduce's sums is its real time minus the time of its simulated
 * messages.
 *
 * With a hostfile it measures the network links, with one rank on each of 2, 3, ... hosts, real and
 * simulated.
 */
#include "runtime/config/config.h"
#include "runtime/config/hosts.h"
#include "sim/sim.h"
#include "results/run/run.h"
#include "runtime/launch/lab.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct calibrate_flags {
	const char *counts, *out;
	double seconds;
	int64_t repetitions, lab;
};

#define OWNER struct calibrate_flags
static const struct option calibrate_flags[] = {
	OPTION(counts, STRING, "counts", "auto",
	       "numbers of workers to measure side by side; auto: 1, 2, 4, ... up to the cores, "
	       "and twice the cores; between hosts: numbers of hosts; auto: 2, 3, 4, and all "
	       "[list]"),
	OPTION(seconds, TIME, "seconds", "1s",
	       "training time that is measured, for each number of workers and repetition; below "
	       "one second the other costs are measured less often, too [time]",
	       .min = 0.01, .max = 3600),
	OPTION(repetitions, INT, "repetitions", "3",
	       "repetitions of the measurement of steps, with the other numbers of workers in "
	       "between; the median repetition counts [repetitions]",
	       .min = 1, .max = 1000),
	OPTION(lab, INT, "lab", "0",
	       "measure the network links of a lab with this number of hosts, at --lab.rate; 0: "
	       "no lab [hosts]",
	       .min = 0, .max = LAB_HOSTS_MOST),
	OPTION(out, STRING, "out", "",
	       "also write this machine, or the hosts and their links, as a platform file, such "
	       "as local.xml; simulations do not need it, they read the database [file]"),
	{0},
};

/* ---- In a worker ---- */

struct measuring {
	const struct config *config;
	int repetition; /* from 0 */
	double seconds;
	const struct status_page *page;
	const struct plan *plan; /* NULL before the run begins */
	const char *hosts;       /* several: their links are measured */
	double share;            /* of its core, while it measured costs; NaN: not known */
	struct points points;
};

/* The share of its core that this worker had since then; NaN: not known. */
static double share_since(const struct run *r, const struct usage *had, nsec began)
{
	const struct usage has = usage_now(); /* steal_s is NaN where it is not known */
	double lost = has.run_delay_s - had->run_delay_s + fmax(0, has.steal_s - had->steal_s),
	       share = 1 - lost / (1e-9 * (double)(clock_now() - began));
	bool crowded = r->workers * r->threads > usable_cores(); /* they wait for each other */
	return crowded ? NAN : share < 0 ? 0 : share;
}

static bool wants_wires(const struct config *c)
{
	return *c->harness.hostfile || config_simulates_hosts(c);
}

static char *take_plan(void *self, const struct experiment *e, int64_t *id)
{
	struct measuring *m = self;
	(void)id;
	m->plan = e->plan;
	m->hosts = e->cluster ? e->cluster->names : NULL; /* live until the end */
	return NULL;
}

static void take_figures(void *self, struct worker *w, const float *step_s, size_t n)
{
	struct measuring *m = self;
	if (step_s && !world_is_virtual)
		measure_steps(w, step_s, n, m->repetition, &m->points);
	if (m->repetition > 0)
		return;
	const struct usage had = usage_now();
	const nsec began = clock_now();
	world_off_clock(false);
	if (wants_wires(m->config))
		measure_wires(w, m->seconds, &m->points);
	else
		measure_costs(w, m->seconds, &m->points);
	world_off_clock(true);
	m->share = share_since(w->run, &had, began);
}

static const struct point *point_at(const struct points *p, const char *name, double x)
{
	for (size_t i = 0; i < p->n; i++)
		if (strcmp(p->point[i].name, name) == 0 && p->point[i].x == x)
			return &p->point[i];
	return NULL;
}

/* The simulated allreduces and what the real ones of the newest calibration take beyond them. */
static void add_sums(const struct points *measured, const struct points *simulated,
		     struct points *out)
{
	for (size_t i = 0; i < simulated->n; i++) {
		const struct point *p = &simulated->point[i],
				   *real = point_at(measured, p->name, p->x);
		char name[sizeof p->name];
		snprintf(name, sizeof name, "sim_%.19s", p->name);
		points_add(out, name, p->x, p->value);
		if (real && strcmp(p->name, "allreduce") == 0)
			points_add(out, cost_names[COST_SUM], p->x,
				   real->value > p->value ? real->value - p->value : 0);
	}
}

/* The file of the earlier measurements, by its number. The processes of later ones inherit it, and
 * record in no other file. */
#define FILE_VARIABLE "MVBENCH_CALIBRATED"

static void know_file(const char *db)
{
	struct stat st;
	if (getenv(FILE_VARIABLE) || stat(db, &st) != 0)
		return;
	char *number AUTOFREE = sentence("%lld", (long long)st.st_ino);
	setenv(FILE_VARIABLE, number, 1);
}

/* known: measurements were recorded before. */
static char *check_file(const char *db, bool *known)
{
	const char *number = getenv(FILE_VARIABLE);
	struct stat st;
	*known = number;
	return !number || (stat(db, &st) == 0 && (long long)st.st_ino == atoll(number))
		       ? NULL
		       : sentence("%s was moved or removed during the calibration: nothing is "
				  "recorded in another file in its place",
				  db);
}

static char *keep_points(void *self, const char *status, const char *reason,
			 const struct closing *c)
{
	struct measuring *m = self;
	(void)status, (void)c;
	if (reason)
		return sentence("%s", reason);
	const struct simulation *sim = m->plan->simulation;
	bool wires = wants_wires(m->config);
	struct points sums = {.n = 0};
	bool known;
	struct store *s AUTOCLOSE = NULL;
	TRY(check_file(m->config->harness.db, &known));
	TRY(store_open_for(&s, m->config, known ? STORE_CHANGE : STORE_WRITE));
	if (sim) {
		add_sums(wires ? &sim->wires : &sim->points, &m->points, &sums);
		char *wrong =
			calibration_add(s, wires ? sim->wires_id : sim->calibration_id, &sums);
		free(sums.point);
		return wrong;
	}
	/* of the steps, too, unless there are only a few; fmin leaves a NaN out */
	double share = fmin(m->share, wires ? NAN : page_cores_share(m->config, m->page));
	if (!isnan(share))
		points_add(&m->points, CALIBRATED_SHARE, m->repetition, share);
	if (m->repetition == 0)
		return calibration_save(s, m->config, m->plan, wires ? m->hosts : NULL, &m->points);
	return calibration_add(s, calibration_newest(s, m->config, m->plan), &m->points);
}

static int calibrate_worker(void *measuring, struct status_page *page)
{
	struct measuring *m = measuring;
	m->page = page;
	m->share = NAN;
	const struct sink sink = {.self = m,
				  .begin = take_plan,
				  .steps_wanted_s = wants_wires(m->config) ? 0 : m->seconds,
				  .model = take_figures,
				  .end = keep_points};
	int status = worker_train(m->config, &sink, page);
	free(m->points.point);
	return status;
}

/* ---- In the front process ---- */

enum { COUNTS_MOST = 32 };

/* hosts: measure between this number of hosts, at least two; 0 = on one machine. */
static void choose_counts(int hosts, int *count, int *n)
{
	const int few = 4;
	if (hosts) {
		for (int k = 2; k <= hosts && k <= few; k++)
			count[(*n)++] = k;
		if (hosts > few)
			count[(*n)++] = hosts;
		return;
	}
	int cores = usable_cores();
	for (int k = 1; k < cores && *n < COUNTS_MOST - 2; k *= 2)
		count[(*n)++] = k;
	count[(*n)++] = cores;
	count[(*n)++] = 2 * cores;
}

static char *read_counts(const char *text, int hosts, int *count, int *n)
{
	long least = hosts ? 2 : 1, most = hosts ? hosts : WORKERS_MOST;
	*n = 0;
	if (strcmp(text, "auto") == 0) {
		choose_counts(hosts, count, n);
		return NULL;
	}
	for (const char *at = text; *at && *n < COUNTS_MOST;) {
		char *end;
		long k = strtol(at, &end, 10);
		if (end == at || k < least || k > most || (*end && *end != ','))
			return sentence("--counts=%s: give numbers of %s from %ld to %ld, as in "
					"--counts=%ld,%ld",
					text, hosts ? "hosts" : "workers", least, most, least,
					least + (most > least));
		count[(*n)++] = (int)k;
		at = *end ? end + 1 : end;
	}
	return *n ? NULL : sentence("--counts=: give numbers of workers, as in --counts=1,2");
}

/* The configuration of one measurement: the given settings, and those that override them. */
static char *config_for(struct config *c, struct settings *all, int workers, bool far, bool sim)
{
	char count[16];
	snprintf(count, sizeof count, "%d", workers);
	const struct setting own[] = {
		{"strategy", "periodic"},
		{"workers", count},
		{"sync-every", "1000000000"},
		{"lr", "1e-6"}, /* a step costs the same where a run diverges */
		{"epochs", sim ? "1" : "100"},
		{"platform", sim ? "sim" : "mpi"},
		{"sim.train", "false"},
		{"sim.encode-time", "auto"},
		{"sim.decode-time", "auto"},
		{"codec", "none"},
		{"codec.feedback", "auto"},
		{"label", "calibrate"},
	};
	/* These have their defaults; the first three only on one machine. Simulations charge
	 * clipping separately. */
	enum { OF_HOSTS = 3 };
	static const char *const plain[] = {
		"hostfile",       "placement",     "lab.rate",      "lr-schedule",
		"clip",           "servers",       "table-home",    "deal",
		"straggle",       "barrier-every", "step-time",     "record",
		"eval-every",     "init-from",     "initial-model", "save",
		"speed",          "pause",         "leave",         "sim.platform",
		"sim.replay",     "sim.slow-link", "sim.step-time", "sim.update-time",
		"sim.step-factor"};
	/* on one machine; or one rank on each of several, with hardly a step */
	int *number AUTOFREE = must(calloc((size_t)workers, sizeof *number));
	for (int k = 0; k < workers; k++)
		number[k] = k;
	char *each AUTOFREE = placement_text(number, workers, 0),
		   *rows AUTOFREE = sentence("%d", 64 * workers);
	const struct setting there[] = {{"placement", each},     {"sim.platform", "hosts"},
					{"epochs", "1"},         {"batch", "32"},
					{"train-rows", rows},    {"validation", "0"},
					{"sim.step-time", "1ms"}};
	settings_give(all, own, sizeof own / sizeof *own);
	for (size_t i = far ? OF_HOSTS : 0; i < sizeof plain / sizeof *plain; i++)
		settings_give(all,
			      &(struct setting){plain[i], option_find(run_options, plain[i])->def},
			      1);
	settings_give(all, there, far ? sizeof there / sizeof *there : 0);
	return config_init(c, all->setting, all->n, true);
}

/* The same for the settings of another configuration. */
static char *config_like(struct config *c, const struct config *given, int workers, bool far,
			 bool sim)
{
	struct settings all ENDS_WITH(settings_free) = {.n = 0};
	char *batch AUTOFREE = sentence("%lld", (long long)given->run.batch);
	const struct setting own[] = {{"global-batch", "0"}, {"batch", batch}};
	settings_add_config(&all, given);
	/* one worker's mini-batch, whatever strategy divides the global one here */
	settings_give(&all, own, given->run.global_batch ? 2 : 0);
	return config_for(c, &all, workers, far, sim);
}

/* A worker's --repetitions is the number of its own repetition, from 1. */
int calibration_repeat(const struct config *given, int workers, bool far, bool simulated,
		       int repetition, double seconds)
{
	char *number AUTOFREE = sentence("--repetitions=%d", repetition + 1),
		     *limit AUTOFREE = sentence("--seconds=%gs", seconds);
	const char *const words[] = {"calibrate", number, limit, NULL};
	struct config c AUTOCONFIG = {0};
	struct measuring m = {.config = &c, .repetition = repetition, .seconds = seconds};
	struct status_page *page AUTOPAGE = NULL;
	char *why = NULL, *wrong = config_like(&c, given, workers, far, simulated);
	if (wrong)
		return complain(wrong);
	quiet_wait(&c);
	know_file(c.harness.db);
	int status = launch(&c, words, calibrate_worker, &m, NULL, &page, &why);
	know_file(c.harness.db);
	if (status == EXIT_INTERRUPTED) /* the command says that */
		free(why);
	else
		complain_if(why);
	if (!status && page && page->interrupted) /* when the run was already done */
		status = EXIT_INTERRUPTED;
	return status;
}

char *calibration_is_far(const struct arguments *a, int64_t lab, bool *far)
{
	const char *hosts = arguments_value(a, "hostfile"), *rate = arguments_value(a, "lab.rate");
	*far = lab > 0 || (hosts && *hosts);
	if (lab > 0)
		return lab_enter(lab);
	if (!*far)
		unsetenv(HOSTFILE_VARIABLE);
	if (!*far && rate && *rate)
		return sentence("--lab.rate=%s: this is the rate of a lab's links; give "
				"--lab=N too",
				rate);
	return NULL;
}

/* Copies the platform file that a simulation of this number of workers would use. */
static char *write_platform(const struct config *given, FILE *f, int workers, bool far)
{
	struct config c AUTOCONFIG = {0};
	struct plan plan;
	struct simulation s;
	TRY(config_like(&c, given, workers, far, true));
	TRY(plan_make(&c, &plan));
	TRY(simulation_find(&c, &plan, &s));
	char *text AUTOFREE = text_read(s.platform_file);
	simulation_fini(&s);
	if (!text)
		return sentence("--out: the platform is missing");
	fputs(text, f);
	return NULL;
}

/* Checks everything before anything is measured. */
static char *check_measurable(const struct config *c)
{
	struct plan plan;
	TRY(plan_make(c, &plan));
	return store_check(c->harness.db);
}

/* The newest calibration so far; 0 if there is none. */
static char *find_newest(const struct config *c, int64_t *id)
{
	struct store *s AUTOCLOSE = NULL;
	*id = 0;
	if (access(c->harness.db, F_OK) != 0)
		return NULL;
	TRY(store_open(&s, c->harness.db, STORE_READ));
	return sql_number(s, id, "SELECT max(id) FROM calibration", "");
}

static char *print_newer(const struct config *c, int64_t before, bool far)
{
	struct store *s AUTOCLOSE = NULL;
	TRY(store_open(&s, c->harness.db, STORE_READ));
	TRY(calibration_print(s, stdout, before, far));
	double share = 1;
	TRY(sql_reals(s, &share, 1,
		      "SELECT ifnull(min(value), 1) FROM calibration_point WHERE name = ?1 AND "
		      "calibration_id > ?2",
		      "ti", CALIBRATED_SHARE, before));
	const char *mend =
		c->harness.quiet_wait > 0
			? "waiting did not help: end these processes first, your own ones too"
			: "calibrate again with --quiet-wait=60s: it waits for idle cores";
	char *says AUTOFREE =
		sentence("mvbench calibrate: other processes ran: a measurement had only %.0f %% "
			 "of its cores, and its times may be too long; %s",
			 100 * share, mend);
	if (share < CORES_SHARE_LEAST)
		text_wrap(stderr, says, 0);
	return NULL;
}

/* *hosts: number in the hostfile, if other machines are meant; otherwise 0. */
static char *find_hosts(const struct arguments *a, int64_t lab, int *hosts)
{
	struct host_list l;
	bool far;
	*hosts = 0;
	TRY(calibration_is_far(a, lab, &far));
	if (!far)
		return NULL;
	const char *given = arguments_value(a, "hostfile");
	TRY(host_list_read(given ? given : getenv(HOSTFILE_VARIABLE), &l));
	*hosts = (int)l.n;
	host_list_fini(&l);
	return *hosts > 1 ? NULL : sentence("one machine has no network links; give two or more");
}

/* Ends the line with an estimate of the remaining time. */
static void put_left(nsec began, int64_t done, int64_t all)
{
	if (done > 0) {
		fputs("; ", stderr);
		duration_put(stderr, 1e-9 * (double)(clock_now() - began) * (double)(all - done) /
					     (double)done);
		fputs(" left", stderr);
	}
	fputc('\n', stderr);
}

/* Real, and also simulated where workers send messages. A simulation repeats itself: once is
 * enough. */
static int calibrate_measure_all(const struct calibrate_flags *f, const struct config *c,
				 const int *count, int n, bool far)
{
	int status = EXIT_OK;
	int64_t repetitions = far ? 1 : f->repetitions; /* one repetition measures links often */
	int64_t done = 0;
	const nsec began = clock_now();
	for (int repetition = 0; repetition < repetitions; repetition++) {
		for (int i = 0; i < n && status == EXIT_OK; i++) {
			if (far)
				fprintf(stderr, "network links between %d hosts", count[i]);
			else
				fprintf(stderr,
					"repetition %d of %lld: %s, batch %lld, %d worker%s side "
					"by side",
					repetition + 1, (long long)repetitions, c->run.workload,
					(long long)c->run.batch, count[i], plural(count[i]));
			put_left(began, done++, repetitions * n);
			status =
				calibration_repeat(c, count[i], far, false, repetition, f->seconds);
			if (status == EXIT_OK && count[i] > 1 && repetition == 0)
				status = calibration_repeat(c, count[i], far, true, repetition,
							    f->seconds);
		}
	}
	return status;
}

static char *calibrate_command(const struct arguments *a, const struct calibrate_flags *f,
			       int *status)
{
	int count[COUNTS_MOST], n, hosts, side_by_side = 1;
	struct config c AUTOCONFIG = {0};
	struct settings given ENDS_WITH(settings_free) = {.n = 0};
	int64_t before;
	TRY(find_hosts(a, f->lab, &hosts));
	bool far = hosts > 0;
	TRY(read_counts(f->counts, hosts, count, &n));
	settings_give(&given, a->option, a->options);
	TRY(config_for(&c, &given, far ? count[0] : 1, far, false));
	if (c.run.global_batch)
		return sentence("--global-batch=%lld: calibrate measures the mini-batch of one "
				"worker; give --batch",
				(long long)c.run.global_batch);
	for (int i = 0; i < n; i++)
		if (count[i] > 1 && (side_by_side == 1 || far || count[i] <= usable_cores()))
			side_by_side = count[i];
	if (*f->out && side_by_side == 1)
		return sentence("--out=%s: one worker sends no messages; give --counts=1,2",
				f->out);
	TRY(check_measurable(&c));
	TRY(find_newest(&c, &before));
	struct output out;
	if (*f->out) /* before minutes of measuring */
		TRY(output_open(&out, "--out=", f->out));
	*status = calibrate_measure_all(f, &c, count, n, far);
	char *wrong = *status == EXIT_OK ? print_newer(&c, before, far) : NULL;
	if (!*f->out)
		return wrong;
	if (*status == EXIT_OK && !wrong)
		return output_close(&out, write_platform(&c, out.f, side_by_side, far));
	free(output_close(&out, sentence("not measured"))); /* an older file remains */
	return wrong;
}

static char *run_calibrate(void *flags, struct arguments *a, int *status)
{
	const struct calibrate_flags *f = flags;
	struct status_page *page AUTOPAGE = status_of_launcher();
	struct config c AUTOCONFIG = {0};
	struct measuring m = {
		.config = &c, .repetition = (int)f->repetitions - 1, .seconds = f->seconds};
	if (!page)
		return calibrate_command(a, f, status);
	TRY(config_init(&c, a->option, a->options, true));
	*status = calibrate_worker(&m, page);
	return NULL;
}

const struct command command_calibrate = {
	.name = "calibrate",
	.summary = "measure this machine for the simulator",
	.usage = "[--option=value ...]",
	.about =
		"Measures this machine for simulations (--platform=sim): the times of a workload's "
		"steps, the costs of pushes, updates and messages, and the effect of "
		"oversubscription. Give the options of mvbench run that decide what is computed: "
		"--workload, --batch, --device, --threads.\n\n"
		"Other processes on the cores, your own ones too, make the times too long. With "
		"--quiet-wait=60s each measurement first waits, at most that long, until the cores "
		"are idle. calibrate says if a measurement had less than 90 % of its cores. Its "
		"results go to --db.\n\n"
		"With --hostfile, or --lab, it measures the network links between machines, for "
		"--sim.platform=hosts: the times of a message one way, of messages both ways at "
		"once, and of an allreduce of 2, 3, ... hosts.",
	.options = calibrate_flags,
	.size = sizeof(OWNER),
	.run_options = true,
	.example = "--workload=mlp",
	.run = run_calibrate,
	.interrupted = STARTS_AGAIN,
};
