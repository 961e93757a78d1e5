/*
 * calibration.c - what was measured of a machine: kept in the database, found again for a
 * simulation, and made into a SimGrid platform of this machine.
 */

#include "results/run/run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

TEXT_FILE(calibration_save_sql, "results/run/calibration_save.sql");
TEXT_FILE(calibration_find_sql, "results/run/calibration_find.sql");
TEXT_FILE(calibration_print_sql, "results/run/calibration_print.sql");

/* ---- Keeping ---- */

char *workload_words(const struct config *c)
{
	char **words AUTOWORDS = config_words(c);
	char *prefix AUTOFREE = sentence("--%s.", c->run.workload);
	struct text t;
	FILE *f = text_open(&t);
	for (char **w = words; *w; w++)
		if (strncmp(*w, prefix, strlen(prefix)) == 0)
			fprintf(f, "%s%s", ftell(f) > 0 ? " " : "", *w);
	return text_close(&t);
}

char *calibration_key(const struct config *c)
{
	char *words AUTOFREE = workload_words(c);
	return sentence("%s %s %lld %s %s %lld %lld", c->run.workload, words,
			(long long)c->run.batch, c->run.device, c->run.precision,
			(long long)c->run.threads, (long long)c->run.workers);
}

static char *insert_points(struct store *s, int64_t id, const struct points *p)
{
	struct sql q = sql_select(s,
				  "INSERT OR REPLACE INTO calibration_point "
				  "(calibration_id, name, x, value) VALUES (?1, ?2, ?3, ?4)",
				  "");
	for (size_t i = 0; i < p->n; i++) {
		sql_again(&q, "itrr", id, p->point[i].name, p->point[i].x, p->point[i].value);
		sql_next(&q);
	}
	return sql_done(&q);
}

static char *insert_calibration(struct store *s, const struct config *c, const struct plan *p,
				int64_t *id)
{
	const struct machine *m = machine();
	char *words AUTOFREE = workload_words(c);
	return sql_number(s, id, calibration_save_sql, "ttittttittittiii", m->host, m->cpu,
			  (int64_t)m->cores, m->mpi, m->onednn, p->facts.model, m->git_commit,
			  (int64_t)m->git_dirty, p->device, c->run.precision, c->run.threads,
			  c->run.workload, words, c->run.batch, (int64_t)p->params, c->run.workers);
}

char *calibration_save(struct store *s, const struct config *c, const struct plan *p,
		       const struct points *points)
{
	int64_t id;
	TRY(sql_begin(s));
	char *wrong = insert_calibration(s, c, p, &id);
	return sql_end(s, wrong ? wrong : insert_points(s, id, points));
}

char *calibration_add(struct store *s, int64_t id, const struct points *points)
{
	TRY(sql_begin(s));
	return sql_end(s, insert_points(s, id, points));
}

int64_t calibration_last(struct store *s)
{
	int64_t id;
	free(sql_number(s, &id, "SELECT max(id) FROM calibration", ""));
	return id;
}

char *calibration_print(struct store *s, FILE *f, int64_t after)
{
	char number[24];
	const char *const param[] = {number};
	snprintf(number, sizeof number, "%lld", (long long)after);
	return query_print(s, f, FORMAT_TEXT, calibration_print_sql, param, 1, NULL);
}

/* ---- Finding ---- */

/* This machine is simulated: its own figures are wanted. */
static bool is_local(const struct config *c)
{
	return strcmp(c->run.sim_platform, "local") == 0 ||
	       strcmp(c->run.sim_platform, "sim:local") == 0;
}

/* The newest calibration of c's work with this many workers side by side; or the next smaller
 * number, or the smallest. *workers gets it; 0 = there is none. */
static int64_t find_calibration(struct store *s, const struct config *c, const struct plan *p,
				int wanted, int *workers, int *cores)
{
	char *words AUTOFREE = workload_words(c);
	struct sql q AUTODONE =
		sql_select(s, calibration_find_sql, "ttittiit", c->run.workload, words,
			   c->run.batch, p->device, c->run.precision, c->run.threads,
			   (int64_t)wanted, is_local(c) ? machine()->host : "");
	if (!sql_next(&q))
		return 0;
	*workers = (int)sql_int(&q, 1);
	*cores = (int)sql_int(&q, 2);
	return sql_int(&q, 0);
}

int64_t calibration_newest(struct store *s, const struct config *c, const struct plan *p)
{
	int workers = 0, cores;
	int64_t id = find_calibration(s, c, p, (int)c->run.workers, &workers, &cores);
	return workers == c->run.workers ? id : 0;
}

