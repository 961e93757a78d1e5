/*
 * report.c - `mvbench report`: one HTML file that shows the results and needs nothing else.
 *
 * report.sql computes every number that is shown. This file writes them into a page, with the
 * figures of `mvbench plot`, report.css and report.js. The page loads nothing from the network. Its
 * Content-Security-Policy ensures that: it runs only the script with the given hash. The page
 * states what it leaves out. The same database gives the same page.
 */
#include "plots/report.h"
#include "results/ask/ask.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define CONFIGURATIONS_MAX 2000 /* shown of one workload, */
#define RUNS_MAX           4000 /* runs of the page, divided equally among the configurations */
#define TEXT_OF(x)         #x
#define TEXT(x)            TEXT_OF(x)

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

/* ---- The table of configurations ------------------------------------------ */

struct column {
	const char *head, *about;
	enum figure_kind kind;
	bool most; /* the largest value is the best */
	const char *value, *low, *high;
};

static const struct column columns[] = {
	{"runs", "finished runs: the seeds", FIGURE_COUNT, true, "n", NULL, NULL},
	{"accuracy %", "test accuracy at the end, median and 95 % interval", FIGURE_PERCENT, true,
	 "accuracy", "accuracy_low", "accuracy_high"},
	{"loss", "test loss at the end, median and 95 % interval", FIGURE_LOSS, false, "loss",
	 "loss_low", "loss_high"},
	{"epoch s", "seconds of an epoch, median and 95 % interval", FIGURE_SECONDS, false,
	 "seconds", "seconds_low", "seconds_high"},
	{"speed-up", "over serial with the same work", FIGURE_FACTOR, true, "speedup", NULL, NULL},
	{"samples/s", "training samples a second, all workers together", FIGURE_RATE, true, "pace",
	 NULL, NULL},
	{"to target s",
	 "seconds of training until the target was reached for good, median and 95 % interval",
	 FIGURE_SECONDS, false, "target_s", "target_low", "target_high"},
	{"comm + wait %", "share of the time", FIGURE_PERCENT, false, "comm", NULL, NULL},
	{"staleness", "mean number of other workers' pushes since the pull", FIGURE_FACTOR, false,
	 "stale", NULL, NULL},
};
enum { COLUMNS = sizeof(columns) / sizeof(*columns) };

static const char of_workload[] = "SELECT * FROM report_configuration WHERE workload = ?1 "
				  "ORDER BY place LIMIT " TEXT(CONFIGURATIONS_MAX);

/* Data for one workload's section. */
struct section {
	const struct pictures *pictures;
	bool has[COLUMNS], misses; /* misses: some run did not finish */
	int each;                  /* runs that are shown of one configuration */
};

static char *find_columns(struct report *p, struct section *s, const char *workload)
{
	struct sql q AUTODONE = sql_select(p->s, of_workload, "t", workload);
	while (sql_next(&q)) {
		for (int i = 0; i < COLUMNS; i++)
			s->has[i] |= !isnan(cell_number(&q, columns[i].value));
		s->misses |= cell_number(&q, "runs") > cell_number(&q, "n");
	}
	return sql_done(&q);
}

static void put_misses(struct report *p, const struct sql *q)
{
	static const char *const kinds[] = {"failed", "diverged", "unfinished"};
	const char *comma = "";
	fputs("<td>", p->f);
	for (int i = 0; i < 3; i++)
		if (cell_number(q, kinds[i]) > 0) {
			fprintf(p->f, "%s<span class=\"bad\">%.0f %s</span>", comma,
				cell_number(q, kinds[i]), kinds[i]);
			comma = ", ";
		}
	fputs("</td>", p->f);
}

static void put_configuration(struct report *p, const struct sql *q, const struct section *s)
{
	page_print(p, "<tr><th scope=\"row\" class=\"wide\"><a href=\"#c%s\">%s</a></th>",
		   cell_text(q, "place"), cell_text(q, "name"));
	for (int i = 0; i < COLUMNS; i++)
		if (s->has[i])
			page_number(p, columns[i].kind, cell_number(q, columns[i].value),
				    columns[i].low ? cell_number(q, columns[i].low) : NAN,
				    columns[i].high ? cell_number(q, columns[i].high) : NAN);
	if (s->misses)
		put_misses(p, q);
	fputs("</tr>\n", p->f);
}

