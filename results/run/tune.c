/*
 * tune.c - mvbench tune: compares configurations that are all tuned with the same budget.
 *
 * Each configuration of a job file gets the same number of trials, at the same points of the ranges
 * in section [search] (search.c). The best trial is chosen on held-out rows of the training set.
 * Only then the test set is used: the best trial and the untuned configuration run again, with the
 * same seeds, which no trial had. A fair comparison of training algorithms needs equal budgets
 * (Dahl et al., Benchmarking Neural Network Training Algorithms, arXiv 2306.07179, section 4).
 *
 * The file and --search-seed decide all trials. Tables study and trial store them before they run;
 * the result of a trial is the run of its cell. A study can thus resume, also with a larger budget.
 */
#include "results/db/column.h"
#include "results/run/cells.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { VALIDATION_ROWS = 5000, TRIALS_MOST = 10000, SEEDS_MOST = 1000 };

struct tune_flags {
	struct sweep_flags sweep;
	int64_t budget, seeds, search_seed;
	const char *objective;
};

#define OWNER struct tune_flags
static const struct option options[] = {
	OPTION(budget, INT, "budget", "20", "trials of each configuration [trials]", .min = 1,
	       .max = TRIALS_MOST),
	OPTION(objective, CHOICE, "objective", "auto",
	       "figure that ranks the trials, after the last epoch, on the --validation rows; "
	       "auto: accuracy, or loss where there is none [name]",
	       .choices = "auto|accuracy|loss"),
	OPTION(seeds, INT, "seeds", "5",
	       "number of further seeds with which the best trial and the untuned configuration "
	       "are "
	       "run [seeds]",
	       .min = 1, .max = SEEDS_MOST),
	OPTION(search_seed, INT, "search-seed", "1",
	       "decides the start of the sequence of trials [number]", .min = 0,
	       .max = 4294967295.0),
	SWEEP_OPTIONS(sweep.),
	{0},
};

/* A configuration that is tuned: a cell of the job file. */
struct contestant {
	const struct cell *cell;
	char *name;
	int64_t best; /* the number of its best trial; 0 = not known, or all diverged or failed */
};

struct study {
	const char *objective;
	char *path, *name; /* of the job file, and without its folder and ending */
	const struct tune_flags *flags;
	struct sweep file; /* the cells of the job file */
	struct search search;
	struct contestant *contestant; /* [file.cells] */
	const char *db;
	int64_t id;
};

static void study_fini(struct study *s)
{
	for (size_t i = 0; s->contestant && i < s->file.cells; i++)
		free(s->contestant[i].name);
	free(s->contestant);
	free(s->path);
	free(s->name);
	sweep_free(&s->file);
	search_free(&s->search);
}

/* ---- Contestants --------------------------------------------------------- */

/* Holds out rows if --validation is not given: 5,000, but at most a tenth. */
static void hold_out(struct cell *c, bool *said)
{
	if (c->config.run.validation)
		return;
	c->config.run.validation = (int64_t)smaller(VALIDATION_ROWS, c->plan.train.n / 10);
	config_hash(&c->config, c->hash);
	if (!*said)
		fprintf(stderr,
			"mvbench: trials are evaluated on --validation=%lld rows of the training "
			"set\n",
			(long long)c->config.run.validation);
	*said = true;
}

static char *check_cell(const struct study *s, const struct cell *c)
{
	const struct run *run = &c->config.run;
	size_t ranges = 0;
	for (size_t i = 0; i < s->search.ranges; i++)
		ranges += option_applies(s->search.range[i].name, &c->config);
	if (ranges == 0)
		return sentence("%s:%d: [%s] has none of the options in [search]", s->path, c->line,
				c->section);
	if (is_simulated(&c->config) && !run->sim_train)
		return sentence("%s:%d: [%s] sim.train=false: without training there are no "
				"models to compare",
				s->path, c->line, c->section);
	if (!data_is_counted(&c->plan.train) && strcmp(s->objective, "accuracy") == 0)
		return sentence("--objective=accuracy: %s has no accuracy; give --objective=loss",
				run->workload);
	return NULL;
}

