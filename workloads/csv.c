/*
 * csv.c - a table as text (RFC 4180): a line is a row, and values are separated by commas,
 * semicolons or tabs, with or without quotes. All values are numbers, except the label.
 *
 * The first line is a header if it names a label column, or if a value before its last one is no
 * number. The label column is the one that is named label, class, target or y; otherwise the last.
 */
#include "workloads/arrays.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { COLUMNS_MOST = 1 << 20, SHOWN = 40 };

void csv_free(struct csv *c)
{
	free(c->content.at);
	free(c->x);
	free(c->label);
	*c = (struct csv){.n = 0};
}

/* A place in the text. */
struct cursor {
	char *at, *end, separator;
	size_t line;
};

/* The separator that the first line has most often, outside of quotes. */
static char separator_of(const char *text)
{
	static const char all[] = ",;\t";
	size_t count[sizeof all] = {0}, best = 0;
	bool quoted = false;
	for (; *text && (quoted || (*text != '\n' && *text != '\r')); text++) {
		const char *is = strchr(all, *text);
		quoted ^= *text == '"';
		if (is && !quoted)
			count[is - all]++;
	}
	for (size_t i = 1; i < sizeof all - 1; i++)
		best = count[i] > count[best] ? i : best;
	return all[best];
}

/* The next value, without its quotes and the blanks around it, ended by 0. *last: the line ends
 * after it. */
static char *value_next(struct cursor *c, bool *last)
{
	while (*c->at == ' ')
		c->at++;
	char *begin = c->at, *to = begin;
	bool open = *c->at == '"';
	for (c->at += open; c->at < c->end; c->at++) {
		const bool quote = *c->at == '"', two = open && quote && c->at[1] == '"';
		if (!open && (*c->at == c->separator || *c->at == '\n'))
			break;
		open &= !quote || two;
		c->at += two;
		if (!quote || two)
			*to++ = *c->at;
	}
	*last = c->at >= c->end || *c->at == '\n';
	c->line += *last;
	c->at += c->at < c->end;
	while (to > begin && strchr(" \r", to[-1]))
		to--;
	*to = '\0';
	return begin;
}

bool csv_number(const char *text, float *x)
{
	char *end;
	*x = strtof(text, &end);
	return end != text && !*end && isfinite(*x);
}

static bool is_label(const char *name)
{
	static const char *const names[] = {"label", "class", "target", "y"};
	size_t i = 0;
	while (i < sizeof names / sizeof *names && strcasecmp(names[i], name) != 0)
		i++;
	return i < sizeof names / sizeof *names;
}

/* Reads the first line: the number of columns, which has the label, and whether it is a header. It
 * is read from a copy. */
static void first_line(struct cursor now, size_t *columns, size_t *label, bool *header)
{
	bool last = false, words = false;
	float x;
	*columns = 0;
	*label = SIZE_MAX;
	while (!last) {
		const char *value = value_next(&now, &last);
		if (*label == SIZE_MAX && is_label(value))
			*label = *columns;
		words |= !last && !csv_number(value, &x);
		++*columns;
	}
	*header = words || *label != SIZE_MAX;
	*label = *label == SIZE_MAX ? *columns - 1 : *label;
}

/* One line after another; blank lines are left out. */
static char *csv_rows_read(struct csv *c, struct cursor *now, size_t columns, size_t label)
{
	size_t room = 0;
	while (now->at < now->end) {
		const size_t line = now->line;
		bool last = false;
		if (c->n == room) {
			room = 2 * room + 64;
			float *x = realloc(c->x, room * c->features * sizeof *x);
			c->x = x ? x : c->x;
			char **labels = realloc(c->label, room * sizeof *labels);
			c->label = labels ? labels : c->label;
			if (!x || !labels)
				return sentence("%s: no memory for it; use a smaller set",
						c->content.path);
		}
		for (size_t k = 0, f = 0; !last; k++) {
			char *value = value_next(now, &last);
			if (k == 0 && last && !*value)
				break; /* a blank line */
			if (k >= columns || (last && k + 1 < columns))
				return sentence("%s: line %zu has %s than %zu values, which the "
						"first line has",
						c->content.path, line,
						k < columns ? "fewer" : "more", columns);
			if (k == label)
				c->label[c->n] = value;
			else if (!csv_number(value, &c->x[c->n * c->features + f++]))
				return sentence("%s: line %zu, column %zu: '%.*s' is not a number; "
						"remove the row or the column",
						c->content.path, line, k + 1, SHOWN, value);
			c->n += last;
		}
	}
	return c->n ? NULL : sentence("%s: it has no rows", c->content.path);
}

char *csv_read(struct csv *c, char *path)
{
	size_t columns, label;
	bool header, last = false;
	*c = (struct csv){.n = 0};
	TRY(content_read(&c->content, path, -1));
	char *text = (char *)c->content.at;
	struct cursor now = {.at = text, .end = text + c->content.n, .line = 1};
	if (strlen(text) != c->content.n)
		return sentence("%s: not a text: it has a byte 0", path);
	if (strncmp(text, "\xef\xbb\xbf", 3) == 0)
		now.at += 3;
	now.separator = separator_of(now.at);
	char *copy = strdup(now.at);
	CHECK(copy, "out of memory: %s", path);
	first_line((struct cursor){copy, copy + strlen(copy), now.separator, 1}, &columns, &label,
		   &header);
	free(copy);
	if (columns < 2 || columns > COLUMNS_MOST)
		return sentence("%s: its first line has %zu values separated by commas; give at "
				"least one number and a label, and at most %d",
				path, columns, COLUMNS_MOST);
	c->features = columns - 1;
	while (header && !last)
		value_next(&now, &last);
	return csv_rows_read(c, &now, columns, label);
}
