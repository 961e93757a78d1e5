/*
 * files.c - reads whole files, makes temporary folders, and writes output files: the user keeps the
 * old file until the new one is complete.
 */
#include "runtime/base/base.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

char *bytes_read(const char *path, size_t *n)
{
	enum { STEP = 65536 };
	size_t room = 0;
	char *text = NULL;
	ssize_t got = 0;
	int fd AUTOCLOSED = open(path, O_RDONLY | O_CLOEXEC);
	*n = 0;
	while (fd >= 0 && *n <= FILE_MOST) {
		if (*n + 1 >= room)
			text = must(realloc(text, room = 2 * room + STEP));
		got = read(fd, text + *n, room - *n - 1);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		*n += (size_t)got;
	}
	if (fd < 0 || got < 0 || *n > FILE_MOST) {
		int failed = *n > FILE_MOST ? EFBIG : errno;
		free(text);
		errno = failed;
		return NULL;
	}
	text[*n] = '\0';
	return text;
}

char *text_read(const char *path)
{
	size_t n;
	return bytes_read(path, &n);
}

bool text_begins(const char *path, char *text, size_t room)
{
	int fd AUTOCLOSED = open(path, O_RDONLY | O_CLOEXEC);
	size_t n = 0;
	ssize_t got = 1;
	while (fd >= 0 && got > 0 && n + 1 < room) {
		got = read(fd, text + n, room - 1 - n);
		n += got > 0 ? (size_t)got : 0;
	}
	text[n] = '\0';
	return fd >= 0 && got >= 0;
}

void write_all(int fd, const void *x, size_t bytes)
{
	for (const char *at = x; bytes > 0;) {
		ssize_t n = write(fd, at, bytes);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return;
		at += n;
		bytes -= (size_t)n;
	}
}

/* The temporary folders of this process, and their locks. */
static struct lock {
	dev_t dev;
	ino_t ino;
	int fd;
} * locks;
static size_t nlocks;

/* The lock holds until the folder is removed or the process ends. */
static void lock_folder(const char *path)
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) != 0)
		return;
	flock(fd, LOCK_SH);
	APPEND(locks, nlocks, (struct lock){st.st_dev, st.st_ino, fd});
}

static void unlock_folder(const char *path)
{
	struct stat st;
	if (lstat(path, &st) != 0)
		return;
	for (size_t i = 0; i < nlocks; i++)
		if (locks[i].dev == st.st_dev && locks[i].ino == st.st_ino) {
			close(locks[i].fd);
			locks[i--] = locks[--nlocks];
		}
}

/* Is this the rest of such a name? Of a folder: mkdtemp's six characters. Of a file: process id,
 * number and ending. */
static bool is_temporary_suffix(const char *rest, bool file)
{
	int end = 0;
	if (!file)
		return strlen(rest) == 6;
	return sscanf(rest, "%*[0-9]-%*[0-9].part%n", &end) == 0 && end > 0 && !rest[end];
}

/* Removes the folders, or files, with this start whose processes were killed: no process holds
 * their locks. Young ones stay, because their process may not have locked them yet. */
static void remove_leftovers(const char *parent, const char *start, bool files)
{
	enum { YOUNG_S = 2 };
	const int kind = files ? O_NONBLOCK : O_DIRECTORY;
	DIR *dir = opendir(parent);
	for (struct dirent *e; dir && (e = readdir(dir));) {
		struct stat st;
		size_t n = strlen(start);
		if (strncmp(e->d_name, start, n) != 0 || !is_temporary_suffix(e->d_name + n, files))
			continue;
		int fd AUTOCLOSED =
			openat(dirfd(dir), e->d_name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | kind);
		char *path AUTOFREE = sentence("%s/%s", parent, e->d_name);
		if (fd >= 0 && fstat(fd, &st) == 0 && st.st_uid == geteuid() &&
		    (files ? S_ISREG(st.st_mode) : (st.st_mode & 07777) == 0700) &&
		    time(NULL) - st.st_mtime > YOUNG_S && flock(fd, LOCK_EX | LOCK_NB) == 0) {
			if (files)
				unlink(path);
			else
				folder_remove(path);
		}
	}
	if (dir)
		closedir(dir);
}

/* Hidden, and with the host's name, because other hosts may not see a lock. Heap. */
static char *start_of(const char *name)
{
	char host[64] = "";
	gethostname(host, sizeof host - 1);
	return sentence(".mvbench-%s-%s-", name, host);
}

char *folder_locked(const char *parent, const char *name, char **path)
{
	char *start AUTOFREE = start_of(name);
	remove_leftovers(parent, start, false);
	*path = sentence("%s/%sXXXXXX", parent, start);
	if (mkdtemp(*path)) {
		lock_folder(*path);
		return NULL;
	}
	char *wrong = sentence("%s: cannot make a folder (%s): set TMPDIR to one that has room",
			       *path, strerror(errno));
	free(*path);
	*path = NULL;
	return wrong;
}

