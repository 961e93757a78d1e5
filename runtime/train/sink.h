/*
 * sink.h - what a run reports, and the sink that receives it, on rank 0 only.
 */
#ifndef SINK_H
#define SINK_H

#include "mvbench.h"
#include "runtime/train/rows.h"

struct arrival; /* runtime/table/table.h */
struct config;
struct machine;
struct plan;
struct slice; /* runtime/comm/comm.h */

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
	 * steps [s; NaN: a step without rows]; NULL = not wanted. Only programs that inspect a run
	 * set it. */
	void (*model)(void *self, struct worker *w, const float *step_s, size_t n);
	double steps_wanted_s; /* the run makes as many steps as fit in this time; 0: all, and
				* their durations are not wanted */
	/* status: done, failed or diverged; reason NULL when done */
	char *(*end)(void *self, const char *status, const char *reason, const struct closing *c);
};

#endif
