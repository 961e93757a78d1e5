/*
 * blame.c - mvbench blame: which worker is the slowest, how long the others waited for it, and what
 * the workers spend their time on. Views blame_epoch, step_time and time_share do the arithmetic.
 */
#include "results/ask/ask.h"

#include <stdlib.h>
#include <string.h>

extern const struct command command_blame;

struct blame_options {
	const char *db, *where, *label, *format;
};

static const struct option options[] = {
	{.name = "db",
	 .type = OPT_STRING,
	 .offset = offsetof(struct blame_options, db),
	 .def = DATABASE,
	 .help = "database to read [file]"},
	{.name = "where",
	 .type = OPT_STRING,
	 .offset = offsetof(struct blame_options, where),
	 .def = "",
	 .help = "for latest: a condition on the columns of run_summary [SQL]"},
	{.name = "label",
	 .type = OPT_STRING,
	 .offset = offsetof(struct blame_options, label),
	 .def = "",
	 .help = "for latest: only runs with this label [text]"},
	{.name = "format",
	 .type = OPT_CHOICE,
	 .offset = offsetof(struct blame_options, format),
	 .def = "text",
	 .choices = "text|json",
	 .help = "of what is printed"},
	{0},
};

/* ?1: run. The views are asked once; place 1 is the slowest, of the run or of an epoch. */
static const char *const tables[] = {
	"CREATE TEMP TABLE share AS SELECT * FROM time_share WHERE run_id = ?1",
	"CREATE TEMP TABLE timed AS SELECT * FROM step_time WHERE run_id = ?1",
	"CREATE TEMP TABLE blame AS SELECT *, row_number() OVER (PARTITION BY epoch ORDER BY "
	"waited_s DESC, busy_s DESC, rank) AS place FROM blame_epoch WHERE run_id = ?1",
	"CREATE TEMP TABLE total AS SELECT rank, max(source) AS source, sum(busy_s) AS busy_s, "
	"sum(waited_s) AS waited_s, sum(of_s) AS of_s, count(*) AS epochs, row_number() OVER "
	"(ORDER BY sum(waited_s) DESC, sum(busy_s) DESC, rank) AS place FROM blame GROUP BY rank",
};

static char *ask_views(struct store *s, int64_t id)
{
	char *wrong = NULL;

	for (size_t i = 0; i < sizeof tables / sizeof *tables && !wrong; i++) {
		sqlite3_stmt *q = NULL;
		int rc = sqlite3_prepare_v2(s->db, tables[i], -1, &q, NULL);
		sqlite3_bind_int64(q, 1, id);
		if (rc == SQLITE_OK)
			rc = sqlite3_step(q);
		if (rc != SQLITE_DONE)
			wrong = database_error(s, rc);
		sqlite3_finalize(q);
	}
	return wrong;
}

static const char by_rank[] =
	"SELECT iif(t.rank < r.workers, 'worker ' || t.rank, 'server ' || (t.rank - r.workers)) "
	"AS \"rank\", round(t.waited_s, 4) AS \"waited for [s]\", round(t.busy_s, 4) AS "
	"\"busy [s]\", s.n AS \"steps kept\", round(1e3 * s.median_s, 3) AS \"median step [ms]\", "
	"round(1e3 * s.p99_s, 3) AS \"99 % [ms]\", "
	"(SELECT group_concat(text, ', ') FROM (SELECT name || ' ' || round(100 * share, 1) || "
	"' %' AS text FROM share WHERE rank = t.rank AND share >= 0.0005 ORDER BY share DESC)) "
	"AS \"its time\" "
	"FROM (SELECT rank, waited_s, busy_s FROM total UNION ALL SELECT DISTINCT rank, NULL, "
	"NULL FROM share WHERE rank NOT IN (SELECT rank FROM total)) AS t "
	"LEFT JOIN timed AS s ON s.rank = t.rank JOIN run AS r ON r.id = CAST(?1 AS INTEGER) "
	"ORDER BY t.rank";

static const char by_epoch[] =
	"SELECT epoch, 'worker ' || rank AS slowest, round(waited_s, 4) AS \"waited for it [s]\", "
	"round(100 * waited_s / nullif(of_s, 0), 1) || ' %' AS \"of the others' time\" FROM blame "
	"WHERE place = 1 ORDER BY epoch";

static const char verdict[] =
	"SELECT t.rank, t.waited_s, ifnull(100 * t.waited_s / nullif(t.of_s, 0), 0), "
	"t.source = 'events', r.trace, r.workers, "
	"(SELECT count(*) FROM event WHERE run_id = r.id AND name = 'step'), t.epochs "
	"FROM total AS t JOIN run AS r ON r.id = CAST(?1 AS INTEGER) WHERE t.place = 1";

static const char as_json[] =
	"SELECT json_object('run', s.id, 'workload', s.workload, 'config', s.config, 'label', "
	"s.label, "
	"'slowest', t.rank, 'waited_s', t.waited_s, 'waited_share', t.waited_s / nullif(t.of_s, "
	"0), "
	"'source', t.source, 'trace', r.trace, "
	"'epochs', (SELECT json_group_array(json_object('epoch', epoch, 'slowest', rank, "
	"'waited_s', "
	"waited_s, 'waited_share', waited_s / nullif(of_s, 0))) FROM blame WHERE place = 1), "
	"'ranks', (SELECT json_group_array(json_object('rank', o.rank, 'waited_s', o.waited_s, "
	"'busy_s', o.busy_s, 'steps', d.n, 'step_median_s', d.median_s, 'step_p99_s', d.p99_s, "
	"'share', (SELECT json_group_object(name, share) FROM share WHERE rank = o.rank))) "
	"FROM total AS o LEFT JOIN timed AS d ON d.rank = o.rank)) AS json "
	"FROM total AS t JOIN run_summary AS s ON s.id = CAST(?1 AS INTEGER) "
	"JOIN run AS r ON r.id = s.id WHERE t.place = 1";

