/*
 * mpirun.c - reads mpirun's stderr. mpirun names the first failed rank, on any machine, in banners;
 * these and the workers' introductions are read and not shown. All other text is passed on, as soon
 * as it cannot be one of these.
 */
#include "runtime/launch/watcher.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NODE         "Node: " /* where mpirun could not start the program */
#define NOT_RELIABLY "ORTE was unable to reliably start one or more daemons"
enum { RULE = 70 };

/* The number after these words; -1: the words are not there. */
static int number_after(const char *text, const char *words)
{
	const char *at = strstr(text, words);
	return at ? atoi(at + strlen(words)) : -1;
}

/* "[[12345,1],3]", "[12345,3]": its last number. */
static int rank_after(const char *text, const char *words)
{
	const char *at = strstr(text, words);
	if (!at)
		return -1;
	size_t n = strcspn(at, "\n");
	while (n > 0 && at[n] != ',')
		n--;
	return n > 0 ? atoi(at + n + 1) : -1;
}

/* Reads the name of the machine after these words, unless it is known; text may be NULL. */
static void read_host(char host[HOST], const char *text, const char *words)
{
	const char *at = text ? strstr(text, words) : NULL;
	if (!at || *host)
		return;
	at += strlen(words);
	snprintf(host, HOST, "%.*s", (int)strcspn(at, " \n"), at);
}

static void read_failure(struct watch *w, const char *text)
{
	struct rank_failure d = {.signal = number_after(text, "exited on signal "),
				 .status = number_after(text, "Exit code:")};
	d.rank = number_after(text, "process rank ");
	if (d.rank < 0)
		d.rank = rank_after(text, "Process name: ");
	if (d.rank < 0 && strstr(text, "in communicator MPI_COMM_WORLD"))
		d.rank = number_after(text, "invoked on rank ");
	if (d.rank < 0)
		d.rank = rank_after(text, "*** reported by process ");
	if (strstr(text, "exiting improperly"))
		d.status = 0;
	w->heard = true;
	note_failure(w);
	read_host(w->lost, strstr(text, "Remote daemon:"), "on node ");
	read_host(w->lost, text, "Peer host:  ");
	if (strstr(text, NOT_RELIABLY) && !*w->lost)
		snprintf(w->lost, HOST, "%s", ranks_other_host(w));
	read_host(d.host, text, "node ");
	if (d.rank >= 0 && d.rank < w->ranks && w->rank_failure.rank < 0)
		w->rank_failure = d;
}

/* Does this line begin a banner about a failed rank? mpirun says that it could not start its
 * daemons also if one of them ends while the ranks run. */
static bool is_failure_banner(const struct watch *w, const char *line)
{
	static const char *const words[] = {
		"Primary job ",
		" noticed that process rank ",
		" has exited due to process rank ",
		" detected that one or more processes exited",
		"MPI_ABORT was invoked on rank ",
		"ORTE has lost communication with a remote daemon",
		"An MPI communication peer process has unexpectedly disconnected"};
	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		if (strstr(line, words[i]))
			return true;
	return w->introduced == w->ranks && strstr(line, NOT_RELIABLY);
}

/* Reads a last message of panic.c: it becomes the reason of the run's end, and is shown as such. */
static bool read_last_words(struct watch *w, const char *line)
{
	char *said = w->parser.last_words;
	if (*said || strncmp(line, OURS, strlen(OURS)) != 0 ||
	    !(strstr(line, ": " BUG ": ") || strstr(line, ": " FAILURE ": ") ||
	      strstr(line, ": out of memory\n")))
		return false;
	line += strlen(OURS);
	snprintf(said, sizeof w->parser.last_words, "%.*s", (int)strcspn(line, "\n"), line);
	note_failure(w);
	return true;
}

static void hold_back(struct stderr_parser *e, size_t n)
{
	e->nheld = e->line = n;
	e->held[n] = '\0';
	e->banner = NO_BANNER;
}

void mpirun_release(struct stderr_parser *e)
{
	write_all(STDERR_FILENO, e->held, e->nheld);
	hold_back(e, 0);
}

static void end_line(struct watch *w)
{
	struct stderr_parser *e = &w->parser;
	const char *line = e->held + e->line;
	bool rule = strspn(line, "-") >= RULE && strspn(line, "-\n") == strlen(line);
	if (ranks_read(w, line) || status_hear(w->page, line)) {
		e->nheld = e->line;
		e->held[e->nheld] = '\0';
	} else if (rule && e->banner == BANNER_TEXT) {
		read_failure(w, e->held);
		hold_back(e, 0);
	} else if (rule) {
		size_t n = e->nheld - e->line;
		write_all(STDERR_FILENO, e->held, e->line);
		memmove(e->held, line, n);
		hold_back(e, n);
		e->banner = BANNER_RULE;
	} else if (e->banner == BANNER_TEXT ||
		   (e->banner == BANNER_RULE && is_failure_banner(w, line))) {
		e->banner = BANNER_TEXT;
		e->line = e->nheld;
	} else {
		if (strstr(line, "*** reported by process "))
			read_failure(w, line);
		if (read_last_words(w, line))
			e->nheld = e->line;
		if (strncmp(line, NODE, strlen(NODE)) == 0)
			read_host(w->not_started, line, NODE);
		mpirun_release(e);
	}
}

static bool begins(const char *line, size_t n, const char *words)
{
	return strncmp(line, words, smaller(n, strlen(words))) == 0;
}

/* Can this start of a line become a line that is read? Other lines are passed on before they are
 * complete. */
static bool of_interest(const struct stderr_parser *e)
{
	const char *line = e->held + e->line;
	size_t n = e->nheld - e->line;
	return e->banner != NO_BANNER || *line == *INTRODUCTION || *line == '[' ||
	       begins(line, n, OURS) || begins(line, n, NODE) || strspn(line, "-") == n;
}

static void feed(struct watch *w, const char *text, size_t n)
{
	struct stderr_parser *e = &w->parser;
	for (size_t i = 0; i < n; i++) {
		size_t first = i;
		/* An unfinished line may be cut by another rank's introduction, or a banner. */
		while (e->passing && i < n && text[i] != *INTRODUCTION && text[i] != '-')
			e->passing = text[i++] != '\n';
		write_all(STDERR_FILENO, text + first, i - first);
		if (i == n)
			break;
		e->passing = false;
		e->held[e->nheld++] = text[i];
		e->held[e->nheld] = '\0';
		if (text[i] == '\n') {
			end_line(w);
		} else if (!of_interest(e)) {
			mpirun_release(e);
			e->passing = true;
		}
		if (e->nheld == HELD) { /* no room for another character */
			mpirun_release(e);
			e->passing = text[i] != '\n';
		}
	}
}

void mpirun_listen(struct watch *w)
{
	char text[4096];
	ssize_t n;
	while ((n = read(w->fd[FD_STDERR].fd, text, sizeof text)) > 0)
		feed(w, text, (size_t)n);
	if (n == 0) {
		close(w->fd[FD_STDERR].fd);
		w->fd[FD_STDERR].fd = -1;
	}
}
