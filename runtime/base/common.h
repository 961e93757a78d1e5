/*
 * common.h - what all code uses, plug-ins too: stopping, messages, parts of arrays.
 */
#ifndef COMMON_H
#define COMMON_H

#include <stddef.h>

#ifdef __CUDACC__
#define ON_DEVICE __host__ __device__ /* processors and GPUs compile this function */
#else
#define ON_DEVICE
#endif

#pragma GCC visibility push(default) /* as in mvbench.h */

/* A failed CHECK is a bug: it ends all ranks. */
void panic(const char *file, int line, const char *fmt, ...)
	__attribute__((noreturn, format(printf, 3, 4)));
#define CHECK(cond, ...) \
	do { \
		if (!(cond)) \
			panic(__FILE__, __LINE__, __VA_ARGS__); \
	} while (0)

/* Returns an error, a message or a code, to the caller's caller. For places where nothing must be
 * freed. */
#define TRY(call) \
	do { \
		__auto_type wrong_ = (call); \
		if (wrong_) \
			return wrong_; \
	} while (0)

/* A formatted string on the heap; the caller frees it. */
char *sentence(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Ends the run because of a user's input, with a message that says what to do. For collective data
 * loading and set-up: all ranks stop, exit status 2, nothing is recorded. */
void user_error(const char *fmt, ...) __attribute__((noreturn, format(printf, 1, 2)));

/* The start of part i of n floats cut into `parts` nearly equal parts; part_of(n, parts, parts) =
 * n. */
static inline size_t part_of(size_t n, size_t parts, size_t i)
{
	return (size_t)((unsigned __int128)n * i / parts);
}

#pragma GCC visibility pop
#endif
