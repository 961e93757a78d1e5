/*
 * text.c - text for people: valid UTF-8 from any bytes, lines that fit the terminal, and the name
 * that a user probably meant.
 */
#include "runtime/base/text.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* ---- UTF-8 --------------------------------------------------------------- */

uint32_t text_character(const char **s)
{
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	const unsigned char *p = (const unsigned char *)*s;
	size_t n = *p < 0x80 ? 1 : *p >= 0xf0 && *p < 0xf5 ? 4 : *p >= 0xe0 && *p < 0xf0 ? 3 : 2;
	uint32_t c = n == 1 ? *p : *p & (0x7fu >> n);
	bool whole = *p < 0x80 || (*p >= 0xc2 && *p < 0xf5);
	for (size_t i = 1; whole && i < n; i++) {
		whole = (p[i] & 0xc0) == 0x80;
		c = c << 6 | (p[i] & 0x3f);
	}
	*s += whole ? n : 1;
	bool valid = c >= least[n] && c <= 0x10ffff && !(c >= 0xd800 && c < 0xe000);
	return whole && valid ? c : 0xfffd;
}

/* Writes that character. */
static void text_put(FILE *f, const char **s)
{
	const char *from = *s;
	if (text_character(s) == 0xfffd)
		fputs("\xef\xbf\xbd", f);
	else
		fwrite(from, 1, (size_t)(*s - from), f);
}

char *text_valid(const char *s)
{
	struct text t;
	text_open(&t);
	while (*s)
		text_put(t.f, &s);
	return text_close(&t);
}

static bool is_control(uint32_t c)
{
	return c < 0x20 || (c >= 0x7f && c < 0xa0);
}

/* Writes s without control characters, because a terminal would obey them. JSON: quotes and
 * backslashes are escaped, too; MADE: s is JSON already, and its white space stays. */
enum escape { VISIBLE, JSON, MADE };
static void put_escaped(FILE *f, const char *s, enum escape as)
{
	while (*s) {
		const char *from = s;
		uint32_t c = text_character(&s);
		bool space = c == '\n' || c == '\t' || c == '\r', control = is_control(c);
		if (as == JSON && (c == '"' || c == '\\'))
			fprintf(f, "\\%c", (int)c);
		else if (!control || (as == MADE && space))
			text_put(f, &from);
		else if (as == VISIBLE && (c == '\n' || c == '\t'))
			fputs(c == '\n' ? "\\n" : "\\t", f);
		else
			fprintf(f, as == VISIBLE ? "\\x%02x" : "\\u%04x", (unsigned)c);
	}
}

char *text_visible(const char *s)
{
	struct text t;
	put_escaped(text_open(&t), s, VISIBLE);
	return text_close(&t);
}

void text_json(FILE *f, const char *s)
{
	fputc('"', f);
	put_escaped(f, s, JSON);
	fputc('"', f);
}

void text_xml(FILE *f, const char *s)
{
	static const char *const name[] = {
		['&'] = "amp", ['<'] = "lt", ['>'] = "gt", ['"'] = "quot"};
	while (*s) {
		const char *from = s;
		uint32_t c = text_character(&s);
		if (c <= '>' && name[c])
			fprintf(f, "&%s;", name[c]);
		else if (c == '\n' || c == '\t' || c == '\'')
			fprintf(f, "&#%u;", (unsigned)c);
		else if (is_control(c))
			fputs("\xef\xbf\xbd", f);
		else
			text_put(f, &from);
	}
}

void text_tex(FILE *f, const char *s)
{
	static const char *const name[] = {
		['\\'] = "backslash", ['~'] = "asciitilde", ['^'] = "asciicircum",
		['<'] = "less",       ['>'] = "greater",    ['|'] = "bar"};
	while (*s) {
		const char *from = s;
		uint32_t c = text_character(&s);
		if (c < sizeof name / sizeof *name && name[c])
			fprintf(f, "\\text%s{}", name[c]);
		else if (c && c < 0x80 && strchr("#$%&_{}", (int)c))
			fprintf(f, "\\%c", (int)c);
		else if (c == '-' && *s == '-')
			fputs("-{}", f); /* two would become a dash */
		else if (is_control(c))
			fputc(' ', f);
		else
			text_put(f, &from);
	}
}

