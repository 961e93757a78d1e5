/*
 * list.c - mvbench list: shows all choices, and whether they can be used here.
 */

#include "runtime/cli/cli.h"
#include "runtime/config/clusters.h"
#include "runtime/config/config.h"
#include "runtime/config/plan.h"
#include "runtime/config/plugins.h"
#include "runtime/table/table.h"

#include <stdlib.h>
#include <string.h>

struct list_flags {
	const char *format, *data_dir;
};

#define OWNER struct list_flags
static const struct option list_flags[] = {
	OPTION(format, CHOICE, "format", "text", "output format", .choices = "text|json"),
	OPTION(data_dir, STRING, "data-dir", "",
	       "folder of the workloads' data; empty: the folder of each data set's package "
	       "[folder]"),
	{0},
};

enum { NAME_WIDTH = 22 };

/* One list, as text or as a JSON array of objects. */
struct out {
	bool json, any;
	const struct list_flags *flags;
	const struct kind *kind;
};

/* Prints text behind a name; on a terminal, in lines that fit. */
static void put_text(const char *text)
{
	if (terminal_columns())
		text_wrap(stdout, text, NAME_WIDTH + 3);
	else
		puts(text);
}

static void item(struct out *o, const char *name, const char *summary)
{
	if (o->json) {
		printf("%s{\"name\": \"%s\", \"summary\": ", o->any ? ", " : "", name);
		text_json(stdout, summary);
	} else {
		printf("  %-*s ", NAME_WIDTH, name);
		put_text(summary);
	}
	o->any = true;
}

static void fact(const struct out *o, const char *key, const char *text)
{
	if (o->json) {
		printf(", \"%s\": ", key);
		text_json(stdout, text);
	} else {
		char *line AUTOFREE = sentence("%s: %s", key, text);
		printf("  %-*s ", NAME_WIDTH, "");
		put_text(line);
	}
}

static void end_item(const struct out *o)
{
	if (o->json)
		putchar('}');
}

static void options(const struct out *o, const struct plugin *p)
{
	if (!o->json) {
		help_rows(&(struct help){.f = stdout}, p->name, p->options);
		return;
	}
	printf(", \"options\": [");
	for (const struct option *row = p->options; row && row->name; row++) {
		printf("%s{\"name\": \"%s.%s\", \"default\": ", row == p->options ? "" : ", ",
		       p->name, row->name);
		text_json(stdout, row->def);
		printf(", \"help\": ");
		text_json(stdout, row->help);
		putchar('}');
	}
	putchar(']');
}

/* Prints whether its data is there, the size of the model, and its recipe. */
static void workload_facts(const struct out *o, const void *of)
{
	const struct workload *w = of;
	const struct setting setting[] = {{"workload", w->plugin.name},
					  {"data-dir", o->flags->data_dir}};
	struct config c AUTOCONFIG = {0};
	struct plan p;
	char *wrong AUTOFREE = config_init(&c, setting, 2, true);
	CHECK(!wrong, "workload %s: %s", w->plugin.name, wrong);
	wrong = plan_make(&c, &p);
	char *recipe AUTOFREE = recipe_words(w->recipe);
	char *text AUTOFREE =
		wrong ? sentence("%s: not usable: %s", w->dataset->name, wrong)
		      : sentence("%s: found, %zu rows to train on and %zu to test, %zu values each",
				 w->dataset->name, p.train.n, p.test.n, p.train.features);
	fact(o, "data", text);
	if (o->json)
		printf(", \"found\": %s", wrong ? "false" : "true");
	if (w->dataset->needs)
		fact(o, "needs", w->dataset->needs);
	if (!wrong && o->json)
		printf(", \"params\": %lld", (long long)p.params);
	else if (!wrong)
		printf("  %-*s parameters: %lld\n", NAME_WIDTH, "", (long long)p.params);
	if (*recipe)
		fact(o, "defaults", recipe);
}

static void device_facts(const struct out *o, const void *of)
{
	const struct device_ops *d = of;
	struct device_facts facts;
	const char *wrong = d->probe(&facts);
	if (wrong) {
		fact(o, "not usable", wrong);
		return;
	}
	if (*facts.model) {
		char *there AUTOFREE =
			sentence("%d x %s, %.0f of %.0f GB free, driver %s", facts.count,
				 facts.model, 1e-9 * (double)facts.free_bytes,
				 1e-9 * (double)facts.total_bytes, facts.driver);
		fact(o, "gpus", there);
	}
	fact(o, "version", facts.version);
}

/* The two platforms themselves; the simulated ones follow. */
static void list_worlds(struct out *o)
{
	item(o, "mpi", "real workers, on this machine or those of --hostfile");
	fact(o, "version", platform_version());
	end_item(o);
	item(o, "sim",
	     "simulated workers in virtual time, on one of the following: give its name "
	     "without sim: (--platform=sim --sim.platform=NAME)");
	end_item(o);
}

/* ---- The catalogue ------------------------------------------------------- */

/* The value of the first property "description" of an XML file, from the heap; NULL = none. */
static char *description_of(const char *path)
{
	static const char value[] = "value=\"";
	char *text AUTOFREE = text_read(path);
	const char *at = text ? strstr(text, "id=\"description\"") : NULL;
	at = at ? strstr(at, value) : NULL;
	return at ? must(strndup(at + strlen(value), strcspn(at + strlen(value), "\""))) : NULL;
}

