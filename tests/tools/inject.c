/*
 * inject.c - for LD_PRELOAD: counts, fails or logs what a command and its processes do to the files
 * of one folder: open, write, fsync, ftruncate, rename, unlink. scripts/chaos_each.py sets:
 *   INJECT_UNDER  the folder
 *   INJECT_STATE  a file of struct state, which all processes of the command share
 *   INJECT_AT     the number of the operation that fails, from 1
 *   INJECT_FAULT  an errno, or 0: the process is killed there, in the middle of a write
 *   INJECT_LOG    a file: no operation fails, and each is appended as "KIND OFFSET LENGTH PATH [NEW
 * PATH]\n", with the bytes of a write after it With ENOSPC all later operations fail too that make
 * a file or write to one.
 */

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SHOWN         __attribute__((visibility("default")))
#define REAL(name)    ((__typeof__(&(name)))dlsym(RTLD_NEXT, #name))
#define LOGGED(...)   (log_fd >= 0 ? log_line(__VA_ARGS__) : (void)0)
#define IS_OUT(flags) (((flags) & (O_CREAT | O_TRUNC)) != 0)

static struct state {
	_Atomic int count; /* of operations */
	_Atomic int busy;  /* one process logs at a time */
	char failed[240];  /* the operation that failed first */
} * state, own_state;
static const char *under;
static int at, fault, log_fd = -1;

__attribute__((constructor)) static void begin(void)
{
	const char *file = getenv("INJECT_STATE"), *log = getenv("INJECT_LOG");
	int fd = file ? REAL(open)(file, O_RDWR | O_CLOEXEC) : -1;
	void *map = fd >= 0 ? mmap(NULL, sizeof *state, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)
			    : MAP_FAILED;
	state = map == MAP_FAILED ? &own_state : map;
	under = getenv("INJECT_UNDER");
	at = atoi(getenv("INJECT_AT") ? getenv("INJECT_AT") : "0");
	fault = atoi(getenv("INJECT_FAULT") ? getenv("INJECT_FAULT") : "0");
	if (log)
		log_fd = REAL(open)(log, O_WRONLY | O_APPEND | O_CLOEXEC);
}

static void die(void)
{
	kill(getpid(), SIGKILL);
	pause();
}

static bool in_folder(const char *path, char real[PATH_MAX])
{
	size_t n = under ? strlen(under) : 0;
	if (*path == '/')
		snprintf(real, PATH_MAX, "%s", path);
	else if (getcwd(real, PATH_MAX - NAME_MAX - 2))
		snprintf(real + strlen(real), NAME_MAX + 2, "/%s",
			 strncmp(path, "./", 2) == 0 ? path + 2 : path);
	return n > 0 && strncmp(real, under, n) == 0 && (real[n] == '/' || !real[n]);
}

static bool of_file(int fd, char real[PATH_MAX])
{
	char link[64], to[PATH_MAX] = "";
	int before = errno;
	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	bool is = readlink(link, to, sizeof to - 1) > 0 && *to == '/' && in_folder(to, real);
	errno = before;
	return is;
}

/* Must this operation fail? With *half, a write dies by itself after half of its bytes. */
static bool fails(const char *kind, const char *path, bool grows, bool *half)
{
	int n = atomic_fetch_add(&state->count, 1) + 1;
	if (at == 0 || (n != at && !(n > at && fault == ENOSPC && grows)))
		return false;
	if (n == at)
		snprintf(state->failed, sizeof state->failed, "%s %s", kind, path);
	if (fault == 0 && half)
		*half = true;
	else if (fault == 0)
		die();
	errno = fault;
	return true;
}

/* Around each logged operation: the order of the log is that of the operations. */
static void lock(void)
{
	while (log_fd >= 0 && atomic_exchange(&state->busy, 1))
		usleep(10);
}

static void unlock(void)
{
	atomic_store(&state->busy, 0);
}

static void log_line(const char *kind, long long offset, size_t length, const char *path,
		     const char *to, const void *bytes)
{
	char line[2 * PATH_MAX + 64];
	int before = errno,
	    n = snprintf(line, sizeof line, "%s %lld %zu %s %s\n", kind, offset, length, path, to);
	if (REAL(write)(log_fd, line, (size_t)n) != n ||
	    (bytes && REAL(write)(log_fd, bytes, length) != (ssize_t)length))
		abort();
	errno = before;
}

static int do_open(const char *path, int flags, mode_t mode)
{
	char real[PATH_MAX];
	if (!in_folder(path, real))
		return REAL(open)(path, flags, mode);
	if (fails("open", real, IS_OUT(flags), NULL))
		return -1;
	lock();
	int fd = REAL(open)(path, flags, mode);
	if (fd >= 0 && IS_OUT(flags))
		LOGGED(flags & O_TRUNC ? "truncate" : "create", 0, 0, real, "", NULL);
	unlock();
	return fd;
}

static ssize_t do_write(int fd, const void *x, size_t bytes, off_t offset)
{
	char real[PATH_MAX];
	bool there = of_file(fd, real), half = false;
	if (there && fails("write", real, true, &half) && !half)
		return -1;
	off_t begin = !there || offset >= 0           ? offset
		      : fcntl(fd, F_GETFL) & O_APPEND ? lseek(fd, 0, SEEK_END)
						      : lseek(fd, 0, SEEK_CUR);
	if (there)
		lock();
	bytes = half ? bytes / 2 : bytes;
	ssize_t n = offset < 0 ? REAL(write)(fd, x, bytes) : REAL(pwrite)(fd, x, bytes, offset);
	if (half)
		die();
	if (there && n > 0)
		LOGGED("write", begin, (size_t)n, real, "", x);
	if (there)
		unlock();
	return n;
}

