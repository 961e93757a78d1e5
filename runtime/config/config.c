/*
 * config.c - one experiment's configuration: the core options, those of its strategy and workload,
 * and its identity.
 *
 * A configuration is text: every option can be written down and read back (options.c), so that it
 * travels to workers as words, and its identity is a hash of "part.name=value" lines.
 */
#include "runtime/config/config.h"
#include "runtime/table/table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FIELD(f) .offset = offsetof(struct run, f)

const struct option run_options[] = {
	{.name = "workload",
	 .type = OPT_STRING,
	 FIELD(workload),
	 .def = "mlp",
	 .help = "what is trained, and on which data: see mvbench list workloads [name]"},
	{.name = "strategy",
	 .type = OPT_STRING,
	 FIELD(strategy),
	 .def = "serial",
	 .help = "how the workers keep in step: see mvbench list strategies [name]"},
	{.name = "workers",
	 .type = OPT_INT,
	 FIELD(workers),
	 .def = "1",
	 .min = 1,
	 .max = 4096,
	 .help = "processes that compute gradients [workers]"},
	{.name = "servers",
	 .type = OPT_INT,
	 FIELD(servers),
	 .def = "0",
	 .min = 0,
	 .max = 4096,
	 .help = "processes that only serve parameters; 0: the workers serve them too [servers]"},
	{.name = "table-home",
	 .type = OPT_CHOICE,
	 FIELD(table_home),
	 .def = "auto",
	 .choices = "auto|shared|onesided|servers|gpu",
	 .help = "where a parameter server's tables live: in memory that the workers of one "
		 "machine "
		 "share, in MPI windows that are reached one-sidedly, on --servers, or in a GPU's "
		 "memory [name]"},
	{.name = "record",
	 .type = OPT_BOOL,
	 FIELD(record),
	 .def = "false",
	 .help = "keep the order in which pushes were applied, in table arrival [true/false]"},
	{.name = "trace",
	 .type = OPT_INT,
	 FIELD(trace),
	 .def = "0",
	 .min = 0,
	 .max = 1e6,
	 .incidental = true,
	 .help = "keep the timeline of the first so many steps of each epoch, and of all barriers "
		 "and evaluations, in table event; 0: none [steps]"},
	{.name = "sync-every",
	 .type = OPT_INT,
	 FIELD(sync_every),
	 .def = "1",
	 .min = 1,
	 .max = 1e9,
	 .help = "mini-batches between synchronisations, where a strategy has such [steps]"},
	{.name = "barrier-every",
	 .type = OPT_INT,
	 FIELD(barrier_every),
	 .def = "1",
	 .min = 0,
	 .max = 1e6,
	 .help = "all workers wait for each other at the end of every so many epochs; 0: only at "
		 "the "
		 "very end [epochs]"},
	{.name = "epochs",
	 .type = OPT_INT,
	 FIELD(epochs),
	 .def = "10",
	 .min = 1,
	 .max = 1e6,
	 .help = "passes of all workers together over the training set [epochs]"},
	{.name = "batch",
	 .type = OPT_INT,
	 FIELD(batch),
	 .def = "32",
	 .min = 1,
	 .max = 1e6,
	 .help = "mini-batch of one worker [rows]"},
	{.name = "lr",
	 .type = OPT_REAL,
	 FIELD(lr),
	 .def = "0.1",
	 .min = 0,
	 .max = 1000,
	 .help = "learning rate, before --lr-schedule and --lr-scale [factor]"},
	{.name = "lr-schedule",
	 .type = OPT_STRING,
	 FIELD(lr_schedule),
	 .def = "constant",
	 .help = "constant; step:E1:E2[:xF] times F (0.1) after those epochs; cosine[:FLOOR]; any "
		 "of them "
		 "with warmup:E+ before it, which rises from lr/10 in E epochs [schedule]"},
	{.name = "momentum",
	 .type = OPT_REAL,
	 FIELD(momentum),
	 .def = "0",
	 .min = 0,
	 .max = 1,
	 .help = "heavy ball: v = momentum v + gradient; below 1 [factor]"},
	{.name = "weight-decay",
	 .type = OPT_REAL,
	 FIELD(weight_decay),
	 .def = "0",
	 .min = 0,
	 .max = 10,
	 .help = "adds this times the parameters to the gradient [factor]"},
	{.name = "reduce",
	 .type = OPT_CHOICE,
	 FIELD(reduce),
	 .def = "mean",
	 .choices = "mean|sum",
	 .help = "how contributions of several workers become one"},
	{.name = "lr-scale",
	 .type = OPT_CHOICE,
	 FIELD(lr_scale),
	 .def = "none",
	 .choices = "none|linear|sqrt",
	 .help = "the learning rate is multiplied by 1, N or the square root of N, the number of "
		 "models "
		 "that train in parallel"},
	{.name = "seed",
	 .type = OPT_INT,
	 FIELD(seed),
	 .def = "1",
	 .min = 0,
	 .max = 4294967295.0,
	 .help = "decides initial values, data order and stragglers [number]"},
	{.name = "device",
	 .type = OPT_CHOICE,
	 FIELD(device),
	 .def = "auto",
	 .choices = "auto|cpu|cuda",
	 .help = "where a worker computes; auto: on a GPU if there is one that can be used"},
	{.name = "precision",
	 .type = OPT_CHOICE,
	 FIELD(precision),
	 .later = true,
	 .def = "float32",
	 .choices = "float32|tf32|bf16",
	 .help = "of matrix products and convolutions on GPUs; bf16 also keeps activations so, "
		 "and parameters in float32 [name]"},
	{.name = "transport",
	 .type = OPT_CHOICE,
	 FIELD(transport),
	 .def = "auto",
	 .incidental = true,
	 .choices = "auto|nccl|ipc|mpi|staged",
	 .help = "how vectors on GPUs travel: by NCCL, over GPU memory that others map, by an MPI "
		 "that reads GPUs, or through pinned host memory; auto: the first that can be "
		 "used [name]"},
	{.name = "platform",
	 .type = OPT_CHOICE,
	 FIELD(platform),
	 .def = "mpi",
	 .choices = "mpi|sim",
	 .help = "real workers, or simulated ones in virtual time"},
	{.name = "hostfile",
	 .type = OPT_STRING,
	 FIELD(hostfile),
	 .def = "",
	 .incidental = true,
	 .help = "machines to run on, handed to mpirun; empty: this one [file]"},
	{.name = "data-dir",
	 .type = OPT_STRING,
	 FIELD(data_dir),
	 .def = "",
	 .help = "folder of the data set's files; empty: where its package puts them [folder]"},
	{.name = "threads",
	 .type = OPT_INT,
	 FIELD(threads),
	 .def = "1",
	 .min = 1,
	 .max = 1024,
	 .help = "compute threads of one worker [threads]"},
	{.name = "straggle",
	 .type = OPT_REAL,
	 FIELD(straggle),
	 .def = "0",
	 .min = 0,
	 .max = 10,
	 .help = "random delays: a step takes exp(straggle x normal) times as long, when that is "
		 "longer "
		 "[sigma]"},
	{.name = "speed",
	 .type = OPT_STRING,
	 FIELD(speed),
	 .def = "",
	 .later = true,
	 .help = "slow workers: RANK:FACTOR,..., as in 0:0.5 for a worker 0 whose gradients take "
		 "twice as long; in job files blanks separate, here and below [list]"},
	{.name = "pause",
	 .type = OPT_STRING,
	 FIELD(pause),
	 .def = "",
	 .later = true,
	 .help = "workers that stand still once: RANK:AT:DURATION,..., times since training began, "
		 "as "
		 "in 1:2s:500ms [list]"},
	{.name = "leave",
	 .type = OPT_STRING,
	 FIELD(leave),
	 .def = "",
	 .later = true,
	 .help = "workers that stop training for good: RANK:AT,..., times since training began; "
		 "their part of the data is then not trained on [list]"},
	{.name = "sim.platform",
	 .type = OPT_STRING,
	 FIELD(sim_platform),
	 .def = "local",
	 .later = true,
	 .help = "what is simulated: a name of mvbench list platforms, or a file of SimGrid's XML; "
		 "local: this machine, as calibrated [name]"},
	{.name = "sim.train",
	 .type = OPT_BOOL,
	 FIELD(sim_train),
	 .def = "true",
	 .later = true,
	 .help = "compute real gradients: accuracy and time; false: time only [true/false]"},
	{.name = "sim.step-time",
	 .type = OPT_STRING,
	 FIELD(sim_step_time),
	 .def = "auto",
	 .later = true,
	 .help = "what a worker takes for a mini-batch, its gradient and its update; auto: as "
		 "calibrated [time]"},
	{.name = "sim.update-time",
	 .type = OPT_STRING,
	 FIELD(sim_update_time),
	 .def = "auto",
	 .later = true,
	 .help = "what a push with its pull of the whole model takes beside its way over the "
		 "network; auto: as calibrated [time]"},
	{.name = "sim.slow-link",
	 .type = OPT_STRING,
	 FIELD(sim_slow_link),
	 .def = "",
	 .later = true,
	 .help = "workers behind slow links: RANK:FACTOR,..., as in 0:0.1 for a tenth of the "
		 "bandwidth [list]"},
	{.name = "sim.replay",
	 .type = OPT_INT,
	 FIELD(sim_replay),
	 .def = "0",
	 .min = 0,
	 .max = 9e15,
	 .later = true,
	 .help = "takes the options of this recorded run (--record) and repeats the order in which "
		 "its pushes arrived; 0: none [run]"},
	{.name = "target-accuracy",
	 .type = OPT_REAL,
	 FIELD(target_accuracy),
	 .def = "0",
	 .min = 0,
	 .max = 1,
	 .help = "test accuracy whose time is reported; 0: none [fraction]"},
	{.name = "db",
	 .type = OPT_STRING,
	 FIELD(db),
	 .def = "mvbench.db",
	 .incidental = true,
	 .help = "results database; made when it is not there [file]"},
	{.name = "label",
	 .type = OPT_STRING,
	 FIELD(label),
	 .def = "",
	 .incidental = true,
	 .help = "a word of yours to find the run by [text]"},
	{0},
};

