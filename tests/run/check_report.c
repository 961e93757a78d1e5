/*
 * check_report.c - the report page: its contents and how it escapes them, that the commands in it
 * give the same cells again, and how it behaves in a browser.
 */
#include "results/db/db.h"
#include "runtime/config/config.h"
#include "tests/browser.h"
#include "tests/made.h"
#include "tests/suites.h"
#include "tests/trained.h"

#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define sql(text) sql_in("run.db", text)

/* Runs `mvbench report` with these words. It must end with this status and print these words. */
static void report(const char *words, int want, const char *says)
{
	char *command AUTOFREE =
		sentence("./mvbench report --db=%s/run.db --out=%s/page.html %s 2>&1", folder,
			 folder, words);
	expect_command(want, command, says);
}

static void expect_page(const char *text, const char *words, bool want)
{
	ck_assert_msg(!strstr(text, words) == !want, "the page %s \"%s\"", want ? "lacks" : "has",
		      words);
}

#define EVIL_SQL "<script>hacked=1</script><img src=x onerror=hacked=1>\"''&,\n\xff"

/* Three configurations of three seeds. asgd has one run that failed and one that diverged.
 * Accuracies, times and losses have different orders. Run 7 is of another machine. */
static const char three[] = INSERT_RUN(
	", reason, started, finished, train_size, params, label, host, cpu, cores, git_commit, "
	"git_dirty, oversubscribed",
	"CASE WHEN strategy <> 'asgd' OR value = 1 THEN 'done' WHEN value = 2 THEN 'failed' "
	"ELSE 'diverged' END, 'h' || value, 'softmax', strategy, workers, value, 3, 32, 1, 'mpi', "
	"0.86, iif(strategy = 'asgd' AND value = 2, 'no <b>room</b>', NULL), "
	"'2026-01-02T03:04:05Z', '2026-01-02T03:04:06Z', 6000, 7850, label, 'alpha', "
	"'Cpu & Co <1>', 4, 'abc', 0, 0 FROM (SELECT 'serial' AS strategy, 1 AS workers, '' AS "
	"label UNION ALL SELECT 'asgd', 2, '' UNION ALL SELECT 'allreduce', 2, '" EVIL_SQL "'), "
	"json_each('[1, 2, 3]');"
	"UPDATE run SET host = 'beta' WHERE id = 7;"
	"WITH cell(strategy, accuracy, seconds) AS (VALUES ('serial', 0.91, 0.4), ('asgd', 0.85, "
	"0.1), ('allreduce', 0.88, 0.2)) "
	"INSERT INTO epoch (run_id, epoch, seconds, compute_s, comm_s, wait_s, train_loss, "
	"test_loss, test_accuracy, bytes_sent) SELECT r.id, value, iif(value, c.seconds + 0.001 * "
	"r.seed, 0), 0.05, 0.01, 0, 1, 1.0 / (1 + value), c.accuracy - 0.1 * (3 - value) + 0.001 "
	"* r.seed, 10 FROM run AS r JOIN cell AS c USING (strategy), json_each('[0, 1, 2, 3]');");

static void tear_down(void);
static void set_up(void);
CASE("report", .limit = 120, .set_up = set_up, .tear_down = tear_down);

