/*
 * sweep.c - mvbench sweep: the cross product of a job file, cell by cell.
 *
 * The hash of its configuration identifies a cell. All rows are made (pending) before the first
 * cell starts: an interrupted sweep shows what is left, and the next one resumes there.
 */
#include "results/run/cells.h"
#include "runtime/config/machine.h"

#include <errno.h>
#include <signal.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { OF_ANOTHER = 100 }; /* next to the exit statuses: another sweep runs, or has run, the cell */
/* The end of a cell wakes the sweep (SIGCHLD). It also polls every TICK_MS, in case a signal is
 * lost. */
enum { TICK_MS = 50 };

/* ---- Finding the file ---------------------------------------------------- */

struct known {
	void (*each)(void *ctx, const struct word *w);
	void *ctx;
};

static void put_known(void *ctx, const char *name, const char *path)
{
	const struct known *k = ctx;
	k->each(k->ctx, &(struct word){"job file", name, "", "", path});
}

void job_files_each(void (*each)(void *ctx, const struct word *w), void *ctx)
{
	installed_each("workloads/sweeps", ".ini", put_known, &(struct known){each, ctx});
}

struct job_names {
	char **name; /* ends at NULL */
	size_t n;
};

static void keep_name(void *ctx, const struct word *w)
{
	struct job_names *l = ctx;
	APPEND(l->name, l->n, must(strdup(w->name)));
}

static char *no_such_file(const char *name)
{
	struct job_names l = {.n = 0};
	job_files_each(keep_name, &l);
	APPEND(l.name, l.n, NULL);
	const char *const *names = (const char *const *)l.name;
	char *all AUTOFREE = text_list(names, l.n - 1, ", ");
	char *known AUTOFREE = sentence("mvbench has %s", all);
	char *wrong = no_such("job file", "", name, names, l.n - 1, known);
	autowords(&l.name);
	return wrong;
}

char *launcher_refuse(const char *command)
{
	return platform_under_launcher()
		       ? sentence("%s starts its own workers: run it without mpirun or srun",
				  command)
		       : NULL;
}

char *sweep_find(const struct arguments *a, const char *command, const char *example, char **path)
{
	struct stat st; /* a folder is not a job file */
	const char *name = a->words ? a->word[0] : NULL;
	if (a->words > 1)
		return sentence("%s: %s takes one job file, %s", a->word[1], command, name);
	if (!name)
		return example ? sentence("give a job file, as in mvbench %s %s", command, example)
			       : NULL;
	*path = stat(name, &st) == 0 && !S_ISDIR(st.st_mode) ? must(strdup(name)) : NULL;
	for (int i = 0; i < 2 && !*path; i++) {
		char *stem AUTOFREE = sentence("workloads/sweeps/%s%s", name, i ? ".ini" : "");
		*path = installed_path(stem);
	}
	return *path ? NULL : no_such_file(name);
}

char *text_without(const char *text, const char *ending)
{
	size_t n = strlen(text), m = strlen(ending);
	bool has = n > m && strcmp(text + n - m, ending) == 0;
	return sentence("%.*s", (int)(has ? n - m : n), text);
}

/* ---- Which cells to run -------------------------------------------------- */

static bool read_share(const char *text, uint64_t *part, uint64_t *parts)
{
	int end = 0;
	long long i, n;
	if (sscanf(text, "%lld/%lld%n", &i, &n, &end) != 2 || text[end] || i < 1 || i > n)
		return false;
	*part = (uint64_t)i;
	*parts = (uint64_t)n;
	return true;
}

static char *check_share(const struct option *o, const char *text)
{
	uint64_t part, parts;
	return !*text || read_share(text, &part, &parts)
		       ? NULL
		       : sentence("--%s=%s: not a part I/N; give one, as in --%s=1/16", o->name,
				  text, o->name);
}

