/*
 * query.c - prints the rows of a SELECT: an aligned table, markdown, LaTeX, CSV (RFC 4180), or one
 * JSON object for each row. The query rounds; here a number keeps all its digits. Only in tables
 * for people, a real number that the query did not round has six digits.
 */

#include "results/db/column.h"
#include "results/db/store.h"
#include "runtime/cli/cli.h"

#include <errno.h>
#include <math.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum format format_of(const char *name)
{
	static const char *const names[] = {"text", "markdown", "csv", "json", "latex"};
	size_t i = 0;
	while (i < sizeof names / sizeof *names && strcmp(name, names[i]) != 0)
		i++;
	CHECK(i < sizeof names / sizeof *names, "no format %s", name);
	return (enum format)i;
}

/* ---- Text ---------------------------------------------------------------- */

/* Columns of a terminal: combining marks need none, East Asian wide characters two. */
static size_t character_width(uint32_t c)
{
	static const uint32_t other[][3] = {
		{0x300, 0x36f, 0},     {0x200b, 0x200f, 0},   {0x20d0, 0x20ff, 0},
		{0xfe00, 0xfe0f, 0},   {0x1100, 0x115f, 2},   {0x2e80, 0xa4cf, 2},
		{0xac00, 0xd7a3, 2},   {0xf900, 0xfaff, 2},   {0xfe30, 0xfe6f, 2},
		{0xff00, 0xff60, 2},   {0xffe0, 0xffe6, 2},   {0x1f300, 0x1f64f, 2},
		{0x1f900, 0x1f9ff, 2}, {0x20000, 0x3fffd, 2},
	};
	for (size_t i = 0; i < sizeof(other) / sizeof(*other); i++)
		if (c >= other[i][0] && c <= other[i][1])
			return other[i][2];
	return 1;
}

static size_t text_width(const char *s)
{
	size_t n = 0;
	while (*s)
		n += character_width(text_character(&s));
	return n;
}

/* Does this look like a number that was rounded for people: 12.3, 97%, 4x, -0.5, 1e-3, 91.2..93.0,
 * 1.5 (7), 97.1* or 96.9~? */
static bool numeric_text(const char *s)
{
	const char *p = s + (*s == '-' || *s == '+');
	return *p >= '0' && *p <= '9' && s[strspn(s, "0123456789.,+-eE%x ()*~")] == '\0';
}

/* A cell as text. exact: with all digits; NULL = no value. Otherwise for people: a real number has
 * six digits. */
static char *cell_text(sqlite3_stmt *q, int i, bool exact)
{
	int type = sqlite3_column_type(q, i);
	char number[40];
	if (type == SQLITE_NULL ||
	    (type == SQLITE_FLOAT && exact && !isfinite(sqlite3_column_double(q, i))))
		return exact ? NULL : must(strdup("-"));
	if (type != SQLITE_FLOAT) {
		const char *text = (const char *)sqlite3_column_text(q, i);
		return exact ? text_valid(text) : text_visible(text);
	}
	if (exact)
		real_digits(sqlite3_column_double(q, i), number, sizeof number);
	else
		snprintf(number, sizeof(number), "%.6g", sqlite3_column_double(q, i));
	return must(strdup(number));
}

/* ---- A row, as CSV and JSON ---------------------------------------------- */

static void csv_text(FILE *f, const char *s)
{
	if (s[strcspn(s, ",\"\r\n")] == '\0' && *s != ' ' && (!*s || s[strlen(s) - 1] != ' ')) {
		fputs(s, f);
		return;
	}
	fputc('"', f);
	for (; *s; s++) {
		if (*s == '"')
			fputc('"', f);
		fputc(*s, f);
	}
	fputc('"', f);
}

/* Would a spreadsheet take the cell for a formula? Numbers, and intervals of them, remain. */
static bool is_formula(sqlite3_stmt *q, int i, const char *cell)
{
	char *end;
	if (sqlite3_column_type(q, i) != SQLITE_TEXT || !*cell || !strchr("=+-@\t\r\n", *cell))
		return false;
	strtod(cell, &end);
	return (*end || end == cell) && cell[strspn(cell, "0123456789+-. %")] != '\0';
}

