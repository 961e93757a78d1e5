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

/* ---- Plug-ins by name ---------------------------------------------------- */

enum { NAMES_MAX = 256 };

FIND_BY_NAME(strategy, strategy_find, strategies, plugin.name)
FIND_BY_NAME(workload, workload_find, workloads, plugin.name)

static const struct plugin *strategy_at(size_t i)
{
	return strategies[i] ? &strategies[i]->plugin : NULL;
}

static const struct plugin *workload_at(size_t i)
{
	return workloads[i] ? &workloads[i]->plugin : NULL;
}

/* The parts of a configuration that are plug-ins. */
static const struct part {
	const char *name;
	const struct plugin *(*at)(size_t i); /* NULL: there are no more */
} parts[] = {{"strategy", strategy_at}, {"workload", workload_at}};
enum { PARTS = sizeof parts / sizeof *parts };

static const struct plugin *plugin_find(const char *name, const char **part)
{
	const struct plugin *plugin;
	for (int k = 0; k < PARTS; k++)
		for (size_t i = 0; (plugin = parts[k].at(i)); i++)
			if (strcmp(plugin->name, name) == 0) {
				*part = parts[k].name;
				return plugin;
			}
	return NULL;
}

/* Those of the part of this name, or of all (NULL). */
static size_t plugin_names(const char *part, const char **name)
{
	size_t n = 0;
	for (int k = 0; k < PARTS; k++)
		for (size_t i = 0;
		     (!part || strcmp(parts[k].name, part) == 0) && n < NAMES_MAX && parts[k].at(i);
		     i++)
			name[n++] = parts[k].at(i)->name;
	return n;
}

/* "--strategy=asgdd: there is none of that name; did you mean asgd? There are serial, asgd, ..." */
static char *no_such_plugin(const char *part, const char *typed, const char *const *name, size_t n)
{
	const char *near = nearest(typed, name, n);
	char *list AUTOFREE = text_list(name, n, ", ");
	if (near)
		return sentence(
			"--%s=%s: there is none of that name; did you mean %s? There are %s", part,
			typed, near, list);
	return sentence("--%s=%s: there is none of that name; there are %s", part, typed, list);
}

/* Of the options --strategy and --workload. */
static char *check_plugin(const struct option *o, const char *typed)
{
	const char *name[NAMES_MAX];
	size_t n = plugin_names(o->name, name);
	for (size_t i = 0; i < n; i++)
		if (strcmp(name[i], typed) == 0)
			return NULL;
	return no_such_plugin(o->name, typed, name, n);
}

/* ---- Options by their full names: "batch", or "periodic.start" ----------- */

struct found {
	const struct option *option;
	const struct plugin *owner; /* NULL: a core option */
	const char *part;           /* of the owner: "strategy" or "workload" */
};

static char *option_lookup(const char *full, struct found *f)
{
	const char *dot = strchr(full, '.'), *name[NAMES_MAX];
	*f = (struct found){.part = "run", .option = option_find(run_options, full)};
	if (f->option)
		return NULL;
	if (!dot || strncmp(full, "sim.", 4) == 0)
		return option_unknown("", full, run_options, "mvbench run ");
	char *prefix AUTOFREE = must(strndup(full, (size_t)(dot - full)));
	f->owner = plugin_find(prefix, &f->part);
	if (f->owner) {
		f->option = option_find(f->owner->options, dot + 1);
		return f->option
			       ? NULL
			       : option_unknown(prefix, dot + 1, f->owner->options, "mvbench run ");
	}
	const char *near = nearest(prefix, name, plugin_names(NULL, name));
	if (near)
		return sentence("--%s: there is no strategy or workload %s; did you mean --%s.%s?",
				full, prefix, near, dot + 1);
	return sentence("--%s: there is no strategy or workload %s; mvbench list shows them", full,
			prefix);
}