/* At least one configuration must use each range. */
static char *check_ranges(const struct study *s)
{
	for (size_t i = 0; i < s->search.ranges; i++) {
		bool applies = false;
		for (size_t k = 0; k < s->file.cells; k++)
			applies |= option_applies(s->search.range[i].name, &s->file.cell[k].config);
		if (!applies)
			return sentence("%s: [search] %s is not an option of any configuration",
					s->path, s->search.range[i].name);
	}
	return NULL;
}

static const char *find_objective(const struct study *s)
{
	const char *given = s->flags->objective;
	bool loss = false;
	for (size_t i = 0; i < s->file.cells; i++)
		loss |= !data_is_counted(&s->file.cell[i].plan.train);
	return strcmp(given, "auto") != 0 ? given : loss ? "loss" : "accuracy";
}

/* Its section, with its description if the section has several cells. */
static char *name_of(const struct sweep *file, const struct cell *c)
{
	size_t same = 0;
	for (size_t i = 0; i < file->cells; i++)
		same += strcmp(file->cell[i].section, c->section) == 0;
	return same == 1 ? must(strdup(c->section)) : sentence("%s: %s", c->section, c->what);
}

static char *read_study(struct study *s, const struct arguments *a)
{
	bool said = false;
	TRY(launcher_refuse("tune"));
	TRY(sweep_find(a, "tune", "study.ini", &s->path));
	s->name = text_without(basename(s->path), ".ini");
	TRY(sweep_read(s->path, a->option, a->options, &s->file, &s->search,
		       !s->flags->sweep.dry_run));
	if (s->search.ranges == 0)
		return sentence("%s: there is no section [search]; it has lines such as lr = "
				"0.001..0.3 log",
				s->path);
	TRY(sweep_plan(s->path, &s->file));
	s->objective = find_objective(s);
	s->db = s->file.cell[0].config.harness.db;
	s->contestant = must(calloc(s->file.cells, sizeof *s->contestant));
	for (size_t i = 0; i < s->file.cells; i++) {
		struct cell *c = &s->file.cell[i];
		TRY(check_cell(s, c));
		hold_out(c, &said);
		s->contestant[i] = (struct contestant){.cell = c, .name = name_of(&s->file, c)};
	}
	return check_ranges(s);
}

/* ---- Trials -------------------------------------------------------------- */

/* Adds the drawn settings of a trial to *all; trial 0 draws nothing. json, said (heap): the drawn
 * values as JSON and as text. */
static void draw_trial(const struct study *s, const struct config *c, int64_t trial,
		       struct settings *all, char **json, char **said)
{
	uint64_t rng = rng_seed(s->flags->search_seed, RNG_SAMPLE, 1),
		 start = rng_next(&rng) >> 44; /* 20 bits: radical inverses stay exact */
	struct text t, w;
	FILE *f = text_open(&t), *g = text_open(&w);
	fputc('{', f);
	for (size_t i = 0; trial > 0 && i < s->search.ranges; i++) {
		const struct range *r = &s->search.range[i];
		if (!option_applies(r->name, c))
			continue;
		char *value = range_at(r, halton(i, start + (uint64_t)trial));
		fputs(ftell(f) > 1 ? ", " : "", f);
		text_json(f, r->name);
		fputs(": ", f);
		if (r->list.n)
			text_json(f, value);
		else
			fputs(value, f);
		fprintf(g, "%s%s %s", ftell(g) ? ", " : "", r->name, value);
		settings_add(all, must(strdup(r->name)), value);
	}
	fputc('}', f);
	*json = text_close(&t);
	*said = text_close(&w);
}

/* The file's settings, except those that follow from drawn ones: the hash of the data; --batch if
 * --global-batch is drawn; --deal unless the file's value differs from the automatic one. */