#define OWNER struct sweep_flags
static const struct option sweep_flags[] = {
	SWEEP_OPTIONS(),
	OPTION(resume, BOOL, "resume", "true",
	       "leave out cells that are done, failed or diverged, or that a live process runs "
	       "[true/false]"),
	OPTION(order, CHOICE, "order", "rounds",
	       "order of the cells: rounds: the first seed of every configuration, then the second "
	       "seed, and so on, each round shuffled; file: as in the file [name]",
	       .choices = "rounds|file"),
	OPTION(order_seed, INT, "order-seed", "1",
	       "seed of the shuffle of --order=rounds; it is recorded [number]", .min = 0,
	       .max = 4294967295.0),
	OPTION(share, STRING, "share", "",
	       "I/N: run only the I-th (from 1) of N parts of the cells; a cell's options decide "
	       "its part; empty: all [part/parts]",
	       .check = check_share),
	OPTION(format, CHOICE, "format", "text", "output format; json: one object for each cell",
	       .choices = "text|json"),
	{0},
};

/* Need this cell not be run? A row with status running has a live process, as far as store_open can
 * tell. */
static bool finished(const struct cell *c, const struct sweep_flags *f)
{
	if (!f->resume)
		return false;
	if (strcmp(c->status, "done") == 0 || strcmp(c->status, "running") == 0)
		return true;
	if (strcmp(c->status, "failed") == 0 &&
	    strncmp(c->reason, INTERRUPTED, strlen(INTERRUPTED)) == 0)
		return false;
	return (strcmp(c->status, "failed") == 0 || strcmp(c->status, "diverged") == 0) &&
	       !f->retry;
}

/* Removes the cells of other shares. */
static void take_share(struct sweep *s, const char *share)
{
	uint64_t part, parts;
	size_t n = 0;
	for (size_t i = 0; i < s->cells && read_share(share, &part, &parts); i++) {
		struct cell *c = &s->cell[i];
		if (strtoull(c->hash, NULL, 16) % parts == part - 1)
			s->cell[n++] = *c;
		else
			cell_fini(c);
	}
	s->cells = *share ? n : s->cells;
}

static char *newest_row(struct store *s, int64_t *id)
{
	return sql_number(s, id, "SELECT max(id) FROM run", "");
}

/* Looks up the cells' earlier rows if the database exists. *seen: its newest row. */
static char *look_up(struct sweep *s, const struct sweep_flags *f, int64_t *seen)
{
	struct store *store AUTOCLOSE = NULL;
	const char *db = s->cell[0].config.harness.db;
	char *other AUTOFREE = NULL; /* version of the program that ran a cell */
	size_t others = 0;
	TRY(store_check(db));
	if (access(db, F_OK) != 0)
		return NULL;
	TRY(f->dry_run ? store_open(&store, db, STORE_READ)
		       : store_open_for(&store, &s->cell[0].config, STORE_WRITE));
	TRY(newest_row(store, seen));
	for (size_t i = 0; i < s->cells; i++) {
		struct cell *c = &s->cell[i];
		c->id = store_cell(store, c->hash, c->status, c->reason);
		c->skip = finished(c, f);
		char *commit = NULL;
		if (c->skip)
			TRY(sql_first(
				store, &commit,
				"SELECT git_commit || iif(git_dirty, '-dirty', '') AS version "
				"FROM run WHERE id = ?1 AND version <> ?2",
				"it", c->id, machine()->version));
		if (commit) {
			others++;
			free(other);
			other = commit;
		}
	}
	if (others)
		complain(sentence("%zu of these cells were run by another version of mvbench, such "
				  "as commit %s; --resume=false runs them again",
				  others, other));
	return NULL;
}

/* Numbers the cells to run; returns how many. */
static size_t count_left(struct sweep *s)
{
	size_t n = 0;
	for (size_t i = 0; i < s->cells; i++)
		if (!s->cell[i].skip)
			s->cell[i].number = ++n;
	return n;
}

