/*
 * train.h - a worker's life, and the sink that its results leave through, on rank 0 only.
 */
#ifndef TRAIN_H
#define TRAIN_H

#include "runtime/config/config.h"
#include "runtime/table/table.h"

/* ---- cluster.c: the machines of a run ---- */

enum { CPUS_MOST = 1024, COMMIT_ROOM = 64 };
/* What a rank knows of where it is. */
struct rank_row {
	char host[64], cpu[96], address[48], libraries[224], commit[COMMIT_ROOM];
	int gpus; /* of its host, where it computes on one; else 0 */
	bool mps;
	double load, mhz;               /* when the run begins; NaN: not known */
	int64_t link_speed;             /* of the network of that address [bit/s]; 0: not known */
	int32_t slot;                   /* on its host, from 0 */
	int32_t cores;                  /* that it may use: */
	uint8_t allowed[CPUS_MOST / 8]; /* a bit each */
};
struct cluster {
	int ranks, workers, hosts;
	/* the rest is known to rank 0 only, texts NULL where there is nothing to say */
	struct rank_row *rank;
	bool oversubscribed; /* a host has fewer cores than compute threads, or GPUs than workers */
	char *names;         /* of the hosts, sorted: "a,b" */
	char *placement;     /* as --placement says it; "" on one host */
	char *launcher;      /* "mpirun", "mpirun, Slurm job 12" */
	char *mpi_settings;  /* of Open MPI's environment: "btl_tcp_flags=1 osc=^ucx" */
	double latency_s, bandwidth; /* between hosts, one way [s], [bytes/s]; NaN on one */
};
/* Collective. NULL, or a sentence that all ranks have: one is of another build. */
char *cluster_find(struct link *l, int workers, const struct run *run, const struct plan *p,
		   struct cluster *c);
void cluster_free(struct cluster *c);
/* Collective: NULL, or a sentence: has this rank the rows that rank 0 has, in each of data[n]? */
char *cluster_check_data(struct link *l, const struct data *const data[], size_t n);

struct experiment { /* what is known when a run begins */
	const struct config *config;
	const struct machine *machine;
	const struct plan *plan;
	const char *started;    /* ISO 8601, UTC */
	const char *table_home; /* where parameter-server tables live; NULL: the run has none */
	const char *transport;  /* of vectors on GPUs; NULL: none travel */
	const struct cluster *cluster; /* NULL: simulated */
	const char *checkpoint;        /* the run's name in its checkpoints; NULL: it makes none */
	bool resumes;                  /* it goes on: from after this epoch */
	int64_t epoch;
};

/* What is known of a run when it ends. */
struct closing {
	char model_hash[17]; /* of the canonical model's floats; "" = it has none */
	bool simulated;
	struct world_cost cost;
};

struct shards;

/* What a strategy said of an epoch (worker_report). */
struct epoch_value {
	char name[32];
	double sum, count; /* of what was said, and how often */
};
struct epoch_values {
	struct epoch_value of[REPORTS_MOST];
	int n;
};

/* Each returns NULL or a sentence; after a sentence the run fails. A slot that is NULL is not
 * wanted. */
struct sink {
	void *self;
	char *(*begin)(void *self, const struct experiment *e, int64_t *id);
	/* staleness: how many of the epoch's pushes fell into each of STALENESS_BINS bins; NULL =
	 * there were no pushes. */
	char *(*epoch)(void *self, const struct epoch_row *row, const struct split_row *ranks,
		       int n, const int64_t *staleness);
	/* What the strategy said of an epoch, if it did: after that epoch. */
	char *(*values)(void *self, int64_t epoch, const struct epoch_values *r);
	/* With --split, after begin: how many rows of each class each model trains on, [models x
	 * classes] (classes 0: [models]); share workers hold one model. */
	char *(*shards)(void *self, const int64_t *rows, size_t models, size_t classes, int share);
	/* What --judge-every asks for: before the epoch that they lie in. */
	char *(*point)(void *self, const struct point_row *row);
	/* What --record asks for: after each segment, before its epochs. */
	char *(*arrivals)(void *self, const struct arrival *a, size_t n);
	/* What --trace asks for: after each segment and its evaluation; by rank, in order. lost:
	 * events that there was no room for. */
	char *(*events)(void *self, const struct slice *e, size_t n, size_t lost);
	/* On every rank at the end: how long each of its steps took [s]. */
	void (*steps)(void *self, struct worker *w, const float *step_s, size_t n);
	double steps_wanted_s; /* with steps: as many are taken as fit in this time */
	/* Called on every rank at the end: the final model stands in w->param; only programs that
	 * look into a run set it. */
	void (*model)(void *self, struct worker *w);
	/* Before the end of a run that is done or has diverged. */
	char *(*closing)(void *self, const struct closing *c);
	/* status: done, failed or diverged; reason NULL when done */
	char *(*end)(void *self, const char *status, const char *reason);
};

/* What all workers of a process have in common (data.c): the data set, which the first that asks
 * loads and the last one frees; NULL or the load's sentence. */
char *data_open(const struct worker *w, struct data *train, struct data *validation,
		struct data *test);
void data_close(const struct dataset *set);
/* Rows of a data set. */
struct rows {
	int32_t *index; /* [n], heap */
	size_t n;
};
/* So many of n rows (all, where there are fewer), in their order: whatever the run, the same ones.
 */
struct rows data_sample(size_t n, size_t most);
/* Of the training set, on which models are evaluated. */
enum { TRAIN_ROWS_EVALUATED = 5000 };
/* An epoch's permutation of n rows, sorted by the shards that they are of (NULL: as it is); valid
 * until the next call. */
const int32_t *data_order(size_t n, int64_t seed, int64_t epoch, struct shards *s);
/* Those of this run, made by the first that asks: rows[m] for model m of `models`. */
struct shards *data_shards(const struct data *train, const struct run *run, const size_t *rows,
			   size_t models);
void data_shards_close(void);

/* ---- shards.c: rows that a model keeps for the whole run ---- */

struct shards {
	size_t n, models;
	size_t *first;    /* [models + 1] where a model's rows begin in an epoch's order */
	int32_t *owner;   /* [n] the model that has this row */
	size_t *next;     /* [models], and */
	int32_t *scratch; /* [n]: of shards_sort, which allocates nothing */
};
/* rows[m] for model m, all n together. Labels that are not there are not looked at. */
struct shards *shards_new(const struct data *train, const struct data_split *split, int64_t seed,
			  const size_t *rows, size_t models);
void shards_free(struct shards *s); /* NULL is fine */
/* row[n], a permutation: sorted by owner, else in the order that it has. */
void shards_sort(struct shards *s, int32_t *row);
/* rows[models x classes]: of each class; without classes rows[models]. */
void shards_count(const struct shards *s, const struct data *train, int64_t *rows);

/* A worker's whole life, or the lives of all simulated ones; returns the exit status. page may be
 * NULL. */
int train(const struct config *c, const struct plan *plan, const struct sink *sink,
	  struct status_page *page);

#endif
