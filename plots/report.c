/*
 * report.c - `mvbench report`: one HTML file that shows the results and needs nothing else.
 *
 * report.sql computes every number that is shown. This file writes them into a page, with the
 * figures of `mvbench plot`, report.css and report.js. The page loads nothing from the network. Its
 * Content-Security-Policy ensures that: it runs only the script with the given hash. The page
 * states what it leaves out. The same database gives the same page.
 */
#include "plots/plot.h"
#include "results/ask/ask.h"
#include "results/db/column.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define CONFIGURATIONS_MAX 2000 /* shown of one workload, */
#define SECTIONS_TOP       6    /* sections whose verdicts are at the top of the page */
#define RUNS_MAX           4000 /* runs of the page, divided equally among the configurations */

/* Letters of all figures have 11 units. A unit has a pixel or more, also on a phone of 390 pixels.
 */
#define FIGURE_WIDTH 340

/* The Makefile defines REPORT_SCRIPT, the hash of report.js. */
TEXT_FILE(report_sql, "plots/report.sql");
TEXT_FILE(report_css, "plots/report.css");
TEXT_FILE(report_js, "plots/report.js");

struct report_options {
	struct select select;
	const char *title, *figures, *out;
};

#define OWNER struct report_options

static const struct option options[] = {
	SELECT_OPTIONS(select., "database with the results", ""),
	OPTION(title, STRING, "title", "mvbench report", "title of the page [text]"),
	OPTION(figures, STRING, "figures", "",
	       "folder of your own figures, as in mvbench plot [folder]"),
	OPTION(out, STRING, "out", "report.html", "file to write [file]"),
	{.name = NULL},
};

/* ---- Tables ------------------------------------------------------------------ */

#define SECONDS(x)  "iif(" x " < 1000, printf('%.4g', " x "), " ROUND("%.0f", x) ")"
#define ACCURACY(x) FINITE(x, PERCENT(x))
#define FINAL(x)    FINITE(x, LOSS(x))
#define REACHED(x)  "iif(" x " = 9e999, 'not reached', " SECONDS(x) ")"
#define FACTOR(x)   ROUND("%.2f", x)
/* A median, and the interval of x_low and x_high below it. */
#define RANGE(x, put) \
	put(x) " || ifnull(' <span class=\"range\">' || " put(x "_low") " || '–' || " put( \
		x "_high") " || '</span>', '')"

/* How a figure compares with the control: the mark, with the difference and its interval below it.
 */
#define VERSUS(name) \
	"(SELECT '<span class=\"' || mark || '\">' || mark || '</span>' || ifnull(' <span class=" \
	"\"range seeds\">' || html(replace(text, ' points', '')) || '</span>', '') FROM " \
	"report_held AS h WHERE h.config_key = c.config_key AND h.name = '" name "')"

static const struct column configuration_columns[] = {
	{"name", "configuration",
	 "'<a class=\"wide\" href=\"#c' || place || '\">' || html(name) || '</a>'", .html = true},
	{"n", "runs", "n", .about = "finished runs: the seeds", .most = true},
	{"accuracy", "accuracy %", RANGE("accuracy", ACCURACY), .rare = true, .html = true,
	 .most = true, .about = "test accuracy at the end, median and its interval"},
	{"accuracy_mark", "accuracy versus", VERSUS("test_accuracy"), .rare = true, .html = true,
	 .about = "compared with the control: the mean difference in points and its interval"},
	{"loss", "loss", RANGE("loss", FINAL), .rare = true, .html = true,
	 .about = "test loss at the end, median and its interval"},
	{"seconds", "epoch s", RANGE("seconds", SECONDS), .rare = true, .html = true,
	 .about = "seconds of an epoch, median and its interval"},
	{"seconds_mark", "time versus", VERSUS("epoch_seconds"), .rare = true, .html = true,
	 .about = "compared with the control: the mean difference in % and its interval"},
	{"speedup", "speed-up", FACTOR("speedup"), .rare = true, .most = true,
	 .about = "over serial with the same work"},
	{"pace", "samples/s", ROUND("%.0f", "pace"), .rare = true, .most = true,
	 .about = "training samples a second, all workers together"},
	{"target", "to target s", RANGE("target", REACHED), .rare = true, .html = true,
	 .about = "seconds of training until the target was reached for good, median and its "
		  "interval"},
	{"comm", "comm + wait %", PERCENT("comm"), .rare = true,
	 .about = "shares of the time, the sum of both medians"},
	{"stale", "staleness", FACTOR("stale"), .rare = true,
	 .about = "mean number of other workers' pushes since the pull"},
	{"misses", "not done", .rare = true, .html = true},
	{.name = NULL},
};