/* On a terminal, what does not fit into the line stands below the first word of its text. */
static void put_cell_text(FILE *f, const char *head, const char *text)
{
	int columns = f == stdout ? terminal_columns() : 0;
	fputs(head, f);
	if (columns)
		text_wrap_at(f, text, (int)strlen(head), columns);
	else
		fprintf(f, "%s\n", text);
	fflush(f);
}

static void list_cells(struct sweep *s, enum format format)
{
	for (size_t i = 0; i < s->cells; i++) {
		const struct cell *c = &s->cell[i];
		const char *state = c->status[0] ? c->status : "new";
		if (format == FORMAT_JSON) {
			char **word = config_words(&c->config);
			printf("{\"cell\": %zu, \"section\": ", i + 1);
			text_json(stdout, c->section);
			printf(", \"config_hash\": \"%s\", \"status\": \"%s\", \"finished\": %s, "
			       "\"params\": %lld, \"words\": [",
			       c->hash, state, c->skip ? "true" : "false",
			       (long long)c->plan.params);
			for (size_t k = 0; word[k]; k++) {
				fputs(k ? ", " : "", stdout);
				text_json(stdout, word[k]);
			}
			printf("]}\n");
			free_words(word);
			continue;
		}
		char *head AUTOFREE = sentence("%4zu  %-9s %-4s ", i + 1, state,
					       c->skip ? "skip" : "run"),
			   *text AUTOFREE = sentence("[%s] %s", c->section, c->what);
		put_cell_text(stdout, head, text);
	}
	if (format != FORMAT_JSON)
		printf("%zu cell%s, %zu to run, %zu finished, %zu equal to another, %zu "
		       "excluded\n",
		       s->cells, plural((int64_t)s->cells), count_left(s), s->cells - count_left(s),
		       s->duplicates, s->excluded);
}

static int by_place(const void *a, const void *b)
{
	const struct cell *const *x = a, *const *y = b;
	return (*x)->place != (*y)->place
		       ? ((*x)->place > (*y)->place) - ((*x)->place < (*y)->place)
		       : (*x > *y) - (*x < *y);
}

/* Rows are numbered in the order of the job file, in which figures show them; cells run in another
 * order. If another sweep has made a row for a cell since look_up, this sweep shares that row. */
static char *pend_cells(struct store *store, struct sweep *s, int64_t order_seed, int64_t seen)
{
	struct cell **in_file AUTOFREE = must(calloc(s->cells, sizeof(struct cell *)));
	int64_t before = 0;
	TRY(newest_row(store, &before));
	for (size_t i = 0; i < s->cells; i++)
		in_file[i] = &s->cell[i];
	qsort(in_file, s->cells, sizeof *in_file, by_place);
	for (size_t i = 0; i < s->cells; i++) {
		struct cell *c = in_file[i];
		if (c->skip)
			continue;
		if (strcmp(c->status, "pending") != 0)
			TRY(sql_number(store, &c->id,
				       "SELECT min(id) FROM run WHERE config_hash = ?1 AND id > ?2 "
				       "AND id <= ?3",
				       "tii", c->hash, seen, before));
		TRY(store_pend(store, &c->config, &c->id, c->round, order_seed));
	}
	return NULL;
}

/* One transaction: of two sweeps the later one sees all rows of the other. */
static char *pend(struct sweep *s, int64_t order_seed, int64_t seen)
{
	struct store *store AUTOCLOSE = NULL;
	TRY(store_open_for(&store, &s->cell[0].config, STORE_WRITE));
	TRY(sql_begin(store));
	return sql_end(store, pend_cells(store, s, order_seed, seen));
}

/* ---- Running them -------------------------------------------------------- */

struct doing {
	struct sweep *sweep;
	const struct sweep_flags *flags;
	enum format format;
	FILE *lines;
	size_t left, ended; /* cells to run; how many of them have ended */
	nsec began;
	bool interrupted;
	sigset_t before;    /* blocked signals, before the sweep blocked more */
	struct meter meter; /* of cells that run side by side */
};

/* A line about a cell begins where the bar was. */
static void clear_bar(const struct doing *d)
{
	if (d->meter.terminal)
		fputs("\r\033[K", stderr);
}

