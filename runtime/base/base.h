/*
 * base.h - the lowest layer: how a process ends, texts, hashes, children, files.
 *
 * A function that can find a user's error returns a message ("sentence", on the heap, the caller
 * frees it), or NULL if there is no error. Times are in seconds unless the type is nsec.
 */
#ifndef BASE_H
#define BASE_H

#include "runtime/base/common.h"
#include "runtime/base/rng.h"

#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

typedef int64_t nsec; /* nanoseconds */

/* ---- Exit statuses and messages ------------------------------------------ */

/* The reason of a run that was stopped from outside begins with this. */
#define INTERRUPTED "interrupted"
#define REFUSED     "refused"

enum { EXIT_OK = 0, EXIT_FAILED = 1, EXIT_USER = 2, EXIT_DIVERGED = 3, EXIT_INTERRUPTED = 130 };

/* Declares a function that a loaded module (runtime/device/cuda_module.c) calls, too. */
#define EXPORTED __attribute__((visibility("default")))

EXPORTED void *must(void *p); /* returns p; NULL ends the process: out of memory */
/* Sets the function that gets a user_error's message (on the heap); it must not return. NULL = the
 * message goes to the terminal. */
void user_error_handler(void (*f)(const char *sentence));

/* Prints the message to stderr, frees it, and returns EXIT_USER. */
int complain(char *wrong);
/* Replaces control characters, except newlines and tabs, because a terminal would obey them. */
void text_disarm(char *s);

/* Those that end this process from outside: SIGINT, SIGTERM and SIGHUP, except ignored ones. */
sigset_t end_signals(void);
/* Is such a signal pending, because it is blocked? (They are blocked during a run.) */
bool end_is_requested(void);
/* The same; the signal is then no longer pending. */
bool end_take(void);
/* Starts a thread that blocks all signals, which are for the program's own threads. */
bool thread_start(pthread_t *thread, void *(*loop)(void *self), void *self);

/* A function with a loop, in code for any x86-64 (ARCH=): it is compiled twice, and the processor
 * chooses. The bits are the same, unless the loop sums. Sanitizers run before such a choice. */
#if defined __x86_64__ && !defined __AVX2__ && !defined __clang__ && \
	!defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__
#define BEST_OF_CPU __attribute__((target_clones("default", "arch=x86-64-v3")))
#else
#define BEST_OF_CPU
#endif

/* Frees the memory of a pointer at the end of its block: char *text AUTOFREE = sentence(...). */
static inline void autofree(void *pointer)
{
	free(*(void **)pointer);
}
#define AUTOFREE __attribute__((cleanup(autofree)))
/* The same for an open file: int fd AUTOCLOSED = open(...). */
static inline void autoclose(int *fd)
{
	if (*fd >= 0)
		close(*fd);
}
#define AUTOCLOSED __attribute__((cleanup(autoclose)))

/* Appends an element to a list on the heap. */
#define APPEND(list, n, ...) \
	((list) = must(realloc((list), ((n) + 1) * sizeof *(list))), (list)[(n)++] = (__VA_ARGS__))

/* A text under construction: everything written to its file becomes a string on the heap. */
struct text {
	FILE *f;
	char *at;
	size_t n;
};
static inline FILE *text_open(struct text *t)
{
	return t->f = (FILE *)must(open_memstream(&t->at, &t->n));
}
static inline char *text_close(struct text *t)
{
	fclose(t->f);
	return t->at;
}

/* Defines a function that finds a name in a NULL-terminated list of pointers to structs. It returns
 * the struct of that name, or NULL. */
#define FIND_BY_NAME(kind, function, list, field) \
	const struct kind *function(const char *wanted) \
	{ \
		size_t i = 0; \
		while (list[i] && strcmp(list[i]->field, wanted) != 0) \
			i++; \
		return list[i]; \
	}

