/*
 * cubes.c - flashlight's regression data (its tutorial on distributed training), made from the
 * seed:
 *
 *     x ~ U[1, 2]^10,  y = sum_j x_j^3 + sin(2 pi u),  u ~ U[0, 1)
 *
 * The sine is noise that no model of x can predict: its variance, 0.5, is the smallest possible
 * MSE. The tutorial draws 10,000 rows for training. The 2,000 test rows come from another stream of
 * random numbers.
 *
 * --data-dir may give rows of your own with a number each (arrays.c). Other folders are for other
 * models.
 */
#include "workloads/arrays.h"

#include <math.h>
#include <stdlib.h>

enum { FEATURES = 10, TRAIN = 10000, TEST = 2000 };

static char *cubes_probe(const struct run *run, struct data *train, struct data *test)
{
	if (arrays_given(run))
		return arrays_get(run, train, test, true, false);
	*train = (struct data){.n = TRAIN, .features = FEATURES, .value_size = sizeof(float)};
	*test = (struct data){.n = TEST, .features = FEATURES, .value_size = sizeof(float)};
	return NULL;
}

static void cubes_draw(struct data *d, uint64_t rng)
{
	float *x = malloc(d->n * FEATURES * sizeof *x), *y = malloc(d->n * sizeof *y);
	CHECK(x && y, "out of memory: %zu rows", d->n);
	for (size_t i = 0; i < d->n; i++) {
		double sum = 0;

		for (size_t j = 0; j < FEATURES; j++) {
			double u = 1 + rng_uniform(&rng);

			x[i * FEATURES + j] = (float)u;
			sum += u * u * u;
		}
		y[i] = (float)(sum + sin(2 * M_PI * rng_uniform(&rng)));
	}
	d->floats = x;
	d->target = y;
}

static char *cubes_load(const struct run *run, struct data *train, struct data *test)
{
	if (arrays_given(run))
		return arrays_get(run, train, test, true, true);
	cubes_probe(run, train, test);
	cubes_draw(train, rng_seed(run_seed(run), RNG_DATA, 0));
	cubes_draw(test, rng_seed(run_seed(run), RNG_DATA, 1));
	return NULL;
}

const struct dataset dataset_cubes = {
	.name = "cubes",
	.summary = "10,000 + 2,000 rows of a sum of ten cubes and noise, made from the seed; or a "
		   "set of your own",
	.probe = cubes_probe,
	.load = cubes_load,
	.unload = data_unload,
	.of_seed = true,
};
