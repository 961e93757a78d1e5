/*
 * plot.c - `mvbench plot`: figures from the store, drawn by gnuplot.
 *
 * A figure is a pair NAME.sql, NAME.gp: the data, and how to draw them (figures.c finds figures,
 * draw.c draws one). All figures share the pair `style`: style.sql has the chosen runs and their
 * medians, style.gp the looks.
 */
#include "plots/plot.h"

#include "results/ask/ask.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char folder_default[] = "mvbench-plots";

struct plot_options {
	struct select select;
	struct axes axes;
	const char *format, *out, *title, *figures, *size;
	bool list;
};

static const char own_title[] = ""; /* --title alone: the figure's summary */

/* [pt]; 0: it is no length. */
static double points_of(const char *text)
{
	static const struct {
		const char *name;
		double points;
	} unit[] = {{"mm", 72 / 25.4}, {"cm", 72 / 2.54}, {"in", 72}, {"pt", 1}};
	char *end;
	double number = strtod(text, &end);
	for (size_t i = 0; i < sizeof unit / sizeof *unit; i++)
		if (end > text && strcmp(end, unit[i].name) == 0)
			return number * unit[i].points;
	return 0;
}

/* Height of the letters in a picture of a given width: as chosen here, and in units of style.gp. */
enum { LETTER_UNITS = 11 };
#define LETTER_PT 7.5

static char *check_size(const struct option *o, const char *text)
{
	enum { LEAST_PT = 100, MOST_PT = 3000 };
	double points = points_of(text);
	return !*text || (points >= LEAST_PT && points <= MOST_PT)
		       ? NULL
		       : sentence("--%s=%s: give a width from 36mm to 1000mm, such as 84mm or "
				  "3.5in",
				  o->name, text);
}

#define OWNER struct plot_options
static const struct option plot_options[] = {
	SELECT_OPTIONS(select., "database to draw from", ""),
	OPTION(axes.x, STRING, "x", "",
	       "with --y: draw figure xy, any column of the runs against any other, such as lr, "
	       "workers, easgd.beta, epoch_seconds, speedup [column]"),
	OPTION(axes.y, STRING, "y", "",
	       "with --x: the y axis of figure xy, medians over the runs of a point; alone, of "
	       "figure history: a figure as --figure of mvbench history takes it [column]"),
	OPTION(axes.group, STRING, "group", "",
	       "lines of figure xy: one for each value of these columns, which pools runs that "
	       "differ in other options; none: one for each configuration [columns]"),
	OPTION(axes.log, CHOICE, "log", "auto",
	       "logarithmic axes of figure xy; auto: those with numbers above 0 that cover more "
	       "than a decade",
	       .choices = "auto|none|x|y|xy"),
	OPTION(format, CHOICE, "format", "auto",
	       "format of the pictures; auto: by the end of --out, otherwise png; pdf and eps "
	       "contain their fonts; tex is TikZ, with the fonts of your paper, for "
	       "\\usepackage{gnuplot-lua-tikz} and \\input{FILE}",
	       .choices = "auto|png|svg|pdf|eps|tex"),
	OPTION(out, STRING, "out", folder_default,
	       "output: a folder, or for one figure a file that ends in .png, .svg, .pdf, .eps or "
	       ".tex [path]"),
	OPTION(size, STRING, "size", "",
	       "width of the picture, as in 84mm, 3.5in or 240pt: letters have about 7.5 points; a "
	       "PNG has 300 pixels an inch; empty: as wide as it needs to be [length]",
	       .check = check_size),
	OPTION(title, STRING, "title", "",
	       "title above the figure; --title alone: the figure's summary [text]"),
	OPTION(figures, STRING, "figures", "",
	       "folder of your own figures; none: mvbench/plots in $XDG_CONFIG_HOME or in "
	       "~/.config [folder]"),
	OPTION(list, BOOL, "list", "false", "list the figures and stop"),
	{.name = NULL}};

/* ---- The command --------------------------------------------------------- */

/* NULL, or a message of one line: for a figure the list of all columns is left out. */
static char *check_condition(struct store *s, const char *where)
{
	char *wrong = database_condition(s, where);
	const char *list = wrong ? strstr(wrong, "the columns are:\n") : NULL;
	if (!list)
		return wrong;
	char *all AUTOFREE = wrong;
	return sentence("%.*smvbench table --help lists the columns", (int)(list - all), all);
}

