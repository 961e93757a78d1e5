/*
 * report.c - `mvbench report`: one HTML file that shows the results, and needs nothing else.
 *
 * report.sql makes what is shown, and every number in it; this file puts it into a page with the
 * figures of `mvbench plot`, report.css and report.js. The page asks no network for anything, which
 * its Content-Security-Policy makes sure of: it runs only the script whose hash is named there. It
 * says what it leaves out. The same database gives the same page.
 */
#include "plots/report.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern const struct command command_report;

#define CONFIGURATIONS_MAX 2000 /* of a workload that are shown, */
#define RUNS_MAX           4000 /* and runs of the whole page, of each configuration as many */
#define TEXT_OF(x)         #x
#define TEXT(x)            TEXT_OF(x)

/* gcc runs in the repository's root; the Makefile says what REPORT_SCRIPT is: the hash of
 * report.js. */
#define EMBED(name, file) \
	__asm__(".pushsection .rodata\n" name ":\n.incbin \"" file "\"\n.byte 0\n.popsection\n")
EMBED("report_sql", "plots/report.sql");
EMBED("report_css", "plots/report.css");
EMBED("report_js", "plots/report.js");
extern const char report_sql[], report_css[], report_js[];

struct report_options {
	const char *db, *where, *label, *title, *figures, *out;
};

#define FIELD(f) .offset = offsetof(struct report_options, f)

static const struct option options[] = {
	{.name = "db",
	 .type = OPT_STRING,
	 FIELD(db),
	 .def = DATABASE,
	 .help = "where results are [file]"},
	{.name = "where",
	 .type = OPT_STRING,
	 FIELD(where),
	 .def = "",
	 .help = "only runs for which this SQL condition holds; mvbench table --help lists the "
		 "columns [SQL]"},
	{.name = "label",
	 .type = OPT_STRING,
	 FIELD(label),
	 .def = "",
	 .help = "only runs with this label [text]"},
	{.name = "title",
	 .type = OPT_STRING,
	 FIELD(title),
	 .def = "mvbench report",
	 .help = "above the page [text]"},
	{.name = "figures",
	 .type = OPT_STRING,
	 FIELD(figures),
	 .def = "",
	 .help = "your own figures, as for mvbench plot [folder]"},
	{.name = "out",
	 .type = OPT_STRING,
	 FIELD(out),
	 .def = "report.html",
	 .help = "what is written [file]"},
	{.name = NULL},
};

/* ---- The table of configurations ------------------------------------------ */

struct column {
	const char *head, *about;
	enum figure_kind kind;
	bool most; /* the largest is what one looks for */
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
	{"speed-up", "over one worker with the same work", FIGURE_FACTOR, true, "speedup", NULL,
	 NULL},
	{"samples/s", "training samples a second, all workers together", FIGURE_RATE, true, "pace",
	 NULL, NULL},
	{"to target s", "seconds of training until the target accuracy, median and 95 % interval",
	 FIGURE_SECONDS, false, "target_s", "target_low", "target_high"},
	{"comm + wait %", "share of the time", FIGURE_PERCENT, false, "comm", NULL, NULL},
	{"staleness", "foreign updates that a push met, mean", FIGURE_FACTOR, false, "stale", NULL,
	 NULL},
};
enum { COLUMNS = sizeof(columns) / sizeof(*columns) };

/* What one workload's section needs to know. */
struct section {
	const struct pictures *pictures;
	bool has[COLUMNS], misses; /* misses: some run did not finish */
	int each;                  /* so many runs of a configuration are shown */
};

static char *find_columns(struct report *p, sqlite3_stmt *q, void *ctx)
{
	struct section *s = ctx;

	(void)p;
	for (int i = 0; i < COLUMNS; i++)
		s->has[i] |= !isnan(cell_number(q, columns[i].value));
	s->misses |= cell_number(q, "runs") > cell_number(q, "n");
	return NULL;
}

static void put_misses(struct report *p, sqlite3_stmt *q)
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

static char *put_configuration(struct report *p, sqlite3_stmt *q, void *ctx)
{
	struct section *s = ctx;

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
	return NULL;
}

static void page_head(struct report *p, const struct column *c)
{
	page_print(p, "<th scope=\"col\" class=\"n\" title=\"%s\"", c->about);
	fputs(c->most ? " data-most=\"1\"" : "", p->f);
	page_print(p, ">%s</th>", c->head);
}

static const char of_workload[] = "SELECT * FROM report_configuration WHERE workload = ?1 "
				  "ORDER BY place LIMIT " TEXT(CONFIGURATIONS_MAX);

