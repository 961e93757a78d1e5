/*
 * table.c - `mvbench table`: the results as a table, one row a configuration (the medians over its
 * finished runs, their intervals, and which of them differ) or one row a run. The arithmetic is
 * SQL, in table.sql and the statistics of schema.sql: this file only puts columns together.
 */
#include "results/ask/ask.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

extern const struct command command_table;

/* The program carries its queries. gcc runs in the repository's root. */
__asm__(".pushsection .rodata\n"
	"table_sql:\n"
	".incbin \"results/ask/table.sql\"\n"
	".byte 0\n"
	".popsection\n");
extern const char table_sql[];

struct table_options {
	const char *db, *where, *format, *label, *versus, *out;
	bool runs;
};

#define FIELD(f) offsetof(struct table_options, f)

static const struct option options[] = {
	{.name = "db",
	 .type = OPT_STRING,
	 .offset = FIELD(db),
	 .def = DATABASE,
	 .help = "where results are [file]"},
	{.name = "where",
	 .type = OPT_STRING,
	 .offset = FIELD(where),
	 .def = "",
	 .help = "only runs for which this SQL condition on the columns below holds [SQL]"},
	{.name = "label",
	 .type = OPT_STRING,
	 .offset = FIELD(label),
	 .def = "",
	 .help = "only runs with this label [text]"},
	{.name = "format",
	 .type = OPT_CHOICE,
	 .offset = FIELD(format),
	 .def = "text",
	 .choices = "text|markdown|csv|json",
	 .help = "csv and json are not rounded [name]"},
	{.name = "runs",
	 .type = OPT_BOOL,
	 .offset = FIELD(runs),
	 .def = "false",
	 .help = "one row a run instead of one a configuration [yes or no]"},
	{.name = "versus",
	 .type = OPT_STRING,
	 .offset = FIELD(versus),
	 .def = "",
	 .help = "compare with this configuration, as the table names it, instead of the most "
		 "accurate and the fastest [text]"},
	{.name = "out",
	 .type = OPT_STRING,
	 .offset = FIELD(out),
	 .def = "",
	 .help = "write the table there instead of on the terminal [file]"},
	{.name = NULL},
};

/* ---- Columns ------------------------------------------------------------- */

struct column {
	const char *name;  /* of the value, for csv and json; NULL = not there */
	const char *head;  /* for text and markdown; NULL = not there */
	const char *shown; /* what stands below that head, rounded; NULL = the value */
	bool rare;         /* text and markdown leave it out where no row has it, or all have 0 */
};

#define ROUND(fmt, x) "iif(" x " IS NULL, NULL, printf('" fmt "', " x "))"
#define PERCENT(x)    ROUND("%.2f", "100 * " x)
#define SHARE(x)      ROUND("%.0f", "100 * " x)
#define MEAN_AND_MOST(mean, most) \
	"iif(" mean " IS NULL, NULL, printf('%.2f (%d)', " mean ", " most "))"
#define SECONDS(x) "iif(" x " < 1000, printf('%.4g', " x "), " ROUND("%.0f", x) ")"
/* What does not exist leaves the whole NULL. */
#define MARKED(shown, x)   shown " || ifnull(" x "_mark, '')"
#define BETWEEN(low, high) low " || '..' || " high
/* How it compares with the row that it is held against, for csv and json. */
#define COMPARED(x) \
	{x "_versus", NULL, NULL, false}, {x "_pairs", NULL, NULL, false}, \
		{x "_difference", NULL, NULL, false}, {x "_difference_low", NULL, NULL, false}, \
		{x "_difference_high", NULL, NULL, false}, \
	{ \
		x "_significant", NULL, NULL, false \
	}

