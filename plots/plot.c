/*
 * plot.c - `mvbench plot`: figures from the store, drawn by gnuplot.
 *
 * A figure is a pair NAME.sql, NAME.gp: what is drawn, and how (figures.c finds them, draw.c draws
 * one). The stem `style` is what all of them share: style.sql names the chosen runs and has the
 * medians, style.gp the looks.
 */
#include "plots/plot.h"
#include "results/gate/gate.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

extern const struct command command_plot;

static const char folder_default[] = "mvbench-plots";

struct plot_options {
	const char *db, *where, *label, *format, *out, *title, *figures;
	bool list, summary; /* summary: a bare --title */
};

static const struct option plot_options[] = {
	{.name = "db",
	 .type = OPT_STRING,
	 .offset = offsetof(struct plot_options, db),
	 .def = DATABASE,
	 .help = "database to draw from [file]"},
	{.name = "where",
	 .type = OPT_STRING,
	 .offset = offsetof(struct plot_options, where),
	 .def = "",
	 .help = "which runs: a condition on the columns of run_summary, such as "
		 "\"strategy = 'asgd' AND workers > 1\" [SQL]"},
	{.name = "label",
	 .type = OPT_STRING,
	 .offset = offsetof(struct plot_options, label),
	 .def = "",
	 .help = "only runs with this label [text]"},
	{.name = "format",
	 .type = OPT_CHOICE,
	 .offset = offsetof(struct plot_options, format),
	 .def = "auto",
	 .choices = "auto|png|svg",
	 .help = "auto: as --out ends, or png"},
	{.name = "out",
	 .type = OPT_STRING,
	 .offset = offsetof(struct plot_options, out),
	 .def = folder_default,
	 .help = "where to: a folder, or for one figure a file that ends in .png or .svg [path]"},
	{.name = "title",
	 .type = OPT_STRING,
	 .offset = offsetof(struct plot_options, title),
	 .def = "",
	 .help = "above the figure; --title alone takes the figure's summary [text]"},
	{.name = "figures",
	 .type = OPT_STRING,
	 .offset = offsetof(struct plot_options, figures),
	 .def = "",
	 .help = "your own figures; none: mvbench/plots in $XDG_CONFIG_HOME or in ~/.config "
		 "[folder]"},
	{.name = "list",
	 .type = OPT_BOOL,
	 .offset = offsetof(struct plot_options, list),
	 .def = "false",
	 .help = "list the figures and stop"},
	{.name = NULL}};

static bool bare(const char *name)
{
	return strcmp(name, "list") == 0 || strcmp(name, "title") == 0;
}

/* ---- The command --------------------------------------------------------- */