static const struct column run_columns[] = {
	SHOWN("id", "run", NULL),
	PLAIN("seed"),
	{"status", "status",
	 "iif(status = 'done', 'done', '<span class=\"bad\">' || html(status) || '</span>')",
	 .html = true},
	SHOWN("epochs_done", "epochs", "epochs_done || '/' || epochs"),
	SHOWN("test_accuracy", "accuracy %", PERCENT("test_accuracy")),
	SHOWN("test_loss", "loss", FINAL("test_loss")),
	SHOWN("epoch_seconds", "epoch s", SECONDS("epoch_seconds")),
	SHOWN("seconds_total", "total s", SECONDS("seconds_total")),
	{"NULL", "by epoch", "chart", .html = true},
	PLAIN("started"),
	SHOWN("at", "machine", NULL),
	{"model_hash", "model", "'<code>' || html(ifnull(model_hash, '')) || '</code>'",
	 .html = true},
	{"reason", "remarks",
	 "'<div class=\"wide\">' || nullif(html(ifnull(reason, '')) || ifnull(' <span class="
	 "\"soft\">run ' || origin_id || ' of ' || html(origin) || '</span>', ''), '') || '</div>'",
	 .html = true},
	{.name = NULL},
};

static const struct column provenance_columns[] = {
	PLAIN("runs"),
	PLAIN("workloads"),
	PLAIN("host"),
	SHOWN("cpu", "processor", "cpu || ifnull(', ' || cores || ' cores', '')"),
	SHOWN("gpu", "GPU", NULL),
	PLAIN("driver"),
	SHOWN("mpi", "MPI", NULL),
	SHOWN("onednn", "oneDNN", NULL),
	SHOWN("cuda", "CUDA", NULL),
	{"git_commit", "mvbench",
	 "'<code>' || html(git_commit) || '</code>' || iif(git_dirty, ', modified', '')",
	 .html = true},
	PLAIN("first"),
	PLAIN("last"),
	SHOWN("origin", "imported from", NULL),
	{.name = NULL},
};

/* ---- The page ---------------------------------------------------------------- */

struct picture {
	const struct figure *figure;
	char *workload, *svg;
};

struct report {
	FILE *f;
	struct store *s;
	struct picture *picture;
	size_t pictures;
	int64_t sections;
	bool across; /* there are pictures of no single workload */
};

static void report_fini(struct report *p)
{
	for (size_t i = 0; i < p->pictures; i++) {
		free(p->picture[i].workload);
		free(p->picture[i].svg);
	}
	free(p->picture);
}

/* printf that escapes every %s (text_xml), such as text from the database; supports only %s, %d and
 * %%. */
static void page_print(struct report *p, const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	for (; *fmt; fmt++) {
		if (*fmt != '%') {
			fputc(*fmt, p->f);
			continue;
		}
		fmt++;
		if (*fmt == 's')
			text_xml(p->f, va_arg(args, const char *));
		else if (*fmt == 'd')
			fprintf(p->f, "%d", va_arg(args, int));
		else
			fputc('%', p->f);
	}
	va_end(args);
}

/* ---- Figures ----------------------------------------------------------------- */

/* A picture of no single workload, as of simulated_real, is kept for the section of all. */
static void take_picture(void *ctx, const struct figure *f, const char *workload, const char *file)
{
	struct report *p = ctx;
	char *svg = text_read(file);
	int64_t known = 0;
	if (!svg)
		return;
	complain_if(sql_number(p->s, &known,
			       "SELECT count(*) FROM report_workload WHERE workload = ?1", "t",
			       workload));
	p->across |= !known;
	APPEND(p->picture, p->pictures,
	       (struct picture){f, must(strdup(known ? workload : "")), svg});
}

