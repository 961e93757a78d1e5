/*
 * trace.c - mvbench trace: a run's timeline as JSON that Chrome (chrome://tracing) and Perfetto
 * (ui.perfetto.dev) open: one track for each rank, arrows from pushes to their receivers, and the
 * staleness of pushes as a counter. SQL makes the objects; this file writes them as an array.
 */
#include "results/ask/ask.h"
#include "results/run/run.h"
#include "runtime/config/config.h"

#include <stdlib.h>
#include <string.h>

TEXT_FILE(trace_sql, "results/ask/trace.sql");

enum { SAMPLE = 64 }; /* steps of each epoch, unless --trace gives the number */

struct trace_options {
	const char *out, *steps, *where;
	int64_t epoch;
};

#define OWNER struct trace_options
static const struct option options[] = {
	OPTION(out, STRING, "out", "trace.json", "write the timeline to this file [file]"),
	OPTION(steps, STRING, "steps", "",
	       "steps of each epoch to write: FIRST..LAST; empty: all steps of the timeline, and "
	       "the events between them [steps]"),
	OPTION(epoch, INT, "epoch", "0", "epoch to write; 0: all [epoch]", .min = 0, .max = 1e6),
	SELECT_WHERE(where, "for latest, as with --label: "),
	{0},
};

/* ---- The JSON ------------------------------------------------------------------- */

struct excerpt {
	int64_t run, first, last, epoch; /* first 0: all steps */
};

static char *write_json(struct store *s, FILE *f)
{
	static const char *const parts[] = {"process", "tracks", "slices", "arrows", "staleness"};
	int64_t n = 0;
	fprintf(f, "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [");
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
		char *sql AUTOFREE = sentence("SELECT json FROM trace_%s", parts[i]);
		struct sql q AUTODONE = sql_select(s, sql, "");
		for (; sql_next(&q); n++) {
			fputs(n ? ",\n" : "\n", f);
			text_json_made(f, sql_text(&q, 0));
		}
		TRY(sql_done(&q));
	}
	fprintf(f, "\n]}\n");
	return NULL;
}

/* ---- Which run -------------------------------------------------------------------- */

static char *newest(struct store *s, const struct select *of, const char *among, int64_t *id)
{
	TRY(database_list(s, of->where, of->label));
	char *sql AUTOFREE = sentence("SELECT max(id) FROM listed WHERE %s", *among ? among : "1");
	TRY(sql_number(s, id, sql, ""));
	if (*id)
		return NULL;
	return sentence("latest: %s has no such run%s; mvbench table --runs --db=%s lists what "
			"there is",
			s->path, *among ? " with a timeline (--trace)" : "", s->path);
}

char *run_find(struct store *s, const char *word, const struct select *of, const char *among,
	       int64_t *id)
{
	return strcmp(word, "latest") == 0 ? newest(s, of, among, id) : run_number(s, word, id);
}

/* FIRST..LAST, or one number. */
static char *read_steps(const char *text, struct excerpt *w)
{
	int one = 0, two = 0;
	long long first, last;
	if (!*text)
		return NULL;
	int n = sscanf(text, "%lld%n..%lld%n", &first, &one, &last, &two);
	if (n < 1 || text[n < 2 ? one : two])
		return sentence("--steps=%s: give steps of an epoch, such as --steps=1..8", text);
	if (n < 2)
		last = first;
	if (first < 1 || last < first)
		return sentence("--steps=%s: steps count from 1, and the last is not before the "
				"first, as in --steps=1..8",
				text);
	w->first = first;
	w->last = last;
	return NULL;
}

static char *no_events(const struct excerpt *w, const char *db)
{
	if (w->first || w->epoch)
		return sentence(
			"run %lld: its timeline has no such steps; leave --steps and --epoch out "
			"to write all",
			(long long)w->run);
	return sentence("run %lld has no timeline: make one with mvbench trace --workload=..., or "
			"run it with --trace=%d --db=%s",
			(long long)w->run, SAMPLE, db);
}

static char *export(const struct select *of, const char *word, const struct trace_options *o)
{
	struct store *s AUTOCLOSE = NULL;
	struct excerpt w = {.epoch = o->epoch};
	struct output out;
	double n[3]; /* events, ranks, events lost */
	TRY(read_steps(o->steps, &w));
	if (!*o->out)
		return sentence("--out=: give the name of a file, as in --out=trace.json");
	TRY(store_open(&s, of->db, STORE_READ));
	TRY(run_find(s, word, of, "id IN (SELECT run_id FROM event)", &w.run));
	TRY(sql_change(s, trace_sql, "iiii", w.run, w.first, w.last, w.epoch));
	TRY(sql_reals(s, n, 3, "SELECT * FROM trace_count", ""));
	if (n[0] == 0)
		return no_events(&w, of->db);
	TRY(output_open(&out, "--out=", o->out));
	TRY(output_close(&out, write_json(s, out.f)));
	printf("%s: %.0f events of %.0f ranks of run %lld; open it in ui.perfetto.dev or "
	       "chrome://tracing\n",
	       o->out, n[0], n[1], (long long)w.run);
	if (n[2] > 0)
		fprintf(stderr,
			"mvbench: %.0f more events did not fit into the timeline; trace fewer "
			"steps\n",
			n[2]);
	return NULL;
}

