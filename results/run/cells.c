/*
 * cells.c - the cells of a sweep: which of them can run, and in which order.
 */
#include "results/run/cells.h"

#include <stdlib.h>
#include <string.h>

void sweep_leave_out(const char *path, struct sweep *s)
{
	size_t kept = 0;
	for (size_t first = 0, end; first < s->cells; first = end) {
		char *why AUTOFREE = NULL; /* of the first refused one */
		const char *what = NULL;
		const struct cell *section = &s->cell[first];
		size_t refused = 0;
		for (end = first; end < s->cells && s->cell[end].line == section->line; end++) {
			struct cell *c = &s->cell[end];
			char *wrong = plan_refuse(&c->config);
			c->skip = wrong != NULL;
			refused += c->skip;
			if (why) {
				free(wrong);
			} else {
				why = wrong;
				what = c->what;
			}
		}
		bool some = refused < end - first;
		if (why && some)
			fprintf(stderr,
				"mvbench: %s:%d: [%s] %zu of %zu combinations are refused and "
				"left out: %s: %s\n",
				path, section->line, section->section, refused, end - first, what,
				why);
		s->refused += some ? refused : 0;
		for (size_t i = first; i < end; i++)
			if (s->cell[i].skip && some)
				cell_fini(&s->cell[i]);
			else
				s->cell[kept++] = s->cell[i];
	}
	s->cells = kept;
}

/* s: cells of a job file, or trials of a study. */
static char *check_save(const char *path, const struct sweep *s)
{
	const char *save = s->cells ? s->cell[0].config.harness.save : "";
	for (size_t i = 1; i < s->cells && *save; i++)
		if (strcmp(s->cell[i].config.harness.save, save) == 0 &&
		    save[strlen(save) - 1] != '/')
			return sentence(
				"%s:%d: --save=%s: a file holds the checkpoints of one "
				"configuration, but there are several; give a folder, which gets "
				"a file for each, as in --save=checkpoints/",
				path, s->cell[i].line, save);
	return NULL;
}

char *sweep_plan(const char *path, struct sweep *s)
{
	TRY(check_save(path, s));
	for (size_t i = 0; i < s->cells; i++) {
		struct cell *c = &s->cell[i];
		char *why AUTOFREE = plan_make(&c->config, &c->plan);
		if (!why)
			why = simulation_check(&c->config, &c->plan);
		if (why)
			return sentence("%s:%d: [%s] %s: %s", path, c->line, c->section, c->what,
					why);
	}
	return NULL;
}

/* ---- Order --------------------------------------------------------------- */

static int by_round_and_key(const void *a, const void *b)
{
	const struct cell *x = a, *y = b;
	return x->round != y->round ? (x->round > y->round) - (x->round < y->round)
	       : x->key != y->key   ? (x->key > y->key) - (x->key < y->key)
				    : (x->place > y->place) - (x->place < y->place);
}

/* The sort key of a cell within its round. It depends on this cell only: new or finished cells do
 * not move the others. */
static uint64_t shuffled(const struct cell *c, int64_t seed)
{
	uint64_t rng = rng_seed(seed, RNG_ORDER, c->round) ^ strtoull(c->hash, NULL, 16);
	return rng_next(&rng);
}

void sweep_shuffle(struct sweep *s, int64_t seed)
{
	char hash[17];
	for (size_t i = 0; i < s->cells; i++) {
		struct config any = s->cell[i].config; /* shallow copy: borrows the pointers */
		any.run.seed = 0;
		config_hash(&any, hash);
		s->cell[i].key = strtoull(hash, NULL, 16);
		s->cell[i].place = i;
		s->cell[i].round = 0;
	}
	qsort(s->cell, s->cells, sizeof *s->cell, by_round_and_key);
	for (size_t i = 0; i < s->cells; i++) {
		bool again = i > 0 && s->cell[i].key == s->cell[i - 1].key;
		s->cell[i].round = again ? s->cell[i - 1].round + 1 : 1;
	}
	for (size_t i = 0; i < s->cells; i++)
		s->cell[i].key = shuffled(&s->cell[i], seed);
	qsort(s->cell, s->cells, sizeof *s->cell, by_round_and_key);
}
