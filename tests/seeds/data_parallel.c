/*
 * data_parallel.c - TorchAD-NN's data parallelism (seed 004): parallelize() divides the data set
 * among the workers. The models are averaged after every k batches; with -1 the program itself
 * calls synchronize_model().
 *
 *     mpirun -n 4 data_parallel [parameters]        parameters: also prints the trained models
 *
 * Different on purpose: parallelize() drops the size % N samples that do not divide; here shares
 * differ by one. All workers begin with the same model.
 *
 * The model is 2 -> 32 -> 3 with tanh between, on three arms of a spiral.
 */
#include "seeds.h"

#include <math.h>
#include <string.h>

enum {
	IN = 2,
	HIDDEN = 32,
	OUT = 3,
	TENSORS = 4,
	SIZE = 1001,
	BATCH = 10,
	EPOCHS = 150,
	EVERY = 4
};

struct model {
	float w1[HIDDEN][IN], b1[HIDDEN], w2[OUT][HIDDEN], b2[OUT];
};
static const size_t length[TENSORS] = {HIDDEN * IN, HIDDEN, OUT *HIDDEN, OUT};

/* This worker's share of the data, and the interval of averaging. */
struct parallel {
	int first, size;
	int every;   /* [batches]; -1: the program calls synchronize_model */
	int batches; /* batches since the last average */
};

static float uniform(unsigned *state) /* in [-1, 1) */
{
	*state = *state * 1664525u + 1013904223u;
	return (float)(*state >> 8) / (float)(1 << 23) - 1;
}

static void make_data(float x[SIZE][IN], int label[SIZE], unsigned seed)
{
	for (int r = 0; r < SIZE; r++) {
		float along = 0.5f + 0.5f * uniform(&seed);
		label[r] = r % OUT;
		float angle = 2.1f * (float)label[r] + 2.5f * along + 0.1f * uniform(&seed);
		x[r][0] = 2 * along * cosf(angle);
		x[r][1] = 2 * along * sinf(angle);
	}
}

/* ---- The functions that TorchAD-NN provides -------------------------------------- */

static void synchronize_model(struct model *m)
{
	float *const tensor[TENSORS] = {&m->w1[0][0], m->b1, &m->w2[0][0], m->b2};
	must(mvb_allreduce_list(tensor, length, TENSORS, MVB_MEAN));
}

static struct parallel parallelize(int size, int every)
{
	int id = mvb_worker_id(), workers = mvb_num_workers();
	int first = size * id / workers;
	return (struct parallel){
		.first = first, .size = size * (id + 1) / workers - first, .every = every};
}

/* Called after each batch. */
static void after_backward(struct parallel *p, struct model *m)
{
	if (p->every < 0 || ++p->batches < p->every)
		return;
	p->batches = 0;
	synchronize_model(m);
}

/* ---- The training ---------------------------------------------------------------- */

static void forward(const struct model *m, const float x[IN], float h[HIDDEN], float p[OUT])
{
	float sum = 0;
	for (int j = 0; j < HIDDEN; j++)
		h[j] = tanhf(m->b1[j] + m->w1[j][0] * x[0] + m->w1[j][1] * x[1]);
	for (int o = 0; o < OUT; o++) {
		p[o] = m->b2[o];
		for (int j = 0; j < HIDDEN; j++)
			p[o] += m->w2[o][j] * h[j];
		sum += p[o] = expf(p[o]);
	}
	for (int o = 0; o < OUT; o++)
		p[o] /= sum;
}