struct asking {
	void (*each)(void *ctx, const struct choice *e);
	void *ctx;
};

static void put_platform(void *ctx, const char *file, const char *path)
{
	const struct asking *to = ctx;
	char *what AUTOFREE = description_of(path), *name AUTOFREE = sentence("sim:%s", file);
	to->each(to->ctx, &(struct choice){"platform", name,
					   what ? what : "(its file does not say)", NULL, NULL});
}

static void each_plugin(enum part part, void (*each)(void *ctx, const struct choice *e), void *ctx)
{
	const struct plugin *p;
	for (size_t i = 0; (p = plugin_at(part, i)); i++)
		each(ctx, &(struct choice){part_names[part], p->name, p->summary, p, p});
}

void catalogue_each(void (*each)(void *ctx, const struct choice *e), void *ctx)
{
	each_plugin(PART_STRATEGY, each, ctx);
	for (const struct updater *const *u = updaters; *u; u++)
		each(ctx, &(struct choice){"updater", (*u)->name, (*u)->summary, NULL, *u});
	each_plugin(PART_OPTIMIZER, each, ctx);
	each_plugin(PART_CODEC, each, ctx);
	each_plugin(PART_WORKLOAD, each, ctx);
	for (const struct device_ops *const *d = devices; *d; d++)
		each(ctx, &(struct choice){"device", (*d)->name, (*d)->summary, NULL, *d});
	each(ctx, &(struct choice){"platform", "sim:local",
				   "this machine, as measured by mvbench calibrate", NULL, NULL});
	each(ctx,
	     &(struct choice){"platform", "sim:hosts",
			      "hosts and their wires, as mvbench calibrate --hostfile or --lab has "
			      "measured them",
			      NULL, NULL});
	for (size_t i = 0; clusters[i].name; i++) {
		char *name AUTOFREE = sentence("sim:%s", clusters[i].name);
		each(ctx, &(struct choice){"platform", name, clusters[i].summary, NULL, NULL});
	}
	installed_each("sim/platforms", ".xml", put_platform, &(struct asking){each, ctx});
}

/* ---- The command --------------------------------------------------------- */

static const struct kind {
	const char *name, *kind;
	void (*first)(struct out *o); /* prints items before those of the catalogue; or NULL */
	void (*facts)(const struct out *o, const void *of); /* prints more about an item */
} kinds[] = {
	{"strategies", "strategy", NULL, NULL},          {"updaters", "updater", NULL, NULL},
	{"optimizers", "optimizer", NULL, NULL},         {"codecs", "codec", NULL, NULL},
	{"workloads", "workload", NULL, workload_facts}, {"devices", "device", NULL, device_facts},
	{"platforms", "platform", list_worlds, NULL},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

static void list_one(void *ctx, const struct choice *e)
{
	struct out *o = ctx;
	if (strcmp(e->kind, o->kind->kind) != 0)
		return;
	item(o, e->name, e->summary);
	if (o->kind->facts)
		o->kind->facts(o, e->of);
	if (e->plugin)
		options(o, e->plugin);
	end_item(o);
}

static char *kind_find(const char *typed, const struct kind **found)
{
	const char *name[KINDS];
	for (size_t i = 0; i < KINDS; i++) {
		name[i] = kinds[i].name;
		if (strcmp(name[i], typed) == 0) {
			*found = &kinds[i];
			return NULL;
		}
	}
	return no_such("list", "list ", typed, name, KINDS,
		       "there are strategies, updaters, optimizers, codecs, workloads, devices "
		       "and platforms");
}

static void list(const struct kind *only, const struct list_flags *flags)
{
	bool json = strcmp(flags->format, "json") == 0, any = false;
	if (json)
		putchar('{');
	for (size_t i = 0; i < KINDS; i++) {
		struct out o = {.json = json, .flags = flags, .kind = &kinds[i]};
		if (only && only != &kinds[i])
			continue;
		if (json)
			printf("%s\"%s\": [", any ? ", " : "", kinds[i].name);
		else
			printf("%s%s\n", any ? "\n" : "", kinds[i].name);
		if (kinds[i].first)
			kinds[i].first(&o);
		catalogue_each(list_one, &o);
		if (json)
			putchar(']');
		any = true;
	}
	if (json)
		puts("}");
}

static char *run_list(void *options, struct arguments *a, int *status)
{
	const struct kind *only = NULL;
	(void)status;
	if (a->words > 1)
		return sentence("list %s %s: one list at a time, or all with mvbench list",
				a->word[0], a->word[1]);
	if (a->words)
		TRY(kind_find(a->word[0], &only));
	list(only, options);
	return NULL;
}

const struct command command_list = {
	.name = "list",
	.summary = "list all strategies, updaters, optimizers, codecs, workloads, devices and "
		   "platforms",
	.usage = "[strategies|updaters|optimizers|codecs|workloads|devices|platforms] [--option]",
	.about = "Shows all choices, their options, and whether they can be used here.",
	.options = list_flags,
	.size = sizeof(OWNER),
	.pages = true,
	.run = run_list,
};