char *plot_choose(struct store *s, const char *where, const char *label, const char *plots)
{
	char *sql = sentence("CREATE TEMP TABLE chosen AS SELECT id FROM run_summary "
			     "WHERE (?1 = '' OR label = ?1) AND (\n%s\n)",
			     where[0] ? where : "1");
	char *file = sentence("%s/style.sql", plots), *style = text_read(file), *wrong = NULL;
	sqlite3_stmt *q = NULL;
	const char *tail = "";
	/* Every figure reads the epochs anew: they stay in memory, as far as 64 MB reach. */
	int rc = sqlite3_exec(s->db, "PRAGMA temp_store = MEMORY; PRAGMA cache_size = -65536", NULL,
			      NULL, NULL);

	if (rc == SQLITE_OK)
		rc = sqlite3_prepare_v2(s->db, sql, -1, &q, &tail);
	if (rc == SQLITE_OK)
		sqlite3_bind_text(q, 1, label, -1, SQLITE_STATIC);
	if (rc == SQLITE_OK && *tail)
		wrong = sentence("--where=%s: one SQL condition is wanted, and nothing after it",
				 where);
	else if (rc == SQLITE_OK && sqlite3_step(q) != SQLITE_DONE)
		rc = sqlite3_errcode(s->db);
	if (!wrong && rc != SQLITE_OK && where[0])
		wrong = sentence("--where=%s: %s; a condition on the columns of run_summary is "
				 "wanted, such as --where=\"workload='mlp' AND workers=2\"",
				 where, sqlite3_errmsg(s->db));
	else if (!wrong && rc != SQLITE_OK)
		wrong = database_error(s, rc);
	sqlite3_finalize(q);
	if (!wrong && !style)
		wrong = sentence("%s: %s", file, strerror(errno));
	if (!wrong && sqlite3_exec(s->db, style, NULL, NULL, NULL) != SQLITE_OK)
		wrong = sentence("%s: %s", file, sqlite3_errmsg(s->db));
	free(sql);
	free(style);
	free(file);
	return wrong;
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

static char *make_folder(const char *path)
{
	char *each = must(strdup(path));
	int failed = 0;

	for (char *c = each + 1; failed == 0; c++) {
		char was = *c;
		if (was != '/' && was != '\0')
			continue;
		*c = '\0';
		if (mkdir(each, 0777) != 0 && errno != EEXIST)
			failed = errno;
		*c = was;
		if (was == '\0')
			break;
	}
	free(each);
	if (!failed && !is_folder(path))
		failed = ENOTDIR;
	return failed ? sentence("--out=%s: cannot make this folder: %s", path, strerror(failed))
		      : NULL;
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
		return make_folder(o->out);
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

/* Every figure in turn; a bad query does not keep the others from being drawn. */
static int draw_all(struct drawing *d, const struct figure **wanted, size_t n, bool explain)
{
	int first = EXIT_OK;

	for (size_t i = 0; i < n && first != EXIT_USER; i++) {
		int status = draw_figure(d, wanted[i], explain);
		first = first == EXIT_OK || status == EXIT_USER ? status : first;
	}
	return first;
}

void folder_remove(const char *path)
{
	DIR *dir = opendir(path);

	for (struct dirent *e; dir && (e = readdir(dir));)
		unlinkat(dirfd(dir), e->d_name, 0);
	if (dir)
		closedir(dir);
	rmdir(path);
}

static int plot(const struct plot_options *o, const struct arguments *a, const struct figures *fs)
{
	const char *temporary = getenv("TMPDIR");
	char *scratch =
		sentence("%s/mvbench-plot-XXXXXX", temporary && *temporary ? temporary : "/tmp");
	size_t n = a->words ? a->words : fs->n;
	const struct figure **wanted = must(calloc(n + 1, sizeof(*wanted)));
	struct drawing d = {.db_path = o->db,
			    .style = fs->folder,
			    .title = o->title,
			    .summary = o->summary,
			    .where = o->where[0] || o->label[0]};
	struct store *store = NULL;
	char *wrong = NULL, *stem = NULL;
	int status = EXIT_USER;

	for (size_t i = 0; i < n && !wrong; i++)
		wanted[i] = a->words ? figures_find(fs, a->word[i], &wrong) : &fs->figure[i];
	if (!wrong)
		wrong = store_open(&store, o->db, STORE_READ);
	if (!wrong)
		wrong = plot_choose(store, o->where, o->label, fs->folder);
	if (!wrong)
		wrong = settle_out(&d, o, a->words, &stem);
	if (!wrong && mkdtemp(scratch)) {
		d.db = store->db;
		d.scratch = scratch;
		status = draw_all(&d, wanted, n, a->words > 0);
		/* Nothing has data: then each figure says so, and a script finds its files. */
		if (status == EXIT_OK && d.nwritten == 0)
			status = draw_all(&d, wanted, n, true);
		folder_remove(scratch);
	} else if (!wrong) {
		wrong = sentence("%s: cannot make a folder: %s", scratch, strerror(errno));
	}
	if (wrong)
		status = complain(wrong);
	store_close(store);
	for (size_t i = 0; i < d.nwritten; i++)
		free(d.written[i]);
	free(d.written);
	free(stem);
	free(wanted);
	free(scratch);
	return status;
}

static void more_help(FILE *f)
{
	struct figures fs;
	char *wrong = figures_init(&fs, NULL);

	if (!wrong) {
		fputs("Figures:\n", f);
		for (size_t i = 0; i < fs.n; i++)
			text_row(f, fs.figure[i].name, fs.figure[i].summary);
		fputc('\n', f);
		char *own = sentence(
			"A figure is a pair NAME.sql, NAME.gp; these are in %s. Put yours into %s, "
			"or say --figures=FOLDER. NAME.sql says what is drawn: a SELECT of "
			"workload, title and numbers, one picture a workload, one line or bar a "
			"title; its first comment line is the figure's summary, its second what it "
			"needs. NAME.gp says how, in gnuplot's words. style.sql and style.gp in "
			"the first folder explain what both can use; the shortest example is "
			"accuracy_epoch.",
			fs.folder, fs.own);
		text_wrap(f, own, 0);
		free(own);
	}
	free(wrong);
	figures_fini(&fs);
}

static int run_plot(int argc, char **argv)
{
	struct plot_options o = {.db = NULL};
	struct arguments a = {.words = 0};
	struct figures fs = {.n = 0};
	int status = EXIT_USER;

	option_default(plot_options, &o);
	char *wrong = arguments_read(&a, argc, argv, bare);
	for (size_t i = 0; !wrong && i < a.options; i++)
		if (strcmp(a.option[i].name, "title") == 0) {
			o.summary = !a.option[i].value;
			if (o.summary)
				a.option[i].value = "";
		}
	if (!wrong)
		wrong = arguments_take(&a, plot_options, &o);
	if (!wrong)
		wrong = arguments_refuse(&a, plot_options);
	if (!wrong)
		wrong = figures_init(&fs, o.figures);
	if (wrong) {
		status = complain(wrong);
	} else if (a.help) {
		command_help(stdout, &command_plot);
		status = EXIT_OK;
	} else if (o.list) {
		figures_print(&fs, stdout);
		status = EXIT_OK;
	} else {
		status = plot(&o, &a, &fs);
	}
	figures_fini(&fs);
	arguments_free(&a);
	return status;
}

const struct command command_plot = {
	.name = "plot",
	.summary = "draw results",
	.usage = "[FIGURE ...] [--option=value ...]",
	.about = "Draws figures of the finished runs in a database and prints their paths. Without "
		 "a name: every figure that there is data for. Each workload gets a picture of its "
		 "own; runs that differ in nothing but their seed become one curve.",
	.options = plot_options,
	.words = figures_each,
	.bare = bare,
	.run = run_plot,
	.more = more_help,
};
