/*
 * coding.h - what travels over a coded communicator: what comm.c and coding.c share.
 */
#ifndef CODING_H
#define CODING_H

#include "runtime/comm/comm.h"

struct coding;

/* Collective only in what it needs: equal models. Of vecs laid out as v, which is tensors. */
struct coding *coding_new(struct worker *w, int rank, int size, const struct vec *v,
			  const struct tensor *tensor, size_t tensors);
void coding_free(struct coding *k); /* NULL is fine */
/* What a checkpoint has: the i-th object, from 0 to 2, then of each partner of a pair; NULL:
 * this worker has none. */
void *coding_kept(struct coding *k, int i, size_t *bytes);
struct vec *coding_kept_there(struct coding *k); /* what feedback keeps on a GPU, or NULL */
/* The tensors of floats first .. first + n - 1, which count from there: into tensor, with room for
 * all. A tensor that is cut is one row. Returns their number. */
size_t tensors_cut(const struct tensor *all, size_t tensors, size_t first, size_t n,
		   struct tensor *tensor);
/* A sum, in place; every start of a slot has its end. Returns the bytes that this worker sends. */
int64_t coding_start(struct coding *k, struct link *l, int slot, struct vec *v, size_t first,
		     size_t n);
void coding_end(struct coding *k, struct link *l, int slot, struct vec *v);
double coding_sum_bytes(struct coding *k, size_t first, size_t n); /* mean over workers */
void coding_exchange(struct coding *k, struct link *l, int peer, const struct vec *out,
		     struct vec *in);
double coding_exchange_bytes(struct coding *k, size_t n);

/* Charges a simulated worker: a codec with these options encodes n floats, or decodes them. */
void code_charge(const struct codec *k, const void *opts, size_t n, bool decodes);

/* A rank's share of the bytes that all of `size` ranks together send: exact over all ranks. */
static inline int64_t share_of_bytes(size_t floats, int rank, int size)
{
	return (int64_t)((sizeof(float) * floats + (size_t)rank) / (size_t)size);
}

#endif
