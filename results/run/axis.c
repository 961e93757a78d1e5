/*
 * axis.c - the values that a key of a job file takes in turn, and conditions on them.
 *
 *   1, 2, 4            a list; its items may also be ranges:
 *   1..5               whole numbers
 *   0.1..0.5 by 0.1    from the first in equal steps, up to the second
 *   1e-4..1 log 5      5 values with the same factor from each to the next, both ends included
 */
#include "results/run/study.h"
#include "runtime/config/plugins.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

enum { RANGE_MAX = 10000 };

void axis_fini(struct axis *a)
{
	free(a->name);
	for (size_t i = 0; i < a->n; i++)
		free(a->value[i]);
	free(a->value);
	*a = (struct axis){.name = NULL};
}

char *text_trimmed(const char *text, const char *end)
{
	while (text < end && isspace((unsigned char)*text))
		text++;
	while (end > text && isspace((unsigned char)end[-1]))
		end--;
	return must(strndup(text, (size_t)(end - text)));
}

/* ---- Ranges -------------------------------------------------------------- */

static bool number_of(const char *text, double *x)
{
	char *end;
	if (!*text || text[strspn(text, "0123456789+-.eE")])
		return false;
	*x = strtod(text, &end);
	return *end == '\0' && isfinite(*x);
}

static bool is_whole(const char *text)
{
	return !text[strspn(text, "0123456789+-")];
}

bool span_cut(struct span *s, const char *text)
{
	const char *dots = strstr(text, "..");
	int end = 0;
	*s = (struct span){.low = ""};
	if (!dots)
		return false;
	char *low AUTOFREE = text_trimmed(text, dots);
	snprintf(s->low, sizeof s->low, "%s", low);
	int words = sscanf(dots + 2, " %63s%n %63s%n %63s%n", s->high, &end, s->word, &end,
			   s->amount, &end);
	bool known = words == 1 || strcmp(s->word, "by") == 0 || strcmp(s->word, "log") == 0;
	return words > 0 && dots[2 + end] == '\0' && known && number_of(s->low, &s->from) &&
	       number_of(s->high, &s->to);
}

/* Checks and adds a value; takes over the text. */
static char *add(struct axis *a, char *text)
{
	APPEND(a->value, a->n, text);
	return config_check(a->name, text, &a->option);
}

/* Multiples of a step have rounding errors: 15 digits hide them, and a tiny value becomes 0. */
static char *add_steps(struct axis *a, const struct span *s, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		double x = s->from + (double)i * s->by;
		TRY(add(a, sentence("%.15g", fabs(x) < 1e-9 * s->by ? 0 : x)));
	}
	return NULL;
}

/* Four digits where these keep the values distinct; a whole number only once. */
static char *add_powers(struct axis *a, const struct span *s, size_t n)
{
	TRY(add(a, must(strdup(s->low))));
	for (size_t i = 1; i < n - 1; i++) {
		double x = s->from * pow(s->to / s->from, (double)i / (double)(n - 1)),
		       before = strtod(a->value[a->n - 1], NULL);
		if (a->option->type == OPT_INT) {
			if (round(x) > before && round(x) < s->to)
				TRY(add(a, sentence("%.0f", x)));
			continue;
		}
		char *text = sentence("%.4g", x);
		if (strtod(text, NULL) <= before || strtod(text, NULL) >= s->to) {
			free(text);
			text = sentence("%.15g", x);
		}
		TRY(add(a, text));
	}
	return add(a, must(strdup(s->high)));
}

static char *add_range(struct axis *a, struct span *s, const char *text)
{
	bool whole = is_whole(s->low) && is_whole(s->high), log_scale = *s->word == 'l';
	if (!*s->word && !whole)
		return sentence(
			"%s: the range %s has no step; write %s by STEP, or %s log N for N values",
			a->name, text, text, text);
	s->by = 1;
	if (*s->word && (!number_of(s->amount, &s->by) || s->by <= 0))
		return sentence("%s: range %s: give a number above 0 after %s", a->name, text,
				s->word);
	if (log_scale && (!is_whole(s->amount) || s->by < 2))
		return sentence("%s: range %s: give a whole number of at least 2 after log",
				a->name, text);
	if (log_scale && s->from <= 0)
		return sentence(
			"%s: the range %s begins at %s; a logarithmic range must begin above 0",
			a->name, text, s->low);
	double n = log_scale ? s->by : floor((s->to - s->from) / s->by + 1e-9) + 1;
	if (s->to < s->from || (log_scale && s->to == s->from) || !(n <= RANGE_MAX))
		return sentence("%s: the range %s does not rise, or has more than %d values",
				a->name, text, RANGE_MAX);
	return log_scale ? add_powers(a, s, (size_t)n) : add_steps(a, s, (size_t)n);
}

