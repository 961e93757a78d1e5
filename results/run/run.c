/*
 * run.c - mvbench run: one experiment, from the command line to its row in the database.
 *
 * The program has two roles here. The front process checks everything, launches the workers,
 * watches them and reports the result. Under a launcher the program is a worker: it trains, and
 * rank 0 records.
 */
#include "results/run/run.h"
#include "runtime/config/checkpoint.h"
#include "runtime/config/config.h"
#include "runtime/config/plugins.h"
#include "runtime/train/train.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct run_flags {
	bool dry_run;
	const char *format;
};

#define OWNER struct run_flags
static const struct option run_flags[] = {
	OPTION(dry_run, BOOL, "dry-run", "false",
	       "check and print the configuration, train nothing"),
	OPTION(format, CHOICE, "format", "text", "output format", .choices = "text|json"),
	{0},
};

/* ---- The worker process -------------------------------------------------- */

static void say_device(const struct plan *p)
{
	const struct footprint *f = &p->footprint;
	if (p->passed_over)
		fprintf(stderr, "mvbench: computing on the cpu: %s\n", p->passed_over);
	if (p->facts.free_bytes)
		fprintf(stderr,
			"mvbench: %s: a worker takes %.1f MB for parameters, %.1f for activations, "
			"%.1f for the data set, and up to %.0f MB of workspace\n",
			p->facts.model, 1e-6 * (double)f->parameters, 1e-6 * (double)f->activations,
			1e-6 * (double)f->data, 1e-6 * (double)f->workspace);
}

static void say_servers(const struct config *c)
{
	if (c->servers_chosen)
		fprintf(stderr,
			"mvbench: %lld machines: the tables of %s are on one server per "
			"machine; --table-home=onesided leaves them with the workers, which then "
			"are all as slow as the slowest\n",
			(long long)c->run.servers, c->run.strategy);
}

static void say_interval(const struct config *c)
{
	if (c->interval_ignored && rank_of_launcher() <= 0)
		fprintf(stderr,
			"mvbench: --sync-every=%lld has no effect: %s has no interval; the run is "
			"recorded without it\n",
			(long long)c->interval_ignored, c->run.strategy);
}

static void say_oversubscribed(const struct config *c, const struct plan *p)
{
	char servers[40] = "";
	if (c->run.servers)
		snprintf(servers, sizeof servers, " and %lld server%s", (long long)c->run.servers,
			 plural(c->run.servers));
	if (p->oversubscribed && p->share_gpus)
		fprintf(stderr, "mvbench: oversubscribed: %lld workers share %d GPU%s%s\n",
			(long long)c->run.workers, p->facts.count, plural(p->facts.count),
			p->facts.mps ? " under MPS"
				     : " in turns, which changes times and staleness: start "
				       "NVIDIA's MPS (nvidia-cuda-mps-control -d)");
	if (p->oversubscribed && c->run.workers * c->run.threads + c->run.servers > p->cores)
		fprintf(stderr,
			"mvbench: oversubscribed: %lld worker%s%s share %d core%s, so their times "
			"are not reliable\n",
			(long long)c->run.workers, plural(c->run.workers), servers, p->cores,
			plural(p->cores));
}

/* No front process watches: prints one line per epoch. */
static void say_epoch(void *config, const struct epoch_row *row)
{
	const struct config *c = config;
	progress_epoch(stderr, row, c->run.epochs);
}

/* Under the user's own launcher no front process prints the result. */
static void print_stored_result(const struct config *c, struct store *s, int status,
				enum format format)
{
	char *why = NULL;
	complain_if(sql_first(s, &why, "SELECT status || ': ' || reason FROM run WHERE id = ?1",
			      "i", s->begun));
	if (why)
		complain(why);
	if (format == FORMAT_JSON)
		complain_if(query_run_json(s, stdout, s->begun));
	else
		printf("run %lld: %s, %s, %lld workers: %s; see it with: mvbench table --runs "
		       "--db=%s\n",
		       (long long)s->begun, c->run.workload, c->run.strategy,
		       (long long)c->run.workers, outcome_word(status), c->harness.db);
}