static void csv_row(FILE *f, sqlite3_stmt *q, bool head, bool terminal)
{
	for (int i = 0; i < sqlite3_column_count(q); i++) {
		char *cell AUTOFREE = head ? NULL : cell_text(q, i, true);
		if (cell && terminal)
			text_disarm(cell);
		fputs(i ? "," : "", f);
		if (cell && is_formula(q, i, cell)) {
			char *plain = sentence("'%s", cell); /* as spreadsheets mark text */
			free(cell);
			cell = plain;
		}
		csv_text(f, head ? sqlite3_column_name(q, i) : cell ? cell : "");
	}
	fputs("\r\n", f);
}

static void json_row(FILE *f, sqlite3_stmt *q)
{
	for (int i = 0; i < sqlite3_column_count(q); i++) {
		int type = sqlite3_column_type(q, i);
		char *cell AUTOFREE = cell_text(q, i, true);
		fputs(i ? ", " : "{", f);
		text_json(f, sqlite3_column_name(q, i));
		fputs(": ", f);
		if (!cell || type == SQLITE_INTEGER || type == SQLITE_FLOAT)
			fputs(cell ? cell : "null", f);
		else
			text_json(f, cell);
	}
	fputs("}\n", f);
}

/* ---- Tables -------------------------------------------------------------- */

struct grid_column {
	size_t width;
	bool right; /* only numbers below the head */
};

struct grid {
	char **cell; /* [rows x columns], the heads in front */
	size_t cells, columns;
	size_t keys;      /* columns in front that name the row */
	const int *front; /* [columns], as in struct column; NULL = no column has a place */
	struct grid_column *column;
	enum format as; /* text, markdown or latex */
};

static const struct {
	const char *begin, *between, *end; /* of a row */
	size_t narrowest;                  /* column */
} looks[] = {[FORMAT_TEXT] = {"", "  ", "\n", 1},
	     [FORMAT_MARKDOWN] = {"| ", " | ", " |\n", 3},
	     [FORMAT_LATEX] = {"", " & ", " \\\\\n", 1}};

/* Escapes text so that Markdown shows it unchanged. A mark at the end needs no escape, because
 * nothing before it opens what it would close. */
static char *escape_markdown(char *text)
{
	char *out = must(malloc(2 * strlen(text) + 1)), *p = out;
	for (const char *s = text; *s; s++) {
		if (strchr("\\|<&[]", *s) || (strchr("`*_~", *s) && s[1]))
			*p++ = '\\';
		*p++ = *s;
	}
	*p = '\0';
	free(text);
	return out;
}

static char *escape_latex(char *text)
{
	struct text t;
	FILE *f = text_open(&t);
	if (strcmp(text, "-") == 0)
		fputs("--", f); /* a dash: there is no value */
	else
		text_tex(f, text);
	free(text);
	return text_close(&t);
}

static void grid_row(struct grid *g, sqlite3_stmt *q, bool head)
{
	for (size_t i = 0; i < g->columns; i++) {
		int c = (int)i;
		char *cell =
			head ? text_visible(sqlite3_column_name(q, c)) : cell_text(q, c, false);
		if (!head && sqlite3_column_type(q, c) == SQLITE_TEXT && !numeric_text(cell))
			g->column[i].right = false;
		if (g->as == FORMAT_MARKDOWN)
			cell = escape_markdown(cell);
		else if (g->as == FORMAT_LATEX)
			cell = escape_latex(cell);
		size_t width = text_width(cell);
		if (width > g->column[i].width)
			g->column[i].width = width;
		APPEND(g->cell, g->cells, cell);
	}
}

static struct grid grid_new(sqlite3_stmt *q, enum format as, size_t keys, const int *front)
{
	struct grid g = {
		.columns = (size_t)sqlite3_column_count(q), .as = as, .keys = keys, .front = front};
	g.column = must(malloc(g.columns * sizeof *g.column));
	for (size_t i = 0; i < g.columns; i++)
		g.column[i] = (struct grid_column){.width = looks[as].narrowest, .right = true};
	grid_row(&g, q, true);
	return g;
}