char *time_check(const char *name, const char *text, double *seconds)
{
	struct option o = {.name = name, .type = OPT_TIME, .min = 1e-9, .max = 1e9};
	double x = NAN;
	char *wrong AUTOFREE = strcmp(text, "auto") == 0 ? NULL : option_set(&o, &x, NULL, text);
	if (!wrong && seconds)
		*seconds = x;
	if (!wrong)
		return NULL;
	return sentence("--%s=%s: auto or a time above 0 is wanted, such as --%s=5ms", name, text,
			name);
}

static char *check_time(const struct option *o, const char *text)
{
	return time_check(o->name, text, NULL);
}

static char *check_momentum(const struct option *o, const char *text)
{
	if (strtod(text, NULL) < 1)
		return NULL;
	return sentence("--%s=%s: a number from 0 to below 1 is wanted, such as --%s=0.9", o->name,
			text, o->name);
}

static char *check_db(const struct option *o, const char *text)
{
	if (*text)
		return NULL;
	return sentence("--%s=: the name of a file is wanted, such as --%s=" DATABASE, o->name,
			o->name);
}

static char *check_value(const struct option *o, const char *text)
{
	return o->check ? o->check(o, text) : NULL;
}

/* ---- The core options ---------------------------------------------------- */

#define RANGE(least, most)   .min = least, .max = most
#define CHOICES(list)        .choices = list
#define CHECKED_BY(function) .check = function
#define INCIDENTAL           .incidental = true
#define KEPT_APART           .incidental = true, .core.kept_apart = true
#define REPEATS              .core.repeats = true
#define COMPARED             .core.compared = true
#define AS_USED              .core.stored = AS_USED
#define USED_IF_ANY          .core.stored = USED_IF_ANY
#define OF_SIMULATION        .core.stored = OF_SIMULATION
#define UNSTORED             .core.stored = UNSTORED
#define REPLAY_MAY           .core.replay = REPLAY_MAY
#define REPLAY_OWN           .core.replay = REPLAY_OWN
#define SINCE(version)       .core.since = version
#define EARLIER(value)       .core.earlier = value
#define LABELLED(place)      .core.label = place

#define OWNER struct config
const struct option run_options[] = {
#define OPTION_RUN(field, ...) OPTION(run.field, __VA_ARGS__, ),
#define OPTION_OWN(field, ...) OPTION(own.field, __VA_ARGS__, ),
#include "runtime/config/run_options.def"
	{0},
};

