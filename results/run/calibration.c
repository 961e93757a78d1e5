/*
 * calibration.c - stores measurements of a machine, or of the wires between machines, in the
 * database, and finds them for a simulation.
 */

#include "results/run/run.h"
#include "runtime/config/config.h"
#include "runtime/config/dataset.h"
#include "runtime/config/machine.h"
#include "runtime/table/table.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TEXT_FILE(calibration_save_sql, "results/run/calibration_save.sql");
TEXT_FILE(calibration_find_sql, "results/run/calibration_find.sql");
TEXT_FILE(calibration_points_sql, "results/run/calibration_points.sql");
TEXT_FILE(calibration_print_wires_sql, "results/run/calibration_print_wires.sql");
TEXT_FILE(calibration_wires_sql, "results/run/calibration_wires.sql");
TEXT_FILE(calibration_print_sql, "results/run/calibration_print.sql");

/* ---- Keeping ---- */

/* Writes the options that start with prefix, as a user types them. */
static void put_words(FILE *f, const struct config *c, const char *prefix)
{
	char **words AUTOWORDS = config_words(c);
	for (char **w = words; *w; w++)
		if (strncmp(*w, prefix, strlen(prefix)) == 0)
			fprintf(f, "%s%s", ftell(f) > 0 ? " " : "", *w);
}

static double usual_momentum(const struct config *c)
{
	for (const struct setting *r = c->workload->recipe; r && r->name; r++)
		if (strcmp(r->name, "momentum") == 0)
			return strtod(r->value, NULL);
	return 0;
}

/* The options of workload and optimiser that decide how long an update takes: the optimiser's kind
 * and state, not its numeric options. Heap. */
static char *workload_words(const struct config *c)
{
	char *prefix AUTOFREE = sentence("--%s.", c->run.workload),
		     *source AUTOFREE =
			     sentence("--%s.source=", c->run.optimizer); /* of a user's file */
	bool usual = usual_momentum(c) > 0, momentum = c->run.momentum > 0;
	struct text t;
	FILE *f = text_open(&t);
	put_words(f, c, prefix);
	if (strcmp(c->run.optimizer, "sgd") != 0)
		put_words(f, c, "--optimizer=");
	else if (momentum != usual)
		fprintf(f, "%s--momentum%s", ftell(f) > 0 ? " " : "", momentum ? "" : "=0");
	put_words(f, c, source);
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
				const char *hosts, int64_t *id)
{
	const struct machine *m = machine();
	char *words AUTOFREE = workload_words(c);
	return sql_number(s, id, calibration_save_sql, "ttittttittittiiitt", m->host, m->cpu,
			  (int64_t)m->cores, m->mpi, m->onednn, p->facts.model, m->git_commit,
			  (int64_t)m->git_dirty, p->device, c->run.precision, c->run.threads,
			  c->run.workload, words, c->run.batch, (int64_t)p->params, c->run.workers,
			  hosts, hosts ? c->harness.lab_rate : "");
}

char *calibration_save(struct store *s, const struct config *c, const struct plan *p,
		       const char *hosts, const struct points *points)
{
	int64_t id;
	TRY(sql_begin(s));
	char *wrong = insert_calibration(s, c, p, hosts, &id);
	return sql_end(s, wrong ? wrong : insert_points(s, id, points));
}

char *calibration_add(struct store *s, int64_t id, const struct points *points)
{
	TRY(sql_begin(s));
	return sql_end(s, insert_points(s, id, points));
}

char *calibration_print(struct store *s, FILE *f, int64_t after, bool wires)
{
	char number[24];
	const char *const param[] = {number};
	snprintf(number, sizeof number, "%lld", (long long)after);
	return query_print(s, f, FORMAT_TEXT,
			   wires ? calibration_print_wires_sql : calibration_print_sql, param, 1,
			   NULL);
}

/* ---- Finding ---- */

/* Is this machine simulated? Then only its own calibrations are used. */
static bool is_local(const struct config *c)
{
	return strcmp(c->run.sim_platform, "local") == 0;
}

/* The newest calibration of c's workload with this many workers side by side; otherwise with the
 * next smaller number, or the smallest. *workers = that number. 0 = no calibration. */
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
	struct sql q AUTODONE = sql_select(s, calibration_points_sql, "i", id);
	while (sql_next(&q))
		points_add(out, sql_text(&q, 0), sql_real(&q, 1), sql_real(&q, 2));
}