static void repeat(FILE *f, size_t n, char c)
{
	while (n-- > 0)
		fputc(c, f);
}

/* Some columns of a grid, in this order. */
struct block {
	size_t *column;
	size_t n;
};

static void print_rule(FILE *f, const struct grid *g, const struct block *p)
{
	for (size_t i = 0; i < p->n; i++) {
		const struct grid_column *c = &g->column[p->column[i]];
		fputs(i ? looks[g->as].between : looks[g->as].begin, f);
		repeat(f, c->width - (g->as == FORMAT_MARKDOWN), '-');
		if (g->as == FORMAT_MARKDOWN)
			fputc(c->right ? ':' : '-', f);
	}
	fputs(looks[g->as].end, f);
}

/* A line of text has no blanks at its end: the last cell is not padded. If it is wider than its
 * column, it continues below. */
static void print_row(FILE *f, const struct grid *g, const struct block *p, char *const *cell)
{
	size_t at = 0; /* where the column begins */
	for (size_t i = 0; i < p->n; at += g->column[p->column[i++]].width + 2) {
		const struct grid_column *c = &g->column[p->column[i]];
		const char *text = cell[p->column[i]];
		bool open = g->as == FORMAT_TEXT && i + 1 == p->n;
		size_t width = text_width(text), pad = width < c->width ? c->width - width : 0;
		if (i == 0 || !(open && !*text))
			fputs(i ? looks[g->as].between : looks[g->as].begin, f);
		repeat(f, c->right ? pad : 0, ' ');
		if (open && width > c->width) {
			text_wrap_at(f, text, (int)at, (int)(at + c->width));
			return;
		}
		fputs(text, f);
		repeat(f, c->right || open ? 0 : pad, ' ');
	}
	fputs(looks[g->as].end, f);
}

/* The frame of package booktabs. */
static void print_top(FILE *f, const struct grid *g, const struct block *p)
{
	fputs("\\begin{tabular}{", f);
	for (size_t i = 0; i < p->n; i++)
		fputc(g->column[p->column[i]].right ? 'r' : 'l', f);
	fputs("}\n\\toprule\n", f);
}

static void print_block(FILE *f, const struct grid *g, const struct block *p)
{
	bool latex = g->as == FORMAT_LATEX;
	if (latex)
		print_top(f, g, p);
	print_row(f, g, p, g->cell);
	if (latex)
		fputs("\\midrule\n", f);
	else
		print_rule(f, g, p);
	for (size_t at = g->columns; at < g->cells; at += g->columns)
		print_row(f, g, p, g->cell + at);
	if (latex)
		fputs("\\bottomrule\n\\end{tabular}\n", f);
}

/* Does the column tell rows apart? */
static bool varies(const struct grid *g, size_t column)
{
	size_t at = 2 * g->columns + column;
	while (at < g->cells && strcmp(g->cell[at], g->cell[g->columns + column]) == 0)
		at += g->columns;
	return at < g->cells;
}

/* Adds the column; *width: of the line so far. */
static void block_add(const struct grid *g, struct block *p, size_t column, size_t *width)
{
	*width += (p->n ? 2 : 0) + g->column[column].width;
	p->column[p->n++] = column;
}

/* Makes the last column of a block of this width narrower, if at least this much of it remains. */
static void block_fit(const struct grid *g, const struct block *p, size_t width, size_t most)
{
	enum { LEAST = 20 };
	size_t *last = &g->column[p->column[p->n - 1]].width, others = width - *last;
	if (width > most && others + LEAST <= most)
		*last = most - others;
}

static size_t grid_width(const struct grid *g)
{
	size_t width = 0;
	for (size_t i = 0; i < g->columns; i++)
		width += (i ? 2 : 0) + g->column[i].width;
	return width;
}

/* The order of the columns: if they are too wide for one part, the most important follow the keys.
 */
