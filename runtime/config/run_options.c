/*
 * run_options.c - the core options, made from the rows of run_options.def, and the checks of their
 * values.
 */
#include "runtime/config/clusters.h"
#include "runtime/config/config.h"
#include "runtime/config/dataset.h"
#include "runtime/config/heterogeneity.h"
#include "runtime/config/plugins.h"
#include "runtime/config/schedule.h"
#include "runtime/table/table.h"

#include <string.h>

enum part option_chooses(const struct option *o)
{
	enum part k = 0;
	while (k < PART_COUNT && o != option_find(run_options, part_names[k]))
		k++;
	return k;
}

/* Checks --strategy, --workload, --optimizer and --codec. */
static char *check_plugin(const struct option *o, const char *typed)
{
	const struct plugin *p;
	return plugin_choose(option_chooses(o), typed, NULL, 0, &p);
}

static char *check_pull(const struct option *o, const char *typed)
{
	const struct plugin *p;
	(void)o;
	return plugin_of_pulls(typed, &p);
}

char *time_check(const char *name, const char *text, double *seconds)
{
	struct option o = {.name = name, .type = OPT_TIME, .min = 1e-9, .max = 1e9};
	double x = NAN;
	char *wrong AUTOFREE = strcmp(text, "auto") == 0 ? NULL : option_set(&o, &x, NULL, text);
	if (!wrong && seconds)
		*seconds = x;
	if (!wrong)
		return NULL;
	return sentence("--%s=%s: give auto or a time above 0 with its unit (us, ms, s, min or "
			"h), such as --%s=5ms",
			name, text, name);
}

static char *check_time(const struct option *o, const char *text)
{
	return time_check(o->name, text, NULL);
}

static char *check_rate(const struct option *o, const char *text)
{
	return *text ? bit_rate_check(o, text) : NULL;
}

static char *check_momentum(const struct option *o, const char *text)
{
	if (strtod(text, NULL) < 1)
		return NULL;
	return sentence("--%s=%s: give a number from 0 to below 1, such as --%s=0.9", o->name, text,
			o->name);
}

static char *check_hash(const struct option *o, const char *text)
{
	size_t digits = strspn(text + (*text == DATA_OF_SEED), "0123456789abcdef");
	if (!*text ||
	    (strlen(text) == 16 && digits >= 15 && (*text == DATA_OF_SEED || digits == 16)))
		return NULL;
	return sentence("--%s=%s: give the 16 hexadecimal digits of this column of a run, such as "
			"0123456789abcdef",
			o->name, text);
}

static char *check_db(const struct option *o, const char *text)
{
	if (*text)
		return NULL;
	return sentence("--%s=: give the name of a file, such as --%s=" DATABASE, o->name, o->name);
}

/* ---- The core options ---------------------------------------------------- */

#define RANGE(least, most)   .min = least, .max = most
#define CHOICES(list)        .choices = list
#define CHECKED_BY(function) .check = function
#define INCIDENTAL           .incidental = true
#define KEPT_APART           .incidental = true, .core.kept_apart = true
#define REPEATS              .core.repeats = true
#define COMPARED             .core.compared = true
#define COMMON               .core.common = true
#define AS_USED              .core.stored = AS_USED
#define USED_IF_ANY          .core.stored = USED_IF_ANY
#define OF_SIMULATION        .core.stored = OF_SIMULATION
#define UNSTORED             .core.stored = UNSTORED
#define REPLAY_MAY           .core.replay = REPLAY_MAY
#define REPLAY_OWN           .core.replay = REPLAY_OWN
#define LABELLED(place)      .core.label = place
#define NAMED(place, part_)  .core.label = -place, .core.part = part_
#define PLAIN(value)         .core.plain = value
#define WORK                 .core.work = true
#define TRAINS               .core.trains = true

#define OWNER struct config
const struct option run_options[] = {
#define OPTION_RUN(field, ...)     OPTION(run.field, __VA_ARGS__, ),
#define OPTION_HARNESS(field, ...) OPTION(harness.field, __VA_ARGS__, ),
#include "runtime/config/run_options.def"
	{0},
};