/* If there are several labels, but not too many, the runs of each become a workload of their own;
 * so do the trials of a study. */
static const char by_label[] =
	"UPDATE run_summary SET workload = workload || iif(label <> '' AND (SELECT count(DISTINCT "
	"label) FROM run_summary WHERE label <> '') BETWEEN 2 AND 24, ', ' || label, '') || iif(id "
	"IN (SELECT run_id FROM main.study_run WHERE kind = 'trial'), ': trials', '')";

char *plot_choose(struct store *s, const struct select *of, const char *plots, bool sections)
{
	char *file AUTOFREE = sentence("%s/style.sql", plots);
	char *style AUTOFREE = text_read(file);
	if (!style)
		return sentence("%s: %s", file, strerror(errno));
	TRY(check_condition(s, of->where));
	/* Every figure reads the epochs again: up to 64 MB stay in memory. */
	TRY(sql_script(s, "PRAGMA cache_size = -65536"));
	TRY(database_take(s, of->where, of->label, true));
	if (sections)
		TRY(sql_script(s, by_label));
	TRY(database_summarise(s));
	TRY(sql_script(s, "CREATE UNIQUE INDEX temp.run_summary_id ON run_summary (id)"));
	TRY(names_make(s));
	char *why AUTOFREE = sql_script(s, style);
	return why ? sentence("%s: %s", file, why) : NULL;
}