static void order_columns(const struct grid *g, bool wide, size_t *order)
{
	size_t n = 0;
	for (int place = 1; place <= FRONT_MOST + 1; place++)
		for (size_t i = 0; i < g->columns; i++) {
			int front = wide && g->front ? g->front[i] : 0;
			if (place == (i < g->keys ? 1 : front ? front : FRONT_MOST + 1))
				order[n++] = i;
		}
}

/* Prints the grid. If it is wider than most, prints the columns that fit, then the others below.
 * Returns the number of these parts. most: 0 = any width. */
static int print_grid(FILE *f, const struct grid *g, size_t most)
{
	size_t *column AUTOFREE = must(malloc(g->columns * sizeof *column)),
		       *order AUTOFREE = must(malloc(g->columns * sizeof *order)), next = 0;
	int parts = 0;
	order_columns(g, most && grid_width(g) > most, order);
	for (; next < g->columns; parts++) {
		struct block p = {.column = column};
		size_t width = 0;
		for (size_t k = 0; parts > 0 && k < g->keys; k++)
			if (k + 1 == g->keys || varies(g, k))
				block_add(g, &p, k, &width);
		do
			block_add(g, &p, order[next++], &width);
		while (next < g->columns && (!most || next <= g->keys ||
					     width + 2 + g->column[order[next]].width <= most));
		block_fit(g, &p, width, most);
		fputs(parts ? "\n" : "", f);
		print_block(f, g, &p);
	}
	return parts;
}

static void grid_free(struct grid *g)
{
	for (size_t i = 0; i < g->cells; i++)
		free(g->cell[i]);
	free(g->cell);
	free(g->column);
}

/* ---- Which runs ---------------------------------------------------------- */

void database_columns(struct store *s, FILE *f)
{
	struct sql q AUTODONE = sql_select(s, "SELECT * FROM run_summary", "");
	int at = 0, columns = terminal_columns(), most = columns && columns < 92 ? columns - 2 : 90;
	for (int i = 0; i < sql_columns(&q); i++) {
		const char *name = sql_name(&q, i);
		if (at + (int)strlen(name) > most) {
			fputs("\n", f);
			at = 0;
		}
		at += fprintf(f, "  %s", name);
	}
}

char *database_condition(struct store *s, const char *where)
{
	char *sql AUTOFREE =
		sentence("SELECT 1 FROM run_summary WHERE (\n%s\n)", *where ? where : "1");
	char *wrong = NULL;
	const char *rest = "";
	sqlite3_stmt *q = NULL;
	int rc = sqlite3_prepare_v2(s->db, sql, -1, &q, &rest);
	bool one = rest[strspn(rest, " \t\r\n")] == '\0';
	if (rc != SQLITE_OK || !one || !sqlite3_stmt_readonly(q)) {
		char *why AUTOFREE =
			sentence("%s", sqlite3_errmsg(s->db)); /* of this call, not of the next */
		struct text t;
		database_columns(s, text_open(&t));
		char *columns AUTOFREE = text_close(&t);
		wrong = rc != SQLITE_OK
				? sentence("--where=%s: %s; give an SQL condition, such as "
					   "--where=\"workload='mlp' AND workers=2\"; the columns "
					   "are:\n%s",
					   where, why, columns)
				: sentence("--where=%s: give one SQL condition, and nothing after "
					   "it; the columns are:\n%s",
					   where, columns);
	}
	sqlite3_finalize(q);
	return wrong;
}

/* Makes the views of statistics again in the temporary schema, where they read the temporary table.
 * The first two become tables, because the others read them. */
char *database_summarise(struct store *s)
{
	static const char create[] = "CREATE VIEW";
	struct sql q AUTODONE = sql_select(
		s,
		"SELECT iif(first, 'TABLE', 'VIEW'), sql FROM (SELECT name IN ('finished', "
		"'median_rank') AS first, * FROM main.sqlite_master WHERE type = 'view') WHERE "
		"first OR name IN ('lacking', 'configuration_summary', 'compared', 'comparison') "
		"ORDER BY first DESC, rowid",
		"");
	while (sql_next(&q)) {
		char *copy AUTOFREE = sentence("CREATE TEMP %s%s", sql_text(&q, 0),
					       sql_text(&q, 1) + sizeof create - 1);
		TRY(sql_script(s, copy));
	}
	return sql_done(&q);
}

