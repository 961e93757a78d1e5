#include <libmvbench.h>
#include <stdio.h>

enum { POINTS = 100, STEPS = 2000, SYNC_EVERY = 4 };

/* One step of your own training; here of w[0] x + w[1] towards y = 3 x + 2. */
static void train_step(float w[2], float lr)
{
	float slope = 0, offset = 0;
	for (int i = 0; i < POINTS; i++) {
		float x = (float)(i * mvb_num_workers() + mvb_worker_id()) / POINTS;
		float error = w[0] * x + w[1] - (3 * x + 2);
		slope += 2 * error * x / POINTS;
		offset += 2 * error / POINTS;
	}
	w[0] -= lr * slope;
	w[1] -= lr * offset;
}

int main(void)
{
	float w[2] = {0, 0};
	struct mvb_table *table;
	int failed = mvb_init(NULL) || mvb_array_new(&table, 2, w, NULL);
	for (int step = 1; step <= STEPS && !failed; step++) {
		train_step(w, 0.05f / (float)mvb_num_workers());
		if (step % SYNC_EVERY == 0) /* push the change of these steps, pull the model */
			failed = mvb_table_sync(table, w, 2);
	}
	if (!failed) /* wait until the pushes of all workers have arrived */
		failed = mvb_barrier() || mvb_table_get(table, w, 2);
	if (failed)
		fprintf(stderr, "worker %d: %s\n", mvb_worker_id(), mvb_message());
	else if (mvb_is_master())
		printf("y = %.2f x + %.2f; workers: %d\n", w[0], w[1], mvb_num_workers());
	return mvb_shutdown() || failed;
}