static bool is_folder(const char *path)
{
	struct stat st;
	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* The one of these that the path ends with; NULL = none. */
static const char *extension(const char *path)
{
	static const char *const ends[] = {".png", ".svg", ".pdf", ".eps", ".tex"};
	const char *dot = strrchr(path, '.');
	for (size_t i = 0; dot && i < sizeof ends / sizeof *ends; i++)
		if (strcmp(dot, ends[i]) == 0)
			return ends[i];
	return NULL;
}

static const char *const xy[] = {"xy"};       /* the figure that has axes */
static const char over_commits[] = "history"; /* the figure that has a y only */

static bool has_axes(const struct axes *a)
{
	return *a->x || *a->y || *a->group || strcmp(a->log, "auto") != 0;
}

/* Decides where figures go: a folder, or one file. stem gets the heap copy of a file's path without
 * its end. */
static char *settle_out(struct drawing *d, const struct plot_options *o, size_t names, char **stem)
{
	const char *end = is_folder(o->out) ? NULL : extension(o->out);
	d->format = strcmp(o->format, "auto") ? o->format : end ? end + 1 : "png";
	d->out = o->out;
	if (!o->out[0])
		return sentence("--out: give a folder or a file, as in --out=%s", folder_default);
	if (!end) {
		const char *slash = strrchr(o->out, '/'), *last = slash ? slash + 1 : o->out;
		if (*last && strchr(last + 1, '.') && !is_folder(o->out))
			return sentence("--out=%s: a file must end in .png, .svg, .pdf, .eps or "
					".tex; the name of a new folder with a dot in /",
					o->out);
		int failed = folder_make(o->out);
		if (failed)
			return sentence("--out=%s: cannot make this folder: %s", o->out,
					strerror(failed));
		if (*o->axes.x) { /* each pair of columns has a file */
			char *name AUTOFREE = sentence(".%s", d->format);
			d->end = extension(name);
			d->out = *stem = sentence("%s/%s-%s", o->out, o->axes.y, o->axes.x);
		}
		return NULL;
	}
	if (names != 1)
		return sentence("--out=%s: one file holds one figure; name the figure, or give a "
				"folder",
				o->out);
	if (strcmp(d->format, end + 1) != 0)
		return sentence("--out=%s: the file's name and --format=%s disagree", o->out,
				d->format);
	*stem = must(strndup(o->out, strlen(o->out) - strlen(end)));
	d->out = *stem;
	d->end = end;
	d->one_file = true;
	return NULL;
}

/* NULL, or a message: --x, --y, --group or --log do not fit the named figure. */
static char *check_axes(const struct axes *a, const char *const *word, size_t words)
{
	static const char example[] = "mvbench plot --x=workers --y=epoch_seconds";
	if (words == 1 && strcmp(word[0], over_commits) == 0 && !*a->x && !*a->group &&
	    strcmp(a->log, "auto") == 0)
		return NULL;
	if (words != 1 || strcmp(word[0], xy[0]) != 0)
		return sentence("%s: --x, --y, --group and --log are for figure xy, as in %s",
				word[0], example);
	return *a->x && *a->y ? NULL : sentence("give --x and --y, as in %s", example);
}

static char *prepare_figures(struct drawing *d, const struct plot_options *o,
			     const struct figures *fs, const char *const *word, size_t words,
			     const struct figure **wanted)
{
	if (has_axes(&o->axes))
		TRY(check_axes(&o->axes, word, words));
	for (size_t i = 0; i < words; i++)
		TRY(figures_find(fs, word[i], &wanted[i]));
	for (size_t i = 0; !words && i < fs->n; i++)
		wanted[i] = &fs->figure[i];
	TRY(store_open(&d->store, o->select.db, STORE_READ));
	TRY(plot_choose(d->store, &o->select, fs->folder, false));
	for (size_t i = 0; wanted[i]; i++)
		if (strcmp(wanted[i]->name, over_commits) == 0)
			TRY(history_past(d->store, &o->select, "--y=", o->axes.y));
	return *o->axes.x ? axes_choose(d->store, &o->axes) : NULL;
}

/* Does a figure of this name, or an axis, show times? */
static bool shows_times(const char *name)
{
	return strstr(name, "time") || strstr(name, "second") || strstr(name, "speedup") ||
	       strstr(name, "efficiency") || strstr(name, "pareto");
}

/* Warns of times that other programs have disturbed. */
static char *say_busy(struct store *s, const struct axes *a, const char *const *word, size_t words)
{
	int64_t busy = 0;
	bool times = words == 0 || shows_times(a->x) || shows_times(a->y);
	for (size_t i = 0; i < words; i++)
		times |= shows_times(word[i]);
	if (times)
		TRY(sql_number(s, &busy, BUSY_RUNS, ""));
	if (busy)
		fprintf(stderr,
			"mvbench: in %lld of these runs a worker had less than 90 %% of its core, "
			"because other processes ran there: their times are not reliable\n",
			(long long)busy);
	return NULL;
}

static char *plot(const struct plot_options *o, const struct arguments *a, const struct figures *fs,
		  int *status)
{
	const char *const *word = !a->words && has_axes(&o->axes) ? xy : a->word;
	size_t words = word == xy ? 1 : a->words, n = words ? words : fs->n;
	const struct figure **wanted AUTOFREE = must(calloc(n + 1, sizeof(*wanted)));
	struct drawing d = {.style = fs->folder,
			    .title = o->title,
			    .width_pt = points_of(o->size),
			    .width_units = points_of(o->size) / LETTER_PT * LETTER_UNITS,
			    .summary = o->title == own_title,
			    .named = words > 0,
			    .where = o->select.where[0] || o->select.label[0]};
	char *stem AUTOFREE = NULL, *wrong = prepare_figures(&d, o, fs, word, words, wanted);
	if (!wrong)
		wrong = settle_out(&d, o, words, &stem);
	if (!wrong)
		*status = draw_figures(&d, wanted, n, words > 0);
	/* No figure has data: each one explains this, and a script finds its files. */
	if (!wrong && *status == EXIT_OK && d.nwritten == 0)
		*status = draw_figures(&d, wanted, n, true);
	if (!wrong && *status == EXIT_OK)
		wrong = say_busy(d.store, &o->axes, word, words);
	store_close(d.store);
	for (size_t i = 0; i < d.nwritten; i++)
		free(d.written[i]);
	free(d.written);
	return wrong;
}

static char *plot_more_help(FILE *f, const struct arguments *given)
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
			"or give --figures=FOLDER. NAME.sql gives the data: a SELECT of workload, "
			"title and numbers, with one picture for each workload and one line or bar "
			"for each title. Its first comment line is the figure's summary, the "
			"second states what the figure needs. NAME.gp has the gnuplot commands; "
			"line type look[i] is the same for a configuration in all figures. "
			"style.sql and style.gp in the first folder explain what both can use; the "
			"shortest example is accuracy_epoch.",
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
		 "a name it draws every figure that has data; with --x and --y it draws these "
		 "columns against each other. Each workload gets its own picture; runs that differ "
		 "only in their seed become one curve.",
	.options = plot_options,
	.size = sizeof(OWNER),
	.alone = {"title", own_title},
	.words = figures_each,
	.run = run_plot,
	.more = plot_more_help,
	.interrupted = STARTS_AGAIN,
};
