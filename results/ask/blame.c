/*
 * blame.c - mvbench blame: which worker is the slowest, how long the others waited for it, and what
 * the workers spend their time on. Views blame_epoch, step_time and time_share do the arithmetic.
 */
#include "results/ask/ask.h"
#include "runtime/cli/cli.h"

#include <stdlib.h>
#include <string.h>

TEXT_FILE(blame_sql, "results/ask/blame.sql");

struct blame_options {
	struct select select;
	const char *format;
};

#define OWNER struct blame_options
static const struct option options[] = {
	SELECT_OPTIONS(select., "database to read", "for latest: "),
	OPTION(format, CHOICE, "format", "text", "output format", .choices = "text|json"),
	{0},
};

/* Prints the one row of a view. Without a row, the run has no epoch yet. */
static char *print_verdict(struct store *s, int64_t id, bool json)
{
	char *text AUTOFREE = NULL;
	TRY(sql_first(s, &text, json ? "SELECT * FROM as_json" : "SELECT * FROM verdict", ""));
	if (!text)
		return sentence("run %lld has no epoch yet: its workers have no times",
				(long long)id);
	if (json) {
		text_json_made(stdout, text);
	} else {
		text_disarm(text);
		fputs(text, stdout);
	}
	putchar('\n');
	return NULL;
}

static char *say_tables(struct store *s)
{
	static const char *const sql[] = {"SELECT * FROM by_rank", "SELECT * FROM by_epoch"};
	int64_t workers = 0;
	TRY(sql_number(s, &workers, "SELECT workers FROM asked", ""));
	for (int i = 0; i < (workers > 1 ? 2 : 1); i++) {
		putchar('\n');
		TRY(query_print(s, stdout, FORMAT_TEXT, sql[i], NULL, 0, NULL));
	}
	return NULL;
}

static char *blame(void *options_given, struct arguments *a, int *status)
{
	const struct blame_options *o = options_given;
	bool json = strcmp(o->format, "json") == 0;
	struct store *s AUTOCLOSE = NULL;
	int64_t id = 0;
	(void)status;
	if (a->words > 1)
		return sentence("%s: one run at a time", a->word[1]);
	TRY(store_open(&s, o->select.db, STORE_READ));
	TRY(run_find(s, a->words ? a->word[0] : "latest", &o->select, "", &id));
	TRY(sql_change(s, blame_sql, "i", id));
	TRY(print_verdict(s, id, json));
	return json ? NULL : say_tables(s);
}

const struct command command_blame = {
	.name = "blame",
	.summary = "name the slowest worker of a run, and how long the others waited for it",
	.usage = "[RUN|latest] [--option=value ...]",
	.about = "Names the slowest worker, in total and for each epoch, and how long the others "
		 "waited for it. Prints the median and the 99th percentile of each worker's steps, "
		 "and what the workers spent their time on.\n\n"
		 "With a timeline (--trace), each wait is attributed to the worker that came last "
		 "to a reduction, a round or a barrier. Without one, blame names the worker that "
		 "was busy longest in an epoch, and attributes to it the time that the others "
		 "waited beyond its own waiting.",
	.options = options,
	.size = sizeof(OWNER),
	.pages = true,
	.run = blame,
};
