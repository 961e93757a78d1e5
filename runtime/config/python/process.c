/*
 * process.c - a Python process next to this one. Both map a file in memory with a request, its
 * answer and text, and a file of regions: the parameters and gradients of each worker.
 *
 * Each side spins for some 20 us and then sleeps on a futex. A step then costs 1 us if both spin,
 * and some 30 us if both sleep; an interpreter inside this process would save that, but would bring
 * its signal handlers and its crashes here, and could not be chosen.
 */
#include "runtime/comm/comm.h"
#include "runtime/config/python/python.h"
#include "runtime/world/world.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* driver.py knows these offsets. */
struct shared {
	uint32_t request, answer, event, command, status, ready, layered, trial;
	int64_t slot, at, rows;
	uint64_t key;
	double share, loss;
	int64_t count, correct, text_bytes;
	char pad[128 - 104];
	char text[PYTHON_TEXT];
	int32_t index[PYTHON_ROWS];
};
_Static_assert(offsetof(struct shared, slot) == 32 && offsetof(struct shared, loss) == 72 &&
		       offsetof(struct shared, text_bytes) == 96 &&
		       offsetof(struct shared, text) == 128 &&
		       offsetof(struct shared, index) == 65536,
	       "driver.py has other offsets");

struct python {
	pid_t pid;
	int alive; /* a pidfd, also for those who are not its parent; -1: the system has none */
	int ended; /* its status as of wait, once pid is 0; of a process that is not its parent: 0
		    */
	struct shared *shared;
	int regions;
	int64_t regions_end; /* [bytes] */
};

enum { SPIN_NS = 20000, LOOK_NS = 100000000, SUMS_NS = 200000, PAGE = 4096 };
enum { FIRST = 3, FILES = 3 }; /* the child's: the shared memory, the regions, the driver */

static void futex(uint32_t *at, int what, uint32_t value, const struct timespec *limit)
{
	syscall(SYS_futex, at, what, value, limit, NULL, 0);
}

static int memory_file(const char *name, size_t bytes)
{
	int fd = memfd_create(name, MFD_CLOEXEC);
	if (fd >= 0 && ftruncate(fd, (off_t)bytes) != 0) {
		close(fd);
		fd = -1;
	}
	return fd;
}

/* The child's files 3 to 5 are these. Signals are as in a new process: MPI and the watcher have
 * handlers and masks of their own. */
static int spawn(struct python *p, const int file[FILES], char *const *argv)
{
	int high[FILES];
	posix_spawn_file_actions_t files;
	posix_spawnattr_t how;
	sigset_t none, all;
	sigemptyset(&none);
	sigfillset(&all);
	posix_spawn_file_actions_init(&files);
	posix_spawnattr_init(&how);
	posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	posix_spawnattr_setsigmask(&how, &none);
	posix_spawnattr_setsigdefault(&how, &all);
	for (int i = 0; i < FILES; i++) { /* copies above these numbers: none overwrites another */
		high[i] = fcntl(file[i], F_DUPFD_CLOEXEC, FIRST + FILES);
		posix_spawn_file_actions_adddup2(&files, high[i], FIRST + i);
	}
	int failed = posix_spawnp(&p->pid, argv[0], &files, &how, argv, environ);
	for (int i = 0; i < FILES; i++)
		close(high[i]);
	posix_spawn_file_actions_destroy(&files);
	posix_spawnattr_destroy(&how);
	return failed;
}

struct python *python_start(const char *description, char **wrong)
{
	struct python *p = must(calloc(1, sizeof *p));
	char parent[16], *driver AUTOFREE = file_in_memory(python_program());
	int shared AUTOCLOSED = memory_file("mvbench-python", sizeof *p->shared),
		   program AUTOCLOSED = atoi(driver + strlen(IN_MEMORY));
	p->regions = memory_file("mvbench-models", 0);
	p->shared = mmap(NULL, sizeof *p->shared, PROT_READ | PROT_WRITE, MAP_SHARED, shared, 0);
	must(p->shared == MAP_FAILED ? NULL : p->shared);
	snprintf(parent, sizeof parent, "%d", (int)getpid());
	char *const argv[] = {
		(char *)(uintptr_t)python_interpreter(), "-u",   IN_MEMORY "5", "serve",
		(char *)(uintptr_t)description,          parent, NULL};
	int failed = spawn(p, (const int[FILES]){shared, p->regions, program}, argv);
	p->alive = failed ? -1 : pidfd_open(p->pid, 0);
	if (!failed)
		return p;
	*wrong = python_missing(failed);
	munmap(p->shared, sizeof *p->shared);
	close(p->regions);
	free(p);
	return NULL;
}

