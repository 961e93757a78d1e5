/*
 * config.h - one experiment: the core options and those of its strategy and workload, what probing
 * finds out about it, and the machine; commands and their help.
 */
#ifndef CONFIG_H
#define CONFIG_H

#include "runtime/config/option.h"
#include "runtime/device/device.h"

#define DATABASE "mvbench.db" /* when none is named */

extern const struct option run_options[]; /* of struct config; ends at name NULL */

/* The core options that strategies and workloads do not see. */
struct own {
#define OPTION_RUN(...)
#define OPTION_OWN(field, type, ...) FIELD_OF_##type field;
#include "runtime/config/run_options.def"
};

/* One experiment: the core options and those of its strategy and workload, resolved. */
struct config {
	struct run run;
	struct own own;
	const struct strategy *strategy;
	const struct workload *workload;
	const struct optimizer *optimizer;
	void *strategy_opts, *workload_opts, *optimizer_opts;
	char **strings; /* what the fields point to */
	size_t nstrings;
	bool servers_chosen; /* run.servers was not given, and are not 0 */
};
/* Later settings win; the workload's recipe stands below them. lenient: options of plug-ins that
 * this configuration does not use are checked by name only (job files share their defaults). */
char *config_init(struct config *c, const struct setting *given, size_t n, bool lenient);
void config_fini(struct config *c);
/* NULL: one worker can make more steps of an epoch than another; else why none can. */
const char *config_even(const struct config *c);
/* Both end where their block does: struct config c AUTOCONFIG = {0}. */
#define AUTOCONFIG __attribute__((cleanup(config_fini)))
#define AUTOWORDS  __attribute__((cleanup(autowords)))
/* NULL, or a sentence: is there an option of each name, with a value if it needs one? */
char *settings_check(const struct setting *given, size_t n);
/* NULL, or a sentence: is there such an option, core or a plug-in's, and is this a value of it? */
char *config_check(const char *name, const char *value, const struct option **out);
/* Calls each(ctx, part, option, value as text) for every option; part: "run", "strategy",
 * "workload", "optimizer". */
void config_each(const struct config *c,
		 void (*each)(void *ctx, const char *part, const struct option *o,
			      const char *value),
		 void *ctx);
/* "batch", "asgd.updater": an option of that part as one would type it. Heap. */
char *option_full_name(const struct config *c, const char *part, const struct option *o);
void config_hash(const struct config *c, char hex[17]); /* the identity of a cell */
/* What it was for runs of before there was such an option. */
const char *option_earlier(const struct option *o);
/* Is this value a part of it? */
bool option_decides(const struct option *o, const char *value);
/* Does its value follow from another's in c, so that it is not to be given? */
bool option_follows(const struct config *c, const char *part, const struct option *o);
/* The name of its column in the database: '_' for '-' and '.'. Returns column. */
enum { COLUMN_ROOM = 64 };
const char *option_column(const struct option *o, char column[COLUMN_ROOM]);

/* ---- The machines of --hostfile (hosts.c) ---- */

#define HOSTFILE_VARIABLE "MVBENCH_HOSTFILE"
#define LAB_FOLDER        "/run/mvbench-lab" /* where there is a lab (runtime/launch/lab.h) */

struct host {
	char *name;
	int slots; /* 0: not said */
};
struct host_list {
	struct host *host;
	size_t n;
};
char *host_list_read(const char *path, struct host_list *l);
void host_list_fini(struct host_list *l);
/* number[workers + servers]: which of them each rank is to be on, by --placement or by slots. NULL,
 * or a sentence. */
char *host_list_deal(const struct host_list *l, const struct config *c, int *number);
char *config_hosts(const struct config *c, int *number); /* the same, of --hostfile */
/* Are the machines simulated whose wires were calibrated? */
bool config_simulates_hosts(const struct config *c);
int hosts_with_workers(const int *number, int workers);
/* "100mbit" [bit/s]; 0 = unshaped. And: NULL, or a sentence: is it one? */
double bit_rate(const char *text);
char *bit_rate_check(const struct option *o, const char *text);
/* As --placement says it; "" = all on one host. Heap. */
char *placement_text(const int *number, int workers, int servers);