/* NULL or a sentence. */
static char *prepare(const struct config *c, struct plan *plan, struct simulation *simulation)
{
	TRY(plan_make(c, plan));
	if (!world_is_virtual)
		return NULL;
	TRY(simulation_find(c, plan, simulation));
	TRY(replay_load(c, &simulation->replay));
	plan->simulation = simulation;
	return NULL;
}

/* The simulator: can these workers start on their platform? */
static char *try_start(const struct config *c, int *status)
{
	struct plan plan;
	struct simulation simulation ENDS_WITH(simulation_fini) = {.platform_file = NULL};
	TRY(prepare(c, &plan, &simulation));
	*status = train_try(c, &plan);
	return NULL;
}

int worker_train(const struct config *c, const struct sink *sink, struct status_page *page)
{
	struct plan plan;
	struct simulation simulation ENDS_WITH(simulation_fini) = {.platform_file = NULL};
	worker_introduce(c, page);
	char *wrong = prepare(c, &plan, &simulation);
	if (wrong)
		return command_refuse(wrong);
	if (world_is_virtual)
		panic_to(page->reason, sizeof page->reason);
	if (!page)
		say_interval(c);
	if (!page && rank_of_launcher() <= 0 && !launched_on_several_hosts())
		say_oversubscribed(c, &plan);
	int status = train(c, &plan, sink, page);
	/* Only rank 0 fails, because the user's launcher kills all ranks at the first failure,
	 * possibly before rank 0 has printed the reason. */
	return page || rank_of_launcher() > 0 ? EXIT_OK : status;
}

/* Marks a last checkpoint whose run is done, but was killed before it could mark it. What is wrong
 * with the files is reported when they are used. */
static char *end_checkpoint(const struct config *c)
{
	struct store *s AUTOCLOSE = NULL;
	struct checkpoint_head head;
	int64_t done = 0;
	char *path AUTOFREE = checkpoint_path(c);
	if (!path || access(path, F_OK) != 0 || access(c->harness.db, F_OK) != 0)
		return NULL;
	char *wrong AUTOFREE = checkpoint_read_head("save", path, &head);
	if (wrong || head.ended || head.epoch < head.epochs ||
	    (wrong = store_open(&s, c->harness.db, STORE_READ)))
		return NULL;
	TRY(sql_number(s, &done,
		       "SELECT count(*) FROM run WHERE checkpoint = ?1 AND status = 'done'", "t",
		       head.run));
	return done ? checkpoint_mark_ended(path) : NULL;
}

static int train_and_record(const struct config *c, struct status_page *page, enum format format)
{
	struct store *store AUTOCLOSE = NULL;
	char *wrong = store_open_for(&store, c, STORE_LATER); /* rank 0 opens it later */
	CHECK(!wrong, "%s", wrong);
	store->page = page;
	store->on_epoch = page ? NULL : say_epoch;
	store->on_epoch_ctx = (void *)(uintptr_t)c;
	struct sink sink = store_sink(store);
	if (!page && rank_of_launcher() <= 0)
		complain_if(end_checkpoint(c));
	int status = worker_train(c, &sink, page);
	if (!page && store->begun)
		print_stored_result(c, store, status, format);
	return status;
}

static int work_in_child(void *ctx, struct status_page *page)
{
	return train_and_record(ctx, page, FORMAT_TEXT);
}

/* ---- The front process --------------------------------------------------- */

/* If the database was moved, the worker has reported it, and another file may be in its place. */
char *run_mark_failed(const struct config *c, int64_t id, const struct status_page *page,
		      const char *why)
{
	struct store *s AUTOCLOSE = NULL;
	struct stat st;
	if (stat(c->harness.db, &st) != 0 ||
	    (page && page->file && page->file != (int64_t)st.st_ino))
		return NULL;
	TRY(store_open_for(&s, c, STORE_CHANGE));
	return store_fail(s, id, page ? page->owner : NULL, why);
}