/* Prints a line about a cell to run. */
static void say_of_cell(const struct doing *d, const struct cell *c, const char *what)
{
	char *head AUTOFREE = sentence("%zu/%zu ", c->number, d->left),
		   *text AUTOFREE = sentence("[%s] %s: %s", c->section, c->what, what);
	clear_bar(d);
	put_cell_text(d->lines, head, text);
}

static void print_result(const struct doing *d, const struct cell *c, const struct outcome *o)
{
	struct text t;
	if (d->format == FORMAT_JSON) {
		clear_bar(d);
		outcome_print(&c->config, o, d->format);
		return;
	}
	FILE *f = text_open(&t);
	if (o->status == EXIT_OK && o->page && o->page->rows > 0) {
		const struct epoch_row *row = page_row(o->page, o->page->rows - 1);
		if (d->sweep->blind && row->on[ON_VALIDATION].accuracy >= 0)
			fprintf(f, "validation accuracy %.2f %%, ",
				100 * row->on[ON_VALIDATION].accuracy);
		else if (d->sweep->blind && !isnan(row->on[ON_VALIDATION].loss))
			fprintf(f, "validation loss %.4f, ", row->on[ON_VALIDATION].loss);
		else if (row->on[ON_TEST].accuracy >= 0)
			fprintf(f, "test accuracy %.2f %%, ", 100 * row->on[ON_TEST].accuracy);
		else if (!isnan(row->on[ON_TEST].loss))
			fprintf(f, "test loss %.4f, ", row->on[ON_TEST].loss);
		double share = page_cores_share(&c->config, o->page);
		fprintf(f, "%lld epoch%s in %.3f s%s", (long long)row->epoch, plural(row->epoch),
			page_seconds(o->page), o->page->simulated ? " of virtual time" : "");
		if (share < CORES_SHARE_LEAST)
			fprintf(f, "; a worker had only %.0f %% of its core", 100 * share);
	} else {
		bool why = o->why && o->status != EXIT_INTERRUPTED;
		fprintf(f, "%s%s%s", outcome_word(o->status), why ? ": " : "", why ? o->why : "");
	}
	char *text AUTOFREE = text_close(&t);
	say_of_cell(d, c, text);
}

/* Claims the cell. *taken = false: another sweep runs it, or has run it. */
static char *claim_cell(const struct doing *d, const struct cell *c, bool *taken)
{
	struct store *store AUTOCLOSE = NULL;
	char *owner AUTOFREE = NULL;
	TRY(store_open_for(&store, &c->config, STORE_CHANGE));
	char *own AUTOFREE = process_owner();
	setenv("MVBENCH_CLAIM", own, 1);
	TRY(store_claim(store, c->id, taken, &owner));
	char *what AUTOFREE = owner ? sentence("is run by %s", owner)
				    : sentence("was run by another sweep meanwhile");
	if (!*taken)
		say_of_cell(d, c, what);
	return NULL;
}

/* Runs one cell in this process; returns its exit status, or OF_ANOTHER. */
static int do_cell(struct doing *d, const struct cell *c, bool alone)
{
	bool taken = false;
	char *wrong = claim_cell(d, c, &taken);
	if (wrong) {
		complain(wrong);
		return end_is_requested() ? EXIT_INTERRUPTED : EXIT_USER;
	}
	if (!taken)
		return OF_ANOTHER;
	char before[64];
	double mean = d->ended ? 1e-9 * (double)(clock_now() - d->began) / (double)d->ended : 0;
	struct progress progress = {.before = before,
				    .later_s = mean * (double)(d->left - d->ended - 1),
				    .quiet = !alone};
	struct outcome o;
	snprintf(before, sizeof before, "%zu/%zu %s ", c->number, d->left, c->config.run.strategy);
	run_cell(&c->config, &progress, &o);
	int status = o.status;
	if (o.id == 0 && status == EXIT_USER) {
		char *why AUTOFREE = sentence(REFUSED ": %s", o.why);
		complain_if(run_mark_failed(&c->config, c->id, NULL, why));
	} else if (o.id == 0 && status != EXIT_INTERRUPTED) { /* no worker started its row */
		complain_if(run_mark_failed(&c->config, c->id, NULL, o.why));
	}
	print_result(d, c, &o);
	/* also if the cell ended by itself: mpirun gives its ranks a second before it ends them */
	d->interrupted |= o.page && o.page->interrupted;
	outcome_fini(&o);
	return status;
}