/* ---- The command -------------------------------------------------------------------- */

/* Makes a run of the given options, with a timeline, and exports it. */
static char *run_and_export(const struct setting *given, size_t n, const struct trace_options *o,
			    int *status)
{
	struct config config AUTOCONFIG = {0};
	struct settings all ENDS_WITH(settings_free) = {.setting = NULL};
	struct plan plan;
	int64_t id;
	settings_add(&all, must(strdup("trace")), sentence("%d", SAMPLE));
	settings_give(&all, given, n);
	TRY(config_init(&config, all.setting, all.n, false));
	if (!config.run.trace)
		return sentence(
			"--trace=0: this records no timeline; leave it out, or give the number of "
			"steps of each epoch");
	TRY(run_plan(&config, &plan, true));
	*status = run_and_print(&config, &plan, FORMAT_TEXT, &id);
	if (*status != EXIT_OK && *status != EXIT_DIVERGED)
		return NULL;
	char *word AUTOFREE = sentence("%lld", (long long)id);
	return export(&(struct select){config.harness.db, "", ""}, word, o);
}

/* For a recorded run, only --db is allowed, and for latest also --label. */
static char *export_named(const struct arguments *a, const struct trace_options *o)
{
	struct select of = {DATABASE, o->where, ""};
	for (size_t i = 0; i < a->options; i++) {
		const struct setting *given = &a->option[i];
		bool db = strcmp(given->name, "db") == 0,
		     label = strcmp(given->name, "label") == 0 && strcmp(a->word[0], "latest") == 0;
		if (!db && !label)
			return sentence(
				"--%s: run %s is recorded already; leave the option out, or "
				"the run",
				given->name, a->word[0]);
		*(db ? &of.db : &of.label) = given->value ? given->value : "";
	}
	if (!*of.db)
		return sentence("--db=: give the name of a file, as in --db=" DATABASE);
	return export(&of, a->word[0], o);
}

static bool asks_for_a_run(const struct arguments *a)
{
	for (size_t i = 0; i < a->options; i++)
		if (strcmp(a->option[i].name, "db") != 0)
			return true;
	return false;
}

static char *run_trace(void *options_given, struct arguments *a, int *status)
{
	if (a->words == 0 && !asks_for_a_run(a))
		return sentence("name a run (its number, or latest), or give options of a "
				"run to make, such as --strategy=asgd --workers=2");
	if (a->words > 1)
		return sentence("%s: one run at a time", a->word[1]);
	return a->words ? export_named(a, options_given)
			: run_and_export(a->option, a->options, options_given, status);
}

static char *more(FILE *f, const struct arguments *given)
{
	struct store *s AUTOCLOSE = sql_schema();
	struct sql q AUTODONE =
		sql_select(s, "SELECT name, about FROM event_kind ORDER BY place", "");
	(void)given;
	fputs("Events of a rank:\n", f);
	while (sql_next(&q))
		fprintf(f, "  %-10s %s\n", sql_text(&q, 0), sql_text(&q, 1));
	return sql_done(&q);
}

const struct command command_trace = {
	.name = "trace",
	.summary = "show what each worker did when, as a timeline",
	.usage = "[RUN|latest] [--option=value ...]",
	.about =
		"Writes the timeline of a run as JSON that ui.perfetto.dev and chrome://tracing "
		"open: one track for each worker and server, and arrows from a push to the server "
		"that applies it. If workers access the table themselves, the arrow leads to the "
		"first other worker that gets the push. Give the number of a run, or the options "
		"of mvbench run to make one now. A timeline contains the first steps of each epoch "
		"(--trace), and all barriers and evaluations.\n\n"
		"The workers of one machine share a clock. Clock offsets between machines come "
		"from 16 round trips; the shortest one counts. A worker on a GPU shows what its "
		"host was doing: the GPU may still be at work. mvbench plot timeline draws some "
		"steps.",
	.options = options,
	.size = sizeof(OWNER),
	.run_options = true,
	.run = run_trace,
	.more = more,
	.interrupted = STARTS_AGAIN,
};
