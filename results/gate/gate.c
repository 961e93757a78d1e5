/*
 * gate.c - mvbench check: are the results as good as those of a baseline?
 *
 * For every run of a baseline (a cell and a seed), the check needs a run that this program made
 * since (runs.c). Table `checked` has the run for each of them, and the views gate_* compare
 * (results/db/gate.sql).
 */
#include "results/db/select.h"
#include "results/gate/gate.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TEXT_FILE(other_sql, "results/gate/other.sql");

#define OWNER struct gate_options
static const struct option options[] = {
	OPTION(save, STRING, "save", "",
	       "make a baseline of this name: the newest finished run of every cell and seed, "
	       "except replays and runs with a timeline (--trace)"),
	OPTION(against, STRING, "against", "",
	       "compare this program with the baseline of this name [name]"),
	OPTION(list, BOOL, "list", "false",
	       "list the baselines; without options check does the same"),
	OPTION(drop, STRING, "delete", "", "delete the baseline of this name; runs stay [name]"),
	OPTION(export, STRING, "export", "",
	       "write the baseline of --against to a text file, to keep with the code; -: to "
	       "stdout [file]"),
	OPTION(import, STRING, "import", "",
	       "read a baseline from a file of --export; --save gives it another name [file]"),
	OPTION(replace, BOOL, "replace", "false",
	       "with --save and --import: replace a baseline of the same name"),
	OPTION(label, STRING, "label", "",
	       "with --save: only runs of this label; with --against: label of the runs made now "
	       "[text]"),
	SELECT_WHERE(where, "with --save: "),
	OPTION(rerun, CHOICE, "rerun", "missing",
	       "runs to make; missing: those that this program has not made since the baseline; "
	       "never: none, compare the newest runs since it was saved, of any program (just "
	       "after --save there are none)",
	       .choices = "missing|always|never"),
	OPTION(seeds, STRING, "seeds", "",
	       "run other seeds than the baseline's, as in 1,2,11..15; empty: the same [list]"),
	OPTION(jobs, INT, "jobs", "1", "runs at a time [runs]", .min = 1, .max = JOBS_MAX),
	OPTION(alpha, REAL, "alpha", "0.01",
	       "share of whole checks of unchanged code that may fail by chance [share]",
	       .min = 1e-9, .max = 0.5),
	OPTION(min_accuracy, REAL, "min-accuracy", "0.3",
	       "ignore a drop in test accuracy smaller than this [percentage points]", .min = 0,
	       .max = 100),
	OPTION(min_loss, REAL, "min-loss", "1", "ignore a rise of a loss smaller than this [%]",
	       .min = 0, .max = 1e6),
	OPTION(better, CHOICE, "better", "pass",
	       "result of a cell whose figures are better; fail: for changes that must not change "
	       "results",
	       .choices = "pass|fail"),
	OPTION(unsure, CHOICE, "unsure", "pass",
	       "result of a cell whose 95 % intervals reach figures that would be worse",
	       .choices = "pass|fail"),
	OPTION(time, CHOICE, "time", "no",
	       "compare wall times too, of this program and --program, run in turn; fail: a slower "
	       "cell fails the check, only with --format=text",
	       .choices = "no|warn|fail"),
	OPTION(program, STRING, "program", "",
	       "with --time: the mvbench to compare with, such as the last release's [file]"),
	OPTION(pairs, INT, "pairs", "6",
	       "with --time: runs of each program for a cell; an interval of 95 % needs 6 [runs]",
	       .min = 6, .max = 100), /* all n that median_rank always has */
	OPTION(min_time, REAL, "min-time", "5",
	       "with --time: ignore slowdowns smaller than this [%]", .min = 0, .max = 1e6),
	OPTION(format, CHOICE, "format", "text",
	       "output format of the cells; json: one object for each cell, with every figure",
	       .choices = "text|json|junit|markdown"),
	OPTION(out, STRING, "out", "", "write the cells to this file instead of stdout [file]"),
	OPTION(db, STRING, "db", DATABASE, "results database [file]"),
	{.name = NULL},
};

/* ---- Deciding ------------------------------------------------------------ */

/* Runs of another model or data set are not compared. Differences of runs from other machines,
 * libraries and networks can have other causes than the code. */
static char *check_others(const struct check *c)
{
	struct sql q AUTODONE = sql_select(c->store, other_sql, "t", c->o->against);
	while (sql_next(&q)) {
		if (sql_int(&q, 0))
			return sql_copy(&q, 1);
		complain(sql_copy(&q, 1));
	}
	return sql_done(&q);
}

