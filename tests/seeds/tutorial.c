/*
 * tutorial.c - Multiverso's tutorial (seeds 000 and 001) as a program: start, a table, an initial
 * model in each of the tutorial's three ways, training that pushes and pulls, a barrier every ten
 * epochs, an action of the master only, and the end.
 *
 *     mpirun -n 2 tutorial [rounds]        rounds: all workers push in each round
 *
 * Different on purpose: the tutorial pushes +learningRate * gradParams to a server that adds it,
 * which increases the loss; here -lr * gradient is pushed. And the barrier waits for the pushes, as
 * the tutorial assumes.
 *
 * The model is linear, y = w x, and learned from points without noise: the loss has to fall to 0.
 */
#include "seeds.h"

#include <string.h>

enum { FEATURES = 8, ROWS = 64, EPOCHS = 200 };

static struct mvb_options options;

static float uniform(unsigned *state) /* in [-1, 1) */
{
	*state = *state * 1664525u + 1013904223u;
	return (float)(*state >> 8) / (float)(1 << 23) - 1;
}

/* This worker's points; the true model is w[i] = i - 3. */
static void make_data(float x[ROWS][FEATURES], float y[ROWS], unsigned seed)
{
	for (int r = 0; r < ROWS; r++) {
		y[r] = 0;
		for (int i = 0; i < FEATURES; i++) {
			x[r][i] = uniform(&seed);
			y[r] += (float)(i - 3) * x[r][i];
		}
	}
}

/* The mean squared error of w, and its gradient. */
static float loss_of(float x[ROWS][FEATURES], const float y[ROWS], const float w[FEATURES],
		     float gradient[FEATURES])
{
	float loss = 0;
	for (int i = 0; i < FEATURES; i++)
		gradient[i] = 0;
	for (int r = 0; r < ROWS; r++) {
		float error = -y[r];
		for (int i = 0; i < FEATURES; i++)
			error += w[i] * x[r][i];
		for (int i = 0; i < FEATURES; i++)
			gradient[i] += 2 * error * x[r][i] / ROWS;
		loss += error * error / ROWS;
	}
	return loss;
}

/* The table begins with the master's values. */
static struct mvb_table *start_with_tables(float w[FEATURES])
{
	struct mvb_table *table;
	must(mvb_array_new(&table, FEATURES, w, &options));
	return table;
}

/* Every worker starts with the model that the master pushed. In rounds the others push zeros. */
static struct mvb_table *start_with_masters(float w[FEATURES])
{
	static const float zeros[FEATURES];
	struct mvb_table *table;
	must(mvb_array_new(&table, FEATURES, NULL, &options));
	if (mvb_is_master() || options.rounds)
		must(mvb_table_add(table, mvb_is_master() ? w : zeros, FEATURES, NULL));
	must(mvb_barrier());
	must(mvb_table_get(table, w, FEATURES));
	return table;
}

/* Every worker contributes an equal share. */
static struct mvb_table *start_with_all(float w[FEATURES])
{
	struct mvb_table *table;
	must(mvb_array_new(&table, FEATURES, NULL, &options));
	for (int i = 0; i < FEATURES; i++)
		w[i] /= (float)mvb_num_workers();
	must(mvb_table_add(table, w, FEATURES, NULL));
	must(mvb_barrier());
	must(mvb_table_get(table, w, FEATURES));
	return table;
}

static float train(struct mvb_table *(*start)(float *), const char *name)
{
	static float x[ROWS][FEATURES], y[ROWS];
	float w[FEATURES], delta[FEATURES], loss = 0, first = 0;
	float lr = 0.1f / (float)mvb_num_workers();
	unsigned seed = (unsigned)mvb_worker_id() + 1;
	make_data(x, y, seed);
	for (int i = 0; i < FEATURES; i++)
		w[i] = uniform(&seed);
	struct mvb_table *table = start(w);
	must(mvb_barrier()); /* all have the initial model before any worker changes it */
	for (int epoch = 1; epoch <= EPOCHS; epoch++) {
		loss = loss_of(x, y, w, delta);
		first = epoch == 1 ? loss : first;
		for (int i = 0; i < FEATURES; i++)
			delta[i] *= -lr;
		must(mvb_table_add(table, delta, FEATURES, NULL));
		if (epoch % 10 == 0)
			must(mvb_barrier());
		must(mvb_table_get(table, w, FEATURES));
		if (mvb_is_master() && (epoch == 1 || epoch % 50 == 0))
			printf("%s, epoch %3d: loss %.6f\n", name, epoch, loss);
	}
	if (mvb_is_master())
		printf("%s, parameters:", name);
	for (int i = 0; mvb_is_master() && i < FEATURES; i++)
		printf(" %.9g%s", (double)w[i], i + 1 < FEATURES ? "" : "\n");
	must(mvb_table_free(table));
	return loss / first;
}

int main(int argc, char **argv)
{
	options.rounds = argc > 1 && strcmp(argv[1], "rounds") == 0;
	must(mvb_init(NULL));
	if (mvb_is_master())
		printf("%d workers, %s\n", mvb_num_workers(), mvb_backend());
	const float fell[] = {train(start_with_tables, "the table's model"),
			      train(start_with_masters, "the master's model"),
			      train(start_with_all, "everyone's model")};
	must(mvb_shutdown());
	if (fell[0] < 1e-3f && fell[1] < 1e-3f && fell[2] < 1e-3f)
		return 0;
	fprintf(stderr, "the loss fell to %g, %g, %g of what it was; expected less than 1e-3\n",
		(double)fell[0], (double)fell[1], (double)fell[2]);
	return 1;
}
