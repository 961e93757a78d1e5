/*
 * topic.c - the help topics, collected from the tables that the program itself uses. Only the pages
 * at the end of this file are written for help alone.
 */
#include "runtime/cli/cli.h"
#include "runtime/config/clusters.h"
#include "runtime/config/plugins.h"
#include "workloads/net.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

TEXT_FILE(readme, "README.md");

/* ---- The list ------------------------------------------------------------ */

struct topics {
	struct topic *topic;
	size_t n;
};

struct topic *topic_add(struct topics *l, const char *kind, const char *name, const char *summary,
			topic_function *print)
{
	const struct topic new = {.kind = kind,
				  .name = must(strdup(name)),
				  .summary = must(strdup(summary)),
				  .print = print,
				  .place = l->n};
	APPEND(l->topic, l->n, new);
	return &l->topic[l->n - 1];
}

void topics_free(struct topic *all)
{
	for (struct topic *t = all; t && t->name; t++) {
		free(t->name);
		free(t->summary);
		free(t->path);
	}
	free(all);
}

void topics_list(const struct help *p, const struct topic *all, const char *kind)
{
	if (!p->roff)
		fputc('\n', p->f);
	for (const struct topic *t = all; t->name; t++)
		if (strcmp(t->kind, kind) == 0)
			help_row(p, t->name, t->summary);
}

static void title(const struct help *p, const struct topic *t)
{
	char *text AUTOFREE = sentence("%s %s: %s", t->kind, t->name, t->summary);
	if (!p->roff)
		text_wrap(p->f, text, 0);
}