void run_cell(const struct config *c, struct progress *p, struct outcome *o)
{
	static const char *const words[] = {"run", NULL};
	struct watcher watcher = {.self = p, .tick = progress_tick};
	*o = (struct outcome){.status = EXIT_FAILED};
	quiet_wait(c);
	complain_if(end_checkpoint(c));
	progress_start(p);
	o->status =
		launch(c, words, work_in_child, (void *)(uintptr_t)c, &watcher, &o->page, &o->why);
	progress_end(p);
	if (o->why)
		text_disarm(o->why);
	o->id = o->page ? o->page->id : 0;
	bool ended = o->status == EXIT_OK || o->status == EXIT_DIVERGED, equal = false;
	if (o->id && !ended) {
		complain_if(run_mark_failed(c, o->id, o->page, o->why));
	} else if (o->id && c->run.sim_replay) {
		complain_if(replay_compare(c, o->id, &equal, &o->replayed));
		o->differs = !equal;
	}
}

void outcome_fini(struct outcome *o)
{
	status_free(o->page);
	free(o->why);
	free(o->replayed);
	*o = (struct outcome){.page = NULL};
}

const char *outcome_word(int status)
{
	return status == EXIT_OK            ? "done"
	       : status == EXIT_DIVERGED    ? "diverged"
	       : status == EXIT_INTERRUPTED ? INTERRUPTED
	       : status == EXIT_USER        ? REFUSED
					    : "failed";
}

double page_seconds(const struct status_page *page)
{
	return page ? page->sum.seconds : 0;
}

static void print_cost(const struct status_page *page)
{
	const struct world_cost *c = &page->cost;
	if (page->simulated)
		printf("simulated %.4g s in %.3g s of wall time, %.3g events a second\n",
		       c->simulated_s, c->wall_s, (double)c->events / fmax(c->wall_s, 1e-9));
}

/* What follows these words in their line of page->described; NULL: there is none. Heap. */
static char *described(const struct status_page *page, const char *words)
{
	const char *at = strstr(page->described, words), *from = at ? at + strlen(words) : NULL;
	return from ? sentence("%.*s", (int)strcspn(from, "\n"), from) : NULL;
}

/* best: best_test_accuracy of view run_summary. The page lacks epochs before a resumption. */
static void print_run_result(const struct config *c, const struct outcome *o, double best)
{
	const struct status_page *page = o->page;
	char *places AUTOFREE = described(page, WORKERS_WHERE),
		     *factors AUTOFREE = platform_is_file(c->run.sim_platform)
						 ? described(page, MESSAGE_FACTORS)
						 : NULL;
	printf("run %lld: %s, %s, %lld worker%s%s%s%s: ", (long long)o->id, c->run.workload,
	       c->run.strategy, (long long)c->run.workers, plural(c->run.workers),
	       places ? " (" : "", places ? places : "", places ? ")" : "");
	if (o->status == EXIT_OK && page->rows > 0) {
		const struct epoch_row *last = page_row(page, page->rows - 1);
		if (!isnan(last->on[ON_TEST].accuracy))
			printf("test accuracy %.2f %%", 100 * last->on[ON_TEST].accuracy);
		if (!isnan(best))
			printf(" (best %.2f %%)", 100 * best);
		if (!isnan(last->on[ON_TEST].accuracy))
			fputs(", ", stdout);
		if (!isnan(last->on[ON_TEST].loss))
			printf("test loss %.4f after ", last->on[ON_TEST].loss);
		printf("%lld epoch%s%s in %.3f s%s\n", (long long)last->epoch, plural(last->epoch),
		       page->sum.first > 0 ? ", those since it resumed" : "", page_seconds(page),
		       page->simulated ? " of virtual time" : "");
		print_cost(page);
		if (factors)
			printf("factors of messages: %s\n", factors);
	} else {
		printf("%s\n", outcome_word(o->status));
	}
}

static char *find_best(const struct config *c, int64_t id, double *best)
{
	struct store *s AUTOCLOSE = NULL;
	TRY(store_open(&s, c->harness.db, STORE_READ));
	return sql_reals(s, best, 1, "SELECT best_test_accuracy FROM run_figures WHERE run_id = ?1",
			 "i", id);
}

