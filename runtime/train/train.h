/*
 * train.h - the main loop of a worker, and the sink that receives its results, on rank 0 only.
 */
#ifndef TRAIN_H
#define TRAIN_H

#include "runtime/config/config.h"
#include "runtime/table/table.h"

/* Does the strategy need layer_ready for any layer? Not in the warm-up (epoch.c). */
bool wants_layers(const struct worker *w);

/* ---- cluster.c: the machines of a run ---- */

enum { CPUS_MOST = 1024, COMMIT_ROOM = 64 };
/* The host of a rank, as the rank reports it. */
struct rank_row {
	char host[64], cpu[96], address[48], libraries[224], commit[COMMIT_ROOM];
	int gpus;     /* that it sees on its host, if it computes on one; otherwise 0 */
	uint64_t gpu; /* identity of the one that it computes on */
	bool mps;
	double load, mhz;               /* when the run begins; NaN: unknown */
	int64_t link_speed;             /* of the network of that address [bit/s]; 0: unknown */
	int32_t slot;                   /* on its host, from 0 */
	int32_t cores;                  /* number that it may use */
	uint8_t allowed[CPUS_MOST / 8]; /* one bit for each of them */
};
struct cluster {
	int ranks, workers, hosts;
	/* the rest is known to rank 0 only; a text is NULL if it does not apply */
	struct rank_row *rank;
	bool oversubscribed; /* a host has fewer cores than compute threads, or workers share a GPU
			      */
	bool shares_gpus;    /* workers share a GPU */
	char *names;         /* of the hosts, sorted: "a,b" */
	char *placement;     /* in the form of --placement; "" on one host */
	char *launcher;      /* "mpirun", "mpirun, Slurm job 12" */
	char *mpi_settings;  /* in Open MPI's environment: "btl_tcp_flags=1 osc=^ucx" */
	double latency_s, bandwidth; /* between hosts, one way [s], [bytes/s]; NaN on one */
};
/* Collective. NULL, or a message, the same on all ranks: one rank runs another build. */
char *cluster_find(struct link *l, int workers, const struct run *run, const struct plan *p,
		   struct cluster *c);
void cluster_free(struct cluster *c);
/* Collective: has this rank the same rows as rank 0 in each of data[n]? NULL or a message. */
char *cluster_check_data(struct link *l, const struct data *const data[], size_t n);

struct experiment { /* what is known when a run begins */
	const struct config *config;
	const struct machine *machine;
	const struct plan *plan;
	const char *started;    /* ISO 8601, UTC */
	const char *table_home; /* where parameter-server tables live; NULL: the run has none */
	const char *transport;  /* of vectors on GPUs; NULL: no such vector is sent */
	const struct cluster *cluster; /* NULL: simulated */
	const char *checkpoint;        /* the run's name in its checkpoints; NULL: it makes none */
	bool resumes;                  /* it continues a run after this epoch: */
	int64_t epoch;
};

/* Figures of a whole run, at its end. */
struct closing {
	char model_hash[17]; /* of the canonical model's floats; "" = the model has none */
	struct world_cost cost;
};

struct shards;

/* A value of each epoch: the rows of a push that was dropped and will not be repeated. */
#define ROWS_LOST "rows of a dropped push"

/* Values that a strategy reported in an epoch (worker_report). */
struct epoch_value {
	char name[32];
	double sum, count; /* of the reported values */
};
struct epoch_values {
	struct epoch_value of[REPORTS_MOST];
	int n;
};

/* Each returns NULL or a message; a message makes the run fail. A slot may be NULL: it is not
 * called. */
struct sink {
	void *self;
	char *(*begin)(void *self, const struct experiment *e, int64_t *id);
	/* staleness: number of the epoch's pushes in each of STALENESS_BINS bins; NULL = there
	 * were no pushes. values: that the strategy reported in it; NULL = none. */
	char *(*epoch)(void *self, const struct epoch_row *row, const struct split_row *ranks,
		       int n, const int64_t *staleness, const struct epoch_values *values);
	/* With --split, after begin: the number of rows of each class that each model trains on,
	 * [models x classes] (classes 0: [models]); `share` workers hold one model. */
	char *(*shards)(void *self, const int64_t *rows, size_t models, size_t classes, int share);
	/* With --eval-every: a point, before the epoch that it lies in. */
	char *(*point)(void *self, const struct point_row *row);
	/* With --record: after each segment, before its epochs. */
	char *(*arrivals)(void *self, const struct arrival *a, size_t n);
	/* With --trace: after each segment and its evaluation; by rank, in order. lost: number of
	 * events for which there was no room. */
	char *(*events)(void *self, const struct slice *e, size_t n, size_t lost);
	/* On every rank at the end, with the final model in w->param, and the durations of its n
	 * steps [s]; NULL = not wanted. Only programs that inspect a run set it. */
	void (*model)(void *self, struct worker *w, const float *step_s, size_t n);
	double steps_wanted_s; /* the run makes as many steps as fit in this time; 0: all, and
				* their durations are not wanted */
	/* status: done, failed or diverged; reason NULL when done */
	char *(*end)(void *self, const char *status, const char *reason, const struct closing *c);
};

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
