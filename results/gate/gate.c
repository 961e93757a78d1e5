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
	       "compare wall times too, of this program and --program, run in turn",
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

/* Runs that were found rather than made can also be of another model or data set. */
static char *check_found(const struct check *c)
{
	struct sql q AUTODONE = sql_select(c->store, other_sql, "t", c->o->against);
	if (!sql_next(&q))
		return sql_done(&q);
	return sentence("baseline %s is of another configuration: %s has %s in run %lld",
			c->o->against, sql_text(&q, 0), sql_text(&q, 1), (long long)sql_int(&q, 2));
}

/* Other machines and libraries round floats differently; differences can then have other causes
 * than the code. */
static void warn_of_machines(const struct check *c)
{
	static const char *const part[] = {"cpu", "gpu", "mpi", "onednn", "cuda"};
	for (size_t i = 0; i < sizeof part / sizeof *part; i++) {
		char *sql AUTOFREE =
			sentence("SELECT max(b.%s || ' there, ' || r.%s) FROM baseline AS b "
				 "JOIN checked AS c USING (name, cell, seed) "
				 "JOIN run AS r ON r.id = c.run_id "
				 "WHERE name = ?1 AND b.%s <> r.%s",
				 part[i], part[i], part[i], part[i]);
		char *both AUTOFREE = NULL;
		complain_if(sql_first(c->store, &both, sql, "t", c->o->against));
		if (both)
			complain(sentence(
				"baseline %s was made on another machine (%s: %s here): "
				"floats are rounded differently there, and can cause differences",
				c->o->against, part[i], both));
	}
}

static void warn_of_networks(const struct check *c)
{
	char *both AUTOFREE = NULL;
	complain_if(sql_first(
		c->store, &both,
		"SELECT max(ifnull(b.hosts || ': ' || b.network, 'one machine') || "
		"' there, ' || ifnull(r.hosts || ': ' || r.network, 'one machine')) "
		"FROM baseline JOIN checked AS c USING (name, cell, seed) "
		"JOIN run AS r ON r.id = c.run_id JOIN run AS b ON b.id = baseline.run_id "
		"WHERE name = ?1 AND ifnull(b.hosts || b.network, '') <> "
		"ifnull(r.hosts || r.network, '')",
		"t", c->o->against));
	if (both)
		complain(sentence("baseline %s was made over another network (%s here): pushes "
				  "arrive in another order there, which can cause differences",
				  c->o->against, both));
}

static void say_end(const struct check *c, FILE *f)
{
	const struct gate_count *n = &c->count;
	int64_t good = n->cells - n->failed;
	fprintf(f, "%lld cell%s of baseline %s: %lld failed, %lld passed", (long long)n->cells,
		plural(n->cells), c->o->against, (long long)n->failed, (long long)good);
	if (n->better || n->identical || n->unsure)
		fprintf(f, " (%lld better, %lld identical", (long long)n->better,
			(long long)n->identical);
	if (n->unsure)
		fprintf(f, ", %lld unsure", (long long)n->unsure);
	if (n->better || n->identical || n->unsure)
		fputc(')', f);
	fprintf(f, "; %lld run%s compared, %zu made now", (long long)n->runs, plural(n->runs),
		c->made_now);
	if (c->slower)
		fprintf(f, "; %lld cell%s slower than %s%s", (long long)c->slower,
			plural(c->slower), c->o->program,
			strcmp(c->o->time, "fail") == 0 ? "" : " (a warning)");
	fputc('\n', f);
	if (n->better)
		fputs("For a change that must not change results, use --better=fail: a bug can "
		      "also make a cell better\n",
		      f);
	if (n->runs == 0)
		fprintf(f,
			"No run was made since the baseline was saved, %s; without --rerun=never, "
			"mvbench makes them now\n",
			c->made);
	if (n->failed == 0 || n->runs == 0)
		return;
	fputs("If the change is intended: mvbench check --replace --save=", f);
	word_put(f, c->o->against);
	fputs(" --db=", f);
	word_put(f, c->o->db);
	fputc('\n', f);
}

static char *decide(struct check *c, FILE *f)
{
	TRY(check_found(c));
	warn_of_machines(c);
	warn_of_networks(c);
	return gate_print(c->store, f, c->o->format, c->o->against, &c->count);
}

/* ---- The command --------------------------------------------------------- */

/* Decides, prints, and measures wall times last, when everything else has succeeded. */
static char *report(struct check *c, int *status)
{
	struct output out;
	TRY(output_open(&out, "--out=", c->o->out));
	FILE *rest = strcmp(c->o->format, "text") == 0 ? out.f : stderr;
	char *wrong = decide(c, out.f);
	if (!wrong && strcmp(c->o->time, "no") != 0)
		*status = gate_time(c->store, rest, c->o, &c->slower);
	if (!wrong)
		say_end(c, rest);
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
		fprintf(stderr, "mvbench: interrupted; the same command continues\n");
		*status = EXIT_INTERRUPTED;
		return NULL;
	}
	TRY(report(c, status));
	if (*status == EXIT_OK &&
	    (c->count.failed || (c->slower && strcmp(c->o->time, "fail") == 0)))
		*status = EXIT_FAILED;
	return NULL;
}