/* Reads the status of a cell that another sweep has taken. *owner (heap): who runs it, if any
 * process does. */
static char *read_status(struct cell *c, char **owner)
{
	struct store *store AUTOCLOSE = NULL;
	TRY(store_open(&store, c->config.harness.db, STORE_READ));
	c->id = store_cell(store, c->hash, c->status, c->reason);
	return store_owner(store, c->id, owner);
}

static bool is_left(const struct cell *c)
{
	return strcmp(c->status, "running") == 0 || strcmp(c->status, "pending") == 0;
}

/* Names the cells that another sweep still has. Some may have ended since they were looked up. */
static char *say_left(struct sweep *s)
{
	for (size_t i = 0; i < s->cells; i++) {
		struct cell *c = &s->cell[i];
		char *owner AUTOFREE = NULL;
		if (is_left(c))
			TRY(read_status(c, &owner));
		if (is_left(c))
			complain(sentence("left: [%s] %s: %s%s", c->section, c->what,
					  owner ? "is run by " : "no process has begun it",
					  owner ? owner : ""));
	}
	return NULL;
}

static void cell_ended(struct doing *d, struct cell *c, int status)
{
	d->ended++;
	d->interrupted |= status == EXIT_INTERRUPTED;
	c->of_another = status == OF_ANOTHER;
	if (c->of_another)
		snprintf(c->status, sizeof c->status, "running");
	else
		snprintf(c->status, sizeof c->status, "%s", outcome_word(status));
}

static void do_in_turn(struct doing *d)
{
	for (size_t i = 0; i < d->sweep->cells && !d->interrupted && !end_is_requested(); i++)
		if (!d->sweep->cell[i].skip)
			cell_ended(d, &d->sweep->cell[i], do_cell(d, &d->sweep->cell[i], true));
}

struct job {
	pid_t pid; /* 0: none */
	struct cell *cell;
};

/* Runs the cell in a process of its own, with the signals that the sweep had before. */
static void start_job(struct doing *d, struct job *job, struct cell *cell)
{
	fflush(NULL);
	*job = (struct job){.pid = fork(), .cell = cell};
	CHECK(job->pid >= 0, "fork: %s", strerror(errno));
	if (job->pid > 0)
		return;
	setpgid(0, 0); /* Ctrl-C reaches only the parent */
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	sigprocmask(SIG_SETMASK, &d->before, NULL);
	int status = do_cell(d, cell, false);
	fflush(NULL);
	_exit(status);
}

/* Has the job's process ended? */
static bool has_ended(struct doing *d, struct job *job)
{
	int status;
	if (!job->pid || waitpid(job->pid, &status, WNOHANG) != job->pid)
		return false;
	cell_ended(d, job->cell,
		   WIFEXITED(status)                               ? WEXITSTATUS(status)
		   : d->interrupted || WTERMSIG(status) == SIGPIPE ? EXIT_INTERRUPTED
								   : EXIT_FAILED);
	job->pid = 0;
	return true;
}

/* The first cell that is left from *next on, which is then behind it; NULL: none. */
static struct cell *next_cell(const struct doing *d, size_t *next)
{
	while (*next < d->sweep->cells && d->sweep->cell[*next].skip)
		++*next;
	return *next < d->sweep->cells ? &d->sweep->cell[(*next)++] : NULL;
}