/* ---- Plug-ins by name ---------------------------------------------------- */

enum { NAMES_MAX = 256 };

const struct strategy *strategy_find(const char *name)
{
	for (size_t i = 0; strategies[i]; i++)
		if (strcmp(strategies[i]->plugin.name, name) == 0)
			return strategies[i];
	return NULL;
}

const struct workload *workload_find(const char *name)
{
	for (size_t i = 0; workloads[i]; i++)
		if (strcmp(workloads[i]->plugin.name, name) == 0)
			return workloads[i];
	return NULL;
}

static const struct plugin *plugin_find(const char *name, const char **part)
{
	const struct strategy *s = strategy_find(name);
	const struct workload *w = workload_find(name);

	if (part)
		*part = s ? "strategy" : "workload";
	return s ? &s->plugin : w ? &w->plugin : NULL;
}

static size_t strategy_names(const char **name)
{
	size_t n = 0;

	while (n < NAMES_MAX / 2 && strategies[n]) {
		name[n] = strategies[n]->plugin.name;
		n++;
	}
	return n;
}

static size_t workload_names(const char **name)
{
	size_t n = 0;

	while (n < NAMES_MAX / 2 && workloads[n]) {
		name[n] = workloads[n]->plugin.name;
		n++;
	}
	return n;
}

