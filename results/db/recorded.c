/*
 * recorded.c - turns a recorded run into settings and into a configuration again.
 *
 * Of the device and the placement of tables, a row of `run` holds the value that was used, which
 * `auto` can also have chosen. The identity of the cell depends on whether the value was given or
 * chosen. Both are therefore tried, and config_hash decides.
 */
#include "results/db/db.h"
#include "runtime/config/config.h"

#include <stdlib.h>
#include <string.h>

/* The column's text in the form that option_set reads; NULL if the row has no value. Heap. *at:
 * where the search begins, and then the column: most have the order of the options. */
static char *column_text(const struct sql *row, const struct option *o, int *at)
{
	char column[COLUMN_ROOM];
	int n = sql_columns(row), left = n, i = *at;
	option_column(o, column);
	while (left > 0 && strcmp(sql_name(row, i), column) != 0) {
		i = (i + 1) % n;
		left--;
	}
	*at = i;
	if (left == 0 || sql_null(row, i))
		return NULL;
	if (o->type == OPT_REAL || o->type == OPT_RATE || o->type == OPT_COUNT)
		return sentence("%.17g%s", sql_real(row, i), o->type == OPT_RATE ? "bit" : "");
	if (o->type == OPT_BOOL)
		return must(strdup(sql_int(row, i) ? "true" : "false"));
	return sql_copy(row, i);
}

/* Is this number given, and above 0? */
static bool is_set(const struct sql *row, const char *option)
{
	int at = 0;
	char *text AUTOFREE = column_text(row, option_find(run_options, option), &at);
	return text && strcmp(text, "0") != 0;
}

char *recorded_settings(struct store *s, int64_t id, struct settings *all, char hash[17])
{
	struct sql row = sql_select(s, "SELECT * FROM run WHERE id = ?1", "i", id);
	bool there = sql_next(&row);
	int at = 0;
	/* batch and epochs follow from these */
	bool global = there && is_set(&row, "global-batch"),
	     budget = there && (is_set(&row, "steps") || is_set(&row, "tokens"));
	for (const struct option *o = run_options; there && o->name; o++) {
		char *text = column_text(&row, o, &at);
		if (text && !(global && strcmp(o->name, "batch") == 0) &&
		    !(budget && strcmp(o->name, "epochs") == 0))
			settings_add(all, must(strdup(o->name)), text);
		else
			free(text);
	}
	TRY(sql_done(&row));
	if (!there)
		return sentence("%s has no run %lld", s->path, (long long)id);
	struct sql own =
		sql_select(s,
			   "SELECT CASE part WHEN 'strategy' THEN strategy "
			   "WHEN 'optimizer' THEN optimizer WHEN 'codec' THEN codec "
			   "ELSE workload END || '.' || "
			   "name, value, "
			   "config_hash FROM run LEFT JOIN run_option ON run_id = id WHERE id = ?1 "
			   "ORDER BY part, name",
			   "i", id);
	while (sql_next(&own)) {
		snprintf(hash, 17, "%s", sql_text(&own, 2));
		if (!sql_null(&own, 0) && !sql_null(&own, 1))
			settings_add(all, sql_copy(&own, 0), sql_copy(&own, 1));
	}
	return sql_done(&own);
}

/* Can the column hold a value that `auto` chose, and does the option decide the identity of the
 * cell? o NULL: it is of a plug-in. */
static bool is_resolved(const struct option *o)
{
	return o && (o->core.stored == AS_USED || o->core.stored == USED_IF_ANY) && !o->incidental;
}

/* Makes the configuration of the settings, without those of resolved[n] whose bit in `way` is set:
 * they are chosen again. */
static char *configure(const struct settings *all, const size_t *resolved, size_t n, int way,
		       struct config *c)
{
	struct setting *some AUTOFREE = must(malloc((all->n + 1) * sizeof(*some)));
	size_t given = 0, k = 0;
	for (size_t i = 0; i < all->n; i++) {
		bool again = k < n && resolved[k] == i && (way >> k++ & 1);
		if (!again)
			some[given++] = all->setting[i];
	}
	return config_init_recorded(c, some, given);
}

char *recorded_config(struct store *s, int64_t id, struct config *c, bool *exact)
{
	struct settings all ENDS_WITH(settings_free) = {.setting = NULL};
	char want[17] = "", got[17];
	size_t *resolved AUTOFREE = NULL, n = 0;
	*exact = false;
	TRY(recorded_settings(s, id, &all, want));
	for (size_t i = 0; i < all.n; i++)
		if (is_resolved(option_find(run_options, all.setting[i].name)))
			APPEND(resolved, n, i);
	/* the last way, which gives every value of the row, remains if none fits */
	for (int way = (1 << n) - 1; way >= 0 && !*exact; way--) {
		TRY(configure(&all, resolved, n, way, c));
		config_hash(c, got);
		*exact = strcmp(got, want) == 0;
		if (!*exact && way > 0)
			config_fini(c);
	}
	return NULL;
}

char *run_number(struct store *s, const char *word, int64_t *id)
{
	int64_t found = 0;
	char *end;
	*id = strtoll(word, &end, 10);
	if (*end || end == word || *id < 1)
		return sentence("%s: give the number of a run; mvbench table --runs lists them",
				word);
	TRY(sql_number(s, &found, "SELECT count(*) FROM run WHERE id = ?1", "i", *id));
	return found ? NULL
		     : sentence("%s: %s has no such run; mvbench table --runs --db=%s lists them",
				word, s->path, s->path);
}

char *recorded_command(struct store *s, int64_t id, char **command, bool *exact)
{
	struct config c ENDS_WITH(config_fini) = {.strings = NULL};
	TRY(recorded_config(s, id, &c, exact));
	*command = command_of(&c, false);
	return NULL;
}
