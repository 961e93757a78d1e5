/*
 * watch.c - mvbench status: what is running, and what is left; mvbench watch: the same every few
 * seconds, until nothing is left. Both read only the database.
 */
#include "results/ask/ask.h"
#include "results/run/run.h"

#include <math.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

TEXT_FILE(watch_sql, "results/ask/watch.sql");

enum {
	BOUT_S = 60,  /* a pause of this length ends a piece of work */
	GRACE_S = 20, /* wait this long for the next cell of a sweep */
	BAR = 40
};

struct watch_options {
	const char *db;
	double every;
};

#define OWNER struct watch_options
static const struct option watch_options[] = {
	OPTION(db, STRING, "db", DATABASE, "database to read [file]"),
	OPTION(every, REAL, "every", "2", "time between two polls of the database [s]", .min = 0.1,
	       .max = 86400),
	{.name = NULL},
};
static const struct option status_options[] = {
	OPTION(db, STRING, "db", DATABASE, "database to read [file]"),
	{.name = NULL},
};

/* ---- One poll --------------------------------------------------------------- */

struct work { /* columns of table work */
	double cells, done, diverged, failed, interrupted, running, pending, share, left_s;
};
#define FIGURES (sizeof(struct work) / sizeof(double))

static char *read_work(struct store *s, struct work *w)
{
	double x[FIGURES];
	TRY(sql_change(s, watch_sql, "i", (int64_t)BOUT_S));
	TRY(sql_reals(s, x, FIGURES, "SELECT * FROM work", ""));
	memcpy(w, x, sizeof x);
	return NULL;
}

/* Writes `between` and "about 4:10 left". */
static void put_left(FILE *f, const struct work *w, const char *between)
{
	if (!(w->left_s > 0))
		return;
	fprintf(f, "%sabout ", between);
	duration_put(f, w->left_s);
	fputs(" left", f);
}

/* "12/31 cells done, 1 failed, 2 running, 16 pending" */
static void put_work(FILE *f, const struct work *w)
{
	fprintf(f, "%.0f/%.0f cell%s done, ", w->done, w->cells, plural((int64_t)w->cells));
	if (w->diverged > 0)
		fprintf(f, "%.0f diverged, ", w->diverged);
	if (w->failed > 0)
		fprintf(f, "%.0f failed, ", w->failed);
	if (w->interrupted > 0)
		fprintf(f, "%.0f interrupted, ", w->interrupted);
	fprintf(f, "%.0f running, %.0f pending", w->running, w->pending);
}

/* A running cell. */
static void put_name(FILE *f, const struct sql *q)
{
	fprintf(f, "%lld %s", (long long)sql_int(q, 0), sql_text(q, 1));
}

/* ---- mvbench status --------------------------------------------------------- */

static char *print_status(void *options_given, struct arguments *a, int *status)
{
	const struct watch_options *o = options_given;
	struct store *s AUTOCLOSE = NULL;
	struct work w = {0};
	(void)a, (void)status;
	TRY(store_open(&s, o->db, STORE_READ));
	TRY(read_work(s, &w));
	if (w.running > 0)
		TRY(query_print(
			s, stdout, FORMAT_TEXT,
			"SELECT id, what AS run, host, pid, epoch || '/' || r.epochs AS epochs, "
			"CAST(86400 * (julianday('now') - julianday(started)) AS INTEGER) AS "
			"\"for [s]\", CAST(86400 * (julianday('now') - julianday(heartbeat)) AS "
			"INTEGER) AS \"last seen [s]\" FROM running AS r JOIN run USING (id) "
			"ORDER BY id",
			NULL, 0, NULL));
	put_work(stdout, &w);
	put_left(stdout, &w, ", ");
	putchar('\n');
	return NULL;
}

/* ---- mvbench watch ---------------------------------------------------------- */

struct view {
	bool terminal;
	int wide, high;
	int lines; /* of the last drawing, to draw over */
};

static void measure(struct view *v)
{
	struct winsize size;
	bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col && size.ws_row;
	v->wide = known ? size.ws_col : 80;
	v->high = known ? size.ws_row : 24;
}

/* Prints what was written into text_open(t) as one line, as far as it fits: longer lines, or lines
 * below the last one, could not be drawn over. */
static void put_line(struct view *v, struct text *t)
{
	char *line AUTOFREE = text_close(t), *visible AUTOFREE = text_visible(line);
	const char *text = visible;
	if (v->lines + 2 > v->high)
		return;
	for (int at = 0; *text && at < v->wide - 1; at++) {
		const char *from = text;
		text_character(&text);
		fwrite(from, (size_t)(text - from), 1, stdout);
	}
	fputs("\033[K\n", stdout);
	v->lines++;
}

static void put_bar(FILE *f, const struct work *w)
{
	int full = (int)(BAR * (w->share > 0 ? w->share : 0) + 0.5);
	fputc('[', f);
	for (int i = 0; i < BAR; i++)
		fputc(i < full ? '=' : i == full ? '>' : ' ', f);
	fprintf(f, "] %3.0f %%", 100 * (w->share > 0 ? w->share : 0));
	put_left(f, w, "  ");
}