static size_t option_names(const struct option *table, const char **name)
{
	size_t n = 0;

	for (; table && table[n].name && n < NAMES_MAX; n++)
		name[n] = table[n].name;
	return n;
}

/* "--strategy=asgdd: there is none of that name; did you mean asgd? There are serial, asgd, ..." */
static char *no_such_plugin(const char *part, const char *typed, const char *const *name, size_t n)
{
	const char *near = nearest(typed, name, n);
	char *list = must(strdup(name[0])), *wrong;

	for (size_t i = 1; i < n; i++) {
		char *longer = sentence("%s, %s", list, name[i]);
		free(list);
		list = longer;
	}
	if (near)
		wrong = sentence(
			"--%s=%s: there is none of that name; did you mean %s? There are %s", part,
			typed, near, list);
	else
		wrong = sentence("--%s=%s: there is none of that name; there are %s", part, typed,
				 list);
	free(list);
	return wrong;
}

static char *check_strategy(const char *typed)
{
	const char *name[NAMES_MAX];

	return strategy_find(typed) ? NULL
				    : no_such_plugin("strategy", typed, name, strategy_names(name));
}

static char *check_workload(const char *typed)
{
	const char *name[NAMES_MAX];

	return workload_find(typed) ? NULL
				    : no_such_plugin("workload", typed, name, workload_names(name));
}

