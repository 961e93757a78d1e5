/*
 * train.h - the main loop of a worker.
 */
#ifndef TRAIN_H
#define TRAIN_H

#include "runtime/config/dataset.h"
#include "runtime/config/plan.h"
#include "runtime/train/sink.h"

void layers_needed(struct worker *w); /* calls the strategy's layer_needed for all layers */
/* Does the strategy need layer_ready for any layer? Not in the warm-up (epoch.c). */
bool wants_layers(const struct worker *w);

/* ---- cluster.c: the machines of a run ---- */

/* Collective. NULL, or a message, the same on all ranks: one rank runs another build. */
char *cluster_find(struct link *l, int workers, const struct run *run, const struct plan *p,
		   struct cluster *c);
void cluster_free(struct cluster *c);
/* Collective: has this rank the same rows as rank 0 in each of data[n]? NULL or a message. */
char *cluster_check_data(struct link *l, const struct data *const data[], size_t n);

struct shards;

/* Rows of a data set. */
struct rows {
	int32_t *index; /* [n], heap */
	size_t n;
};
/* A sample of `most` of n rows (all, if there are fewer), in their order; the same in every run. */
struct rows data_sample(size_t n, size_t most);
/* Number of training rows on which models are evaluated. */
enum { TRAIN_ROWS_EVALUATED = 5000 };
/* An epoch's permutation of n rows, sorted by their shards (NULL: not sorted); valid until the next
 * call. */
const int32_t *data_order(size_t n, int64_t seed, int64_t epoch, struct shards *s);
/* The shards of this run, made by the first caller: rows[m] rows for model m of `models`. */
struct shards *data_shards(const struct data *train, const struct run *run, const size_t *rows,
			   size_t models);

/* ---- shards.c: rows that a model keeps for the whole run ---- */

struct shards {
	size_t n, models;
	size_t *first;  /* [models + 1] where a model's rows begin in an epoch's order */
	int32_t *owner; /* [n] the model that has this row */
	size_t *next;   /* [models], with scratch: buffers of shards_sort, which cannot allocate */
	int32_t *scratch; /* [n] */
};
/* x = a random order of the numbers below n. */
void rows_shuffle(int32_t *x, size_t n, uint64_t rng);
/* Model m gets rows[m] rows; the sum is n. Labels are used only where the data has them. */
struct shards *shards_new(const struct data *train, const struct data_split *split, int64_t seed,
			  const size_t *rows, size_t models);
void shards_free(struct shards *s); /* NULL is fine */
/* Sorts row[n], a permutation, by owner; keeps the order of rows of the same owner. */
void shards_sort(struct shards *s, int32_t *row);
/* Counts each model's rows of each class: rows[models x classes]; without classes rows[models]. */
void shards_count(const struct shards *s, const struct data *train, int64_t *rows);

/* Runs a worker, or all simulated ones, from start to end; returns the exit status. page may be
 * NULL. train_try ends when the workers have found that they can train; it records nothing, and
 * prints why they cannot. */
int train(const struct config *c, const struct plan *plan, const struct sink *sink,
	  struct status_page *page);
int train_try(const struct config *c, const struct plan *plan);

#endif