static const struct column configuration_columns[] = {
	{"workload", "workload", NULL, false},
	{"configuration", "configuration", NULL, false},
	{"strategy", NULL, NULL, false},
	{"workers", "workers", NULL, false},
	{"servers", NULL, NULL, false},
	{"sync_every", "X", NULL, false},
	{"n", "n", "iif(seeds < n, n || ' (' || seeds || iif(seeds = 1, ' seed)', ' seeds)'), n)",
	 false},
	{"seeds", NULL, NULL, false},
	{"test_accuracy", "accuracy %", MARKED(PERCENT("test_accuracy"), "test_accuracy"), false},
	{"test_accuracy_low", "95 %",
	 BETWEEN(PERCENT("test_accuracy_low"), PERCENT("test_accuracy_high")), true},
	{"test_accuracy_high", NULL, NULL, false},
	{"test_accuracy_min", NULL, NULL, false},
	{"test_accuracy_max", NULL, NULL, false},
	COMPARED("test_accuracy"),
	{"test_loss", "loss", MARKED(ROUND("%.4g", "test_loss"), "test_loss"), false},
	/* of loss only where that is what tasks are judged by */
	{"test_loss_low", "95 %",
	 "iif(test_accuracy IS NULL, " BETWEEN(ROUND("%.4g", "test_loss_low"),
					       ROUND("%.4g", "test_loss_high")) ", NULL)",
	 true},
	{"test_loss_high", NULL, NULL, false},
	COMPARED("test_loss"),
	{"epoch_seconds", "epoch s", MARKED(SECONDS("epoch_seconds"), "epoch_seconds"), false},
	{"epoch_seconds_low", "95 %",
	 BETWEEN(SECONDS("epoch_seconds_low"), SECONDS("epoch_seconds_high")), true},
	{"epoch_seconds_high", NULL, NULL, false},
	COMPARED("epoch_seconds"),
	{"samples_per_second", "samples/s", ROUND("%.0f", "samples_per_second"), false},
	{"speedup", "speedup", ROUND("%.2f", "speedup"), false},
	{"target_accuracy", NULL, NULL, false},
	{"time_to_accuracy", "to target s",
	 "CASE WHEN target_accuracy IS NULL OR reached + missed = 0 THEN NULL "
	 "WHEN missed = 0 THEN " SECONDS(
		 "time_to_accuracy") " "
				     "ELSE ifnull(" SECONDS(
					     "time_to_accuracy") " || ', ', '') || "
								 "printf('not reached %d/%d', "
								 "missed, reached + missed) END",
	 true},
	{"time_to_accuracy_low", "95 %",
	 BETWEEN(SECONDS("time_to_accuracy_low"),
		 "ifnull(" SECONDS("time_to_accuracy_high") ", 'never')"),
	 true},
	{"time_to_accuracy_high", NULL, NULL, false},
	{"reached", NULL, NULL, false},
	{"missed", NULL, NULL, false},
	{"comm_fraction", "comm %", SHARE("comm_fraction"), false},
	{"wait_fraction", "wait %", SHARE("wait_fraction"), false},
	{"staleness_mean", "staleness", MEAN_AND_MOST("staleness_mean", "staleness_max"), false},
	{"staleness_max", NULL, NULL, false},
	{"dropped_fraction", "dropped %", PERCENT("dropped_fraction"), true},
	{"failed", "not done",
	 "ltrim(iif(failed, ', ' || failed || ' failed', '') || iif(diverged, ', ' || diverged || "
	 "' diverged', '') || iif(unfinished, ', ' || unfinished || ' unfinished', ''), ', ')",
	 false},
	{"diverged", NULL, NULL, false},
	{"unfinished", NULL, NULL, false},
	{NULL, NULL, NULL, false},
};

static const struct column run_columns[] = {
	{"id", "id", NULL, false},
	{"workload", "workload", NULL, false},
	{"configuration", "configuration", NULL, false},
	{"strategy", NULL, NULL, false},
	{"workers", NULL, NULL, false},
	{"servers", NULL, NULL, false},
	{"sync_every", NULL, NULL, false},
	{"seed", "seed", NULL, false},
	{"label", "label", NULL, false},
	{"status", "status", NULL, false},
	{"epochs_done", "epochs", "epochs_done || '/' || epochs", false},
	{"test_accuracy", "accuracy %", PERCENT("test_accuracy"), false},
	{"best_test_accuracy", "best %", PERCENT("best_test_accuracy"), false},
	{"test_loss", "loss", ROUND("%.4g", "test_loss"), false},
	{"epoch_seconds", "epoch s", SECONDS("epoch_seconds"), false},
	{"samples_per_second", "samples/s", ROUND("%.0f", "samples_per_second"), false},
	{"speedup", "speedup", ROUND("%.2f", "speedup"), false},
	{"comm_fraction", "comm %", SHARE("comm_fraction"), false},
	{"wait_fraction", "wait %", SHARE("wait_fraction"), false},
	{"staleness_mean", "staleness", MEAN_AND_MOST("staleness_mean", "staleness_max"), false},
	{"staleness_max", NULL, NULL, false},
	{"dropped_fraction", "dropped %", PERCENT("dropped_fraction"), true},
	{"started", "started", NULL, false},
	{"reason", "reason", "ifnull(reason, '')", false},
	{NULL, NULL, NULL, false},
};

/* ---- The query ----------------------------------------------------------- */

static char *run_sql(struct store *s, const char *sql)
{
	int rc = sqlite3_exec(s->db, sql, NULL, NULL, NULL);

	return rc == SQLITE_OK ? NULL : database_error(s, rc);
}