static char *base_settings(const struct study *s, const struct config *base, bool drawn,
			   struct settings *all)
{
	char **words AUTOWORDS = config_words(base);
	struct config c AUTOCONFIG = {0};
	bool global = false;
	for (size_t i = 0; drawn && i < s->search.ranges; i++)
		global |= strcmp(s->search.range[i].name, "global-batch") == 0;
	for (size_t i = 0; words[i]; i++)
		if (strncmp(words[i], "--deal=", 7) != 0 &&
		    !(drawn && strncmp(words[i], "--data-hash=", 12) == 0) &&
		    !(global && strncmp(words[i], "--batch=", 8) == 0))
			settings_add_word(all, words[i]);
	TRY(config_init(&c, all->setting, all->n, false));
	for (size_t i = 0; words[i] && strcmp(c.run.deal, base->run.deal) != 0; i++)
		if (strncmp(words[i], "--deal=", 7) == 0)
			settings_add_word(all, words[i]);
	return NULL;
}

/* Adds the cell of a trial with this seed. json (heap): its drawn values. hash: of the cell. */
static char *add_cell(const struct study *s, const struct contestant *of, int64_t trial,
		      int64_t seed, struct sweep *cells, char **json, char hash[17])
{
	const struct cell *base = of->cell;
	struct settings all ENDS_WITH(settings_free) = {.setting = NULL};
	char *said = NULL;
	struct config c;
	TRY(base_settings(s, &base->config, trial > 0, &all));
	draw_trial(s, &base->config, trial, &all, json, &said);
	char *drawn AUTOFREE = said;
	settings_add(&all, must(strdup("seed")), sentence("%lld", (long long)seed));
	char *wrong AUTOFREE = config_init(&c, all.setting, all.n, false);
	if (wrong)
		return sentence("%s:%d: [%s] %s: %s", s->path, base->line, base->section, drawn,
				wrong);
	config_hash(&c, hash);
	if (sweep_add(cells, &c, base->section, base->line))
		cells->cell[cells->cells - 1].what =
			trial ? sentence("%s, trial %lld: %s", base->what, (long long)trial, drawn)
			      : sentence("%s, untuned", base->what);
	return NULL;
}

/* Refuses configurations that have the same trials. */
static char *check_different(const struct study *s)
{
	struct sweep first ENDS_WITH(sweep_free) = {.cell = NULL};
	char hash[17];
	for (size_t i = 0; i < s->file.cells; i++) {
		char *json AUTOFREE = NULL;
		TRY(add_cell(s, &s->contestant[i], 1, 0, &first, &json, hash));
		if (first.duplicates)
			return sentence("%s:%d: [%s] differs from another configuration in "
					"searched options or the seed only: give one value; "
					"--seeds=%lld runs the best again",
					s->path, s->contestant[i].cell->line,
					s->contestant[i].cell->section, (long long)s->flags->seeds);
	}
	return NULL;
}

/* ---- Storing the plan ----------------------------------------------------- */

/* The hash of everything that decides the trials, except their number. */
static void study_hash(const struct study *s, char hex[17])
{
	uint64_t h = hash_of(HASH_START, &s->flags->search_seed, sizeof s->flags->search_seed);
	for (size_t i = 0; i < s->file.cells; i++) {
		const struct contestant *c = &s->contestant[i];
		h = hash_of(h, c->name, strlen(c->name) + 1);
		h = hash_of(h, c->cell->hash, strlen(c->cell->hash) + 1);
	}
	for (size_t i = 0; i < s->search.ranges; i++) {
		const struct range *r = &s->search.range[i];
		h = hash_of(h, r->name, strlen(r->name) + 1);
		h = hash_of(h, r->text, strlen(r->text) + 1);
	}
	snprintf(hex, 17, "%016llx", (unsigned long long)h);
}