static inline size_t smaller(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Stops at the first error other than EINTR; the rest is then lost. */
void write_all(int fd, const void *x, size_t bytes);

/* For qsort: doubles, or structs that begin with a double, in ascending order. */
static inline int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

/* Continues the FNV-1a hash h with more bytes. */
#define HASH_START UINT64_C(14695981039346656037)
static inline uint64_t hash_of(uint64_t h, const void *x, size_t bytes)
{
	for (const unsigned char *at = (const unsigned char *)x; bytes > 0; at++, bytes--)
		h = (h ^ *at) * UINT64_C(1099511628211);
	return h;
}

/* SHA-256, in hexadecimal. Each begin needs an end, which frees. */
enum { SHA256_ROOM = 65 };
struct sha256 {
	struct evp_md_ctx_st *digest;
};
void sha256_begin(struct sha256 *s);
void sha256_add(struct sha256 *s, const void *x, size_t bytes);
bool sha256_file(struct sha256 *s, const char *path); /* a plain file; false and errno: failed */
void sha256_end(struct sha256 *s, char hex[SHA256_ROOM]);

/* Runs body in a child process, which ends with _exit or exec; if body returns, with status 127.
 * said: gets what it prints, up to the room; NULL: it prints to this process's streams. Returns its
 * status as waitpid does; -1 and errno: no child could be started. */
int child_run(void (*body)(const void *ctx), const void *ctx, char *said, size_t room);

/* A part of this machine failed, such as a GPU: ends all ranks; the run has failed. */
EXPORTED void failure(const char *fmt, ...) __attribute__((noreturn, format(printf, 1, 2)));
/* The last message of panic and failure begins with one of these, after the name of the process. */
#define BUG     "bug"
#define FAILURE "failure"
void panic_as(const char *name); /* sets the name of this process; not copied */
/* Prints the same message without ending the process; prints nothing before panic_as. */
void print_failure(const char *text);
/* Writes the last message here instead of to the terminal; another process prints it. */
void panic_to(char *text, size_t room);
/* Sets how panic and failure end all ranks. Without it only this process exits. */
void panic_abort_with(void (*f)(int status)); /* f does not return */

/* ---- Files (files.c) ---- */

/* Embeds a file of the source tree in the program as a string named symbol. */
#define TEXT_FILE(symbol, path) \
	__asm__(".pushsection .rodata\n" #symbol ":\n.incbin \"" path \
		"\"\n.byte 0\n.popsection\n"); \
	extern const char symbol[]

/* From the heap; NULL and errno when it cannot be read, or is larger than FILE_MOST (EFBIG). */
EXPORTED char *text_read(const char *path);
char *bytes_read(const char *path, size_t *n); /* the same; bytes 0 are part of it */
enum { FILE_MOST = 64 << 20 };                 /* [bytes] */
/* The first room - 1 bytes, as a string; for reading between steps, which allocates nothing. false:
 * it cannot be read. */
bool text_begins(const char *path, char *text, size_t room);
/* Makes a temporary folder whose name contains `name`; path: heap. Removes the temporary folders of
 * killed processes. NULL, or a message. */
char *folder_temporary(const char *name, char **path);
#define IN_MEMORY "/proc/self/fd/"
char *file_in_memory(const char *text); /* a path for this process and its children. Heap. */
char *folder_locked(const char *parent, const char *name, char **path); /* the same in parent */
const char *folder_for_now(void);                                       /* TMPDIR, or /tmp */
void folder_remove(const char *path);                                   /* with its contents */
/* Removed at the end of its block: char *folder AUTOREMOVED = NULL; */
static inline void autoremove(char **folder)
{
	if (*folder)
		folder_remove(*folder);
	free(*folder);
}
#define AUTOREMOVED __attribute__((cleanup(autoremove)))
EXPORTED int folder_make(const char *path); /* with its parents; 0, or errno */
int folder_make_own(const char *path);      /* the same, closed to other users whatever umask is */

/* An output file that a user named. A plain file is written under another name next to it, and
 * renamed when it is complete and on the disk. A link stays, and the file that it leads to is
 * written like this. Others, such as pipes, are written in place; "" is stdout. A database is never
 * overwritten. The next output in that folder removes the partial files of killed processes. */
struct output {
	FILE *f;
	const char *option; /* for messages: "--out=", or "" */
	char *path;         /* as the user named it */
	char *target;       /* the same without links; NULL: stdout */
	char *temporary;    /* NULL: written in place */
};
EXPORTED char *output_open(struct output *o, const char *option, const char *path);
/* Why an earlier write to it probably failed, which stdio does not keep: errno, or 0. */
int stream_failure(FILE *f);
/* Returns wrong, if any; then it removes the new file. */
EXPORTED char *output_close(struct output *o, char *wrong);
/* Removes the files of outputs that are open; a signal's handler may call it. */
void outputs_remove(void);
/* From here on a signal that ends programs prints these words, which must stay, and removes
 * unfinished output files, before it ends this process. */
void end_explain(const char *words);

/* ---- Installed files ---- */

/* A folder or file of the installation (plots, workloads/sweeps, sim/platforms/titanx4.xml): under
 * MVBENCH_HOME, above the build folder, or under ../share/mvbench. Heap; NULL: not found. */
char *installed_path(const char *name);
char *program_path(void); /* of this program, from the heap; "": not known */
/* Calls each for the files of such a folder that have this ending, in order; name: without it. */
void installed_each(const char *folder, const char *ending,
		    void (*each)(void *ctx, const char *name, const char *path), void *ctx);
bool program_exists(const char *program); /* in $PATH */

#endif
