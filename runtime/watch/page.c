/*
 * page.c - the status page, which the workers of a run share with the watching process: plain
 * stores, no system call. Readers that see STATUS_ENDED see all earlier stores.
 *
 * A worker on another machine than the watcher has its own page (far.c, which uses this file).
 */
#include "runtime/watch/watch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Layout: the page, its rows, then one pulse for each rank. */
static size_t rows_end(const struct status_page *l)
{
	size_t rows = l->epochs < PAGE_ROWS ? (size_t)l->epochs + 1 : PAGE_ROWS;
	size_t end = sizeof *l + rows * sizeof l->row[0];
	return (end + _Alignof(struct pulse) - 1) / _Alignof(struct pulse) * _Alignof(struct pulse);
}

size_t status_bytes(const struct status_page *l)
{
	return rows_end(l) + (size_t)l->ranks * sizeof(struct pulse);
}

struct pulse *status_pulse(struct status_page *l, int rank)
{
	char *first = (char *)l + rows_end(l);
	return (struct pulse *)(void *)first + rank;
}

void *status_row(const struct status_page *l, int64_t i)
{
	return (void *)(uintptr_t)l->row[i % PAGE_ROWS];
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
		*l = head;
		l->magic = STATUS_MAGIC ^ (int64_t)clock_now();
	}
	return l;
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

const char *status_described(const char *variable, struct status_page *head)
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
	const char *path = status_described(variable, &head);
	return path ? find_page(path, &head) : NULL;
}
