/*
 * advise.c - mvbench advise: which strategy and interval are worthwhile on this setup. This file
 * plans the setup for each strategy with its options. advise_costs.sql finds the costs of a step,
 * the strategies predict epoch times from them (predict.c), and advise.sql makes the answer that is
 * printed.
 */
#include "results/ask/ask.h"
#include "results/run/run.h"
#include "sim/model/model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TEXT_FILE(advise_asked, "results/ask/advise_asked.sql");
TEXT_FILE(advise_costs, "results/ask/advise_costs.sql");
TEXT_FILE(advise_sql, "results/ask/advise.sql");

struct advise_options {
	const char *from, *intervals, *where, *format, *out;
};

#define OWNER struct advise_options
static const struct option options[] = {
	OPTION(from, CHOICE, "from", "auto",
	       "source of the times of a step; auto: calibrations, and recorded runs for times "
	       "that they lack",
	       .choices = "auto|calibration|runs"),
	OPTION(intervals, STRING, "intervals", "1,2,4,8,16,32,64",
	       "sync intervals to compare [steps]"),
	SELECT_WHERE(where, ""),
	OPTION(format, CHOICE, "format", "text",
	       "output format; json: one object, not rounded [name]", .choices = "text|json"),
	OPTION(out, STRING, "out", "",
	       "write the answer to this file instead of the terminal [file]"),
	{.name = NULL},
};

/* ---- The setup ----------------------------------------------------------- */

/* A strategy with the options that were given, or a variant of it. */
struct candidate {
	struct config config;
	char *variant; /* "" = none */
	char *refused; /* why it is refused, NULL = it can run */
	int64_t steps; /* of an epoch */
};

struct setup {
	struct config config; /* of an allreduce; candidates have other strategies */
	struct plan plan;
	struct candidate *candidate;
	size_t candidates;
	int64_t steps_one; /* of one worker alone */
	char *words;
};

/* Plans the same work with this strategy; a local strategy has one worker. variant NULL: only the
 * given options. */
static void candidate_add(struct setup *u, const struct setting *given, size_t n,
			  const struct strategy *s, const struct setting *variant)
{
	struct setting *all AUTOFREE = must(calloc(n + 3, sizeof *all));
	char *option AUTOFREE = variant ? sentence("%s.%s", s->plugin.name, variant->name) : NULL;
	struct candidate c = {.steps = 0};
	struct plan p;
	memcpy(all, given, n * sizeof *all);
	all[n++] = (struct setting){"strategy", s->plugin.name};
	if (s->local)
		all[n++] = (struct setting){"workers", "1"};
	if (option)
		all[n++] = (struct setting){option, variant->value};
	c.variant = !variant ? must(strdup(""))
		    : strcmp(variant->value, "true") == 0
			    ? sentence("%s", variant->name)
			    : sentence("%s=%s", variant->name, variant->value);
	char *wrong = config_init(&c.config, all, n, true);
	CHECK(!wrong, "%s", wrong); /* the same settings were valid with allreduce */
	c.refused = plan_make(&c.config, &p);
	c.steps = c.refused ? 0 : p.steps;
	if (s->local && !c.refused)
		u->steps_one = p.steps;
	APPEND(u->candidate, u->candidates, c);
}

static void candidates_add(struct setup *u, const struct setting *given, size_t n)
{
	for (size_t i = 0; strategies[i]; i++) {
		candidate_add(u, given, n, strategies[i], NULL);
		for (const struct setting *v = strategies[i]->variants; v && v->name; v++)
			candidate_add(u, given, n, strategies[i], v);
	}
}

static void setup_fini(struct setup *u)
{
	for (size_t i = 0; i < u->candidates; i++) {
		config_fini(&u->candidate[i].config);
		free(u->candidate[i].variant);
		free(u->candidate[i].refused);
	}
	free(u->candidate);
	free(u->words);
	config_fini(&u->config);
}

/* Without --workers: one for each usable core, but at least 2. */
static char *setup_read(struct setup *u, const struct arguments *a)
{
	struct setting *all AUTOFREE = must(calloc(a->options + 2, sizeof *all));
	size_t n = a->options + 1;
	char cores[24];
	TRY(settings_check(a->option, a->options));
	snprintf(cores, sizeof cores, "%d", usable_cores() > 1 ? usable_cores() : 2);
	all[0] = (struct setting){"workers", cores};
	for (size_t i = 0; i < a->options; i++) {
		all[i + 1] = a->option[i];
		if (!all[i + 1].value) /* --record and the like */
			all[i + 1].value = "true";
		if (strcmp(a->option[i].name, "strategy") == 0 ||
		    strcmp(a->option[i].name, "sync-every") == 0)
			return sentence("--%s: advise compares them all; give --workload, "
					"--batch, --workers, --device, ...",
					a->option[i].name);
	}
	all[n++] = (struct setting){"strategy", "allreduce"};
	TRY(config_init(&u->config, all, n, true));
	if (u->config.run.workers < 2)
		return sentence(
			"--workers=%lld: advise compares strategies of several workers; give "
			"--workers=2 or more",
			(long long)u->config.run.workers);
	TRY(plan_make(&u->config, &u->plan));
	candidates_add(u, all, n);
	u->words = workload_words(&u->config);
	return NULL;
}