/* Interrupts a statement at its time limit. SQLite's own polls count steps: a few steps with slow
 * functions can take minutes between two of them. A single call of a function, such as instr() of
 * two long texts, does not hear the interrupt: then the process ends. */
struct query_limit {
	pthread_t thread;
	sem_t over;
	struct store *store;
	struct timespec until;
	int most_bytes, most_pattern; /* SQLite's limits before */
};

static void *wait_for_limit(void *self)
{
	enum { AGAIN_NS = 100000000, TRIES = 20 };
	struct query_limit *l = self;
	int tries = 0;
	while (sem_clockwait(&l->over, CLOCK_MONOTONIC, &l->until) != 0) {
		if (errno != ETIMEDOUT)
			continue;
		if (tries++ == TRIES) {
			fprintf(stderr, "mvbench: " QUERY_ENDED "\n", l->store->path,
				database_patience_s());
			_exit(EXIT_USER);
		}
		sqlite3_interrupt(l->store->db); /* again, if the statement had not begun */
		l->until.tv_nsec += AGAIN_NS;
		l->until.tv_sec += l->until.tv_nsec / 1000000000;
		l->until.tv_nsec %= 1000000000;
	}
	return NULL;
}

static char *select_in_time(struct store *s, const char *sql, const char *label)
{
	enum { MOST_BYTES = 1 << 24, MOST_PATTERN = 1000 };
	const double patience_s = database_patience_s();
	struct query_limit l = {.store = s};
	s->until = clock_now() + (nsec)(1e9 * patience_s);
	l.until.tv_sec = s->until / 1000000000;
	l.until.tv_nsec = s->until % 1000000000;
	l.most_bytes = sqlite3_limit(s->db, SQLITE_LIMIT_LENGTH, MOST_BYTES);
	l.most_pattern = sqlite3_limit(s->db, SQLITE_LIMIT_LIKE_PATTERN_LENGTH, MOST_PATTERN);
	sem_init(&l.over, 0, 0);
	bool watched = thread_start(&l.thread, wait_for_limit, &l);
	char *wrong = sql_change(s, sql, "t", label);
	sem_post(&l.over);
	if (watched)
		pthread_join(l.thread, NULL);
	sem_destroy(&l.over);
	sqlite3_limit(s->db, SQLITE_LIMIT_LENGTH, l.most_bytes);
	sqlite3_limit(s->db, SQLITE_LIMIT_LIKE_PATTERN_LENGTH, l.most_pattern);
	s->until = 0;
	return wrong;
}

char *database_selected(struct store *s, const char *what, const char *where, const char *label)
{
	TRY(database_condition(s, where));
	char *sql AUTOFREE = sentence("%s WHERE (?1 = '' OR label = ?1) AND (\n%s\n)", what,
				      *where ? where : "1");
	return *where ? select_in_time(s, sql, label) : sql_change(s, sql, "t", label);
}

char *label_check(struct store *s, const char *label)
{
	struct sql q AUTODONE =
		sql_select(s, "SELECT DISTINCT label FROM main.run WHERE label <> ''", "");
	char **name AUTOWORDS = NULL, *wrong = NULL;
	size_t n = 0;
	bool found = !*label;
	while (sql_next(&q)) {
		APPEND(name, n, sql_copy(&q, 0));
		found |= strcmp(name[n - 1], label) == 0;
	}
	APPEND(name, n, NULL);
	if (!found)
		wrong = no_such("label", "--label=", label, (const char *const *)name, n - 1,
				"mvbench table --runs lists them");
	return wrong ? wrong : sql_done(&q);
}