const char *folder_for_now(void)
{
	const char *folder = getenv("TMPDIR");
	return folder && *folder ? folder : "/tmp";
}

char *folder_temporary(const char *name, char **path)
{
	return folder_locked(folder_for_now(), name, path);
}

void folder_remove(const char *path)
{
	DIR *dir = opendir(path);
	for (struct dirent *e; dir && (e = readdir(dir));) {
		char *child AUTOFREE = sentence("%s/%s", path, e->d_name);
		bool self = strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0;
		if (!self && unlinkat(dirfd(dir), e->d_name, 0) != 0 && errno == EISDIR)
			folder_remove(child);
	}
	if (dir)
		closedir(dir);
	unlock_folder(path);
	rmdir(path);
}

static int make_folders(const char *path, mode_t mode)
{
	char *copy AUTOFREE = must(strdup(path));
	struct stat st;
	if (stat(path, &st) != 0) {
		TRY(errno == ENOENT && *path ? make_folders(dirname(copy), mode) : errno);
		if (mkdir(path, mode) != 0 && errno != EEXIST)
			return errno;
	}
	return stat(path, &st) == 0 && S_ISDIR(st.st_mode) ? 0 : ENOTDIR;
}

int folder_make(const char *path)
{
	return make_folders(path, 0777);
}

int folder_make_own(const char *path)
{
	return make_folders(path, 0700);
}

/* ---- Output files -------------------------------------------------------- */

static char *cannot_write(const struct output *o)
{
	const char *why = strerror(errno ? errno : EIO);
	if (!*o->path)
		return sentence("standard output cannot be written (%s)", why);
	return sentence("%s%s: the file cannot be written (%s)", o->option, o->path, why);
}

/* Is this an SQLite database, or a file that SQLite keeps next to one, under whatever name? A file
 * without read permission counts as one. */
static bool is_database(const char *path)
{
	static const struct {
		const char *start;
		size_t n;
	} kind[] = {{"SQLite format 3", 16},
		    {"\x37\x7f\x06\x82", 4},                  /* -wal */
		    {"\x37\x7f\x06\x83", 4},                  /* -wal, big-endian sums */
		    {"\x18\xe2\x2d", 4},                      /* -shm */
		    {"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7", 8}}; /* -journal */
	char head[16] = "";
	struct stat st;
	int fd AUTOCLOSED =
		stat(path, &st) == 0 && S_ISREG(st.st_mode) ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	if (fd < 0)
		return errno == EACCES;
	bool whole = read(fd, head, sizeof head) == sizeof head, is = false;
	for (size_t i = 0; i < sizeof kind / sizeof *kind; i++)
		is |= whole && memcmp(head, kind[i].start, kind[i].n) == 0;
	return is;
}

/* Is this an SQLite database, or a -wal, -shm or -journal file of one? */
static bool belongs_to_database(const char *path)
{
	static const char *const ending[] = {"", "-wal", "-shm", "-journal"};
	char *real AUTOFREE = realpath(path, NULL);
	bool belongs = false;
	path = real ? real : path;
	for (size_t i = 0; i < sizeof ending / sizeof *ending; i++) {
		size_t n = strlen(path), m = strlen(ending[i]);
		char *stem AUTOFREE = sentence("%s", path);
		if (n < m || strcmp(path + n - m, ending[i]) != 0)
			continue;
		stem[n - m] = '\0';
		belongs |= is_database(stem);
	}
	return belongs;
}

/* "some/folder/" of "some/folder/name"; "" without a folder. Heap. */
static char *folder_of(const char *path)
{
	const char *slash = strrchr(path, '/');
	return sentence("%.*s", slash ? (int)(slash - path + 1) : 0, path);
}

/* The name that the links at the end of a path lead to; it need not exist. Links in /proc, such as
 * /dev/stdout, are open files: they end the search. Heap; NULL and errno: the system does not
 * follow them, such as loops, and other users' links in a shared folder. */
static char *follow_links(const char *path)
{
	enum { LINKS_MOST = 40 };
	struct stat st, proc = {0};
	char *name, to[PATH_MAX];
	if (stat(path, &st) != 0 && errno != ENOENT)
		return NULL;
	lstat("/proc/self", &proc);
	name = must(strdup(path));
	for (int i = 0; i < LINKS_MOST; i++) {
		ssize_t n = lstat(name, &st) == 0 && st.st_dev != proc.st_dev
				    ? readlink(name, to, sizeof to)
				    : -1;
		if (n < 0 || n == sizeof to)
			break;
		char *folder AUTOFREE = *to == '/' ? must(strdup("")) : folder_of(name);
		free(name);
		name = sentence("%s%.*s", folder, (int)n, to);
	}
	return name;
}

/* Paths of output files that are not complete; a signal's handler may read them at any time. */
enum { UNFINISHED_MOST = 16 };
static const char *volatile unfinished[UNFINISHED_MOST];

