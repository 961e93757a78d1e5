/*
 * file.c - processes that were started one by one find each other through a file, as with
 * flashlight's DistributedInit::FILE_SYSTEM. The reduction is that of flashlight's documentation: a
 * 3 x 3 tensor full of the rank, summed.
 *
 *     for r in 0 1 2 3; do ./file /tmp/meet $r 4 & done; wait
 *
 * ./file FILE RANK SIZE [SECONDS TO WAIT FOR THE OTHERS]. Exit status 3: the others did not start
 * in time; stdout has the library's message.
 */
#include <libmvbench.h>

#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
	if (argc < 4)
		return 2;
	const struct mvb_setup setup = {.file = argv[1],
					.rank = atoi(argv[2]),
					.size = atoi(argv[3]),
					.timeout_s = argc > 4 ? atof(argv[4]) : 0};
	float a[9], sum = (float)(setup.size * (setup.size - 1) / 2);
	struct mvb_table *t;
	int wrong = 0, code = mvb_init(&setup);
	if (code) {
		printf("%s: %s\n", mvb_error_name(code), mvb_message());
		mvb_shutdown(); /* ends MPI, if it was started */
		return code == MVB_ERR_START ? 3 : 1;
	}
	wrong += mvb_rank() != setup.rank || mvb_size() != setup.size;
	for (int i = 0; i < 9; i++)
		a[i] = (float)mvb_rank();
	wrong += mvb_allreduce(a, 9, MVB_SUM) || a[0] != sum || a[8] != sum;
	wrong += mvb_array_new(&t, 9, NULL, NULL) || mvb_table_add(t, a, 9, NULL) || mvb_barrier();
	wrong += mvb_table_get(t, a, 9) || a[4] != sum * (float)setup.size;
	if (mvb_is_master())
		printf("%d workers, %s\n", mvb_num_workers(), mvb_backend());
	wrong += mvb_shutdown() != MVB_OK;
	if (wrong)
		fprintf(stderr, "%d checks failed: %s\n", wrong, mvb_message());
	return wrong != 0;
}