/* ---- Into the temporary schema ------------------------------------------- */

static char *fill_asked(struct store *s, const struct setup *u, const struct advise_options *o)
{
	const struct run *r = &u->config.run;
	bool sim = strcmp(r->platform, "sim") == 0;
	const char *name =
		strncmp(r->sim_platform, "sim:", 4) == 0 ? r->sim_platform + 4 : r->sim_platform;
	TRY(sql_change(
		s,
		"INSERT INTO asked VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13,"
		" ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25, ?26, ?27, ?28, ?29)",
		"ttittiiiiiitttttt"
		"irtrrttttrti",
		r->workload, u->words, r->batch, u->plan.device, r->precision, r->threads,
		r->workers, u->plan.params, (int64_t)u->plan.train.n, u->plan.steps, u->steps_one,
		machine()->host, r->platform, sim ? name : NULL, sim ? r->sim_step_time : NULL,
		sim ? r->sim_update_time : NULL, o->from, r->epochs, r->lr, r->lr_schedule,
		r->momentum, r->weight_decay, r->reduce, r->lr_scale, r->split, r->optimizer,
		r->clip, r->state, (int64_t)STEP_BINS));
	for (const struct term *t = terms; t->means; t++)
		TRY(sql_change(s, "INSERT INTO meaning (name, means) VALUES (?1, ?2)", "tt",
			       t->name, t->means));
	return NULL;
}

static char *fill_intervals(struct store *s, const char *list)
{
	const char *at = list;
	char *end = NULL;
	for (;; at = end + 1) {
		long x = strtol(at, &end, 10);
		if (*at < '1' || *at > '9' || x > 1000000000 || (*end && *end != ','))
			return sentence("--intervals=%s: give whole numbers from 1 to 1000000000, "
					"separated by commas, such as --intervals=1,4,16",
					list);
		if (!*end)
			break;
	}
	return sql_change(s,
			  "INSERT OR IGNORE INTO interval "
			  "SELECT value FROM json_each('[' || ?1 || ']')",
			  "t", list);
}

struct filling {
	struct store *store;
	const struct candidate *candidate;
	char *wrong;
};

static void fill_option(void *ctx, const char *part, const struct option *o, const char *value)
{
	struct filling *f = ctx;
	if (strcmp(part, "strategy") == 0 && !f->wrong)
		f->wrong = sql_change(f->store, "INSERT INTO chosen VALUES (?1, ?2, ?3, ?4, ?5)",
				      "ttttt", f->candidate->config.run.strategy,
				      f->candidate->variant, o->name, value, o->def);
}

static char *fill_candidates(struct store *s, const struct setup *u)
{
	struct filling f = {.store = s};
	for (size_t i = 0; i < u->candidates && !f.wrong; i++) {
		f.candidate = &u->candidate[i];
		f.wrong = sql_change(s, "INSERT INTO variant VALUES (?1, ?2)", "tt",
				     f.candidate->config.run.strategy, f.candidate->variant);
		config_each(&f.candidate->config, fill_option, &f);
	}
	return f.wrong;
}

/* ---- Predictions --------------------------------------------------------- */

/* T_update, T_scale and T_add are 0 unless measured: T_step and T_allreduce then include them. */
static char *read_costs(struct store *s, struct costs *c)
{
	struct sql q = sql_select(s, "SELECT name, s FROM known", "");
	for (const struct term *t = terms; t->name; t++)
		*term_of(c, t->name, strlen(t->name)) = NAN;
	c->T_update = c->T_scale = c->T_add = 0;
	while (sql_next(&q))
		*term_of(c, sql_text(&q, 0), strlen(sql_text(&q, 0))) = sql_real(&q, 1);
	return sql_done(&q);
}