TEST(page_shows_and_escapes_the_results)
{
	new_database("run.db");
	sql(three);
	report("--title='A & <B>'", EXIT_OK, "page.html");
	char *text AUTOFREE = folder_read("page.html");
	expect_page(text, "<title>A &amp; &lt;B&gt;</title>", true);
	expect_page(text, "1 of 9 runs failed: asgd 2w", true);
	expect_page(text, "1 of 9 runs diverged", true);
	/* of asgd's runs one failed, one finished and one diverged: the median and the worst of the
	 * latter two diverged */
	expect_page(text, "data-v=\"-Infinity\">diverged <span class=\"range\">diverged–8", true);
	expect_page(text, "softmax was measured on 2 machines (alpha, beta)", true);
	expect_page(text, "1 of 3 configurations have fewer than three finished runs", true);
	expect_page(text, "no &lt;b&gt;room&lt;/b&gt;", true);
	expect_page(text, "Cpu &amp; Co &lt;1&gt;", true);
	/* tables and figures have names; the first column names the row */
	expect_page(text, "aria-label=\"Configurations of softmax\"><table class=\"sort keep\">",
		    true);
	expect_page(text, "<th scope=\"row\"><a class=\"wide\" href=\"#c1\">serial</a></th>", true);
	expect_page(text, "<th scope=\"row\" class=\"n\" data-v=\"7\">7</th>", true);
	expect_page(text, "<figure><svg role=\"img\" aria-label=\"Test accuracy", true);
	expect_page(text, "aria-label=\"\"", false);
	/* the first lines say what the runs show */
	const char *verdict =
		strstr(text, "<p><b>Fastest:</b> asgd 2w, 0.101 s an epoch. That is ");
	ck_assert(verdict && verdict < strstr(text, "<nav"));
	expect_page(text,
		    "<b>Most accurate:</b> serial, 91.20\u00a0%. That is 3.00 points more than the "
		    "control, allreduce 2w, &lt;script&gt;",
		    true);
	expect_page(text, " (exact). Better: more than chance.</p>", true);
	expect_page(text, "Undecided: it may be chance.</p>", true);
	expect_page(text, "<b>Undecided:</b> 1 of 2 comparisons of time and 0 of 1 ", true);
	/* the words of the verdicts are explained, with the margins that decided */
	expect_page(text, "<details id=\"words\"><summary>How to read this page", true);
	expect_page(text, "<dt>undecided</dt><dd>none of these: the difference may be", true);
	expect_page(text, "than 0.3 points of accuracy, 1 % of loss, or 5 % of time.</dd>", true);
	expect_page(text, "<dt>min to max (93.8\u00a0%)</dt>", true);
	expect_page(text, "<td><span class=\"better\">better</span> <span class=\"range seeds\">",
		    true);
	ck_assert(strstr(text, "id=\"provenance\"") < strstr(text, "<dt>database</dt>"));
	/* a median with its interval; a target that one of two runs missed; a speed-up */
	expect_page(text, ">91.20 <span class=\"range\">91.10–91.30</span>", true);
	expect_page(text, "data-v=\"Infinity\">not reached", true);
	expect_page(text,
		    "<details id=\"c1\"><summary>serial <span>3 of 3 runs finished; 3 reached 86 %",
		    true);
	expect_page(text, "data-v=\"1\">1.00</td>", true);
	/* text that users typed is escaped everywhere */
	expect_page(text, "<script>hacked", false);
	expect_page(text, "<img src=x", false);
	expect_page(text,
		    "--label=&#39;&lt;script&gt;hacked=1&lt;/script&gt;&lt;img src=x "
		    "onerror=hacked=1&gt;&quot;&#39;\\&#39;&#39;&amp;,&#10;\xef\xbf\xbd&#39;",
		    true);
	expect_page(text, "\xff", false);
	/* the page fetches nothing: its only addresses are the name spaces of SVG */
	for (const char *at = text; (at = strstr(at, "http"));) {
		bool known = strncmp(at, "http-equiv", 10) == 0 ||
			     strncmp(at, "http://www.w3.org/", 18) == 0;
		ck_assert_msg(known, "%.60s", at);
		at += 4;
	}
	report("--title='A & <B>'", EXIT_OK, "page.html");
	char *again AUTOFREE = folder_read("page.html");
	ck_assert_str_eq(text, again);
}

