/*
 * config.c - one experiment's configuration: the core options (run_options.c), and those of its
 * strategy, workload, optimiser and codec.
 *
 * Every option can be written as text and read back (options.c). A configuration is therefore
 * passed to workers as words, and its identity is a hash of "part.name=value" lines.
 */
#include "runtime/config/checkpoint.h"
#include "runtime/config/clusters.h"
#include "runtime/config/config.h"
#include "runtime/config/dataset.h"
#include "runtime/config/hosts.h"
#include "runtime/config/plugins.h"
#include "runtime/table/table.h"

#include <string.h>

/* ---- Options by their full names: "batch", or "periodic.start" ----------- */

struct found {
	const struct option *option;
	const struct plugin *owner; /* NULL: a core option */
	enum part part;             /* of the owner */
};

/* The option of a plug-in named prefix; NULL: of any. Two files may have the same name, such as an
 * older version: this takes the option of either. */
static void owned_option(const char *prefix, const char *name, struct found *f)
{
	const struct plugin *p;
	for (enum part k = 0; k < PART_COUNT; k++)
		for (size_t i = 0; !f->option && (p = plugin_at(k, i)); i++)
			if (!prefix || strcmp(p->name, prefix) == 0) {
				f->owner = p;
				f->part = k;
				f->option = option_find(p->options, name);
			}
}

static char *option_lookup(const char *full, struct found *f)
{
	const char *dot = strchr(full, '.'), *name[PLUGINS_MOST];
	*f = (struct found){.option = option_find(run_options, full)};
	if (f->option)
		return NULL;
	if (!dot)
		owned_option(NULL, full, f);
	if (f->option)
		return sentence("--%s: there is no such option; did you mean --%s.%s?", full,
				f->owner->name, full);
	if (!dot || strncmp(full, "sim.", 4) == 0)
		return option_unknown("", full, run_options, "mvbench run ");
	char *prefix AUTOFREE = must(strndup(full, (size_t)(dot - full)));
	owned_option(prefix, dot + 1, f);
	if (f->option)
		return NULL;
	if (f->owner)
		return option_unknown(prefix, dot + 1, f->owner->options, "mvbench run ");
	const char *near = nearest(prefix, name, plugin_names(PART_COUNT, name));
	if (near)
		return sentence(
			"--%s: there is no strategy, workload, optimizer or codec %s; did you mean "
			"--%s.%s?",
			full, prefix, near, dot + 1);
	return sentence(
		"--%s: there is no strategy, workload, optimizer or codec %s; mvbench list shows "
		"them",
		full, prefix);
}

char *config_check(const char *name, const char *value, const struct option **out)
{
	struct found f;
	char *wrong = option_lookup(name, &f);
	if (wrong)
		return wrong;
	void *scratch AUTOFREE =
		must(calloc(1, f.owner ? f.owner->opts_size : sizeof(struct config)));
	wrong = option_set(f.option, scratch, f.owner ? f.owner->name : NULL, value);
	if (!wrong && out)
		*out = f.option;
	return wrong;
}

/* ---- Configurations ------------------------------------------------------ */

static const char *keep(struct config *c, const char *text)
{
	return APPEND(c->strings, c->nstrings, must(strdup(text)));
}

char *settings_check(const struct setting *given, size_t n)
{
	struct found f;
	char *wrong = plugins_load(given, n);
	for (size_t i = 0; i < n && !wrong; i++)
		wrong = given[i].value ? option_lookup(given[i].name, &f)
				       : config_check(given[i].name, NULL, NULL);
	return wrong;
}

static char *apply_setting(struct config *c, const struct setting *s, bool lenient)
{
	struct found f;
	void *fields = c;
	TRY(option_lookup(s->name, &f));
	if (s->value && option_chooses(f.option) < PART_COUNT) /* config_init has chosen it */
		return f.option->check(f.option, s->value);
	if (f.owner) { /* of several plug-ins with this name, the one in use */
		const struct plugin *used = config_plugin(c, f.part, &fields);
		const char *name = f.option->name, *part = part_names[f.part];
		if (strcmp(used->name, f.owner->name) != 0)
			return lenient ? NULL
				       : sentence("--%s: an option of %s %s, but the %s is %s; "
						  "leave it out, or give --%s=%s",
						  s->name, part, f.owner->name, part, used->name,
						  part, f.owner->name);
		f.owner = used;
		if (!(f.option = option_find(used->options, name)))
			return option_unknown(used->name, name, used->options, "mvbench run ");
	}
	return option_set(f.option, fields, f.owner ? f.owner->name : NULL,
			  s->value ? keep(c, s->value) : NULL);
}

const char *config_why_static(const struct config *c)
{
	const struct strategy *s = c->strategy;
	if (!s->may_leave || !s->terms)
		return "all its workers take part in every exchange";
	return s->why_static ? s->why_static(&c->run, c->strategy_opts) : NULL;
}