/* Returns how many times slower the repetition of these steps was than the one of the costs. */
static double take_steps(struct simulation *s)
{
	double slower = 1;
	for (size_t i = 0; i < s->points.n; i++) {
		const struct point *p = &s->points.point[i];
		if (strcmp(p->name, "step") == 0)
			steps_add(&s->step, p->x, p->value);
		else if (strcmp(p->name, "slower") == 0)
			slower = p->value;
	}
	return slower;
}

static struct curve curve_of(const struct points *points, const char *name, double slower)
{
	struct curve c = {.n = 0};
	for (size_t i = 0; i < points->n && c.n < CURVE_POINTS; i++) {
		const struct point *p = &points->point[i];
		if (strcmp(p->name, name) != 0 || p->x < 1)
			continue;
		c.x[c.n] = p->x;
		c.y[c.n++] = slower * p->value;
	}
	return c;
}

/* The updater of this run's tables that is given gradients; NULL: it has none. */
static const struct updater *gradient_updater(const struct config *c)
{
	const struct strategy *s = c->strategy;
	const char *name = s->terms ? s->terms(&c->run, c->strategy_opts).updater : NULL;
	const struct updater *u = updater_find(name ? name : "add");
	return u->wants.gradient || u->wants.change ? u : NULL;
}

/* Calibrations measure a push with each updater once, and with "add" at all lengths. Those of a GPU
 * have no pushes. */
static void take_push_share(const struct config *c, struct simulation *s, double slower)
{
	const struct updater *u = gradient_updater(c);
	char *name AUTOFREE = sentence("push_%s", u ? u->name : "");
	s->push_share = u && s->cost[COST_PUSH].n ? NAN : 1;
	for (size_t i = 0; i < s->points.n && u; i++) {
		const struct point *p = &s->points.point[i];
		double share = slower * p->value / curve_at(&s->cost[COST_PUSH], p->x);
		if (strcmp(p->name, name) == 0 && isfinite(share) && share > 0)
			s->push_share = share;
	}
}

/* Calibrations measure the codecs of the list with their default options, on the whole model. */
static void take_code(const struct plan *p, struct simulation *s, double slower,
		      struct code_time *out, const void *opts)
{
	const struct codec *k = out->codec;
	if (!k)
		return;
	char *names[2] = {sentence("encode_%s", k->plugin.name),
			  sentence("decode_%s", k->plugin.name)};
	size_t listed = 0;
	while (codecs[listed] && codecs[listed] != k)
		listed++;
	for (size_t i = 0; i < s->points.n && codecs[listed]; i++) {
		const struct point *m = &s->points.point[i];
		for (int d = 0; d < 2; d++)
			if (strcmp(m->name, names[d]) == 0 && m->x >= 1 && m->value > 0)
				out->s[d] = slower * m->value * (double)p->params / m->x *
					    (k->work ? k->work(opts) : 1);
	}
	free(names[0]);
	free(names[1]);
}

/* The points are in the order of the layers; the forward pass is the last. */
static void take_layers(struct simulation *s)
{
	size_t n = 0;
	double all = 0;
	s->layer_s = must(calloc(s->points.n + 1, sizeof *s->layer_s));
	for (size_t i = 0; i < s->points.n; i++) {
		const struct point *p = &s->points.point[i];
		if (strcmp(p->name, "layer") != 0 || p->x != (double)n)
			continue;
		s->layer_s[n++] = p->value;
		all += p->value;
	}
	s->layers = all > 0 ? n - 1 : 0;
}

/* More workers than cores: takes the effect of shared cores out of the measured times, because the
 * simulated host shares its cores itself. */
static void take_out_sharing(struct simulation *s, int workers, int cores)
{
	double share = workers > cores && cores > 0 ? (double)cores / workers : 1;
	for (int i = 0; i < s->step.n; i++)
		s->step.s[i] *= share;
	for (int k = 0; k < COSTS; k++)
		for (int i = 0; i < s->cost[k].n; i++)
			s->cost[k].y[i] *= share;
	for (int i = 0; i < s->allreduce.n; i++)
		s->allreduce.y[i] *= share;
	for (int i = 0; i < 4; i++)
		s->code[i / 2].s[i % 2] *= share;
}

