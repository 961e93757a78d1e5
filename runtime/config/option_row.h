/*
 * option_row.h - an option as a row of a table, which is its parser, range, help and results
 * column; and what all plug-ins have in common.
 */
#ifndef OPTION_ROW_H
#define OPTION_ROW_H

#include <stdbool.h>
#include <stddef.h>

enum option_type {
	OPT_INT,    /* field is int64_t */
	OPT_REAL,   /* double */
	OPT_BOOL,   /* bool */
	OPT_STRING, /* const char * */
	OPT_CHOICE, /* const char *, one of .choices */
	OPT_SIZE,   /* int64_t, bytes; takes KiB, MiB, GiB, kB, MB, GB */
	OPT_TIME,   /* double, seconds; takes us, ms, s, min, h */
	OPT_RATE,   /* double, bit/s; takes bit, kbit, mbit, gbit, tbit, kB, MB, GB, TB */
	OPT_COUNT,  /* double; takes k, M, G, T, P */
};

/* How a core option is stored, compared and replayed. */
struct option_facts {
	int label; /* its place in names of configurations; below 0: in short names; 0 = none */
	/* part: of short names, as " X=#"; #: its value. They omit its default, and plain. */
	const char *part, *plain;
	enum { AS_GIVEN, AS_USED, USED_IF_ANY, OF_SIMULATION, UNSTORED } stored;
	enum { REPLAY_MUST, REPLAY_MAY, REPLAY_OWN } replay; /* must it equal the recorded run's? */
	/* kept_apart: statistics never pool runs that differ in it; repeats: they pool over it
	 * (seed). */
	bool kept_apart, repeats;
	bool compared; /* defines what is compared: mvbench tune does not draw it */
	bool work; /* a part of the work of an epoch: of runs that differ in it, the times of epochs
		    * are not compared */
	bool common; /* mvbench run --help shows it; --help=all shows all */
	bool always; /* a part of the identity also with its default */
	bool trains; /* the trained model depends on it: of runs that differ in it, advise does not
		      * pool accuracies */
};

struct option {
	const char *name; /* "bucket", given as --allreduce.bucket=1MiB */
	enum option_type type;
	size_t offset;       /* of the field in the owner's options struct */
	const char *def;     /* as a user types it */
	double min, max;     /* inclusive; both 0 = any */
	const char *choices; /* OPT_CHOICE: "mean|sum" */
	bool incidental;     /* does not affect the result: not part of a cell's identity */
	/* Checks that a range cannot express: NULL or a sentence. NULL = no such check. */
	char *(*check)(const struct option *o, const char *text);
	struct option_facts core; /* from run_options.def */
	const char *help;         /* ends in its unit: "... [steps]" */
};

/* A row of an option table: field of struct OWNER, which the file defines; type, name, default,
 * help; then other members: .min = 1, .choices = "a|b". */
#define OPTION(field, type_, name_, def_, help_, ...) \
	{ \
		.name = name_, .type = OPT_##type_, .offset = offsetof(OWNER, field), .def = def_, \
		.help = help_, __VA_ARGS__ \
	}

struct setting {
	const char *name, *value; /* as a user types them; value NULL: a bare flag */
};

struct plugin {
	const char *name;             /* --strategy=NAME, and the results column */
	const char *summary;          /* one line for help */
	const struct option *options; /* ends at name NULL; NULL = no options */
	size_t opts_size;             /* of the options struct [bytes] */
};

#endif
