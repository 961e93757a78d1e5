/*
 * config.h - one experiment: the core options and those of its plug-ins, and the machine; commands
 * and their help.
 */
#ifndef CONFIG_H
#define CONFIG_H

#include "runtime/config/option.h"
#include "runtime/config/run.h"

#include <string.h>

#define DATABASE "mvbench.db" /* the default */

struct data;
struct plan;
struct simulation;

extern const struct option run_options[]; /* of struct config; ends at name NULL */

/* The core options that strategies and workloads do not see. */
struct harness_options {
#define OPTION_RUN(...)
#define OPTION_HARNESS(field, type, ...) FIELD_OF_##type field;
#include "runtime/config/run_options.def"
};

/* One experiment: the core options and those of its plug-ins, resolved. */
struct config {
	struct run run;
	struct harness_options harness;
	const struct strategy *strategy;
	const struct workload *workload;
	const struct optimizer *optimizer;
	const struct codec *codec;
	void *strategy_opts, *workload_opts, *optimizer_opts, *codec_opts;
	char **strings; /* the strings that fields point to */
	size_t nstrings;
	bool servers_chosen; /* config_init has set run.servers, to more than 0 */
};
/* Later settings win, also over the workload's recipe. lenient: options of plug-ins that this
 * configuration does not use are checked by name only (job files share their defaults). */
char *config_init(struct config *c, const struct setting *given, size_t n, bool lenient);
/* The same of what a file has recorded. Opens none of the files that it names: all that they decide
 * is recorded, too. */
char *config_init_recorded(struct config *c, const struct setting *given, size_t n);
void config_fini(struct config *c);
/* NULL: workers may make different numbers of steps in an epoch; otherwise why they may not. */
const char *config_why_static(const struct config *c);
/* Both are freed at the end of their block: struct config c AUTOCONFIG = {0}. */
#define AUTOCONFIG __attribute__((cleanup(config_fini)))
#define AUTOWORDS  __attribute__((cleanup(autowords)))
/* NULL, or a message: does each option exist, and have a value if it needs one? */
char *settings_check(const struct setting *given, size_t n);
/* NULL, or a message: does this option exist, core or a plug-in's, and is the value valid? */
char *config_check(const char *name, const char *value, const struct option **out);
/* The options of a configuration with their values as text, one after the other:
 *	for (struct config_option at = {.config = c}; config_next(&at);)
 *		... at.option, at.value ... */
struct config_option {
	const struct config *config;
	const struct option *option;
	const char *owner;  /* the plug-in's name; NULL: a core option */
	const char *part;   /* "run", or the owner's: "strategy", ... */
	const char *value;  /* valid until the next call */
	const void *fields; /* from here on: private to config_next */
	int next;
	char number[64];
};
bool config_next(struct config_option *at);
void config_hash(const struct config *c, char hex[17]); /* the identity of a cell */
/* Is this value part of a cell's identity? */
bool option_decides(const struct option *o, const char *value);
/* Does the value follow from another option? Then it must not be given. */
bool option_follows(const struct config_option *at);
/* The name of its column in the database: '_' for '-' and '.'. Returns column. */
enum { COLUMN_ROOM = 64 };
const char *option_column(const struct option *o, char column[COLUMN_ROOM]);

/* ---- The machines of --hostfile (hosts.c) ---- */

#define HOSTFILE_VARIABLE "MVBENCH_HOSTFILE"
#define LAB_FOLDER        "/run/mvbench-lab" /* exists in a lab (runtime/launch/lab.h) */

struct host {
	char *name;
	int slots; /* -1: not given */
};
struct host_list {
	struct host *host;
	size_t n;
};
char *host_list_read(const char *path, struct host_list *l);
void host_list_fini(struct host_list *l);
/* Sets number[workers + servers], the host of each rank, by --placement or by slots. NULL, or a
 * message. */
char *host_list_deal(const struct host_list *l, const struct config *c, int *number);
char *config_hosts(const struct config *c, int *number); /* the same, of --hostfile */
static inline bool is_simulated(const struct config *c)  /* then all workers are one process */
{
	return strcmp(c->run.platform, "sim") == 0;
}
/* Is there more than one process, or may it be on another machine? */
static inline bool config_needs_mpirun(const struct config *c)
{
	return !is_simulated(c) && (c->run.workers + c->run.servers > 1 || *c->harness.hostfile);
}
/* A simulated platform as mvbench list shows it, sim:NAME, without the front. */
static inline const char *platform_name(const char *name)
{
	return strncmp(name, "sim:", 4) == 0 ? name + 4 : name;
}
/* Does this configuration simulate the calibrated hosts (sim:hosts)? */
bool config_simulates_hosts(const struct config *c);
int hosts_with_workers(const int *number, int workers);
/* ---- Simulated clusters that options describe (clusters.c) ---- */

