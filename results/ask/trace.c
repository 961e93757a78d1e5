/*
 * trace.c - mvbench trace: a run's timeline as JSON that Chrome (chrome://tracing) and Perfetto
 * (ui.perfetto.dev) open: one track a rank, arrows from pushes to where they go, and the staleness
 * of pushes as a counter. SQL makes the objects, here they become an array.
 */
#include "results/ask/ask.h"
#include "results/run/run.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

extern const struct command command_trace;

enum { SAMPLE = 64 }; /* steps of each epoch, where nobody says how many */

struct trace_options {
	const char *out, *steps, *where;
	int64_t epoch;
};

#define OWNER struct trace_options
static const struct option options[] = {
	OPTION(out, STRING, "out", "trace.json", "where to [file]"),
	OPTION(steps, STRING, "steps", "",
	       "which steps of each epoch: FIRST..LAST; empty: all that were kept, and what lies "
	       "between them [steps]"),
	OPTION(epoch, INT, "epoch", "0", "which epoch; 0: all [epoch]", .min = 0, .max = 1e6),
	OPTION(where, STRING, "where", "",
	       "for latest: a condition on the columns of run_summary; so is --label [SQL]"),
	{0},
};

/* ---- The JSON ------------------------------------------------------------------- */

/* ?1: run; ?2, ?3: first and last step, NULL = all; ?4: epoch, 0 = all. Each row is one object. */
#define WINDOW \
	"(?2 IS NULL OR e.step BETWEEN ?2 AND ?3) AND (?4 = 0 OR e.epoch = ?4) AND e.run_id = ?1"
static const char *const parts[] = {
	"SELECT json_object('ph', 'M', 'pid', 1, 'tid', 0, 'name', 'process_name', 'args', "
	"json_object('name', 'run ' || id || ': ' || workload || ', ' || config "
	"|| iif(label = '', '', ', ' || label))) FROM run_summary WHERE id = ?1",

	"SELECT json_object('ph', 'M', 'pid', 1, 'tid', rank, 'name', column1, 'args', "
	"iif(column1 = 'thread_name', json_object('name', iif(rank < workers, 'worker ' || rank, "
	"'server ' || (rank - workers))), json_object('sort_index', rank))) "
	"FROM (SELECT DISTINCT e.rank, r.workers FROM event AS e JOIN run AS r ON r.id = e.run_id "
	"WHERE e.run_id = ?1) CROSS JOIN (VALUES ('thread_name'), ('thread_sort_index')) "
	"ORDER BY rank",

	"SELECT json_object('ph', 'X', 'pid', 1, 'tid', e.rank, 'name', e.name, 'cat', "
	"iif(e.parent IS NULL, 'part of the epoch', 'part of a step'), 'cname', k.cname, "
	"'ts', round(1e6 * e.start_s, 3), 'dur', round(1e6 * e.duration_s, 3), "
	"'args', json(json_patch('{}', json_object('epoch', e.epoch, 'step', nullif(e.step, 0), "
	"'peer', e.peer, 'bytes', e.bytes, 'staleness', e.staleness)))) "
	"FROM event AS e LEFT JOIN event_kind AS k ON k.name = e.name WHERE " WINDOW
	" ORDER BY e.rank, e.seq",

	"SELECT json_object('ph', column1, 'id', i, 'pid', 1, 'tid', iif(column1 = 's', from_rank, "
	"to_rank), 'name', 'push', 'cat', 'push', 'bp', 'e', "
	"'ts', round(1e6 * iif(column1 = 's', from_s, to_s), 3)) "
	"FROM (SELECT a.*, row_number() OVER (ORDER BY a.from_s, a.from_rank, a.to_rank) AS i "
	"FROM event_arrow AS a "
	"CROSS JOIN event AS f ON f.run_id = a.run_id AND f.rank = a.from_rank AND f.seq = "
	"a.from_seq "
	"CROSS JOIN event AS e ON e.run_id = a.run_id AND e.rank = a.to_rank AND e.seq = a.to_seq "
	"WHERE "
	"(?2 IS NULL OR f.step BETWEEN ?2 AND ?3) AND (?4 = 0 OR f.epoch = ?4) AND "
	"a.run_id = ?1 AND " WINDOW ") "
	"CROSS JOIN (VALUES ('s'), ('f')) ORDER BY i, column1 DESC",

	"SELECT json_object('ph', 'C', 'pid', 1, 'tid', e.rank, 'name', 'staleness, worker ' || "
	"e.rank, 'ts', round(1e6 * e.start_s, 3), 'args', json_object('updates', e.staleness)) "
	"FROM event AS e WHERE e.staleness IS NOT NULL AND " WINDOW " ORDER BY e.rank, e.seq",
};