/* Resolves auto, because the result is part of the cell's identity. One worker takes all
 * mini-batches in either case. */
static const char *resolved_deal(const struct config *c)
{
	bool must = config_why_static(c) != NULL, alone = c->run.workers == 1;
	if (strcmp(c->run.deal, "auto") == 0)
		return must || alone ? "static" : "dynamic";
	return alone && !must ? "static" : c->run.deal;
}

/* Sets --batch to the largest share of --global-batch. */
static char *share_batch(struct config *c, const struct setting *given, size_t n)
{
	int64_t all = c->run.global_batch, share = config_model_workers(c),
		models = share > 0 ? c->run.workers / share : 1;
	const char *batch = setting_value(given, n, "batch");
	if (all && batch)
		return sentence("--global-batch=%lld: --batch=%s is the mini-batch of each worker, "
				"and this that of all together; leave one of the two out",
				(long long)all, batch);
	if (all && all < models)
		return sentence(
			"--global-batch=%lld: fewer rows than the %lld models; use at least "
			"--global-batch=%lld",
			(long long)all, (long long)models, (long long)models);
	if (all && models > 0)
		c->run.batch = (all - 1) / (models * c->run.accumulate) + 1;
	return NULL;
}

int64_t config_step_rows(const struct config *c)
{
	const struct run *run = &c->run;
	int64_t models = run->workers / config_model_workers(c);
	return run->global_batch ? run->global_batch : models * run->batch * run->accumulate;
}

int64_t config_epoch_steps(const struct config *c, size_t rows)
{
	int64_t together = config_step_rows(c);
	return ((int64_t)rows + together - 1) / together;
}

/* The rows to train on, and the answers of one of them, without loading them; false: not known. */
static bool rows_to_train(const struct config *c, size_t *rows, int64_t *answers)
{
	struct data train, test;
	const struct run *run = &c->run;
	char *wrong AUTOFREE = c->workload->dataset->probe(run, &train, &test);
	if (!wrong)
		wrong = data_cut(c->workload, c->workload_opts, &train, &test);
	int64_t most = wrong ? 0 : (int64_t)train.n - run->validation;
	*rows = (size_t)(run->train_rows ? run->train_rows : most);
	*answers = wrong ? 1 : (int64_t)data_targets(&train);
	return most > 0 && (int64_t)*rows <= most;
}

/* Sets --epochs to the number that --steps or --tokens begin. If the data set cannot be used, the
 * plan says why. */
static char *set_budget(struct config *c, const struct setting *given, size_t n)
{
	struct run *run = &c->run;
	const char *epochs = setting_value(given, n, "epochs"),
		   *name = run->steps ? "steps" : "tokens";
	long long budget = run->steps ? run->steps : run->tokens;
	int64_t steps = run->steps, answers;
	size_t rows;
	if (!has_budget(run))
		return NULL;
	if (run->steps && run->tokens)
		return sentence("--steps=%lld: --tokens=%lld is another end of the run; leave one "
				"of the two out",
				budget, (long long)run->tokens);
	if (epochs)
		return sentence(
			"--%s=%lld: --epochs=%s is another end of the run; leave one of the "
			"two out",
			name, budget, epochs);
	if (config_model_workers(c) < 1 || run->workers < config_model_workers(c) ||
	    !rows_to_train(c, &rows, &answers))
		return NULL;
	int64_t each = config_epoch_steps(c, rows);
	if (run->tokens) { /* the first rows of an epoch's s-th step: floor(s rows / each) */
		int64_t all = (run->tokens + answers - 1) / answers, n_rows = (int64_t)rows,
			rest = all % n_rows;
		steps = all / n_rows * each + (rest * each + n_rows - 1) / n_rows;
	}
	int64_t whole = (steps + each - 1) / each;
	if (whole > 1000000)
		return sentence("--%s=%lld: more than a million passes over the %zu rows", name,
				budget, rows);
	run->epochs = whole;
	run->cut = whole * each - steps;
	run->cut_epochs = (double)run->cut / (double)each;
	return NULL;
}

bool strategy_has_interval(const struct strategy *s)
{
	return !s->epoch_time || strchr(s->epoch_time, 'X');
}

/* Runs that differ only in an interval that nothing reads are one cell, and have one name. */
static void ignore_interval(struct config *c)
{
	struct run *run = &c->run;
	run->no_interval = !strategy_has_interval(c->strategy);
	if (!run->no_interval || run->sync_every == 1)
		return;
	c->interval_ignored = run->sync_every;
	run->sync_every = 1;
}

bool config_simulates_hosts(const struct config *c)
{
	return is_simulated(c) && strcmp(c->run.sim_platform, "hosts") == 0;
}