static void words(const struct help *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void words(const struct help *p, const char *fmt, ...)
{
	char *text AUTOFREE = NULL;
	va_list args;
	va_start(args, fmt);
	CHECK(vasprintf(&text, fmt, args) >= 0, "no memory");
	va_end(args);
	help_words(p, text);
}

/* ---- Commands and their options ------------------------------------------ */

static void print_command(const struct help *p, const struct topic *t)
{
	help_command(p, 2, t->of);
}

static void add_commands(struct topics *l)
{
	for (const struct command *const *c = commands; *c; c++)
		topic_add(l, "command", (*c)->name, (*c)->summary, print_command)->of = *c;
}

/* Prints the recipes that set this option. */
static void print_recipes(const struct help *p, const struct option *o)
{
	for (size_t i = 0; workloads[i]; i++)
		for (const struct setting *r = workloads[i]->recipe; r && r->name; r++) {
			char *line AUTOFREE = sentence("%s: --%s=%s", workloads[i]->plugin.name,
						       r->name, r->value);
			if (strcmp(r->name, o->name) == 0)
				help_row(p, "", line);
		}
}

static void print_option(const struct help *p, const struct topic *t)
{
	const struct option *o = t->of;
	bool core = !t->owner, plugin = core || strchr(t->name, '.');
	enum part part = 0;
	while (plugin && !core && part + 1 < PART_COUNT && !plugin_find(part, t->owner))
		part++;
	char *left AUTOFREE, *right AUTOFREE, column[COLUMN_ROOM];
	option_words(o, plugin ? t->owner : NULL, &left, &right);
	fprintf(p->f, "an option of %s %s:\n", plugin && !core ? part_names[part] : "mvbench",
		core ? "run" : t->owner);
	help_row(p, left, right);
	if (core) {
		print_recipes(p, o);
		if (!o->incidental)
			words(p, "It is column %s of table run.", option_column(o, column));
	} else if (plugin) {
		words(p, "It is row '%s' of a run in table run_option.", o->name);
	}
}

static void add_options(struct topics *l, const struct option *table, const char *owner,
			bool plugin)
{
	for (const struct option *o = table; o && o->name; o++) {
		char *name AUTOFREE =
			plugin ? sentence("%s.%s", owner, o->name) : sentence("%s", o->name);
		struct topic *t = topic_add(l, "option", name, o->help, print_option);
		t->owner = owner;
		t->of = o;
	}
}

/* ---- Plug-ins, devices, platforms ---------------------------------------- */

/* How a user selects it; %s is its name. */
static const struct {
	const char *kind, *use;
} uses[] = {
	{"strategy", "mvbench run --strategy=%s takes it."},
	{"workload", "mvbench run --workload=%s trains it."},
	{"optimizer", "mvbench run --optimizer=%s takes it."},
	{"codec", "mvbench run --codec=%s takes it."},
	{"device", "mvbench run --device=%s takes it; mvbench list devices shows whether it "
		   "works here."},
	{"platform", "mvbench run --platform=sim --sim.platform=%s simulates it."},
};

static void print_updater(const struct help *p, const struct topic *t)
{
	fputc('\n', p->f);
	for (size_t i = 0; strategies[i]; i++)
		if (option_find(strategies[i]->plugin.options, "updater"))
			fprintf(p->f, "  mvbench run --strategy=%s --%s.updater=%s\n",
				strategies[i]->plugin.name, strategies[i]->plugin.name, t->name);
}

static void print_entry(const struct help *p, const struct topic *t)
{
	const char *name = platform_name(t->name);
	const struct plugin *plugin = t->of; /* NULL = it is none */
	const struct workload *w = strcmp(t->kind, "workload") == 0 ? t->of : NULL;
	char *recipe AUTOFREE = recipe_words(w ? w->recipe : NULL);
	title(p, t);
	if (*recipe)
		words(p, "Its recipe, the defaults that your options override: %s", recipe);
	if (plugin)
		help_options(p, name, plugin->options);
	if (w && w->dataset->needs)
		words(p, "It needs %s.", w->dataset->needs);
	if (p->roff)
		return;
	if (strcmp(t->kind, "updater") == 0)
		print_updater(p, t);
	char *typed AUTOFREE = plugin ? plugin_typed(plugin) : sentence("%s", name);
	typed[strcspn(typed, "#")] = '\0';
	for (size_t i = 0; i < sizeof uses / sizeof *uses; i++)
		if (strcmp(t->kind, uses[i].kind) == 0)
			words(p, uses[i].use, typed);
}

static void add_entry(void *ctx, const struct choice *e)
{
	topic_add(ctx, e->kind, e->name, e->summary, print_entry)->of = e->plugin;
	if (e->plugin)
		add_options(ctx, e->plugin->options, e->name, true);
}

static void print_figure(const struct help *p, const struct topic *t)
{
	title(p, t);
	words(p, "mvbench plot %s draws it, from %s.sql and %s.gp.", t->name, t->path, t->path);
}

static void add_figure(void *ctx, const struct word *w)
{
	if (strcmp(w->kind, "figure") != 0)
		return;
	char *all AUTOFREE = sentence("%s%s%s", w->summary, *w->needs ? " " : "", w->needs);

	topic_add(ctx, "figure", w->name, all, print_figure)->path = must(strdup(w->path));
}

static void add_figures(struct topics *l)
{
	for (const struct command *const *c = commands; *c; c++)
		if ((*c)->words)
			(*c)->words(add_figure, l);
}

/* ---- Words: the glossary of the first page --------------------------------- */

static void print_word(const struct help *p, const struct topic *t)
{
	title(p, t);
}

/* A row "| push, pull | what they mean |"; a blank in a name becomes a dash. */
static void add_word(struct topics *l, const char *row)
{
	char *line AUTOFREE = must(strndup(row, strcspn(row, "\n"))), *end = strstr(line, " | ");
	if (!end)
		return;
	char *means AUTOFREE = text_replaced(end + 3, "`", ""), *rest = line, *name;
	*end = '\0';
	means[strlen(means) - strlen(" |")] = '\0';
	while ((name = strsep(&rest, ","))) {
		name += strspn(name, " ");
		for (char *c = name; *c; c++)
			*c = *c == ' ' ? '-' : *c;
		topic_add(l, "word", name, means, print_word);
	}
}

static void add_words(struct topics *l)
{
	static const char head[] = "\n## Words\n", rule[] = "\n|---|---|", row[] = "\n| ";
	const char *at = strstr(readme, head);
	at = at ? strstr(at, rule) : NULL;
	for (at = at ? at + sizeof rule - 1 : NULL; at && strncmp(at, row, sizeof row - 1) == 0;
	     at = strchr(at + 1, '\n'))
		add_word(l, at + sizeof row - 1);
}

/* ---- Pages --------------------------------------------------------------- */

struct page {
	const char *name, *summary;
	/* These follow each other; NULL = none. list: all topics of this kind. */
	const char *words, *example, *list, *end;
	topic_function *print; /* NULL = print_page */
};

static void print_page(const struct help *p, const struct topic *t)
{
	const struct page *page = t->of;
	if (!p->roff)
		fprintf(p->f, "%s\n", t->summary);
	if (page->words)
		help_words(p, page->words);
	if (page->example)
		help_verbatim(p, page->example);
	if (page->list)
		topics_list(p, t - t->place, page->list);
	if (page->end)
		help_words(p, page->end);
}

static void print_statuses(const struct help *p, const struct topic *t)
{
	static const struct {
		int status;
		const char *means;
	} row[] = {
		{EXIT_OK, "all went well"},
		{EXIT_FAILED, "something failed while it ran; of a check: it did not pass"},
		{EXIT_USER, "refused: one message gives the reason; nothing is written"},
		{EXIT_DIVERGED, "the training diverged: a loss was not finite, or more than ten "
				"times that before training"},
		{EXIT_INTERRUPTED, "interrupted, as by Ctrl-C"},
	};
	char number[12];
	if (!p->roff)
		fprintf(p->f, "%s\n\n", t->summary);
	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		snprintf(number, sizeof number, "%d", row[i].status);
		help_row(p, number, row[i].means);
	}
}

static const char job_words[] =
	"A job file is INI: [defaults], then one section for each group of cells. A key is an "
	"option of mvbench run; its value is one value or a list with commas. Ranges are 1..5 for "
	"whole numbers, 0.1..0.5 by 0.1 for equal steps, and 1e-4..1 log 5 for 5 values with the "
	"same factor from each to the next. A section's cells are all combinations of its lists. "
	"Lists that a line zip names advance together: the first value of one with the first of "
	"the others. A line exclude leaves out the cells for which all its conditions hold. A "
	"section inherits from [defaults]; options of mvbench sweep replace both.";