/* A gnuplot that ends the report while it draws. */
TEST(signal_during_a_report_leaves_no_part)
{
	new_database("run.db");
	sql(three);
	folder_text("gnuplot", "#!/bin/sh\nkill -TERM $PPID\nsleep 1\n");
	char *command AUTOFREE = sentence(
		"f=%s; echo older >$f/page.html; chmod +x $f/gnuplot; (PATH=$f:$PATH ./mvbench "
		"report --db=$f/run.db --out=$f/page.html; echo status $?) 2>&1 | "
		"grep -v ^Terminated; cat $f/page.html; ls -A $f | grep -c part",
		folder);
	expect_command(1, command,
		       "mvbench: interrupted; the same command starts again\nstatus 143\nolder\n"
		       "0\n");
}

TEST(report_selects_runs_and_refuses_mistakes)
{
	new_database("run.db");
	report("", EXIT_OK, "page.html");
	char *text = folder_read("page.html");
	expect_page(text, "This database holds no runs yet", true);
	free(text);
	sql(three);
	report("--where=\"strategy = 'serial' AND seed < 3\" --label=''", EXIT_OK, "page.html");
	text = folder_read("page.html");
	expect_page(text, "1 configurations, 2 runs", true);
	expect_page(text, "strategy = &#39;serial&#39; AND seed &lt; 3", true);
	expect_page(text, "asgd", false);
	free(text);
	report("--label=nobody", EXIT_USER, "mvbench: --label=nobody: there is no such label");
	report("--where='seed = 99'", EXIT_OK, "page.html");
	text = folder_read("page.html");
	expect_page(text, "No run in this database matches", true);
	free(text);
	if (!lacks_program("gnuplot")) { /* a page without figures is written, and incomplete */
		char *command = sentence("rm %s/page.html; PATH=%s ./mvbench report --db=%s/run.db "
					 "--out=%s/page.html 2>&1",
					 folder, folder, folder, folder);
		int status = command_output(command, output, sizeof output);
		ck_assert_msg(status == EXIT_FAILED && strstr(output, "gnuplot, which draws"),
			      "status %d: %s", status, output);
		free(folder_read("page.html"));
		free(command);
	}
	report("--where='no such'", EXIT_USER, "--where=no such");
	report("--where='1); DROP TABLE run; --'", EXIT_USER, "--where=1)");
	report("--out=/nowhere/page.html", EXIT_USER, "--out=/nowhere/page.html");
	report("--out=", EXIT_USER, "--out=");
	report("--tilte=x", EXIT_USER, "--title");
	report("page", EXIT_USER, "page");
	report("--db=/nowhere/run.db", EXIT_USER, "/nowhere/run.db");
}

TEST(report_has_a_section_for_each_label)
{
	new_database("run.db");
	sql(three);
	sql("UPDATE run SET label = iif(seed = 1, 'first', 'other')");
	report("", EXIT_OK, "page.html");
	char *text AUTOFREE = folder_read("page.html");
	expect_page(text, ">softmax, first</h2>", true);
	expect_page(text, ">softmax, other</h2>", true);
	expect_page(text, "aria-label=\"Configurations of softmax, other\"", true);
	if (!lacks_program("gnuplot")) { /* letters have one size in all figures */
		int figures = 0, wide = 0;
		for (const char *at = text; (at = strstr(at, "<figure><svg ")); at++, figures++)
			wide += strstr(at, "viewBox=") == strstr(at, "viewBox=\"0 0 340 ");
		ck_assert_msg(figures > 8 && wide == figures, "%d of %d", wide, figures);
	}
	/* trials of mvbench tune have a section of their own */
	sql("INSERT INTO study (name, hash, made, objective, budget, search) VALUES ('s', 'x', '', "
	    "'accuracy', 4, '{}');"
	    "INSERT INTO trial SELECT 1, 'a', 'trial', id, '{}', config_hash FROM run WHERE "
	    "label = 'first'");
	report("", EXIT_OK, "page.html");
	char *tuned AUTOFREE = folder_read("page.html");
	expect_page(tuned, "softmax, first: trials</h2>", true);
	report("--label=other", EXIT_OK, "page.html");
	char *one AUTOFREE = folder_read("page.html");
	expect_page(one, ">softmax</h2>", true);
}

