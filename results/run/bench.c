/*
 * bench.c - mvbench bench: times communication on this machine, independent of any training.
 *
 * The front process checks, launches and watches, as in mvbench run. Under a launcher the program
 * is a worker: it trains one step of the smallest workload, which sets up devices and servers, and
 * then measures (bench_comm.c). Rank 0 prints.
 */
#include "results/run/bench.h"
#include "runtime/comm/comm.h"
#include "runtime/config/config.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define OWNER struct bench_flags
static const struct option bench_flags[] = {
	OPTION(min, SIZE, "min", "8B", "smallest size [bytes]", .min = 4, .max = 1 << 30),
	OPTION(max, SIZE, "max", "64MiB", "largest size [bytes]", .min = 4, .max = 1 << 30),
	OPTION(factor, INT, "factor", "2", "ratio of each size to the one before [factor]",
	       .min = 2, .max = 1 << 20),
	OPTION(iterations, INT, "iterations", "20",
	       "calls in a timing; fewer if they would take longer than 0.1 s together [calls]",
	       .min = 1, .max = 1e6),
	OPTION(repetitions, INT, "repetitions", "5",
	       "repetitions of the whole measurement; the table shows medians [repetitions]",
	       .min = 1, .max = 999),
	OPTION(format, CHOICE, "format", "text", "output format",
	       .choices = "text|markdown|csv|json"),
	{0},
};

/* ---- The table ----------------------------------------------------------- */

TEXT_FILE(bench_sql, "results/run/bench.sql");

static char *insert(struct store *s, const struct bench_rows *rows)
{
	struct sql q = sql_select(
		s, "INSERT INTO measured VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)", "");
	for (size_t i = 0; i < rows->n; i++) {
		const struct bench_row *r = &rows->row[i];
		sql_again(&q, "iittiirir", (int64_t)r->way, r->repetition, r->operation,
			  r->transport, r->bytes, r->count, r->bus, r->wrong, r->seconds);
		sql_next(&q);
	}
	return sql_done(&q);
}

char *bench_print(const struct bench_rows *rows, enum format format)
{
	struct store *s AUTOCLOSE = sql_schema();
	bool people = format == FORMAT_TEXT || format == FORMAT_MARKDOWN;
	TRY(sql_script(s, bench_sql));
	TRY(insert(s, rows));
	TRY(query_print(s, stdout, format, people ? "SELECT * FROM shown" : "SELECT * FROM bench",
			NULL, 0, NULL));
	return fflush(stdout) ? sentence("standard output cannot be written (%m)") : NULL;
}

/* ---- The worker process -------------------------------------------------- */

struct benching {
	const struct config *config;
	const struct bench_flags *flags;
	char *wrong; /* rank 0's */
};

static char *print_device(void *self, const struct experiment *e, int64_t *id)
{
	const struct benching *b = self;
	const struct run *run = &b->config->run;
	(void)id;
	fprintf(stderr, "mvbench: %lld worker%s", (long long)run->workers, plural(run->workers));
	if (run->servers)
		fprintf(stderr, " and %lld server%s", (long long)run->servers,
			plural(run->servers));
	fprintf(stderr, " on %s, vectors on the %s, %s\n",
		e->cluster ? e->cluster->names : "this machine", e->plan->device,
		platform_version());
	return NULL;
}

static char *print_and_check(const struct bench_rows *rows, enum format format)
{
	int64_t wrong = 0;
	TRY(bench_print(rows, format));
	for (size_t i = 0; i < rows->n; i++)
		wrong += rows->row[i].wrong;
	return wrong ? sentence("%lld elements arrived wrong, see column wrong: do not use these "
				"figures",
				(long long)wrong)
		     : NULL;
}

