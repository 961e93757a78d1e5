/*
 * names.c - which runs a word means: the number of a run, the name of a configuration, or a label;
 * and which configuration is the control of another.
 */
#include "results/ask/ask.h"

#include <string.h>

TEXT_FILE(names_sql, "results/ask/names.sql");
TEXT_FILE(held_sql, "results/ask/held.sql");

char *names_make(struct store *s)
{
	return sql_change(s, names_sql, "");
}

char *held_make(struct store *s, const char *versus, double accuracy, double loss, double time)
{
	return sql_change(s, held_sql, "trrr", versus, accuracy, loss, time);
}

/* Returns the error for a name that nothing has. */
static char *no_such_name(struct store *s, const char *word)
{
	struct sql q AUTODONE = sql_select(s,
					   "SELECT DISTINCT configuration FROM title UNION "
					   "SELECT label FROM run_summary WHERE label <> ''",
					   "");
	char **name AUTOWORDS = NULL;
	size_t n = 0;
	while (sql_next(&q))
		APPEND(name, n, sql_copy(&q, 0));
	APPEND(name, n, NULL);
	TRY(sql_done(&q));
	const char *near = nearest(word, (const char *const *)name, n - 1);
	if (near)
		return sentence("%s: there is no such configuration or label; did you mean \"%s\"?",
				word, near);
	return sentence("%s: there is no such run, configuration or label; mvbench table --db=%s "
			"lists configurations, with --runs runs",
			word, s->path);
}

static char *names_find_runs(struct store *s, const char *word, const char *side, int64_t *n)
{
	static const char *const means[] = {
		"configuration = ?2 OR r.workload || ' ' || configuration = ?2", "label = ?2",
		"r.config = ?2 OR r.workload || ' ' || r.config = ?2"};
	for (size_t i = 0; i < sizeof means / sizeof *means && *n == 0; i++) {
		char *sql AUTOFREE =
			sentence("INSERT INTO side SELECT ?1, id, config_key, configuration FROM "
				 "run_summary AS r JOIN title USING (config_key) WHERE "
				 "(%s) AND status IN ('done', 'diverged')",
				 means[i]);
		TRY(sql_change(s, sql, "tt", side, word));
		TRY(sql_number(s, n, "SELECT count(*) FROM side WHERE name = ?1", "t", side));
	}
	return NULL;
}

/* NULL, or a sentence: the runs are of several configurations. Of those with the same name, a run
 * number tells which is which. */
static char *check_one(struct store *s, const char *word, const char *side)
{
	char *names AUTOFREE = NULL;
	TRY(sql_first(
		s, &names,
		"SELECT iif(count(*) > 1, group_concat(text || iif(alike > 1, "
		"printf(' (run %d)', id), ''), '; '), NULL) FROM (SELECT *, count(*) OVER "
		"(PARTITION BY text) AS alike FROM (SELECT workload || ' ' || t.configuration "
		"AS text, min(run_id) AS id FROM side JOIN title AS t USING (config_key) "
		"WHERE name = ?1 GROUP BY config_key) ORDER BY text, id)",
		"t", side));
	return names ? sentence("%s: these are several configurations, name one: %s", word, names)
		     : NULL;
}

char *names_find(struct store *s, const char *word, const struct select *of, const char *side)
{
	int64_t id = 0, n = 0, named = 0;
	if (strcmp(word, "latest") == 0 || word[strspn(word, "0123456789")] == '\0') {
		TRY(run_find(s, word, of, "", &id));
		return sql_change(s,
				  "INSERT INTO side SELECT ?1, id, config_key, ifnull((SELECT "
				  "configuration FROM run_summary AS c JOIN title USING "
				  "(config_key) WHERE c.id = r.id), config) FROM main.run_summary "
				  "AS r WHERE id = ?2",
				  "ti", side, id);
	}
	TRY(names_find_runs(s, word, side, &n));
	if (n)
		return check_one(s, word, side);
	TRY(sql_number(s, &named,
		       "SELECT count(*) FROM run_summary JOIN title USING (config_key) WHERE "
		       "?1 IN (configuration, label, title.config)",
		       "t", word));
	return named ? sentence("%s: none of its runs has ended yet", word) : no_such_name(s, word);
}
