/*
 * shell.h - for suites that start programs of the library's users: runs a shell command and checks
 * its status and what it prints.
 */
#ifndef SHELL_H
#define SHELL_H

/* Runs a shell command that has to end with this status; its output is then in `printed`. */
extern char printed[65536];
void run(int status, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* `printed` has to contain these words. */
void expect(const char *words);

/* A Python that imports this module; NULL: there is none, and the test counts as skipped. NumPy has
 * to be there with MVBENCH_REQUIRE=1, PyTorch need not. */
const char *python_with(const char *module);

/* A leak checker would report what Open MPI leaves behind. */
#define MPIRUN \
	"ASAN_OPTIONS=detect_leaks=0 timeout 100 mpirun --quiet --oversubscribe --bind-to none " \
	"-n "

#endif