static char *keep_prediction(struct store *s, const struct candidate *c, const struct prediction *p,
			     int64_t x)
{
	const struct run *r = &c->config.run;
	if (!p->why)
		return sql_change(s,
				  "INSERT INTO prediction VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8,"
				  " ?9)",
				  "ttiiitrtt", r->strategy, c->variant, (int64_t)p->paced, x,
				  r->workers, p->at_best ? "at best" : "", p->seconds, p->formula,
				  p->numbers);
	return sql_change(s, "INSERT INTO unpredicted VALUES (trim(?1 || ' ' || ?2), ?3)", "ttt",
			  r->strategy, c->variant, p->why);
}

/* Stores a prediction for each interval, or only one if the interval does not matter or nothing can
 * be predicted. */
static char *predict_one(struct store *s, const struct candidate *a, struct costs c)
{
	struct sql q AUTODONE = sql_select(s, "SELECT x FROM interval", "");
	struct run run = a->config.run;
	bool more = true;
	c.steps = (double)a->steps;
	c.N = (double)run.workers;
	c.G = config_model_workers(&a->config);
	while (more && sql_next(&q)) {
		struct prediction p ENDS_WITH(prediction_fini) = {.why = NULL};
		run.sync_every = sql_int(&q, 0);
		c.X = (double)run.sync_every;
		if (a->refused)
			p.why = sentence("%s", a->refused);
		else
			p = predict(a->config.strategy, &c, &run, a->config.strategy_opts);
		more = p.paced && !p.why;
		TRY(keep_prediction(s, a, &p, p.paced ? run.sync_every : 1));
	}
	return sql_done(&q);
}

static char *work_out(struct store *s, const struct setup *u, const struct advise_options *o)
{
	struct costs c;
	TRY(sql_script(s, advise_asked));
	TRY(fill_asked(s, u, o));
	TRY(fill_intervals(s, o->intervals));
	TRY(database_selected(s, "INSERT INTO allowed SELECT id FROM run_summary", o->where,
			      u->config.harness.label));
	TRY(fill_candidates(s, u));
	TRY(sql_script(s, advise_costs));
	TRY(read_costs(s, &c));
	for (size_t i = 0; i < u->candidates; i++)
		TRY(predict_one(s, &u->candidate[i], c));
	return sql_script(s, advise_sql);
}

char *predict_run(const struct config *c, double *seconds)
{
	char x[24];
	const struct advise_options o = {.from = "calibration", .intervals = x, .where = ""};
	struct setup u ENDS_WITH(setup_fini) = {.words = NULL};
	struct store *s AUTOCLOSE = NULL;
	char **words AUTOWORDS = config_words(c);
	struct arguments a ENDS_WITH(arguments_free);
	int n = 0;
	while (words[n])
		n++;
	snprintf(x, sizeof x, "%lld", (long long)c->run.sync_every);
	TRY(arguments_read(&a, n, words, NULL, NULL));
	TRY(config_init(&u.config, a.option, a.options, true));
	TRY(plan_make(&u.config, &u.plan));
	u.words = workload_words(c);
	candidate_add(&u, a.option, a.options, c->strategy, NULL);
	TRY(store_open(&s, c->harness.db, STORE_READ));
	TRY(work_out(s, &u, &o));
	return sql_reals(s, seconds, 1, "SELECT max(seconds) FROM prediction", "");
}

/* ---- The answer ---------------------------------------------------------- */

/* Returns the error for unknown costs of a step or an allreduce. */
static char *explain_gaps(struct store *s, const struct setup *u, const struct advise_options *o)
{
	const struct run *r = &u->config.run;
	bool named = strcmp(r->platform, "sim") == 0 && strcmp(r->sim_platform, "local") != 0;
	char *run AUTOFREE = command_of(&u->config, false);
	char *calibrate AUTOFREE = calibrate_words(&u->config, (int)r->workers);
	char *others AUTOFREE = NULL;
	TRY(sql_first(s, &others,
		      "SELECT group_concat(DISTINCT workload || ' with batch ' || batch || "
		      "' on ' || workers || ' workers') FROM calibration WHERE workers > 1",
		      ""));
	return sentence(
		"a step of %s with batch %lld on %lld workers has not been measured; run: %s%s%s",
		r->workload, (long long)r->batch, (long long)r->workers,
		named || strcmp(o->from, "runs") == 0 ? run : calibrate,
		others ? "; calibrated here: " : "", others ? others : "");
}