/* ---- The inputs of a simulation ---- */

static char *find_platform(const struct config *c, struct simulation *s, int cores, int hosts)
{
	const char *name = c->run.sim_platform;
	if (is_local(c) || hosts) {
		char *xml AUTOFREE = hosts ? platform_hosts(&s->wires, hosts, cores)
					   : platform_local(&s->points, cores);
		s->platform_file = file_in_memory(xml);
		return NULL;
	}
	struct cluster_shape k;
	if (cluster_of(c, &k)) {
		char *xml AUTOFREE = platform_cluster(&k);
		s->platform_file = file_in_memory(xml);
		return NULL;
	}
	if (platform_is_file(name)) {
		char hash[DATA_HASH_ROOM];
		if (!platform_hash(name, hash))
			return sentence("--sim.platform=%s: %s; give a name of mvbench list "
					"platforms, or a file of SimGrid's XML",
					name,
					errno == EINVAL ? "a platform is a plain file of XML"
							: strerror(errno));
		if (*c->harness.sim_platform_hash &&
		    strcmp(hash, c->harness.sim_platform_hash) != 0)
			return sentence("--sim.platform-hash=%s: the hash of %s is now %s; start "
					"again, or give the file that the run needs",
					c->harness.sim_platform_hash, name, hash);
		s->platform_file = must(strdup(name));
		return NULL;
	}
	char *inside AUTOFREE = sentence("sim/platforms/%s.xml", name);
	s->platform_file = installed_path(inside);
	return s->platform_file
		       ? NULL
		       : sentence("--sim.platform=%s: unknown platform; mvbench list platforms "
				  "shows all",
				  name);
}

/* The command that calibrates for simulations of c with that many workers side by side. Heap. */
static char *calibrate_words(const struct config *c, int workers)
{
	const struct run *r = &c->run;
	char *own AUTOFREE = sentence("--%s.", r->workload),
		  *optimizer AUTOFREE = sentence("--%s.", r->optimizer);
	struct text t;
	FILE *f = text_open(&t);
	fprintf(f, "mvbench calibrate --workload=%s --batch=%lld", r->workload,
		(long long)r->batch);
	put_words(f, c, own);
	if (strcmp(r->optimizer, "sgd") != 0)
		put_words(f, c, "--optimizer=");
	put_words(f, c, optimizer);
	if (c->optimizer->momentum && r->momentum != usual_momentum(c))
		put_words(f, c, "--momentum=");
	if (strcmp(r->device, "auto") != 0)
		fprintf(f, " --device=%s", r->device);
	if (strcmp(r->precision, "float32") != 0)
		fprintf(f, " --precision=%s", r->precision);
	if (r->threads != 1)
		fprintf(f, " --threads=%lld", (long long)r->threads);
	if (*r->data_dir)
		fprintf(f, " --data-dir=%s", r->data_dir);
	fprintf(f, " --db=%s", c->harness.db);
	if (workers > 1 && workers != usable_cores() && workers != 2 * usable_cores())
		fprintf(f, " --counts=1,%d", workers);
	return text_close(&t);
}

/* A calibration of one worker has no allreduce sums: takes them from one with two workers. */
static void take_sums(struct store *store, const struct config *c, const struct plan *p,
		      struct simulation *s)
{
	struct points pair = {.n = 0};
	int workers = 0, cores;
	int64_t id = find_calibration(store, c, p, 2, &workers, &cores);
	if (id == 0 || workers == 1)
		return;
	read_points(store, id, &pair);
	s->cost[COST_SUM] = curve_of(&pair, cost_names[COST_SUM], 1);
	s->allreduce = curve_of(&pair, "allreduce", 1);
	free(pair.point);
}

