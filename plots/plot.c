/*
 * plot.c - `mvbench plot`: figures from the store, drawn by gnuplot.
 *
 * A figure is a pair NAME.sql, NAME.gp: what is drawn, and how (figures.c finds them, draw.c draws
 * one). The stem `style` is what all of them share: style.sql names the chosen runs and has the
 * medians, style.gp the looks.
 */
#include "plots/plot.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char folder_default[] = "mvbench-plots";

struct plot_options {
	struct select select;
	const char *format, *out, *title, *figures;
	bool list;
};

static const char own_title[] = ""; /* --title alone: the figure's summary */

#define OWNER struct plot_options
static const struct option plot_options[] = {
	SELECT_OPTIONS(select., "database to draw from", ""),
	OPTION(format, CHOICE, "format", "auto", "auto: as --out ends, or png",
	       .choices = "auto|png|svg"),
	OPTION(out, STRING, "out", folder_default,
	       "where to: a folder, or for one figure a file that ends in .png or .svg [path]"),
	OPTION(title, STRING, "title", "",
	       "above the figure; --title alone takes the figure's summary [text]"),
	OPTION(figures, STRING, "figures", "",
	       "your own figures; none: mvbench/plots in $XDG_CONFIG_HOME or in ~/.config "
	       "[folder]"),
	OPTION(list, BOOL, "list", "false", "list the figures and stop"),
	{.name = NULL}};

/* ---- The command --------------------------------------------------------- */

/* NULL, or a sentence of one line: whoever draws is not told all columns. */
static char *check_condition(struct store *s, const char *where)
{
	char *wrong = database_condition(s, where);
	const char *list = wrong ? strstr(wrong, "the columns are:\n") : NULL;
	if (!list)
		return wrong;
	char *all AUTOFREE = wrong;
	return sentence("%.*smvbench table --help lists the columns", (int)(list - all), all);
}

char *plot_choose(struct store *s, const struct select *of, const char *plots)
{
	char *file AUTOFREE = sentence("%s/style.sql", plots);
	char *style AUTOFREE = text_read(file);
	if (!style)
		return sentence("%s: %s", file, strerror(errno));
	TRY(check_condition(s, of->where));
	/* Every figure reads the epochs anew: they stay in memory, as far as 64 MB reach. */
	TRY(sql_script(s, "PRAGMA temp_store = MEMORY; PRAGMA cache_size = -65536"));
	TRY(database_selected(s, "CREATE TEMP TABLE chosen AS SELECT id FROM run_summary",
			      of->where, of->label));
	char *why AUTOFREE = sql_script(s, style);
	return why ? sentence("%s: %s", file, why) : NULL;
}

