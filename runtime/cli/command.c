/*
 * command.c - starts a command and prints its help, both from the command's row only. Help pages
 * are text or roff (man(7)).
 */
#include "runtime/cli/cli.h"
#include "runtime/config/plugins.h"
#include "runtime/watch/watch.h"
#include "runtime/world/world.h"

#include <stdlib.h>
#include <string.h>

/* ---- roff ---------------------------------------------------------------- */

/* Escapes the text: no line becomes a roff request, and no quote ends an argument. */
static void put_roff(FILE *f, const char *text, bool starts)
{
	static const char special[] = "\\-'`^~\"";
	static const char *const roff[] = {"\\e",   "\\-",   "\\(aq", "\\(ga",
					   "\\(ha", "\\(ti", "\\(dq"};
	for (; *text; text++) {
		const char *at = strchr(special, *text);
		if (starts && (*text == '.' || *text == '\''))
			fputs("\\&", f);
		if (at)
			fputs(roff[at - special], f);
		else
			fputc(*text, f);
		starts = *text == '\n';
	}
}

static void put_quoted(FILE *f, const char *text)
{
	fputc('"', f);
	put_roff(f, text, false);
	fputs("\"\n", f);
}

/* ---- Parts of a page ----------------------------------------------------- */

void help_head(const struct help *p, int level, const char *text)
{
	if (!p->roff) {
		fprintf(p->f, "\n%s\n", text);
		return;
	}
	fputs(level == 1 ? ".SH " : ".SS ", p->f);
	put_quoted(p->f, text);
}

static void help_paragraph(const struct help *p, const char *text)
{
	if (p->roff) {
		fputs(".PP\n", p->f);
		put_roff(p->f, text, true);
		fputc('\n', p->f);
	} else {
		fputc('\n', p->f);
		text_wrap(p->f, text, 0);
	}
}

void help_words(const struct help *p, const char *text)
{
	const char *end;
	for (; *text; text = end + strspn(end, "\n")) {
		end = strstr(text, "\n\n");
		end = end ? end : text + strlen(text);
		char *one AUTOFREE = must(strndup(text, (size_t)(end - text)));
		help_paragraph(p, one);
	}
}

void help_row(const struct help *p, const char *left, const char *right)
{
	if (!p->roff) {
		text_row(p->f, left, right);
		return;
	}
	fputs(".TP\n.B ", p->f);
	put_quoted(p->f, left);
	put_roff(p->f, right, true);
	fputc('\n', p->f);
}

void help_rows(const struct help *p, const char *owner, const struct option *table)
{
	for (const struct option *o = table; o && o->name; o++) {
		char *left AUTOFREE, *right AUTOFREE;
		option_words(o, owner, &left, &right);
		help_row(p, left, right);
	}
}

void help_options(const struct help *p, const char *owner, const struct option *table)
{
	if (!p->roff && table && table->name)
		fputc('\n', p->f);
	help_rows(p, owner, table);
}

void help_verbatim(const struct help *p, const char *text)
{
	size_t n = strlen(text);
	const char *end = n && text[n - 1] == '\n' ? "" : "\n";
	if (!p->roff) {
		fprintf(p->f, "\n%s%s", text, end);
		return;
	}
	fputs(".PP\n.nf\n", p->f);
	put_roff(p->f, text, true);
	fprintf(p->f, "%s.fi\n", end);
}

char *recipe_words(const struct setting *recipe)
{
	struct text text;
	FILE *f = text_open(&text);
	for (const struct setting *s = recipe; s && s->name; s++)
		fprintf(f, "%s--%s=%s", s == recipe ? "" : " ", s->name, s->value);
	return text_close(&text);
}

/* ---- The help of a command ----------------------------------------------- */

static void help_page(const struct help *p, int level, const struct command *c, const char *more)
{
	char *usage AUTOFREE = sentence("mvbench %s %s", c->name, c->usage);
	char *line AUTOFREE = sentence("usage: %s", usage);
	bool heads = p->roff && level == 1;
	if (heads)
		help_head(p, 1, "SYNOPSIS");
	if (p->roff)
		help_paragraph(p, usage);
	else
		text_wrap(p->f, line, 0);
	if (heads)
		help_head(p, 1, "DESCRIPTION");
	help_words(p, c->about);
	if (heads)
		help_head(p, 1, "OPTIONS");
	help_options(p, NULL, c->options);
	if (c->run_options && strcmp(c->name, "run") != 0)
		help_words(p, "It takes options of mvbench run too: mvbench run --help=all.");
	if (more && *more && !p->roff)
		help_verbatim(p, more);
}

