/*
 * endless.c - trains without end, for tests that kill one of its processes: it uses a table without
 * waits, one with rounds, and a reduction, in turn. Every worker prints "ready" when all have done
 * that once.
 *
 *     endless SERVERS [FILE RANK SIZE]      FILE: instead of mpirun, see file.c
 */
#include <libmvbench.h>

#include <stdio.h>
#include <stdlib.h>

enum { N = 50000 };

int main(int argc, char **argv)
{
	struct mvb_setup setup = {.servers = argc > 1 ? atoi(argv[1]) : 0};
	const struct mvb_options in_rounds = {.rounds = true};
	static float x[N], y[N];
	struct mvb_table *free_for_all, *rounds;
	if (argc > 4) {
		setup.file = argv[2];
		setup.rank = atoi(argv[3]);
		setup.size = atoi(argv[4]);
	}
	int failed = mvb_init(&setup);
	if (mvb_is_server())
		return mvb_shutdown();
	failed = failed || mvb_array_new(&free_for_all, N, x, NULL) ||
		 mvb_array_new(&rounds, N, NULL, &in_rounds);
	for (int i = 0; !failed; i++) {
		failed = mvb_table_sync(free_for_all, x, N) ||
			 mvb_table_add_get(rounds, x, N, NULL, y) || mvb_allreduce(y, N, MVB_MEAN);
		if (i == 0 && printf("ready\n") > 0)
			fflush(stdout);
	}
	fprintf(stderr, "worker %d: %s\n", mvb_worker_id(), mvb_message());
	return mvb_shutdown() || failed;
}