static int do_sync(int fd, int (*sync)(int))
{
	char real[PATH_MAX];
	if (!of_file(fd, real))
		return sync(fd);
	if (fails("fsync", real, false, NULL))
		return -1;
	lock();
	int failed = sync(fd);
	if (!failed)
		LOGGED("fsync", 0, 0, real, "", NULL);
	unlock();
	return failed;
}

static int do_truncate(int fd, off_t length)
{
	char real[PATH_MAX];
	if (!of_file(fd, real))
		return REAL(ftruncate)(fd, length);
	if (fails("ftruncate", real, true, NULL))
		return -1;
	lock();
	int failed = REAL(ftruncate)(fd, length);
	if (!failed)
		LOGGED("ftruncate", length, 0, real, "", NULL);
	unlock();
	return failed;
}

static mode_t mode_of(int flags, va_list args)
{
	return flags & (O_CREAT | O_TMPFILE) ? va_arg(args, mode_t) : 0;
}

#define OPEN(name) \
	SHOWN int name(const char *path, int flags, ...) \
	{ \
		va_list args; \
		va_start(args, flags); \
		mode_t mode = mode_of(flags, args); \
		va_end(args); \
		return do_open(path, flags, mode); \
	}
OPEN(open)
OPEN(open64)

SHOWN ssize_t write(int fd, const void *x, size_t bytes)
{
	return do_write(fd, x, bytes, -1);
}

SHOWN ssize_t pwrite(int fd, const void *x, size_t bytes, off_t offset)
{
	return do_write(fd, x, bytes, offset);
}

SHOWN ssize_t pwrite64(int fd, const void *x, size_t bytes, off_t offset)
{
	return do_write(fd, x, bytes, offset);
}

SHOWN int fsync(int fd)
{
	return do_sync(fd, REAL(fsync));
}

SHOWN int fdatasync(int fd)
{
	return do_sync(fd, REAL(fdatasync));
}

SHOWN int ftruncate(int fd, off_t length)
{
	return do_truncate(fd, length);
}

SHOWN int ftruncate64(int fd, off_t length)
{
	return do_truncate(fd, length);
}

SHOWN int rename(const char *from, const char *to)
{
	char real[PATH_MAX], real_to[PATH_MAX];
	if (!in_folder(from, real) || !in_folder(to, real_to))
		return REAL(rename)(from, to);
	if (fails("rename", real, true, NULL))
		return -1;
	lock();
	int failed = REAL(rename)(from, to);
	if (!failed)
		LOGGED("rename", 0, 0, real, real_to, NULL);
	unlock();
	return failed;
}

SHOWN int unlink(const char *path)
{
	char real[PATH_MAX];
	if (!in_folder(path, real))
		return REAL(unlink)(path);
	if (fails("unlink", real, false, NULL))
		return -1;
	lock();
	int failed = REAL(unlink)(path);
	if (!failed)
		LOGGED("unlink", 0, 0, real, "", NULL);
	unlock();
	return failed;
}

/* ---- Streams: the C library writes their bytes by functions that cannot be replaced -------------
 */

enum { STREAMS = 64 };
static struct stream {
	FILE *f;
	int fd;
} streams[STREAMS];

static ssize_t stream_write(void *s, const char *x, size_t bytes)
{
	ssize_t n = do_write(((struct stream *)s)->fd, x, bytes, -1);
	return n < 0 ? 0 : n;
}

static int stream_close(void *s)
{
	struct stream *stream = s;
	stream->f = NULL;
	return close(stream->fd);
}

static int stream_seek(void *s, off64_t *offset, int whence)
{
	*offset = lseek(((struct stream *)s)->fd, *offset, whence);
	return *offset < 0 ? -1 : 0;
}

SHOWN FILE *fdopen(int fd, const char *mode)
{
	char real[PATH_MAX];
	struct stream *s = streams;
	if (*mode == 'r' || !of_file(fd, real))
		return REAL(fdopen)(fd, mode);
	while (s < streams + STREAMS && s->f)
		s++;
	if (s == streams + STREAMS)
		abort();
	s->fd = fd;
	return s->f = fopencookie(s, mode,
				  (cookie_io_functions_t){.write = stream_write,
							  .seek = stream_seek,
							  .close = stream_close});
}

SHOWN FILE *fopen(const char *path, const char *mode)
{
	char real[PATH_MAX];
	if (!in_folder(path, real))
		return REAL(fopen)(path, mode);
	int flags =
		*mode == 'r' ? O_RDONLY : O_WRONLY | O_CREAT | (*mode == 'w' ? O_TRUNC : O_APPEND);
	int fd = do_open(path, strchr(mode, '+') ? (flags & ~O_WRONLY) | O_RDWR : flags, 0666);
	return fd < 0 ? NULL : fdopen(fd, mode);
}

SHOWN int fileno(FILE *f)
{
	for (struct stream *s = streams; s < streams + STREAMS; s++)
		if (f && s->f == f)
			return s->fd;
	return REAL(fileno)(f);
}
