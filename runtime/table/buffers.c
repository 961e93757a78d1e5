/*
 * buffers.c - buffers of a server: a list of spare buffers. A request takes the smallest that is
 * large enough. Tables that have only lengths share one buffer without floats.
 */
#include "runtime/table/server.h"

#include <stdlib.h>
#include <string.h>

static struct buffer *buffer_new(size_t room)
{
	struct buffer *b = must(calloc(1, sizeof *b));
	b->room = room;
	b->x = must(aligned_alloc(64, (room * sizeof(float) + 127) & ~(size_t)63));
	memset(b->x, 0, room * sizeof(float)); /* touches the pages, so that they exist */
	return b;
}

struct buffer *buffer_take(struct server *v, const struct shard *t, size_t n)
{
	struct buffer **best = NULL, *b = &v->nowhere;
	if (t->rules.lengths) {
		b->x = link_nowhere();
		b->users++;
		return b;
	}
	for (struct buffer **at = &v->spare; *at && !(best && (*best)->room == n);
	     at = &(*at)->next)
		if ((*at)->room >= n && (!best || (*at)->room < (*best)->room))
			best = at;
	b = best ? *best : buffer_new(n);
	if (best)
		*best = b->next;
	b->users = 1;
	return b;
}

void buffer_drop(struct server *v, struct buffer **b)
{
	if (*b && --(*b)->users == 0) {
		(*b)->next = v->spare;
		v->spare = *b;
	}
	*b = NULL;
}

void buffers_fill(struct server *v, const struct shard *t, int wanted)
{
	for (struct buffer *b = v->spare; b; b = b->next)
		wanted -= b->room >= t->n;
	for (; wanted > 0 && !t->rules.lengths; wanted--) {
		struct buffer *b = buffer_new(t->n);
		b->next = v->spare;
		v->spare = b;
	}
}

void buffers_free(struct server *v)
{
	for (struct buffer *b = v->spare, *next; b; b = next) {
		next = b->next;
		free(b->x);
		free(b);
	}
}