/* Makes the tables of table.sql from the chosen runs. */
static char *make_tables(struct store *s, const struct table_options *o)
{
	const char *asked = strstr(table_sql, "\n-- ASKED\n");

	CHECK(asked, "results/table.sql has no line \"-- ASKED\"");
	char *head = must(strndup(table_sql, (size_t)(asked - table_sql)));
	char *wrong = run_sql(s, head);
	if (!wrong) {
		char *versus = must(sqlite3_mprintf("INSERT INTO asked VALUES (%Q)", o->versus));
		wrong = run_sql(s, versus);
		sqlite3_free(versus);
	}
	if (!wrong)
		wrong = run_sql(s, asked);
	free(head);
	return wrong;
}

/* The first column of the first row; NULL where there is nothing. Heap. */
static char *read_text(struct store *s, const char *sql)
{
	sqlite3_stmt *q = NULL;
	char *answer = NULL;

	if (sqlite3_prepare_v2(s->db, sql, -1, &q, NULL) == SQLITE_OK &&
	    sqlite3_step(q) == SQLITE_ROW && sqlite3_column_type(q, 0) != SQLITE_NULL)
		answer = must(strdup((const char *)sqlite3_column_text(q, 0)));
	sqlite3_finalize(q);
	return answer;
}

static bool holds(struct store *s, const char *sql)
{
	char *answer = read_text(s, sql);
	bool yes = answer && strcmp(answer, "0") != 0;

	free(answer);
	return yes;
}

static const char *rows_of(const struct table_options *o)
{
	return o->runs ? "shown_run" : "shown";
}

static bool is_empty(struct store *s, const struct table_options *o, const struct column *c)
{
	char *sql = sentence("SELECT EXISTS (SELECT 1 FROM %s WHERE %s IS NOT NULL AND "
			     "ifnull(%s, 1) <> 0)",
			     rows_of(o), c->shown, c->name);
	bool some = holds(s, sql);

	free(sql);
	return !some;
}

static bool for_people(enum format format)
{
	return format == FORMAT_TEXT || format == FORMAT_MARKDOWN;
}

static char *query_text(struct store *s, const struct table_options *o, enum format format)
{
	const struct column *columns = o->runs ? run_columns : configuration_columns;
	bool rounded = for_people(format);
	sqlite3_str *sql = sqlite3_str_new(NULL);
	const char *separator = "SELECT ";

	for (const struct column *c = columns; c->name; c++) {
		if (rounded && (!c->head || (c->rare && is_empty(s, o, c))))
			continue;
		sqlite3_str_appendf(sql, "%s%s AS \"%w\"", separator,
				    rounded && c->shown ? c->shown : c->name,
				    rounded ? c->head : c->name);
		separator = ", ";
	}
	sqlite3_str_appendf(sql, " FROM %s", rows_of(o));
	return must(sqlite3_str_finish(sql));
}

/* ---- Below the table ----------------------------------------------------- */

/* What the marks mean, and what cannot be compared: below tables for people, else on stderr. */
static void print_notes(struct store *s, FILE *f, const struct table_options *o, enum format format)
{
	const bool people = for_people(format), markdown = format == FORMAT_MARKDOWN;

	if (people && !o->runs && holds(s, "SELECT EXISTS (SELECT 1 FROM held)"))
		fprintf(f,
			"\n%s* %s%s~ not significantly different from that: a two-sided test at 5 "
			"%% does "
			"not tell them apart, or there are%stoo few runs for any to do so (it "
			"takes 6 "
			"seeds that both have, or 4 runs against 4)\n",
			markdown ? "\\" : "",
			*o->versus ? "what the others of its workload are compared with (--versus)"
				   : "the best of its workload in accuracy (without one, in loss), "
				     "and of equal work in time",
			markdown ? "; " : "\n", markdown ? " " : "\n  ");
	char *places = read_text(s, "SELECT text FROM places");
	if (places)
		fprintf(people ? f : stderr,
			"%swarning: not all times were measured in one place, so they do not "
			"compare: %s\n",
			people ? "\n" : "mvbench: ", places);
	free(places);
}

/* NULL, or a sentence: is the configuration to compare with there? */
static char *check_versus(struct store *s, const struct table_options *o)
{
	char *found = read_text(s, "SELECT 1 FROM title JOIN asked ON configuration = versus");
	char *names = read_text(s, "SELECT group_concat(configuration, ', ') FROM ("
				   "SELECT DISTINCT configuration FROM title ORDER BY 1 LIMIT 20)");
	char *wrong = *o->versus && !found && names
			      ? sentence("--versus=%s: there is no such row; it is one of: %s",
					 o->versus, names)
			      : NULL;

	free(names);
	free(found);
	return wrong;
}