/* What --speed, --pause, --leave and --sim.slow-link say of one worker (heterogeneity.c). Times
 * count from the start of the first segment, over segments only: while models are evaluated they
 * stand still. */
#define NEVER INT64_MAX
struct heterogeneity {
	double speed;         /* its gradients take 1 / speed times as long; (0, 1] */
	nsec pause_at, pause; /* before the first step from then on it stands still, so long */
	nsec leave_at;        /* the first step from then on, and all after it, it does not make */
	double link;          /* of the bandwidth of its links; (0, 1] */
};
/* as every other, if nothing is said */
struct heterogeneity heterogeneity_of(const struct run *run, int rank);
static inline int64_t arrival_seed(const struct run *run)
{
	return run->arrival_seed ? run->arrival_seed : run->seed;
}
/* NULL, or a sentence: is this such a list as o, one of these options, takes? */
char *heterogeneity_check(const struct option *o, const char *text);
/* NULL, or a sentence: can the workers of this run be told so? */
char *heterogeneity_refuse(const struct config *c);
/* The rows whose gradient takes --step-time or --sim.step-time: a mini-batch, or the global batch
 * that the workers share. */
static inline int64_t timed_rows(const struct run *run)
{
	return run->global_batch ? run->global_batch : run->batch;
}
/* The arguments that give this configuration again: --name=value ..., ends at NULL; for
 * free_words. */
char **config_words(const struct config *c);
void free_words(char **words);
static inline void autowords(char ***words)
{
	free_words(*words);
}
/* The learning rate of a step: epochs count from 1, fraction is how much of it is over [0, 1),
 * models how many train in parallel (--lr-scale). */
double lr_at(const struct run *run, int models, int64_t epoch, double fraction);
void lr_fill(const struct run *run, int models, int64_t epoch, float *lr, size_t steps);
/* NULL, or a sentence: is this "auto" (NaN) or a time above 0? seconds may be NULL. */
char *time_check(const char *name, const char *text, double *seconds);
/* What --split says (split.c). own: a model has rows of its own, the same in every epoch; alpha: of
 * the Dirichlet distribution that skews their labels, 0 = they are drawn evenly. */
struct data_split {
	bool own;
	double alpha;
};
struct data_split data_split_of(const struct run *run);
char *data_split_check(const struct option *o, const char *text); /* NULL, or a sentence */
/* NULL, or a sentence: is this a schedule? */
char *lr_schedule_check(const struct option *o, const char *schedule);
/* How many workers share one model: what the strategy says, or 1. */
int config_model_workers(const struct config *c);

/* NULL, or a sentence: can --validation be held out of so many rows, where so many models train? */
char *validation_check(const struct run *run, size_t rows, int64_t models);
/* The rows of both parts become those of the workload. NULL or a sentence. */
char *data_cut(const struct workload *w, const void *opts, struct data *train, struct data *test);
/* Takes these rows away from the training set, whose other rows may move; held has no memory of
 * its own. Where there are shapes only it is about lengths. */
void validation_split(const struct run *run, struct data *train, struct data *held);

/* ---- Checkpoints (checkpoint.c): files of --save ---- */

enum { HASH_ROOM = 24, NAME_ROOM = 64 };
/* As it lies in the file; texts end in zeros. */
struct checkpoint_head {
	char magic[8];
	uint32_t version, order;        /* order: of bytes */
	int64_t bytes;                  /* of the file */
	int64_t workers, epochs, epoch; /* epoch: after which it was made */
	int64_t params, buffers;        /* floats of the whole model */
	uint64_t layout;                /* of its layers: plan's */
	char workload[NAME_ROOM], strategy[NAME_ROOM];
	char config_hash[HASH_ROOM], model[HASH_ROOM]; /* model: of its floats */
	char run[HASH_ROOM];                           /* its own name: of all that it makes */
	double elapsed, first_loss;                    /* see struct trainer */
	int64_t trained;
	int64_t ended; /* its run has: nothing is left to go on with */
};
/* A model, and what each worker goes on from. */
struct checkpoint {
	struct checkpoint_head head;
	int64_t *state_bytes; /* [workers], multiples of a float's */
	float *model;         /* [params + buffers], as it is evaluated */
	char *state;          /* the workers', one after the other */
};
/* Where --save puts them: heap; NULL: nowhere. */
char *checkpoint_path(const struct config *c);
/* Of the file that --init-from names, without its floats: NULL, or a sentence. */
char *checkpoint_read_head(const char *option, const char *path, struct checkpoint_head *head);
/* NULL, or a sentence. The first two are NULL where there is nothing to begin with, or to go on
 * from; p knows the model. */
