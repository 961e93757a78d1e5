/*
 * far.c - the status page of a run whose watcher is on another machine.
 *
 * The worker has its own copy. A thread polls it a few times a second and writes each change, with
 * its place in the page, to stderr; mpirun forwards that to the watcher. The head is read first and
 * sent last, because it states how much of the rest is valid.
 */
#include "runtime/watch/watch.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PART = 1280, POLL_MS = 200 };

_Static_assert(sizeof(struct status_page) <= PART, "the head is sent in one line");
_Static_assert(sizeof(struct status_page) % sizeof(uint64_t) == 0, "the page is of words");

static struct {
	struct status_page *page, *sent; /* sent: what the watcher has; NULL: no such page */
	struct pulse *pulse;             /* this worker's, in page */
	pthread_mutex_t lock;            /* of sent */
} far = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void send(size_t at, const unsigned char *part, size_t bytes)
{
	char line[2 * PART + 64];
	size_t n = (size_t)snprintf(line, sizeof line, STATUS_LINE " %zu %zu ", at, bytes);
	for (size_t i = 0; i < bytes; i++)
		n += (size_t)snprintf(line + n, sizeof line - n, "%02x", part[i]);
	line[n++] = '\n';
	write_all(STDERR_FILENO, line, n);
	memcpy((char *)far.sent + at, part, bytes);
}

/* Sends the bytes from the first change to the last. */
static void send_if_new(size_t at, const unsigned char *part, size_t bytes)
{
	const unsigned char *sent = (unsigned char *)far.sent + at;
	size_t first = 0, end = bytes;
	while (first < bytes && sent[first] == part[first])
		first++;
	while (end > first && sent[end - 1] == part[end - 1])
		end--;
	if (end > first)
		send(at + first, part + first, end - first);
}

/* Copies whole words of the page, which may change meanwhile, in their order. */
static void copy_words(uint64_t *to, const void *from, size_t bytes)
{
	const uint64_t *word = from;
	for (size_t i = 0; i < bytes / sizeof *word; i++)
		to[i] = __atomic_load_n(&word[i], __ATOMIC_ACQUIRE);
}

static void send_range(const void *from, size_t bytes)
{
	size_t first = (size_t)((const unsigned char *)from - (unsigned char *)far.page), n;
	for (size_t at = first; at < first + bytes; at += n) {
		uint64_t part[PART / sizeof(uint64_t)];
		n = smaller(PART, first + bytes - at);
		copy_words(part, (unsigned char *)far.page + at, n);
		send_if_new(at, (unsigned char *)part, n);
	}
}

/* The rows that the watcher lacks, of those that the page still has. */
static void send_rows(int64_t rows)
{
	int64_t i = far.sent->rows > rows - PAGE_ROWS ? far.sent->rows : rows - PAGE_ROWS;
	for (; i < rows; i++)
		send_range(status_row(far.page, i), sizeof far.page->row[0]);
}

/* Sends this worker's changes: its pulse; from rank 0 also the head and the new rows. */
static void send_changes(void)
{
	struct status_page head;
	pthread_mutex_lock(&far.lock);
	copy_words((uint64_t *)(void *)&head, far.page, sizeof head);
	send_rows(head.rows);
	send_range(far.pulse, sizeof *far.pulse);
	send_if_new(0, (const unsigned char *)&head, sizeof head);
	pthread_mutex_unlock(&far.lock);
}

static void *send_loop(void *unused)
{
	(void)unused;
	for (int i = 0;; i++) {
		if (i % (1000 / POLL_MS) == 0)
			pulse_alive(far.pulse);
		send_changes();
		clock_delay((nsec)POLL_MS * 1000000);
	}
	return NULL;
}

/* Only touched pages take memory. */
static void *zeros(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(p != MAP_FAILED, "%zu bytes: %m", bytes);
	return p;
}

/* A copy for a worker whose watcher has the page; one copy a process. NULL: not under a launcher.
 */
static struct status_page *copy_of(const struct status_page *head)
{
	size_t bytes = status_bytes(head);
	int rank = rank_of_launcher();
	pthread_t thread;
	if (far.page || rank < 0 || rank >= head->ranks)
		return far.page;
	far.sent = zeros(bytes);
	far.page = zeros(bytes);
	*far.sent = *far.page = *head; /* the watcher has these values already */
	far.pulse = status_pulse(far.page, rank);
	if (thread_start(&thread, send_loop, NULL))
		pthread_detach(thread);
	atexit(send_changes);
	return far.page;
}

struct status_page *status_of_launcher(void)
{
	const char *variable = getenv(STATUS_VARIABLE);
	struct status_page head, *l = status_find(variable);
	return l || !status_described(variable, &head) ? l : copy_of(&head);
}

void status_free(struct status_page *l)
{
	if (l && l != far.page)
		munmap(l, status_bytes(l));
}

bool status_hear(struct status_page *l, const char *line)
{
	size_t at, n, all = status_bytes(l);
	unsigned byte;
	int begins = 0;
	if (sscanf(line, STATUS_LINE " %zu %zu %n", &at, &n, &begins) != 2 || !begins)
		return false;
	line += begins;
	if (n > all || at > all - n || strcspn(line, "\n") != 2 * n)
		return true; /* another rank's output has cut the line */
	for (unsigned char *x = (unsigned char *)l + at; n > 0; n--, line += 2)
		if (sscanf(line, "%2x", &byte) == 1)
			*x++ = (unsigned char)byte;
	return true;
}
