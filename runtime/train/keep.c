/*
 * keep.c - what a worker has to keep so that its run can continue: places that the training loop
 * and plug-ins name, in their order.
 */
#include "runtime/train/trainer.h"

#include <stdlib.h>
#include <string.h>

struct keepsake {
	struct vec *v; /* or, if NULL: */
	void *state;
	size_t bytes;
	struct keepsake *next;
};

static void add(struct worker *w, struct keepsake k)
{
	struct keepsake **at = &w->loop->kept;
	while (*at)
		at = &(*at)->next;
	*at = must(malloc(sizeof k));
	**at = k;
}

void worker_keep_vec(struct worker *w, struct vec *v)
{
	if (v)
		add(w, (struct keepsake){.v = v, .bytes = vec_len(v) * sizeof(float)});
}

void worker_keep(struct worker *w, void *state, size_t bytes)
{
	CHECK(bytes % sizeof(float) == 0, "worker_keep: %zu bytes are not a whole number of floats",
	      bytes);
	add(w, (struct keepsake){.state = state, .bytes = bytes});
}

size_t keepsakes_bytes(const struct worker *w)
{
	size_t n = 0;
	for (const struct keepsake *k = w->loop->kept; k; k = k->next)
		n += k->bytes;
	return n;
}

size_t keepsakes_copy(struct worker *w, char *at, bool put)
{
	const char *first = at;
	for (const struct keepsake *k = w->loop->kept; k; at += k->bytes, k = k->next)
		if (k->v && put)
			vec_put(k->v, (const float *)(const void *)at);
		else if (k->v)
			vec_get(k->v, (float *)(void *)at);
		else
			memcpy(put ? k->state : at, put ? at : k->state, k->bytes);
	return (size_t)(at - first);
}

void keepsakes_free(struct worker *w)
{
	for (struct keepsake *k = w->loop->kept, *next; k; k = next) {
		next = k->next;
		free(k);
	}
	w->loop->kept = NULL;
}