enum { RANK, WAITED, PERCENT, BY_EVENTS, TRACE, WORKERS, STEPS, EPOCHS, FIGURES };

static void say_source(const double x[FIGURES])
{
	if (x[BY_EVENTS])
		printf("Whom for says its timeline: the first %.0f steps of each epoch, and all "
		       "barriers.\n",
		       x[TRACE]);
	else
		printf("By the workers' times of whole epochs%s.\n",
		       x[STEPS] ? ", as nobody waited in the timeline"
				: "; with --trace=64 a run tells its steps too");
}

static char *say_verdict(struct store *s, const char *id, int64_t *known)
{
	double x[FIGURES];
	char *wrong = query_numbers(s, verdict, &id, 1, x, FIGURES);

	if (wrong)
		return wrong;
	*known = x[EPOCHS] > 0;
	if (!*known)
		return sentence("run %s has no epoch yet: nothing to tell of its workers", id);
	if (x[WORKERS] == 1)
		printf("run %s has one worker: nobody waits for it.\n", id);
	else if (x[WAITED] > 0)
		printf("run %s: worker %.0f is the slowest: the others waited %.4g s for it, %.1f "
		       "%% of their time.\n",
		       id, x[RANK], x[WAITED], x[PERCENT]);
	else
		printf("run %s: worker %.0f was busy longest; nobody waited for it.\n", id,
		       x[RANK]);
	say_source(x);
	return NULL;
}

static char *print_text(struct store *s, const char *id)
{
	int64_t known = 0;
	char *wrong = say_verdict(s, id, &known);

	if (!wrong) {
		putchar('\n');
		wrong = query_print(s, stdout, FORMAT_TEXT, by_rank, &id, 1, NULL);
	}
	if (!wrong) {
		putchar('\n');
		wrong = query_print(s, stdout, FORMAT_TEXT, by_epoch, &id, 1, NULL);
	}
	return wrong;
}

static char *print_json(struct store *s, const char *id)
{
	sqlite3_stmt *q = NULL;
	int rc = sqlite3_prepare_v2(s->db, as_json, -1, &q, NULL);
	char *wrong = NULL;

	if (rc == SQLITE_OK) {
		sqlite3_bind_text(q, 1, id, -1, SQLITE_TRANSIENT);
		rc = sqlite3_step(q);
	}
	if (rc == SQLITE_ROW) {
		text_utf8(stdout, (const char *)sqlite3_column_text(q, 0));
		putchar('\n');
	} else {
		wrong = rc == SQLITE_DONE ? sentence("run %s has no epoch yet: nothing to tell of "
						     "its workers",
						     id)
					  : database_error(s, rc);
	}
	sqlite3_finalize(q);
	return wrong;
}

static int blame(const struct blame_options *o, const char *word)
{
	struct store *s = NULL;
	int64_t id = 0;
	char text[24];
	char *wrong = store_open(&s, o->db, STORE_READ);

	if (!wrong)
		wrong = run_find(s, word, o->where, o->label, "", &id);
	snprintf(text, sizeof text, "%lld", (long long)id);
	if (!wrong)
		wrong = ask_views(s, id);
	if (!wrong)
		wrong = strcmp(o->format, "json") == 0 ? print_json(s, text) : print_text(s, text);
	store_close(s);
	return wrong ? complain(wrong) : EXIT_OK;
}

static int run_blame(int argc, char **argv)
{
	struct blame_options o;
	struct arguments a;
	int status;

	option_default(options, &o);
	char *wrong = arguments_read(&a, argc, argv, NULL);
	if (wrong)
		return complain(wrong);
	wrong = arguments_take(&a, options, &o);
	if (!wrong)
		wrong = arguments_refuse(&a, options);
	if (!wrong && a.words > 1)
		wrong = sentence("%s: one run at a time", a.word[1]);
	if (wrong) {
		status = complain(wrong);
	} else if (a.help) {
		command_help(stdout, &command_blame);
		status = EXIT_OK;
	} else {
		status = blame(&o, a.words ? a.word[0] : "latest");
	}
	arguments_free(&a);
	return status;
}

const struct command command_blame = {
	.name = "blame",
	.summary = "name the slowest worker of a run, and how long the others waited for it",
	.usage = "[RUN|latest] [--option=value ...]",
	.about =
		"Names the slowest worker, in total and epoch by epoch, how long the others waited "
		"for it, the median and the 99th percentile of each worker's steps, and what the "
		"workers spent their time on.\n\n"
		"A run with a timeline (--trace) knows whom each wait was for: the last to come to "
		"a sum, a round or a barrier. Of others, the worker that was busy longest in an "
		"epoch is what the rest waited for, as long as they waited more than it did.",
	.options = options,
	.run = run_blame,
};