static char *export(struct store *s, const struct gate_options *o)
{
	const char *path = strcmp(o->export, "-") == 0 ? "" : o->export;
	struct output out;
	TRY(baseline_find(s, "against", o->against));
	TRY(output_open(&out, "--export=", path));
	return output_close(&out, baseline_export(s, out.f, o->against));
}

/* The modes of check: the option of each, and the options that it accepts; all accept --db. The
 * first mode whose option is given counts. */
static const struct mode {
	const char *option, *others;
} modes[] = {
	{"export", " against "},
	{"import", " save replace "},
	{"save", " replace label where "},
	{"against",
	 " label rerun seeds alpha min-accuracy min-loss better unsure time program pairs "
	 "min-time format out "},
	{"delete", " "},
	{"list", " "},
};
enum { MODES = sizeof modes / sizeof *modes, LIST = MODES - 1 };

static bool is_valid_with(const char *name, const struct mode *m)
{
	char word[32];
	snprintf(word, sizeof word, " %s ", name);
	return strcmp(name, "db") == 0 || strcmp(name, m->option) == 0 || strstr(m->others, word);
}

/* NULL, or a sentence: an option has no effect in this mode. */
static char *check_given(const struct gate_options *o, const struct arguments *a)
{
	size_t mode = 0;
	while (mode < LIST && !arguments_took(a, modes[mode].option))
		mode++;
	for (const struct option *p = options; p->name; p++) {
		bool taken = arguments_took(a, modes[mode].option);
		char *with AUTOFREE = NULL;
		if (!arguments_took(a, p->name) || is_valid_with(p->name, &modes[mode]))
			continue;
		for (size_t i = 0; i < MODES; i++)
			if (is_valid_with(p->name, &modes[i])) {
				char *before AUTOFREE = with;
				with = sentence("%s%s--%s", before ? before : "",
						before ? " or " : "", modes[i].option);
			}
		return sentence("--%s: valid only with %s, not %s%s", p->name, with,
				taken ? "with --" : "alone", taken ? modes[mode].option : "");
	}
	if (strcmp(modes[mode].option, "against") == 0 && strcmp(o->rerun, "never") == 0 &&
	    arguments_took(a, "label"))
		return sentence("--label=%s: no runs are made with --rerun=never", o->label);
	for (int i = 0; i < 2 && strcmp(o->time, "no") == 0; i++)
		if (arguments_took(a, i ? "min-time" : "pairs"))
			return sentence("--%s: valid only with --time=warn or --time=fail",
					i ? "min-time" : "pairs");
	return NULL;
}

/* A timeline changes the last digits of simulated times; baselines have no timeline. */
static char *refuse_trace(const struct arguments *a)
{
	for (size_t i = 0; i < a->options; i++)
		if (strcmp(a->option[i].name, "trace") == 0)
			return sentence(
				"--trace: runs with a timeline are not compared, because tracing "
				"changes the last digits of simulated times; leave it out");
	return NULL;
}

/* NULL, or a sentence: several modes, or an option that does not belong to the mode. */
static char *check_options(const struct gate_options *o, const struct arguments *a)
{
	bool timed = strcmp(o->time, "no") != 0;
	if (a->words) {
		char *quoted AUTOFREE = word_quoted(a->word[0]);
		return sentence(
			"\"%s\" is not understood: mvbench check --against=%s compares this "
			"program with a baseline",
			a->word[0], quoted);
	}
	if (*o->export && !*o->against)
		return sentence("--export=%s: name the baseline with --against", o->export);
	if (!!*o->drop + (*o->save && !*o->import) + !!*o->import + !!*o->against + o->list > 1)
		return sentence(
			"give only one of --save, --against, --import, --delete and --list");
	if (a->options && (!*o->against || *o->export))
		return arguments_refuse(a, options);
	TRY(refuse_trace(a));
	TRY(check_given(o, a));
	if (timed && !*o->program)
		return sentence("--time=%s: wall times are compared between two programs that run "
				"in turn; name the other with --program=OTHER/mvbench",
				o->time);
	if (*o->program && (!timed || access(o->program, X_OK) != 0))
		return timed ? sentence("--program=%s: not a program (%s)", o->program,
					strerror(errno))
			     : sentence("--program=%s: valid only with --time=warn or --time=fail",
					o->program);
	if (platform_under_launcher())
		return sentence("check starts its own workers: run it without mpirun or srun");
	return timed ? gate_time_check(o) : NULL;
}

static char *carry_out(struct check *c, int *status)
{
	const struct gate_options *o = c->o;
	bool reads = !*o->import && !*o->save && !*o->drop && (*o->export || !*o->against);
	TRY(store_open(&c->store, o->db, reads ? STORE_READ : STORE_WRITE));
	if (*o->export)
		return export(c->store, o);
	if (*o->against)
		return against(c, status);
	if (*o->import)
		return baseline_import(c->store, o);
	if (*o->save)
		return baseline_save(c->store, o);
	if (*o->drop)
		return baseline_drop(c->store, o->drop);
	return baseline_list(c->store, stdout);
}

static char *check(void *options_given, struct arguments *a, int *status)
{
	struct check c ENDS_WITH(gate_fini) = {.o = options_given, .a = a};
	TRY(check_options(c.o, a));
	return carry_out(&c, status);
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
};