static void gate_say_end(const struct check *c, FILE *f)
{
	const struct gate_count *n = &c->count;
	fprintf(f, "%.0f cell%s of baseline %s: %.0f failed, %.0f passed", n->cells,
		plural((int64_t)n->cells), c->o->against, n->failed, n->cells - n->failed);
	if (n->better > 0 || n->identical > 0 || n->unsure > 0) {
		fprintf(f, " (%.0f better, %.0f identical", n->better, n->identical);
		if (n->unsure > 0)
			fprintf(f, ", %.0f unsure", n->unsure);
		fputc(')', f);
	}
	fprintf(f, "; %.0f run%s compared, %zu made now", n->runs, plural((int64_t)n->runs),
		c->made_now);
	if (c->slower)
		fprintf(f, "; %lld cell%s slower than %s%s", (long long)c->slower,
			plural(c->slower), c->o->program,
			strcmp(c->o->time, "fail") == 0 ? "" : " (a warning)");
	fputc('\n', f);
	if (n->better > 0)
		fputs("For a change that must not change results, use --better=fail: a bug can "
		      "also make a cell better\n",
		      f);
	if (n->runs == 0) {
		char *made AUTOFREE = text_visible(c->made);
		fprintf(f,
			"No run was made since the baseline was saved, %s; without --rerun=never, "
			"mvbench makes them now\n",
			made);
	}
	if (n->failed == 0 || n->runs == 0)
		return;
	fputs("If the change is intended: mvbench check --replace --save=", f);
	word_put(f, c->o->against);
	fputs(" --db=", f);
	word_put(f, c->o->db);
	fputc('\n', f);
}

/* ---- The command --------------------------------------------------------- */

/* The limits are stored last, because another check of this database may have stored its own. */
static char *judge(struct check *c, FILE *f)
{
	TRY(gate_limit(c));
	TRY(check_others(c));
	TRY(gate_print(c->store, f, c->o->format, c->o->against, &c->count));
	return c->count.cells > 0
		       ? NULL
		       : sentence("baseline %s: no cell is left to compare; is another check "
				  "using this database, or has another file replaced it?",
				  c->o->against);
}

/* Decides, prints, and measures wall times last, when everything else has succeeded. */
static char *gate_report(struct check *c, int *status)
{
	struct output out;
	TRY(output_open(&out, "--out=", c->o->out));
	FILE *rest = strcmp(c->o->format, "text") == 0 ? out.f : stderr;
	char *wrong = sql_begin(c->store);
	if (!wrong)
		wrong = sql_end(c->store, judge(c, out.f));
	if (!wrong && strcmp(c->o->time, "no") != 0)
		*status = gate_time(c, rest);
	if (!wrong)
		gate_say_end(c, rest);
	return output_close(&out, wrong);
}

static char *against(struct check *c, int *status)
{
	bool interrupted = false;
	TRY(baseline_find(c->store, "against", c->o->against));
	TRY(gate_find(c));
	if (strcmp(c->o->rerun, "never") != 0)
		TRY(gate_make(c, &interrupted));
	if (interrupted) {
		*status = EXIT_INTERRUPTED;
		return NULL;
	}
	TRY(gate_report(c, status));
	if (*status == EXIT_OK &&
	    (c->count.failed > 0 || (c->slower && strcmp(c->o->time, "fail") == 0)))
		*status = EXIT_FAILED;
	return NULL;
}

/* The modes of check: the option of each, the options that it accepts besides --db, and what it
 * does. The first mode whose option is given counts; without any, the last. */
static const struct mode {
	const char *option, *others;
	enum store_mode opens;
	char *(*carry_out)(struct store *s, const struct gate_options *o); /* NULL: against */
} modes[] = {
	{"export", " against ", STORE_READ, baseline_export},
	{"import", " save replace ", STORE_LATER, baseline_import},
	{"save", " replace label where ", STORE_WRITE, baseline_save},
	{"against",
	 " label rerun seeds jobs alpha min-accuracy min-loss better unsure time program pairs "
	 "min-time format out ",
	 STORE_WRITE, NULL},
	{"delete", " ", STORE_WRITE, baseline_drop},
	{"list", " ", STORE_READ, baseline_list},
};
enum { MODES = sizeof modes / sizeof *modes };

static bool is_valid_with(const char *name, const struct mode *m)
{
	char word[32];
	snprintf(word, sizeof word, " %s ", name);
	return strcmp(name, "db") == 0 || strcmp(name, m->option) == 0 || strstr(m->others, word);
}

/* NULL, or a sentence: an option has no effect in this mode. */
static char *gate_check_given(const struct mode *m, const struct arguments *a)
{
	bool taken = arguments_took(a, m->option);
	for (const struct option *p = options; p->name; p++) {
		char *with AUTOFREE = NULL;
		if (!arguments_took(a, p->name) || is_valid_with(p->name, m))
			continue;
		for (const struct mode *i = modes; i < modes + MODES; i++) {
			if (strcmp(p->name, i->option) == 0)
				return sentence("--%s: give only one of --save, --against, "
						"--import, --delete and --list",
						p->name);
			if (!is_valid_with(p->name, i))
				continue;
			char *before AUTOFREE = with;
			with = sentence("%s%s--%s", before ? before : "", before ? " or " : "",
					i->option);
		}
		return sentence("--%s: valid only with %s, not %s%s", p->name, with,
				taken ? "with --" : "alone", taken ? m->option : "");
	}
	return NULL;
}

