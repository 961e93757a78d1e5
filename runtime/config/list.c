/*
 * list.c - mvbench list: what there is to choose from, and whether it can be used here.
 */

#include "runtime/config/config.h"
#include "runtime/table/table.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

extern const struct command command_list;

struct list_flags {
	const char *format, *data_dir;
};

static const struct option list_flags[] = {
	{.name = "format",
	 .type = OPT_CHOICE,
	 .offset = offsetof(struct list_flags, format),
	 .def = "text",
	 .choices = "text|json",
	 .help = "of what is printed"},
	{.name = "data-dir",
	 .type = OPT_STRING,
	 .offset = offsetof(struct list_flags, data_dir),
	 .def = "",
	 .help = "where to look for the workloads' data; empty: where its package puts it "
		 "[folder]"},
	{0},
};

enum { NAME_WIDTH = 22 };

/* One list, as text or as a JSON array of objects. */
struct out {
	bool json, any;
	const struct list_flags *flags;
};

static void item(struct out *o, const char *name, const char *summary)
{
	if (o->json) {
		printf("%s{\"name\": \"%s\", \"summary\": ", o->any ? ", " : "", name);
		text_json(stdout, summary);
	} else {
		printf("  %-*s %s\n", NAME_WIDTH, name, summary);
	}
	o->any = true;
}