static void read_points(struct store *s, int64_t id, struct points *out)
{
	struct sql q AUTODONE = sql_select(s,
					   "SELECT name, x, value FROM calibration_point "
					   "WHERE calibration_id = ?1 ORDER BY name, x",
					   "i", id);
	while (sql_next(&q))
		points_add(out, sql_text(&q, 0), sql_real(&q, 1), sql_real(&q, 2));
}

enum { REPETITIONS_MOST = 99 };

static int repetition_of(const struct point *p)
{
	int repetition = strcmp(p->name, "step") == 0 && p->x >= 0 ? (int)p->x / STEP_BINS : -1;
	return repetition < REPETITIONS_MOST ? repetition : -1;
}

/* How many STEP_BINS-ths of its repetition's steps this point is; they are sorted. */
static double share_of(const struct points *p, size_t i)
{
	int repetition = repetition_of(&p->point[i]);
	bool last = i + 1 == p->n || repetition_of(&p->point[i + 1]) != repetition;
	return (last ? (repetition + 1.0) * STEP_BINS : p->point[i + 1].x) - p->point[i].x;
}

/* The steps of the repetition whose mean is the median (of two, the smaller one). Costs were
 * measured in the first one, at whose speed: returns how many times longer things take in the
 * median one. */
static double take_steps(struct simulation *s)
{
	double mean[REPETITIONS_MOST] = {0}, sorted[REPETITIONS_MOST];
	int repetitions = 0, typical = 0;
	for (size_t i = 0; i < s->points.n; i++) {
		int repetition = repetition_of(&s->points.point[i]);
		if (repetition >= 0)
			mean[repetition] +=
				s->points.point[i].value * share_of(&s->points, i) / STEP_BINS;
		repetitions = repetition >= repetitions ? repetition + 1 : repetitions;
	}
	if (repetitions == 0)
		return 1;
	memcpy(sorted, mean, sizeof sorted);
	qsort(sorted, (size_t)repetitions, sizeof *sorted, by_value);
	while (mean[typical] != sorted[(repetitions - 1) / 2])
		typical++;
	for (size_t i = 0; i < s->points.n; i++) {
		const struct point *p = &s->points.point[i];
		if (repetition_of(p) == typical)
			steps_add(&s->step, p->x - typical * STEP_BINS, p->value);
	}
	return mean[0] > 0 ? mean[typical] / mean[0] : 1;
}

static void take_curves(struct simulation *s, double slower)
{
	for (size_t i = 0; i < s->points.n; i++) {
		const struct point *p = &s->points.point[i];
		for (int k = 0; k < COSTS; k++) {
			struct curve *c = &s->cost[k];
			if (strcmp(p->name, cost_names[k]) != 0 || c->n == CURVE_POINTS)
				continue;
			c->x[c->n] = p->x;
			c->y[c->n++] = slower * p->value;
		}
	}
}

/* More workers than cores: what they were measured to take, without what sharing a core accounts
 * for, as the simulated host shares its cores itself. */
static void take_out_sharing(struct simulation *s, int workers, int cores)
{
	double share = workers > cores && cores > 0 ? (double)cores / workers : 1;
	for (int i = 0; i < s->step.n; i++)
		s->step.s[i] *= share;
	for (int k = 0; k < COSTS; k++)
		for (int i = 0; i < s->cost[k].n; i++)
			s->cost[k].y[i] *= share;
}

/* ---- This machine as a platform ---- */

/* SMPI takes latency x lat-factor + bytes / (bandwidth x bw-factor) for a message, with factors by
 * the message's size: with the line through two neighbours' times as factors, it takes what was
 * measured. */
enum { LATENCY_NS = 1000, ENVELOPE = 16 /* bytes that SMPI adds to a message */ };
static const double bandwidth = 1e10; /* [bytes/s] */

struct factors {
	struct text bandwidth, latency;
	size_t n;
	double last; /* length */
};

/* The first is for all that is shorter, too. SMPI wants each length once. */
static void add_factor(struct factors *f, double from, double fixed_s, double byte_s)
{
	const char *comma = f->n ? ";" : "";
	from = f->n ? round(from) : 0;
	if (f->n && from <= f->last)
		return;
	fprintf(f->latency.f, "%s%.0f:%.6g", comma, from, fixed_s / (1e-9 * LATENCY_NS));
	fprintf(f->bandwidth.f, "%s%.0f:%.6g", comma, from, 1 / (byte_s * bandwidth));
	f->last = from;
	f->n++;
}

