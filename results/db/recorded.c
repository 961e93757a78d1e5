/*
 * recorded.c - a recorded run as settings and as a configuration again.
 *
 * A row of `run` holds what was used where more than one value of an option could lead there: the
 * device and the tables' placement. Whether these were given or chosen decides the cell's identity,
 * so both are tried, and config_hash says which it was.
 */
#include "results/db/db.h"

#include <stdlib.h>
#include <string.h>

/* The column's text as option_set understands it; NULL where the row says nothing. Heap. */
static char *column_text(const struct sql *row, const struct option *o)
{
	char column[COLUMN_ROOM];
	int i = 0, n = sql_columns(row);
	option_column(o, column);
	while (i < n && strcmp(sql_name(row, i), column) != 0)
		i++;
	if (i == n || sql_null(row, i))
		return NULL;
	if (o->type == OPT_REAL)
		return sentence("%.17g", sql_real(row, i)); /* every digit */
	if (o->type == OPT_BOOL)
		return must(strdup(sql_int(row, i) ? "true" : "false"));
	return sql_copy(row, i);
}

char *recorded_settings(struct store *s, int64_t id, struct settings *all, char hash[17])
{
	struct sql row = sql_select(s, "SELECT * FROM run WHERE id = ?1", "i", id);
	bool there = sql_next(&row);
	char *all_together AUTOFREE =
		there ? column_text(&row, option_find(run_options, "global-batch")) : NULL;
	bool global = all_together && strcmp(all_together, "0") != 0; /* what batch follows from */
	for (const struct option *o = run_options; there && o->name; o++) {
		char *text = column_text(&row, o);
		if (text && !(global && strcmp(o->name, "batch") == 0))
			settings_add(all, must(strdup(o->name)), text);
		else
			free(text);
	}
	TRY(sql_done(&row));
	if (!there)
		return sentence("%s has no run %lld", s->path, (long long)id);
	struct sql own = sql_select(
		s,
		"SELECT CASE part WHEN 'strategy' THEN strategy "
		"WHEN 'optimizer' THEN optimizer ELSE workload END || '.' || name, value, "
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

/* May the column hold what `auto` became, and does it decide what the cell is? */
static bool is_resolved(const struct option *o)
{
	return (o->core.stored == AS_USED || o->core.stored == USED_IF_ANY) && !o->incidental;
}

/* The place of this option among those; how many there are, if it is none. */
static int resolved(const char *name)
{
	int place = 0;
	for (const struct option *o = run_options; o->name; o++) {
		if (is_resolved(o) && strcmp(o->name, name) == 0)
			break;
		place += is_resolved(o);
	}
	return place;
}

/* The settings, `way` says which of the resolved options are left to be chosen again. */
static char *configure(const struct settings *all, int way, struct config *c)
{
	struct setting *some AUTOFREE = must(malloc((all->n + 1) * sizeof(*some)));
	size_t n = 0;
	for (size_t i = 0; i < all->n; i++) {
		if (!(way >> resolved(all->setting[i].name) & 1))
			some[n++] = all->setting[i];
	}
	return config_init(c, some, n, false);
}

char *recorded_config(struct store *s, int64_t id, struct config *c, bool *exact)
{
	struct settings all ENDS_WITH(settings_free) = {.setting = NULL};
	char want[17] = "", got[17];
	*exact = false;
	TRY(recorded_settings(s, id, &all, want));
	/* the last way, which gives all that the row says, stands when none fits */
	for (int way = (1 << resolved("")) - 1; way >= 0 && !*exact; way--) {
		TRY(configure(&all, way, c));
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
		return sentence("%s: the number of a run is wanted, or latest; mvbench table "
				"--runs lists them",
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