TEST(warning_about_busy_cores_counts_runs_once)
{
	new_database("run.db");
	sql(three);
	sql("UPDATE epoch SET run_delay_s = 0.5 * seconds; UPDATE run SET status = status");
	report("", EXIT_OK, "page.html");
	char *all AUTOFREE = folder_read("page.html");
	expect_page(all, "<li>7 of 7 runs had less than 90 % of their cores", true);
	sql("UPDATE run SET oversubscribed = 1 WHERE strategy = 'serial'");
	report("", EXIT_OK, "page.html");
	char *others AUTOFREE = folder_read("page.html");
	expect_page(others, "<li>3 runs were oversubscribed", true);
	expect_page(others, "<li>4 of the other 4 runs had less than 90 % of their cores", true);
}

/* Figures of no single workload, as simulated_real, and a user's figure with another word there. */
TEST(figures_of_all_workloads_are_on_the_page)
{
	if (lacks_program("gnuplot"))
		return;
	static const char gp[] = "eval layout_curves\nplot data using 1:2 with points\n";
	char *own AUTOFREE = sentence("--figures=%s", folder);
	new_database("run.db");
	sql(three);
	report(own, EXIT_OK, "page.html");
	char *without AUTOFREE = folder_read("page.html");
	expect_page(without, "All workloads", false);
	folder_text("every.sql", "-- Of all.\n-- Needs runs.\nSELECT '', 'a', 1, 2\n");
	folder_text("every.gp", gp);
	folder_text("word.sql", "-- Of a word.\n-- Needs runs.\nSELECT 'all', 'a', 1, 2\n");
	folder_text("word.gp", gp);
	report(own, EXIT_OK, "page.html");
	char *text AUTOFREE = folder_read("page.html");
	const char *section = strstr(text, "<h2 id=\"all\">All workloads</h2>");
	ck_assert_ptr_nonnull(section);
	expect_page(text, "<a href=\"#all\">All workloads</a>", true);
	expect_page(section, "<figcaption>Of all <code>every</code>", true);
	expect_page(section, "<figcaption>Of a word <code>word</code>", true);
	expect_page(section, "accuracy_time", false);
}

/* A file keeps its old text until the new one is complete. What is not a plain file stays what it
 * is. */
TEST(report_replaces_files_and_follows_links)
{
	char *to AUTOFREE = sentence("%s/to.html", folder),
		 *link AUTOFREE = sentence("%s/page.html", folder);
	char *part AUTOFREE = sentence("ls -A %s | grep -c '^[.]mvbench-'", folder), found[16];
	struct stat st;
	new_database("run.db");
	ck_assert_int_eq(symlink("to.html", link), 0);
	report("", EXIT_OK, "page.html");
	ck_assert(lstat(link, &st) == 0 && S_ISLNK(st.st_mode));
	ck_assert(lstat(to, &st) == 0 && st.st_size > 1000);
	unlink(link);
	report("", EXIT_OK, "page.html");
	ck_assert(lstat(link, &st) == 0 && S_ISREG(st.st_mode));
	command_output(part, found, sizeof found);
	ck_assert_str_eq(found, "0\n");
	struct output o;
	ck_assert_ptr_null(output_open(&o, "--out=", link));
	fputs("half", o.f);
	char *wrong = output_close(&o, sentence("no more"));
	ck_assert_str_eq(wrong, "no more");
	free(wrong);
	ck_assert(lstat(link, &st) == 0 && st.st_size > 1000);
	command_output(part, found, sizeof found);
	ck_assert_str_eq(found, "0\n");
	char *full AUTOFREE = own_device("full"), *begin AUTOFREE = sentence("--out=%s: ", full);
	if (!full)
		return;
	wrong = output_open(&o, "--out=", full);
	ck_assert_ptr_null(wrong);
	fputs("more", o.f);
	wrong = output_close(&o, NULL);
	ck_assert_msg(wrong && strstr(wrong, begin), "%s", wrong ? wrong : "");
	free(wrong);
}