static char *gate_check_times(const struct gate_options *o, const struct arguments *a)
{
	static const char *const of_time[] = {"program", "pairs", "min-time"};
	bool timed = strcmp(o->time, "no") != 0;
	for (size_t i = 0; i < sizeof of_time / sizeof *of_time && !timed; i++)
		if (arguments_took(a, of_time[i]))
			return sentence("--%s: valid only with --time=warn or --time=fail",
					of_time[i]);
	if (strcmp(o->time, "fail") == 0 && strcmp(o->format, "text") != 0)
		return sentence("--time=fail: --format=%s has no times, so a cell that failed "
				"would pass in it; use --time=warn or --format=text",
				o->format);
	if (timed && !*o->program)
		return sentence("--time=%s: wall times are compared between two programs that run "
				"in turn; name the other with --program=OTHER/mvbench",
				o->time);
	if (timed && access(o->program, X_OK) != 0)
		return sentence("--program=%s: not a program (%s)", o->program, strerror(errno));
	return timed ? gate_time_check(o) : NULL;
}

/* A timeline changes the last digits of simulated times; baselines have no timeline. */
static char *check_run_options(const struct gate_options *o, const struct arguments *a)
{
	if (arguments_value(a, "trace"))
		return sentence("--trace: runs with a timeline are not compared, because tracing "
				"changes the last digits of simulated times; leave it out");
	if (arguments_value(a, "seed"))
		return sentence("--seed: a check runs several seeds, those of the baseline; "
				"--seeds=LIST gives others");
	if (strcmp(o->rerun, "never") == 0 && arguments_took(a, "label"))
		return sentence("--label=%s: no runs are made with --rerun=never", o->label);
	return NULL;
}

static char *gate_check_options(const struct mode *m, const struct gate_options *o,
				const struct arguments *a)
{
	if (a->words) {
		char *quoted AUTOFREE = word_quoted(a->word[0]);
		return sentence(
			"\"%s\" is not understood: mvbench check --against=%s compares this "
			"program with a baseline",
			a->word[0], quoted);
	}
	TRY(gate_check_given(m, a));
	TRY(launcher_refuse("check"));
	if (m->carry_out)
		return arguments_refuse(a, options);
	TRY(check_run_options(o, a));
	return gate_check_times(o, a);
}

static char *check(void *options_given, struct arguments *a, int *status)
{
	struct check c ENDS_WITH(gate_fini) = {.o = options_given, .a = a};
	const struct mode *m = modes;
	while (m < modes + MODES - 1 && !arguments_took(a, m->option))
		m++;
	TRY(gate_check_options(m, c.o, a));
	if (m->opens == STORE_WRITE) /* only an import makes a database */
		TRY(store_probe(c.o->db));
	TRY(store_open(&c.store, c.o->db, m->opens));
	return m->carry_out ? m->carry_out(c.store, c.o) : against(&c, status);
}

const struct command command_check = {
	.name = "check",
	.summary = "compare this program's results with a baseline",
	.usage = "[--save=NAME | --against=NAME] [--option=value ...]",
	.about =
		"Stores named baselines of finished runs, and tests whether this program still "
		"gets results as good. It makes every run of the baseline (a cell and a seed) "
		"again, unless this very build (the same commit, without changes) has made it "
		"since. Exit status: 0 as good as the baseline, 1 worse, 2 cannot compare, 130 "
		"interrupted; the same command continues.\n\n"
		"A cell fails if its last test accuracy, test loss or train loss is worse by more "
		"than --min-accuracy or --min-loss, and if that is more than chance: a one-sided t "
		"test of the differences seed by seed (with other --seeds: Welch's) has p < "
		"--alpha. The cells share their variances as far as they are alike, and p is "
		"corrected for all tests of the check (Holm). A cell also fails if a run failed, "
		"diverged or is missing, or if a simulated time has changed. A cell whose 95 % "
		"interval reaches figures that would be worse is unsure; it passes, unless "
		"--unsure=fail is given. Real times are compared only with --time, between two "
		"programs that run in turn.\n\n"
		"Each cell needs three seeds or more; five show smaller differences. Options of "
		"mvbench run may be given with --against; they must be those of the baseline.",
	.options = options,
	.size = sizeof(OWNER),
	.run_options = true,
	.run = check,
	.interrupted = GOES_ON,
};