char *checkpoint_find(const struct config *c, const struct plan *p, struct checkpoint **initial,
		      struct checkpoint **resumed);
/* Fills in what of head the file decides. NULL, or a sentence. */
char *checkpoint_write(const char *path, struct checkpoint *k);
void checkpoint_free(struct checkpoint *k); /* NULL is fine */
void checkpoint_model_hash(const struct checkpoint *k, char hash[HASH_ROOM]);

/* ---- Plug-ins: those of the lists, then those from files of the user's (plugins.c) ---- */

enum part { PART_STRATEGY, PART_WORKLOAD, PART_OPTIMIZER, PART_COUNT };
extern const char *const part_names[PART_COUNT]; /* "strategy": and the option that chooses one */
/* Does this core option choose a plug-in? Which part; PART_COUNT = it does not. */
enum part option_chooses(const struct option *o);
/* Of the strategy, workload or optimizer that it is the head of; NULL: there are no more. */
const struct plugin *plugin_at(enum part part, size_t i);
/* NULL: there is none of this name. */
const struct strategy *strategy_find(const char *name);
const struct workload *workload_find(const char *name);
const struct optimizer *optimizer_find(const char *name);
/* The plug-in of this name, and the part that it can be of a configuration ("strategy", ...); part
 * NULL = of any. NULL: there is none. */
const struct plugin *plugin_find(const char *name, const char **part);
/* Those of one part, or of all (PART_COUNT). */
enum { PLUGINS_MOST = 256 };
size_t plugin_names(enum part part, const char *name[PLUGINS_MOST]);
/* The one that a user means by its name or file; a file is compiled and loaded, unless it was,
 * and may be of any part (PART_COUNT). given: where NAME.source says which of several that had the
 * name. NULL, or a sentence. */
char *plugin_choose(enum part part, const char *typed, const struct setting *given, size_t n,
		    const struct plugin **out);
/* Loads what settings name, before anybody asks for its options; all parts. NULL, or a sentence. */
char *plugins_load(const struct setting *given, size_t n);
/* The same, of words as a command has them. */
char *plugins_load_words(int argc, char **argv);
bool plugin_is_file(const char *typed); /* and no name */
/* As this program, or a worker of it, finds it again, the file as it is now: from the heap. */
char *plugin_typed(const struct plugin *p);

/* The file of a plug-in, loaded (plugin_file.c). */
struct loaded {
	enum part part;
	const struct plugin *plugin; /* the head of a copy, which has the option `source` too */
	char *path;                  /* "" = from the cache, by its source alone */
	char source[SHA256_ROOM];    /* of the file, and of those that it includes beside it */
};
/* file: PATH, PATH#SHA256, or NAME#SHA256 for what was compiled before. NULL, or a sentence. */
char *plugin_file_load(enum part part, const char *file, struct loaded *out);

struct simulation;

/* What a worker takes of its device's memory [bytes]. */
struct footprint {
	size_t parameters; /* with gradients and velocities */
	size_t activations;
	size_t data;      /* the data set */
	size_t workspace; /* at most, of libraries; and what the device takes for itself */
};

