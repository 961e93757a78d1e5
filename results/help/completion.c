/*
 * completion.c - the script that completes mvbench's words in bash: tables of the words that there
 * are, printed here, and one function that looks in them.
 */
#include "results/help/help.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

/* Names of files may hold anything; a script gets plain ones only. */
static bool is_plain(const char *name)
{
	return *name && name[strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
					  "0123456789_.:+-")] == '\0';
}

static void put_word(FILE *f, const char *word)
{
	if (is_plain(word))
		fprintf(f, " %s", word);
}

/* ---- Options ------------------------------------------------------------- */

static bool needs_no_value(const struct option *o)
{
	return o->type == OPT_BOOL && strcmp(o->def, "false") == 0;
}

static void put_options(FILE *f, const char *owner, const struct option *table)
{
	for (const struct option *o = table; o && o->name; o++)
		fprintf(f, " --%s%s%s%s", owner ? owner : "", owner ? "." : "", o->name,
			needs_no_value(o) ? "" : "=");
}

static void put_plugin_options(FILE *f, const struct plugin *p)
{
	if (!p->options)
		return;
	fprintf(f, "\t%s) echo", p->name);
	put_options(f, p->name, p->options);
	fputs(" ;;\n", f);
}

static void option_tables(FILE *f)
{
	fputs("_mvbench_core='", f);
	put_options(f, NULL, run_options);
	fputs("'\n\n_mvbench_options() { # COMMAND\n\tcase $1 in\n", f);
	for (const struct command *const *c = commands; *c; c++) {
		fprintf(f, "\t%s) echo --help", (*c)->name);
		put_options(f, NULL, (*c)->options);
		fputs((*c)->run_options ? " \"$_mvbench_core\" ;;\n" : " ;;\n", f);
	}
	fputs("\tesac\n}\n\n_mvbench_plugin_options() { # STRATEGY or WORKLOAD\n\tcase $1 in\n", f);
	for (size_t i = 0; strategies[i]; i++)
		put_plugin_options(f, &strategies[i]->plugin);
	for (size_t i = 0; workloads[i]; i++)
		put_plugin_options(f, &workloads[i]->plugin);
	fputs("\tesac\n}\n\n", f);
}

/* ---- Values -------------------------------------------------------------- */

struct kind {
	FILE *f;
	const char *kind;
	bool any;
};

static void put_name(void *ctx, const char *kind, const char *name, const char *summary)
{
	struct kind *k = ctx;

	(void)summary;
	if (strcmp(kind, k->kind) != 0)
		return;
	put_word(k->f, strncmp(name, "sim:", 4) == 0 ? name + 4 : name);
	k->any = true;
}

static bool ends_in(const char *text, const char *end)
{
	size_t n = strlen(text), m = strlen(end);

	return n >= m && strcmp(text + n - m, end) == 0;
}

/* What may stand after the option's "=": from its type, its unit, or the plug-ins that it names.
 * false: nobody knows. */
static bool put_values(FILE *f, const struct option *o)
{
	const char *dot = strrchr(o->name, '.');
	struct kind names = {.f = f, .kind = dot ? dot + 1 : o->name};

	if (o->type == OPT_CHOICE) {
		for (const char *c = o->choices; c; c = strchr(c, '|') ? strchr(c, '|') + 1 : NULL)
			fprintf(f, " %.*s", (int)strcspn(c, "|"), c);
		return true;
	}
	if (o->type == OPT_BOOL) {
		fputs(" true false", f);
		return true;
	}
	if (ends_in(o->help, "[file]") || ends_in(o->help, "[folder]") ||
	    ends_in(o->help, "[path]")) {
		fputs(" @file", f);
		return true;
	}
	if (ends_in(o->help, "[command]"))
		for (const struct command *const *c = commands; *c; c++)
			put_word(f, (*c)->name);
	else
		catalogue_each(put_name, &names);
	return names.any || ends_in(o->help, "[command]");
}