void text_json_made(FILE *f, const char *json)
{
	put_escaped(f, json, MADE);
}

/* ---- Columns ------------------------------------------------------------- */

int terminal_columns(void)
{
	struct winsize size;
	const char *set = getenv("COLUMNS");
	int columns = set ? atoi(set) : 0;
	if (columns <= 0 && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0)
		columns = size.ws_col;
	return columns > 0 ? columns : 0;
}

enum { HELP_WIDTH = 100, HELP_LEAST = 40 };
static int help_width(void)
{
	int columns = terminal_columns();
	return columns == 0 || columns > HELP_WIDTH ? HELP_WIDTH
	       : columns < HELP_LEAST               ? HELP_LEAST
						    : columns;
}

/* Where the second column of help begins. */
static int help_column(void)
{
	int width = help_width();
	return width == HELP_WIDTH ? 34 : width / 3;
}

void text_wrap_at(FILE *f, const char *text, int column, int width)
{
	int at = column;
	while (*text) {
		int n = (int)strcspn(text, " ");
		if (at > column && at + 1 + n > width) {
			fprintf(f, "\n%*s", column, "");
			at = column;
		} else if (at > column) {
			fputc(' ', f);
			at++;
		}
		fprintf(f, "%.*s", n, text);
		at += n;
		text += n;
		text += strspn(text, " ");
	}
	fputc('\n', f);
}

void text_wrap(FILE *f, const char *text, int column)
{
	text_wrap_at(f, text, column, help_width());
}

char *text_list(const char *const *word, size_t n, const char *between)
{
	struct text text;
	FILE *f = text_open(&text);
	for (size_t i = 0; i < n; i++)
		fprintf(f, "%s%s", i ? between : "", word[i]);
	return text_close(&text);
}

char *text_replaced(const char *text, const char *what, const char *by)
{
	struct text t;
	FILE *f = text_open(&t);
	for (const char *at; (at = strstr(text, what)); text = at + strlen(what))
		fprintf(f, "%.*s%s", (int)(at - text), text, by);
	fputs(text, f);
	return text_close(&t);
}

void text_row(FILE *f, const char *left, const char *right)
{
	int column = help_column();
	if ((int)strlen(left) + 4 > column)
		fprintf(f, "  %s\n%*s", left, column, "");
	else
		fprintf(f, "  %-*s", column - 2, left);
	text_wrap(f, right, column);
}

/* ---- The name that was probably meant ------------------------------------ */

enum { TYPED_MAX = 64 };

/* Insertions, deletions, substitutions and swaps of adjacent letters that turn a into b. */
static size_t distance(const char *a, const char *b)
{
	size_t n = strlen(a), m = strlen(b);
	size_t row[3][TYPED_MAX + 1];
	if (n > TYPED_MAX || m > TYPED_MAX)
		return SIZE_MAX;
	for (size_t j = 0; j <= m; j++)
		row[0][j] = j;
	for (size_t i = 1; i <= n; i++) {
		size_t *now = row[i % 3], *last = row[(i + 2) % 3], *before = row[(i + 1) % 3];
		now[0] = i;
		for (size_t j = 1; j <= m; j++) {
			int x = tolower((unsigned char)a[i - 1]),
			    y = tolower((unsigned char)b[j - 1]);
			now[j] = smaller(smaller(last[j], now[j - 1]) + 1, last[j - 1] + (x != y));
			if (i > 1 && j > 1 && x == tolower((unsigned char)b[j - 2]) &&
			    y == tolower((unsigned char)a[i - 2]))
				now[j] = smaller(now[j], before[j - 2] + 1);
		}
	}
	return row[n % 3][m];
}

/* Names in other programs, and ours. */
static const char *const called[][2] = {
	{"learning-rate", "lr"},
	{"step-size", "lr"},
	{"batch-size", "batch"},
	{"optimizer", "momentum"},
	{"gpus", "device"},
	{"nodes", "hostfile"},
	{"hosts", "hostfile"},
	{"np", "workers"},
	{"world-size", "workers"},
	{"ranks", "workers"},
	{"output", "out"},
	{"dataset", "data-dir"},
	{"local-steps", "sync-every"},
	{"ddp", "allreduce"},
	{"horovod", "allreduce"},
	{"data-parallel", "allreduce"},
	{"async", "asgd"},
	{"hogwild", "asgd"},
	{"parameter-server", "asgd"},
	{"ps", "asgd"},
	{"local-sgd", "periodic"},
	{"fedavg", "periodic"},
	{"diloco", "periodic"},
	{"slowmo", "periodic"},
	{"tensor-parallel", "model_parallel"},
};