/* More runs of a configuration than are shown, and of a workload that has no accuracy. */
TEST(omitted_runs_are_counted_on_the_page)
{
	new_database("run.db");
	sql(three);
	sql(INSERT_RUN("", "'done', 'x', 'mlp', 'serial', 1, i, 1, 32, 1, 'mpi', 0 FROM (WITH "
			   "RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < "
			   "1400) SELECT i FROM n)"));
	sql("INSERT INTO epoch (run_id, epoch, seconds, train_loss, test_loss) SELECT id, 1, 1, "
	    "0.6, 0.5 FROM run WHERE workload = 'mlp'");
	report("", EXIT_OK, "page.html");
	char *text AUTOFREE = folder_read("page.html");
	expect_page(text, "400 more of its runs are left out", true);
	const char *mlp = strstr(text, ">mlp</h2>"), *end = strstr(text, ">softmax</h2>");
	ck_assert(mlp && end && mlp < end);
	const char *head = strstr(mlp, "accuracy %</th>");
	ck_assert_msg(head > strstr(mlp, "<details"), "a column of accuracies without any");
}

/* ---- Commands -------------------------------------------------------------- */

static void expect_same_cell(struct store *s, int64_t id)
{
	char *command = NULL, want[32], *got;
	bool exact = false;
	char *wrong = recorded_command(s, id, &command, &exact);
	struct config c;
	ck_assert_msg(!wrong, "%s", wrong);
	ck_assert_msg(exact, "run %lld: %s", (long long)id, command);
	wrong = recorded_config(s, id, &c, &exact);
	ck_assert_msg(!wrong, "%s", wrong);
	config_hash(&c, want);
	config_fini(&c);
	char *line AUTOFREE =
		sentence("./%s --db=%s/run.db --dry-run --format=json 2>&1", command, folder);
	int status = command_output(line, output, sizeof output);
	got = strstr(output, "\"config_hash\": \"");
	ck_assert_msg(status == 0 && got && strncmp(got + 16, want, 16) == 0, "%s: wanted %s: %s",
		      line, want, output);
	free(command);
}

TEST(commands_of_the_page_give_the_same_cells)
{
	static const char *const words[][8] = {
		{"seed=7", "lr=0.05", "momentum=0.9"},
		{"strategy=asgd", "workers=2", "table-home=shared",
		 "label=it's\n\"odd\" $HOME `x` \\"},
		{"strategy=easgd", "workers=2", "sync-every=5", "easgd.beta=0.7", "straggle=0.3"},
		{"workload=mlp", "strategy=periodic", "workers=2", "speed=0:0.5",
		 "pause=1:2s:500ms"},
		{"strategy=asgd", "workers=4", "platform=sim", "sim.platform=ethernet_1g",
		 "sim.train=false", "sim.step-time=3ms", "sim.update-time=1ms"},
		{"lr-schedule=warmup:1+step:2:3:x0.3", "weight-decay=1e-4", "target-accuracy=0.85",
		 "barrier-every=0"},
		{"strategy=asgd", "workers=2", "record=true", "servers=1"},
		{"strategy=asgd", "workers=2", "table-home=onesided"},
	};
	struct store *s;
	char *path AUTOFREE = sentence("%s/run.db", folder);
	run_mvbench("", "--workload=softmax --epochs=1 --batch=100", output, sizeof output);
	run_mvbench("", "--workload=softmax --epochs=1 --batch=100 --strategy=asgd --workers=2",
		    output, sizeof output);
	char *wrong = store_open(&s, path, STORE_WRITE);
	ck_assert_msg(!wrong, "%s", wrong);
	for (size_t i = 0; i < COUNT(words); i++) {
		struct setting given[10] = {{"workload", "softmax"}, {"data-dir", folder}};
		size_t n = 2;
		char *copy[8];
		for (size_t k = 0; k < 8 && words[i][k]; k++) {
			copy[k] = must(strdup(words[i][k]));
			char *equals = strchr(copy[k], '=');
			*equals = '\0';
			given[n++] = (struct setting){copy[k], equals + 1};
		}
		struct config c;
		wrong = config_init(&c, given, n, false);
		ck_assert_msg(!wrong, "%s", wrong);
		wrong = store_pend(s, &c, &(int64_t){0}, 0, 0);
		ck_assert_msg(!wrong, "%s", wrong);
		config_fini(&c);
		for (size_t k = 2; k < n; k++)
			free(copy[k - 2]);
	}
	for (int64_t id = 1; id <= 2 + (int64_t)COUNT(words); id++)
		expect_same_cell(s, id);
	store_close(s);
	/* a strategy of another version is unknown here; the page is written nevertheless */
	sql("UPDATE run SET strategy = 'gone' WHERE id = 2; UPDATE run SET config_hash = 'x' WHERE "
	    "id = 1");
	report("", EXIT_OK, "page.html");
	char *text AUTOFREE = folder_read("page.html");
	expect_page(text, "This mvbench cannot repeat it: --strategy=gone", true);
	expect_page(text, "options have changed since", true);
}

