/*
 * options.c - one row of a table is parser, range, help and results column.
 *
 * Every type has a text form that reads back as the same value (option_text), so that a
 * configuration can be handed to other processes as words and be told apart by its text.
 */

#include "runtime/config/config.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct unit {
	const char *name;
	double times,
		by; /* value = number * times / by; by keeps 3ms the double nearest to 0.003 */
};

static const struct unit sizes[] = {
	{"", 1, 1},     {"B", 1, 1},    {"KiB", 1024, 1},       {"MiB", 1048576, 1}, {"kB", 1e3, 1},
	{"MB", 1e6, 1}, {"GB", 1e9, 1}, {"GiB", 1073741824, 1}, {NULL, 0, 0},
};

static const struct unit times[] = {
	{"", 1, 1},     {"s", 1, 1},    {"ms", 1, 1e3}, {"us", 1, 1e6},
	{"min", 60, 1}, {"h", 3600, 1}, {NULL, 0, 0},
};

static const char *const yes[] = {"true", "yes", "1", "on", NULL};
static const char *const no[] = {"false", "no", "0", "off", NULL};

static void *field_of(const struct option *o, const void *fields)
{
	return (char *)(uintptr_t)fields + o->offset;
}

static bool among(const char *text, const char *const *list)
{
	for (; *list; list++)
		if (strcasecmp(text, *list) == 0)
			return true;
	return false;
}

/* Does "a|b|c" list this text? */
static bool is_choice(const char *choices, const char *text)
{
	size_t n = strlen(text);

	for (const char *c = choices; c; c = strchr(c, '|') ? strchr(c, '|') + 1 : NULL)
		if (n > 0 && strcspn(c, "|") == n && strncmp(c, text, n) == 0)
			return true;
	return false;
}

static char *with_commas(const char *choices)
{
	size_t bars = 0, n = 0;

	for (const char *c = choices; *c; c++)
		bars += *c == '|';
	char *s = must(malloc(strlen(choices) + bars + 1));
	for (const char *c = choices; *c; c++) {
		s[n++] = *c == '|' ? ',' : *c;
		if (*c == '|')
			s[n++] = ' ';
	}
	s[n] = '\0';
	return s;
}

/* The shortest decimal that reads back as x; no exponent where few zeros do. */
static void real_text(double x, char *buf, size_t room)
{
	int digits = 1;

	do {
		snprintf(buf, room, "%.*g", digits, x);
	} while (digits++ < 17 && strtod(buf, NULL) != x);
	if (strstr(buf, "e+") && fabs(x) < 1e15)
		snprintf(buf, room, "%.0f", x);
}

/* In the unit that makes the smallest whole number. */
static void size_text(int64_t x, char *buf, size_t room)
{
	const struct unit *best = sizes;

	for (const struct unit *u = sizes; u->name; u++)
		if (x % (int64_t)u->times == 0 && u->times > best->times)
			best = u;
	snprintf(buf, room, "%lld%s", (long long)(x / (int64_t)best->times), x ? best->name : "");
}

static void time_text(double x, char *buf, size_t room)
{
	double by = x >= 1 || x <= 0 ? 1 : x >= 1e-3 ? 1e3 : 1e6;
	char number[40];

	real_text(x * by, number, sizeof(number));
	if (strtod(number, NULL) / by != x) {
		by = 1;
		real_text(x, number, sizeof(number));
	}
	snprintf(buf, room, "%s%s", number, by == 1 ? "s" : by == 1e3 ? "ms" : "us");
}

static void number_text(const struct option *o, double x, char *buf, size_t room)
{
	if (o->type == OPT_SIZE)
		size_text((int64_t)x, buf, room);
	else if (o->type == OPT_TIME)
		time_text(x, buf, room);
	else if (o->type == OPT_INT)
		snprintf(buf, room, "%.0f", x);
	else
		real_text(x, buf, room);
}

/* "1 to 64", "at least 0", or "" when anything goes. A bound from `huge` on is none to speak of. */
static void range_text(const struct option *o, double huge, char *buf, size_t room)
{
	char low[64], high[64];

	buf[0] = '\0';
	if (o->min == 0 && o->max == 0)
		return;
	number_text(o, o->min, low, sizeof(low));
	if (o->max >= huge) {
		snprintf(buf, room, "at least %s", low);
	} else if (o->min <= -huge) {
		number_text(o, o->max, high, sizeof(high));
		snprintf(buf, room, "at most %s", high);
	} else {
		number_text(o, o->max, high, sizeof(high));
		snprintf(buf, room, "%s to %s", low, high);
	}
}

static bool in_range(const struct option *o, double x)
{
	return (o->min == 0 && o->max == 0) || (x >= o->min && x <= o->max);
}

