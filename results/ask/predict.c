/*
 * predict.c - predicts the time of an epoch. The arithmetic is the strategy's own (mvbench.h,
 * expect). This file writes its formula, as it is in the source and with the numbers in it.
 */
#include "results/ask/ask.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TERM(field, means) {#field, means, offsetof(struct costs, field)},
const struct term terms[] = {
	STEP_TIMES(TERM) TERM(steps, NULL) TERM(N, NULL) TERM(G, NULL) TERM(X, NULL){NULL},
};

double *term_of(struct costs *c, const char *name, size_t length)
{
	for (const struct term *t = terms; t->name; t++)
		if (strlen(t->name) == length && strncmp(t->name, name, length) == 0)
			return (double *)(void *)((char *)c + t->offset);
	CHECK(false, "there is no term %.*s", (int)length, name);
	return NULL;
}

static size_t word_length(const char *at)
{
	size_t n = 0;
	while (isalnum((unsigned char)at[n]) || at[n] == '_')
		n++;
	return n;
}

/* Each c.T_name of the formula becomes T_name in one text, its milliseconds in the other. Returns
 * the first name whose value is not known, NULL = all are known. */
static char *write_formula(struct expected *e, char **formula, char **numbers)
{
	struct text as_written, in_numbers;
	FILE *f = text_open(&as_written), *g = text_open(&in_numbers);
	char *unknown = NULL;
	for (const char *at = e->formula; *at;) {
		size_t n = word_length(at);
		if (n == 1 && *at == 'c' && at[1] == '.') {
			at += 2;
			n = word_length(at);
			double x = *term_of(&e->c, at, n);
			if (isnan(x) && !unknown)
				unknown = sentence("%.*s", (int)n, at);
			fprintf(g, "%.4g", strncmp(at, "T_", 2) == 0 ? 1e3 * x : x);
		} else {
			n = n ? n : 1;
			fwrite(at, 1, n, g);
		}
		fwrite(at, 1, n, f);
		at += n;
	}
	fputs(" ms", g);
	*formula = text_close(&as_written);
	*numbers = text_close(&in_numbers);
	return unknown;
}

struct prediction predict(const struct strategy *s, const struct costs *c, const struct run *run,
			  const void *opts)
{
	struct prediction p = {.seconds = NAN};
	if (!s->expect) {
		p.why = sentence("this strategy has no cost formula");
		return p;
	}
	struct expected e = s->expect(*c, run, opts);
	if (!e.formula) {
		p.why = sentence("there is no formula for these options");
		return p;
	}
	p.seconds = e.seconds;
	p.at_best = e.at_best;
	p.paced = strstr(e.formula, "c.X") != NULL;
	char *unknown AUTOFREE = write_formula(&e, &p.formula, &p.numbers);
	if (unknown)
		p.why = sentence("its %s has not been measured", unknown);
	return p;
}

void prediction_fini(struct prediction *p)
{
	free(p->formula);
	free(p->numbers);
	free(p->why);
}