/* Chooses the host of each rank, and the number of servers. On several machines a worker would
 * serve its tables only while it communicates; fast workers would wait for slow ones. Therefore
 * each host gets a server. The plan reports errors of the hosts. */
static void choose_hosts(struct config *c, const struct setting *given, size_t n)
{
	struct run *run = &c->run;
	const char *file = getenv(HOSTFILE_VARIABLE);
	bool simulated = is_simulated(c);
	if (simulated ? !config_simulates_hosts(c) : platform_under_launcher())
		return;
	if (file && !setting_value(given, n, "hostfile")) /* recorded runs have it, but empty */
		c->harness.hostfile = file;
	if (!*c->harness.hostfile || run->workers < 2)
		return;
	int ranks = (int)(run->workers + run->servers),
	    *number AUTOFREE = must(calloc((size_t)ranks + (size_t)run->workers, sizeof *number));
	char *wrong AUTOFREE = config_hosts(c, number);
	int hosts = wrong ? 0 : hosts_with_workers(number, (int)run->workers);
	if (hosts > 1 && c->strategy->terms && !run->servers &&
	    strcmp(run->table_home, "auto") == 0) {
		run->servers = hosts;
		c->servers_chosen = true;
		free(wrong);
		wrong = config_hosts(c, number);
	}
	if (wrong)
		return;
	char *placement AUTOFREE = placement_text(number, (int)run->workers, (int)run->servers);
	if (*placement) /* empty: one machine; a given --placement stays, as it names the machine */
		c->harness.placement = keep(c, placement);
}

/* The cell's identity has the model, not the path of its file. If both options are given, as they
 * are to workers, the file is not read yet. */
static char *find_initial_model(struct config *c)
{
	struct checkpoint_head head;
	if (*c->harness.initial_model || !*c->harness.init_from)
		return NULL;
	TRY(checkpoint_read_head("init-from", c->harness.init_from, &head));
	c->harness.initial_model = keep(c, head.model);
	return NULL;
}

/* The same of data; also for simulations of times alone, which are compared with real runs. */
static void find_data_hash(struct config *c)
{
	if (!*c->harness.data_hash)
		c->harness.data_hash = keep(c, data_hash_find(&c->run, c->workload->dataset));
}

static void find_platform_hash(struct config *c)
{
	char hash[DATA_HASH_ROOM];
	if (is_simulated(c) && platform_is_file(c->run.sim_platform) &&
	    !*c->harness.sim_platform_hash && platform_hash(c->run.sim_platform, hash))
		c->harness.sim_platform_hash = keep(c, hash);
}

/* Chooses the given plug-in, or the recipe's, or the default, and allocates its options. */
static char *choose_plugin(struct config *c, enum part part, const struct setting *given, size_t n,
			   const char **name, void **opts, const void **chosen)
{
	const char *what = part_names[part], *typed = setting_value(given, n, what);
	const struct plugin *p;
	for (const struct setting *r = c->workload ? c->workload->recipe : NULL;
	     !typed && r && r->name; r++)
		if (strcmp(r->name, what) == 0)
			typed = r->value;
	TRY(plugin_choose(part, typed ? typed : *name, given, n, &p));
	*name = p->name;
	*opts = must(calloc(1, p->opts_size + 1));
	option_default(p->options, *opts);
	*chosen = p; /* the first member of the part's struct */
	return NULL;
}

/* The next of the options after the name of a plug-in; *at: its colon, and then the next one's, or
 * NULL. Heap. */
static char *cut_typed(const char **at, const char **value)
{
	const char *from = *at + 1;
	*at = plugin_options(from);
	char *option = must(strndup(from, *at ? (size_t)(*at - from) : strlen(from)));
	char *equals = strchr(option, '=');
	*equals = '\0';
	*value = equals + 1;
	return option;
}

/* Options after the name of a plug-in: in a list of names, each name can have its own. */
static char *apply_typed(struct config *c, enum part part, const struct setting *given, size_t n)
{
	void *opts;
	const char *what = part_names[part], *typed = setting_value(given, n, what),
		   *at = typed ? plugin_options(typed) : NULL, *value;
	const struct plugin *p = config_plugin(c, part, &opts);
	while (at) {
		char *option AUTOFREE = cut_typed(&at, &value);
		char *full AUTOFREE = sentence("%s.%s", p->name, option);
		const char *twice = setting_value(given, n, full);
		if (twice)
			return sentence("--%s=%s: --%s=%s gives this option, too; leave one of the "
					"two out",
					what, typed, full, twice);
		TRY(apply_setting(c, &(struct setting){full, value}, false));
	}
	return NULL;
}