static const char job_example[] = "[defaults]\n"
				  "workload = mlp\n"
				  "seed = 1..5\n"
				  "exclude = strategy=serial workers=2,4\n"
				  "[multiverso]\n"
				  "strategy = serial, asgd\n"
				  "workers = 1,2,4\n"
				  "sync-every = 1,3,16\n"
				  "[rates]\n"
				  "strategy = allreduce\n"
				  "workers = 1,2,4\n"
				  "lr = 0.1..0.3 by 0.1\n"
				  "zip = workers, lr\n";

static const char job_end[] =
	"mvbench sweep FILE.ini --dry-run lists the cells and which are finished; those are not "
	"run again. Equal cells are run once. Options of a strategy or workload that a cell does "
	"not use are left out of it, so [defaults] can hold them for all. If one value is itself "
	"a list, as in --speed, blanks separate its items. label, db and hostfile take the whole "
	"text as one value, with commas and quotes. A blank and a semicolon start a comment.";

static const char database_words[] =
	"Results are one SQLite file (--db): tables hold what was measured, and views do all "
	"arithmetic, so that any tool that reads SQLite gets the same figures. mvbench opens files "
	"of older versions and brings them up to date.";

static const struct page pages[] = {
#define KIND(kind) .list = kind, .end = "mvbench help NAME explains one of them."
	{"strategies", "synchronisation strategies (--strategy)", KIND("strategy")},
	{"updaters", "what a push can do to the model on a server (--asgd.updater)",
	 KIND("updater")},
	{"optimizers", "how a worker turns a gradient into a step (--optimizer)",
	 KIND("optimizer")},
	{"codecs", "how messages are compressed (--codec)", KIND("codec")},
	{"workloads", "what can be trained (--workload)", KIND("workload")},
	{"devices", "where a worker can compute (--device)", KIND("device")},
	{"platforms", "what can be simulated (--sim.platform)", KIND("platform")},
	{"figures", "what mvbench plot can draw", KIND("figure")},
	{"commands", "what mvbench can do", KIND("command")},
	{"options", "every option of every command and plug-in", KIND("option")},
	{"words", "words of these pages, and their meanings", KIND("word")},
	{"topics", "pages of help", KIND("page")},
#undef KIND
	{"sweep-files", "job files of mvbench sweep", .words = job_words, .example = job_example,
	 .end = job_end},
	{"database", "where results are kept", .words = database_words, .list = "table",
	 .example = "sqlite3 mvbench.db \"SELECT config, seed, test_accuracy FROM run_summary\"\n",
	 .end = "mvbench help TABLE shows its columns; where a command has the same name, mvbench "
		"help table:NAME does."},
	{"exit-status", "the exit statuses of all commands", .print = print_statuses},
};

static void add_pages(struct topics *l)
{
	for (const struct page *page = pages; page < pages + sizeof pages / sizeof *pages; page++)
		topic_add(l, "page", page->name, page->summary,
			  page->print ? page->print : print_page)
			->of = page;
}

struct topic *topics_make(void)
{
	struct topics l = {.n = 0};
	add_pages(&l);
	add_words(&l); /* a name's definition is first, then what else has the name */
	add_commands(&l);
	add_options(&l, run_options, NULL, false);
	catalogue_each(add_entry, &l);
	add_figures(&l);
	for (topic_source *const *above = topic_sources; *above; above++)
		(*above)(&l);
	for (const struct command *const *c = commands; *c; c++)
		add_options(&l, (*c)->options, (*c)->name, false);
	APPEND(l.topic, l.n, (struct topic){.name = NULL});
	return l.topic;
}

/* ---- Finding one --------------------------------------------------------- */

/* Does this topic match? An option may have its dashes and a value. */
static bool is_named(const struct topic *t, const char *asked)
{
	size_t kind = strlen(t->kind);
	if (strncmp(asked, t->kind, kind) == 0 && asked[kind] == ':')
		asked += kind + 1;
	bool dashed = strncmp(asked, "--", 2) == 0, option = strcmp(t->kind, "option") == 0;
	char *name AUTOFREE =
		dashed ? must(strndup(asked + 2, strcspn(asked + 2, "="))) : must(strdup(asked));
	return (option || !dashed) && strcmp(name, t->name) == 0;
}

bool topic_print(const struct help *p, const struct topic *all, const char *name)
{
	const struct topic *command = NULL;
	bool any = false;
	for (const struct topic *t = all; t->name; t++)
		if (strcmp(t->kind, "command") == 0 && is_named(t, name))
			command = t;
	for (const struct topic *t = all; t->name; t++) {
		if (!is_named(t, name))
			continue;
		if (any)
			fputc('\n', p->f);
		if (command && t != command) /* the help of a command is long */
			fprintf(p->f, "There is %s %s %s too: mvbench help %s:%s\n",
				strchr("aeiou", *t->kind) ? "an" : "a", t->kind, t->name, t->kind,
				t->name);
		else
			t->print(p, t);
		any = true;
	}
	return any;
}