char *database_list(struct store *s, const char *where, const char *label)
{
	TRY(label_check(s, label));
	TRY(sql_script(s, "DROP TABLE IF EXISTS temp.listed"));
	return database_selected(s, "CREATE TEMP TABLE listed AS SELECT id FROM run_summary", where,
				 label);
}

char *database_take(struct store *s, const char *where, const char *label, bool busy)
{
	TRY(label_check(s, label));
	TRY(sql_script(s, "PRAGMA temp_store = MEMORY"));
	TRY(database_selected(s, "CREATE TEMP TABLE run_summary AS SELECT * FROM main.run_summary",
			      where, label));
	if (!busy)
		TRY(sql_script(s, "UPDATE temp.run_summary SET cores_share = NULL, epoch_seconds = "
				  "quiet_epoch_seconds, samples_per_second = train_size / "
				  "nullif(quiet_epoch_seconds, 0) WHERE NOT ifnull(oversubscribed, "
				  "0)"));
	return NULL;
}

char *database_choose(struct store *s, const char *where, const char *label, bool busy)
{
	TRY(database_take(s, where, label, busy));
	return database_summarise(s);
}

bool for_people(enum format format)
{
	return format != FORMAT_CSV && format != FORMAT_JSON;
}

/* ---- Queries ------------------------------------------------------------- */

/* Compiles one statement, which must change nothing. NULL or a sentence. */
static char *query_prepare(struct store *s, const char *sql, sqlite3_stmt **q)
{
	const char *rest;
	int rc = sqlite3_prepare_v2(s->db, sql, -1, q, &rest);
	if (rc == SQLITE_AUTH)
		return sentence("the query is refused: only a SELECT is allowed here");
	if (rc == SQLITE_ERROR)
		return sentence("the query is refused: %s", sqlite3_errmsg(s->db));
	if (rc != SQLITE_OK)
		return database_error(s, rc);
	bool one = *q && rest[strspn(rest, " \t\r\n;")] == '\0';
	if (one && sqlite3_stmt_readonly(*q) && sqlite3_column_count(*q) > 0)
		return NULL;
	sqlite3_finalize(*q);
	*q = NULL;
	return one ? sentence("the query is refused: only a SELECT is allowed here")
		   : sentence("the query is refused: give one statement");
}

/* keys: columns that name a row; front: see struct grid; *parts: see print_grid. */
static char *rows_print(struct store *s, FILE *f, enum format format, const char *sql,
			const char *const *param, size_t count, size_t keys, const int *front,
			int64_t *rows, int *parts)
{
	bool table = for_people(format), terminal = on_terminal(f);
	size_t most = f == stdout && format == FORMAT_TEXT ? (size_t)terminal_columns() : 0;
	struct grid grid = {.cells = 0};
	sqlite3_stmt *q = NULL;
	int64_t n = 0;
	int rc;
	char *wrong = NULL;
	TRY(query_prepare(s, sql, &q));
	for (size_t i = 0; i < count; i++)
		sqlite3_bind_text(q, (int)i + 1, param[i], -1, SQLITE_TRANSIENT);
	if (table)
		grid = grid_new(q, format, keys, front);
	else if (format == FORMAT_CSV)
		csv_row(f, q, true, terminal);
	for (; (rc = sqlite3_step(q)) == SQLITE_ROW; n++) {
		if (table)
			grid_row(&grid, q, false);
		else if (format == FORMAT_CSV)
			csv_row(f, q, false, terminal);
		else
			json_row(f, q);
	}
	if (rc == SQLITE_ERROR)
		wrong = sentence("the query failed: %s", sqlite3_errmsg(s->db));
	else if (rc != SQLITE_DONE)
		wrong = database_error(s, rc);
	else if (table)
		*parts = print_grid(f, &grid, most);
	grid_free(&grid);
	sqlite3_finalize(q);
	if (rows)
		*rows = n;
	if (!wrong && (fflush(f) != 0 || ferror(f)))
		wrong = sentence("the output cannot be written: is the disk full?");
	return wrong;
}