/* Runs several cells at a time, each in its own process. Passes signals on to them. */
static void do_side_by_side(struct doing *d)
{
	struct job job[JOBS_MAX] = {{0}};
	struct timespec tick = {.tv_nsec = TICK_MS * 1000000};
	size_t next = 0, running = 0;
	sigset_t signals = end_signals(), before;
	sigaddset(&signals, SIGCHLD);
	sigprocmask(SIG_BLOCK, &signals, &before);
	meter_start(&d->meter, "cell", d->left);
	d->meter.later = d->flags->later_cells;
	d->meter.later_s = d->flags->later_s;
	bool unbound = getenv("MVBENCH_UNBOUND");
	/* otherwise all runs would bind their ranks to the same cores */
	setenv("MVBENCH_UNBOUND", "1", 1);
	while (running > 0 || (next < d->sweep->cells && !d->interrupted)) {
		for (int64_t k = 0; k < d->flags->jobs && !d->interrupted; k++) {
			struct cell *cell = job[k].pid ? NULL : next_cell(d, &next);
			if (cell) {
				start_job(d, &job[k], cell);
				running++;
			}
		}
		int sig = sigtimedwait(&signals, NULL, &tick);
		bool late = d->flags->until && !d->interrupted && clock_now() >= d->flags->until;
		bool stop = late || (sig > 0 && sig != SIGCHLD);
		d->interrupted |= stop;
		if (late)
			*d->flags->late = true;
		for (int64_t k = 0; k < d->flags->jobs; k++) {
			if (stop && job[k].pid)
				kill(job[k].pid, SIGTERM);
			running -= has_ended(d, &job[k]);
		}
		meter_step(&d->meter, d->ended);
	}
	meter_end(&d->meter);
	if (!unbound)
		unsetenv("MVBENCH_UNBOUND");
	sigprocmask(SIG_SETMASK, &before, NULL);
}

/* Prints the last line. Returns the status of the worst cell, cells of earlier sweeps included. */
static int sum_up_cells(const struct doing *d)
{
	size_t done = 0, diverged = 0, failed = 0, refused = 0, skipped = 0;
	char refusals[40] = "";
	if (!d->interrupted)
		complain_if(say_left(d->sweep));
	for (size_t i = 0; i < d->sweep->cells; i++) {
		const struct cell *c = &d->sweep->cell[i];
		done += strcmp(c->status, "done") == 0;
		diverged += strcmp(c->status, "diverged") == 0;
		bool was = strncmp(c->reason, REFUSED ": ", strlen(REFUSED ": ")) == 0;
		refused += strcmp(c->status, REFUSED) == 0 ||
			   (c->skip && was && strcmp(c->status, "failed") == 0);
		failed += strcmp(c->status, "failed") == 0 && !(c->skip && was);
		skipped += c->skip;
	}
	const size_t left = d->sweep->cells - done - diverged - failed - refused;
	if (refused + d->sweep->refused)
		snprintf(refusals, sizeof refusals, ", %zu refused", refused + d->sweep->refused);
	if (!d->flags->looked_up)
		fprintf(d->lines, "%zu cell%s: %zu done, %zu diverged, %zu failed, %zu left%s%s\n",
			d->sweep->cells, plural((int64_t)d->sweep->cells), done, diverged, failed,
			left, refusals, skipped ? "; finished cells were not run again" : "");
	if (d->interrupted)
		return EXIT_INTERRUPTED;
	if (left) /* another sweep has the rest */
		return EXIT_FAILED;
	return failed ? EXIT_FAILED : refused ? EXIT_USER : diverged ? EXIT_DIVERGED : EXIT_OK;
}

