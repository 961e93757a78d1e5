/*
 * machine.h - where a run was made (machine.c).
 */
#ifndef MACHINE_H
#define MACHINE_H

#include "runtime/base/base.h"

struct machine { /* provenance; strings live as long as the program */
	const char *host, *cpu, *mpi, *onednn, *git_commit;
	const char *version; /* the commit, with -dirty if files were changed */
	int cores;
	bool git_dirty;
};
const struct machine *machine(void);

#endif