char *query_print(struct store *s, FILE *f, enum format format, const char *sql,
		  const char *const *param, size_t count, int64_t *rows)
{
	int parts;
	return rows_print(s, f, format, sql, param, count, 1, NULL, rows, &parts);
}

/* Wraps each line; its indentation stays. */
static void put_wrapped(FILE *f, const char *text)
{
	for (size_t n; *text; text += n + (text[n] == '\n')) {
		n = strcspn(text, "\n");
		size_t indent = strspn(text, " ");
		char *line AUTOFREE = must(strndup(text + indent, n - indent));
		fprintf(f, "%*s", (int)indent, "");
		text_wrap(f, line, (int)indent);
	}
}

/* As paragraphs, where an empty line is between them. */
static void put_paper_note(FILE *f, const char *text)
{
	fputs("\\par\\smallskip{\\footnotesize\\raggedright\\noindent\n", f);
	text += strspn(text, "\n");
	for (size_t n; *text; text += n + (text[n] == '\n')) {
		n = strcspn(text, "\n");
		char *line AUTOFREE = must(strndup(text, n));
		text_tex(f, line + strspn(line, " "));
		fputs(n ? "\n" : "\\par\\noindent\n", f);
	}
	fputs("\\par}\n", f);
}

void note_put(FILE *f, enum format format, const char *text)
{
	if (format == FORMAT_TEXT && f == stdout && terminal_columns())
		put_wrapped(f, text);
	else if (format == FORMAT_LATEX && *text)
		put_paper_note(f, text);
	else
		fputs(text, f);
}

char *columns_seen(struct store *s, const struct column *all, const char *from,
		   struct column **seen)
{
	size_t n = 0;
	for (*seen = NULL; all->name; all++) {
		const char *shown = all->shown ? all->shown : all->name;
		int64_t any = 1;
		char *sql AUTOFREE = sentence("SELECT EXISTS (SELECT 1 FROM %s WHERE %s IS NOT "
					      "NULL AND %s <> '' AND (ifnull(%s, 1) <> 0 OR "
					      "CAST(%s AS REAL) <> 0))",
					      from, shown, shown, all->name, shown);
		if (all->rare)
			TRY(sql_number(s, &any, sql, ""));
		if (all->head && any)
			APPEND(*seen, n, *all);
	}
	APPEND(*seen, n, (struct column){.name = NULL});
	return NULL;
}

char *columns_print(struct store *s, FILE *f, enum format format, const struct column *columns,
		    const char *from, int64_t *rows, int *parts)
{
	bool people = for_people(format);
	struct column *seen AUTOFREE = NULL;
	struct text t;
	size_t keys = 0, n = 0;
	int ignored, *front AUTOFREE = NULL;
	if (people)
		TRY(columns_seen(s, columns, from, &seen));
	text_open(&t);
	for (const struct column *first = people ? seen : columns, *c = first; c->name; c++)
		fprintf(t.f, "%s %s AS \"%s\"", c == first ? "SELECT" : ",",
			people && c->shown ? c->shown : c->name, people ? c->head : c->name);
	fprintf(t.f, " FROM %s", from);
	char *sql AUTOFREE = text_close(&t);
	while (people && seen[keys].key)
		keys++;
	for (const struct column *c = seen; people && c->name; c++)
		APPEND(front, n, c->front);
	return rows_print(s, f, format, sql, NULL, 0, keys ? keys : 1, front, rows,
			  parts ? parts : &ignored);
}

char *query_run_json(struct store *s, FILE *f, int64_t id)
{
	int64_t rows = 0;
	char *sql AUTOFREE = sentence(
		"SELECT id, status, strategy, workload, workers, params, test_accuracy, "
		"best_test_accuracy, test_loss, epoch_seconds, samples_per_second, cores_share, "
		"comm_fraction, staleness_mean, staleness_max, dropped_fraction "
		"FROM run_summary WHERE id = %lld",
		(long long)id);
	TRY(query_print(s, f, FORMAT_JSON, sql, NULL, 0, &rows));
	return rows ? NULL : sentence("%s has no run %lld", s->path, (long long)id);
}