char *sweep_carry_out(struct sweep *s, const struct sweep_flags *f, int *status)
{
	struct doing d = {.sweep = s, .flags = f, .began = clock_now()};
	if (f->format)
		d.format = format_of(f->format);
	d.lines = f->lines ? f->lines : d.format == FORMAT_JSON ? stderr : stdout;
	if (f->order && strcmp(f->order, "rounds") == 0)
		sweep_shuffle(s, f->order_seed);
	if (f->share)
		take_share(s, f->share);
	int64_t seen = 0;
	for (size_t i = 0; i < s->cells && f->jobs > 1; i++) {
		const struct harness_options *h = &s->cell[i].config.harness;
		if (h->quiet_wait > 0)
			return sentence("--quiet-wait: with --jobs=%lld the other jobs always "
					"use the cores; leave one of the two out",
					(long long)f->jobs);
		if (*h->lab_rate)
			return sentence("--jobs=%lld: --lab.rate changes the wires for all cells; "
					"run one cell at a time",
					(long long)f->jobs);
	}
	if (s->cells && !f->looked_up)
		TRY(look_up(s, f, &seen));
	if (f->dry_run) {
		list_cells(s, d.format);
		return NULL;
	}
	d.left = count_left(s);
	if (d.left)
		TRY(pend(s, f->order_seed, seen));
	for (size_t i = 0; i < s->cells; i++)
		if (!s->cell[i].skip && s->cell[i].plan.oversubscribed) {
			fprintf(stderr,
				"mvbench: some cells are oversubscribed: more workers than the %d "
				"core%s of this machine, so their times are not reliable\n",
				s->cell[i].plan.cores, plural(s->cell[i].plan.cores));
			break;
		}
	/* Between two cells, too, a signal must end the sweep, and not without its last line. */
	sigset_t signals = end_signals();
	sigprocmask(SIG_BLOCK, &signals, &d.before);
	if (f->jobs > 1 || f->until)
		do_side_by_side(&d);
	else
		do_in_turn(&d);
	d.interrupted |= end_take();
	sigprocmask(SIG_SETMASK, &d.before, NULL);
	*status = sum_up_cells(&d);
	return NULL;
}

/* Names the finished cells that a table of the sweep's label would lack. */
static char *say_other_labels(struct store *store, const struct sweep *s)
{
	enum { NAMED_MOST = 20 };
	char *runs AUTOFREE = must(strdup("")), *such AUTOFREE = NULL;
	const char *label = "";
	size_t n = 0;
	for (size_t i = 0; i < s->cells; i++) {
		const struct cell *c = &s->cell[i];
		const char *own = c->config.harness.label;
		char *other = NULL;
		if (c->skip && *own && (n == 0 || strcmp(own, label) == 0))
			TRY(sql_first(store, &other,
				      "SELECT ifnull(label, '') FROM run AS r WHERE id = ?1 AND "
				      "ifnull(label, '') <> ?2 AND status <> 'running' AND NOT "
				      "EXISTS (SELECT 1 FROM run WHERE label = ?2 AND "
				      "config_hash = r.config_hash AND status = r.status)",
				      "it", c->id, own));
		if (!other)
			continue;
		label = own;
		free(such);
		such = other;
		if (n++ < NAMED_MOST) {
			char *before AUTOFREE = runs;
			runs = sentence("%s %lld", before, (long long)c->id);
		}
	}
	if (n == 0)
		return NULL;
	char *to AUTOFREE = word_quoted(label), *db AUTOFREE = word_quoted(store->path);
	complain(sentence("%zu finished cell%s another label than %s, such as %s; mvbench relabel "
			  "%s%s --db=%s changes it",
			  n, n == 1 ? " has" : "s have", label, *such ? such : "none", to,
			  n <= NAMED_MOST ? runs : " RUN ...", db));
	return NULL;
}

/* Has this cell ended with data of this hash? */
static bool ended_with(struct store *store, const struct cell *c, const char *hash)
{
	struct config before = c->config; /* shallow copy: borrows the pointers */
	char hex[17], status[16], reason[256];
	before.harness.data_hash = hash;
	config_hash(&before, hex);
	store_cell(store, hex, status, reason);
	return strcmp(status, "done") == 0;
}