static void measure(void *self, struct worker *w, const float *step_s, size_t n)
{
	struct benching *b = self;
	(void)step_s, (void)n;
	struct bench_rows rows = {.n = 0};
	bench_comm(w, b->flags, b->config->harness.transport, &rows);
	if (w->rank == 0)
		b->wrong = print_and_check(&rows, format_of(b->flags->format));
	free(rows.row);
}

static char *end(void *self, const char *status, const char *reason, const struct closing *c)
{
	struct benching *b = self;
	(void)status, (void)c;
	return reason ? sentence("%s", reason) : b->wrong;
}

static int work(const struct config *c, const struct bench_flags *f, struct status_page *page)
{
	struct benching b = {.config = c, .flags = f};
	const struct sink sink = {.self = &b, .begin = print_device, .model = measure, .end = end};
	return worker_train(c, &sink, page);
}

/* ---- The front process --------------------------------------------------- */

/* Of the options of mvbench run, bench takes those that choose workers, devices and transport. */
static char *refuse_others(const struct arguments *a)
{
	static const char *const takes[] = {"workers",       "servers",   "device",   "transport",
					    "hostfile",      "placement", "lab.rate", "threads",
					    "stall-timeout", "quiet-wait"};
	enum { TAKES = sizeof takes / sizeof *takes };
	TRY(settings_check(a->option, a->options));
	for (size_t i = 0; i < a->options; i++) {
		size_t k = 0;
		while (k < TAKES && strcmp(takes[k], a->option[i].name) != 0)
			k++;
		if (k < TAKES)
			continue;
		char *list AUTOFREE = text_list(takes, TAKES, ", --");
		return sentence(
			"--%s: bench trains nothing; of the options of mvbench run it takes only "
			"--%s",
			a->option[i].name, list);
	}
	return NULL;
}

/* One step of a perceptron on synthetic data; with servers, a strategy that uses tables. */
static char *bench_configure(struct config *c, const struct arguments *a)
{
	const char *given = arguments_value(a, "workers"), *servers = arguments_value(a, "servers");
	long workers = given ? strtol(given, NULL, 10) : 2;
	bool serves = servers && strtol(servers, NULL, 10) > 0;
	char *rows AUTOFREE = sentence("%ld", workers > 0 ? workers : 1);
	const struct setting own[] = {{"workload", "perceptron"},
				      {"strategy", serves ? "asgd" : "allreduce"},
				      {"workers", "2"},
				      {"epochs", "1"},
				      {"batch", "1"},
				      {"train-rows", rows},
				      {"deal", "static"},
				      {"lr", "1e-6"}};
	struct settings all ENDS_WITH(settings_free) = {.setting = NULL};
	TRY(refuse_others(a));
	settings_give(&all, own, sizeof own / sizeof *own);
	settings_give(&all, a->option, a->options);
	return config_init(c, all.setting, all.n, false);
}

/* A process needs two vectors, one more on the host, and its share of tables and messages: about
 * VECTORS vectors. */
static char *bench_check_memory(const struct config *c, const struct bench_flags *f)
{
	enum { VECTORS = 6 };
	int ranks = (int)(c->run.workers + c->run.servers);
	double need = (double)VECTORS * ranks * (double)f->max;
	size_t room;
	if (*c->harness.hostfile)
		return NULL;
	TRY(host_room(ranks, &room));
	if (need <= (double)room)
		return NULL;
	return sentence("--max=%lld: %d processes would take %.1f GB for it, and %.1f GB are free; "
			"give a smaller size",
			(long long)f->max, ranks, 1e-9 * need, 1e-9 * (double)room);
}

static char *bench_check(const struct config *c, const struct bench_flags *f)
{
	struct plan plan;
	if (f->max < f->min)
		return sentence("--max=%lld: it is below --min=%lld", (long long)f->max,
				(long long)f->min);
	if (c->run.workers + c->run.servers == 1)
		return sentence("--workers=1: one worker has no peer; give --workers=2 "
				"or more, or --servers=1");
	TRY(plan_make(c, &plan));
	TRY(bench_check_memory(c, f));
	if (plan.oversubscribed)
		fprintf(stderr,
			"mvbench: oversubscribed: more processes than the %d core%s of this "
			"machine, so these times include waiting for a core\n",
			plan.cores, plural(plan.cores));
	return NULL;
}