/* Puts `to` where `from` is; NULL is a free place. */
static void replace_unfinished(const char *from, const char *to)
{
	size_t i = 0;
	while (i < UNFINISHED_MOST && unfinished[i] != from)
		i++;
	if (i < UNFINISHED_MOST)
		unfinished[i] = to;
}

void outputs_remove(void)
{
	for (size_t i = 0; i < UNFINISHED_MOST; i++)
		if (unfinished[i])
			unlink(unfinished[i]);
}

static struct {
	pid_t process; /* a child inherits the handler, and only ends */
	const char *words;
} explained;

/* Calls only what a handler may call. The signal ends the process when this returns. */
static void explain_end(int number)
{
	if (getpid() == explained.process) {
		outputs_remove();
		write_all(STDERR_FILENO, explained.words, strlen(explained.words));
	}
	signal(number, SIG_DFL);
	raise(number);
}

void end_explain(const char *words)
{
	sigset_t signals = end_signals();
	explained.words = words;
	explained.process = getpid();
	for (int i = 1; i < SIGRTMIN; i++)
		if (sigismember(&signals, i))
			signal(i, explain_end);
}

/* A new file next to the other, with the other's permissions if it exists; locked until it is
 * closed. Removes such files of killed processes. */
static FILE *open_temporary(struct output *o, const struct stat *old)
{
	char *folder AUTOFREE = folder_of(o->target);
	char *start AUTOFREE = start_of("out");
	unsigned number = 0;
	int fd;
	remove_leftovers(*folder ? folder : ".", start, true);
	do {
		free(o->temporary);
		o->temporary = sentence("%s%s%d-%u.part", folder, start, (int)getpid(), number);
		fd = open(o->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	} while (fd < 0 && errno == EEXIST && number++ < 1000);
	if (fd >= 0) {
		flock(fd, LOCK_SH);
		replace_unfinished(NULL, o->temporary);
	}
	if (fd >= 0 && old && fchmod(fd, old->st_mode & 07777) != 0)
		errno = 0; /* another user's file: the new one belongs to this user */
	return fd >= 0 ? fdopen(fd, "w") : NULL;
}

static void output_free(struct output *o)
{
	if (o->temporary)
		replace_unfinished(o->temporary, NULL);
	free(o->temporary);
	free(o->target);
	free(o->path);
}

char *output_open(struct output *o, const char *option, const char *path)
{
	struct stat st;
	*o = (struct output){.option = option, .path = must(strdup(path)), .f = stdout};
	if (!*path)
		return NULL;
	o->target = follow_links(path);
	bool there = o->target && lstat(o->target, &st) == 0,
	     database = o->target && belongs_to_database(o->target);
	o->f = !o->target || database          ? NULL
	       : there && !S_ISREG(st.st_mode) ? fopen(path, "w")
					       : open_temporary(o, there ? &st : NULL);
	if (o->f)
		return NULL;
	char *wrong = database ? sentence("%s%s: this is a database, or belongs to one: name "
					  "another file",
					  option, path)
			       : cannot_write(o);
	output_free(o);
	return wrong;
}

/* Writes nothing, because the file can be the user's standard output. */
int stream_failure(FILE *f)
{
	enum { BUFFER = 65536 };
	struct stat st;
	struct statvfs disk;
	struct rlimit most;
	if (fstat(fileno(f), &st) != 0 || !S_ISREG(st.st_mode))
		return 0;
	if (getrlimit(RLIMIT_FSIZE, &most) == 0 && most.rlim_cur != RLIM_INFINITY &&
	    (rlim_t)st.st_size + BUFFER > most.rlim_cur)
		return EFBIG;
	bool full = fstatvfs(fileno(f), &disk) == 0 && disk.f_bavail * disk.f_frsize < BUFFER;
	return full ? ENOSPC : 0;
}

/* A new name is on the disk only when its folder is. Folders of some file systems cannot be synced.
 */
static void sync_folder(const char *path)
{
	char *folder AUTOFREE = folder_of(path);
	int fd AUTOCLOSED = open(*folder ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd >= 0)
		fsync(fd);
}

/* Closing the file releases its lock; it is therefore renamed before. */
char *output_close(struct output *o, char *wrong)
{
	bool bad = ferror(o->f) != 0;
	errno = bad ? stream_failure(o->f) : 0;
	bad |= fflush(o->f) != 0 || (o->temporary && fsync(fileno(o->f)) != 0);
	if (!wrong && (bad || (o->temporary && rename(o->temporary, o->target) != 0)))
		wrong = cannot_write(o);
	if (!wrong && o->temporary)
		sync_folder(o->target);
	if (wrong && o->temporary)
		unlink(o->temporary);
	if (o->f != stdout && fclose(o->f) != 0 && !wrong && !o->temporary)
		wrong = cannot_write(o);
	output_free(o);
	return wrong;
}

char *file_in_memory(const char *text)
{
	int fd = memfd_create("file", 0);
	CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text), "memfd: %m");
	return sentence(IN_MEMORY "%d", fd);
}