struct excerpt {
	int64_t run, first, last, epoch; /* first 0: all steps */
};

static char *write_part(struct store *s, FILE *f, const char *sql, const struct excerpt *w,
			int64_t *n)
{
	sqlite3_stmt *q = NULL;
	int rc = sqlite3_prepare_v2(s->db, sql, -1, &q, NULL);

	if (rc != SQLITE_OK)
		return database_error(s, rc);
	sqlite3_bind_int64(q, 1, w->run);
	if (w->first) {
		sqlite3_bind_int64(q, 2, w->first);
		sqlite3_bind_int64(q, 3, w->last);
	}
	sqlite3_bind_int64(q, 4, w->epoch);
	for (; (rc = sqlite3_step(q)) == SQLITE_ROW; ++*n) {
		fputs(*n ? ",\n" : "\n", f);
		text_utf8(f, (const char *)sqlite3_column_text(q, 0));
	}
	sqlite3_finalize(q);
	return rc == SQLITE_DONE ? NULL : database_error(s, rc);
}

static char *write_json(struct store *s, FILE *f, const struct excerpt *w)
{
	char *wrong = NULL;
	int64_t n = 0;

	fprintf(f, "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [");
	for (size_t i = 0; i < sizeof parts / sizeof *parts && !wrong; i++)
		wrong = write_part(s, f, parts[i], w, &n);
	fprintf(f, "\n]}\n");
	return wrong;
}

static char *cannot_write(const char *path)
{
	return sentence("--out=%s: the file cannot be written (%s)", path, strerror(errno));
}

static char *write_file(struct store *s, const char *path, const struct excerpt *w)
{
	FILE *f = fopen(path, "w");

	if (!f)
		return cannot_write(path);
	char *wrong = write_json(s, f, w);
	bool bad = ferror(f) != 0;
	if ((fclose(f) != 0 || bad) && !wrong)
		wrong = cannot_write(path);
	return wrong;
}

/* ---- Which run -------------------------------------------------------------------- */

/* ?1: label; NULL or a sentence. *id 0: none matches. */
static char *newest(struct store *s, const char *where, const char *label, const char *among,
		    int64_t *id)
{
	double found;
	char *wrong = database_condition(s, where);

	if (wrong)
		return wrong;
	char *sql = sentence("SELECT max(id) FROM run_summary WHERE (?1 = '' OR label = ?1) AND "
			     "(%s) AND (\n%s\n)",
			     *among ? among : "1", *where ? where : "1");
	wrong = query_numbers(s, sql, &label, 1, &found, 1);
	free(sql);
	*id = !wrong && found > 0 ? (int64_t)found : 0;
	return wrong;
}

char *run_find(struct store *s, const char *word, const char *where, const char *label,
	       const char *among, int64_t *id)
{
	double found;
	char *end, *wrong = NULL;

	if (strcmp(word, "latest") == 0) {
		wrong = newest(s, where, label, among, id);
		if (!wrong && *id == 0)
			wrong = sentence("latest: %s has no such run%s; mvbench table --runs "
					 "--db=%s lists what there is",
					 s->path, *among ? " with a timeline (--trace)" : "",
					 s->path);
		return wrong;
	}
	*id = strtoll(word, &end, 10);
	if (*end || end == word || *id < 1)
		return sentence("%s: the number of a run is wanted, or latest; mvbench table "
				"--runs lists them",
				word);
	wrong = query_numbers(s, "SELECT id FROM run WHERE id = CAST(?1 AS INTEGER)", &word, 1,
			      &found, 1);
	if (!wrong && !(found > 0))
		wrong = sentence("%s: %s has no such run; mvbench table --runs --db=%s lists them",
				 word, s->path, s->path);
	return wrong;
}

