/*
 * options.c - one row of a table defines an option's parser, range, help and results column.
 *
 * Every type has a text form that reads back as the same value (option_text). Configurations are
 * therefore passed to other processes as words, and compared as text.
 */

#include "runtime/config/heterogeneity.h"
#include "runtime/config/schedule.h"

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

/* A number alone is no time, except 0: it could be meant in seconds or in milliseconds. */
static const struct unit times[] = {
	{"s", 1, 1}, {"ms", 1, 1e3}, {"us", 1, 1e6}, {"min", 60, 1}, {"h", 3600, 1}, {NULL, 0, 0},
};

/* Rates are in bit/s; with bytes, a second is meant, too. */
static const struct unit rates[] = {
	{"bit", 1, 1},  {"kbit", 1e3, 1}, {"mbit", 1e6, 1}, {"gbit", 1e9, 1}, {"tbit", 1e12, 1},
	{"kB", 8e3, 1}, {"MB", 8e6, 1},   {"GB", 8e9, 1},   {"TB", 8e12, 1},  {NULL, 0, 0},
};
static const struct unit counts[] = {
	{"", 1, 1},     {"k", 1e3, 1},  {"M", 1e6, 1}, {"G", 1e9, 1},
	{"T", 1e12, 1}, {"P", 1e15, 1}, {NULL, 0, 0},
};

static const struct unit *units_of(enum option_type type)
{
	return type == OPT_TIME    ? times
	       : type == OPT_RATE  ? rates
	       : type == OPT_COUNT ? counts
				   : NULL;
}

static void *field_of(const struct option *o, const void *fields)
{
	return (char *)(uintptr_t)fields + o->offset;
}

/* Does "a|b|c" list this text? compare: with case or without. */
static bool is_choice(const char *choices, const char *text,
		      int (*compare)(const char *, const char *, size_t))
{
	size_t n = strlen(text);
	for (const char *c = choices; c; c = strchr(c, '|') ? strchr(c, '|') + 1 : NULL)
		if (n > 0 && strcspn(c, "|") == n && compare(c, text, n) == 0)
			return true;
	return false;
}

void real_digits(double x, char *buf, size_t room)
{
	for (int digits = 15; digits <= 17; digits++) {
		snprintf(buf, room, "%.*g", digits, x);
		if (strtod(buf, NULL) == x)
			return;
	}
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
	real_digits(x * by, number, sizeof(number));
	if (strtod(number, NULL) / by != x) {
		by = 1;
		real_digits(x, number, sizeof(number));
	}
	snprintf(buf, room, "%s%s", number, by == 1 ? "s" : by == 1e3 ? "ms" : "us");
}