static void fact(const struct out *o, const char *key, const char *text)
{
	if (o->json) {
		printf(", \"%s\": ", key);
		text_json(stdout, text);
	} else {
		printf("  %-*s %s: %s\n", NAME_WIDTH, "", key, text);
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
		option_help(stdout, p->name, p->options);
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

static void list_strategies(struct out *o)
{
	for (size_t i = 0; strategies[i]; i++) {
		item(o, strategies[i]->plugin.name, strategies[i]->plugin.summary);
		options(o, &strategies[i]->plugin);
		end_item(o);
	}
}

/* Whether its data is there, and what it makes of it. */
static void data_of(const struct out *o, const struct workload *w)
{
	const struct setting setting[] = {{"workload", w->plugin.name},
					  {"data-dir", o->flags->data_dir}};
	struct config c;
	struct plan p;
	char *wrong = config_init(&c, setting, 2, true), *text;

	CHECK(!wrong, "workload %s: %s", w->plugin.name, wrong);
	wrong = plan_make(&c, &p);
	if (wrong)
		text = sentence("%s: not usable: %s", w->dataset->name, wrong);
	else
		text = sentence("%s: found, %zu rows to train on and %zu to test, %zu values each",
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
	free(text);
	free(wrong);
	config_fini(&c);
}

static void list_workloads(struct out *o)
{
	for (size_t i = 0; workloads[i]; i++) {
		char *text = recipe_words(workloads[i]->recipe);
		item(o, workloads[i]->plugin.name, workloads[i]->plugin.summary);
		data_of(o, workloads[i]);
		if (*text)
			fact(o, "defaults", text);
		free(text);
		options(o, &workloads[i]->plugin);
		end_item(o);
	}
}

static void list_updaters(struct out *o)
{
	for (size_t i = 0; updaters[i]; i++) {
		item(o, updaters[i]->name, updaters[i]->summary);
		end_item(o);
	}
}

static void list_devices(struct out *o)
{
	for (size_t i = 0; devices[i]; i++) {
		struct device_facts facts;
		const char *wrong = devices[i]->probe(&facts);
		item(o, devices[i]->name, devices[i]->summary);
		if (wrong) {
			fact(o, "not usable", wrong);
			end_item(o);
			continue;
		}
		if (*facts.model) {
			char *there =
				sentence("%d x %s, %.0f of %.0f GB free, driver %s", facts.count,
					 facts.model, 1e-9 * (double)facts.free_bytes,
					 1e-9 * (double)facts.total_bytes, facts.driver);
			fact(o, "gpus", there);
			free(there);
		}
		fact(o, "version", facts.version);
		end_item(o);
	}
}

static int is_platform(const struct dirent *e)
{
	const char *dot = strrchr(e->d_name, '.');
	return dot && strcmp(dot, ".xml") == 0;
}

/* The value of the first property "description" of an XML file, from the heap; NULL = none. */
static char *description_of(const char *path)
{
	char text[16384], *at = NULL, *end = NULL;
	FILE *f = fopen(path, "r");
	size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
	if (f)
		fclose(f);
	text[n] = '\0';
	at = strstr(text, "id=\"description\"");
	at = at ? strstr(at, "value=\"") : NULL;
	end = at ? strchr(at + strlen("value=\""), '"') : NULL;
	return end ? must(strndup(at + strlen("value=\""), (size_t)(end - at) - strlen("value=\"")))
		   : NULL;
}

static void each_simulated(void (*each)(void *ctx, const char *kind, const char *name,
					const char *summary),
			   void *ctx)
{
	char *folder = installed_path("sim/platforms");
	struct dirent **file;
	int n = folder ? scandir(folder, &file, is_platform, versionsort) : -1;
	each(ctx, "platform", "sim:local", "this machine, as mvbench calibrate has measured it");
	for (int i = 0; i < n; i++) {
		char *path = sentence("%s/%s", folder, file[i]->d_name);
		char *what = description_of(path);
		char *name =
			sentence("sim:%.*s", (int)strcspn(file[i]->d_name, "."), file[i]->d_name);
		each(ctx, "platform", name, what ? what : "(its file does not say)");
		free(name);
		free(what);
		free(path);
		free(file[i]);
	}
	if (n >= 0)
		free(file);
	free(folder);
}

static void list_simulated(void *ctx, const char *kind, const char *name, const char *summary)
{
	struct out *o = ctx;

	(void)kind;
	item(o, name, summary);
	end_item(o);
}

static void list_platforms(struct out *o)
{
	item(o, "mpi", "real workers, on this machine or those of --hostfile");
	fact(o, "version", platform_version());
	end_item(o);
	item(o, "sim",
	     "simulated workers in virtual time, on one of the following by its name "
	     "behind sim: (--platform=sim --sim.platform=NAME)");
	end_item(o);
	each_simulated(list_simulated, o);
}

void catalogue_each(void (*each)(void *ctx, const char *kind, const char *name,
				 const char *summary),
		    void *ctx)
{
	for (size_t i = 0; strategies[i]; i++)
		each(ctx, "strategy", strategies[i]->plugin.name, strategies[i]->plugin.summary);
	for (size_t i = 0; updaters[i]; i++)
		each(ctx, "updater", updaters[i]->name, updaters[i]->summary);
	for (size_t i = 0; workloads[i]; i++)
		each(ctx, "workload", workloads[i]->plugin.name, workloads[i]->plugin.summary);
	for (size_t i = 0; devices[i]; i++)
		each(ctx, "device", devices[i]->name, devices[i]->summary);
	each_simulated(each, ctx);
}

static const struct kind {
	const char *name;
	void (*list)(struct out *o);
} kinds[] = {
	{"strategies", list_strategies}, {"updaters", list_updaters},
	{"workloads", list_workloads},   {"devices", list_devices},
	{"platforms", list_platforms},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

static const struct kind *kind_find(const char *name)
{
	for (size_t i = 0; i < KINDS; i++)
		if (strcmp(kinds[i].name, name) == 0)
			return &kinds[i];
	return NULL;
}

static char *no_such_kind(const char *typed)
{
	const char *name[KINDS];

	for (size_t i = 0; i < KINDS; i++)
		name[i] = kinds[i].name;
	const char *near = nearest(typed, name, KINDS);
	if (near)
		return sentence("list %s: there is no such list; did you mean %s?", typed, near);
	return sentence(
		"list %s: there is no such list; there are strategies, updaters, workloads, "
		"devices and platforms",
		typed);
}

static void list(const struct kind *only, const struct list_flags *flags)
{
	bool json = strcmp(flags->format, "json") == 0, any = false;

	if (json)
		putchar('{');
	for (size_t i = 0; i < KINDS; i++) {
		struct out o = {.json = json, .flags = flags};
		if (only && only != &kinds[i])
			continue;
		if (json)
			printf("%s\"%s\": [", any ? ", " : "", kinds[i].name);
		else
			printf("%s%s\n", any ? "\n" : "", kinds[i].name);
		kinds[i].list(&o);
		if (json)
			putchar(']');
		any = true;
	}
	if (json)
		puts("}");
}

static int run_list(int argc, char **argv)
{
	struct arguments a;
	struct list_flags flags;
	const struct kind *only = NULL;
	char *wrong = arguments_read(&a, argc, argv, NULL);

	if (!wrong && a.help) {
		command_help(stdout, &command_list);
		arguments_free(&a);
		return EXIT_OK;
	}
	option_default(list_flags, &flags);
	if (!wrong)
		wrong = arguments_take(&a, list_flags, &flags);
	if (!wrong)
		wrong = arguments_refuse(&a, list_flags);
	if (!wrong && a.words > 1)
		wrong = sentence("list %s %s: one list at a time, or all with mvbench list",
				 a.word[0], a.word[1]);
	if (!wrong && a.words && !(only = kind_find(a.word[0])))
		wrong = no_such_kind(a.word[0]);
	if (wrong) {
		fprintf(stderr, "mvbench: %s\n", wrong);
		free(wrong);
		arguments_free(&a);
		return EXIT_USER;
	}
	list(only, &flags);
	arguments_free(&a);
	return EXIT_OK;
}

const struct command command_list = {
	.name = "list",
	.summary = "show the strategies, updaters, workloads, devices and platforms that there are",
	.usage = "[strategies|updaters|workloads|devices|platforms] [--option=value ...]",
	.about = "Shows what there is to choose from, its options, and whether it can be used "
		 "here.",
	.options = list_flags,
	.run = run_list,
};