/* Draws every figure that has data, as SVG, and keeps it until the section of its workload. If one
 * fails, prints the error and leaves it out. */
static int pictures_draw(struct report *p, const struct figures *fs)
{
	const struct figure **all AUTOFREE = must(calloc(fs->n + 1, sizeof(*all)));
	struct drawing d = {.store = p->s,
			    .style = fs->folder,
			    .format = "svg",
			    .width_units = FIGURE_WIDTH,
			    .title = "",
			    .take = take_picture,
			    .ctx = p};
	for (size_t i = 0; i < fs->n; i++)
		all[i] = &fs->figure[i];
	return draw_figures(&d, all, fs->n, false);
}

/* Is this the start of an attribute's value that is, or refers to, an id? */
static bool is_id(const char *at)
{
	static const char *const before[] = {" id=\"", " id='", "href='#", "href=\"#", "url(#"};
	for (size_t i = 0; i < sizeof before / sizeof *before; i++) {
		size_t n = strlen(before[i]);
		if (strncmp(at - n, before[i], n) == 0)
			return true;
	}
	return false;
}

/* Writes what an SVG file draws as a part of the page, so that its text can be searched. number:
 * makes its ids differ from those of other files. A picture that needs more than FIGURE_WIDTH is
 * never shown smaller than it was drawn. */
static void put_svg(struct report *p, const char *svg, const char *label, size_t number)
{
	static const char box[] = "viewBox=\"", start[] = "</desc>";
	const char *view = strstr(svg, box), *at = strstr(svg, start);
	bool tag = false;
	if (!view || !at)
		return;
	view += sizeof box - 1;
	page_print(p, "<svg role=\"img\" aria-label=\"%s\" viewBox=\"", label);
	fprintf(p->f, "%.*s\"", (int)strcspn(view, "\""), view);
	double wide = strtod(view + strlen("0 0 "), NULL);
	if (wide > FIGURE_WIDTH)
		fprintf(p->f, " style=\"min-width:%gpx\"", wide);
	fputc('>', p->f);
	for (at += sizeof start - 1; *at; at++) {
		if (tag && is_id(at))
			fprintf(p->f, "f%zu-", number);
		tag = *at == '<' || (tag && *at != '>');
		fputc(*at, p->f);
	}
}

/* Writes those of this workload. */
static void pictures_put(struct report *p, const char *workload)
{
	bool any = false;
	for (size_t i = 0; i < p->pictures; i++) {
		const struct picture *at = &p->picture[i];
		if (strcmp(at->workload, workload) != 0)
			continue;
		fputs(any ? "" : "<h3>Figures</h3>\n<div class=\"figures\">\n", p->f);
		any = true;
		char *caption AUTOFREE = figure_heading(p->s, at->figure, workload);
		fputs("<figure>", p->f);
		put_svg(p, at->svg, caption, i);
		page_print(p, "<figcaption>%s <code>%s</code></figcaption></figure>\n", caption,
			   at->figure->name);
	}
	fputs(any ? "</div>\n" : "", p->f);
}

/* ---- A configuration: its command and its runs ----------------------------- */

static void put_command(struct report *p, int64_t id)
{
	char *command AUTOFREE = NULL;
	bool exact;
	char *wrong AUTOFREE = recorded_command(p->s, id, &command, &exact);
	if (wrong) { /* a plug-in is missing, or is another database's: the page goes on */
		page_print(p, "<p class=\"soft\">This mvbench cannot repeat it: %s</p>\n", wrong);
		return;
	}
	page_print(p, "<div class=\"command\"><pre>%s</pre></div>\n", command);
	if (!exact)
		fputs("<p class=\"soft\">With this mvbench the command has another identity "
		      "(config_hash) than the run: options have changed since.</p>\n",
		      p->f);
}

static char *put_runs(struct report *p, const char *place, int each, int runs)
{
	char *from AUTOFREE = sentence(
		"report_charted WHERE id IN (SELECT id FROM report_run WHERE config_key = (SELECT "
		"config_key FROM report_configuration WHERE place = %s) ORDER BY status = 'done', "
		"id LIMIT %d) ORDER BY status = 'done', id",
		place, each);
	TRY(columns_html(p->s, p->f, run_columns, from, "runs", "Runs"));
	if (runs > each)
		page_print(p, "<p class=\"soft\">%d more of its runs are left out.</p>\n",
			   runs - each);
	return NULL;
}