static char *search_json(const struct search *search)
{
	struct text t;
	FILE *f = text_open(&t);
	for (size_t i = 0; i < search->ranges; i++) {
		fputs(i ? ", " : "{", f);
		text_json(f, search->range[i].name);
		fputs(": ", f);
		text_json(f, search->range[i].text);
	}
	fputc('}', f);
	return text_close(&t);
}

/* Inserts the study's row, or updates what may have changed. */
static char *put_study(struct study *s, struct store *store)
{
	char hash[17], *search AUTOFREE = search_json(&s->search);
	study_hash(s, hash);
	TRY(sql_change(store,
		       "INSERT INTO study (name, hash, made, objective, budget, search) VALUES "
		       "(?1, ?2, strftime('%Y-%m-%dT%H:%M:%SZ', 'now'), ?3, ?4, ?5) "
		       "ON CONFLICT (hash) DO UPDATE SET name = ?1, objective = ?3, budget = ?4",
		       "tttit", s->name, hash, s->objective, s->flags->budget, search));
	return sql_number(store, &s->id, "SELECT id FROM study WHERE hash = ?1", "t", hash);
}

/* store NULL: stores nothing. */
static char *put_trial(const struct study *s, struct store *store, const char *contestant,
		       const char *kind, int64_t number, const char *json, const char *hash)
{
	if (!store)
		return NULL;
	return sql_change(store,
			  "INSERT INTO trial (study_id, contestant, kind, number, options, "
			  "config_hash) VALUES (?, ?, ?, ?, ?, ?)",
			  "ittitt", s->id, contestant, kind, number, json, hash);
}

/* ---- Running ------------------------------------------------------------- */

/* The cells of all trials, or those that are reported, with seeds that no trial had. */
static char *make_trial_cells(const struct study *s, bool trials, struct store *store,
			      struct sweep *cells)
{
	enum { DEFAULT, TUNED, TRIAL };
	static const char *const names[] = {"default", "tuned", "trial"};
	for (size_t i = 0; i < s->file.cells; i++) {
		const struct contestant *c = &s->contestant[i];
		const int64_t seed = c->cell->config.run.seed;
		for (int64_t k = 1; k <= (trials ? s->flags->budget : s->flags->seeds); k++)
			for (int kind = trials ? TRIAL : DEFAULT; kind <= (trials ? TRIAL : TUNED);
			     kind++) {
				char hash[17], *json AUTOFREE = NULL;
				int64_t trial = trials ? k : kind == TUNED ? c->best : 0;
				if (kind == TUNED && trial == 0)
					continue;
				TRY(add_cell(s, c, trial, trials ? seed : seed + k, cells, &json,
					     hash));
				TRY(put_trial(s, store, c->name, names[kind], trials ? k : seed + k,
					      json, hash));
			}
	}
	return NULL;
}

/* Stores the trials, or the reported cells: replaces the earlier rows of this part. Keeps the other
 * part, which would be lost if the study is interrupted in between. */
static char *write_down(struct study *s, bool trials)
{
	struct store *store AUTOCLOSE = NULL;
	struct sweep cells ENDS_WITH(sweep_free) = {.cell = NULL};
	TRY(store_open_for(&store, &s->file.cell[0].config, STORE_WRITE));
	TRY(sql_begin(store));
	char *wrong = trials ? put_study(s, store) : NULL;
	if (!wrong)
		wrong = sql_change(
			store, "DELETE FROM trial WHERE study_id = ?1 AND (kind = 'trial') = ?2",
			"ii", s->id, (int64_t)trials);
	return sql_end(store, wrong ? wrong : make_trial_cells(s, trials, store, &cells));
}

/* Prints that no trial of this configuration can be chosen, and why. */
static char *print_unusable(const struct study *s, struct store *store, const struct contestant *c)
{
	int64_t failed;
	TRY(sql_number(store, &failed,
		       "SELECT count(*) FROM study_run WHERE study_id = ?1 AND contestant = ?2 AND "
		       "kind = 'trial' AND status = 'failed'",
		       "it", s->id, c->name));
	fprintf(stderr, "mvbench: %s: ", c->name);
	if (failed == 0)
		fprintf(stderr, "all %lld trials diverged; search smaller rates\n",
			(long long)s->flags->budget);
	else
		fprintf(stderr,
			"of %lld trials %lld failed and %lld diverged; mvbench table --runs "
			"--where=\"status='failed'\" prints the reasons\n",
			(long long)s->flags->budget, (long long)failed,
			(long long)(s->flags->budget - failed));
	return NULL;
}