/* FIRST..LAST, or one number. */
static char *read_steps(const char *text, struct excerpt *w)
{
	int n = 0;

	if (!*text)
		return NULL;
	long long first, last;
	if (sscanf(text, "%lld..%lld%n", &first, &last, &n) < 2 || text[n]) {
		n = 0;
		if (sscanf(text, "%lld%n", &first, &n) < 1 || text[n])
			return sentence("--steps=%s: steps of an epoch are wanted, such as "
					"--steps=1..8",
					text);
		last = first;
	}
	if (first < 1 || last < first)
		return sentence("--steps=%s: steps count from 1, and the last is not before the "
				"first, as in --steps=1..8",
				text);
	w->first = first;
	w->last = last;
	return NULL;
}

static char *count_events(struct store *s, const struct excerpt *w, const char *db, double n[3])
{
	char *sql = sentence(
		"SELECT count(*), count(DISTINCT e.rank), (SELECT events_lost FROM run "
		"WHERE id = %lld) FROM event AS e WHERE e.run_id = %lld AND "
		"(%lld = 0 OR e.step BETWEEN %lld AND %lld) AND (%lld = 0 OR e.epoch = "
		"%lld)",
		(long long)w->run, (long long)w->run, (long long)w->first, (long long)w->first,
		(long long)w->last, (long long)w->epoch, (long long)w->epoch);
	char *wrong = query_numbers(s, sql, NULL, 0, n, 3);

	free(sql);
	if (!wrong && n[0] == 0)
		wrong = w->first || w->epoch
				? sentence("run %lld: nothing was kept of these steps; leave "
					   "--steps and --epoch out to see what was",
					   (long long)w->run)
				: sentence("run %lld has no timeline: make one with mvbench trace "
					   "--workload=..., or run it with --trace=%d --db=%s",
					   (long long)w->run, SAMPLE, db);
	return wrong;
}

static int export(const char *db, const char *label, const char *word,
		  const struct trace_options *o)
{
	struct store *s = NULL;
	struct excerpt w = {.epoch = o->epoch};
	double n[3];
	char *wrong = read_steps(o->steps, &w);

	if (!wrong)
		wrong = store_open(&s, db, STORE_READ);
	if (!wrong)
		wrong = run_find(s, word, o->where, label, "id IN (SELECT run_id FROM event)",
				 &w.run);
	if (!wrong)
		wrong = count_events(s, &w, db, n);
	if (!wrong)
		wrong = write_file(s, o->out, &w);
	store_close(s);
	if (wrong)
		return complain(wrong);
	printf("%s: %.0f events of %.0f ranks of run %lld; open it in ui.perfetto.dev or "
	       "chrome://tracing\n",
	       o->out, n[0], n[1], (long long)w.run);
	if (n[2] > 0)
		fprintf(stderr, "mvbench: %.0f more events found no room; trace fewer steps\n",
			n[2]);
	return EXIT_OK;
}

/* ---- The command -------------------------------------------------------------------- */

static bool bare(const char *name)
{
	const struct option *o = option_find(options, name);
	char *wrong = o ? NULL : config_check(name, "true", &o);

	free(wrong);
	return !wrong && o->type == OPT_BOOL;
}

/* Runs what the options say, with a timeline, and exports that. */
static int run_and_export(const struct setting *given, size_t n, const struct trace_options *o)
{
	struct setting all[n + 1];
	struct config config;
	struct plan plan;
	struct progress progress = {.lines = true};
	struct outcome outcome;
	char sample[16], word[24];

	snprintf(sample, sizeof sample, "%d", SAMPLE);
	all[0] = (struct setting){"trace", sample};
	memcpy(all + 1, given, n * sizeof *given);
	char *wrong = config_init(&config, all, n + 1, false);
	if (wrong)
		return complain(wrong);
	if (!config.run.trace)
		wrong = sentence("--trace=0: no timeline would be kept; leave it out, or give the "
				 "steps of each epoch to keep");
	if (!wrong)
		wrong = plan_make(&config, &plan);
	if (!wrong)
		wrong = store_check(config.own.db);
	if (!wrong)
		wrong = simulation_check(&config, &plan);
	if (wrong) {
		config_fini(&config);
		return complain(wrong);
	}
	run_cell(&config, &progress, &outcome);
	outcome_print(&config, &outcome, FORMAT_TEXT);
	int status = outcome.status;
	snprintf(word, sizeof word, "%lld", (long long)outcome.id);
	if (status == EXIT_OK || status == EXIT_DIVERGED) {
		int exported = export(config.own.db, "", word, o);
		status = exported ? exported : status;
	}
	outcome_fini(&outcome);
	config_fini(&config);
	return status;
}