/* ---- Options by their full names: "batch", or "periodic.start" ----------- */

struct found {
	const struct option *option;
	const struct plugin *owner; /* NULL: a core option */
	const char *part;           /* of the owner: "strategy" or "workload" */
};

static char *unknown_option(const char *typed, const char *prefix, const struct option *table)
{
	const char *name[NAMES_MAX], *dot = *prefix ? "." : "";
	size_t n = option_names(table, name);
	const char *near = nearest(typed, name, n);

	if (near)
		return sentence("--%s%s%s: there is no such option; did you mean --%s%s%s?", prefix,
				dot, typed, prefix, dot, near);
	if (*prefix && n == 0)
		return sentence("--%s.%s: %s has no options of its own", prefix, typed, prefix);
	return sentence("--%s%s%s: there is no such option; mvbench run --help lists them", prefix,
			dot, typed);
}

static char *option_lookup(const char *full, struct found *f)
{
	const char *dot = strchr(full, '.'), *name[NAMES_MAX];

	*f = (struct found){.part = "run", .option = option_find(run_options, full)};
	if (f->option)
		return NULL;
	if (!dot || strncmp(full, "sim.", 4) == 0)
		return unknown_option(full, "", run_options);
	char *prefix = must(strndup(full, (size_t)(dot - full))), *wrong = NULL;
	f->owner = plugin_find(prefix, &f->part);
	if (f->owner) {
		f->option = option_find(f->owner->options, dot + 1);
		if (!f->option)
			wrong = unknown_option(dot + 1, prefix, f->owner->options);
	} else {
		size_t n = strategy_names(name);
		n += workload_names(name + n);
		const char *near = nearest(prefix, name, n);
		wrong = near ? sentence("--%s: there is no strategy or workload %s; did you mean "
					"--%s.%s?",
					full, prefix, near, dot + 1)
			     : sentence("--%s: there is no strategy or workload %s; mvbench list "
					"shows "
					"them",
					full, prefix);
	}
	free(prefix);
	return wrong;
}

char *time_check(const char *name, const char *text, double *seconds)
{
	struct option o = {.name = name, .type = OPT_TIME, .min = 1e-9, .max = 1e9};
	double x = NAN;
	char *wrong = strcmp(text, "auto") == 0 ? NULL : option_set(&o, &x, NULL, text);

	if (!wrong && seconds)
		*seconds = x;
	if (wrong) {
		free(wrong);
		wrong = sentence("--%s=%s: auto or a time above 0 is wanted, such as --%s=5ms",
				 name, text, name);
	}
	return wrong;
}

/* What a table cannot say of one value. */
static char *check_value(const struct option *o, const char *text)
{
	char *wrong;

	if (o->offset == offsetof(struct run, strategy))
		return check_strategy(text);
	if (o->offset == offsetof(struct run, workload))
		return check_workload(text);
	if (o->offset == offsetof(struct run, lr_schedule))
		return lr_schedule_check(text);
	if (o->offset == offsetof(struct run, sim_step_time) ||
	    o->offset == offsetof(struct run, sim_update_time))
		return time_check(o->name, text, NULL);
	if ((wrong = heterogeneity_check(o, text)))
		return wrong;
	if (o->offset == offsetof(struct run, momentum) && strtod(text, NULL) >= 1)
		return sentence("--momentum=%s: a number from 0 to below 1 is wanted, such as "
				"--momentum=0.9",
				text);
	if (o->offset == offsetof(struct run, db) && !*text)
		return sentence("--db=: the name of a file is wanted, such as --db=mvbench.db");
	return NULL;
}

