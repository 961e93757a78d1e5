/*
 * edit.c - mvbench delete and relabel: remove runs from the database, or change their labels. All
 * rows that belong to a deleted run are deleted, too.
 */
#include "results/db/select.h"
#include "runtime/cli/cli.h"

#include <stdlib.h>
#include <string.h>

struct edit_options {
	struct select select;
	bool dry_run;
};

#define OWNER struct edit_options
static const struct option options[] = {
	SELECT_OPTIONS(select., "the database that is changed", "instead of numbers: "),
	OPTION(dry_run, BOOL, "dry-run", "false", "list the runs, change nothing [yes or no]"),
	{.name = NULL},
};

/* Fills table `edited` with the runs to change, by their numbers or by --where and --label. */
static char *choose_edited(struct store *s, const struct select *of, const char *const *word,
			   size_t words)
{
	TRY(sql_script(s, "CREATE TEMP TABLE edited (id INTEGER PRIMARY KEY)"));
	if (words == 0 && !*of->where && !*of->label)
		return sentence("give numbers of runs, --where or --label; mvbench table "
				"--runs --db=%s lists them",
				s->path);
	if (words && (*of->where || *of->label))
		return sentence("%s: give numbers of runs, or --where and --label, not both",
				word[0]);
	TRY(label_check(s, of->label));
	if (!words)
		return database_selected(s, "INSERT INTO edited SELECT id FROM run_summary",
					 of->where, of->label);
	for (size_t i = 0; i < words; i++) {
		int64_t id;
		TRY(run_number(s, word[i], &id));
		TRY(sql_change(s, "INSERT OR IGNORE INTO edited VALUES (?1)", "i", id));
	}
	return NULL;
}

/* Makes the change; with --dry-run only lists the runs. In a transaction: no run may begin between
 * the check and the change. */
static char *change_runs(struct store *s, const struct edit_options *o, const char *const *word,
			 size_t words, const char *change, const char *label, int64_t *n)
{
	int64_t running = 0;
	TRY(choose_edited(s, &o->select, word, words));
	TRY(sql_number(s, n, "SELECT count(*) FROM edited", ""));
	TRY(sql_number(s, &running,
		       "SELECT min(id) FROM run JOIN edited USING (id) WHERE status = 'running'",
		       ""));
	if (running)
		return sentence("run %lld is running: end it first", (long long)running);
	if (!o->dry_run)
		return sql_change(s, change, "t", label);
	return query_print(s, stdout, FORMAT_TEXT,
			   "SELECT id, status, workload, config, seed, label, started FROM "
			   "run_summary JOIN edited USING (id) ORDER BY id",
			   NULL, 0, NULL);
}

static char *edit(const struct edit_options *o, const char *const *word, size_t words,
		  const char *change, const char *label, const char *done)
{
	struct store *s AUTOCLOSE = NULL;
	int64_t n = 0;
	TRY(store_check(o->select.db));
	TRY(store_probe(o->select.db));
	TRY(store_open(&s, o->select.db, STORE_WRITE));
	TRY(sql_begin(s));
	TRY(sql_end(s, change_runs(s, o, word, words, change, label, &n)));
	printf("%lld run%s %s%s\n", (long long)n, plural(n), o->dry_run ? "would be " : "", done);
	return NULL;
}

static char *run_delete(void *options_given, struct arguments *a, int *status)
{
	(void)status;
	return edit(options_given, a->word, a->words,
		    "DELETE FROM run WHERE id IN (SELECT id FROM edited)", "", "deleted");
}

static char *run_relabel(void *options_given, struct arguments *a, int *status)
{
	(void)status;
	if (a->words == 0)
		return sentence("give a label and runs: mvbench relabel good 7 8, or "
				"relabel good --where=\"lr < 0.1\"");
	return edit(options_given, a->word + 1, a->words - 1,
		    "UPDATE run SET label = ?1 WHERE id IN (SELECT id FROM edited)", a->word[0],
		    "relabelled");
}

const struct command command_delete = {
	.name = "delete",
	.summary = "delete runs from the database",
	.usage = "[RUN ...] [--option=value ...]",
	.about = "Deletes runs, with all their recorded data: by their numbers, or all that "
		 "--where and --label select. Baselines keep their own copies.",
	.options = options,
	.size = sizeof(OWNER),
	.run = run_delete,
};

const struct command command_relabel = {
	.name = "relabel",
	.summary = "give runs another label",
	.usage = "LABEL [RUN ...] [--option=value ...]",
	.about = "Gives runs a label, by their numbers, or all that --where and --label "
		 "select; \"\" removes it. A label only helps to find runs; it is not part of "
		 "their configuration.",
	.options = options,
	.size = sizeof(OWNER),
	.run = run_relabel,
};