/* With a run's name only --db is left to say, and for latest --label. */
static int export_named(struct arguments *a, const struct trace_options *o)
{
	const char *db = DATABASE, *label = "";
	char *wrong = NULL;

	for (size_t i = 0; i < a->options && !wrong; i++) {
		const struct setting *given = &a->option[i];
		const char *value = given->value ? given->value : "";
		if (strcmp(given->name, "label") == 0 && strcmp(a->word[0], "latest") == 0)
			label = value;
		else if (strcmp(given->name, "db") != 0)
			wrong = sentence("--%s: run %s is there already; leave the option out, or "
					 "the run",
					 given->name, a->word[0]);
		else if (!*value)
			wrong = sentence("--db=: the name of a file is wanted, as in "
					 "--db=" DATABASE);
		else
			db = value;
	}
	return wrong ? complain(wrong) : export(db, label, a->word[0], o);
}

static bool says_what_to_run(const struct arguments *a)
{
	for (size_t i = 0; i < a->options; i++)
		if (strcmp(a->option[i].name, "db") != 0)
			return true;
	return false;
}

static int run(int argc, char **argv)
{
	struct trace_options o;
	struct arguments a;
	int status;

	option_default(options, &o);
	char *wrong = arguments_read(&a, argc, argv, bare);
	if (wrong)
		return complain(wrong);
	wrong = a.help ? NULL : arguments_take(&a, options, &o);
	if (!wrong && !a.help && a.words == 0 && !says_what_to_run(&a))
		wrong = sentence("name a run (its number, or latest), or give options of a run to "
				 "make, such as --strategy=asgd --workers=2");
	if (!wrong && a.words > 1)
		wrong = sentence("%s: one run at a time", a.word[1]);
	if (wrong) {
		status = complain(wrong);
	} else if (a.help) {
		command_help(stdout, &command_trace);
		status = EXIT_OK;
	} else if (a.words) {
		status = export_named(&a, &o);
	} else {
		status = run_and_export(a.option, a.options, &o);
	}
	arguments_free(&a);
	return status;
}

static void more(FILE *f)
{
	static const char sql[] = "SELECT name, about FROM event_kind ORDER BY place";
	sqlite3 *db = NULL;
	sqlite3_stmt *q = NULL;

	if (sqlite3_open(":memory:", &db) == SQLITE_OK &&
	    sqlite3_exec(db, database_schema(), NULL, NULL, NULL) == SQLITE_OK &&
	    sqlite3_prepare_v2(db, sql, -1, &q, NULL) == SQLITE_OK)
		for (fputs("What a rank can be in:\n", f); sqlite3_step(q) == SQLITE_ROW;)
			fprintf(f, "  %-10s %s\n", (const char *)sqlite3_column_text(q, 0),
				(const char *)sqlite3_column_text(q, 1));
	sqlite3_finalize(q);
	sqlite3_close(db);
}

const struct command command_trace = {
	.name = "trace",
	.summary = "show what each worker did when, as a timeline",
	.usage = "[RUN|latest] [--option=value ...]",
	.about =
		"Writes the timeline of a run as JSON that ui.perfetto.dev and chrome://tracing "
		"open: one track a worker and a server, and arrows from a push to the server that "
		"applies it, or, where workers reach the table by themselves, to the first other "
		"worker that gets it. The run is named by its number, or made now from the "
		"options of mvbench run. A timeline is kept of the first steps of each epoch "
		"(--trace), and of all barriers and evaluations.\n\n"
		"Times of one machine's workers are by one clock; those of other machines by their "
		"own, set by the answers that came soonest. A worker on a GPU shows what its host "
		"was in: the GPU may still be at work. mvbench plot timeline draws some steps.",
	.options = options,
	.run_options = true,
	.bare = bare,
	.run = run,
	.more = more,
};