/* ---- The command --------------------------------------------------------- */

/* The columns of run_summary, in any database of this version. */
static void print_all_columns(FILE *f)
{
	struct store s = {.run = 0};

	if (sqlite3_open(":memory:", &s.db) == SQLITE_OK &&
	    sqlite3_exec(s.db, database_schema(), NULL, NULL, NULL) == SQLITE_OK)
		database_columns(&s, f);
	sqlite3_close(s.db);
}

static void more_help(FILE *f)
{
	fputs("Columns for --where, as in --where=\"workload='mlp' AND workers IN (2, 4)\":\n", f);
	print_all_columns(f);
	fputs("\n", f);
}

static bool is_bare(const char *name)
{
	return strcmp(name, "runs") == 0;
}

/* Why is there nothing to see? */
static void explain_empty(struct store *s, const struct table_options *o)
{
	int64_t n = 0;
	sqlite3_stmt *q;

	if (sqlite3_prepare_v2(s->db, "SELECT count(*) FROM main.run", -1, &q, NULL) == SQLITE_OK &&
	    sqlite3_step(q) == SQLITE_ROW)
		n = sqlite3_column_int64(q, 0);
	sqlite3_finalize(q);
	if (n == 0)
		fprintf(stderr,
			"mvbench: %s holds no runs yet: record one with `mvbench run "
			"--db=%s`\n",
			o->db, o->db);
	else
		fprintf(stderr,
			"mvbench: none of the %lld runs in %s matches: loosen --where or "
			"--label\n",
			(long long)n, o->db);
}

static int print_table(struct store *s, const struct table_options *o)
{
	enum format format;
	int64_t rows = 0;
	FILE *f = stdout;

	CHECK(format_find(o->format, &format), "no format %s", o->format);
	char *wrong = database_choose(s, o->where, o->label);
	if (!wrong)
		wrong = make_tables(s, o);
	if (!wrong)
		wrong = check_versus(s, o);
	if (!wrong && *o->out && !(f = fopen(o->out, "w")))
		wrong = sentence("--out=%s: the file cannot be written (%s)", o->out,
				 strerror(errno));
	if (wrong)
		return complain(wrong);
	char *sql = query_text(s, o, format);
	wrong = query_print(s, f, format, sql, NULL, 0, &rows);
	sqlite3_free(sql);
	if (!wrong && rows > 0)
		print_notes(s, f, o, format);
	if (f != stdout && fclose(f) != 0 && !wrong)
		wrong = sentence("--out=%s: the file cannot be written (%s)", o->out,
				 strerror(errno));
	if (wrong) {
		complain(wrong);
		return EXIT_FAILED;
	}
	if (rows == 0)
		explain_empty(s, o);
	return EXIT_OK;
}

static int with_arguments(struct arguments *a)
{
	struct table_options o;
	struct store *s;

	option_default(options, &o);
	char *wrong = arguments_take(a, options, &o);
	if (!wrong)
		wrong = arguments_refuse(a, options);
	if (wrong)
		return complain(wrong);
	if (a->help) {
		command_help(stdout, &command_table);
		return EXIT_OK;
	}
	if (a->words > 0)
		return complain(sentence("\"%s\" is not understood: conditions are given with "
					 "--where, files with --db",
					 a->word[0]));
	wrong = store_open(&s, o.db, STORE_READ);
	if (wrong)
		return complain(wrong);
	int status = print_table(s, &o);
	store_close(s);
	return status;
}

static int run_table(int argc, char **argv)
{
	struct arguments a;
	char *wrong = arguments_read(&a, argc, argv, is_bare);

	if (wrong)
		return complain(wrong);
	int status = with_arguments(&a);
	arguments_free(&a);
	return status;
}

const struct command command_table = {
	.name = "table",
	.summary = "print results as a table",
	.usage = "[--option=value ...]",
	.about = "Shows the results: one row a configuration, with the medians over its n finished "
		 "runs and their 95 % bootstrap intervals, or one row a run. A seed that was run "
		 "again is no new sample, except of real times. Marks tell "
		 "which rows differ from the best of their workload: where both sides share two "
		 "seeds or more they are compared seed by seed, else as a whole. to target s is "
		 "the training time until --target-accuracy was reached; runs that missed it count "
		 "as later than all others. Times are per epoch. speedup is relative to one "
		 "worker with the same workload, batch, device and platform. comm % and wait % are "
		 "shares of the time; staleness is what a push met, in updates: the mean, and the "
		 "maximum in brackets. Where updates came too late and were thrown away, dropped % "
		 "is their share.",
	.options = options,
	.bare = is_bare,
	.run = run_table,
	.more = more_help,
};
