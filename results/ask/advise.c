/*
 * advise.c - mvbench advise: which strategy and interval pay on this setup, by the formulas of
 * advise.sql, which does all arithmetic; here the setup is found out, and the answer printed.
 */
#include "results/ask/ask.h"
#include "results/run/run.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

__asm__(".pushsection .rodata\n"
	"advise_sql:\n"
	".incbin \"results/ask/advise.sql\"\n"
	".byte 0\n"
	".popsection\n");
extern const char advise_sql[];

struct advise_options {
	const char *from, *intervals, *where, *format, *out;
};

#define OWNER struct advise_options
static const struct option options[] = {
	OPTION(from, CHOICE, "from", "auto",
	       "where the times of a step come from; auto: calibrations, and recorded runs for "
	       "what those lack",
	       .choices = "auto|calibration|runs"),
	OPTION(intervals, STRING, "intervals", "1,2,4,8,16,32,64",
	       "sync intervals to compare [steps]"),
	SELECT_WHERE(where, ""),
	OPTION(format, CHOICE, "format", "text", "json is one object, not rounded [name]",
	       .choices = "text|json"),
	OPTION(out, STRING, "out", "", "write it there instead of on the terminal [file]"),
	{.name = NULL},
};

/* ---- The setup ----------------------------------------------------------- */

struct setup {
	struct config config; /* of an allreduce: what is compared changes it */
	struct plan plan;
	int64_t steps_one, steps_model; /* an epoch; 0 = the model cannot be split */
	char *words;
};

/* Plans the same work otherwise; returns its steps an epoch, 0 = it cannot be. */
static int64_t steps_of(const struct setting *given, size_t n, const char *strategy,
			const char *workers)
{
	struct setting *all = must(calloc(n + 2, sizeof *all));
	struct config c;
	struct plan p;
	int64_t steps = 0;

	memcpy(all, given, n * sizeof *all);
	all[n] = (struct setting){"strategy", strategy};
	all[n + 1] = (struct setting){"workers", workers};
	char *wrong = config_init(&c, all, n + 2, true);
	free(all);
	if (wrong) {
		free(wrong);
		return 0;
	}
	wrong = plan_make(&c, &p);
	if (!wrong)
		steps = p.steps;
	free(wrong);
	config_fini(&c);
	return steps;
}

/* Without --workers: as many as there are cores. */
static char *setup_read(struct setup *s, const struct arguments *a)
{
	struct setting *all = must(calloc(a->options + 2, sizeof *all));
	size_t n = a->options + 1;
	char cores[24];
	char *wrong = settings_check(a->option, a->options);

	*s = (struct setup){.words = NULL};
	snprintf(cores, sizeof cores, "%d", usable_cores() > 1 ? usable_cores() : 2);
	all[0] = (struct setting){"workers", cores};
	for (size_t i = 0; i < a->options && !wrong; i++) {
		all[i + 1] = a->option[i];
		if (!all[i + 1].value) /* --record and the like */
			all[i + 1].value = "true";
		if (strcmp(a->option[i].name, "strategy") == 0 ||
		    strcmp(a->option[i].name, "sync-every") == 0)
			wrong = sentence("--%s: advise compares them all; give --workload, "
					 "--batch, --workers, --device, ...",
					 a->option[i].name);
	}
	all[n++] = (struct setting){"strategy", "allreduce"};
	if (!wrong)
		wrong = config_init(&s->config, all, n, true);
	if (wrong) {
		free(all);
		return wrong;
	}
	const struct run *run = &s->config.run;
	if (run->workers < 2)
		wrong = sentence("--workers=%lld: advise compares how several workers keep in "
				 "step; give --workers=2 or more",
				 (long long)run->workers);
	else
		wrong = plan_make(&s->config, &s->plan);
	if (wrong) {
		config_fini(&s->config);
	} else {
		char *workers = sentence("%lld", (long long)run->workers);
		s->steps_one = steps_of(all, n, "serial", "1");
		s->steps_model = steps_of(all, n, "model_parallel", workers);
		s->words = workload_words(&s->config);
		free(workers);
	}
	free(all);
	return wrong;
}