/* The codec of pulls: none, that of pushes, or another one with options of its own. */
static char *choose_codec_of_pulls(struct config *c)
{
	const char *typed = c->run.codec_pull, *at = plugin_options(typed), *value;
	const struct plugin *p;
	TRY(plugin_of_pulls(typed, &p));
	if (strcmp(typed, "none") == 0)
		c->run.codec_pull = "false";
	if (strcmp(typed, "true") == 0) {
		c->codec_pull = c->codec;
		c->codec_pull_opts = c->codec_opts;
	}
	if (!p)
		return NULL;
	c->codec_pull = (const void *)p;
	c->codec_pull_opts = must(calloc(1, p->opts_size + 1));
	option_default(p->options, c->codec_pull_opts);
	while (at) {
		char *name AUTOFREE = cut_typed(&at, &value);
		const struct option *o = option_find(p->options, name);
		if (!o)
			return option_unknown(p->name, name, p->options, "mvbench run ");
		TRY(option_set(o, c->codec_pull_opts, p->name, keep(c, value)));
	}
	return NULL;
}

/* Without a codec there is nothing to keep; auto: as the codec needs it. Pairs and elastic moves
 * always have it. */
static const char *resolved_feedback(const struct config *c)
{
	const struct codec *k = c->codec;
	if (strcmp(c->run.codec_feedback, "auto") != 0 || !k->encode)
		return c->run.codec_feedback;
	int codes = strategy_codes(c->strategy, &c->run, c->strategy_opts);
	if (codes == CODES_PAIRS || codes == CODES_MOVES)
		return "true";
	return k->feedback && k->feedback(c->codec_opts) ? "true" : "false";
}

static char *resolve(struct config *c, const struct setting *given, size_t n, bool lenient,
		     bool opens)
{
	/* Plug-ins first: the workload has the recipe, and all of them have options. */
	struct run *run = &c->run;
	const void *p;
	TRY(choose_plugin(c, PART_WORKLOAD, given, n, &run->workload, &c->workload_opts, &p));
	c->workload = p;
	run->workload_opts = c->workload_opts;
	TRY(choose_plugin(c, PART_STRATEGY, given, n, &run->strategy, &c->strategy_opts, &p));
	c->strategy = p;
	TRY(choose_plugin(c, PART_OPTIMIZER, given, n, &run->optimizer, &c->optimizer_opts, &p));
	c->optimizer = p;
	TRY(choose_plugin(c, PART_CODEC, given, n, &run->codec, &c->codec_opts, &p));
	c->codec = p;
	for (const struct setting *r = c->workload->recipe; r && r->name; r++)
		if (c->optimizer->momentum || strcmp(r->name, "momentum") != 0)
			TRY(apply_setting(c, r, false));
	for (size_t i = 0; i < n; i++)
		TRY(apply_setting(c, &given[i], lenient));
	for (enum part k = 0; k < PART_COUNT; k++)
		TRY(apply_typed(c, k, given, n));
	TRY(choose_codec_of_pulls(c));
	ignore_interval(c);
	/* decoupled weight decay applies only to the weights of products by default */
	if (!c->optimizer->coupled && run->weight_decay > 0 && !setting_value(given, n, "decay"))
		run->decay = "weights";
	run->sim_platform = platform_name(run->sim_platform); /* one name, one cell */
	TRY(share_batch(c, given, n));
	if (opens) {
		TRY(set_budget(c, given, n));
		TRY(find_initial_model(c));
		find_data_hash(c);
		find_platform_hash(c);
		choose_hosts(c, given, n);
	}
	run->deal = resolved_deal(c);
	run->codec_feedback = resolved_feedback(c);
	return NULL;
}

static char *init(struct config *c, const struct setting *given, size_t n, bool lenient, bool opens)
{
	*c = (struct config){.strings = NULL};
	option_default(run_options, c);
	char *wrong = resolve(c, given, n, lenient, opens);
	if (wrong)
		config_fini(c);
	return wrong;
}

char *config_init(struct config *c, const struct setting *given, size_t n, bool lenient)
{
	return init(c, given, n, lenient, true);
}

char *config_init_recorded(struct config *c, const struct setting *given, size_t n)
{
	return init(c, given, n, false, false);
}

void config_fini(struct config *c)
{
	for (size_t i = 0; i < c->nstrings; i++)
		free(c->strings[i]);
	free(c->strings);
	free(c->strategy_opts);
	free(c->workload_opts);
	free(c->optimizer_opts);
	if (c->codec_pull_opts != c->codec_opts)
		free(c->codec_pull_opts);
	free(c->codec_opts);
	*c = (struct config){.strings = NULL};
}

int config_model_workers(const struct config *c)
{
	return c->strategy->model_workers ? c->strategy->model_workers(&c->run, c->strategy_opts)
					  : 1;
}

_Static_assert(2 * WORKERS_MOST <= RANKS_MOST, "a status page has too few ranks");