static char *print_json(const struct config *c, int64_t id)
{
	struct store *s AUTOCLOSE = NULL;
	TRY(store_open(&s, c->harness.db, STORE_READ));
	return query_run_json(s, stdout, id);
}

/* With static assignment, the rows of pushes that came too late for their round. */
static char *say_lost_rows(const struct config *c, const struct outcome *o)
{
	struct store *s AUTOCLOSE = NULL;
	int64_t lost = 0;
	if (o->page->sum.dropped == 0)
		return NULL;
	TRY(store_open(&s, c->harness.db, STORE_READ));
	TRY(sql_number(s, &lost,
		       "SELECT CAST(round(sum(value * reports)) AS INTEGER) FROM epoch_value WHERE "
		       "run_id = ?1 AND name = ?2",
		       "it", o->id, ROWS_LOST));
	if (lost > 0)
		fprintf(stderr,
			"mvbench: %lld rows were not trained on, because their pushes came too "
			"late for their round; with --deal=dynamic they are trained on again\n",
			(long long)lost);
	return NULL;
}

void outcome_print(const struct config *c, const struct outcome *o, enum format format)
{
	if (o->why && o->status != EXIT_INTERRUPTED) /* the command says that */
		fprintf(stderr, "mvbench: %s\n", o->why);
	if (o->id == 0)
		return;
	double share = page_cores_share(c, o->page);
	if (share < CORES_SHARE_LEAST)
		fprintf(stderr,
			"mvbench: a worker had only %.0f %% of its core, because other processes "
			"used it, so the times are not reliable; --quiet-wait=60s waits until the "
			"cores are idle\n",
			100 * share);
	complain_if(say_lost_rows(c, o));
	if (format != FORMAT_JSON) {
		double best = NAN;
		complain_if(find_best(c, o->id, &best));
		print_run_result(c, o, best);
		if (o->replayed)
			puts(o->replayed);
		return;
	}
	if (o->replayed)
		fprintf(stderr, "mvbench: %s\n", o->replayed);
	complain_if(print_json(c, o->id));
}

/* Workers check again, because under the user's own launcher no front process does. */
static char *check_checkpoints(const struct config *c, const struct plan *plan)
{
	struct checkpoint *initial, *resumed;
	TRY(checkpoint_find(c, plan, &initial, &resumed));
	if (resumed)
		fprintf(stderr, "mvbench: --save=%s: resumes after epoch %lld of %lld\n",
			c->harness.save, (long long)resumed->head.epoch,
			(long long)resumed->head.epochs);
	checkpoint_free(initial);
	checkpoint_free(resumed);
	return NULL;
}

char *run_plan(const struct config *c, struct plan *plan, bool starts)
{
	TRY(plan_make(c, plan));
	TRY(store_check(c->harness.db));
	TRY(check_checkpoints(c, plan));
	return starts ? simulation_inputs(c, plan) : simulation_check(c, plan);
}

/* ---- --help and --dry-run ------------------------------------------------ */

static void plugin_help(FILE *f, const char *part, const struct plugin *p,
			const struct setting *recipe)
{
	if (!p->options && !(recipe && recipe->name))
		return;
	char *head AUTOFREE = sentence("%s %s: %s", part, p->name, p->summary);
	char *own AUTOFREE = recipe_words(recipe);
	fputc('\n', f);
	text_wrap(f, head, 0);
	if (*own) {
		fputs("  its own defaults: ", f);
		text_wrap(f, own, 20);
	}
	help_rows(&(struct help){.f = f}, p->name, p->options);
}

static void core_help(FILE *f, bool all)
{
	char *left, *right;
	fprintf(f, "the experiment%s\n", all ? "" : ": the options that are used most");
	for (const struct option *o = run_options; o->name; o++) {
		if (!all && !o->core.common)
			continue;
		option_words(o, NULL, &left, &right);
		help_row(&(struct help){.f = f}, left, right);
		free(left);
		free(right);
	}
}