static char *put_table(struct report *p, struct section *s, const char *workload)
{
	char *wrong = page_each(p, of_workload, workload, find_columns, s);

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
	if (!wrong)
		wrong = page_each(p, of_workload, workload, put_configuration, s);
	fputs("</tbody></table></div>\n", p->f);
	return wrong;
}

/* ---- A configuration: its command and its runs ----------------------------- */

static char *put_command(struct report *p, int64_t id)
{
	char *command = NULL;
	bool exact;
	char *wrong = recorded_command(p->s, id, &command, &exact);

	if (wrong) { /* a plug-in that is gone, or another database's: the page is no worse */
		page_print(p, "<p class=\"soft\">This mvbench cannot repeat it: %s</p>\n", wrong);
		free(wrong);
		return NULL;
	}
	page_print(p, "<div class=\"command\"><pre>%s</pre></div>\n", command);
	if (!exact)
		fputs("<p class=\"soft\">This mvbench gives that command another identity "
		      "(config_hash) than the run has: its options have changed since.</p>\n",
		      p->f);
	free(command);
	return NULL;
}

static char *put_run(struct report *p, sqlite3_stmt *q, void *ctx)
{
	const char *status = cell_text(q, "status");
	char *wrong;

	(void)ctx;
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
	wrong = page_spark(p, (int64_t)cell_number(q, "id"));
	page_print(p, "</td><td>%s</td><td>%s</td><td><code>%s</code></td><td class=\"wide\">%s",
		   cell_text(q, "started"), cell_text(q, "at"), cell_text(q, "model_hash"),
		   cell_text(q, "reason"));
	if (*cell_text(q, "origin"))
		page_print(p, " <span class=\"soft\">run %s of %s</span>",
			   cell_text(q, "origin_id"), cell_text(q, "origin"));
	fputs("</td></tr>\n", p->f);
	return wrong;
}

static char *put_runs(struct report *p, const char *key, int each, int runs)
{
	static const char head[] =
		"<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Runs\"><table>"
		"<thead><tr><th scope=\"col\" class=\"n\">run</th><th scope=\"col\" "
		"class=\"n\">seed"
		"</th><th scope=\"col\">status</th><th scope=\"col\" class=\"n\">epochs</th>"
		"<th scope=\"col\" class=\"n\">accuracy %</th><th scope=\"col\" "
		"class=\"n\">loss</th>"
		"<th scope=\"col\" class=\"n\">epoch s</th><th scope=\"col\" class=\"n\">total "
		"s</th>"
		"<th scope=\"col\">by epoch</th><th scope=\"col\">started</th><th "
		"scope=\"col\">machine"
		"</th><th scope=\"col\">model</th><th "
		"scope=\"col\">remarks</th></tr></thead>\n<tbody>\n";
	char *sql = sentence("SELECT * FROM report_run WHERE config_key = ?1 "
			     "ORDER BY status = 'done', id LIMIT %d",
			     each);
	fputs(head, p->f);
	char *wrong = page_each(p, sql, key, put_run, NULL);
	fputs("</tbody></table></div>\n", p->f);
	if (runs > each)
		page_print(p, "<p class=\"soft\">%d more runs of it are left out.</p>\n",
			   runs - each);
	free(sql);
	return wrong;
}

static char *put_details(struct report *p, sqlite3_stmt *q, void *ctx)
{
	const struct section *s = ctx;
	int runs = (int)cell_number(q, "runs"), n = (int)cell_number(q, "n");
	double target = cell_number(q, "target");

	page_print(p, "<details id=\"c%s\"><summary>%s <span>%d of %d runs finished",
		   cell_text(q, "place"), cell_text(q, "name"), n, runs);
	if (target > 0 && n > 0)
		fprintf(p->f, "; %.0f reached %.4g %%", cell_number(q, "reached"), 100 * target);
	fputs("</span></summary><div>\n", p->f);
	char *wrong = put_command(p, (int64_t)cell_number(q, "example"));
	if (!wrong)
		wrong = put_runs(p, cell_text(q, "config_key"), s->each, runs);
	fputs("</div></details>\n", p->f);
	return wrong;
}

/* ---- Sections --------------------------------------------------------------- */

static char *put_workload(struct report *p, sqlite3_stmt *q, void *ctx)
{
	struct section s = *(const struct section *)ctx;
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
	char *wrong = put_table(p, &s, workload);
	pictures_put(p, s.pictures, workload);
	fputs("<h3>Configurations: how to repeat them, and their runs</h3>\n", p->f);
	if (!wrong)
		wrong = page_each(p, of_workload, workload, put_details, &s);
	fputs("</section>\n", p->f);
	return wrong;
}