static void value_rows(FILE *f, const char *command, const char *owner, const struct option *table)
{
	for (const struct option *o = table; o && o->name; o++) {
		char *words = NULL;
		size_t n;
		FILE *w = must(open_memstream(&words, &n));
		bool any = put_values(w, o);

		fclose(w);
		if (any)
			fprintf(f, "\t%s\" %s%s%s\") echo%s ;;\n", command, owner ? owner : "",
				owner ? "." : "", o->name, words);
		free(words);
	}
}

static void value_table(FILE *f)
{
	fputs("_mvbench_values() { # COMMAND OPTION\n\tcase \"$1 $2\" in\n", f);
	for (const struct command *const *c = commands; *c; c++)
		value_rows(f, (*c)->name, NULL, (*c)->options);
	value_rows(f, "*", NULL, run_options);
	for (size_t i = 0; strategies[i]; i++)
		value_rows(f, "*", strategies[i]->plugin.name, strategies[i]->plugin.options);
	for (size_t i = 0; workloads[i]; i++)
		value_rows(f, "*", workloads[i]->plugin.name, workloads[i]->plugin.options);
	fputs("\tesac\n}\n\n", f);
}

/* ---- Words after the command --------------------------------------------- */

static void put_known(void *ctx, const struct word *w)
{
	put_word(ctx, w->name);
}

static void put_job_files(FILE *f)
{
	char *folder = installed_path("workloads/sweeps");
	struct dirent **file;
	int n = folder ? scandir(folder, &file, NULL, alphasort) : -1;

	for (int i = 0; i < n; i++) {
		char *dot = strrchr(file[i]->d_name, '.');
		if (dot && strcmp(dot, ".ini") == 0) {
			*dot = '\0';
			put_word(f, file[i]->d_name);
		}
		free(file[i]);
	}
	if (n >= 0)
		free(file);
	free(folder);
}

static void put_topics(FILE *f)
{
	struct topic *all = topics_make();

	for (const struct topic *t = all; t->name; t++)
		put_word(f, t->name);
	topics_free(all);
}

/* From the first of the usage's words; see struct command. */
static void put_words(FILE *f, const struct command *c)
{
	const char *usage = c->usage;
	size_t n;

	usage += *usage == '[';
	n = strcspn(usage, " ]");
	if (c->words) {
		c->words(put_known, f);
	} else if (strncmp(usage, "FILE.ini", n) == 0) {
		fputs(" @ini", f);
		put_job_files(f);
	} else if (strncmp(usage, "TOPIC", n) == 0) {
		put_topics(f);
	} else if (strncmp(usage, "FILE", 4) == 0) {
		fputs(" @file", f);
	} else if (memchr(usage, '|', n)) {
		for (size_t i = 0, word; i < n; i += word + 1) {
			word = strcspn(usage + i, "|] ");
			if (usage[i] > 'Z') /* not RUN, which stands for a number */
				fprintf(f, " %.*s", (int)word, usage + i);
		}
	}
}

static void word_table(FILE *f)
{
	fputs("_mvbench_words() { # COMMAND\n\tcase $1 in\n\t'') echo", f);
	for (const struct command *const *c = commands; *c; c++)
		put_word(f, (*c)->name);
	fputs(" --help --version ;;\n", f);
	for (const struct command *const *c = commands; *c; c++) {
		fprintf(f, "\t%s) echo", (*c)->name);
		put_words(f, *c);
		fputs(" ;;\n", f);
	}
	fputs("\tesac\n}\n\n", f);
}

/* ---- The script ---------------------------------------------------------- */