/* *hosts: the largest number of hosts that was calibrated. */
static char *load_wires(const struct config *c, struct simulation *s, int *hosts, int *cores)
{
	struct store *store AUTOCLOSE = NULL;
	const char *rate = c->harness.lab_rate;
	if (access(c->harness.db, F_OK) == 0) {
		TRY(store_open(&store, c->harness.db, STORE_READ));
		struct sql q AUTODONE = sql_select(store, calibration_wires_sql, "ti", rate,
						   c->run.workers + c->run.servers);
		if (sql_next(&q)) {
			s->wires_id = sql_int(&q, 0);
			*cores = (int)sql_int(&q, 1);
			*hosts = (int)sql_int(&q, 2);
			read_points(store, s->wires_id, &s->wires);
			return NULL;
		}
	}
	return sentence(
		"--sim.platform=hosts: no wires%s%s were calibrated; run: mvbench calibrate "
		"--hostfile=FILE%s%s --db=%s",
		*rate ? " of " : "", rate, *rate ? " --lab.rate=" : "", rate, c->harness.db);
}

static char *load_calibration(const struct config *c, const struct plan *p, struct simulation *s,
			      int side_by_side, int *cores)
{
	struct store *store AUTOCLOSE = NULL;
	int workers = 0;
	if (access(c->harness.db, F_OK) != 0)
		return NULL;
	TRY(store_open(&store, c->harness.db, STORE_READ));
	s->calibration_id = find_calibration(store, c, p, side_by_side, &workers, cores);
	if (s->calibration_id == 0)
		return NULL;
	read_points(store, s->calibration_id, &s->points);
	const double slower = take_steps(s);
	for (enum cost k = 0; k < COSTS; k++)
		s->cost[k] = curve_of(&s->points, cost_names[k], slower);
	s->allreduce = curve_of(&s->points, "allreduce", slower);
	take_push_share(c, s, slower);
	take_code(p, s, slower, &s->code[0], c->codec_opts);
	take_code(p, s, slower, &s->code[1], c->codec_pull_opts);
	take_layers(s);
	if (s->step.n == 0)
		s->calibration_id = 0;
	take_out_sharing(s, workers, *cores);
	if (s->cost[COST_SUM].n == 0)
		take_sums(store, c, p, s);
	/* without its sums, a calibration is about to simulate the messages */
	if (!is_local(c) || s->cost[COST_SUM].n == 0)
		s->allreduce.n = 0;
	return NULL;
}

/* NULL, or a sentence: which part of the calibration is missing. */
static char *find_gaps(const struct config *c, const struct simulation *s, int side_by_side)
{
	bool messages = false;
	for (size_t i = 0; i < s->points.n; i++)
		messages |= strcmp(s->points.point[i].name, "message") == 0;
	if (s->calibration_id && (!is_local(c) || messages || c->run.workers + c->run.servers == 1))
		return NULL;
	char *words AUTOFREE = calibrate_words(c, side_by_side);
	if (!is_local(c))
		return sentence("--platform=sim: the time of a step was not calibrated; give "
				"--sim.step-time, or run: %s",
				words);
	return sentence("--sim.platform=local: this machine was not calibrated for %s; run: %s",
			s->calibration_id ? "messages between workers" : "this workload and batch",
			words);
}

static char *find_updater(const struct config *c, const struct simulation *s, int side_by_side)
{
	if (!isnan(s->push_share) || !isnan(s->update_s))
		return NULL;
	char *words AUTOFREE = calibrate_words(c, side_by_side);
	return sentence("--platform=sim: calibration %lld has no time of a push with the updater "
			"%s; give --sim.update-time, or run: %s",
			(long long)s->calibration_id, gradient_updater(c)->name, words);
}

/* A time of the command line replaces *s. */
static char *take_given(const char *option, const char *text, double *s)
{
	double given = NAN;
	TRY(time_check(option, text, &given));
	*s = isnan(given) ? *s : given;
	return NULL;
}