static void train_batch(struct model *m, float (*x)[IN], const int *label, int n)
{
	struct model step = {.b1 = {0}};
	float lr = 0.5f / (float)n;
	for (int r = 0; r < n; r++) {
		float h[HIDDEN], p[OUT];
		forward(m, x[r], h, p);
		p[label[r]] -= 1;
		for (int j = 0; j < HIDDEN; j++) {
			float dh = 0;
			for (int o = 0; o < OUT; o++) {
				step.w2[o][j] += p[o] * h[j];
				dh += p[o] * m->w2[o][j];
			}
			dh *= 1 - h[j] * h[j];
			step.w1[j][0] += dh * x[r][0];
			step.w1[j][1] += dh * x[r][1];
			step.b1[j] += dh;
		}
		for (int o = 0; o < OUT; o++)
			step.b2[o] += p[o];
	}
	float *param = (float *)m, *gradient = (float *)&step;
	for (size_t i = 0; i < sizeof *m / sizeof *param; i++)
		param[i] -= lr * gradient[i];
}

static float accuracy(const struct model *m, float (*x)[IN], const int *label)
{
	int correct = 0;
	for (int r = 0; r < SIZE; r++) {
		float h[HIDDEN], p[OUT];
		forward(m, x[r], h, p);
		int best = p[1] > p[0] ? 1 : 0;
		best = p[2] > p[best] ? 2 : best;
		correct += best == label[r];
	}
	return (float)correct / SIZE;
}

static void print_parameters(const struct model *m)
{
	const float *const tensor[TENSORS] = {&m->w1[0][0], m->b1, &m->w2[0][0], m->b2};
	for (int t = 0; t < TENSORS; t++) {
		printf("parameters:");
		for (size_t i = 0; i < length[t]; i++)
			printf(" %.9g", (double)tensor[t][i]);
		printf("\n");
	}
}

static float train(int every, float x[SIZE][IN], const int label[SIZE], bool print)
{
	unsigned seed = 7;
	struct model m = {.b1 = {0}};
	for (int i = 0; i < HIDDEN * IN; i++)
		(&m.w1[0][0])[i] = uniform(&seed);
	for (int i = 0; i < OUT * HIDDEN; i++)
		(&m.w2[0][0])[i] = 0.2f * uniform(&seed);

	struct parallel mine = parallelize(SIZE, every);
	/* The same number of batches on each worker, so that all synchronise equally often. Shares
	 * that differ by one row give batches that do, too. */
	int batches = SIZE / mvb_num_workers() / BATCH;
	for (int epoch = 1; epoch <= EPOCHS; epoch++) {
		for (int b = 0; b < batches; b++) {
			int first = mine.first + mine.size * b / batches;
			int end = mine.first + mine.size * (b + 1) / batches;
			train_batch(&m, x + first, label + first, end - first);
			after_backward(&mine, &m);
		}
		if (every < 0) /* explicitly: once each epoch */
			synchronize_model(&m);
	}
	synchronize_model(&m);
	if (print)
		print_parameters(&m);
	return accuracy(&m, x, label);
}

int main(int argc, char **argv)
{
	static float x[SIZE][IN];
	static int label[SIZE];
	int wrong = 0;
	must(mvb_init(NULL));
	make_data(x, label, 1);
	bool print = argc > 1 && strcmp(argv[1], "parameters") == 0;

	float shares = (float)parallelize(SIZE, 1).size;
	must(mvb_allreduce(&shares, 1, MVB_SUM));
	wrong += shares != SIZE;
	const int every[] = {1, EVERY, -1};
	for (int i = 0; i < 3; i++) {
		float score = train(every[i], x, label, print && mvb_is_master()), mean = score;
		must(mvb_allreduce(&mean, 1, MVB_MEAN));
		wrong += !(score > 0.95f) || fabsf(mean - score) > 1e-6f;
		if (mvb_is_master() && every[i] < 0)
			printf("synchronised by hand, once an epoch: accuracy %.3f\n", score);
		else if (mvb_is_master())
			printf("synchronised every %d batch%s: accuracy %.3f\n", every[i],
			       every[i] == 1 ? "" : "es", score);
	}
	must(mvb_shutdown());
	if (wrong)
		fprintf(stderr,
			"%d checks failed: accuracy above 0.95, equal on all workers, and "
			"all %d samples used\n",
			wrong, SIZE);
	return wrong != 0;
}