static void setup_fini(struct setup *s)
{
	free(s->words);
	config_fini(&s->config);
}

/* ---- Into the temporary schema ------------------------------------------- */

static int fill_asked(struct store *s, const struct setup *u, const struct advise_options *o)
{
	const struct run *r = &u->config.run;
	bool sim = strcmp(r->platform, "sim") == 0;
	const char *name =
		strncmp(r->sim_platform, "sim:", 4) == 0 ? r->sim_platform + 4 : r->sim_platform;
	sqlite3_str *q = sqlite3_str_new(s->db);

	sqlite3_str_appendf(q,
			    "INSERT INTO asked VALUES (%Q, %Q, %lld, %Q, %Q, %lld, %lld, %lld, "
			    "%lld, %lld, nullif(%lld, 0), nullif(%lld, 0), %Q, ",
			    r->workload, u->words, (long long)r->batch, u->plan.device,
			    r->precision, (long long)r->threads, (long long)r->workers,
			    (long long)u->plan.params, (long long)u->plan.train.n,
			    (long long)u->plan.steps, (long long)u->steps_one,
			    (long long)u->steps_model, machine()->host);
	sqlite3_str_appendf(q, "%Q, %Q, %Q, %Q, %Q, %lld, %!.17g, %Q, %!.17g, %!.17g, %Q, %Q)",
			    r->platform, sim ? name : NULL, sim ? r->sim_step_time : NULL,
			    sim ? r->sim_update_time : NULL, o->from, (long long)r->epochs, r->lr,
			    r->lr_schedule, r->momentum, r->weight_decay, r->reduce, r->lr_scale);
	char *sql = sqlite3_str_finish(q);
	int rc = sqlite3_exec(s->db, sql, NULL, NULL, NULL);
	sqlite3_free(sql);
	return rc;
}

static char *fill_intervals(struct store *s, const char *list)
{
	const char *at = list;
	char *end = NULL, *sql, *wrong = NULL;

	for (;; at = end + 1) {
		long x = strtol(at, &end, 10);
		if (*at < '1' || *at > '9' || x > 1000000000 || (*end && *end != ','))
			return sentence("--intervals=%s: whole numbers from 1 to 1000000000 "
					"between commas are wanted, such as --intervals=1,4,16",
					list);
		if (!*end)
			break;
	}
	sql = sentence("INSERT OR IGNORE INTO interval SELECT value FROM json_each('[%s]')", list);
	int rc = sqlite3_exec(s->db, sql, NULL, NULL, NULL);
	if (rc != SQLITE_OK)
		wrong = database_error(s, rc);
	free(sql);
	return wrong;
}

static char *fill_allowed(struct store *s, const char *label, const char *where)
{
	char *wrong = database_condition(s, where);

	if (wrong)
		return wrong;
	char *sql = sqlite3_mprintf(*where ? "INSERT INTO allowed SELECT id FROM run_summary "
					     "WHERE (%Q = '' OR label = %Q) AND (\n%s\n)"
					   : "INSERT INTO allowed SELECT id FROM run "
					     "WHERE (%Q = '' OR label = %Q)",
				    label, label, where);
	int rc = sqlite3_exec(s->db, sql, NULL, NULL, NULL);
	sqlite3_free(sql);
	return rc == SQLITE_OK ? NULL : database_error(s, rc);
}

