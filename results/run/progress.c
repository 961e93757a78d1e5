/*
 * progress.c - shows the progress of a run: a bar on a terminal, lines elsewhere; and that of other
 * long work, a bar on a terminal.
 *
 * The front process draws it from the status page that it shares with rank 0; workers print
 * nothing.
 */
#include "results/run/run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { BAR_WIDTH = 24, LINE_MAX_WIDTH = 200, REDRAW_NS = 100000000, SHORT_NS = 1000000000 };
#define LOG_LINE_NS INT64_C(60000000000) /* between lines in a log, if the run is one of many */
#define SETTLED_S   0.3                  /* no estimate of the remaining time before this [s] */

static int terminal_width(void)
{
	struct winsize size;
	if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
		return 80;
	return size.ws_col < LINE_MAX_WIDTH ? size.ws_col : LINE_MAX_WIDTH;
}

bool progress_has_bars(void)
{
	const char *term = getenv("TERM");
	return isatty(STDERR_FILENO) && term && strcmp(term, "dumb") != 0;
}

void progress_start(struct progress *p)
{
	p->terminal = !p->quiet && progress_has_bars();
	p->began = 0;
	p->drawn = p->terminal ? 0 : clock_now();
	p->printed = 0;
}

/* Prints NaN without its sign, which has no meaning. */
static double unsigned_nan(double x)
{
	return isnan(x) ? fabs(x) : x;
}

static int64_t rows_of(const struct status_page *page)
{
	return __atomic_load_n(&page->rows, __ATOMIC_ACQUIRE);
}

/* Simulations without training have no losses. */
static bool is_evaluated(const struct epoch_row *row)
{
	return !isnan(row->on[ON_TEST].loss) || !isnan(row->on[ON_TEST].accuracy);
}

void progress_epoch(FILE *f, const struct epoch_row *row, int64_t epochs)
{
	static const char *const name[] = {"train", "validation", "test"};
	bool evaluated = is_evaluated(row);
	if (row->epoch == 0 && !evaluated)
		return;
	fprintf(f, "epoch %lld/%lld", (long long)row->epoch, (long long)epochs);
	if (row->epoch > 0)
		fprintf(f, "  %.3f s", row->split.seconds);
	for (int e = row->epoch > 0 ? ON_TRAIN : ON_VALIDATION; e < EVALUATED; e++) {
		const struct judged *on = &row->on[e];
		if (!isnan(on->loss) || (evaluated && e != ON_VALIDATION))
			fprintf(f, "  %s loss %.4f", name[e], unsigned_nan(on->loss));
		if (!isnan(on->accuracy))
			fprintf(f, ", accuracy %.2f %%", 100 * on->accuracy);
	}
	fputc('\n', f);
	fflush(f);
}

void duration_put(FILE *f, double s)
{
	long long t = (long long)(s + 0.5);
	if (t >= 3600)
		fprintf(f, "%lld:%02lld:%02lld", t / 3600, t / 60 % 60, t % 60);
	else
		fprintf(f, "%lld:%02lld", t / 60, t % 60);
}

static double fraction_done(const struct status_page *page)
{
	double steps = (double)page->steps, epochs = (double)page->epochs;
	if (steps <= 0 || epochs <= 0 || page->epoch < 1)
		return 0;
	double done = ((double)(page->epoch - 1) + (double)page->step / steps) / epochs;
	return done < 1 ? done : 1;
}

/* Percent done, estimated time left, and the newest loss and accuracy. */
static void put_state(FILE *f, const struct progress *p, const struct status_page *page,
		      double done)
{
	double so_far = p->began ? 1e-9 * (double)(clock_now() - p->began) : 0;
	double left = so_far * (1 - done) / (done - p->done_before);
	int64_t rows = rows_of(page);
	const struct epoch_row *row = page_row(page, rows > 0 ? rows - 1 : 0);
	fprintf(f, " %3.0f %%", 100 * done);
	if (done > p->done_before && so_far > SETTLED_S) {
		fputs("  ETA ", f);
		duration_put(f, left);
		if (p->later_s > 0) {
			fputs(", all ", f);
			duration_put(f, left + p->later_s);
		}
	}
	if (rows > 0 && is_evaluated(row))
		fprintf(f, "  loss %.3f", unsigned_nan(row->on[ON_TEST].loss));
	if (rows > 0 && !isnan(row->on[ON_TEST].accuracy))
		fprintf(f, "  acc %.1f %%", 100 * row->on[ON_TEST].accuracy);
}

