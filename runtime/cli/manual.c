/*
 * manual.c - mvbench help: topics, the manual page and the shell completion, all made from the
 * tables that the program itself uses.
 */
#include "runtime/cli/cli.h"
#include "runtime/config/plugins.h"

#include <stdlib.h>
#include <string.h>

struct help_options {
	const char *man, *completion;
};

#define OWNER struct help_options
static const struct option options[] = {
	OPTION(man, STRING, "man", "",
	       "print the manual page in roff, to be read with man -l; --man=COMMAND: of one "
	       "command [command]"),
	OPTION(completion, CHOICE, "completion", "none",
	       "print a completion script for this shell; try it with: "
	       "source <(mvbench help --completion=bash)",
	       .choices = "none|bash"),
	{.name = NULL},
};

static const char about_all[] = "A benchmark of synchronisation strategies for distributed SGD.";

/* ---- Without a topic ----------------------------------------------------- */

void manual_overview(FILE *f)
{
	fprintf(f, "usage: mvbench COMMAND [--option=value ...]\n\n%s\n\n", about_all);
	for (const struct command *const *c = commands; *c; c++) {
		fprintf(f, "  %-9s ", (*c)->name);
		text_wrap(f, (*c)->summary, 12);
	}
	fputc('\n', f);
	text_wrap(f,
		  "mvbench COMMAND --help and mvbench help TOPIC explain more; mvbench help topics "
		  "lists the topics.",
		  0);
	fputs("To begin with:\n"
	      "  mvbench run --workload=mlp --strategy=allreduce --workers=2 --epochs=3\n"
	      "  mvbench table\n",
	      f);
}

/* ---- The manual page ----------------------------------------------------- */

static void start_manual(const struct help *p, const char *name, const char *what)
{
	char upper[64];
	snprintf(upper, sizeof upper, "%s", name);
	for (char *c = upper; *c; c++)
		*c = (char)(*c >= 'a' && *c <= 'z' ? *c - 'a' + 'A' : *c);
	fprintf(p->f, ".TH %s 1 \"\" \"mvbench\" \"User Commands\"\n.SH NAME\n%s \\- %s\n", upper,
		name, what);
}

/* Prints every topic of this kind in full, each under a heading. */
static void whole_kind(const struct help *p, const struct topic *all, const char *head,
		       const char *kind)
{
	help_head(p, 1, head);
	for (const struct topic *t = all; t->name; t++) {
		if (strcmp(t->kind, kind) != 0)
			continue;
		help_head(p, 2, t->name);
		help_words(p, t->summary);
		t->print(p, t);
	}
}

static void experiment(const struct help *p, const struct topic *all)
{
	help_head(p, 1, "THE EXPERIMENT");
	help_words(p, "The options of mvbench run, which other commands that run experiments take "
		      "too.");
	help_options(p, NULL, run_options);
	whole_kind(p, all, "STRATEGIES", "strategy");
	whole_kind(p, all, "WORKLOADS", "workload");
	whole_kind(p, all, "OPTIMIZERS", "optimizer");
	whole_kind(p, all, "CODECS", "codec");
	help_head(p, 1, "UPDATERS");
	topics_list(p, all, "updater");
}

static void ending(const struct help *p, const struct topic *all)
{
	help_head(p, 1, "EXIT STATUS");
	topic_print(p, all, "exit-status");
	help_head(p, 1, "SEE ALSO");
	help_words(p, "mpirun(1), sqlite3(1), gnuplot(1)");
}

static void whole_manual(const struct help *p, const struct topic *all)
{
	start_manual(p, "mvbench", "compare synchronisation strategies of distributed SGD");
	help_head(p, 1, "SYNOPSIS");
	help_words(p, "mvbench COMMAND [--option=value ...]");
	help_head(p, 1, "DESCRIPTION");
	help_words(p, about_all);
	help_words(p,
		   "One loop trains real models on real data; only the synchronisation strategy "
		   "differs. Workers can also be simulated, in virtual time. Accuracy and time of "
		   "every epoch are stored in an SQLite file, which all comparisons read.");
	whole_kind(p, all, "COMMANDS", "command");
	experiment(p, all);
	help_head(p, 1, "SIMULATED PLATFORMS");
	topics_list(p, all, "platform");
	help_head(p, 1, "FIGURES");
	topics_list(p, all, "figure");
	help_head(p, 1, "JOB FILES");
	topic_print(p, all, "sweep-files");
	help_head(p, 1, "DATABASE");
	topic_print(p, all, "database");
	ending(p, all);
}