/* The core options that are used most, and those of the named plug-ins; all: of all. */
static void experiment_help(FILE *f, const struct plugin *const named[PART_COUNT], bool all)
{
	const struct plugin *p;
	core_help(f, all);
	for (enum part k = 0; k < PART_COUNT; k++)
		for (size_t i = 0; (p = plugin_at(k, i)); i++)
			if (named[k] == p || (all && !named[k]))
				plugin_help(f, part_names[k], p,
					    k == PART_WORKLOAD
						    ? ((const struct workload *)p)->recipe
						    : NULL);
}

/* Help for the plug-ins named next to --help, otherwise for all. */
static char *run_more_help(FILE *f, const struct arguments *given)
{
	const struct plugin *named[PART_COUNT] = {NULL};
	for (enum part k = 0; k < PART_COUNT; k++) {
		const char *typed = given ? arguments_value(given, part_names[k]) : NULL;
		if (typed)
			TRY(plugin_choose(k, typed, NULL, 0, &named[k]));
	}
	bool all = given && given->help_all;
	experiment_help(f, named, all);
	if (!all) {
		fputc('\n', f);
		text_wrap(f,
			  "mvbench run --help=all shows all options, also those of strategies, "
			  "workloads, optimisers and codecs; --help --strategy=NAME shows those of "
			  "one; mvbench help NAME explains an option or a strategy.",
			  0);
	}
	return NULL;
}

static void show_text(const struct config *c, const struct plan *p)
{
	for (struct config_option at = {.config = c}; config_next(&at);) {
		char *name AUTOFREE = option_full_name(at.owner, at.option);
		printf("%-24s %s\n", name, at.value);
	}
	printf("%-24s %lld\n", "parameters", (long long)p->params);
	printf("%-24s %zu, %zu values each\n", "rows to train on", p->train.n, p->train.features);
	if (p->validation.n)
		printf("%-24s %zu\n", "rows held out", p->validation.n);
	printf("%-24s %zu\n", "rows to test on", p->test.n);
	printf("%-24s %lld\n", "steps of an epoch", (long long)p->steps);
	printf("%-24s %s\n", "device used", p->device);
	if (p->facts.free_bytes) {
		printf("%-24s %s, %.1f of %.1f GB free\n", "", p->facts.model,
		       1e-9 * (double)p->facts.free_bytes, 1e-9 * (double)p->facts.total_bytes);
		printf("%-24s parameters %.1f, activations %.1f, data %.1f, workspace up to %.0f "
		       "MB a worker\n",
		       "its memory", 1e-6 * (double)p->footprint.parameters,
		       1e-6 * (double)p->footprint.activations, 1e-6 * (double)p->footprint.data,
		       1e-6 * (double)p->footprint.workspace);
	}
	printf("%-24s %d%s\n", "cores", p->cores, p->oversubscribed ? ", oversubscribed" : "");
}

static void show_json_table(const char *name, const struct option *table, const void *fields)
{
	const char *comma = "";
	if (name)
		printf(", \"%s\": {", name);
	for (const struct option *o = table; o && o->name; o++) {
		char column[COLUMN_ROOM];
		printf("%s\"%s\": ", comma, option_column(o, column));
		option_json(stdout, o, fields);
		comma = ", ";
	}
	if (name)
		putchar('}');
}

static void show_json(const struct config *c, const struct plan *p)
{
	char hash[17];
	config_hash(c, hash);
	putchar('{');
	show_json_table(NULL, run_options, c);
	show_json_table("strategy_options", c->strategy->plugin.options, c->strategy_opts);
	show_json_table("workload_options", c->workload->plugin.options, c->workload_opts);
	show_json_table("optimizer_options", c->optimizer->plugin.options, c->optimizer_opts);
	show_json_table("codec_options", c->codec->plugin.options, c->codec_opts);
	printf(", \"config_hash\": \"%s\", \"params\": %lld, \"train_size\": %zu, \"test_size\": "
	       "%zu, "
	       "\"steps\": %lld, \"device_used\": \"%s\", \"cores\": %d, \"oversubscribed\": %s}\n",
	       hash, (long long)p->params, p->train.n, p->test.n, (long long)p->steps, p->device,
	       p->cores, p->oversubscribed ? "true" : "false");
}

