/*
 * params.c - Multiverso's MVNetParamManager (seed 002): the parameters of a model of several
 * tensors are pushed and pulled in one call, and are read and written as one flat vector.
 *
 * Different on purpose: the manager decides on each process who initialises the model
 * (is_master_worker). Here it is always the master, unless the table's options say average or sum.
 *
 * This file is C++ as well: the tests compile it as both.
 */
#include "seeds.h"

enum { IN = 6, HIDDEN = 5, OUT = 3, TENSORS = 4, ROUNDS = 20 };
enum { SIZE = IN * HIDDEN + HIDDEN + HIDDEN * OUT + OUT };

static void expect(float is, float should, const char *what)
{
	if (is == should)
		return;
	fprintf(stderr, "worker %d: %s is %g; expected %g\n", mvb_worker_id(), what, (double)is,
		(double)should);
	exit(1);
}

int main(void)
{
	float w1[IN * HIDDEN], b1[HIDDEN], w2[HIDDEN * OUT], b2[OUT], flat[SIZE];
	float *const tensor[TENSORS] = {w1, b1, w2, b2};
	const size_t length[TENSORS] = {IN * HIDDEN, HIDDEN, HIDDEN * OUT, OUT};
	struct mvb_model *model;
	size_t size;
	must(mvb_init(NULL));
	int workers = mvb_num_workers(), id = mvb_worker_id();

	/* Every worker initialises differently, and gets the master's values: tensor t is 100 (t +
	 * 1). */
	for (int t = 0; t < TENSORS; t++)
		for (size_t i = 0; i < length[t]; i++)
			tensor[t][i] = (float)(100 * (t + 1) + 1000 * id);
	must(mvb_model_new(&model, tensor, length, TENSORS, NULL));
	must(mvb_model_size(model, &size));
	expect((float)size, SIZE, "the size");
	for (int t = 0; t < TENSORS; t++)
		expect(tensor[t][length[t] - 1], (float)(100 * (t + 1)), "an initial value");

	/* "Training": in each round, worker k adds k + 1 to every value. */
	for (int round = 0; round < ROUNDS; round++) {
		for (int t = 0; t < TENSORS; t++)
			for (size_t i = 0; i < length[t]; i++)
				tensor[t][i] += (float)(id + 1);
		must(mvb_model_sync(model)); /* update_all_param */
	}
	must(mvb_barrier());
	must(mvb_model_pull(model));
	float moved = (float)(ROUNDS * workers * (workers + 1) / 2);
	for (int t = 0; t < TENSORS; t++)
		expect(tensor[t][0], (float)(100 * (t + 1)) + moved, "a trained value");

	/* Reads all as one vector, in the order of the tensors, and writes it back. */
	must(mvb_model_flatten(model, flat, SIZE));
	expect(flat[0], 100 + moved, "the first of all values");
	expect(flat[IN * HIDDEN], 200 + moved, "the first value of b1");
	expect(flat[SIZE - 1], 400 + moved, "the last of all values");
	for (int i = 0; i < SIZE; i++)
		flat[i] = (float)i;
	must(mvb_model_unflatten(model, flat, SIZE));
	expect(w1[1], 1, "w1");
	expect(b2[OUT - 1], SIZE - 1, "b2");

	must(mvb_model_free(model));
	if (mvb_is_master())
		printf("%d tensors, %zu parameters, %d workers: all as expected\n", TENSORS, size,
		       workers);
	must(mvb_shutdown());
	return 0;
}