static void command_manual_of(const struct help *p, const struct topic *all,
			      const struct command *c)
{
	char *name AUTOFREE = sentence("mvbench-%s", c->name);
	start_manual(p, name, c->summary);
	help_command(p, 1, c);
	if (strcmp(c->name, "run") == 0)
		experiment(p, all);
	ending(p, all);
}

char *command_find(const char *before, const char *name, const struct command **found)
{
	const char **names AUTOFREE = NULL;
	size_t n = 0;
	for (const struct command *const *c = commands; *c; c++) {
		*found = *c;
		if (strcmp((*c)->name, name) == 0)
			return NULL;
		APPEND(names, n, (*c)->name);
	}
	return no_such("command", before, name, names, n, "mvbench --help lists them");
}

static char *manual(const char *of)
{
	const struct help p = {.f = stdout, .roff = true};
	const struct command *c = NULL;
	if (*of)
		TRY(command_find("--man=", of, &c));
	struct topic *all AUTOTOPICS = topics_make();
	if (c)
		command_manual_of(&p, all, c);
	else
		whole_manual(&p, all);
	return NULL;
}

/* ---- The command --------------------------------------------------------- */

static char *no_such_topic(const struct topic *all, const char *asked)
{
	size_t n = 0, dashes = strncmp(asked, "--", 2) == 0 ? 2 : 0;
	while (all[n].name)
		n++;
	const char **name AUTOFREE = must(calloc(n + 1, sizeof *name));
	for (size_t i = 0; i < n; i++)
		name[i] = all[i].name;
	return no_such("topic", dashes ? "--" : "", asked + dashes, name, n,
		       "mvbench help topics lists what there is");
}

/* An argument with dashes that is not an option of this command is a topic, too. */
static char *print_topics(const struct arguments *a)
{
	const struct help p = {.f = stdout};
	const struct plugin *plugin;
	for (size_t i = 0; i < a->words; i++)
		if (plugin_is_file(a->word[i])) {
			plugins_name(a->word[i], NAMED_BY_USER);
			TRY(plugin_choose(PART_COUNT, a->word[i], NULL, 0, &plugin));
			a->word[i] = plugin->name;
		}
	struct topic *all AUTOTOPICS = topics_make();
	for (size_t i = 0; i < a->words + a->options; i++) {
		bool word = i < a->words;
		char *name AUTOFREE = word ? sentence("%s", a->word[i])
					   : sentence("--%s", a->option[i - a->words].name);
		if (i)
			putchar('\n');
		if (!topic_print(&p, all, name))
			return no_such_topic(all, name);
	}
	return NULL;
}

static char *run_manual(void *options_given, struct arguments *a, int *status)
{
	const struct help_options *o = options_given;
	(void)status;
	if (arguments_took(a, "man"))
		return manual(*o->man || !a->words ? o->man : a->word[0]);
	if (strcmp(o->completion, "bash") == 0)
		completion_bash(stdout);
	else if (a->words + a->options)
		return print_topics(a);
	else
		manual_overview(stdout);
	return NULL;
}

const struct command command_manual = {
	.name = "help",
	.summary = "explain a command, an option, a strategy, a figure, a table, ...",
	.usage = "[TOPIC ...] [--option=value ...]",
	.about = "Explains a command, an option (with or without dashes, as in help easgd.beta), "
		 "your own plug-in (help ./mine.c), a strategy, updater, workload, device or "
		 "platform, a figure, a table or view of the database, a word, or a page: mvbench "
		 "help topics lists those. If several topics have the same name, give KIND:NAME, "
		 "such as table:run.",
	.options = options,
	.size = sizeof(OWNER),
	.any_option = true,
	.alone = {"man", ""},
	.pages = true,
	.run = run_manual,
};