static void page_head(struct report *p, const struct column *c)
{
	page_print(p, "<th scope=\"col\" class=\"n\" title=\"%s\"", c->about);
	fputs(c->most ? " data-most=\"1\"" : "", p->f);
	page_print(p, ">%s</th>", c->head);
}

static char *put_table(struct report *p, struct section *s, const char *workload)
{
	TRY(find_columns(p, s, workload));
	page_print(
		p,
		"<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Configurations "
		"of %s\"><table class=\"sort keep\"><thead><tr><th "
		"scope=\"col\">configuration</th>",
		workload);
	for (int i = 0; i < COLUMNS; i++)
		if (s->has[i])
			page_head(p, &columns[i]);
	fputs(s->misses ? "<th scope=\"col\">not done</th>" : "", p->f);
	fputs("</tr></thead>\n<tbody>\n", p->f);
	struct sql q AUTODONE = sql_select(p->s, of_workload, "t", workload);
	while (sql_next(&q))
		put_configuration(p, &q, s);
	fputs("</tbody></table></div>\n", p->f);
	return sql_done(&q);
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

static void put_run(struct report *p, const struct sql *q)
{
	const char *status = cell_text(q, "status");
	page_print(p, "<tr><td class=\"n\">%s</td><td class=\"n\">%s</td>", cell_text(q, "id"),
		   cell_text(q, "seed"));
	page_print(p, strcmp(status, "done") ? "<td class=\"bad\">%s</td>" : "<td>%s</td>", status);
	page_print(p, "<td class=\"n\">%s/%s</td>", cell_text(q, "epochs_done"),
		   cell_text(q, "epochs"));
	page_number(p, FIGURE_PERCENT, cell_number(q, "test_accuracy"), NAN, NAN);
	page_number(p, FIGURE_LOSS, cell_number(q, "test_loss"), NAN, NAN);
	page_number(p, FIGURE_SECONDS, cell_number(q, "epoch_seconds"), NAN, NAN);
	page_number(p, FIGURE_SECONDS, cell_number(q, "seconds_total"), NAN, NAN);
	fputs("<td>", p->f);
	page_spark(p, (int64_t)cell_number(q, "id"));
	page_print(p, "</td><td>%s</td><td>%s</td><td><code>%s</code></td><td class=\"wide\">%s",
		   cell_text(q, "started"), cell_text(q, "at"), cell_text(q, "model_hash"),
		   cell_text(q, "reason"));
	if (*cell_text(q, "origin"))
		page_print(p, " <span class=\"soft\">run %s of %s</span>",
			   cell_text(q, "origin_id"), cell_text(q, "origin"));
	fputs("</td></tr>\n", p->f);
}

static char *put_runs(struct report *p, const char *key, int each, int runs)
{
	char *sql AUTOFREE = sentence("SELECT * FROM report_run WHERE config_key = ?1 "
				      "ORDER BY status = 'done', id LIMIT %d",
				      each);
	page_table(p, "Runs",
		   "#run|#seed|status|#epochs|#accuracy %|#loss|#epoch s|#total s|by epoch|"
		   "started|machine|model|remarks");
	struct sql q AUTODONE = sql_select(p->s, sql, "t", key);
	while (sql_next(&q))
		put_run(p, &q);
	fputs("</tbody></table></div>\n", p->f);
	if (runs > each)
		page_print(p, "<p class=\"soft\">%d more of its runs are left out.</p>\n",
			   runs - each);
	return sql_done(&q);
}

static char *put_details(struct report *p, const struct sql *q, int each)
{
	int runs = (int)cell_number(q, "runs"), n = (int)cell_number(q, "n");
	double target = cell_number(q, "target");
	page_print(p, "<details id=\"c%s\"><summary>%s <span>%d of %d runs finished",
		   cell_text(q, "place"), cell_text(q, "name"), n, runs);
	double loss = cell_number(q, "target_loss");
	if (target > 0 && n > 0)
		fprintf(p->f, "; %.0f reached %.4g %%", cell_number(q, "reached"), 100 * target);
	else if (loss > 0 && n > 0)
		fprintf(p->f, "; %.0f reached a loss of %.4g", cell_number(q, "reached"), loss);
	fputs("</span></summary><div>\n", p->f);
	put_command(p, (int64_t)cell_number(q, "example"));
	TRY(put_runs(p, cell_text(q, "config_key"), each, runs));
	fputs("</div></details>\n", p->f);
	return NULL;
}

/* ---- Sections --------------------------------------------------------------- */

static char *put_workload(struct report *p, const struct sql *q, struct section s)
{
	const char *workload = cell_text(q, "workload");
	int n = (int)cell_number(q, "configurations");
	page_print(p, "<section><h2 id=\"w%s\">%s</h2>\n", cell_text(q, "number"), workload);
	page_print(p, "<p class=\"soft\">%s configurations, %s runs",
		   cell_text(q, "configurations"), cell_text(q, "runs"));
	page_print(p, "; %s parameters, %s training samples.", cell_text(q, "params"),
		   cell_text(q, "train_size"));
	if (n > CONFIGURATIONS_MAX)
		page_print(p, " The first %d configurations are shown: --where chooses others.",
			   CONFIGURATIONS_MAX);
	fputs("</p>\n", p->f);
	TRY(put_table(p, &s, workload));
	pictures_put(p, s.pictures, workload);
	fputs("<h3>Configurations: how to repeat them, and their runs</h3>\n", p->f);
	struct sql all AUTODONE = sql_select(p->s, of_workload, "t", workload);
	while (sql_next(&all))
		TRY(put_details(p, &all, s.each));
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

static void put_provenance(struct report *p, const struct sql *q)
{
	static const char *const names[] = {"workloads", "host", "cpu",    "gpu",
					    "driver",    "mpi",  "onednn", "cuda"};
	page_print(p, "<tr><td class=\"n\">%s</td>", cell_text(q, "runs"));
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		page_print(p, "<td>%s", cell_text(q, names[i]));
		if (strcmp(names[i], "cpu") == 0 && *cell_text(q, "cores"))
			page_print(p, ", %s cores", cell_text(q, "cores"));
		fputs("</td>", p->f);
	}
	page_print(p, "<td><code>%s</code>%s</td><td>%s</td><td>%s</td><td>%s</td></tr>\n",
		   cell_text(q, "git_commit"), cell_number(q, "git_dirty") > 0 ? ", modified" : "",
		   cell_text(q, "first"), cell_text(q, "last"), cell_text(q, "origin"));
}

static char *put_all_provenance(struct report *p)
{
	fputs("<section><h2 id=\"provenance\">Provenance</h2>\n", p->f);
	page_table(p, "Provenance",
		   "#runs|workloads|host|processor|GPU|driver|MPI|oneDNN|CUDA|mvbench|first|last|"
		   "imported from");
	struct sql q AUTODONE = sql_select(p->s, "SELECT * FROM report_provenance", "");
	while (sql_next(&q))
		put_provenance(p, &q);
	fputs("</tbody></table></div></section>\n", p->f);
	return sql_done(&q);
}

static char *put_facts(struct report *p, const struct report_options *o)
{
	static const char *const names[][2] = {{"runs", "runs"},
					       {"configurations", "configurations"},
					       {"first", "first started"},
					       {"last", "last finished"},
					       {"machines", "measured on"}};
	struct sql q AUTODONE = sql_select(p->s, "SELECT * FROM report_facts", "");
	if (!sql_next(&q))
		return sql_done(&q);
	page_print(p, "<dl><dt>database</dt><dd><code>%s</code></dd>\n", o->select.db);
	if (*o->select.where)
		page_print(p, "<dt>only runs where</dt><dd><code>%s</code></dd>\n",
			   o->select.where);
	if (*o->select.label)
		page_print(p, "<dt>only runs with label</dt><dd><code>%s</code></dd>\n",
			   o->select.label);
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (*cell_text(&q, names[i][0]))
			page_print(p, "<dt>%s</dt><dd>%s</dd>\n", names[i][1],
				   cell_text(&q, names[i][0]));
	fputs("</dl>\n", p->f);
	return NULL;
}

static void put_top(struct report *p, const struct report_options *o)
{
	fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
	      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
	      "style-src 'unsafe-inline'; script-src '" REPORT_SCRIPT "'; base-uri 'none'; "
	      "form-action 'none'\">\n"
	      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
	      "<meta name=\"color-scheme\" content=\"light dark\">\n",
	      p->f);
	page_print(p, "<title>%s</title>\n", o->title);
	fprintf(p->f, "<style>\n%s</style>\n</head>\n<body>\n", report_css);
	page_print(p, "<header><h1>%s</h1>\n", o->title);
}