static char *put_warning(struct report *p, sqlite3_stmt *q, void *ctx)
{
	bool *any = ctx;

	fputs(*any ? "" : "<ul class=\"warn\" aria-label=\"Warnings\">\n", p->f);
	*any = true;
	page_print(p, "<li>%s</li>\n", cell_text(q, "text"));
	return NULL;
}

static char *put_provenance(struct report *p, sqlite3_stmt *q, void *ctx)
{
	static const char *const names[] = {"workloads", "host", "cpu",    "gpu",
					    "driver",    "mpi",  "onednn", "cuda"};

	(void)ctx;
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
	return NULL;
}

static char *put_all_provenance(struct report *p)
{
	fputs("<section><h2 id=\"provenance\">Provenance</h2>\n"
	      "<div class=\"scroll\" tabindex=\"0\" role=\"region\" "
	      "aria-label=\"Provenance\"><table>"
	      "<thead><tr><th scope=\"col\" class=\"n\">runs</th><th scope=\"col\">workloads</th>"
	      "<th scope=\"col\">host</th><th scope=\"col\">processor</th><th "
	      "scope=\"col\">GPU</th>"
	      "<th scope=\"col\">driver</th><th scope=\"col\">MPI</th><th scope=\"col\">oneDNN</th>"
	      "<th scope=\"col\">CUDA</th><th scope=\"col\">mvbench</th><th scope=\"col\">first"
	      "</th><th scope=\"col\">last</th><th scope=\"col\">imported from</th></tr></thead>\n"
	      "<tbody>\n",
	      p->f);
	char *wrong = page_each(p, "SELECT * FROM report_provenance", NULL, put_provenance, NULL);
	fputs("</tbody></table></div></section>\n", p->f);
	return wrong;
}

static char *put_link(struct report *p, sqlite3_stmt *q, void *ctx)
{
	(void)ctx;
	page_print(p, "<a href=\"#w%s\">%s</a>\n", cell_text(q, "number"),
		   cell_text(q, "workload"));
	return NULL;
}

static char *put_facts(struct report *p, sqlite3_stmt *q, void *ctx)
{
	static const char *const names[][2] = {{"runs", "runs"},
					       {"configurations", "configurations"},
					       {"first", "first started"},
					       {"last", "last finished"},
					       {"machines", "measured on"}};
	const struct report_options *o = ctx;

	page_print(p, "<dl><dt>database</dt><dd><code>%s</code></dd>\n", o->db);
	if (*o->where)
		page_print(p, "<dt>only runs where</dt><dd><code>%s</code></dd>\n", o->where);
	if (*o->label)
		page_print(p, "<dt>only runs with label</dt><dd><code>%s</code></dd>\n", o->label);
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (*cell_text(q, names[i][0]))
			page_print(p, "<dt>%s</dt><dd>%s</dd>\n", names[i][1],
				   cell_text(q, names[i][0]));
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
	fputs("<footer><p>A configuration is every option but the seed. Numbers are medians over "
	      "its finished runs; behind them stands the bootstrap 95 % interval of the median, "
	      "where there are runs enough for one. A run that missed its target accuracy counts "
	      "as later than all that reached it. Speed-up is over one worker with the same work, "
	      "as measured in the same database. A command repeats one run; another seed gives "
	      "the others. This page bears no date of its own: the same database gives the same "
	      "page.</p></footer>\n",
	      p->f);
	fprintf(p->f, "<script>%s</script>\n</body>\n</html>\n", report_js);
}