static char *full_name(const char *owner, const char *name)
{
	return owner && *owner ? sentence("--%s.%s", owner, name) : sentence("--%s", name);
}

/* "--lr=fast: a number from 0 to 1000 is wanted, such as --lr=0.1." */
static char *refuse(const struct option *o, const char *owner, const char *text, const char *kind)
{
	char range[160], *name = full_name(owner, o->name);
	const char *link = " of "; /* at least ... */

	range_text(o, 9e18, range, sizeof(range));
	if (o->type == OPT_BOOL || !range[0])
		link = "";
	else if (range[0] != 'a')
		link = " from ";
	char *s = sentence("%s=%s: %s%s%s is wanted, such as %s=%s", name, text, kind, link, range,
			   name, o->def);
	free(name);
	return s;
}

/* Reads digits, point and exponent, then one unit of the list (NULL: none). */
static bool read_number(const char *text, const struct unit *units, double *x)
{
	char *end;
	size_t n = strspn(text, "0123456789+-.eE");

	if (n == 0)
		return false;
	errno = 0;
	*x = strtod(text, &end);
	if (end == text || end > text + n || !isfinite(*x))
		return false;
	if (!units)
		return *end == '\0';
	while (*end == ' ')
		end++;
	for (; units->name; units++)
		if (strcmp(units->name, end) == 0) {
			*x = *x * units->times / units->by;
			return isfinite(*x);
		}
	return false;
}

static bool read_whole(const char *text, int64_t *x)
{
	char *end;
	size_t sign = *text == '-' || *text == '+';

	if (!isdigit((unsigned char)text[sign]))
		return false;
	errno = 0;
	*x = strtoll(text, &end, 10);
	return *end == '\0' && errno == 0;
}

static bool read_size(const char *text, int64_t *x)
{
	double bytes;

	if (read_whole(text, x))
		return true;
	if (!read_number(text, sizes, &bytes) || bytes != floor(bytes) || fabs(bytes) > 9e18)
		return false;
	*x = (int64_t)bytes;
	return true;
}

/* Strings and choices are not copied: text lives as long as the fields. */
char *option_set(const struct option *o, void *fields, const char *owner, const char *text)
{
	void *field = field_of(o, fields);
	int64_t whole;
	double real;

	switch (o->type) {
	case OPT_INT:
		if (!read_whole(text, &whole) || !in_range(o, (double)whole))
			return refuse(o, owner, text, "a whole number");
		*(int64_t *)field = whole;
		return NULL;
	case OPT_SIZE:
		if (!read_size(text, &whole) || !in_range(o, (double)whole))
			return refuse(o, owner, text,
				      "a size in bytes (or with B, kB, MB, GB, KiB, MiB, GiB)");
		*(int64_t *)field = whole;
		return NULL;
	case OPT_REAL:
		if (!read_number(text, NULL, &real) || !in_range(o, real))
			return refuse(o, owner, text, "a number");
		*(double *)field = real;
		return NULL;
	case OPT_TIME:
		if (!read_number(text, times, &real) || !in_range(o, real))
			return refuse(o, owner, text,
				      "a time in seconds (or with us, ms, s, min, h)");
		*(double *)field = real;
		return NULL;
	case OPT_BOOL:
		if (!among(text, yes) && !among(text, no))
			return refuse(o, owner, text, "true or false");
		*(bool *)field = among(text, yes);
		return NULL;
	case OPT_STRING:
		*(const char **)field = text;
		return NULL;
	case OPT_CHOICE:
		if (!is_choice(o->choices, text)) {
			char *name = full_name(owner, o->name), *list = with_commas(o->choices);
			char *s = sentence("%s=%s: one of %s is wanted", name, text, list);
			free(name);
			free(list);
			return s;
		}
		*(const char **)field = text;
		return NULL;
	}
	panic(__FILE__, __LINE__, "option %s has the unknown type %d", o->name, (int)o->type);
}

void option_default(const struct option *table, void *fields)
{
	for (const struct option *o = table; o && o->name; o++) {
		char *wrong = option_set(o, fields, NULL, o->def);
		CHECK(!wrong, "the default of an option is refused: %s", wrong);
	}
}

void option_text(const struct option *o, const void *fields, char *buf, size_t room)
{
	const void *field = field_of(o, fields);

	switch (o->type) {
	case OPT_INT:
		snprintf(buf, room, "%lld", (long long)*(const int64_t *)field);
		break;
	case OPT_SIZE:
		size_text(*(const int64_t *)field, buf, room);
		break;
	case OPT_REAL:
		real_text(*(const double *)field, buf, room);
		break;
	case OPT_TIME:
		time_text(*(const double *)field, buf, room);
		break;
	case OPT_BOOL:
		snprintf(buf, room, "%s", *(const bool *)field ? "true" : "false");
		break;
	case OPT_STRING:
	case OPT_CHOICE:
		snprintf(buf, room, "%s", *(const char *const *)field);
		break;
	}
}