/* Draws over the last drawing. */
static void draw_view(struct view *v, const struct work *w, struct sql *q)
{
	struct text t;
	measure(v);
	if (v->lines)
		printf("\033[%dA\r", v->lines);
	v->lines = 0;
	put_bar(text_open(&t), w);
	put_line(v, &t);
	put_work(text_open(&t), w);
	put_line(v, &t);
	while (sql_next(q)) {
		put_name(text_open(&t), q);
		put_line(v, &t);
		fprintf(text_open(&t), "   %s", sql_text(q, 2));
		put_line(v, &t);
	}
	fputs("\033[J", stdout);
}

/* Prints one line. */
static void print_line(const struct work *w, struct sql *q)
{
	put_work(stdout, w);
	put_left(stdout, w, ", ");
	while (sql_next(q)) {
		struct text t;
		put_name(text_open(&t), q);
		fprintf(t.f, ": %s", sql_text(q, 2));
		char *line AUTOFREE = text_close(&t), *visible AUTOFREE = text_visible(line);
		printf("; %s", visible);
	}
	putchar('\n');
}

static char *draw(struct store *s, struct view *v, const struct work *w)
{
	struct sql q AUTODONE = sql_select(s, "SELECT * FROM running", "");
	if (v->terminal)
		draw_view(v, w, &q);
	else
		print_line(w, &q);
	fflush(stdout);
	return sql_done(&q);
}

/* Waits; is the process told to end? Signals are blocked until here, where no database is open. */
static bool wait_for(double s, const sigset_t *signals)
{
	struct timespec t = {.tv_sec = (time_t)s, .tv_nsec = (long)(1e9 * (s - floor(s)))};
	return sigtimedwait(signals, NULL, &t) > 0;
}

/* Polls once and closes its connection, which leaves no files next to the database. */
static char *read_and_draw(const char *db, struct view *v, struct work *w, int64_t *live)
{
	struct store *s AUTOCLOSE = NULL;
	TRY(store_open(&s, db, STORE_READ));
	TRY(read_work(s, w));
	TRY(store_count_live(s, live));
	return draw(s, v, w);
}

static char *watch_command(void *options_given, struct arguments *a, int *status)
{
	const struct watch_options *o = options_given;
	const char *term = getenv("TERM");
	struct view v = {.terminal = isatty(STDOUT_FILENO) && term && strcmp(term, "dumb") != 0};
	struct work w = {0};
	nsec seen = clock_now(); /* when something last ran */
	int64_t live = 0;
	sigset_t signals = end_signals(), before;
	char *wrong;
	(void)a;
	sigprocmask(SIG_BLOCK, &signals, &before);
	while (!(wrong = read_and_draw(o->db, &v, &w, &live))) {
		if (live)
			seen = clock_now();
		bool over = !live && w.pending <= 0;
		if (over || clock_now() - seen > (nsec)1e9 * GRACE_S)
			break;
		if (wait_for(o->every, &signals)) {
			*status = EXIT_INTERRUPTED;
			break;
		}
	}
	if (wrong && end_is_requested()) { /* during a poll */
		free(wrong);
		wrong = NULL;
		*status = EXIT_INTERRUPTED;
	}
	sigprocmask(SIG_SETMASK, &before, NULL);
	if (!wrong && *status == EXIT_OK)
		puts(w.pending > 0
			     ? "no cell is running, but some are left: the command that began them "
			       "can continue"
			     : "nothing is left");
	return wrong;
}

/* ---- The commands ----------------------------------------------------------- */

const struct command command_status = {
	.name = "status",
	.summary = "show what is running, and what is left",
	.usage = "[--option=value ...]",
	.about = "Lists the running runs of a database, how far they are and when they were last "
		 "seen, and the number of cells that are left of a sweep. It counts the work since "
		 "the last pause of a minute. The remaining time is an estimate from the speed "
		 "since then.",
	.options = status_options,
	.size = sizeof(OWNER),
	.example = "--db=" DATABASE,
	.run = print_status,
};

const struct command command_watch = {
	.name = "watch",
	.summary = "show mvbench status live, until all is done",
	.usage = "[--option=value ...]",
	.about = "Shows a running sweep, from another terminal or machine that sees the database: "
		 "cells done and left, the remaining time, and for each running cell its epoch, "
		 "seconds of an epoch, samples/s, test loss and accuracy. It polls every --every "
		 "seconds: a terminal is drawn again, other output gets one line. It ends when "
		 "nothing is left, or when no cell has run for 20 s. Ctrl-C ends it earlier (exit "
		 "status 130); the sweep continues. It only reads the database.",
	.options = watch_options,
	.size = sizeof(OWNER),
	.example = "--db=" DATABASE,
	.run = watch_command,
};
