/*
 * recorded.c - a recorded run as a configuration again, and as the command that repeats it.
 *
 * A row of `run` holds what was used where more than one value of an option could lead there: the
 * device and the tables' placement. Whether these were given or chosen decides the cell's identity,
 * so both are tried, and config_hash says which it was.
 */
#include "results/db/db.h"

#include <stdlib.h>
#include <string.h>

/* Options whose column may hold what `auto` became. */
static const char *const resolved[] = {"device", "table-home"};
enum { RESOLVED = sizeof(resolved) / sizeof(*resolved), WAYS = 1 << RESOLVED };

struct list {
	struct setting *setting; /* names and values are on the heap */
	size_t n;
};

static void list_add(struct list *l, char *name, char *value)
{
	l->setting = must(realloc(l->setting, (l->n + 1) * sizeof(*l->setting)));
	l->setting[l->n++] = (struct setting){name, value};
}

static void list_free(struct list *l)
{
	for (size_t i = 0; i < l->n; i++) {
		free((char *)(uintptr_t)l->setting[i].name);
		free((char *)(uintptr_t)l->setting[i].value);
	}
	free(l->setting);
}

/* The column's text as option_set understands it; NULL where the row says nothing. Heap. */
static char *column_text(sqlite3_stmt *row, const struct option *o)
{
	char *name = must(strdup(o->name)), *text = NULL;
	int i = 0, n = sqlite3_column_count(row);

	for (char *c = name; *c; c++)
		if (*c == '-' || *c == '.')
			*c = '_';
	while (i < n && strcmp(sqlite3_column_name(row, i), name) != 0)
		i++;
	free(name);
	if (i == n || sqlite3_column_type(row, i) == SQLITE_NULL)
		return NULL;
	if (sqlite3_column_type(row, i) == SQLITE_FLOAT) {
		text = must(malloc(40));
		snprintf(text, 40, "%.17g", sqlite3_column_double(row, i));
		return text;
	}
	if (o->type == OPT_BOOL)
		return must(strdup(sqlite3_column_int(row, i) ? "true" : "false"));
	return must(strdup((const char *)sqlite3_column_text(row, i)));
}

/* Everything that the run's rows say; its hash into hash. */
static char *read_settings(struct store *s, int64_t id, struct list *l, char hash[17])
{
	sqlite3_stmt *row = NULL, *own = NULL;
	char *wrong = NULL;
	int rc = sqlite3_prepare_v2(s->db, "SELECT * FROM run WHERE id = ?1", -1, &row, NULL);

	if (rc == SQLITE_OK)
		rc = sqlite3_prepare_v2(
			s->db,
			"SELECT iif(part = 'strategy', strategy, workload) || '.' || name, value, "
			"config_hash FROM run LEFT JOIN run_option ON run_id = id WHERE id = ?1 "
			"ORDER BY part, name",
			-1, &own, NULL);
	if (rc == SQLITE_OK) {
		sqlite3_bind_int64(row, 1, id);
		sqlite3_bind_int64(own, 1, id);
		rc = sqlite3_step(row);
	}
	if (rc == SQLITE_DONE)
		wrong = sentence("%s has no run %lld", s->path, (long long)id);
	for (const struct option *o = run_options; rc == SQLITE_ROW && o->name; o++) {
		char *text = column_text(row, o);
		if (text)
			list_add(l, must(strdup(o->name)), text);
	}
	while (rc == SQLITE_ROW && (rc = sqlite3_step(own)) == SQLITE_ROW) {
		const char *name = (const char *)sqlite3_column_text(own, 0);
		const char *value = (const char *)sqlite3_column_text(own, 1);
		snprintf(hash, 17, "%s", (const char *)sqlite3_column_text(own, 2));
		if (name && value)
			list_add(l, must(strdup(name)), must(strdup(value)));
	}
	if (!wrong && rc != SQLITE_DONE)
		wrong = database_error(s, rc);
	sqlite3_finalize(row);
	sqlite3_finalize(own);
	return wrong;
}

/* The settings, `way` says which of the resolved options are left to be chosen again. */
static char *configure(const struct list *l, int way, struct config *c)
{
	struct setting *some = must(malloc((l->n + 1) * sizeof(*some)));
	size_t n = 0;

	for (size_t i = 0; i < l->n; i++) {
		bool left = false;
		for (int k = 0; k < RESOLVED; k++)
			left |= way >> k & 1 && strcmp(l->setting[i].name, resolved[k]) == 0;
		if (!left)
			some[n++] = l->setting[i];
	}
	char *wrong = config_init(c, some, n, false);
	free(some);
	return wrong;
}

char *recorded_config(struct store *s, int64_t id, struct config *c, bool *exact)
{
	struct list l = {.n = 0};
	char want[17] = "", got[17];
	char *wrong = read_settings(s, id, &l, want);

	*exact = false;
	/* the last way, which gives all that the row says, stands when none fits */
	for (int way = WAYS - 1; way >= 0 && !wrong && !*exact; way--) {
		wrong = configure(&l, way, c);
		if (wrong)
			break;
		config_hash(c, got);
		*exact = strcmp(got, want) == 0;
		if (!*exact && way > 0)
			config_fini(c);
	}
	list_free(&l);
	return wrong;
}

/* ---- As a command ---------------------------------------------------------- */

static bool is_plain(const char *word)
{
	return word[strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				 "-_=.,:/+@%")] == '\0';
}

/* Adds a word for a POSIX shell, from its '=' on between quotes where that is needed. */
static void add_word(sqlite3_str *out, const char *word)
{
	size_t name = strcspn(word, "=") + 1;

	sqlite3_str_appendchar(out, 1, ' ');
	if (is_plain(word)) {
		sqlite3_str_appendall(out, word);
		return;
	}
	sqlite3_str_append(out, word, (int)name);
	sqlite3_str_appendchar(out, 1, '\'');
	for (const char *p = word + name; *p; p++)
		if (*p == '\'')
			sqlite3_str_appendall(out, "'\\''");
		else
			sqlite3_str_appendchar(out, 1, *p);
	sqlite3_str_appendchar(out, 1, '\'');
}

/* Always said, so that a reader need not know the defaults of what matters most. */
static bool is_spoken(const char *word)
{
	static const char *const spoken[] = {"--workload=", "--strategy=", "--workers=", "--seed="};

	for (size_t i = 0; i < sizeof(spoken) / sizeof(*spoken); i++)
		if (strncmp(word, spoken[i], strlen(spoken[i])) == 0)
			return true;
	return false;
}

char *recorded_command(struct store *s, int64_t id, char **command, bool *exact)
{
	struct config c, plain;
	char *wrong = recorded_config(s, id, &c, exact);

	if (wrong)
		return wrong;
	struct setting both[] = {{"workload", c.run.workload}, {"strategy", c.run.strategy}};
	wrong = config_init(&plain, both, 2, false);
	CHECK(!wrong, "%s", wrong);
	char **word = config_words(&c), **usual = config_words(&plain);
	sqlite3_str *out = sqlite3_str_new(NULL);
	sqlite3_str_appendall(out, "mvbench run");
	for (size_t i = 0; word[i]; i++)
		if (is_spoken(word[i]) || strcmp(word[i], usual[i]) != 0)
			add_word(out, word[i]);
	char *text = must(sqlite3_str_finish(out));
	*command = must(strdup(text));
	sqlite3_free(text);
	free_words(word);
	free_words(usual);
	config_fini(&plain);
	config_fini(&c);
	return NULL;
}