/* nodes machines of `gpus` workers each, evenly over the sites. Rates [bit/s], in each direction;
 * latencies of an empty message [s]. */
struct cluster_shape {
	const char *name, *summary;
	int64_t nodes, gpus, sites;
	double rate, latency;             /* between machines */
	double inner_rate, inner_latency; /* between workers of one machine */
	double site_rate, site_latency;   /* site_latency: in addition */
	double oversubscription;
};
extern const struct cluster_shape clusters[]; /* the named ones; ends at name NULL */
/* Does --sim.platform name one? *k: what the options make of it. */
bool cluster_of(const struct config *c, struct cluster_shape *k);
char *cluster_refuse(const struct config *c); /* NULL, or a message */

/* "100mbit" in bit/s; 0 = unshaped. bit_rate_check: NULL, or a message if text is not a rate. */
double bit_rate(const char *text);
char *bit_rate_check(const struct option *o, const char *text);
/* The value of --placement for these hosts; "" = all ranks on one host. Heap. */
char *placement_text(const int *number, int workers, int servers);

/* One worker's --speed, --pause, --leave and --sim.slow-link (heterogeneity.c). Times count from
 * the start of the first segment and over segments only, not during evaluation. */
#define NEVER INT64_MAX
struct heterogeneity {
	double speed;         /* its gradients take 1 / speed times as long; (0, 1] */
	nsec pause_at, pause; /* before the first step after pause_at it waits for `pause` */
	nsec leave_at;        /* it makes no step after this time */
	double link;          /* share of the bandwidth of its links; (0, 1] */
};
/* Defaults if the options do not name this worker. */
struct heterogeneity heterogeneity_of(const struct run *run, int rank);
static inline int64_t arrival_seed(const struct run *run)
{
	return run->arrival_seed ? run->arrival_seed : run->seed;
}
/* NULL, or a message: is text a valid list for o, one of these options? */
char *heterogeneity_check(const struct option *o, const char *text);
/* NULL, or a message: can these options apply to the workers of this run? */
char *heterogeneity_refuse(const struct config *c);
/* The rows whose gradient takes --step-time or --sim.step-time: a mini-batch, or the global batch
 * that the workers share. */
static inline int64_t timed_rows(const struct run *run)
{
	return run->global_batch ? run->global_batch : run->batch;
}
/* The arguments that give this configuration again: --name=value ..., ends at NULL; free with
 * free_words. */
char **config_words(const struct config *c);
void free_words(char **words);
static inline void autowords(char ***words)
{
	free_words(*words);
}
/* The learning rate of a step. Epochs count from 1; fraction: part of the epoch that is over, [0,
 * 1); models: number of models that train in parallel (--lr-scale). */
double lr_at(const struct run *run, int models, int64_t epoch, double fraction);
void lr_fill(const struct run *run, int models, int64_t epoch, float *lr, size_t steps);
/* ---- The content of data (data_hash.c) ---- */

struct data;
struct dataset;
enum { DATA_HASH_ROOM = 17 };
void data_hash(const struct data *train, const struct data *test, char hash[DATA_HASH_ROOM]);
/* The hash of what the set loads; "" = its data cannot change, or cannot be loaded. It begins with
 * DATA_OF_SEED if the data depend on --seed, and is then that of seed 1. Valid while the process
 * knows fewer sets: copy it. */
#define DATA_OF_SEED 's'
const char *data_hash_find(const struct run *run, const struct dataset *set);
/* Does --sim.platform name a file of the user's own? Its hash; false and errno: it cannot be read.
 */
static inline bool platform_is_file(const char *name)
{
	return strchr(name, '/') || strstr(name, ".xml");
}
bool platform_hash(const char *file, char hash[DATA_HASH_ROOM]);

/* NULL, or a message: is this "auto" (NaN) or a time above 0? seconds may be NULL. */
char *time_check(const char *name, const char *text, double *seconds);
/* --split (split.c). own: each model has its own rows, the same in every epoch; alpha: of the
 * Dirichlet distribution that skews their labels, 0 = uniform; by_class: it gives the models'
 * shares of each class, not the classes' shares of each model. */