/* ---- Lists --------------------------------------------------------------- */

/* Cuts "1, 4..6" into values. A label or file name may contain commas: an option that takes only
 * one value gets the whole text. */
static char *axis_cut(struct axis *a, const char *list)
{
	const struct option *o = option_find(run_options, a->name);
	const bool whole = o && o->type == OPT_STRING && o->incidental;
	for (const char *at = list, *next;; at = next + 1) {
		struct span s;
		next = at + strcspn(at, whole ? "" : ",");
		char *item AUTOFREE = text_trimmed(at, next);
		if (!*item && (*next == ',' || a->n > 0))
			return sentence("%s: the list \"%s\" has an empty item", a->name, list);
		if (!whole && span_cut(&s, item))
			TRY(add_range(a, &s, item));
		else
			TRY(add(a, must(strdup(item))));
		if (*next == '\0')
			break;
	}
	if (a->option->incidental && a->n > 1)
		return sentence("%s: give one value; runs that differ only in it are the same cell",
				a->name);
	return NULL;
}

char *axis_read(struct axis *a, const char *name, const char *list)
{
	*a = (struct axis){.name = must(strdup(name))};
	char *wrong = axis_cut(a, list);
	if (wrong)
		axis_fini(a);
	return wrong;
}

/* ---- Conditions ---------------------------------------------------------- */

static char *condition_read(struct axis *a, const char *text)
{
	const char *equals = strchr(text, '=');
	char *name AUTOFREE = text_trimmed(text, equals);
	TRY(axis_read(a, name, equals + 1));
	for (size_t i = 0; i < a->n; i++) {
		char *typed AUTOFREE = a->value[i]; /* is valid */
		a->value[i] = NULL;
		if (option_chooses(a->option) < PART_COUNT && plugin_options(typed))
			return sentence("exclude: %s=%s: give options as conditions of their own, "
					"as in codec=topk topk.share=0.1",
					name, typed);
		a->value[i] = option_plain(a->option, typed);
	}
	return NULL;
}

/* The start of the next condition: the next word that contains a '='. */
static const char *next_condition(const char *text)
{
	const char *at = text + strcspn(text, " \t");
	while (*at) {
		at += strspn(at, " \t");
		size_t n = strcspn(at, " \t");
		if (memchr(at, '=', n))
			return at;
		at += n;
	}
	return at;
}

char *exclusion_read(struct exclusion *e, const char *text)
{
	for (const char *at = text, *next; *at; at = next) {
		next = next_condition(at);
		char *one AUTOFREE = text_trimmed(at, next);
		if (*one == '=' || one[strcspn(one, "= \t")] != '=')
			return sentence("exclude: \"%s\" is not a condition; conditions look like "
					"strategy=serial workers=2,4",
					one);
		APPEND(e->condition, e->n, (struct axis){.n = 0});
		TRY(condition_read(&e->condition[e->n - 1], one));
	}
	return e->n ? NULL
		    : sentence("exclude: give conditions, such as strategy=serial "
			       "workers=2,4");
}

void exclusion_fini(struct exclusion *e)
{
	for (size_t i = 0; i < e->n; i++)
		axis_fini(&e->condition[i]);
	free(e->condition);
}

bool exclusion_holds(const struct exclusion *e, const struct config *c)
{
	size_t matched = 0;
	for (struct config_option at = {.config = c}; config_next(&at);)
		for (size_t i = 0; i < e->n; i++) {
			const struct axis *a = &e->condition[i];
			size_t k = 0;
			while (a->option == at.option && k < a->n &&
			       strcmp(a->value[k], at.value) != 0)
				k++;
			matched += a->option == at.option && k < a->n;
		}
	return matched == e->n;
}
