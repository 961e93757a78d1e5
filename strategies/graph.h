/*
 * graph.h - with whom a trainer of a decentralised strategy averages. Of N trainers, with j - i
 * modulo N, trainer i hears in round t the j that are
 *
 * - ring: a pair. Of an even N (1, 2), ..., (N - 1, 0) and (0, 1), (2, 3), ... in turn; of an odd N
 *   trainer t mod N sits out, and the others pair up along the ring after it
 * - hypercube: a pair, i xor 2^(t mod log2 N): log2 N rounds without steps between average all
 * - pairs: a pair, drawn anew in each round; of an odd N one sits out
 * - neighbours: i - 1 and i + 1; torus: the four on a grid that is as square as N allows
 * - one_peer: i - 2^(t mod ceil(log2 N)); exponential: i - 2^k for every k < ceil(log2 N)
 *
 * Each is heard by as many as it hears. Exponential graphs: Ying et al., NeurIPS 2021, arXiv
 * 2110.13363.
 */
#ifndef GRAPH_H
#define GRAPH_H

#include "mvbench.h"

#pragma GCC visibility push(default) /* as in mvbench.h */

enum { PEERS_MOST = 12 };

/* Whom a trainer sends to, and whom it hears. */
struct peers {
	int to, from;
};

/* Those of this trainer in the graph of this name; returns their number. There are others. */
int graph_peers(const struct worker *w, const char *graph, int64_t t, struct peers p[PEERS_MOST]);

#pragma GCC visibility pop
#endif
