/*
 * heterogeneity.c - unequal workers: --speed, --pause, --leave and --sim.slow-link. Each is a list
 * of RANK:VALUE or RANK:VALUE:VALUE. Commas or blanks separate its items; in job files only blanks,
 * because a comma there separates the values of a sweep.
 */
#include "runtime/config/config.h"
#include "runtime/config/heterogeneity.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct option rank_type = {.type = OPT_INT, .max = 1e9},
			   factor_type = {.type = OPT_REAL, .max = 1},
			   time_type = {.type = OPT_TIME, .max = 1e9};

/* An option and the form of its items. */
static const struct kind {
	size_t field; /* of struct run */
	const char *name, *form, *terms, *example;
	const struct option *type[2]; /* of the values after the rank; NULL = no such value */
	bool positive[2];
} kinds[] = {
	{.field = offsetof(struct run, speed),
	 .name = "speed",
	 .form = "RANK:FACTOR",
	 .terms = "a factor above 0 and up to 1 (no worker can be made faster)",
	 .example = "0:0.5",
	 .type = {&factor_type},
	 .positive = {true}},
	{.field = offsetof(struct run, pause),
	 .name = "pause",
	 .form = "RANK:AT:DURATION",
	 .terms = "times in us, ms, s, min or h, of which only the first may be 0",
	 .example = "1:2s:500ms",
	 .type = {&time_type, &time_type},
	 .positive = {false, true}},
	{.field = offsetof(struct run, leave),
	 .name = "leave",
	 .form = "RANK:AT",
	 .terms = "a time of 0 or more in us, ms, s, min or h",
	 .example = "1:30s",
	 .type = {&time_type}},
	{.field = offsetof(struct run, sim_slow_link),
	 .name = "sim.slow-link",
	 .form = "RANK:FACTOR",
	 .terms = "a factor above 0 and up to 1",
	 .example = "0:0.1",
	 .type = {&factor_type},
	 .positive = {true}},
};

enum { SPEED, PAUSE, LEAVE, SLOW_LINK, KINDS };
_Static_assert(sizeof kinds / sizeof *kinds == KINDS, "a kind has no number");

struct item {
	int64_t rank;
	double value[2];
};

static const char *list_of(const struct run *run, int kind)
{
	return *(const char *const *)((const char *)run + kinds[kind].field);
}

/* ---- Reading --------------------------------------------------------------- */

/* Where a list begins that has items; NULL = it has none. */
static const char *first_item(const char *list)
{
	list += strspn(list, " \t");
	return *list ? list : NULL;
}

/* Reads the number up to the next colon; moves *text behind the colon, or to NULL at the end. */
static bool read_number(char **text, const struct option *type, void *number)
{
	char *word = *text ? strsep(text, ":") : NULL;
	char *wrong AUTOFREE = word ? option_set(type, number, NULL, word) : NULL;
	return word && !wrong;
}

/* Reads the item at *list, and moves *list to the next one, which must follow a comma; NULL = it
 * was the last. */
static bool read_item(const struct kind *k, const char **list, struct item *x)
{
	const char *end = *list + strcspn(*list, ", \t"), *next = end + strspn(end, " \t");
	char *item AUTOFREE = must(strndup(*list, (size_t)(end - *list))), *text = item;
	bool good = read_number(&text, &rank_type, &x->rank);
	for (int i = 0; i < 2 && k->type[i]; i++)
		good = good && read_number(&text, k->type[i], &x->value[i]) &&
		       (x->value[i] > 0 || !k->positive[i]);
	*list = *next == ',' ? next + 1 + strspn(next + 1, " \t") : *next ? next : NULL;
	return good && !text;
}

/* The same for a list that has been checked. */
static struct item next_item(const struct kind *k, const char **list)
{
	struct item x = {.rank = 0};
	CHECK(read_item(k, list, &x), "an unchecked item of --%s", k->name);
	return x;
}

