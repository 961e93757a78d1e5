/*
 * schedule.c - the learning rate of a step.
 *
 * The learning rate after t = (epoch - 1) + fraction epochs is lr times the product of the parts of
 * --lr-schedule, joined by '+', in any order, and times the factor of --lr-scale:
 *   constant          1
 *   step:E1:E2[:xF]   F (0.1) for each of the epochs E1, E2, ... that is behind: E <= t
 *   cosine[:FLOOR]    FLOOR + (1 - FLOOR) (1 + cos(pi (t - W) / (T - W))) / 2
 *   warmup:W[:FROM]   from FROM (0.1) at t = 0 in a straight line to 1 at t = W, then 1
 * T is --epochs, or what --steps or --tokens last. A cosine's W is that of the warm-up, 0 without
 * one. FROM is a factor, or base: then the warm-up begins at lr without --lr-scale, as in Goyal et
 * al., arXiv 1706.02677.
 */
#include "runtime/config/config.h"
#include "runtime/config/schedule.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct schedule {
	const char *step; /* after "step:"; NULL = none */
	double factor;    /* of a step */
	bool cosine;
	double floor;
	double warmup; /* [epochs] */
	double from;   /* initial factor, unless base */
	bool base;     /* the initial factor undoes --lr-scale */
};

/* Reads one number that ends at one of `ends` or the end of the text; moves *text to that end. */
static bool schedule_number(const char **text, const char *ends, double *x)
{
	char *end;
	if (!strchr("0123456789.", **text) || !**text)
		return false;
	*x = strtod(*text, &end);
	if ((*end && !strchr(ends, *end)) || !isfinite(*x))
		return false;
	*text = end;
	return true;
}

static const char *starts(const char *text, const char *word)
{
	size_t n = strlen(word);
	return strncmp(text, word, n) == 0 ? text + n : NULL;
}

/* Returns the error in the part at *text, or NULL; moves *text behind the part. */
static const char *schedule_part(const char **text, struct schedule *s)
{
	const char *at;
	double x, last = 0;
	if ((at = starts(*text, "cosine"))) {
		s->cosine = true;
		if (*at == ':' && (at++, !schedule_number(&at, "+", &s->floor) || s->floor > 1))
			return "the floor of a cosine is a number from 0 to 1";
	} else if ((at = starts(*text, "warmup:"))) {
		if (!schedule_number(&at, ":+", &s->warmup) || s->warmup <= 0)
			return "a warm-up lasts a number of epochs above 0";
		const char *base = starts(at, ":base");
		s->base = base != NULL;
		if (base)
			at = base;
		else if (*at == ':' && (at++, !schedule_number(&at, "+", &s->from) || s->from > 1))
			return "a warm-up begins at a factor from 0 to 1, or at base, the rate "
			       "without --lr-scale";
	} else if ((at = starts(*text, "step:"))) {
		s->step = at;
		for (; *at != 'x'; at += *at == ':') {
			if (!schedule_number(&at, ":+", &x) || x <= last)
				return "the epochs of steps must be ascending";
			last = x;
			if (*at != ':')
				break;
		}
		if (*at == 'x') {
			at++;
			if (last <= 0 || !schedule_number(&at, "+", &s->factor) || s->factor <= 0)
				return "the factor of a step follows its epochs and is above 0";
		}
	} else if (!(at = starts(*text, "constant"))) {
		return "a part must be constant, step, cosine or warmup";
	}
	*text = at;
	return NULL;
}

static const char *schedule_read(const char *text, struct schedule *s)
{
	int shapes = 0, warmups = 0;
	*s = (struct schedule){.factor = 0.1, .from = 0.1};
	for (;;) {
		bool warmup = starts(text, "warmup:");
		const char *wrong = schedule_part(&text, s);
		shapes += !warmup;
		warmups += warmup;
		if (wrong)
			return wrong;
		if (shapes > 1 || warmups > 1)
			return "it may have one shape and one warm-up at most";
		if (*text == '\0')
			return NULL;
		if (*text++ != '+')
			return "expected '+' after a part";
	}
}

char *lr_schedule_check(const struct option *o, const char *text)
{
	struct schedule s;
	const char *wrong = schedule_read(text, &s);
	return !wrong ? NULL
		      : sentence("--%s=%s: %s; give constant, step:E1:E2[:xF] or "
				 "cosine[:FLOOR], optionally with warmup:E[:FROM], such as "
				 "--%s=warmup:5+step:41:61:x0.1",
				 o->name, text, wrong, o->name);
}

double lr_at(const struct run *run, int models, int64_t epoch, double fraction)
{
	struct schedule s;
	const char *wrong = schedule_read(run->lr_schedule, &s);
	CHECK(!wrong, "schedule %s: %s", run->lr_schedule, wrong);
	double scale = strcmp(run->lr_scale, "linear") == 0 ? models
		       : strcmp(run->lr_scale, "sqrt") == 0 ? sqrt(models)
							    : 1;
	double lr = run->lr * scale, from = s.base ? 1 / scale : s.from, e;
	double t = (double)(epoch - 1) + fraction; /* epochs that are over */
	if (s.step)
		for (const char *at = s.step; schedule_number(&at, ":+", &e) && e <= t; at++) {
			lr *= s.factor;
			if (*at != ':')
				break;
		}
	if (s.cosine && t > s.warmup) {
		double span = (double)run->epochs - run->cut_epochs - s.warmup;
		double way = span > 0 ? (t - s.warmup) / span : 1;
		lr *= s.floor + (1 - s.floor) * (1 + cos(acos(-1) * (way < 1 ? way : 1))) / 2;
	}
	if (t < s.warmup)
		lr *= from + (1 - from) * t / s.warmup;
	return lr;
}

void lr_fill(const struct run *run, int models, int64_t epoch, float *lr, size_t steps)
{
	for (size_t i = 0; i < steps; i++)
		lr[i] = (float)lr_at(run, models, epoch, (double)i / (double)steps);
}