/* What probing found out, before anything is started. */
struct plan {
	struct data train, validation, test; /* shapes only */
	int64_t params, buffers;             /* of the whole model [floats] */
	uint64_t layout;                     /* of its layers: equal models, equal layouts */
	int64_t steps;                       /* of one epoch, where all workers make as many */
	bool dynamic;                        /* its mini-batches go to whoever is free */
	int cores;                           /* that this machine has */
	bool oversubscribed;                 /* fewer cores than compute threads, or */
	bool share_gpus;                     /* fewer GPUs than workers */
	const char *device;                  /* the one that `auto` chose, */
	const char *passed_over;    /* why it took the cpu although a GPU may be there; NULL */
	struct device_facts facts;  /* and what it is */
	struct footprint footprint; /* of one worker, where the device has memory of its own */
	const struct simulation *simulation; /* NULL in the real world */
};
/* Evaluations between the ends of epochs (--judge-every), at most, from one barrier to the next. */
int64_t plan_points(const struct run *run, int64_t steps);
int64_t plan_segment_epochs(const struct run *run); /* between two barriers */
/* Do its options go together, whatever there is here? NULL or a sentence. */
char *plan_refuse(const struct config *c);
/* Checks that this configuration can run here, laying out the model without memory. */
char *plan_make(const struct config *c, struct plan *p);

/* What this machine can give to so many processes, beyond what each takes for itself [bytes].
 * NULL, or a sentence: there is no room for as many. */
char *host_room(int processes, size_t *bytes);

struct machine { /* provenance; strings live as long as the program */
	const char *host, *cpu, *mpi, *onednn, *git_commit;
	int cores;
	bool git_dirty;
};
const struct machine *machine(void);

/* ---- Commands, and what help says of them (command.c): main.c lists them --------------- */

struct word {             /* that can be given to a command */
	const char *kind; /* "figure", "job file" */
	const char *name, *summary, *needs;
	const char *path; /* of its files, without .sql and .gp */
};

struct command {
	const char *name, *summary;
	/* The words after the name. The first says what may stand there: FILE.ini, FIGURE, TOPIC,
	 * or a|b|c to choose from; brackets where it need not. */
	const char *usage;
	const char *about;            /* for --help: paragraphs, an empty line between them */
	const struct option *options; /* its own; ends at name NULL */
	size_t size;                  /* of the struct whose fields they are */
	bool run_options;             /* also takes every option of mvbench run: run gets them */
	bool any_option;              /* also takes any other, without a value */
	struct setting alone; /* an own option that may lack its value, which then is this */
	const char *example;  /* an option; then it takes no words. NULL = words too */
	/* What its first word may be, where only the command knows; NULL = usage says it. */
	void (*words)(void (*each)(void *ctx, const struct word *w), void *ctx);
	/* options: its own; rest: what else was given, and its words. NULL, or a sentence that ends
	 * it; *status: its exit status, EXIT_OK before, which means EXIT_USER with a sentence. */
	char *(*run)(void *options, struct arguments *rest, int *status);
	/* What --help says after the options; given: beside it, NULL = nothing. NULL or a sentence.
	 * The slot is NULL where there is nothing to say. */
	char *(*more)(FILE *f, const struct arguments *given);
};
/* Reads the words after its name, and runs it, or says what --help says; an exit status. */
int command_start(const struct command *c, int argc, char **argv);
/* Says the sentence, which every rank of a launcher finds, once, and frees it: an exit status. */
int command_refuse(char *wrong);

/* A page of help: as text, or as the source of a manual page (roff). Each part but a title begins
 * with an empty line. */
struct help {
	FILE *f;
	bool roff;
};
void help_head(const struct help *p, int level, const char *text); /* level: 1 or 2 */
void help_words(const struct help *p, const char *text); /* paragraphs, an empty line between */
void help_row(const struct help *p, const char *left, const char *right);
void help_options(const struct help *p, const char *owner, const struct option *table);
void help_rows(const struct help *p, const char *owner,
	       const struct option *table); /* no line before */
void help_verbatim(const struct help *p, const char *text);
/* What --help says of a command, made from its row. level: of its heads. */
void help_command(const struct help *p, int level, const struct command *c);

/* A workload's own defaults, as one types them; from the heap. */
char *recipe_words(const struct setting *recipe);

/* All that there is to choose from (list.c). */
struct choice {
	/* "strategy", "updater", "optimizer", "workload", "device", "platform" */
	const char *kind;
	const char *name, *summary;
	const struct plugin *plugin; /* of a strategy or workload, whose options these are */
	const void *of;              /* the strategy, updater, workload or device */
};
void catalogue_each(void (*each)(void *ctx, const struct choice *e), void *ctx);

#endif