/* Finds the best trial of each configuration. */
static char *tune_find_best(struct study *s, bool *all)
{
	struct store *store AUTOCLOSE = NULL;
	int64_t wanted = s->flags->budget * (int64_t)s->file.cells, ended = 0;
	*all = true;
	/* updates table run_kept */
	TRY(store_open_for(&store, &s->file.cell[0].config, STORE_CHANGE));
	TRY(sql_number(store, &ended,
		       "SELECT count(*) FROM study_run WHERE study_id = ?1 AND kind = 'trial'", "i",
		       s->id));
	if (ended < wanted)
		return sentence("%lld of %lld trials have not ended: another process runs them, or "
				"another file has replaced the database; give the same command "
				"again when they have",
				(long long)(wanted - ended), (long long)wanted);
	for (size_t i = 0; i < s->file.cells; i++) {
		struct contestant *c = &s->contestant[i];
		TRY(sql_number(store, &c->best,
			       "SELECT number FROM study_best WHERE study_id = ?1 AND contestant = "
			       "?2",
			       "it", s->id, c->name));
		if (c->best == 0)
			TRY(print_unusable(s, store, c));
		*all &= c->best > 0;
	}
	return NULL;
}

/* Makes the cells of one part of a study, plans, stores and runs them. */
static char *carry_out(struct study *s, bool trials, struct sweep *cells, int *status)
{
	struct sweep_flags f = s->flags->sweep;
	f.resume = true;
	f.order = "rounds";
	f.order_seed = s->flags->search_seed;
	TRY(make_trial_cells(s, trials, NULL, cells));
	TRY(sweep_plan(s->path, cells));
	if (!f.dry_run)
		TRY(write_down(s, trials));
	return sweep_carry_out(cells, &f, status);
}

static char *report(const struct study *s)
{
	struct store *store AUTOCLOSE = NULL;
	char *condition AUTOFREE = sentence("study_id = %lld", (long long)s->id);
	TRY(store_open(&store, s->db, STORE_READ));
	putchar('\n');
	return study_print(store, stdout, FORMAT_TEXT, condition, NULL);
}

static char *do_study(struct study *s, int *status)
{
	struct sweep trials ENDS_WITH(sweep_free) = {.blind = true};
	struct sweep results ENDS_WITH(sweep_free) = {.cell = NULL};
	bool all;
	TRY(check_different(s));
	TRY(carry_out(s, true, &trials, status));
	if (s->flags->sweep.dry_run || *status == EXIT_INTERRUPTED)
		return NULL;
	int of_trials = *status == EXIT_FAILED ? EXIT_FAILED : EXIT_OK; /* trials may diverge */
	*status = EXIT_FAILED;
	TRY(tune_find_best(s, &all));
	TRY(carry_out(s, false, &results, status));
	if (*status != EXIT_INTERRUPTED)
		TRY(report(s));
	if (*status == EXIT_OK)
		*status = all || of_trials == EXIT_FAILED ? of_trials : EXIT_DIVERGED;
	return NULL;
}

/* ---- Results -------------------------------------------------------------- */

