/*
 * python.h - workloads in Python files: NAME.py, which another process reads and computes with.
 */
#ifndef PYTHON_H
#define PYTHON_H

#include "runtime/base/base.h"

struct workload;

/* ---- interpreter.c: the interpreter, and the files that it reads ---- */

/* The variable with the interpreter, and its name without it. */
#define PYTHON_VARIABLE "MVBENCH_PYTHON"
const char *python_interpreter(void);
char *python_missing(int error);  /* the message if it cannot be started */
const char *python_program(void); /* the text of the program that the interpreter runs */
/* Writes the description of the file path[0], which imports the others, to out. NULL, or a message.
 */
char *python_describe(const char *out, char *const *path, size_t n);

/* ---- process.c: a Python process, and the memory that it shares with this one ---- */

enum python_command { CONFIGURE, ATTACH, TARGETS, GRADIENT, EVALUATE, STATISTICS, LAYER_TIMES };

struct python;
/* What a request says, and its answer. */
struct python_request {
	enum python_command command;
	int64_t slot, at, rows; /* at: in the file of regions [bytes] */
	uint64_t key;
	double share;
	bool trial;               /* a gradient that is not part of the training */
	void (*ready)(void *ctx); /* called for each layer that is final; NULL = not asked for */
	void *ctx;
	double loss;
	int64_t count, correct;
};
/* Starts a process for a description. NULL and a message in *wrong: it did not start. */
struct python *python_start(const char *description, char **wrong);
/* Waits for the answer. NULL, or a message. */
char *python_ask(struct python *p, struct python_request *r);
/* Text of a request, or of an answer; bytes < PYTHON_TEXT. */
enum { PYTHON_TEXT = 65536 - 128, PYTHON_ROWS = 1 << 22 };
void python_say(struct python *p, const void *text, size_t bytes);
const char *python_said(const struct python *p);
int32_t *python_index(struct python *p); /* [PYTHON_ROWS]: rows of a request */
/* A new region of both processes, zeroed; it is kept until the process ends or python_unmap. */
void *python_map(struct python *p, size_t bytes, int64_t *at);
void python_unmap(void *region, size_t bytes);

/* ---- workload.c ---- */

/* A workload from such a description, whose sources have this hash; both stay until the process
 * ends. NULL, or a message. */
char *python_load(const char *description, const char *source, struct workload **out);

#endif