static char *help_given(const struct help *p, int level, const struct command *c,
			const struct arguments *given)
{
	struct text text;
	FILE *f = text_open(&text);
	char *wrong = c->more ? c->more(f, given) : NULL;
	char *more AUTOFREE = text_close(&text);
	if (!wrong)
		help_page(p, level, c, more);
	return wrong;
}

void help_command(const struct help *p, int level, const struct command *c)
{
	free(help_given(p, level, c, NULL));
}

/* ---- The start of a command ---------------------------------------------- */

static bool is_bare(const void *ctx, const char *name)
{
	const struct command *c = ctx;
	const struct option *o = option_find(c->options, name);
	char *wrong AUTOFREE = NULL;
	if (!o && c->run_options)
		wrong = config_check(name, "true", &o);
	if (!o || wrong)
		return c->any_option;
	return option_is_flag(o) || (c->alone.name && strcmp(name, c->alone.name) == 0);
}

/* Only the first rank of a launcher prints. */
static bool first_rank(void)
{
	return rank_of_launcher() <= 0;
}

int command_refuse(char *wrong)
{
	/* A status page carries the status; the exit status is then 0, because mpirun would report
	 * any other. */
	struct status_page *page = status_of_launcher();
	int status = page ? EXIT_OK : EXIT_USER;
	text_disarm(wrong);
	if (first_rank() && page)
		status_end(page, EXIT_USER, wrong);
	else if (first_rank())
		fprintf(stderr, "mvbench: %s\n", wrong);
	else if (page) /* the error may be on this rank's machine only */
		print_failure(wrong);
	status_free(page);
	free(wrong);
	return status;
}

/* A message if a rest option is unknown to mvbench run, but nearly one of the command's own. */
static char *misspelt(const struct command *c, const struct arguments *a)
{
	const char *own[64];
	size_t n = 0;
	for (const struct option *o = c->options; o && o->name && n < 64; o++)
		own[n++] = o->name;
	for (size_t i = 0; i < a->options; i++) {
		const char *name = a->option[i].name, *near = nearest(name, own, n);
		if (near && !strchr(name, '.') && !option_find(run_options, name))
			return sentence("--%s: there is no such option; did you mean --%s?", name,
					near);
	}
	return NULL;
}

static char *command_take_options(const struct command *c, struct arguments *a, void *options)
{
	option_default(c->options, options);
	for (size_t i = 0; c->alone.name && i < a->options; i++)
		if (!a->option[i].value && strcmp(a->option[i].name, c->alone.name) == 0)
			a->option[i].value = c->alone.value;
	char *wrong = arguments_take(a, c->options, options);
	if (!wrong && !c->run_options && !c->any_option)
		wrong = arguments_refuse(a, c->options);
	if (!wrong && c->run_options)
		wrong = misspelt(c, a);
	if (!wrong && c->example && a->words)
		wrong = sentence("%s: %s takes options only, such as %s", a->word[0], c->name,
				 c->example);
	return wrong;
}

/* --help works with any other options. */
int command_start(const struct command *c, int argc, char **argv)
{
	/* its text must outlive this call, because of the handler of end_explain */
	char *interrupted = NULL;
	const struct help page = {.f = stdout};
	struct arguments a;
	char *wrong = NULL;
	int status = EXIT_OK;
	/* which options are bare is known when the plug-ins are */
	if (c->run_options && !(wrong = arguments_read(&a, argc, argv, NULL, NULL))) {
		wrong = plugins_load(a.option, a.options);
		arguments_free(&a);
	}
	if (!wrong)
		wrong = arguments_read(&a, argc, argv, is_bare, c);
	if (wrong)
		return command_refuse(wrong);
	void *options AUTOFREE = must(calloc(1, c->size));
	if (c->interrupted && rank_of_launcher() < 0 && !world_is_virtual) {
		interrupted = sentence("mvbench: interrupted; %s\n", c->interrupted);
		end_explain(interrupted);
	}
	if (!a.help)
		wrong = command_take_options(c, &a, options);
	if (!wrong && (a.help || c->pages) && first_rank())
		pager_start();
	if (a.help)
		wrong = first_rank() ? help_given(&page, 1, c, &a) : NULL;
	else if (!wrong)
		wrong = c->run(options, &a, &status);
	arguments_free(&a);
	int refused = wrong ? command_refuse(wrong) : EXIT_OK;
	if (interrupted && status == EXIT_INTERRUPTED)
		fputs(interrupted, stderr);
	return status ? status : refused;
}