struct data_split {
	bool own, by_class;
	double alpha;
};
struct data_split data_split_of(const struct run *run);
char *data_split_check(const struct option *o, const char *text); /* NULL, or a message */
/* NULL, or a message: is this a schedule? */
char *lr_schedule_check(const struct option *o, const char *schedule);
/* The number of workers that share one model: from the strategy, or 1. */
int config_model_workers(const struct config *c);

/* NULL, or a message: can --validation be held out of `rows` rows if `models` models train? */
char *validation_check(const struct run *run, size_t rows, int64_t models);
/* Reduces both parts to the rows that the workload uses. NULL, or a message. */
char *data_cut(const struct workload *w, const void *opts, struct data *train, struct data *test);
/* Moves the validation rows from the training set to held, which points into the same memory; other
 * rows may move. If there are only shapes it changes only lengths. */
void validation_split(const struct run *run, struct data *train, struct data *held);

/* ---- Checkpoints (checkpoint.c): files of --save ---- */

enum { HASH_ROOM = 24, NAME_ROOM = 64 };
/* The layout in the file; texts are padded with zeros. */
struct checkpoint_head {
	char magic[8];
	uint32_t version, order;        /* order: of bytes */
	int64_t bytes;                  /* of the file */
	int64_t workers, epochs, epoch; /* epoch: the last one before this checkpoint */
	int64_t params, buffers;        /* floats of the whole model */
	uint64_t layout;                /* of its layers, as in struct plan */
	char workload[NAME_ROOM], strategy[NAME_ROOM];
	char config_hash[HASH_ROOM], model[HASH_ROOM]; /* model: hash of its floats */
	char run[HASH_ROOM];                           /* name of the run, in all its checkpoints */
	double elapsed, first_loss;                    /* see struct trainer */
	int64_t trained;
	int64_t ended; /* its run has ended: no state to continue from */
};
/* A model, and the state of each worker. */
struct checkpoint {
	struct checkpoint_head head;
	int64_t *state_bytes; /* [workers], multiples of a float's */
	float *model;         /* [params + buffers], the evaluated model */
	char *state;          /* the workers' states, one after the other */
};
/* The path of --save's file: heap; NULL: no --save. */
char *checkpoint_path(const struct config *c);
/* Reads the head of a checkpoint file, which `option` names: NULL, or a message. */
char *checkpoint_read_head(const char *option, const char *path, struct checkpoint_head *head);
/* Reads the checkpoints to start with (*initial) and to continue from (*resumed); NULL: none. p has
 * the model's layout. NULL, or a message. */
char *checkpoint_find(const struct config *c, const struct plan *p, struct checkpoint **initial,
		      struct checkpoint **resumed);
/* Completes the head and writes the file. NULL, or a message. */
char *checkpoint_write(const char *path, struct checkpoint *k);
char *checkpoint_mark_ended(const char *path); /* reads and writes it: its run has ended */
void checkpoint_free(struct checkpoint *k);    /* NULL is fine */
void checkpoint_model_hash(const struct checkpoint *k, char hash[HASH_ROOM]);

/* ---- Plug-ins: built-in ones, then those from users' files (plugins.c) ---- */

enum part { PART_STRATEGY, PART_WORKLOAD, PART_OPTIMIZER, PART_CODEC, PART_COUNT };
extern const char *const part_names[PART_COUNT]; /* "strategy", ...: also the choosing option */
/* The part whose plug-in this core option chooses; PART_COUNT = none. */
enum part option_chooses(const struct option *o);
/* The i-th plug-in of a part: the first member of a strategy, workload, optimizer or codec. NULL:
 * the end. */
const struct plugin *plugin_at(enum part part, size_t i);
/* The plug-in of this name, a pointer to its struct plugin, too. NULL: unknown name. */
const void *plugin_find(enum part part, const char *name);
/* The names of one part, or of all (PART_COUNT). */
enum { PLUGINS_MOST = 256 };
size_t plugin_names(enum part part, const char *name[PLUGINS_MOST]);
/* The plug-in that a user gives by name or file. A file is compiled and loaded once; it may be of
 * any part if part is PART_COUNT. given: its NAME.source chooses among several files of that name.
 * NULL, or a message. */
char *plugin_choose(enum part part, const char *typed, const struct setting *given, size_t n,
		    const struct plugin **out);
/* Loads the plug-ins of all parts that settings name, before their options are used. NULL, or a
 * message. */
char *plugins_load(const struct setting *given, size_t n);
bool plugin_is_file(const char *typed); /* a file, not a name */
/* The text by which this program or a worker finds the same version again. Heap. */
char *plugin_typed(const struct plugin *p);

