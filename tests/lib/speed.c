/*
 * speed.c - the time of an add and a get of a whole table, called from C. bench.sh also loads its
 * loop into LuaJIT and Python, where both sides alternate on one table in one run.
 *
 *     mpirun -n 2 speed FLOATS COUNT
 */
#include <libmvbench.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

double speed_now(void);
double speed_loop(struct mvb_table *t, const float *in, float *out, size_t n, int count);

double speed_now(void) /* [s] */
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Seconds for each add and get; -1: an error. */
double speed_loop(struct mvb_table *t, const float *in, float *out, size_t n, int count)
{
	double start = speed_now();
	for (int i = 0; i < count; i++)
		if (mvb_table_add(t, in, n, NULL) || mvb_table_get(t, out, n))
			return -1;
	return (speed_now() - start) / count;
}

int main(int argc, char **argv)
{
	size_t n = argc == 3 ? strtoul(argv[1], NULL, 10) : 0;
	float *in = calloc(n + 1, sizeof *in), *out = calloc(n + 1, sizeof *out);
	struct mvb_table *t;
	double s = -1;
	if (argc == 3 && in && out && !mvb_init(NULL) && !mvb_array_new(&t, n, NULL, NULL))
		s = speed_loop(t, in, out, n, atoi(argv[2]));
	if (s >= 0 && mvb_is_master())
		printf("%.3f us\n", 1e6 * s);
	else if (s < 0)
		fprintf(stderr, "speed FLOATS COUNT: %s\n", mvb_message());
	free(in), free(out);
	return mvb_shutdown() || s < 0;
}
