/*
 * buffers.c - buffers of a server: a list of spare buffers. A request takes the smallest that is
 * large enough.
 */
#include "runtime/table/server.h"

#include <stdlib.h>
#include <string.h>

static struct buffer *buffer_new(struct buffers *p, size_t room)
{
	struct buffer *b = must(calloc(1, sizeof *b));
	b->from = p;
	b->room = room;
	if (p->lengths) {
		b->x = link_nowhere();
		return b;
	}
	b->x = must(aligned_alloc(64, (room * sizeof(float) + 127) & ~(size_t)63));
	memset(b->x, 0, room * sizeof(float)); /* touches the pages, so that they exist */
	return b;
}

struct buffer *buffer_take(struct buffers *p, size_t n)
{
	struct buffer **best = NULL, *b;
	for (struct buffer **at = &p->spare; *at && !(best && (*best)->room == n);
	     at = &(*at)->next)
		if ((*at)->room >= n && (!best || (*at)->room < (*best)->room))
			best = at;
	b = best ? *best : buffer_new(p, n);
	if (best)
		*best = b->next;
	b->users = 1;
	return b;
}

void buffer_drop(struct buffer **b)
{
	if (*b && --(*b)->users == 0) {
		(*b)->next = (*b)->from->spare;
		(*b)->from->spare = *b;
	}
	*b = NULL;
}

void buffers_fill(struct buffers *p, size_t n, int wanted)
{
	for (struct buffer *b = p->spare; b; b = b->next)
		wanted -= b->room >= n;
	for (; wanted > 0; wanted--) {
		struct buffer *b = buffer_new(p, n);
		b->next = p->spare;
		p->spare = b;
	}
}

void buffers_free(struct buffers *p)
{
	for (struct buffer *b = p->spare, *next; b; b = next) {
		next = b->next;
		if (!p->lengths)
			free(b->x);
		free(b);
	}
}