static bool is_folder(const char *path)
{
	struct stat st;
	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static const char *extension(const char *path)
{
	const char *dot = strrchr(path, '.');
	if (dot && (strcmp(dot, ".png") == 0 || strcmp(dot, ".svg") == 0))
		return dot;
	return NULL;
}

/* Where figures go: a folder, or one file. stem gets the heap copy of a file's path without its
 * end. */
static char *settle_out(struct drawing *d, const struct plot_options *o, size_t names, char **stem)
{
	const char *end = is_folder(o->out) ? NULL : extension(o->out);
	d->format = strcmp(o->format, "auto") ? o->format : end ? end + 1 : "png";
	d->out = o->out;
	if (!o->out[0])
		return sentence("--out: a folder or a file is wanted, as in --out=%s",
				folder_default);
	if (!end) {
		static const char *const others[] = {"pdf",  "eps", "ps",  "jpg",
						     "jpeg", "gif", "tex", "html"};
		const char *dot = strrchr(o->out, '.');
		for (size_t i = 0; dot && i < sizeof(others) / sizeof(*others); i++)
			if (strcmp(dot + 1, others[i]) == 0 && !is_folder(o->out))
				return sentence("--out=%s: a file must end in .png or .svg",
						o->out);
		int failed = folder_make(o->out);
		return failed ? sentence("--out=%s: cannot make this folder: %s", o->out,
					 strerror(failed))
			      : NULL;
	}
	if (names != 1)
		return sentence("--out=%s: one file holds one figure; name the figure, or give a "
				"folder",
				o->out);
	if (strcmp(d->format, end + 1) != 0)
		return sentence("--out=%s: the file's name and --format=%s disagree", o->out,
				d->format);
	*stem = must(strndup(o->out, (size_t)(end - o->out)));
	d->out = *stem;
	d->end = end;
	return NULL;
}

static char *prepare(struct drawing *d, const struct plot_options *o, const struct arguments *a,
		     const struct figures *fs, const struct figure **wanted, char **stem)
{
	for (size_t i = 0; i < a->words; i++)
		TRY(figures_find(fs, a->word[i], &wanted[i]));
	for (size_t i = 0; !a->words && i < fs->n; i++)
		wanted[i] = &fs->figure[i];
	TRY(store_open(&d->store, o->select.db, STORE_READ));
	TRY(plot_choose(d->store, &o->select, fs->folder));
	return settle_out(d, o, a->words, stem);
}

static char *plot(const struct plot_options *o, const struct arguments *a, const struct figures *fs,
		  int *status)
{
	size_t n = a->words ? a->words : fs->n;
	const struct figure **wanted AUTOFREE = must(calloc(n + 1, sizeof(*wanted)));
	struct drawing d = {.style = fs->folder,
			    .title = o->title,
			    .summary = o->title == own_title,
			    .where = o->select.where[0] || o->select.label[0]};
	char *stem AUTOFREE = NULL, *wrong = prepare(&d, o, a, fs, wanted, &stem);
	if (!wrong)
		*status = draw_figures(&d, wanted, n, a->words > 0);
	/* Nothing has data: then each figure says so, and a script finds its files. */
	if (!wrong && *status == EXIT_OK && d.nwritten == 0)
		*status = draw_figures(&d, wanted, n, true);
	store_close(d.store);
	for (size_t i = 0; i < d.nwritten; i++)
		free(d.written[i]);
	free(d.written);
	return wrong;
}

static char *more_help(FILE *f, const struct arguments *given)
{
	struct figures fs ENDS_WITH(figures_fini) = {.n = 0};
	char *wrong AUTOFREE = figures_init(&fs, NULL);
	if (!wrong) {
		fputs("Figures:\n", f);
		for (size_t i = 0; i < fs.n; i++)
			text_row(f, fs.figure[i].name, fs.figure[i].summary);
		fputc('\n', f);
		char *own AUTOFREE = sentence(
			"A figure is a pair NAME.sql, NAME.gp; these are in %s. Put yours into %s, "
			"or say --figures=FOLDER. NAME.sql says what is drawn: a SELECT of "
			"workload, title and numbers, one picture a workload, one line or bar a "
			"title; its first comment line is the figure's summary, its second what it "
			"needs. NAME.gp says how, in gnuplot's words. style.sql and style.gp in "
			"the first folder explain what both can use; the shortest example is "
			"accuracy_epoch.",
			fs.folder, fs.own);
		text_wrap(f, own, 0);
	}
	(void)given;
	return NULL;
}

static char *run_plot(void *options, struct arguments *a, int *status)
{
	const struct plot_options *o = options;
	struct figures fs ENDS_WITH(figures_fini) = {.n = 0};
	TRY(figures_init(&fs, o->figures));
	if (!o->list)
		return plot(o, a, &fs, status);
	figures_print(&fs, stdout);
	return NULL;
}

const struct command command_plot = {
	.name = "plot",
	.summary = "draw results",
	.usage = "[FIGURE ...] [--option=value ...]",
	.about = "Draws figures of the finished runs in a database and prints their paths. Without "
		 "a name: every figure that there is data for. Each workload gets a picture of its "
		 "own; runs that differ in nothing but their seed become one curve.",
	.options = plot_options,
	.size = sizeof(OWNER),
	.alone = {"title", own_title},
	.words = figures_each,
	.run = run_plot,
	.more = more_help,
};