/* q: place, name, summary, runs, and the run whose command is shown. */
static char *put_details(struct report *p, const struct sql *q, int each)
{
	const char *place = sql_text(q, 0);
	page_print(p, "<details id=\"c%s\"><summary>%s <span>%s</span></summary><div>\n", place,
		   sql_text(q, 1), sql_text(q, 2));
	put_command(p, sql_int(q, 4));
	TRY(put_runs(p, place, each, (int)sql_int(q, 3)));
	fputs("</div></details>\n", p->f);
	return NULL;
}

/* ---- Verdicts ---------------------------------------------------------------- */

/* What a section shows: the fastest, the best, and what is undecided. name: of the section, if
 * they are elsewhere. */
static char *put_verdict(struct report *p, const char *number, const char *name)
{
	struct sql q AUTODONE = sql_select(p->s,
					   "SELECT head, text FROM report_verdict WHERE number = "
					   "CAST(?1 AS INTEGER) ORDER BY place",
					   "t", number);
	bool any = false;
	for (; sql_next(&q); any = true) {
		fputs(any ? "" : "<div class=\"verdict\">\n", p->f);
		if (!any && *name)
			page_print(p, "<p><a href=\"#w%s\">%s</a></p>\n", number, name);
		page_print(p, "<p><b>%s:</b> %s</p>\n", sql_text(&q, 0), sql_text(&q, 1));
	}
	fputs(any ? "</div>\n" : "", p->f);
	return sql_done(&q);
}

/* ---- Sections --------------------------------------------------------------- */

/* q: a row of report_workload. */
static char *put_workload(struct report *p, const struct sql *q, int each)
{
	const char *workload = sql_text(q, 1), *number = sql_text(q, 0);
	char *label AUTOFREE = sentence("Configurations of %s", workload);
	char *shown AUTOFREE = sentence(
		"(SELECT * FROM report_configuration WHERE workload = (SELECT workload FROM "
		"report_workload WHERE number = %s) ORDER BY place LIMIT %d) AS c",
		number, CONFIGURATIONS_MAX);
	char *sql AUTOFREE = sentence("SELECT place, name, summary, runs, example FROM %s", shown);
	page_print(p, "<section><h2 id=\"w%s\">%s</h2>\n<p class=\"soft\">%s", number, workload,
		   sql_text(q, 3));
	if (sql_int(q, 2) > CONFIGURATIONS_MAX)
		page_print(p, " The first %d configurations are shown: --where chooses others.",
			   CONFIGURATIONS_MAX);
	fputs("</p>\n", p->f);
	if (p->sections > SECTIONS_TOP)
		TRY(put_verdict(p, number, ""));
	TRY(columns_html(p->s, p->f, configuration_columns, shown, "sort keep", label));
	pictures_put(p, workload);
	fputs("<h3>Configurations: how to repeat them, and their runs</h3>\n", p->f);
	struct sql all AUTODONE = sql_select(p->s, sql, "");
	while (sql_next(&all))
		TRY(put_details(p, &all, each));
	fputs("</section>\n", p->f);
	return sql_done(&all);
}

static char *put_warnings(struct report *p)
{
	struct sql q AUTODONE =
		sql_select(p->s, "SELECT text FROM report_warning ORDER BY place, text", "");
	bool any = false;
	for (; sql_next(&q); any = true)
		page_print(p,
			   any ? "<li>%s</li>\n"
			       : "<ul class=\"warn\" aria-label=\"Warnings\">\n<li>%s</li>\n",
			   sql_text(&q, 0));
	fputs(any ? "</ul>\n" : "", p->f);
	return sql_done(&q);
}