/* Equal except for case; _ equals -. */
static bool same_words(const char *a, const char *b)
{
	for (; *a && *b; a++, b++) {
		int x = *a == '_' ? '-' : tolower((unsigned char)*a),
		    y = *b == '_' ? '-' : tolower((unsigned char)*b);
		if (x != y)
			return false;
	}
	return *a == *b;
}

static const char *listed(const char *name, const char *const *names, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (same_words(name, names[i]))
			return names[i];
	return NULL;
}

/* The shortest name that begins with the typed text, or only contains it. */
static const char *holding(const char *typed, const char *const *names, size_t n, bool begins)
{
	const char *found = NULL;
	for (size_t i = 0; i < n && strlen(typed) >= (begins ? 4 : 3); i++) {
		const char *at = strcasestr(names[i], typed);
		if (at && (!begins || at == names[i]) &&
		    (!found || strlen(names[i]) < strlen(found)))
			found = names[i];
	}
	return found;
}

const char *nearest(const char *typed, const char *const *names, size_t n)
{
	size_t best = (strlen(typed) + 2) / 3 + 1; /* farther than this is a guess */
	const char *found = listed(typed, names, n);
	for (size_t i = 0; !found && i < sizeof called / sizeof *called; i++)
		if (same_words(typed, called[i][0]))
			found = listed(called[i][1], names, n);
	if (!found)
		found = holding(typed, names, n, true);
	if (found)
		return found;
	for (size_t i = 0; i < n; i++) {
		size_t d = distance(typed, names[i]);
		if (d < best && d < strlen(names[i])) {
			best = d;
			found = names[i];
		}
	}
	return found ? found : holding(typed, names, n, false);
}

char *no_such(const char *what, const char *before, const char *typed, const char *const *name,
	      size_t n, const char *lists)
{
	const char *near = nearest(typed, name, n);
	return near ? sentence("%s%s: there is no such %s; did you mean %s?", before, typed, what,
			       near)
		    : sentence("%s%s: there is no such %s; %s", before, typed, what, lists);
}

/* ---- Words of a shell ---------------------------------------------------------- */

void word_put(FILE *f, const char *word)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				    "0123456789-_=.,:/+@%";
	const char *is = strncmp(word, "--", 2) == 0 ? strchr(word, '=') : NULL;
	size_t name = is ? (size_t)(is - word) + 1 : 0;
	if (*word && word[strspn(word, plain)] == '\0') {
		fputs(word, f);
		return;
	}
	fprintf(f, "%.*s'", (int)name, word);
	for (word += name; *word; word++)
		fputs(*word == '\'' ? "'\\''" : (char[]){*word, '\0'}, f);
	fputc('\'', f);
}

char *word_quoted(const char *word)
{
	struct text t;
	FILE *f = text_open(&t);
	word_put(f, word);
	return text_close(&t);
}

/* The length of the first word: up to a blank outside of quotes. */
static size_t word_length(const char *text)
{
	size_t n = 0;
	for (bool quoted = false; text[n] && (quoted || text[n] != ' '); n++) {
		quoted ^= text[n] == '\'';
		if (text[n] == '\\' && !quoted && text[n + 1])
			n++;
	}
	return n;
}

void command_put(FILE *f, const char *command)
{
	enum { INDENT = 4 };
	int width = f == stdout ? terminal_columns() : 0, at = 0;
	for (size_t n; *command; command += n + (command[n] == ' ')) {
		n = word_length(command);
		bool turns = width > 0 && at > 0 && at + (int)n + 3 > width; /* " \\" behind it */
		fputs(turns ? " \\\n    " : at > 0 ? " " : "", f);
		at = (turns ? INDENT : at > 0 ? at + 1 : 0) + (int)n;
		fprintf(f, "%.*s", (int)n, command);
	}
}