uint32_t text_character(const char **s)
{
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	const unsigned char *p = (const unsigned char *)*s;
	size_t n = *p < 0x80 ? 1 : *p >= 0xf0 && *p < 0xf5 ? 4 : *p >= 0xe0 && *p < 0xf0 ? 3 : 2;
	uint32_t c = n == 1 ? *p : *p & (0x7fu >> n);

	if (*p >= 0xf5 || (*p >= 0x80 && *p < 0xc2)) {
		*s += 1;
		return 0xfffd;
	}
	for (size_t i = 1; i < n; i++) {
		if ((p[i] & 0xc0) != 0x80) {
			*s += 1;
			return 0xfffd;
		}
		c = c << 6 | (p[i] & 0x3f);
	}
	*s += n;
	return c < least[n] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000) ? 0xfffd : c;
}

void text_put(FILE *f, const char **s)
{
	const char *from = *s;

	if (text_character(s) == 0xfffd)
		fputs("\xef\xbf\xbd", f);
	else
		fwrite(from, 1, (size_t)(*s - from), f);
}

void text_utf8(FILE *f, const char *s)
{
	while (*s)
		text_put(f, &s);
}

void text_json(FILE *f, const char *s)
{
	fputc('"', f);
	while (*s) {
		unsigned char c = (unsigned char)*s;
		if (c != '"' && c != '\\' && c >= 0x20) {
			text_put(f, &s);
			continue;
		}
		fprintf(f, c < 0x20 ? "\\u%04x" : "\\%c", c);
		s++;
	}
	fputc('"', f);
}

void option_json(FILE *f, const struct option *o, const void *fields)
{
	const void *field = field_of(o, fields);
	char number[64];

	if (o->type == OPT_STRING || o->type == OPT_CHOICE) {
		text_json(f, *(const char *const *)field);
	} else if (o->type == OPT_BOOL) {
		fputs(*(const bool *)field ? "true" : "false", f);
	} else if (o->type == OPT_INT || o->type == OPT_SIZE) {
		fprintf(f, "%lld", (long long)*(const int64_t *)field);
	} else {
		real_text(*(const double *)field, number, sizeof(number));
		fputs(number, f);
	}
}

const struct option *option_find(const struct option *table, const char *name)
{
	for (const struct option *o = table; o && o->name; o++)
		if (strcmp(o->name, name) == 0)
			return o;
	return NULL;
}

/* ---- What was probably meant --------------------------------------------- */

enum { TYPED_MAX = 64 };

static size_t min3(size_t a, size_t b, size_t c)
{
	return a < b ? (a < c ? a : c) : (b < c ? b : c);
}

/* Insertions, deletions, substitutions and swaps of neighbours that turn a into b. */
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
			now[j] = min3(last[j] + 1, now[j - 1] + 1, last[j - 1] + (x != y));
			if (i > 1 && j > 1 && x == tolower((unsigned char)b[j - 2]) &&
			    y == tolower((unsigned char)a[i - 2]) && before[j - 2] + 1 < now[j])
				now[j] = before[j - 2] + 1;
		}
	}
	return row[n % 3][m];
}

const char *nearest(const char *typed, const char *const *names, size_t n)
{
	size_t best = (strlen(typed) + 2) / 3 + 1; /* farther than this is a guess */
	const char *found = NULL;

	for (size_t i = 0; i < n; i++) {
		size_t d = distance(typed, names[i]);
		if (d < best && d < strlen(names[i])) {
			best = d;
			found = names[i];
		}
	}
	return found;
}

/* ---- Help ---------------------------------------------------------------- */

enum { HELP_COLUMN = 34, HELP_WIDTH = 100 };
#define HELP_HUGE 1e12

