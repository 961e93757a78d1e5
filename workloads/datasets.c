/*
 * datasets.c - the memory of data sets.
 */
#include "workloads/datasets.h"

#include <stdlib.h>

static void part_free(struct data *d)
{
	free((void *)d->bytes);
	free((void *)d->floats);
	free((void *)d->target);
	*d = (struct data){0};
}

void data_unload(struct data *train, struct data *test)
{
	part_free(train);
	part_free(test);
}

bool data_room(struct data *d)
{
	d->bytes = calloc(d->n, d->features);
	d->target = calloc(d->n, sizeof *d->target);
	return d->bytes && d->target;
}