static const struct column columns[] = {
	HIDDEN("study_id"),
	PLAIN("study"),
	PLAIN("workload"),
	SHOWN("contestant", "configuration", "contestant"),
	SHOWN("kind", "", "kind"),
	SHOWN("n", "n",
	      "n || CASE WHEN diverged AND failed THEN ' (' || diverged || ' diverged, ' || "
	      "failed || ' failed)' WHEN diverged THEN ' (' || diverged || ' diverged)' "
	      "WHEN failed THEN ' (' || failed || ' failed)' ELSE '' END"),
	HIDDEN("diverged"),
	HIDDEN("failed"),
	RARE("test_accuracy", "accuracy %",
	     FINITE("test_accuracy", PERCENT("test_accuracy"))
		     INTERVAL("test_accuracy", PERCENT, "coverage")),
	HIDDEN("test_accuracy_low"),
	HIDDEN("test_accuracy_high"),
	SHOWN("test_loss", "loss",
	      FINITE("test_loss", LOSS("test_loss")) INTERVAL("test_loss", LOSS, "coverage")),
	HIDDEN("test_loss_low"),
	HIDDEN("test_loss_high"),
	HIDDEN("coverage"),
	SHOWN("epoch_seconds", "epoch s", ROUND("%.4g", "epoch_seconds")),
	SHOWN("trials", "trials",
	      "trials || iif(trials_lost, ' (' || trials_lost || ' lost)', '')"),
	HIDDEN("trials_lost"),
	HIDDEN("trial"),
	HIDDEN("objective"),
	SHOWN("validation", "validation",
	      "CASE WHEN objective = 'accuracy' THEN " PERCENT("validation") " || ' %' ELSE " LOSS(
		      "validation") " END"),
	PLAIN("chosen"),
	PLAIN("edge"),
	{.name = NULL},
};

char *study_print(struct store *s, FILE *f, enum format format, const char *condition,
		  int64_t *rows)
{
	char *sql AUTOFREE = sentence(
		"CREATE TEMP VIEW tuned AS SELECT * FROM study_result WHERE %s", condition);
	int64_t edges = 0;
	TRY(sql_script(s, sql));
	TRY(columns_print(s, f, format, columns, "tuned", rows, NULL));
	TRY(sql_number(s, &edges, "SELECT count(edge) FROM tuned", ""));
	if (edges && for_people(format))
		note_put(f, format,
			 "\nedge: the best trial has the least or the greatest value of all that "
			 "were tried; a better one may lie beyond, so widen the range\n");
	return NULL;
}

/* ---- The command ---------------------------------------------------------- */

static char *tune(void *given, struct arguments *a, int *status)
{
	struct study s ENDS_WITH(study_fini) = {.flags = given};
	TRY(read_study(&s, a));
	return do_study(&s, status);
}

const struct command command_tune = {
	.name = "tune",
	.summary = "compare configurations that are tuned with equal budgets",
	.usage = "FILE.ini [--option=value ...]",
	.about = "Tunes every configuration of a job file with the same number of trials "
		 "(--budget), and compares the best ones. A section [search] has the options that "
		 "are searched, and their ranges: lr = 0.001..0.3 log, sync-every = 1..64 log, "
		 "periodic.outer-momentum = 0..0.9, reduce = mean, sum. A configuration uses "
		 "those that are options of it; its other options come from the file, which may "
		 "have lists as for mvbench sweep. Options of mvbench run replace the file's.\n\n"
		 "The best is chosen on rows of the training set that are held out (--validation; "
		 "default: 5,000, but at most a tenth), never on the test set. A "
		 "trial that diverges is the worst. The best trial and the untuned configuration "
		 "are run again with --seeds seeds that no trial had; only those runs are "
		 "reported, here and by mvbench table --tuned. Figures sensitivity and best_of_k "
		 "show the trials.\n\n"
		 "Recorded runs are not repeated: after an interrupt the same command resumes, "
		 "and a greater --budget adds trials. With --platform=sim, "
		 "--jobs runs several at a time on as many cores.\n\n"
		 "Exit status: 0 done, 1 some runs failed, 2 refused, 3 reported runs "
		 "diverged, or all trials of a configuration did, 130 interrupted.",
	.options = options,
	.words = job_files_each,
	.size = sizeof(OWNER),
	.run_options = true,
	.run = tune,
	.interrupted = GOES_ON,
};