char *config_check(const char *name, const char *value, const struct option **out)
{
	struct found f;
	char *wrong = option_lookup(name, &f);
	if (wrong)
		return wrong;
	void *scratch AUTOFREE =
		must(calloc(1, f.owner ? f.owner->opts_size : sizeof(struct config)));
	wrong = option_set(f.option, scratch, f.owner ? f.owner->name : NULL, value);
	if (!wrong)
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
	const char *used = strcmp(f->part, "strategy") == 0 ? c->strategy->plugin.name
							    : c->workload->plugin.name;
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
	if (!f.owner)
		wrong = option_set(f.option, c, NULL, value);
	else
		wrong = option_set(f.option,
				   strcmp(f.part, "strategy") == 0 ? c->strategy_opts
								   : c->workload_opts,
				   f.owner->name, value);
	return wrong ? wrong : check_value(f.option, value);
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

const char *config_even(const struct config *c)
{
	const struct strategy *s = c->strategy;
	if (data_split_of(&c->run).own)
		return "each has rows of its own (--split)";
	if (!s->may_leave || !s->tables)
		return "its workers meet in every exchange";
	return s->even ? s->even(&c->run, c->strategy_opts) : NULL;
}

/* What auto comes to is the cell's identity. One worker has all mini-batches either way. */
static const char *resolved_deal(const struct config *c)
{
	bool even = config_even(c) != NULL, alone = c->run.workers == 1;
	if (strcmp(c->run.deal, "auto") == 0)
		return even || alone ? "static" : "dynamic";
	return alone && !even ? "static" : c->run.deal;
}

/* --batch follows from --global-batch: the largest share of it. */
static char *share_batch(struct config *c, const struct setting *given, size_t n)
{
	int64_t all = c->run.global_batch, share = config_model_workers(c),
		models = share > 0 ? c->run.workers / share : 1;
	for (size_t i = 0; i < n && all; i++)
		if (strcmp(given[i].name, "batch") == 0)
			return sentence(
				"--global-batch=%lld: --batch=%s says what each worker has, and "
				"this what all have together; leave one of the two out",
				(long long)all, given[i].value);
	if (all && all < models)
		return sentence(
			"--global-batch=%lld: %lld workers cannot share fewer rows than they "
			"are; give at least --global-batch=%lld",
			(long long)all, (long long)models, (long long)models);
	if (all && models > 0)
		c->run.batch = (all + models - 1) / models;
	return NULL;
}

char *config_init(struct config *c, const struct setting *given, size_t n, bool lenient)
{
	char *wrong = NULL;
	*c = (struct config){.strings = NULL};
	option_default(run_options, c);

	/* What the rest depends on: the workload, for its recipe; the strategy, for its options. */
	const char *workload = last_value(given, n, "workload");
	if (workload && (wrong = config_check("workload", workload, NULL)))
		return wrong;
	c->workload = workload_find(workload ? workload : c->run.workload);
	CHECK(c->workload, "the default workload %s is not in the list", c->run.workload);
	c->run.workload = c->workload->plugin.name;
	c->workload_opts = default_opts(&c->workload->plugin);

	const char *strategy = last_value(given, n, "strategy");
	for (const struct setting *r = c->workload->recipe; !strategy && r && r->name; r++)
		if (strcmp(r->name, "strategy") == 0)
			strategy = r->value;
	if (strategy && (wrong = config_check("strategy", strategy, NULL)))
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
	if ((wrong = share_batch(c, given, n)))
		goto fail;
	c->run.deal = resolved_deal(c);
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
	each_of("run", run_options, c, each, ctx);
	each_of("strategy", c->strategy->plugin.options, c->strategy_opts, each, ctx);
	each_of("workload", c->workload->plugin.options, c->workload_opts, each, ctx);
}

const char *option_earlier(const struct option *o)
{
	return o->core.earlier ? o->core.earlier : o->def;
}

/* Options that came when databases were full of cells without them are silent at what those were.
 */
enum { SILENT_SINCE = 4 };

bool option_decides(const struct option *o, const char *value)
{
	return !o->incidental &&
	       !(o->core.since >= SILENT_SINCE && strcmp(value, option_earlier(o)) == 0);
}

bool option_follows(const struct config *c, const char *part, const struct option *o)
{
	return c->run.global_batch > 0 && strcmp(part, "run") == 0 && strcmp(o->name, "batch") == 0;
}

static void hash_one(void *ctx, const char *part, const struct option *o, const char *value)
{
	const char *const piece[] = {part, ".", o->name, "=", value, "\n"};
	for (size_t i = 0; i < sizeof piece / sizeof *piece && option_decides(o, value); i++)
		*(uint64_t *)ctx = hash_of(*(uint64_t *)ctx, piece[i], strlen(piece[i]));
}

void config_hash(const struct config *c, char hex[17])
{
	uint64_t h = HASH_START;
	config_each(c, hash_one, &h);
	snprintf(hex, 17, "%016llx", (unsigned long long)h);
}

const char *option_column(const struct option *o, char column[COLUMN_ROOM])
{
	snprintf(column, COLUMN_ROOM, "%s", o->name);
	for (char *c = column; *c; c++)
		if (*c == '-' || *c == '.')
			*c = '_';
	return column;
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
	if (option_follows(w->config, part, o))
		return;
	char *name AUTOFREE = option_full_name(w->config, part, o);
	w->word = must(realloc(w->word, (w->n + 2) * sizeof *w->word));
	w->word[w->n++] = sentence("--%s=%s", name, value);
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