/* ---- In a browser ----------------------------------------------------------- */

#define NAMES \
	"[...document.querySelectorAll('table.sort')[0].tBodies[0].rows].map(r => " \
	"r.cells[0].textContent.slice(0, 6)).join()"
#define HEAD(name) \
	"[...document.querySelectorAll('table.sort th')].find(h => " \
	"h.textContent == '" name "')"
#define CLICK(name) "(" HEAD(name) ".firstChild.click(), " NAMES ")"

/* The height of the smallest letters of these elements [pixels]. */
#define SMALLEST(of) \
	"Math.min(...[...document.querySelectorAll('" of "')].filter(e => [...e.childNodes]" \
	".some(c => c.nodeType == 3 && c.data.trim())).map(e => { const m = e.closest('svg') && " \
	"e.getScreenCTM ? e.getScreenCTM() : null; return (m ? Math.hypot(m.a, m.b) : 1) * " \
	"parseFloat(getComputedStyle(e).fontSize); }))"
/* Do all tables fit their boxes? */
#define TABLES_FIT \
	"(dispatchEvent(new Event('resize')), [...document.querySelectorAll('.scroll')].every(" \
	"s => s.scrollWidth <= s.clientWidth))"

static void press_enter(struct browser *b)
{
	browser_call(b, "Input.dispatchKeyEvent",
		     "{\"type\": \"keyDown\", \"key\": \"Enter\", \"code\": \"Enter\", \"text\": "
		     "\"\\r\", "
		     "\"windowsVirtualKeyCode\": 13}");
	browser_call(b, "Input.dispatchKeyEvent",
		     "{\"type\": \"keyUp\", \"key\": \"Enter\", \"code\": \"Enter\", "
		     "\"windowsVirtualKeyCode\": 13}");
}