static char *put_page(struct report *p, const struct report_options *o, const struct pictures *ps,
		      int configurations)
{
	static const char workloads_sql[] =
		"SELECT row_number() OVER (ORDER BY workload) AS number, workload, sum(runs) AS "
		"runs, "
		"count(*) AS configurations, iif(min(params) = max(params), max(params), "
		"min(params) "
		"|| ' to ' || max(params)) AS params, max(train_size) AS train_size "
		"FROM report_configuration GROUP BY workload ORDER BY workload";
	int each = configurations ? RUNS_MAX / configurations : RUNS_MAX;
	struct section s = {.pictures = ps, .each = each > 2 ? each : 2};
	bool any = false;

	put_top(p, o);
	char *wrong =
		page_each(p, "SELECT * FROM report_facts", NULL, put_facts, (void *)(uintptr_t)o);
	if (configurations == 0)
		page_print(p, "<p>%s</p>\n",
			   *o->where || *o->label
				   ? "No run in this database matches: loosen --where or --label."
				   : "This database holds no runs yet: record one with `mvbench "
				     "run`.");
	fputs("<nav aria-label=\"Sections\">\n", p->f);
	if (!wrong)
		wrong = page_each(p, workloads_sql, NULL, put_link, NULL);
	fputs(configurations ? "<a href=\"#provenance\">Provenance</a>\n" : "", p->f);
	fputs("</nav>\n", p->f);
	if (!wrong)
		wrong = page_each(p, "SELECT text FROM report_warning ORDER BY place, text", NULL,
				  put_warning, &any);
	fputs(any ? "</ul>\n</header>\n<main>\n" : "</header>\n<main>\n", p->f);
	if (!wrong)
		wrong = page_each(p, workloads_sql, NULL, put_workload, &s);
	if (!wrong && configurations)
		wrong = put_all_provenance(p);
	fputs("</main>\n", p->f);
	put_bottom(p);
	return wrong;
}

/* ---- The command ------------------------------------------------------------ */

/* Writes beside the file, and puts it in its place when it is whole. */
static char *write_page(struct store *s, const struct report_options *o, const struct pictures *ps)
{
	double configurations = 0;
	char *wrong = query_numbers(s, "SELECT count(*) FROM report_configuration", NULL, 0,
				    &configurations, 1);
	char *beside = sentence("%s.part", o->out);
	struct report p = {.s = s, .f = wrong ? NULL : fopen(beside, "w")};

	if (!wrong && !p.f)
		wrong = sentence("--out=%s: the file cannot be written (%s)", o->out,
				 strerror(errno));
	if (p.f) {
		wrong = put_page(&p, o, ps, (int)configurations);
		bool bad = ferror(p.f) != 0;
		bad |= fclose(p.f) != 0;
		if (!wrong && (bad || rename(beside, o->out) != 0))
			wrong = sentence("--out=%s: the file cannot be written (%s)", o->out,
					 strerror(errno));
		if (wrong)
			unlink(beside);
	}
	sqlite3_finalize(p.spark);
	free(beside);
	return wrong;
}

static int report(const struct report_options *o)
{
	struct store *s = NULL;
	struct pictures ps = {.n = 0};
	struct figures fs = {.n = 0};
	int status = EXIT_OK;
	char *wrong = *o->out ? store_open(&s, o->db, STORE_READ)
			      : sentence("--out=: the name of a file is wanted, as in "
					 "--out=report.html");

	if (!wrong)
		wrong = figures_init(&fs, o->figures);
	if (!wrong)
		wrong = plot_choose(s, o->where, o->label, fs.folder);
	if (wrong) {
		figures_fini(&fs);
		store_close(s);
		return complain(wrong);
	}
	if (sqlite3_exec(s->db, report_sql, NULL, NULL, NULL) != SQLITE_OK)
		wrong = sentence("plots/report.sql: %s", sqlite3_errmsg(s->db));
	if (!wrong)
		status = pictures_draw(s, &fs, &ps);
	if (!wrong)
		wrong = write_page(s, o, &ps);
	pictures_free(&ps);
	figures_fini(&fs);
	store_close(s);
	if (wrong) {
		complain(wrong);
		return EXIT_FAILED;
	}
	puts(o->out);
	return status;
}

static int run_report(int argc, char **argv)
{
	struct arguments a;
	struct report_options o;
	char *wrong = arguments_read(&a, argc, argv, NULL);

	if (wrong)
		return complain(wrong);
	option_default(options, &o);
	wrong = arguments_take(&a, options, &o);
	if (!wrong)
		wrong = arguments_refuse(&a, options);
	if (!wrong && !a.help && a.words)
		wrong = sentence("%s: report takes options only, such as --out=report.html",
				 a.word[0]);
	int status = EXIT_OK;
	if (wrong)
		status = complain(wrong);
	else if (a.help)
		command_help(stdout, &command_report);
	else
		status = report(&o);
	arguments_free(&a);
	return status;
}

const struct command command_report = {
	.name = "report",
	.summary = "write the results as one HTML page",
	.usage = "[--option=value ...]",
	.about = "Writes a page that stands alone: a summary with what to beware of, a table of "
		 "configurations that sorts by its heads, the figures of mvbench plot, every "
		 "configuration with its runs and the command that repeats it, and where the "
		 "numbers come from. It needs no network, and is made for screens of any size, "
		 "light or dark, and for paper.",
	.options = options,
	.run = run_report,
};
