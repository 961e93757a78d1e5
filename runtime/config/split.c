/*
 * split.c - --split: how the training set is partitioned among the models.
 */
#include "runtime/config/config.h"
#include "runtime/config/dataset.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool read_split(const char *text, struct data_split *s)
{
	const struct option number = {.name = "split", .type = OPT_REAL, .max = 1e9};
	*s = (struct data_split){.own = strcmp(text, "shuffled") != 0};
	if (!s->own || strcmp(text, "fixed") == 0)
		return true;
	s->by_class = strncmp(text, "dirichlet_classes:", 18) == 0;
	if (!s->by_class && strncmp(text, "dirichlet:", 10) != 0)
		return false;
	char *wrong AUTOFREE = option_set(&number, &s->alpha, NULL, strchr(text, ':') + 1);
	return !wrong && s->alpha > 0;
}

char *data_split_check(const struct option *o, const char *text)
{
	struct data_split s;
	if (read_split(text, &s))
		return NULL;
	return sentence("--%s=%s: give shuffled, fixed, dirichlet:ALPHA or "
			"dirichlet_classes:ALPHA with a number above 0 and up to 1e9, such as "
			"--%s=dirichlet:0.5",
			o->name, text, o->name);
}

struct data_split data_split_of(const struct run *run)
{
	struct data_split s;
	CHECK(read_split(run->split, &s), "an unchecked --split=%s", run->split);
	return s;
}