/* The file of a plug-in, loaded (plugin_file.c). */
struct loaded {
	enum part part;
	const struct plugin *plugin; /* in a copy, which has one more option: `source` */
	char *path;                  /* "" = from the cache, by its source only */
	char source[SHA256_ROOM];    /* of the file and the files that it includes next to it */
};
/* Gets a file of a plug-in's source; the plug-in itself is the first. */
typedef void source_function(void *ctx, const char *hash, const char *file, const char *text);
/* Calls keep for the files that the plug-in was made from, if it was loaded from a .c or .py that
 * is still the same. */
void plugin_file_sources(const struct loaded *l, source_function *keep, void *ctx);
void plugin_sources(const struct plugin *p, source_function *keep, void *ctx);
/* The option `source`: the hash, in a field at this offset. */
struct option plugin_source(const char *source, size_t offset);
/* file: PATH, PATH#SHA256, or NAME#SHA256 for a compiled one in the cache. NULL, or a message. */
char *plugin_file_load(enum part part, const char *file, struct loaded *out);

struct machine { /* provenance; strings live as long as the program */
	const char *host, *cpu, *mpi, *onednn, *git_commit;
	const char *version; /* the commit, with -dirty if files were changed */
	int cores;
	bool git_dirty;
};
const struct machine *machine(void);

/* ---- Commands and their help (command.c); main.c lists them ---------------------------- */

struct word {             /* a possible argument of a command */
	const char *kind; /* "figure", "job file" */
	const char *name, *summary, *needs;
	const char *path; /* of its files, without .sql and .gp */
};

struct command {
	const char *name, *summary;
	/* The words after the name. The first one states the argument: FILE.ini, FIGURE, TOPIC, or
	 * a choice a|b|c; in brackets if it is optional. */
	const char *usage;
	const char *about;            /* for --help: paragraphs, an empty line between them */
	const struct option *options; /* its own; ends at name NULL */
	size_t size;                  /* of the struct that has their fields */
	bool run_options;             /* also takes every option of mvbench run */
	bool any_option;              /* also takes any other option, without a value */
	bool pages;                   /* a terminal shows its output through a pager */
	struct setting alone;         /* an own option with its value if the user gives none */
	const char *example; /* an option, for a command that takes no words; NULL = words */
	/* The possible first words, if only the command knows them; NULL = see usage. */
	void (*words)(void (*each)(void *ctx, const struct word *w), void *ctx);
	/* options: its own; rest: the other options, and the words. Returns NULL, or a message. The
	 * exit status is *status; EXIT_OK with a message means EXIT_USER. */
	char *(*run)(void *options, struct arguments *rest, int *status);
	/* Prints help after the options; given: the other arguments, or NULL. NULL, or a message.
	 * The slot is NULL if there is no more help. */
	char *(*more)(FILE *f, const struct arguments *given);
};
/* Reads the words after the command's name and runs it, or prints --help; returns the exit
 * status. */
int command_start(const struct command *c, int argc, char **argv);
/* From here on a pager shows what is printed, if stdout is a terminal and there is one. */
void pager_start(void);
/* Do people see on a terminal what is written to f, directly or through the pager? */
bool on_terminal(FILE *f);
/* Prints the message once, although every rank of a launcher finds it, and frees it; returns the
 * exit status. */
int command_refuse(char *wrong);

/* A page of help: as text, or as the source of a manual page (roff). Each part except a title
 * begins with an empty line. */
struct help {
	FILE *f;
	bool roff;
};
void help_head(const struct help *p, int level, const char *text); /* level: 1 or 2 */
void help_words(const struct help *p, const char *text); /* paragraphs, an empty line between */
void help_row(const struct help *p, const char *left, const char *right);
void help_options(const struct help *p, const char *owner, const struct option *table);
void help_rows(const struct help *p, const char *owner,
	       const struct option *table); /* without the empty line */
void help_verbatim(const struct help *p, const char *text);
/* Prints the --help of a command from its row. level: of its headings. */
void help_command(const struct help *p, int level, const struct command *c);

/* A workload's recipe as options; heap. */
char *recipe_words(const struct setting *recipe);

/* Everything that a user can choose (list.c). */
struct choice {
	/* "strategy", "updater", "optimizer", "codec", "workload", "device", "platform" */
	const char *kind;
	const char *name, *summary;
	const struct plugin *plugin; /* has its options; NULL: no plug-in */
	const void *of;              /* the strategy, updater, workload or device */
};
void catalogue_each(void (*each)(void *ctx, const struct choice *e), void *ctx);

#endif