static char *check_list(const struct kind *k, const char *text)
{
	bool named[WORKERS_MOST] = {false};
	for (const char *list = first_item(text), *at; (at = list);) {
		struct item x;
		if (!read_item(k, &list, &x))
			return sentence("--%s=%s: \"%.*s\" should be %s, with %s, as in --%s=%s",
					k->name, text, (int)strcspn(at, ", \t"), at, k->form,
					k->terms, k->name, k->example);
		if (x.rank < WORKERS_MOST && named[x.rank])
			return sentence("--%s=%s: worker %lld is named twice; name it once",
					k->name, text, (long long)x.rank);
		if (x.rank < WORKERS_MOST)
			named[x.rank] = true;
	}
	return NULL;
}

char *heterogeneity_check(const struct option *o, const char *text)
{
	for (int i = 0; i < KINDS; i++)
		if (strcmp(kinds[i].name, o->name) == 0)
			return check_list(&kinds[i], text);
	return NULL;
}

/* ---- One worker ---------------------------------------------------------------- */

static nsec nsec_of(double seconds)
{
	return (nsec)llround(1e9 * seconds);
}

struct heterogeneity heterogeneity_of(const struct run *run, int rank)
{
	struct heterogeneity u = {.speed = 1, .link = 1, .pause_at = NEVER, .leave_at = NEVER};
	for (int i = 0; i < KINDS; i++)
		for (const char *list = first_item(list_of(run, i)); list;) {
			struct item x = next_item(&kinds[i], &list);
			if (x.rank != rank)
				continue;
			if (i == SPEED)
				u.speed = x.value[0];
			if (i == PAUSE)
				u.pause_at = nsec_of(x.value[0]), u.pause = nsec_of(x.value[1]);
			if (i == LEAVE)
				u.leave_at = nsec_of(x.value[0]);
			if (i == SLOW_LINK)
				u.link = x.value[0];
		}
	return u;
}

int64_t workers_leaving(const struct run *run)
{
	int64_t n = 0;
	for (const char *list = first_item(run->leave); list; n++)
		next_item(&kinds[LEAVE], &list);
	return n;
}

/* ---- Can the options apply to this run? ---------------------------------------- */

static char *check_ranks(const struct run *run)
{
	for (int i = 0; i < KINDS; i++)
		for (const char *list = first_item(list_of(run, i)); list;) {
			struct item x = next_item(&kinds[i], &list);
			if (x.rank >= run->workers)
				return sentence("--%s=%s: there is no worker %lld; with "
						"--workers=%lld the last one is %lld",
						kinds[i].name, list_of(run, i), (long long)x.rank,
						(long long)run->workers,
						(long long)run->workers - 1);
		}
	return NULL;
}

/* "asgd, bsp and ssp", from the heap. */
static char *strategies_that_may_leave(void)
{
	enum { MOST = 64 };
	const char *name[MOST];
	size_t n = 0;
	for (size_t i = 0; strategies[i] && n < MOST; i++)
		if (strategies[i]->may_leave)
			name[n++] = strategies[i]->plugin.name;
	CHECK(n > 1, "%zu strategies whose workers may leave", n);
	char *names AUTOFREE = text_list(name, n - 1, ", ");
	return sentence("%s and %s", names, name[n - 1]);
}

static char *check_leaving(const struct config *c)
{
	const struct run *run = &c->run;
	int64_t leaving = workers_leaving(run);
	if (leaving == 0)
		return NULL;
	if (leaving == run->workers)
		return sentence("--leave=%s: no worker would be left to train; leave out at least "
				"one worker",
				run->leave);
	if (c->strategy->may_leave)
		return NULL;
	char *names AUTOFREE = strategies_that_may_leave();
	return sentence("--leave=%s: the workers of %s wait for each other, and none can leave; "
			"with %s they can",
			run->leave, run->strategy, names);
}

char *heterogeneity_refuse(const struct config *c)
{
	char *wrong = check_ranks(&c->run);
	if (!wrong)
		wrong = check_leaving(c);
	if (!wrong && *c->run.sim_slow_link && !is_simulated(c))
		wrong = sentence("--sim.slow-link=%s: only simulated links can be made slow; give "
				 "--platform=sim with it",
				 c->run.sim_slow_link);
	return wrong;
}