/* Between two lengths; from: SMPI's. No latency can be below 0: where the line would need that,
 * short pieces of it take what their middle does in proportion. */
static void add_line(struct factors *f, double from, double y0, double to, double y1)
{
	enum { PIECES = 32 };
	const double byte_s_least = 1e-12;
	double slope = fmax((y1 - y0) / (to - from), byte_s_least), fixed = y0 - slope * from;
	if (fixed >= 0) {
		add_factor(f, from, fixed, slope);
		return;
	}
	for (int k = 0; k < PIECES; k++) {
		double start = from * pow(to / from, (double)k / PIECES),
		       middle = from * pow(to / from, (k + 0.5) / PIECES);
		if (round(start) < to)
			add_factor(f, start, 0, (fixed + slope * middle) / middle);
	}
}

static void add_factors(struct factors *f, const struct points *p)
{
	const struct point *before = NULL;
	double last = 0;
	for (size_t i = 0; i < p->n; i++) {
		struct point *m = &p->point[i];
		if (strcmp(m->name, "message") != 0)
			continue;
		double y = fmax(m->value, last); /* noise: never faster than a shorter one */
		if (before)
			add_line(f, before->x + ENVELOPE, last, m->x + ENVELOPE, y);
		before = m;
		last = y;
	}
}

/* From the heap. */
static char *local_platform(const struct points *p, int cores)
{
	struct factors f = {.n = 0};
	text_open(&f.bandwidth);
	text_open(&f.latency);
	add_factors(&f, p);
	char *bandwidths AUTOFREE = text_close(&f.bandwidth);
	char *latencies AUTOFREE = text_close(&f.latency);
	char *config AUTOFREE =
		f.n ? sentence("<config>\n\t<prop id=\"smpi/bw-factor\" value=\"%s\"/>\n"
			       "\t<prop id=\"smpi/lat-factor\" value=\"%s\"/>\n</config>\n",
			       bandwidths, latencies)
		    : must(strdup(""));
	return sentence(
		"<?xml version='1.0'?>\n<!DOCTYPE platform SYSTEM "
		"\"https://simgrid.org/simgrid.dtd\">\n"
		"<!-- This machine, as mvbench calibrate measured it: messages go through memory, "
		"and take\n     what they were measured to take by the factors. -->\n"
		"<platform version=\"4.1\">\n%s<zone id=\"local\" routing=\"Full\">\n"
		"\t<prop id=\"description\" value=\"this machine, as calibrated\"/>\n"
		"\t<host id=\"local\" speed=\"1Gf\" core=\"%d\"/>\n"
		"\t<link id=\"memory\" bandwidth=\"%.0fBps\" latency=\"%dns\" "
		"sharing_policy=\"FATPIPE\"/>\n"
		"\t<route src=\"local\" dst=\"local\" symmetrical=\"NO\"><link_ctn "
		"id=\"memory\"/></route>\n"
		"</zone>\n</platform>\n",
		config, cores, bandwidth, LATENCY_NS);
}

#define IN_MEMORY "/proc/self/fd/"

char *file_in_memory(const char *text)
{
	int fd = memfd_create("platform", 0);
	CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text), "memfd: %m");
	return sentence(IN_MEMORY "%d", fd);
}

/* ---- What a simulation needs ---- */

static char *find_platform(const struct config *c, struct simulation *s, int cores)
{
	const char *name = c->run.sim_platform;
	if (strncmp(name, "sim:", 4) == 0) /* as mvbench list shows it */
		name += 4;
	if (is_local(c)) {
		char *xml AUTOFREE = local_platform(&s->points, cores);
		s->platform_file = file_in_memory(xml);
		return NULL;
	}
	if (strchr(name, '/') || strstr(name, ".xml")) {
		if (access(name, R_OK) != 0)
			return sentence("--sim.platform=%s: %m; give a name of mvbench list "
					"platforms, or a file of SimGrid's XML",
					name);
		s->platform_file = must(strdup(name));
		return NULL;
	}
	char *inside AUTOFREE = sentence("sim/platforms/%s.xml", name);
	s->platform_file = installed_path(inside);
	return s->platform_file ? NULL
				: sentence("--sim.platform=%s: there is none of that name; mvbench "
					   "list platforms shows them",
					   name);
}