void python_say(struct python *p, const void *text, size_t bytes)
{
	CHECK(bytes < PYTHON_TEXT, "a text of %zu bytes", bytes);
	memcpy(p->shared->text, text, bytes);
	p->shared->text_bytes = (int64_t)bytes;
}

const char *python_said(const struct python *p)
{
	struct shared *s = p->shared;
	s->text[s->text_bytes >= 0 && s->text_bytes < PYTHON_TEXT ? s->text_bytes : 0] = '\0';
	return s->text;
}

int32_t *python_index(struct python *p)
{
	return p->shared->index;
}

/* NULL while it lives; otherwise how it has ended. */
static char *death(struct python *p)
{
	struct pollfd end = {.fd = p->alive, .events = POLLIN};
	if (p->pid && p->alive >= 0 && poll(&end, 1, 0) == 0)
		return NULL;
	pid_t ended = p->pid ? waitpid(p->pid, &p->ended, WNOHANG) : 0;
	if (p->pid && ended == 0)
		return NULL;
	p->pid = 0;
	if (ended < 0) /* only its parent gets a status */
		return sentence("its Python process has ended");
	return WIFSIGNALED(p->ended)
		       ? sentence("its Python process was ended by signal %d (%s)",
				  WTERMSIG(p->ended), strsignal(WTERMSIG(p->ended)))
		       : sentence("its Python process ended with status %d", WEXITSTATUS(p->ended));
}

/* Until the next event, which is an answer or a layer. NULL, or a message. */
static char *await_event(struct python *p, uint32_t seen)
{
	struct shared *s = p->shared;
	nsec since = clock_peek();
	while (__atomic_load_n(&s->event, __ATOMIC_ACQUIRE) == seen) {
		if (!world_is_virtual && clock_peek() - since < SPIN_NS)
			continue;
		/* sums that were started travel while Python computes */
		const struct timespec look = {.tv_nsec = link_progress_sums() ? SUMS_NS : LOOK_NS};
		futex(&s->event, FUTEX_WAIT, seen, &look);
		char *dead = __atomic_load_n(&s->event, __ATOMIC_ACQUIRE) == seen ? death(p) : NULL;
		if (dead)
			return dead;
	}
	return NULL;
}

char *python_ask(struct python *p, struct python_request *r)
{
	struct shared *s = p->shared;
	uint32_t request = s->request + 1, ready = s->ready;
	s->command = r->command;
	s->slot = r->slot;
	s->at = r->at;
	s->rows = r->rows;
	s->key = r->key;
	s->share = r->share;
	s->layered = r->ready != NULL;
	s->trial = r->trial;
	uint32_t seen = __atomic_load_n(&s->event, __ATOMIC_ACQUIRE);
	__atomic_store_n(&s->request, request, __ATOMIC_SEQ_CST);
	futex(&s->request, FUTEX_WAKE, 1, NULL);
	for (;;) {
		for (; r->ready && __atomic_load_n(&s->ready, __ATOMIC_ACQUIRE) != ready; ready++)
			r->ready(r->ctx);
		if (__atomic_load_n(&s->answer, __ATOMIC_ACQUIRE) == request)
			break;
		TRY(await_event(p, seen));
		seen = __atomic_load_n(&s->event, __ATOMIC_ACQUIRE);
	}
	if (s->status)
		return sentence("%s", python_said(p));
	r->loss = s->loss;
	r->count = s->count;
	r->correct = s->correct;
	return NULL;
}

void *python_map(struct python *p, size_t bytes, int64_t *at)
{
	*at = p->regions_end;
	p->regions_end += (int64_t)((bytes + PAGE - 1) / PAGE * PAGE);
	void *map = MAP_FAILED;
	if (ftruncate(p->regions, (off_t)p->regions_end) == 0)
		map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, p->regions, (off_t)*at);
	return must(map == MAP_FAILED ? NULL : map);
}

void python_unmap(void *region, size_t bytes)
{
	munmap(region, bytes);
}