TEST(page_works_in_a_browser)
{
	static const char *const complaints[] = {"Runtime.consoleAPICalled",
						 "Runtime.exceptionThrown", "Log.entryAdded",
						 "Network.loadingFailed"};
	struct browser b;
	int requests = 0;
	if (lacks_program("chromium"))
		return;
	new_database("run.db");
	sql(three);
	sql("UPDATE run SET servers = 1, sync_every = 16, target_accuracy = 0.89 WHERE strategy = "
	    "'asgd';"
	    "UPDATE epoch SET staleness_mean = 12.5, staleness_max = 31, pushes = 10, dropped = 0 "
	    "WHERE epoch >= 1 AND run_id IN (SELECT id FROM run WHERE strategy = 'asgd');"
	    "UPDATE epoch SET consensus = 0.0011 + 0.00005 * epoch WHERE epoch >= 1 AND run_id IN "
	    "(SELECT id FROM run WHERE strategy = 'asgd')");
	report("", EXIT_OK, "page.html");
	char *path AUTOFREE = sentence("%s/page.html", folder),
		   *profile AUTOFREE = sentence("%s/profile", folder);
	browser_open(&b, profile, path);
	/* text that users typed does not run, and the page is as wide as the window */
	browser_expect(&b, "typeof hacked", "undefined");
	browser_expect(&b, "document.querySelectorAll('figure svg').length > 4", "true");
	browser_expect(&b,
		       "[...document.querySelectorAll('figure svg')].every(i => i.ariaLabel && "
		       "i.getBoundingClientRect().width > 100 && "
		       "i.getBoundingClientRect().height > 100)",
		       "true");
	browser_expect(&b,
		       "new Set([...document.querySelectorAll('[id]')].map(e => e.id)).size == "
		       "document.querySelectorAll('[id]').length",
		       "true");
	/* text of figures can be selected and found */
	browser_expect(&b,
		       "(t => (getSelection().selectAllChildren(t), getSelection().toString() === "
		       "t.textContent))([...document.querySelectorAll('figure text')].find(t => "
		       "t.textContent.includes('Training time')))",
		       "true");
	browser_expect(&b,
		       "[...document.querySelectorAll('figure text')].some(t => "
		       "t.textContent.includes('Consensus distance'))",
		       "true");
	/* no text of a figure is cut */
	browser_expect(&b,
		       "(cut => cut.length ? cut.join() : 'none')([...document.querySelectorAll("
		       "'figure text')].filter(t => { const a = t.getBoundingClientRect(), "
		       "s = t.closest('svg').getBoundingClientRect(); return t.textContent.trim() "
		       "&& (a.left < s.left - 1 || a.right > s.right + 1 || a.top < s.top - 1 || "
		       "a.bottom > s.bottom + 1); }).map(t => t.textContent))",
		       "none");
	/* a click sorts by number, a second one reverses the order, a third one restores it */
	browser_expect(&b, NAMES, "serial,allred,asgd 2");
	browser_expect(&b, CLICK("epoch s"), "asgd 2,allred,serial");
	browser_expect(&b, HEAD("epoch s") ".ariaSort", "ascending");
	browser_expect(&b, CLICK("epoch s"), "serial,allred,asgd 2");
	browser_expect(&b, HEAD("epoch s") ".ariaSort", "descending");
	browser_expect(&b, CLICK("epoch s"), "serial,allred,asgd 2");
	browser_expect(&b, HEAD("epoch s") ".ariaSort", "null");
	browser_expect(&b, CLICK("configuration"), "allred,asgd 2,serial");
	/* the keyboard does the same */
	browser_expect(&b, "(" HEAD("accuracy %") ".firstChild.focus(), 1)", "1");
	press_enter(&b);
	browser_expect(&b, HEAD("accuracy %") ".ariaSort + " HEAD("configuration") ".ariaSort",
		       "descendingnull");
	browser_expect(&b, NAMES, "serial,allred,asgd 2");
	/* a link opens its target; paper shows everything */
	browser_expect(&b, "(location.hash = '#c2', 1)", "1");
	browser_expect(&b, "new Promise(r => setTimeout(r, 50)) && 1", "1");
	browser_call(&b, "Page.printToPDF", "{}");
	browser_expect(&b, "document.querySelector('#c2').open", "true");
	browser_expect(&b,
		       "(dispatchEvent(new Event('beforeprint')), [...document.querySelectorAll("
		       "'details')].every(d => d.open))",
		       "true");
	browser_call(
		&b, "Emulation.setDeviceMetricsOverride",
		"{\"width\": 390, \"height\": 800, \"deviceScaleFactor\": 1, \"mobile\": true}");
	browser_expect(&b, "document.documentElement.scrollWidth", "390");
	/* a table that is too wide becomes cards, so that no number is cut; letters are readable */
	browser_expect(&b, TABLES_FIT, "true");
	browser_expect(&b, "document.querySelector('table.cards td').dataset.head", "runs");
	browser_expect(&b, SMALLEST("body *") " >= 11", "true");
	/* on a phone figures are whole; a click enlarges one, another click makes it fit again */
	browser_expect(&b,
		       "[...document.querySelectorAll('figure')].every(f => f.scrollWidth <= "
		       "f.clientWidth)",
		       "true");
#define CLICK_FIGURE \
	"(f => (f.dispatchEvent(new Event('click')), f.scrollWidth > f.clientWidth))(document." \
	"querySelector('figure'))"
	browser_expect(&b, CLICK_FIGURE, "true");
	browser_expect(&b, CLICK_FIGURE, "false");
	/* on a projector all letters of an enlarged figure have 16 pixels or more */
	browser_call(
		&b, "Emulation.setDeviceMetricsOverride",
		"{\"width\": 1920, \"height\": 1080, \"deviceScaleFactor\": 1, \"mobile\": false}");
	browser_expect(&b,
		       "(f => (f.dispatchEvent(new Event('click')), [...f.querySelectorAll('text')]"
		       ".every(t => { const m = t.getScreenCTM(); return Math.hypot(m.a, m.b) * "
		       "parseFloat(getComputedStyle(t).fontSize) >= 16; })))("
		       "document.querySelector('figure'))",
		       "true");
	browser_expect(&b, CLICK_FIGURE, "false");
	/* there a quarter of the size is readable: verdicts and figures have 6.5 pixels then */
	browser_expect(&b, SMALLEST(".verdict *") " >= 26", "true");
	browser_expect(&b, SMALLEST("figure text *") " >= 26", "true");
	browser_expect(&b, SMALLEST("table.sort *") " >= 15", "true");
	browser_expect(&b, TABLES_FIT, "true");
	browser_expect(&b, "document.querySelectorAll('table.sort:not(.cards)').length", "1");
	/* the table of configurations fits an ordinary window with all its columns */
	browser_call(
		&b, "Emulation.setDeviceMetricsOverride",
		"{\"width\": 1200, \"height\": 800, \"deviceScaleFactor\": 1, \"mobile\": false}");
	browser_expect(&b, TABLES_FIT, "true");
	browser_expect(&b, "document.querySelectorAll('table.sort:not(.cards)').length", "1");
	browser_expect(&b, "document.querySelectorAll('table.sort th[scope=col]').length", "13");
	browser_expect(&b,
		       "[...document.querySelectorAll('.scroll:has(table.sort)')].map("
		       "s => s.scrollWidth - s.clientWidth).join()",
		       "0");
	browser_expect(&b, "document.querySelectorAll('.command button').length", "3");

	for (size_t i = 0; i < COUNT(complaints); i++)
		ck_assert_msg(!strstr(b.events, complaints[i]), "%s",
			      strstr(b.events, complaints[i]));
	for (const char *at = b.events; (at = strstr(at, "Network.requestWillBeSent\"")); at++) {
		const char *of = strstr(at, "\"request\":{\"url\":\"");
		requests += !of || strncmp(of + 18, "data:", 5) != 0; /* figures are in the page */
	}
	ck_assert_int_eq(requests, 1);
	browser_close(&b);
}

static void set_up(void)
{
	folder_new();
	idx_put_set(600, 200, false, '-');
}

static void tear_down(void)
{
	char *profile AUTOFREE = sentence("rm -rf %s/profile", folder);
	ck_assert_int_eq(system(profile), 0);
	folder_free();
}