static char *print_text(struct store *s, FILE *f)
{
	static const struct {
		const char *head, *view;
	} part[] = {
		{"Measured times:", "shown_terms"},
		{"What is worthwhile:", "shown_inequalities"},
		{"Predicted times of an epoch:", "shown_ranking"},
		{"The formulas:", "shown_formulas"},
		{"Without a prediction:", "shown_unpredicted"},
	};
	char *setup AUTOFREE = NULL;
	TRY(sql_first(s, &setup, "SELECT says FROM shown_setup", ""));
	if (setup)
		text_disarm(setup);
	text_wrap(f, setup ? setup : "", 0);
	for (size_t i = 0; i < sizeof part / sizeof *part; i++) {
		char *sql AUTOFREE = sentence("SELECT * FROM %s", part[i].view);
		char *any AUTOFREE = NULL;
		TRY(sql_first(s, &any, sql, ""));
		if (!any)
			continue;
		fprintf(f, "\n%s\n", part[i].head);
		TRY(query_print(s, f, FORMAT_TEXT, sql, NULL, 0, NULL));
	}
	struct sql q = sql_select(s, "SELECT says FROM advice ORDER BY place", "");
	fputs("\nAdvice:\n", f);
	while (sql_next(&q)) {
		char *says AUTOFREE = text_visible(sql_text(&q, 0));
		fputs("- ", f);
		text_wrap(f, says, 2);
	}
	return sql_done(&q);
}

static char *print_json(struct store *s, FILE *f)
{
	struct sql q = sql_select(s, "SELECT json FROM answer", "");
	if (sql_next(&q)) {
		text_json_made(f, sql_text(&q, 0));
		fputc('\n', f);
	}
	return sql_done(&q);
}

static char *answer(const struct setup *u, const struct advise_options *o)
{
	struct store *s AUTOCLOSE = NULL;
	struct output out;
	const char *db = u->config.harness.db;
	int64_t known = 0;
	if (access(db, F_OK) != 0) {
		char *words AUTOFREE = calibrate_words(&u->config, (int)u->config.run.workers);
		return sentence("--db=%s: there is no such file: nothing is measured yet; run: %s",
				db, words);
	}
	TRY(store_open(&s, db, STORE_READ));
	TRY(work_out(s, u, o));
	TRY(sql_number(s, &known,
		       "SELECT EXISTS (SELECT 1 FROM known WHERE name = 'T_step' AND s > 0) AND "
		       "EXISTS (SELECT 1 FROM known WHERE name IN ('T_allreduce', 'T_sync'))",
		       ""));
	if (!known)
		return explain_gaps(s, u, o);
	TRY(output_open(&out, "--out=", o->out));
	return output_close(&out, strcmp(o->format, "json") == 0 ? print_json(s, out.f)
								 : print_text(s, out.f));
}

/* ---- The command --------------------------------------------------------- */

/* NULL, or a sentence: the option is not one of a run, but nearly one of advise. */
static char *misspelt(const struct arguments *a)
{
	const char *own[sizeof options / sizeof *options];
	size_t n = 0;
	for (const struct option *o = options; o->name; o++)
		own[n++] = o->name;
	for (size_t i = 0; i < a->options; i++) {
		const char *name = a->option[i].name, *near = nearest(name, own, n);
		if (near && !option_find(run_options, name))
			return sentence("--%s: there is no such option; did you mean --%s?", name,
					near);
	}
	return NULL;
}

static char *run_advise(void *options_given, struct arguments *a, int *status)
{
	struct setup u ENDS_WITH(setup_fini) = {.words = NULL};
	(void)status;
	TRY(misspelt(a));
	TRY(setup_read(&u, a));
	return answer(&u, options_given);
}

const struct command command_advise = {
	.name = "advise",
	.summary = "show which strategy and interval are worthwhile on this setup, and why",
	.usage = "[--option=value ...]",
	.about =
		"Puts the measured times of a step - computing, an allreduce, a push and pull - "
		"into the formulas of the strategies, and ranks the epoch times that they give. "
		"Shows which inequality decides, with its numbers, and how much accuracy a long "
		"interval cost in runs of this database. Strategies without a prediction are "
		"listed with the reason. Times come from mvbench calibrate, or from recorded runs "
		"(for a simulated cluster only from runs: one of allreduce and one of asgd give "
		"most terms). Next to each prediction is the time that recorded runs took.\n\n"
		"Give the options of mvbench run that describe the training: --workload, --batch, "
		"--workers (default: one for each core), --device, and for a simulated cluster "
		"--platform=sim --sim.platform=NAME --sim.step-time=TIME; accuracies are those of "
		"runs with the same --epochs, --lr and so on. --label and --where select runs. "
		"Options of a strategy (--downpour.send=8) change its prediction, and select the "
		"runs that it is compared with. The formulas leave out caches, memory that workers "
		"share, and other load on the machine; these cause the largest errors.\n\n"
		"Exit status: 0 there is an answer, 2 refused, or nothing is measured yet.",
	.options = options,
	.size = sizeof(OWNER),
	.run_options = true,
	.example = "--workload=mlp",
	.run = run_advise,
};