char *calibrate_words(const struct config *c, int workers)
{
	const struct run *r = &c->run;
	char *words AUTOFREE = workload_words(c);
	struct text t;
	FILE *f = text_open(&t);
	fprintf(f, "mvbench calibrate --workload=%s --batch=%lld%s%s", r->workload,
		(long long)r->batch, *words ? " " : "", words);
	if (strcmp(r->device, "auto") != 0)
		fprintf(f, " --device=%s", r->device);
	if (strcmp(r->precision, "float32") != 0)
		fprintf(f, " --precision=%s", r->precision);
	if (r->threads != 1)
		fprintf(f, " --threads=%lld", (long long)r->threads);
	if (*r->data_dir)
		fprintf(f, " --data-dir=%s", r->data_dir);
	fprintf(f, " --db=%s", c->own.db);
	if (workers > 1 && workers != usable_cores() && workers != 2 * usable_cores())
		fprintf(f, " --counts=1,%d", workers);
	return text_close(&t);
}

/* One worker alone knows nothing of an allreduce's sums: those of two workers. */
static void take_sums(struct store *store, const struct config *c, const struct plan *p,
		      struct simulation *s)
{
	struct simulation pair = {.calibration_id = 0};
	int workers = 0, cores;
	int64_t id = find_calibration(store, c, p, 2, &workers, &cores);
	if (id == 0 || workers == 1)
		return;
	read_points(store, id, &pair.points);
	take_curves(&pair, 1);
	s->cost[COST_SUM] = pair.cost[COST_SUM];
	free(pair.points.point);
}

static char *load_calibration(const struct config *c, const struct plan *p, struct simulation *s,
			      int side_by_side, int *cores)
{
	struct store *store AUTOCLOSE = NULL;
	int workers = 0;
	if (access(c->own.db, F_OK) != 0)
		return NULL;
	TRY(store_open(&store, c->own.db, STORE_READ));
	s->calibration_id = find_calibration(store, c, p, side_by_side, &workers, cores);
	if (s->calibration_id == 0)
		return NULL;
	read_points(store, s->calibration_id, &s->points);
	take_curves(s, take_steps(s));
	take_out_sharing(s, workers, *cores);
	if (s->cost[COST_SUM].n == 0)
		take_sums(store, c, p, s);
	return NULL;
}

/* NULL, or a sentence: is there all that a simulation takes from a calibration? */
static char *look_for_gaps(const struct config *c, const struct simulation *s, int side_by_side)
{
	bool messages = false;
	for (size_t i = 0; i < s->points.n; i++)
		messages |= strcmp(s->points.point[i].name, "message") == 0;
	if (s->calibration_id && (!is_local(c) || messages || c->run.workers + c->run.servers == 1))
		return NULL;
	char *words AUTOFREE = calibrate_words(c, side_by_side);
	if (!is_local(c))
		return sentence("--platform=sim: nobody has measured what a step takes; give "
				"--sim.step-time, or run: %s",
				words);
	return sentence("--sim.platform=local: this machine was not calibrated for %s; run: %s",
			s->calibration_id ? "messages between workers" : "this workload and batch",
			words);
}

static char *find_all(const struct config *c, const struct plan *p, struct simulation *s)
{
	double step = NAN;
	int side_by_side = is_local(c) ? (int)c->run.workers : 1, cores = usable_cores();
	TRY(time_check("sim.step-time", c->run.sim_step_time, &step));
	TRY(time_check("sim.update-time", c->run.sim_update_time, &s->update_s));
	if (isnan(step) || is_local(c)) {
		TRY(load_calibration(c, p, s, side_by_side, &cores));
		TRY(look_for_gaps(c, s, side_by_side));
	}
	TRY(find_platform(c, s, cores));
	if (!isnan(step)) { /* whole: nothing of it is the update's */
		s->step.n = 0;
		steps_add(&s->step, 0, step);
		s->cost[COST_SGD].n = 0;
	}
	return NULL;
}

char *simulation_find(const struct config *c, const struct plan *p, struct simulation *s)
{
	*s = (struct simulation){.rows = (double)c->run.batch, .update_s = NAN};
	char *wrong = find_all(c, p, s);
	if (wrong)
		simulation_fini(s);
	return wrong;
}

/* A platform in memory is gone with its last descriptor. */
void simulation_fini(struct simulation *s)
{
	int fd;
	if (s->platform_file && sscanf(s->platform_file, IN_MEMORY "%d", &fd) == 1)
		close(fd);
	free(s->platform_file);
	free(s->points.point);
	*s = (struct simulation){.platform_file = NULL};
}

char *simulation_check(const struct config *c, const struct plan *p)
{
	struct simulation s;
	if (strcmp(c->run.platform, "sim") != 0)
		return NULL;
	TRY(simulation_find(c, p, &s));
	simulation_fini(&s);
	return NULL;
}