static void put_bottom(struct report *p)
{
	fputs("<footer><p>A configuration consists of all options except the seed. Numbers are "
	      "medians over its finished runs. After each median is its interval, between two of "
	      "the runs: the 95 % interval with six or more runs; otherwise from the smallest to "
	      "the largest, which contains the median in 94, 88, 75 or 50 % of all cases (with "
	      "five, four, three or two runs). A run that missed its target counts as later than "
	      "all that reached it; a run that diverged counts as worse than all others. Speed-up "
	      "is over serial with the same work, measured in the same database. A command "
	      "repeats one run; use other seeds to repeat the others. This page has no date of "
	      "its own: the same database gives the same page.</p></footer>\n",
	      p->f);
	fprintf(p->f, "<script>%s</script>\n</body>\n</html>\n", report_js);
}

static char *put_page(struct report *p, const struct report_options *o, const struct pictures *ps,
		      int configurations)
{
	int each = configurations ? RUNS_MAX / configurations : RUNS_MAX;
	struct section s = {.pictures = ps, .each = each > 2 ? each : 2};
	struct sql q AUTODONE = sql_select(p->s, "SELECT * FROM report_workload", "");
	put_top(p, o);
	TRY(put_facts(p, o));
	if (configurations == 0)
		page_print(p, "<p>%s</p>\n",
			   *o->select.where || *o->select.label
				   ? "No run in this database matches: loosen --where or --label."
				   : "This database holds no runs yet: record one with `mvbench "
				     "run`.");
	fputs("<nav aria-label=\"Sections\">\n", p->f);
	while (sql_next(&q))
		page_print(p, "<a href=\"#w%s\">%s</a>\n", cell_text(&q, "number"),
			   cell_text(&q, "workload"));
	fputs(configurations ? "<a href=\"#provenance\">Provenance</a>\n" : "", p->f);
	fputs("</nav>\n", p->f);
	TRY(put_warnings(p));
	fputs("</header>\n<main>\n", p->f);
	sql_again(&q, "");
	while (sql_next(&q))
		TRY(put_workload(p, &q, s));
	TRY(sql_done(&q));
	if (configurations)
		TRY(put_all_provenance(p));
	fputs("</main>\n", p->f);
	put_bottom(p);
	return NULL;
}

