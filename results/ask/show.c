/*
 * show.c - mvbench show: all of one run.
 */
#include "results/ask/ask.h"
#include "results/db/column.h"
#include "runtime/cli/cli.h"

#include <stdlib.h>

struct show_options {
	struct select select;
	const char *source;
};

#define OWNER struct show_options
static const struct option show_options[] = {
	SELECT_OPTIONS(select., "database to read", "for latest: "),
	OPTION(source, STRING, "source", "",
	       "print only this file of the source of a plug-in that the run used, as the database "
	       "has kept it; nothing compiles it before you name it in a command [file]"),
	{.name = NULL},
};

#define KEPT \
	" FROM source AS s JOIN run_option AS o ON o.value = s.hash AND o.name = 'source' WHERE " \
	"o.run_id = ?1"

/* Adds which files --source prints. */
static char *find_sources(struct store *s, int64_t id)
{
	return sql_change(s,
			  "INSERT INTO fact SELECT 'kept sources', files FROM (SELECT "
			  "group_concat(file, ', ') AS files FROM (SELECT DISTINCT file" KEPT
			  ")) WHERE files IS NOT NULL",
			  "i", id);
}

/* Prints the command that prints a kept source. */
static char *say_source(struct store *s, int64_t id)
{
	char *file AUTOFREE = NULL;
	TRY(sql_first(s, &file, "SELECT file" KEPT " ORDER BY place LIMIT 1", "i", id));
	if (!file)
		return NULL;
	char *db AUTOFREE = sentence("--db=%s", s->path),
		 *source AUTOFREE = sentence("--source=%s", file),
		 *where AUTOFREE = word_quoted(db), *which AUTOFREE = word_quoted(source),
		 *command AUTOFREE =
			 sentence("mvbench show %lld %s %s", (long long)id, where, which);
	text_disarm(command);
	puts("\nA kept source is printed by:");
	command_put(stdout, command);
	putchar('\n');
	return NULL;
}

static char *print_source(struct store *s, int64_t id, const char *file)
{
	char *text AUTOFREE = NULL;
	TRY(sql_first(s, &text, "SELECT text" KEPT " AND file = ?2 ORDER BY place LIMIT 1", "it",
		      id, file));
	if (!text)
		return sentence("--source=%s: run %lld has no such file; mvbench show %lld lists "
				"its kept sources",
				file, (long long)id, (long long)id);
	if (on_terminal(stdout))
		text_disarm(text);
	fputs(text, stdout);
	return NULL;
}

/* Fills table `fact` with what the run found out; its options are in the command. */
static char *find_facts(struct store *s, int64_t id)
{
	TRY(sql_script(s, "CREATE TEMP TABLE fact (name TEXT, value TEXT)"));
	struct sql row AUTODONE = sql_select(s, "SELECT * FROM run WHERE id = ?1", "i", id);
	bool there = sql_next(&row);
	for (int i = 0; there && i < sql_columns(&row); i++)
		if (!sql_null(&row, i))
			TRY(sql_change(s,
				       "INSERT INTO fact SELECT ?1, ?2 WHERE ?1 NOT IN (SELECT "
				       "\"column\" FROM option_info)",
				       "tt", sql_name(&row, i), sql_text(&row, i)));
	TRY(sql_done(&row));
	TRY(sql_script(s, "UPDATE fact SET value = 'interrupted' WHERE name = 'status' AND value = "
			  "'failed' AND (SELECT value FROM fact WHERE name = 'reason') LIKE "
			  "'" INTERRUPTED "%'"));
	TRY(sql_change(s,
		       "INSERT INTO fact SELECT CASE part WHEN 'strategy' THEN strategy WHEN "
		       "'optimizer' THEN optimizer WHEN 'codec' THEN codec ELSE workload END || "
		       "'.source', value FROM "
		       "run_option JOIN run ON id = run_id WHERE id = ?1 AND name = 'source'",
		       "i", id));
	return sql_change(s,
			  "UPDATE fact SET value = value || (SELECT ifnull(' (after epoch ' || "
			  "group_concat(epoch, ', ') || ')', '') FROM (SELECT epoch FROM "
			  "resumption WHERE run_id = ?1 ORDER BY number)) WHERE name = 'resumed'",
			  "i", id);
}

/* With the column `reported`, if the strategy reported values of an epoch. */
#define EPOCHS(more) \
	"SELECT epoch, round(seconds, 4) AS seconds, round(compute_s, 4) AS compute_s, " \
	"round(comm_s, 4) AS comm_s, round(wait_s, 4) AS wait_s, round(run_delay_s, 4) AS " \
	"run_delay_s, round(train_loss, 4) AS train_loss, round(test_loss, 4) AS test_loss, " \
	"round(test_accuracy, 4) AS test_accuracy, bytes_sent, peak_bytes" more \
	" FROM epoch AS e WHERE " \
	"run_id = ?1"
#define REPORTED \
	", (SELECT group_concat(name || ' ' || printf('%.4g', value), ', ') FROM epoch_value AS " \
	"v WHERE v.run_id = e.run_id AND v.epoch = e.epoch) AS reported"

static char *show(void *options_given, struct arguments *a, int *status)
{
	const char *part[] = {
		"SELECT name AS fact, value FROM fact",
		"SELECT rank, role, host, slot, cores, load, mhz, address FROM rank WHERE "
		"run_id = ?1",
		EPOCHS(""),
	};
	const struct show_options *given = options_given;
	const struct select *o = &given->select;
	struct store *s AUTOCLOSE = NULL;
	char *command AUTOFREE = NULL, number[24];
	const char *parameter = number;
	int64_t id = 0, reported = 0;
	bool exact;
	if (a->words > 1)
		return sentence("%s: one run at a time", a->word[1]);
	TRY(store_open(&s, o->db, STORE_READ));
	TRY(run_find(s, a->words ? a->word[0] : "latest", o, "", &id));
	if (*given->source)
		return print_source(s, id, given->source);
	TRY(find_facts(s, id));
	TRY(find_sources(s, id));
	TRY(sql_number(s, &reported, "SELECT count(*) FROM epoch_value WHERE run_id = ?1", "i",
		       id));
	if (reported)
		part[2] = EPOCHS(REPORTED);
	snprintf(number, sizeof number, "%lld", (long long)id);
	char *unknown AUTOFREE = recorded_command(s, id, &command, &exact);
	char *why AUTOFREE = unknown ? sentence("%s\n", unknown) : NULL;
	text_disarm(why ? why : command);
	if (why) {
		note_put(stdout, FORMAT_TEXT, why);
	} else {
		command_put(stdout, command);
		putchar('\n');
	}
	for (size_t i = 0; i < sizeof part / sizeof *part; i++) {
		putchar('\n');
		char *wrong = query_print(s, stdout, FORMAT_TEXT, part[i], &parameter, i > 0, NULL);
		if (!wrong && i == 0)
			wrong = say_source(s, id);
		if (wrong) {
			*status = EXIT_FAILED;
			return wrong;
		}
	}
	return NULL;
}

const struct command command_show = {
	.name = "show",
	.summary = "show everything about one run",
	.usage = "[RUN|latest] [--option=value ...]",
	.about =
		"Prints the command that repeats a run, the facts that were recorded about it, the "
		"places of its ranks, and its epochs.",
	.options = show_options,
	.size = sizeof(OWNER),
	.pages = true,
	.run = show,
};