/* The same as a line in a log. */
static void print_log_line(const struct progress *p, const struct status_page *page)
{
	fprintf(stderr, "%sepoch %lld/%lld ", p->before ? p->before : "", (long long)page->epoch,
		(long long)page->epochs);
	put_state(stderr, p, page, fraction_done(page));
	fputc('\n', stderr);
}

/* Redraws the line: left, a bar if it has begun, and state, as far as there is room. */
static void progress_put_bar(const char *left, bool begun, double done, const char *state)
{
	const char *no_colour = getenv("NO_COLOR");
	bool colour = !(no_colour && *no_colour);
	int width = terminal_width() - 1;
	int room = width - (int)strlen(left) - (int)strlen(state) - 2;
	int bar = room < BAR_WIDTH ? room : BAR_WIDTH;
	int full = (int)(done * bar + 0.5);

	if (!begun || bar < 4)
		bar = -2;
	fprintf(stderr, "\r%.*s", width, left);
	if (bar > 0) {
		fprintf(stderr, "[%s", colour ? "\033[32m" : "");
		for (int i = 0; i < bar; i++)
			fputc(i < full ? '=' : i == full ? '>' : ' ', stderr);
		fprintf(stderr, "%s]", colour ? "\033[0m" : "");
	}
	room = width - (int)strlen(left) - bar - 2;
	fprintf(stderr, "%.*s\033[K", room > 0 ? room : 0, state);
	fflush(stderr);
}

static void progress_draw(struct progress *p, const struct status_page *page)
{
	bool begun = page->state > STATUS_LOADING;
	double done = fraction_done(page);
	struct text t;
	FILE *f = text_open(&t);
	if (begun)
		put_state(f, p, page, done);
	char *state AUTOFREE = text_close(&t);
	char *left AUTOFREE = begun ? sentence("%sepoch %lld/%lld ", p->before ? p->before : "",
					       (long long)page->epoch, (long long)page->epochs)
				    : sentence("%sstarting", p->before ? p->before : "");
	progress_put_bar(left, begun, done, state);
}

/* Lines of the epochs since the last call. If the page has lost some, as many are left out that it
 * loses none while the others are printed. */
static void print_epochs(struct progress *p, const struct status_page *page)
{
	int64_t rows = rows_of(page), lost = rows - p->printed - PAGE_ROWS;
	if (lost > 0) {
		lost += PAGE_ROWS / 2;
		fprintf(stderr, "(%lld epochs are not shown)\n", (long long)lost);
		p->printed += lost;
	}
	for (; p->printed < rows; p->printed++)
		progress_epoch(stderr, page_row(page, p->printed), page->epochs);
}

void progress_tick(void *self, const struct status_page *page)
{
	struct progress *p = self;
	nsec now = clock_now();
	if (!p->began && page->state >= STATUS_TRAINING) {
		p->began = now;
		p->done_before = fraction_done(page);
	}
	if (p->terminal && now - p->drawn >= REDRAW_NS - REDRAW_NS / 10) {
		p->drawn = now;
		progress_draw(p, page);
	}
	if (!p->terminal && !p->lines && !p->quiet && now - p->drawn >= LOG_LINE_NS &&
	    page->state > STATUS_LOADING) {
		p->drawn = now;
		print_log_line(p, page);
	}
	if (!p->terminal && p->lines)
		print_epochs(p, page);
}

void progress_end(struct progress *p)
{
	if (p->terminal && p->drawn)
		fputs("\r\033[K", stderr);
}

/* ---- Other work ---------------------------------------------------------- */

void meter_start(struct meter *m, const char *what, size_t of)
{
	*m = (struct meter){.what = what,
			    .of = of,
			    .terminal = of && progress_has_bars(),
			    .began = clock_now()};
}

void meter_step(struct meter *m, size_t done)
{
	nsec now = clock_now(), took = now - m->began;
	if (!m->terminal || took < SHORT_NS || now - m->drawn < REDRAW_NS || done == 0)
		return;
	double part = (double)done / (double)m->of,
	       parts = (double)(m->of - done + m->later) / (double)done;
	char *left AUTOFREE = sentence("%s %zu/%zu ", m->what, done, m->of);
	struct text t;
	FILE *f = text_open(&t);
	fprintf(f, " %3.0f %%  ETA ", 100 * part);
	duration_put(f, 1e-9 * (double)took * parts + m->later_s);
	char *state AUTOFREE = text_close(&t);
	progress_put_bar(left, true, part, state);
	m->drawn = now;
}

void meter_end(struct meter *m)
{
	if (m->drawn)
		fputs("\r\033[K", stderr);
	m->drawn = 0;
}
