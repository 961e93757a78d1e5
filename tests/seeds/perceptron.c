/*
 * perceptron.c - flashlight's distributed perceptron (seed 003): 10 -> 100 -> 1 with ReLU on y =
 * sum x^3 + sin(2 pi u), squared error, batches of one, lr 1e-4, momentum 0.9, 10,000 samples over
 * all workers. The gradients of the four tensors are registered once, coalesced, and averaged in
 * every step.
 *
 *     mpirun -n 2 perceptron [EPOCHS [own|page [SEED]]]        default: 5 epochs, own, 0
 *
 * flashlight publishes, for 2 workers: 20.2124 5.28266 2.91948 2.50887 2.25293, and 0.922 after 100
 * epochs; the noise alone is 0.5.
 *
 * Different on purpose: at the start flashlight averages the parameters of differently drawn
 * models, which makes them smaller than those of each model. Here all workers take worker 0's. And
 * flashlight draws weights from a range that is wider by the root of 3 (its kaimingUniform), but
 * not biases. With `page` the model starts as there.
 *
 * The error of an epoch is the mean over its steps, as there. That of the last model, at the end,
 * is over this run's samples. SEED is for other samples and models.
 */
#include "seeds.h"

#include <math.h>
#include <string.h>

enum { IN = 10, HIDDEN = 100, SAMPLES = 10000, TENSORS = 4 };

/* The parameters, or their gradients, or their velocities: the four tensors of the model. */
struct model {
	float w1[HIDDEN][IN], b1[HIDDEN], w2[HIDDEN], b2[1];
};
static const size_t length[TENSORS] = {HIDDEN * IN, HIDDEN, HIDDEN, 1};

static float uniform(unsigned *state) /* in [0, 1) */
{
	*state = *state * 1664525u + 1013904223u;
	return (float)(*state >> 8) / (float)(1 << 24);
}

static void draw(float *x, size_t n, int inputs, unsigned *seed)
{
	for (size_t i = 0; i < n; i++)
		x[i] = (2 * uniform(seed) - 1) / sqrtf((float)inputs);
}

static void make_data(float (*x)[IN], float *y, int n, unsigned *seed)
{
	for (int r = 0; r < n; r++) {
		y[r] = sinf(6.2831853f * uniform(seed));
		for (int i = 0; i < IN; i++) {
			x[r][i] = 1 + uniform(seed);
			y[r] += x[r][i] * x[r][i] * x[r][i];
		}
	}
}

/* The error of one sample; h: the hidden layer. */
static float forward(const struct model *m, float h[HIDDEN], const float x[IN], float y)
{
	float error = m->b2[0] - y;
	for (int j = 0; j < HIDDEN; j++) {
		h[j] = m->b1[j];
		for (int i = 0; i < IN; i++)
			h[j] += m->w1[j][i] * x[i];
		h[j] = h[j] > 0 ? h[j] : 0;
		error += m->w2[j] * h[j];
	}
	return error;
}

/* The squared error of one sample, and its gradient, tensor by tensor from the last to the
 * first. */
static float backward(const struct model *m, struct model *g, const float x[IN], float y,
		      struct mvb_grads *grads)
{
	float h[HIDDEN], error = forward(m, h, x, y);
	g->b2[0] = 2 * error;
	must(mvb_grads_ready(grads, 3));
	for (int j = 0; j < HIDDEN; j++)
		g->w2[j] = 2 * error * h[j];
	must(mvb_grads_ready(grads, 2));
	for (int j = 0; j < HIDDEN; j++)
		g->b1[j] = h[j] > 0 ? 2 * error * m->w2[j] : 0;
	for (int j = 0; j < HIDDEN; j++)
		for (int i = 0; i < IN; i++)
			g->w1[j][i] = g->b1[j] * x[i];
	must(mvb_grads_ready(grads, 1));
	must(mvb_grads_ready(grads, 0));
	must(mvb_grads_wait(grads));
	return error * error;
}

static void sgd(float *p, float *v, const float *g, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		v[i] = 0.9f * v[i] + g[i];
		p[i] -= 1e-4f * v[i];
	}
}

/* The mean over all workers' samples. */
static double mean_error(const struct model *m, const float (*x)[IN], const float *y, int samples)
{
	float h[HIDDEN];
	double sum = 0;
	for (int r = 0; r < samples; r++) {
		double error = (double)forward(m, h, x[r], y[r]);
		sum += error * error / samples;
	}
	must(mvb_allreduce_type(&sum, 1, MVB_DOUBLE, MVB_MEAN));
	return sum;
}

int main(int argc, char **argv)
{
	static struct model m, v, g;
	float *const param[TENSORS] = {&m.w1[0][0], m.b1, m.w2, m.b2};
	float *const velocity[TENSORS] = {&v.w1[0][0], v.b1, v.w2, v.b2};
	float *const gradient[TENSORS] = {&g.w1[0][0], g.b1, g.w2, g.b2};
	int epochs = argc > 1 ? atoi(argv[1]) : 5, page = argc > 2 && strcmp(argv[2], "page") == 0;
	struct mvb_grads *grads;
	float mse = 0;
	must(mvb_init(NULL));
	unsigned seed = (unsigned)mvb_rank() + 1 + 1000u * (argc > 3 ? (unsigned)atoi(argv[3]) : 0);
	int samples = SAMPLES / mvb_size();
	float(*x)[IN] = malloc((size_t)samples * sizeof *x),
	*y = malloc((size_t)samples * sizeof *y);
	if (!x || !y)
		return 1;
	make_data(x, y, samples, &seed);
	for (int t = 0; t < TENSORS; t++) {
		draw(param[t], length[t], t < 2 ? IN : HIDDEN, &seed);
		for (size_t i = 0; page && t % 2 == 0 && i < length[t]; i++)
			param[t][i] *= sqrtf(3);
		if (!page)
			must(mvb_broadcast(param[t], length[t], 0));
	}
	if (page)
		must(mvb_allreduce_list(param, length, TENSORS, MVB_MEAN));
	must(mvb_grads_new(&grads, gradient, length, TENSORS, 0));

	if (mvb_is_master())
		printf("[Multi-layer Perceptron] Started... (%s)\n", mvb_backend());
	for (int e = 1; e <= epochs; e++) {
		double sum = 0;
		for (int r = 0; r < samples; r++) {
			sum += backward(&m, &g, x[r], y[r], grads);
			for (int t = 0; t < TENSORS; t++)
				sgd(param[t], velocity[t], gradient[t], length[t]);
		}
		mse = (float)(sum / samples);
		must(mvb_allreduce(&mse, 1, MVB_MEAN));
		if (mvb_is_master())
			printf("Epoch: %d Mean Squared Error: %g\n", e, mse);
	}
	double last = mean_error(&m, (const float(*)[IN])x, y, samples);
	if (mvb_is_master())
		printf("Mean Squared Error of the last model: %g\n"
		       "[Multi-layer Perceptron] Done!\n",
		       last);

	must(mvb_grads_free(grads));
	must(mvb_shutdown());
	free(x);
	free(y);
	if (epochs < 5 || (mse > 0.5f && mse < 6))
		return 0;
	fprintf(stderr, "mean squared error %g; expected 0.5 to 6\n", mse);
	return 1;
}