static char *find_all(const struct config *c, const struct plan *p, struct simulation *s)
{
	double step = NAN;
	bool paced = c->run.step_time > 0;
	int side_by_side = is_local(c) ? (int)c->run.workers : 1, cores = usable_cores(), hosts = 0,
	    host_cores = 0;
	TRY(time_check("sim.step-time", c->run.sim_step_time, &step));
	TRY(time_check("sim.update-time", c->run.sim_update_time, &s->update_s));
	if (isnan(step) && c->harness.sim_flops > 0) {
		if (p->row_flops == 0)
			return sentence("--sim.flops: the operations of --workload=%s are not "
					"known; give --sim.step-time",
					c->run.workload);
		step = (double)timed_rows(&c->run) * p->row_flops / c->harness.sim_flops;
	}
	if (config_simulates_hosts(c))
		TRY(load_wires(c, s, &hosts, &host_cores));
	if (isnan(step) || is_local(c))
		TRY(load_calibration(c, p, s, side_by_side, &cores));
	for (int i = 0; i < 2; i++) {
		double *code_s = s->code[i].s;
		TRY(take_given("sim.encode-time", c->harness.sim_encode_time, &code_s[0]));
		TRY(take_given("sim.decode-time", c->harness.sim_decode_time, &code_s[1]));
	}
	if (!is_local(c)) /* a name that does not exist comes first */
		TRY(find_platform(c, s, hosts ? host_cores : cores, hosts));
	if ((isnan(step) && !paced) || is_local(c))
		TRY(find_gaps(c, s, side_by_side));
	TRY(find_updater(c, s, side_by_side));
	if (is_local(c))
		TRY(find_platform(c, s, hosts ? host_cores : cores, hosts));
	if (hosts) { /* an allreduce between hosts beyond its messages */
		s->cost[COST_SUM] = curve_of(&s->wires, cost_names[COST_SUM], 1);
		s->calibration_id = s->calibration_id ? s->calibration_id : s->wires_id;
	}
	if (!isnan(step)) { /* the whole step: no separate update */
		s->step.n = 0;
		s->rows = (double)timed_rows(&c->run);
		steps_add(&s->step, 0, step);
		s->cost[COST_SGD].n = 0;
	} else if (paced) { /* as with real workers: the update is added */
		s->step.n = 0;
		s->sleeps = true;
		s->rows = (double)timed_rows(&c->run);
		steps_add(&s->step, 0,
			  c->run.step_time + curve_at(&s->cost[COST_SGD], (double)p->params));
	}
	for (int i = 0; i < s->step.n; i++)
		s->step.s[i] *= c->harness.sim_step_factor;
	return NULL;
}

char *simulation_find(const struct config *c, const struct plan *p, struct simulation *s)
{
	*s = (struct simulation){.rows = (double)c->run.batch,
				 .code = {{c->codec, {NAN, NAN}}, {c->codec_pull, {NAN, NAN}}},
				 .update_s = NAN,
				 .push_share = 1,
				 .connect_s = c->harness.sim_connect};
	char *wrong = find_all(c, p, s);
	if (wrong)
		simulation_fini(s);
	return wrong;
}

/* Closing its last descriptor removes a platform in memory. */
void simulation_fini(struct simulation *s)
{
	int fd;
	if (s->platform_file && sscanf(s->platform_file, IN_MEMORY "%d", &fd) == 1)
		close(fd);
	free(s->platform_file);
	free(s->points.point);
	free(s->wires.point);
	free(s->layer_s);
	replay_free(s->replay);
	*s = (struct simulation){.platform_file = NULL};
}

char *calibration_doubt(const struct config *c, const struct plan *p)
{
	struct simulation s;
	char *wrong AUTOFREE = simulation_find(c, p, &s);
	double share = 1;
	if (wrong)
		return NULL;
	for (size_t i = 0; i < s.points.n; i++)
		if (strcmp(s.points.point[i].name, CALIBRATED_SHARE) == 0)
			share = fmin(share, s.points.point[i].value);
	int64_t id = s.calibration_id;
	simulation_fini(&s);
	if (share >= CORES_SHARE_LEAST)
		return NULL;
	char *words AUTOFREE = calibrate_words(c, is_local(c) ? (int)c->run.workers : 1);
	return sentence("calibration %lld had only %.0f %% of its cores, because other processes "
			"ran. Times may be wrong. Repeat it: %s --quiet-wait=60s",
			(long long)id, 100 * share, words);
}

char *simulation_inputs(const struct config *c, const struct plan *p)
{
	struct simulation s;
	if (!is_simulated(c))
		return NULL;
	TRY(simulation_find(c, p, &s));
	simulation_fini(&s);
	return NULL;
}

char *simulation_check(const struct config *c, const struct plan *p)
{
	TRY(simulation_inputs(c, p));
	return is_simulated(c) ? simulator_try(c) : NULL;
}