static const char function[] =
	"# Keeps the words that begin with the text; @file and @ini stand for files. HEAD goes "
	"before\n"
	"# each.\n"
	"_mvbench_match() { # TEXT HEAD WORDS\n"
	"\tlocal word\n"
	"\tfor word in $3; do\n"
	"\t\tcase $word in\n"
	"\t\t@file) compopt -o filenames 2>/dev/null\n"
	"\t\t\twhile IFS= read -r word; do COMPREPLY+=(\"$2$word\"); done < <(compgen -f -- "
	"\"$1\") ;;\n"
	"\t\t@ini) compopt -o filenames 2>/dev/null\n"
	"\t\t\twhile IFS= read -r word; do\n"
	"\t\t\t\t[[ $word == *.ini || -d $word ]] && COMPREPLY+=(\"$2$word\")\n"
	"\t\t\tdone < <(compgen -f -- \"$1\") ;;\n"
	"\t\t\"$1\"*) COMPREPLY+=(\"$2$word\") ;;\n"
	"\t\tesac\n"
	"\tdone\n"
	"}\n\n"
	"_mvbench() {\n"
	"\tlocal line=() word command current previous='' options head value i\n"
	"\t# bash cuts words at = and :\n"
	"\tfor ((i = 1; i <= COMP_CWORD; i++)); do\n"
	"\t\tword=${COMP_WORDS[i]}\n"
	"\t\tif ((${#line[@]})) && [[ $word == [=:] || ${COMP_WORDS[i - 1]} == [=:] ]]; then\n"
	"\t\t\tline[${#line[@]} - 1]+=$word\n"
	"\t\telse\n"
	"\t\t\tline+=(\"$word\")\n"
	"\t\tfi\n"
	"\tdone\n"
	"\tCOMPREPLY=()\n"
	"\tcurrent=${line[${#line[@]} - 1]}\n"
	"\tif ((${#line[@]} == 1)); then\n"
	"\t\t_mvbench_match \"$current\" '' \"$(_mvbench_words '')\"\n"
	"\t\treturn\n"
	"\tfi\n"
	"\tcommand=${line[0]}\n"
	"\tprevious=${line[${#line[@]} - 2]}\n"
	"\toptions=$(_mvbench_options \"$command\")\n"
	"\tif [[ $options == *--workload=* ]]; then # those of the plug-ins that are named\n"
	"\t\tfor word in \"${line[@]}\"; do\n"
	"\t\t\tcase $word in\n"
	"\t\t\t--strategy=* | --workload=*) options+=\" $(_mvbench_plugin_options "
	"\"${word#*=}\")\" ;;\n"
	"\t\t\tesac\n"
	"\t\tdone\n"
	"\t\tcase $current in\n"
	"\t\t--*) word=${current#--}; options+=\" $(_mvbench_plugin_options \"${word%%.*}\")\" "
	";;\n"
	"\t\tesac\n"
	"\tfi\n"
	"\tif [[ $current == --*=* ]]; then\n"
	"\t\tword=${current#--}\n"
	"\t\tvalue=${word#*=} head=\n"
	"\t\t[[ ${COMP_WORDS[COMP_CWORD]} == \"$current\" ]] && head=--${word%%=*}=\n"
	"\t\tif [[ $value == *,* ]]; then # the last of a list\n"
	"\t\t\thead+=${value%,*}, value=${value##*,}\n"
	"\t\tfi\n"
	"\t\t_mvbench_match \"$value\" \"$head\" \"$(_mvbench_values \"$command\" "
	"\"${word%%=*}\")\"\n"
	"\telif [[ $current == -* ]]; then\n"
	"\t\t_mvbench_match \"$current\" '' \"$options\"\n"
	"\t\t[[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *= ]] && compopt -o nospace "
	"2>/dev/null\n"
	"\telif [[ $previous == --* && \" $options \" == *\" $previous= \"* ]]; then\n"
	"\t\t_mvbench_match \"$current\" '' \"$(_mvbench_values \"$command\" "
	"\"${previous#--}\")\"\n"
	"\telse\n"
	"\t\t_mvbench_match \"$current\" '' \"$(_mvbench_words \"$command\")\"\n"
	"\tfi\n"
	"\treturn 0\n"
	"}\n"
	"complete -F _mvbench mvbench\n";

void completion_bash(FILE *f)
{
	fputs("# Completes the words of mvbench in bash. Made by: mvbench help "
	      "--completion=bash\n\n",
	      f);
	option_tables(f);
	value_table(f);
	word_table(f);
	fputs(function, f);
}