/* The command line of a worker, without its configuration. For free_words. */
static char **worker_words(const struct bench_flags *f)
{
	char **word = NULL, value[64];
	size_t n = 0;
	APPEND(word, n, must(strdup("bench")));
	APPEND(word, n, must(strdup("comm")));
	for (const struct option *o = bench_flags; o->name; o++) {
		option_text(o, f, value, sizeof value);
		APPEND(word, n, sentence("--%s=%s", o->name, value));
	}
	APPEND(word, n, NULL);
	return word;
}

/* Holds what workers print in memory, because mpirun does not report a failed write. */
static int stdout_hold(void)
{
	fflush(stdout);
	int own = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0), held = memfd_create("table", 0);
	CHECK(own >= 0 && held >= 0 && dup2(held, STDOUT_FILENO) >= 0, "stdout: %m");
	close(held);
	return own;
}

/* Restores stdout and writes the held text to it. */
static void stdout_release(int own)
{
	char part[4096];
	int held = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);
	CHECK(held >= 0 && dup2(own, STDOUT_FILENO) >= 0, "stdout: %m");
	close(own);
	lseek(held, 0, SEEK_SET);
	for (ssize_t n; (n = read(held, part, sizeof part)) > 0;)
		fwrite(part, 1, (size_t)n, stdout);
	close(held);
}

static char *bench(const struct config *c, const struct bench_flags *f, int *status)
{
	struct status_page *page AUTOPAGE = NULL;
	char *why = NULL, **words AUTOWORDS = worker_words(f);
	TRY(bench_check(c, f));
	quiet_wait(c);
	int own = stdout_hold();
	*status = launch(c, (const char *const *)words, NULL, NULL, NULL, &page, &why);
	stdout_release(own);
	if (*status == EXIT_INTERRUPTED) /* the command says that */
		free(why);
	else
		complain_if(why);
	return NULL;
}

static char *run_bench(void *options, struct arguments *a, int *status)
{
	struct config c AUTOCONFIG = {0};
	struct status_page *page AUTOPAGE = status_of_launcher();
	if (a->words != 1 || strcmp(a->word[0], "comm") != 0)
		return sentence("bench%s%s: unknown measurement; use mvbench bench comm",
				a->words ? " " : "", a->words ? a->word[a->words - 1] : "");
	TRY(page ? config_init(&c, a->option, a->options, true) : bench_configure(&c, a));
	if (!page && !platform_under_launcher())
		return bench(&c, options, status);
	*status = work(&c, options, page);
	return NULL;
}

const struct command command_bench = {
	.name = "bench",
	.summary = "measure the time of communication, by size",
	.usage = "comm [--option=value ...]",
	.about = "Measures allreduce, allgather, broadcast, sendrecv and push_pull (a push onto a "
		 "parameter server's table and a pull of it) for sizes from --min to --max, with "
		 "every transport and placement that these workers can have, as nccl-tests does: "
		 "the time of a call, algorithm and bus bandwidth, and how many elements arrived "
		 "wrong. Host vectors go by MPI.\n\n"
		 "Of the options of mvbench run it takes only these, which choose processes and "
		 "transport: --workers (default here: 2), --servers, --device, --transport, "
		 "--threads, --hostfile, --placement, --lab.rate, --stall-timeout and "
		 "--quiet-wait.\n\n"
		 "Stdout gets only the table. Exit status: 0 done, 1 elements were wrong or a "
		 "worker failed, 2 refused, 130 interrupted.",
	.options = bench_flags,
	.size = sizeof(OWNER),
	.run_options = true,
	.run = run_bench,
	.interrupted = STARTS_AGAIN,
};