/* Counts the new cells that would be finished if their data had not changed. */
static char *say_other_data(struct store *store, const struct sweep *s)
{
	struct sql q AUTODONE =
		sql_select(store, "SELECT DISTINCT data_hash FROM run WHERE data_hash <> ''", "");
	char **hash AUTOWORDS = NULL;
	const char *found = NULL;
	const struct config *of = NULL;
	size_t n = 0, hashes = 0;
	while (sql_next(&q))
		APPEND(hash, hashes, sql_copy(&q, 0));
	APPEND(hash, hashes, NULL);
	TRY(sql_done(&q));
	for (size_t i = 0; i < s->cells; i++) {
		const struct cell *c = &s->cell[i];
		bool fresh = !c->status[0] && *c->config.harness.data_hash;
		size_t k = 0;
		while (fresh && hash[k] && !ended_with(store, c, hash[k]))
			k++;
		if (fresh && hash[k]) {
			n++;
			found = hash[k];
			of = &c->config;
		}
	}
	if (n)
		complain(sentence("the data have changed: %zu of these cells ended with other data "
				  "(data-hash %s; %s now has %s)",
				  n, found, *of->run.data_dir ? of->run.data_dir : "the data set",
				  of->harness.data_hash));
	return NULL;
}

/* Explains why cells are finished, or new, which their options do not show. */
static char *explain_cells(const struct sweep *s, bool dry_run)
{
	struct store *store AUTOCLOSE = NULL;
	if (s->cells == 0 || access(s->cell[0].config.harness.db, F_OK) != 0)
		return NULL;
	TRY(store_open(&store, s->cell[0].config.harness.db, STORE_READ));
	if (dry_run)
		TRY(say_other_data(store, s));
	return say_other_labels(store, s);
}

/* A job file may have one interval for all strategies; on the command line it was meant for these
 * cells. */
static void say_interval_ignored(const struct sweep *s, const struct arguments *a)
{
	size_t i = 0;
	if (!arguments_value(a, "sync-every"))
		return;
	while (i < s->cells && !s->cell[i].config.interval_ignored)
		i++;
	if (i < s->cells)
		fprintf(stderr,
			"mvbench: --sync-every has no effect on some cells, such as those of %s: "
			"it has no interval\n",
			s->cell[i].config.run.strategy);
}

static char *run_sweep(void *options, struct arguments *a, int *status)
{
	struct sweep sweep ENDS_WITH(sweep_free) = {.cell = NULL};
	char *path AUTOFREE = NULL;
	TRY(launcher_refuse("sweep"));
	TRY(sweep_find(a, "sweep", "demo.ini", &path));
	const struct sweep_flags *f = options;
	TRY(sweep_read(path, a->option, a->options, &sweep, NULL, !f->dry_run));
	sweep_leave_out(path, &sweep);
	TRY(sweep_plan(path, &sweep));
	say_interval_ignored(&sweep, a);
	TRY(sweep_carry_out(&sweep, options, status));
	return explain_cells(&sweep, f->dry_run);
}

const struct command command_sweep = {
	.name = "sweep",
	.summary = "run the cross product of a job file",
	.usage = "FILE.ini [--option=value ...]",
	.about =
		"Runs every combination that a job file describes, and records each. Options of "
		"mvbench run replace those of the file, lists and ranges too: --workers=1,2 "
		"--seed=1..3.\n\n"
		"Cells are run in rounds: each configuration with its first seed, in an order that "
		"--order-seed shuffles, then each with its second. A machine that becomes slower "
		"then affects all configurations alike. Columns sweep_round and sweep_seed of "
		"table run record the order.\n\n"
		"Several sweeps may share a database: the first one that claims a cell runs "
		"it. A label is no part of a cell: a finished one keeps its label until mvbench "
		"relabel changes it.\n\n"
		"Exit status: 0 all cells are done, 1 some failed, or another sweep still "
		"runs some, 2 refused, or cells were refused when they began, 3 some diverged, "
		"130 interrupted.",
	.options = sweep_flags,
	.words = job_files_each,
	.size = sizeof(OWNER),
	.run_options = true,
	.run = run_sweep,
	.interrupted = GOES_ON,
};
