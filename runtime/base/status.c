/*
 * status.c - the status page, which the workers of a run share with the watching process: plain
 * stores, no system call. Readers that see STATUS_ENDED see all earlier stores.
 *
 * A worker on another machine than the watcher has its own page (status_far.c).
 */
#include "runtime/base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

_Static_assert(sizeof(struct pulse) == 64, "a pulse is one cache line");

/* Layout: the page, its rows, then one pulse for each rank. */
static size_t rows_end(int64_t epochs)
{
	size_t rows = epochs < PAGE_ROWS ? (size_t)epochs + 1 : PAGE_ROWS;
	size_t end = sizeof(struct status_page) + rows * sizeof(struct epoch_row);
	return (end + _Alignof(struct pulse) - 1) / _Alignof(struct pulse) * _Alignof(struct pulse);
}

size_t status_bytes(const struct status_page *l)
{
	return rows_end(l->epochs) + (size_t)l->ranks * sizeof(struct pulse);
}

struct pulse *status_pulse(struct status_page *l, int rank)
{
	char *first = (char *)l + rows_end(l->epochs);
	return (struct pulse *)(void *)first + rank;
}

struct epoch_row *status_row(const struct status_page *l, int64_t i)
{
	return (struct epoch_row *)(uintptr_t)&l->row[i % PAGE_ROWS];
}

void status_add(struct status_page *l, const struct epoch_row *row)
{
	*status_row(l, l->rows) = *row;
	if (l->rows == 0)
		l->sum.first = row->epoch;
	l->sum.dropped += row->split.dropped;
	l->sum.seconds += row->split.seconds;
	if (row->epoch > 0) /* steal_s is NaN where it is not known */
		l->sum.delay_s += row->split.run_delay_s + fmax(0, row->split.steal_s);
	__atomic_fetch_add(&l->rows, 1, __ATOMIC_RELEASE);
}

static struct status_page *status_map(int fd, size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	return p == MAP_FAILED ? NULL : p;
}

struct status_page *status_new(int64_t epochs, int64_t ranks, const char *folder,
			       char path[PATH_MAX])
{
	const char *const folders[] = {folder ? folder : "/dev/shm", "/tmp", "."};
	const struct status_page head = {.epochs = epochs, .ranks = ranks};
	struct status_page *l = NULL;
	for (size_t i = 0; !l && i < sizeof folders / sizeof *folders; i++) {
		snprintf(path, PATH_MAX, "%s/mvbench-status-XXXXXX", folders[i]);
		int fd AUTOCLOSED = mkstemp(path);
		if (fd < 0)
			continue;
		errno = posix_fallocate(fd, 0, (off_t)status_bytes(&head));
		if (errno == 0)
			l = status_map(fd, status_bytes(&head));
		if (!l)
			unlink(path);
	}
	if (l) {
		l->epochs = epochs;
		l->ranks = ranks;
		l->magic = STATUS_MAGIC ^ (int64_t)clock_now();
	}
	return l;
}

void status_free(struct status_page *l)
{
	if (l && !status_is_far(l))
		munmap(l, status_bytes(l));
}

void status_end(struct status_page *l, int status, const char *reason)
{
	snprintf(l->reason, sizeof l->reason, "%s", reason);
	l->status = status;
	__atomic_store_n(&l->state, STATUS_ENDED, __ATOMIC_RELEASE);
}

char *status_variable(const struct status_page *l, const char *path)
{
	return sentence("%lld:%lld:%lld:%s", (long long)l->magic, (long long)l->epochs,
			(long long)l->ranks, path);
}

static struct pulse unseen, *pulse = &unseen;

void pulse_of(struct pulse *p)
{
	enum phase phase = (enum phase)pulse->phase;
	pulse = p ? p : &unseen;
	pulse_phase(phase);
}

struct pulse *pulse_mine(void)
{
	return pulse;
}

void pulse_step(void)
{
	PULSE_PUT(pulse->events, pulse->events + 1);
}

void pulse_alive(struct pulse *p)
{
	struct timespec all, mine;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &all);
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &mine);
	PULSE_PUT(p->cpu,
		  (nsec)(all.tv_sec - mine.tv_sec) * 1000000000 + all.tv_nsec - mine.tv_nsec);
	PULSE_PUT(p->beat, p->beat + 1);
}

void pulse_phase(enum phase phase)
{
	PULSE_PUT(pulse->phase, (int16_t)phase);
	pulse_step();
}

/* Maps the page in this file; NULL: the file is another one, or has another length. */
static struct status_page *find_page(const char *path, const struct status_page *head)
{
	struct stat st;
	int fd AUTOCLOSED = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	struct status_page *l = NULL;
	if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
	    st.st_size == (off_t)status_bytes(head))
		l = status_map(fd, status_bytes(head));
	if (l && l->magic == head->magic && l->epochs == head->epochs && l->ranks == head->ranks)
		return l;
	if (l)
		munmap(l, status_bytes(head));
	return NULL;
}

/* Parses the variable: returns the path; head gets magic, epochs and ranks. NULL: invalid. */
static const char *read_variable(const char *variable, struct status_page *head)
{
	long long magic, epochs, ranks;
	int path = 0;
	if (!variable ||
	    sscanf(variable, "%lld:%lld:%lld:%n", &magic, &epochs, &ranks, &path) != 3 || !path ||
	    epochs < 0 || ranks < 1 || epochs > INT32_MAX || ranks > RANKS_MOST)
		return NULL;
	*head = (struct status_page){.magic = magic, .epochs = epochs, .ranks = ranks};
	return variable + path;
}

struct status_page *status_find(const char *variable)
{
	struct status_page head;
	const char *path = read_variable(variable, &head);
	return path ? find_page(path, &head) : NULL;
}

struct status_page *status_of_launcher(void)
{
	struct status_page head, *l = status_find(getenv(STATUS_VARIABLE));
	return l || !read_variable(getenv(STATUS_VARIABLE), &head) ? l : status_far(&head);
}

const char *const spent_names[SPENT_KINDS] = {
#define ROW(id, name) [SPENT_##id] = #name,
	SPENT_LIST(ROW)
#undef ROW
};