char *config_check(const char *name, const char *value, const struct option **out)
{
	struct found f;
	char *wrong = option_lookup(name, &f);

	if (!wrong) {
		char *scratch = must(calloc(1, f.owner ? f.owner->opts_size : sizeof(struct run)));
		wrong = option_set(f.option, scratch, f.owner ? f.owner->name : NULL, value);
		free(scratch);
	}
	if (!wrong && !f.owner)
		wrong = check_value(f.option, value);
	if (!wrong && out)
		*out = f.option;
	return wrong;
}

/* ---- Configurations ------------------------------------------------------ */

static const char *keep(struct config *c, const char *text)
{
	c->strings = must(realloc(c->strings, (c->nstrings + 1) * sizeof *c->strings));
	return c->strings[c->nstrings++] = must(strdup(text));
}

/* A sentence if this option belongs to a plug-in that the configuration does not use. */
static char *not_in_use(const struct config *c, const struct found *f, const char *full)
{
	const char *used = strcmp(f->part, "strategy") == 0 ? c->run.strategy : c->run.workload;

	if (strcmp(used, f->owner->name) == 0)
		return NULL;
	return sentence("--%s: an option of %s %s, but the %s is %s; leave it out, or give --%s=%s",
			full, f->part, f->owner->name, f->part, used, f->part, f->owner->name);
}

static char *lookup(const struct setting *s, struct found *f)
{
	char *wrong = option_lookup(s->name, f);

	if (!wrong && !s->value && f->option->type != OPT_BOOL)
		wrong = sentence("--%s: a value is wanted, as in --%s=%s", s->name, s->name,
				 *f->option->def ? f->option->def : "VALUE");
	return wrong;
}

char *settings_check(const struct setting *given, size_t n)
{
	struct found f;
	char *wrong = NULL;

	for (size_t i = 0; i < n && !wrong; i++)
		wrong = lookup(&given[i], &f);
	return wrong;
}

static char *apply(struct config *c, const struct setting *s, bool lenient)
{
	struct found f;
	char *wrong = lookup(s, &f);
	const char *value = s->value;

	if (wrong)
		return wrong;
	if (!value)
		value = "true";
	if (f.owner && (wrong = not_in_use(c, &f, s->name))) {
		if (!lenient)
			return wrong;
		free(wrong);
		return NULL;
	}
	value = keep(c, value);
	if (!f.owner) {
		wrong = option_set(f.option, &c->run, NULL, value);
		return wrong ? wrong : check_value(f.option, value);
	}
	return option_set(f.option,
			  strcmp(f.part, "strategy") == 0 ? c->strategy_opts : c->workload_opts,
			  f.owner->name, value);
}

static const char *last_value(const struct setting *given, size_t n, const char *name)
{
	const char *value = NULL;

	for (size_t i = 0; i < n; i++)
		if (strcmp(given[i].name, name) == 0)
			value = given[i].value;
	return value;
}

static void *default_opts(const struct plugin *p)
{
	void *opts = must(calloc(1, p->opts_size + 1));

	option_default(p->options, opts);
	return opts;
}