void text_wrap(FILE *f, const char *text, int column)
{
	int at = column;

	while (*text) {
		int n = (int)strcspn(text, " ");
		if (at > column && at + 1 + n > HELP_WIDTH) {
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

void option_words(const struct option *o, const char *owner, char **left, char **right)
{
	char range[160], *name = full_name(owner, o->name);
	char *list = o->type == OPT_CHOICE ? with_commas(o->choices) : NULL;

	range_text(o, HELP_HUGE, range, sizeof(range));
	if (o->type == OPT_BOOL && strcmp(o->def, "false") == 0)
		*left = sentence("%s", name);
	else
		*left = sentence("%s=%s", name, o->def);
	if (list)
		*right = sentence("%s (%s)", o->help, list);
	else if (range[0] && o->type != OPT_BOOL && o->type != OPT_STRING)
		*right = sentence("%s (%s)", o->help, range);
	else
		*right = sentence("%s", o->help);
	free(name);
	free(list);
}

void text_row(FILE *f, const char *left, const char *right)
{
	if (strlen(left) + 4 > HELP_COLUMN)
		fprintf(f, "  %s\n%*s", left, HELP_COLUMN, "");
	else
		fprintf(f, "  %-*s", HELP_COLUMN - 2, left);
	text_wrap(f, right, HELP_COLUMN);
}

void option_help(FILE *f, const char *prefix, const struct option *table)
{
	char *left, *right;

	for (const struct option *o = table; o && o->name; o++) {
		option_words(o, prefix, &left, &right);
		text_row(f, left, right);
		free(left);
		free(right);
	}
}

/* ---- Command lines ------------------------------------------------------- */

char *arguments_read(struct arguments *a, int argc, char **argv,
		     bool (*bare)(const void *ctx, const char *name), const void *ctx)
{
	bool ended = false;

	*a = (struct arguments){
		.option = must(calloc((size_t)argc + 1, sizeof(*a->option))),
		.taken = must(calloc((size_t)argc + 1, sizeof(*a->taken))),
		.word = must(calloc((size_t)argc + 1, sizeof(*a->word))),
	};
	for (int i = 0; i < argc; i++) {
		const char *arg = argv[i];
		if (ended || arg[0] != '-' || arg[1] == '\0') {
			a->word[a->words++] = arg;
			continue;
		}
		if (strcmp(arg, "--") == 0) {
			ended = true;
			continue;
		}
		if (strcmp(arg, "-h") == 0 || strcmp(arg, "--help") == 0) {
			a->help = true;
			continue;
		}
		if (arg[1] != '-') {
			arguments_free(a);
			return sentence("%s: options begin with two dashes, as in --epochs=10",
					arg);
		}
		size_t n = strcspn(arg + 2, "=");
		char *name = must(strndup(arg + 2, n));
		struct setting *s = &a->option[a->options++];
		s->name = name;
		if (arg[2 + n] == '=') {
			s->value = arg + 2 + n + 1;
		} else if (!bare || !bare(ctx, name)) {
			if (i + 1 < argc && strncmp(argv[i + 1], "--", 2) != 0)
				s->value = argv[++i]; /* who knows the name says if it lacks one */
		}
	}
	return NULL;
}

void arguments_free(struct arguments *a)
{
	for (size_t i = 0; i < a->options; i++)
		free((char *)(uintptr_t)a->option[i].name);
	for (size_t i = 0; i < a->ntaken; i++)
		free((char *)(uintptr_t)a->taken[i]);
	free(a->option);
	free(a->taken);
	free(a->word);
	*a = (struct arguments){.options = 0};
}

char *arguments_take(struct arguments *a, const struct option *table, void *fields)
{
	size_t kept = 0;
	char *wrong = NULL;

	for (size_t i = 0; i < a->options; i++) {
		struct setting s = a->option[i];
		const struct option *o = wrong ? NULL : option_find(table, s.name);
		if (!o) {
			a->option[kept++] = s;
			continue;
		}
		if (s.value)
			wrong = option_set(o, fields, NULL, s.value);
		else if (o->type == OPT_BOOL)
			wrong = option_set(o, fields, NULL, "true");
		else
			wrong = sentence("--%s: a value is wanted, as in --%s=%s", s.name, s.name,
					 *o->def ? o->def : "VALUE");
		a->taken[a->ntaken++] = s.name;
	}
	a->options = kept;
	return wrong;
}

bool arguments_took(const struct arguments *a, const char *name)
{
	size_t i = 0;

	while (i < a->ntaken && strcmp(a->taken[i], name) != 0)
		i++;
	return i < a->ntaken;
}

const char *arguments_value(const struct arguments *a, const char *name)
{
	const char *value = NULL;

	for (size_t i = 0; i < a->options; i++)
		if (strcmp(a->option[i].name, name) == 0)
			value = a->option[i].value;
	return value;
}

char *arguments_refuse(const struct arguments *a, const struct option *table)
{
	const char *name[64];
	size_t n = 0;

	if (a->options == 0)
		return NULL;
	for (const struct option *o = table; o && o->name && n < 64; o++)
		name[n++] = o->name;
	const char *typed = a->option[0].name, *near = nearest(typed, name, n);
	if (near)
		return sentence("--%s: there is no such option; did you mean --%s?", typed, near);
	return sentence("--%s: there is no such option; --help lists them", typed);
}