static char *work_out(struct store *s, const struct setup *u, const struct advise_options *o)
{
	const char *filled = strstr(advise_sql, "\n-- FILLED\n");
	CHECK(filled, "results/advise.sql has no line \"-- FILLED\"");
	char *tables = sentence("%.*s", (int)(filled - advise_sql), advise_sql), *wrong = NULL;
	int rc = sqlite3_exec(s->db, tables, NULL, NULL, NULL);

	free(tables);
	CHECK(rc == SQLITE_OK, "results/advise.sql: %s", sqlite3_errmsg(s->db));
	if (rc == SQLITE_OK)
		rc = fill_asked(s, u, o);
	if (rc != SQLITE_OK)
		return database_error(s, rc);
	if ((wrong = fill_intervals(s, o->intervals)) ||
	    (wrong = fill_allowed(s, u->config.run.label, o->where)))
		return wrong;
	rc = sqlite3_exec(s->db, filled, NULL, NULL, NULL);
	CHECK(rc != SQLITE_ERROR, "results/advise.sql: %s", sqlite3_errmsg(s->db));
	return rc == SQLITE_OK ? NULL : database_error(s, rc);
}

/* ---- The answer ---------------------------------------------------------- */

/* The first column of the only row, from the heap; NULL = there is none. */
static char *read_text(struct store *s, const char *sql)
{
	sqlite3_stmt *q = NULL;
	char *text = NULL;

	if (sqlite3_prepare_v2(s->db, sql, -1, &q, NULL) == SQLITE_OK &&
	    sqlite3_step(q) == SQLITE_ROW && sqlite3_column_text(q, 0))
		text = must(strdup((const char *)sqlite3_column_text(q, 0)));
	sqlite3_finalize(q);
	return text;
}

/* Nothing is known of a step, or of what an allreduce costs. */
static char *explain_gaps(struct store *s, const struct setup *u, const struct advise_options *o)
{
	const struct run *r = &u->config.run;
	bool named = strcmp(r->platform, "sim") == 0 && strcmp(r->sim_platform, "local") != 0;
	char *run = sentence("mvbench run --workload=%s --batch=%lld --strategy=allreduce "
			     "--workers=%lld%s%s%s%s --db=%s",
			     r->workload, (long long)r->batch, (long long)r->workers,
			     named ? " --platform=sim --sim.platform=" : "",
			     named ? r->sim_platform : "", named ? " --sim.step-time=" : "",
			     named ? r->sim_step_time : "", r->db);
	char *calibrate = calibrate_words(&u->config, (int)r->workers);
	char *others =
		read_text(s, "SELECT group_concat(DISTINCT workload || ' with batch ' || batch || "
			     "' on ' || workers || ' workers') FROM calibration WHERE workers > 1");
	char *wrong =
		sentence("nobody has measured what a step of %s with batch %lld on %lld workers "
			 "takes; run: %s%s%s",
			 r->workload, (long long)r->batch, (long long)r->workers,
			 named || strcmp(o->from, "runs") == 0 ? run : calibrate,
			 others ? "; calibrated here: " : "", others ? others : "");

	free(others);
	free(calibrate);
	free(run);
	return wrong;
}

static char *print_text(struct store *s, FILE *f)
{
	static const struct {
		const char *head, *sql;
	} part[] = {
		{"What was measured:", "SELECT * FROM shown_terms"},
		{"What pays:", "SELECT * FROM shown_inequalities"},
		{"Predicted times of an epoch:", "SELECT * FROM shown_ranking"},
		{"The formulas:", "SELECT * FROM shown_formulas"},
	};
	char *setup = read_text(s, "SELECT says FROM shown_setup"), *wrong = NULL;
	sqlite3_stmt *q;

	text_wrap(f, setup ? setup : "", 0);
	free(setup);
	for (size_t i = 0; i < sizeof part / sizeof *part && !wrong; i++) {
		fprintf(f, "\n%s\n", part[i].head);
		wrong = query_print(s, f, FORMAT_TEXT, part[i].sql, NULL, 0, NULL);
	}
	if (wrong)
		return wrong;
	int rc = sqlite3_prepare_v2(s->db, "SELECT says FROM advice ORDER BY place", -1, &q, NULL);
	fputs("\nAdvice:\n", f);
	while (rc == SQLITE_OK && (rc = sqlite3_step(q)) == SQLITE_ROW) {
		fputs("- ", f);
		text_wrap(f, (const char *)sqlite3_column_text(q, 0), 2);
		rc = SQLITE_OK;
	}
	sqlite3_finalize(q);
	return rc == SQLITE_DONE ? NULL : database_error(s, rc);
}

