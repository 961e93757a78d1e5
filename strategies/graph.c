/*
 * graph.c - see graph.h.
 */
#include "strategies/graph.h"

#include <string.h>

static bool is(const char *graph, const char *name)
{
	return strcmp(graph, name) == 0;
}

/* The partner of `rank` of n in round t; itself if it sits out. */
static int partner_on_ring(int rank, int n, int64_t t)
{
	int turn = (int)((t + 1) % (n % 2 ? n : 2));
	int place = (rank - turn + n) % n; /* pairs are places (0, 1), (2, 3), ... */
	return (place ^ 1) < n ? ((place ^ 1) + turn) % n : rank;
}

static int partner_at_random(int rank, int n, uint64_t rng)
{
	int order[WORKERS_MOST] = {0}, place = 0;
	for (int i = 0; i < n; i++) { /* a shuffle, from the inside out */
		int j = (int)(rng_next(&rng) % (uint64_t)(i + 1));
		order[i] = order[j];
		order[j] = i;
	}
	while (order[place] != rank)
		place++;
	return (place ^ 1) < n ? order[place ^ 1] : rank;
}

static struct peers at_distance(int rank, int n, int distance)
{
	return (struct peers){(rank + distance) % n, (rank - distance + n) % n};
}

/* The neighbours on a ring of n: none, one or two, both ways. */
static int around(int rank, int n, struct peers p[2])
{
	p[0] = at_distance(rank, n, 1);
	p[1] = at_distance(rank, n, n - 1);
	return n > 2 ? 2 : n - 1;
}

/* On a grid of rows x columns, where rows is the largest divisor of n up to its root. */
static int on_torus(int rank, int n, struct peers p[4])
{
	int rows = 1;
	for (int i = 2; i * i <= n; i++)
		rows = n % i == 0 ? i : rows;
	int columns = n / rows, row = rank / columns, column = rank % columns;
	int d = around(column, columns, p), of_row = d;
	d += around(row, rows, p + d);
	for (int k = 0; k < d; k++) {
		bool along = k < of_row;
		p[k].to = along ? row * columns + p[k].to : p[k].to * columns + column;
		p[k].from = along ? row * columns + p[k].from : p[k].from * columns + column;
	}
	return d;
}

_Static_assert(1 << PEERS_MOST >= WORKERS_MOST, "one for each power of two");

int graph_peers(const struct worker *w, const char *graph, int64_t t, struct peers p[PEERS_MOST])
{
	int rank = comm_rank(w->data_group), n = comm_size(w->data_group), bits = 0, pair = rank;
	while (1 << bits < n)
		bits++;
	if (is(graph, "neighbours"))
		return around(rank, n, p);
	if (is(graph, "torus"))
		return on_torus(rank, n, p);
	for (int k = 0; k < bits && is(graph, "exponential"); k++)
		p[k] = at_distance(rank, n, 1 << k);
	if (is(graph, "exponential"))
		return bits;
	if (is(graph, "one_peer")) {
		p[0] = at_distance(rank, n, 1 << (t % bits));
		return 1;
	}
	if (is(graph, "hypercube"))
		pair = rank ^ (1 << (t % bits));
	else if (is(graph, "pairs"))
		pair = partner_at_random(rank, n, rng_seed(run_seed(w->run), RNG_STRATEGY, t));
	else
		pair = partner_on_ring(rank, n, t);
	p[0] = (struct peers){pair, pair};
	return pair != rank;
}