char *config_init(struct config *c, const struct setting *given, size_t n, bool lenient)
{
	char *wrong = NULL;

	*c = (struct config){.strings = NULL};
	option_default(run_options, &c->run);

	/* What the rest depends on: the workload, for its recipe; the strategy, for its options. */
	const char *workload = last_value(given, n, "workload");
	if (workload && (wrong = check_workload(workload)))
		return wrong;
	c->workload = workload_find(workload ? workload : c->run.workload);
	CHECK(c->workload, "the default workload %s is not in the list", c->run.workload);
	c->run.workload = c->workload->plugin.name;
	c->workload_opts = default_opts(&c->workload->plugin);

	const char *strategy = last_value(given, n, "strategy");
	for (const struct setting *r = c->workload->recipe; !strategy && r && r->name; r++)
		if (strcmp(r->name, "strategy") == 0)
			strategy = r->value;
	if (strategy && (wrong = check_strategy(strategy)))
		goto fail;
	c->strategy = strategy_find(strategy ? strategy : c->run.strategy);
	CHECK(c->strategy, "the default strategy %s is not in the list", c->run.strategy);
	c->run.strategy = c->strategy->plugin.name;
	c->strategy_opts = default_opts(&c->strategy->plugin);

	for (const struct setting *r = c->workload->recipe; r && r->name; r++)
		if ((wrong = apply(c, r, false)))
			goto fail;
	for (size_t i = 0; i < n; i++)
		if ((wrong = apply(c, &given[i], lenient)))
			goto fail;
	return NULL;
fail:
	config_fini(c);
	return wrong;
}

void config_fini(struct config *c)
{
	for (size_t i = 0; i < c->nstrings; i++)
		free(c->strings[i]);
	free(c->strings);
	free(c->strategy_opts);
	free(c->workload_opts);
	*c = (struct config){.strings = NULL};
}

static void each_of(const char *part, const struct option *table, const void *fields,
		    void (*each)(void *ctx, const char *part, const struct option *o,
				 const char *value),
		    void *ctx)
{
	char number[64];

	for (const struct option *o = table; o && o->name; o++) {
		const char *text = number;
		if (o->type == OPT_STRING || o->type == OPT_CHOICE)
			text = *(const char *const *)((const char *)fields + o->offset);
		else
			option_text(o, fields, number, sizeof number);
		each(ctx, part, o, text);
	}
}

void config_each(const struct config *c,
		 void (*each)(void *ctx, const char *part, const struct option *o,
			      const char *value),
		 void *ctx)
{
	each_of("run", run_options, &c->run, each, ctx);
	each_of("strategy", c->strategy->plugin.options, c->strategy_opts, each, ctx);
	each_of("workload", c->workload->plugin.options, c->workload_opts, each, ctx);
}

static void hash_one(void *ctx, const char *part, const struct option *o, const char *value)
{
	const char *const piece[] = {part, ".", o->name, "=", value, "\n"};
	bool silent = o->later && strcmp(value, o->def) == 0;

	for (size_t i = 0; i < sizeof piece / sizeof *piece && !o->incidental && !silent; i++)
		*(uint64_t *)ctx = hash_of(*(uint64_t *)ctx, piece[i], strlen(piece[i]));
}

void config_hash(const struct config *c, char hex[17])
{
	uint64_t h = HASH_START;

	config_each(c, hash_one, &h);
	snprintf(hex, 17, "%016llx", (unsigned long long)h);
}

char *option_full_name(const struct config *c, const char *part, const struct option *o)
{
	const char *owner = strcmp(part, "strategy") == 0   ? c->strategy->plugin.name
			    : strcmp(part, "workload") == 0 ? c->workload->plugin.name
							    : "";

	return sentence("%s%s%s", owner, *owner ? "." : "", o->name);
}

struct words {
	const struct config *config;
	char **word;
	size_t n;
};

static void word_one(void *ctx, const char *part, const struct option *o, const char *value)
{
	struct words *w = ctx;
	char *name = option_full_name(w->config, part, o);

	w->word = must(realloc(w->word, (w->n + 2) * sizeof *w->word));
	w->word[w->n++] = sentence("--%s=%s", name, value);
	free(name);
	w->word[w->n] = NULL;
}

char **config_words(const struct config *c)
{
	struct words w = {.config = c};

	config_each(c, word_one, &w);
	return w.word;
}

void free_words(char **words)
{
	for (size_t i = 0; words && words[i]; i++)
		free(words[i]);
	free(words);
}

int config_model_workers(const struct config *c)
{
	return c->strategy->model_workers ? c->strategy->model_workers(&c->run, c->strategy_opts)
					  : 1;
}