static char *print_json(struct store *s, FILE *f)
{
	char *text = read_text(s, "SELECT json FROM answer");

	if (!text)
		return sentence("the query failed: %s", sqlite3_errmsg(s->db));
	text_utf8(f, text);
	fputc('\n', f);
	free(text);
	return NULL;
}

static char *print_answer(struct store *s, const struct advise_options *o)
{
	FILE *f = *o->out ? fopen(o->out, "w") : stdout;
	char *wrong = NULL;
	bool failed = !f;

	if (f)
		wrong = strcmp(o->format, "json") == 0 ? print_json(s, f) : print_text(s, f);
	if (f && f != stdout)
		failed = fclose(f) != 0;
	if (failed && !wrong)
		wrong = sentence("--out=%s: the file cannot be written (%s)", o->out,
				 strerror(errno));
	return wrong;
}

static int answer(struct store *s, const struct setup *u, const struct advise_options *o)
{
	double known = 0;
	char *wrong = work_out(s, u, o);

	if (!wrong)
		wrong = sql_reals(s, &known, 1,
				  "SELECT count(*) FROM have WHERE t_step > 0 AND "
				  "(t_allreduce IS NOT NULL OR t_sync IS NOT NULL)",
				  "");
	if (!wrong && known == 0)
		wrong = explain_gaps(s, u, o);
	if (!wrong)
		wrong = print_answer(s, o);
	return wrong ? complain(wrong) : EXIT_OK;
}

/* ---- The command --------------------------------------------------------- */

/* NULL, or a sentence about an option that is no run's, and nearly one of advise's own. */
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

static int run_advise(void *options_given, struct arguments *a)
{
	struct setup u;
	struct store *s = NULL;
	char *wrong = misspelt(a);
	int status;

	if (wrong || (wrong = setup_read(&u, a)))
		return complain(wrong);
	if (access(u.config.run.db, F_OK) != 0) {
		char *words = calibrate_words(&u.config, (int)u.config.run.workers);
		status = complain(sentence("--db=%s: there is no such file, so nothing is measured "
					   "yet; run: %s",
					   u.config.run.db, words));
		free(words);
	} else {
		wrong = store_open(&s, u.config.run.db, STORE_READ);
		status = wrong ? complain(wrong) : answer(s, &u, options_given);
		store_close(s);
	}
	setup_fini(&u);
	return status;
}

const struct command command_advise = {
	.name = "advise",
	.summary = "say which strategy and interval pay on this setup, and why",
	.usage = "[--option=value ...]",
	.about =
		"Puts what was measured of a step - its computing, an allreduce, a push and pull - "
		"into the formulas of each strategy, and ranks the epoch times that come out; says "
		"which inequality decides, with the numbers in it; and what runs of this database "
		"say of the accuracy that a long interval costs. Times come from mvbench "
		"calibrate, or from recorded runs (of a simulated cluster, those only: one of "
		"allreduce and one of asgd tell most). Beside a prediction stands what recorded "
		"runs took.\n\n"
		"Give the options of mvbench run that say what is trained: --workload, --batch, "
		"--workers (without it: one a core), --device, and for a simulated cluster "
		"--platform=sim --sim.platform=NAME --sim.step-time=TIME; accuracies are those of "
		"runs with the same --epochs, --lr and so on. --label and --where choose runs. The "
		"largest error of such formulas "
		"is what they leave out: caches, memory that workers share, and a busy machine.\n\n"
		"Exit status: 0 there is an answer, 2 cannot run like this, or nothing is measured "
		"yet.",
	.options = options,
	.size = sizeof(OWNER),
	.run_options = true,
	.example = "--workload=mlp",
	.run = run_advise,
};