/* In the largest unit of bits, or of counts, that x reaches and that gives back the same x. */
static void scaled_text(double x, const struct unit *units, char *buf, size_t room)
{
	char number[40];
	const struct unit *best = units;
	for (const struct unit *u = units; u->name && u->times != 8e3; u++) {
		real_digits(x / u->times, number, sizeof number);
		if (x >= u->times && strtod(number, NULL) * u->times == x)
			best = u;
	}
	real_digits(x / best->times, number, sizeof number);
	snprintf(buf, room, "%s%s", number, x == 0 ? "" : best->name);
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
		real_digits(*(const double *)field, buf, room);
		break;
	case OPT_TIME:
		time_text(*(const double *)field, buf, room);
		break;
	case OPT_RATE:
	case OPT_COUNT:
		scaled_text(*(const double *)field, units_of(o->type), buf, room);
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

static bool is_real(const struct option *o)
{
	return o->type == OPT_REAL || units_of(o->type);
}

static void bound_text(const struct option *o, double bound, char *buf, size_t room)
{
	const struct option alone = {.type = o->type};
	const int64_t whole = (int64_t)bound;
	option_text(&alone, is_real(o) ? (const void *)&bound : &whole, buf, room);
}

/* "1 to 64", "at least 0", or "" without a range. A bound of `huge` or more is not shown. */
static void range_text(const struct option *o, double huge, char *buf, size_t room)
{
	char low[64] = "", high[64] = "";
	bool least = o->min > -huge, most = o->max < huge;
	buf[0] = '\0';
	bool number = is_real(o) || o->type == OPT_INT || o->type == OPT_SIZE;
	if (!number || (o->min == 0 && o->max == 0))
		return;
	if (least)
		bound_text(o, o->min, low, sizeof(low));
	if (most)
		bound_text(o, o->max, high, sizeof(high));
	if (least && most)
		snprintf(buf, room, "%s to %s", low, high);
	else if (least || most)
		snprintf(buf, room, "at %s %s", least ? "least" : "most", least ? low : high);
}

static bool in_range(const struct option *o, double x)
{
	return (o->min == 0 && o->max == 0) || (x >= o->min && x <= o->max);
}

char *option_full_name(const char *owner, const struct option *o)
{
	return owner ? sentence("%s.%s", owner, o->name) : sentence("%s", o->name);
}

/* A default of 0 often turns an option off: it is no example then. */
static const char *example_of(const struct option *o)
{
	if (!o->def || strtod(o->def, NULL) != 0)
		return o->def;
	return o->type == OPT_TIME && in_range(o, 1)     ? "1s"
	       : o->type == OPT_RATE && in_range(o, 1e9) ? "1gbit"
	       : o->type == OPT_REAL && in_range(o, 0.5) ? "0.5"
							 : o->def;
}

/* "--lr=fast: give a number from 0 to 1000, such as --lr=0.1." */
static char *refuse_value(const struct option *o, const char *owner, const char *text)
{
	static const char *const kinds[] = {
		[OPT_INT] = "a whole number",
		[OPT_SIZE] = "a size in bytes (or with B, kB, MB, GB, KiB, MiB, GiB)",
		[OPT_REAL] = "a number",
		[OPT_TIME] = "a time with its unit (us, ms, s, min or h)",
		[OPT_RATE] = "a rate with its unit (kbit, mbit, gbit, tbit, kB, MB, GB, TB)",
		[OPT_COUNT] = "a number (or with k, M, G, T, P)",
		[OPT_BOOL] = "true or false",
	};
	char range[160], *name AUTOFREE = option_full_name(owner, o);
	if (o->type == OPT_CHOICE) {
		char *list AUTOFREE = text_replaced(o->choices, "|", ", ");
		return sentence("--%s=%s: give one of %s", name, text, list);
	}
	range_text(o, 9e18, range, sizeof(range));
	const char *link = !range[0] ? "" : range[0] == 'a' ? " of " : " from "; /* at least ... */
	return sentence("--%s=%s: give %s%s%s, such as --%s=%s", name, text, kinds[o->type], link,
			range, name, example_of(o));
}

/* Reads digits, point and exponent, then one unit of the list (NULL: none). 0 needs no unit. */
static bool read_with_unit(const char *text, const struct unit *units, double *x)
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
	return !*end && *x == 0;
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
	if (!read_with_unit(text, sizes, &bytes) || bytes != floor(bytes) || fabs(bytes) > 9e18)
		return false;
	*x = (int64_t)bytes;
	return true;
}

bool option_is_flag(const struct option *o)
{
	return o->type == OPT_BOOL ||
	       (o->type == OPT_CHOICE && is_choice(o->choices, "true", strncmp));
}