/* ---- The command ------------------------------------------------------------ */

static char *write_page(struct report *p, const struct report_options *o, const struct pictures *ps,
			int64_t configurations)
{
	struct output out;
	TRY(output_open(&out, "--out=", o->out));
	p->f = out.f;
	p->spark = sql_select(p->s,
			      "SELECT y FROM report_spark WHERE run_id = ?1 AND n > 1 AND "
			      "(i % ((n + ?2 - 1) / ?2) = 0 OR i = n - 1) ORDER BY i",
			      "");
	char *wrong = put_page(p, o, ps, (int)configurations);
	return output_close(&out, first_wrong(wrong, sql_done(&p->spark)));
}

static char *report(void *options_given, struct arguments *rest, int *status)
{
	const struct report_options *o = options_given;
	struct figures fs ENDS_WITH(figures_fini) = {.n = 0};
	struct store *s AUTOCLOSE = NULL;
	struct pictures ps ENDS_WITH(pictures_free) = {.n = 0};
	int64_t n;
	(void)rest;
	if (!*o->out)
		return sentence("--out=: give the name of a file, as in --out=report.html");
	TRY(store_open(&s, o->select.db, STORE_READ));
	TRY(figures_init(&fs, o->figures));
	TRY(plot_choose(s, &o->select, fs.folder));
	TRY(history_past(s, &o->select, "y", ""));
	*status = EXIT_FAILED;
	char *why AUTOFREE = sql_script(s, report_sql);
	if (why)
		return sentence("plots/report.sql: %s", why);
	TRY(sql_number(s, &n, "SELECT count(*) FROM report_configuration", ""));
	int drawn = pictures_draw(s, &fs, &ps);
	TRY(write_page(&(struct report){.s = s}, o, &ps, n));
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
	.run = report,
};