static char *put_page_facts(struct report *p, const struct report_options *o)
{
	struct sql q AUTODONE =
		sql_select(p->s, "SELECT name, value FROM report_fact WHERE value <> ''", "");
	page_print(p, "<dl><dt>database</dt><dd><code>%s</code></dd>\n", o->select.db);
	if (*o->select.where)
		page_print(p, "<dt>only runs where</dt><dd><code>%s</code></dd>\n",
			   o->select.where);
	if (*o->select.label)
		page_print(p, "<dt>only runs with label</dt><dd><code>%s</code></dd>\n",
			   o->select.label);
	while (sql_next(&q))
		page_print(p, "<dt>%s</dt><dd>%s</dd>\n", sql_text(&q, 0), sql_text(&q, 1));
	fputs("</dl>\n", p->f);
	return sql_done(&q);
}

static void put_top(struct report *p, const struct report_options *o)
{
	fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
	      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
	      "style-src 'unsafe-inline'; img-src data:; script-src '" REPORT_SCRIPT
	      "'; base-uri 'none'; "
	      "form-action 'none'\">\n"
	      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
	      "<meta name=\"color-scheme\" content=\"light dark\">\n",
	      p->f);
	page_print(p, "<title>%s</title>\n", o->title);
	fprintf(p->f, "<style>\n%s</style>\n</head>\n<body>\n", report_css);
	page_print(p, "<header><h1>%s</h1>\n", o->title);
}

/* The words of verdicts, tables and figures. */
static void put_page_words(struct report *p)
{
	static const struct {
		const char *word, *means;
	} words[] = {
		{"2w+1s X=16", "two workers, one server, a synchronisation at every 16th step."},
		{"configuration", "all options except the seed."},
		{"seeds", "Runs of a configuration differ in the seed of their random numbers."},
		{"control", "the configuration that others are compared with: allreduce; without "
			    "one, serial."},
		{"difference", "the mean difference from the control. It may differ from the "
			       "difference of the medians."},
		{"(-0.46..+0.26)", "the interval of a difference. All intervals of a column hold "
				   "together in 95 % of cases."},
		{"better, worse", "The interval leaves out 0: the difference is more than chance."},
		{"equal", NULL},
		{"undecided", "none of these: the difference may be chance."},
		{"8 to 33 seeds", "This number of seeds would probably decide."},
		{"median", "Half of the runs are below it. Numbers without a sign are medians over "
			   "the finished runs."},
		{"86.46–86.78", "the interval of a median, between two of the runs. It contains "
				"the median of all possible runs in 95 % of cases or more."},
		{"min to max (93.8\u00a0%)",
		 "With five runs or fewer the interval goes from the "
		 "smallest to the largest run. It contains that median in "
		 "93.8, 87.5, 75 or 50 % of cases, with five, four, three "
		 "or two runs."},
		{"exact", "The runs of both sides have no spread."},
		{"diverged", "Such a run counts as worse than all others."},
		{"not reached", "A run that missed its target counts as later than all that "
				"reached it."},
		{"speed-up", "over serial with the same work, from the same database."},
		{"staleness", "Pushes of other workers between the pull of a worker and its push."},
	};
	char *equal AUTOFREE =
		sentence("The difference is surely smaller than %g points of "
			 "accuracy, %g %% of loss, or %g %% of time.",
			 100 * MARGIN_ACCURACY, 100 * MARGIN_LOSS, 100 * MARGIN_TIME);
	fputs("<details id=\"words\"><summary>How to read this page: control, better, equal, "
	      "undecided, seeds, 93.8 %</summary>\n<div><dl>\n",
	      p->f);
	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		page_print(p, "<dt>%s</dt><dd>%s</dd>\n", words[i].word,
			   words[i].means ? words[i].means : equal);
	fputs("</dl></div></details>\n", p->f);
}

static void put_bottom(struct report *p)
{
	fputs("<footer><p>A command repeats one run; use other seeds to repeat the others. This "
	      "page has no date of its own: the same database gives the same page.</p></footer>\n",
	      p->f);
	fprintf(p->f, "<script>%s</script>\n</body>\n</html>\n", report_js);
}