/* ---- The command --------------------------------------------------------- */

int run_and_print(const struct config *c, const struct plan *plan, enum format format, int64_t *id)
{
	struct progress progress = {.lines = true};
	struct outcome outcome ENDS_WITH(outcome_fini) = {.page = NULL};
	say_device(plan);
	say_servers(c);
	say_oversubscribed(c, plan);
	run_cell(c, &progress, &outcome);
	outcome_print(c, &outcome, format);
	*id = outcome.id;
	return outcome.differs ? EXIT_FAILED : outcome.status;
}

static char *run_one(const struct config *c, const struct run_flags *flags, enum format format,
		     int *status)
{
	struct plan plan;
	int64_t id;
	if (!flags->dry_run)
		TRY(end_checkpoint(c)); /* here too, because the plan reads the checkpoint */
	TRY(run_plan(c, &plan, !flags->dry_run));
	say_interval(c);
	if (flags->dry_run && rank_of_launcher() <= 0) {
		if (format == FORMAT_JSON)
			show_json(c, &plan);
		else
			show_text(c, &plan);
	}
	if (!flags->dry_run)
		*status = run_and_print(c, &plan, format, &id);
	return NULL;
}

/* NULL, or a sentence: one process simulates all workers, and only mvbench starts it. */
static char *wrong_world(const struct config *c, const struct status_page *page, bool worker,
			 bool dry_run)
{
	bool sim = is_simulated(c);
	const char *tasks = getenv("SLURM_STEP_NUM_TASKS");
	if (!page && tasks && atoi(tasks) > 1 && !platform_under_launcher())
		return sentence("srun started %s processes that are not connected, because it "
				"uses no PMI here; give srun --mpi=pmix",
				tasks);
	if (world_is_virtual && !(sim && (page || dry_run)))
		return sentence("this is the simulator, which mvbench starts: run mvbench with "
				"--platform=sim");
	if (sim && worker && !world_is_virtual)
		return sentence("--platform=sim: one process simulates all workers; run mvbench "
				"without a launcher");
	return NULL;
}

static char *configure(struct config *c, const struct arguments *a)
{
	struct settings all ENDS_WITH(settings_free) = {.setting = NULL};
	TRY(settings_check(a->option, a->options));
	TRY(replay_settings(&all, a->option, a->options));
	return config_init(c, all.setting, all.n, false);
}

static char *command(void *options, struct arguments *a, int *status)
{
	const struct run_flags *flags = options;
	struct config config AUTOCONFIG = {0};
	struct status_page *page AUTOPAGE = status_of_launcher();
	bool worker = (page || platform_under_launcher()) && !flags->dry_run;
	enum format format = format_of(flags->format);
	TRY(configure(&config, a));
	TRY(wrong_world(&config, page, worker, flags->dry_run));
	if (!worker)
		return world_is_virtual ? try_start(&config, status)
					: run_one(&config, flags, format, status);
	*status = train_and_record(&config, page, format);
	return NULL;
}

const struct command command_run = {
	.name = "run",
	.summary = "train one configuration, and record it",
	.usage = "[--option=value ...]",
	.about = "Trains one configuration and records it in the results database.\n\n"
		 "A strategy, workload, optimizer or codec may be your own file, as in "
		 "--strategy=./mine.c: it is compiled when it has changed, and recorded with the "
		 "sha256 of its source. strategies/PLUGINS.md has an example of each.\n\n"
		 "Exit status: 0 done, 1 failed, 2 refused, 3 diverged, 130 "
		 "interrupted.",
	.options = run_flags,
	.size = sizeof(OWNER),
	.run_options = true,
	.example = "--workload=mlp",
	.run = command,
	.more = run_more_help,
	.interrupted = "with --save the same command continues, otherwise it starts again",
};