char *option_set(const struct option *o, void *fields, const char *owner, const char *text)
{
	union {
		int64_t whole;
		double real;
		bool flag;
		const char *text;
	} x;
	size_t bytes = sizeof x.text;
	bool good = true;
	if (!text && !option_is_flag(o)) {
		char *name AUTOFREE = option_full_name(owner, o);
		return sentence("--%s: give a value, as in --%s=%s", name, name,
				*o->def ? o->def : "VALUE");
	}
	x.text = text = text ? text : "true";
	switch (o->type) {
	case OPT_INT:
	case OPT_SIZE:
		good = (o->type == OPT_INT ? read_whole : read_size)(text, &x.whole) &&
		       in_range(o, (double)x.whole);
		bytes = sizeof x.whole;
		break;
	case OPT_REAL:
	case OPT_TIME:
	case OPT_RATE:
	case OPT_COUNT:
		good = read_with_unit(text, units_of(o->type), &x.real) && in_range(o, x.real);
		bytes = sizeof x.real;
		break;
	case OPT_BOOL:
		x.flag = is_choice("true|yes|1|on", text, strncasecmp);
		good = x.flag || is_choice("false|no|0|off", text, strncasecmp);
		bytes = sizeof x.flag;
		break;
	case OPT_CHOICE:
		good = is_choice(o->choices, text, strncmp);
		break;
	case OPT_STRING:
		break;
	}
	char *wrong = !good ? refuse_value(o, owner, text) : o->check ? o->check(o, text) : NULL;
	if (!wrong)
		memcpy(field_of(o, fields), &x, bytes);
	return wrong;
}

void option_default(const struct option *table, void *fields)
{
	for (const struct option *o = table; o && o->name; o++) {
		char *wrong = option_set(o, fields, NULL, o->def);
		CHECK(!wrong, "the default of an option is refused: %s", wrong);
	}
}

void option_number(const struct option *o, const void *fields, char *buf, size_t room)
{
	struct option plain = *o;
	plain.type = o->type == OPT_SIZE ? OPT_INT : is_real(o) ? OPT_REAL : o->type;
	option_text(&plain, fields, buf, room);
}

void option_json(FILE *f, const struct option *o, const void *fields)
{
	const void *field = field_of(o, fields);
	char number[64];
	if (o->type == OPT_STRING || o->type == OPT_CHOICE) {
		text_json(f, *(const char *const *)field);
		return;
	}
	option_number(o, fields, number, sizeof number);
	fputs(number, f);
}

const struct option *option_find(const struct option *table, const char *name)
{
	for (const struct option *o = table; o && o->name; o++)
		if (strcmp(o->name, name) == 0)
			return o;
	return NULL;
}

char *option_unknown(const char *prefix, const char *typed, const struct option *table,
		     const char *run)
{
	enum { MOST = 256 };
	const char *name[MOST], *dot = *prefix ? "." : "";
	size_t n = 0;
	for (; table && table[n].name && n + 1 < MOST; n++)
		name[n] = table[n].name;
	if (!*prefix)
		name[n++] = "help";
	const char *near = nearest(typed, name, n);
	if (near)
		return sentence("--%s%s%s: there is no such option; did you mean --%s%s%s?", prefix,
				dot, typed, prefix, dot, near);
	if (*prefix && n == 0)
		return sentence("--%s.%s: %s has no options of its own", prefix, typed, prefix);
	return sentence("--%s%s%s: there is no such option; %s--help lists them", prefix, dot,
			typed, run);
}

/* Help does not show a bound of this size or more. */
#define HELP_HUGE 1e12

void option_words(const struct option *o, const char *owner, char **left, char **right)
{
	char range[160], *name AUTOFREE = option_full_name(owner, o);
	char *list AUTOFREE = o->type == OPT_CHOICE ? text_replaced(o->choices, "|", ", ") : NULL;
	range_text(o, HELP_HUGE, range, sizeof(range));
	if (o->type == OPT_BOOL && strcmp(o->def, "false") == 0)
		*left = sentence("--%s", name);
	else
		*left = sentence("--%s=%s", name, o->def);
	if (list)
		*right = sentence("%s (%s)", o->help, list);
	else if (range[0])
		*right = sentence("%s (%s)", o->help, range);
	else
		*right = sentence("%s", o->help);
}

const char *setting_value(const struct setting *given, size_t n, const char *name)
{
	const char *value = NULL;
	for (size_t i = 0; i < n; i++)
		if (strcmp(given[i].name, name) == 0)
			value = given[i].value;
	return value;
}