static char *put_page(struct report *p, const struct report_options *o, int configurations)
{
	int each = configurations ? RUNS_MAX / configurations : RUNS_MAX;
	struct sql q AUTODONE = sql_select(p->s, "SELECT * FROM report_workload", "");
	put_top(p, o);
	for (; p->sections <= SECTIONS_TOP && sql_next(&q);)
		TRY(put_verdict(p, sql_text(&q, 0), sql_text(&q, 1)));
	sql_again(&q, "");
	if (configurations == 0)
		page_print(p, "<p>%s</p>\n",
			   *o->select.where || *o->select.label
				   ? "No run in this database matches: loosen --where or --label."
				   : "This database holds no runs yet: record one with `mvbench "
				     "run`.");
	fputs("<nav aria-label=\"Sections\">\n", p->f);
	while (sql_next(&q))
		page_print(p, "<a href=\"#w%s\">%s</a>\n", sql_text(&q, 0), sql_text(&q, 1));
	fputs(p->across ? "<a href=\"#all\">All workloads</a>\n" : "", p->f);
	fputs(configurations ? "<a href=\"#provenance\">Provenance</a>\n" : "", p->f);
	fputs("</nav>\n", p->f);
	TRY(put_warnings(p));
	if (configurations)
		put_page_words(p);
	fputs("</header>\n<main>\n", p->f);
	sql_again(&q, "");
	while (sql_next(&q))
		TRY(put_workload(p, &q, each > 2 ? each : 2));
	TRY(sql_done(&q));
	if (p->across) {
		fputs("<section><h2 id=\"all\">All workloads</h2>\n", p->f);
		pictures_put(p, "");
		fputs("</section>\n", p->f);
	}
	if (configurations) {
		fputs("<section><h2 id=\"provenance\">Provenance</h2>\n", p->f);
		TRY(put_page_facts(p, o));
		TRY(columns_html(p->s, p->f, provenance_columns, "report_provenance", "provenance",
				 "Provenance"));
		fputs("</section>\n", p->f);
	}
	fputs("</main>\n", p->f);
	put_bottom(p);
	return NULL;
}

/* ---- The command ------------------------------------------------------------ */

/* *drawn: the status of drawing the figures. */
static char *make_page(struct report *p, const struct figures *fs, const struct report_options *o,
		       int *drawn)
{
	int64_t configurations;
	TRY(held_make(p->s, "", MARGIN_ACCURACY, MARGIN_LOSS, MARGIN_TIME));
	char *why AUTOFREE = sql_script(p->s, report_sql);
	if (why)
		return sentence("plots/report.sql: %s", why);
	TRY(html_function(p->s));
	TRY(sql_number(p->s, &p->sections, "SELECT count(*) FROM report_workload", ""));
	TRY(sql_number(p->s, &configurations, "SELECT count(*) FROM report_configuration", ""));
	*drawn = pictures_draw(p, fs);
	return put_page(p, o, (int)configurations);
}

static char *report_command(void *options_given, struct arguments *rest, int *status)
{
	const struct report_options *o = options_given;
	struct figures fs ENDS_WITH(figures_fini) = {.n = 0};
	struct store *s AUTOCLOSE = NULL;
	struct output out;
	int drawn = EXIT_OK;
	(void)rest;
	if (!*o->out)
		return sentence("--out=: give the name of a file, as in --out=report.html");
	TRY(store_open(&s, o->select.db, STORE_READ));
	TRY(figures_init(&fs, o->figures));
	TRY(plot_choose(s, &o->select, fs.folder, true));
	TRY(history_past(s, &o->select, "y", ""));
	TRY(output_open(&out, "--out=", o->out));
	struct report p ENDS_WITH(report_fini) = {.f = out.f, .s = s};
	TRY(output_end(&out, make_page(&p, &fs, o, &drawn), status));
	*status = drawn == EXIT_OK ? EXIT_OK : EXIT_FAILED; /* the page itself is complete */
	puts(o->out);
	return NULL;
}

const struct command command_report = {
	.name = "report",
	.summary = "write the results as one HTML page",
	.usage = "[--option=value ...]",
	.about = "Writes a self-contained page: a summary with warnings, a table of configurations "
		 "that can be sorted by each column, the figures of mvbench plot, every "
		 "configuration with its runs and the command that repeats it, and the origin of "
		 "the numbers. The page needs no network. It fits screens of any size, light or "
		 "dark, and paper.",
	.options = options,
	.size = sizeof(OWNER),
	.example = "--out=report.html",
	.run = report_command,
	.interrupted = STARTS_AGAIN,
};
