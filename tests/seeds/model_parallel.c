/*
 * model_parallel.c - TorchAD-NN's model parallelism (seed 004): the linear layers of 1024 -> 2048
 * -> 10, tanh between, are split over the workers, and every worker sees the whole batch.
 *
 *   MPInitialLinear(1024, 2048)   split by outputs: rank r holds rows W1_r, b1_r, and computes
 *                                 h_r = tanh(W1_r x + b1_r), its part of the hidden layer (MPTanh)
 *   MPBaseLinear(2048, 10)        split by inputs: y = allreduce_sum(W2_r h_r) + b2
 *   backward                      dW2_r = g h_r^T; dh_r = W2_r^T g; dW1_r = (dh_r (1 - h_r^2)) x^T
 *
 * The only communication is one reduction of batch x 10 floats in each step.
 *
 * Different on purpose: TorchAD-NN splits both layers by inputs, counts the bias N times, and
 * gathers N copies of one slice in the backward pass. Here N need not divide 2048. The gradients
 * are compared with those of the same net unsplit.
 */
#include "seeds.h"

#include <math.h>
#include <string.h>

enum { IN = 1024, HIDDEN = 2048, OUT = 10, BATCH = 8, STEPS = 5 };

/* Hidden units first .. first + held - 1 of the net; the whole net if these are all. */
struct net {
	int first, held;
	float *w1, *b1, *w2, b2[OUT]; /* w1[held x IN], b1[held], w2[held x OUT] (transposed) */
	float *dw1, *db1, *dw2, db2[OUT];
	float *h; /* [BATCH x held] */
};

static void *memory(size_t floats)
{
	void *p = calloc(floats, sizeof(float));
	if (!p)
		exit(1);
	return p;
}

/* The value of parameter i of a tensor, the same on every worker: in [-1, 1). */
static float drawn(unsigned tensor, unsigned i)
{
	unsigned h = i * 2654435761u + tensor * 40503u;
	h = (h ^ h >> 15) * 2246822519u;
	h = (h ^ h >> 13) * 3266489917u;
	return (float)((h ^ h >> 16) >> 8) / (float)(1 << 23) - 1;
}

static struct net net_new(int first, int held)
{
	size_t n = (size_t)held;
	struct net net = {.first = first, .held = held};
	net.w1 = memory(n * IN), net.b1 = memory(n), net.w2 = memory(n * OUT);
	net.dw1 = memory(n * IN), net.db1 = memory(n), net.dw2 = memory(n * OUT);
	net.h = memory(n * BATCH);
	for (int j = 0; j < held; j++) {
		unsigned unit = (unsigned)(first + j);
		for (unsigned i = 0; i < IN; i++)
			net.w1[(unsigned)j * IN + i] = drawn(1, unit * IN + i) / 32;
		for (unsigned o = 0; o < OUT; o++)
			net.w2[(unsigned)j * OUT + o] = drawn(2, unit * OUT + o) / 45;
	}
	return net;
}

static void net_free(struct net *net)
{
	free(net->w1), free(net->b1), free(net->w2);
	free(net->dw1), free(net->db1), free(net->dw2);
	free(net->h);
}

/* h = tanh(x W1^T + b1) of this worker's units, and their part of y[BATCH x OUT], without b2. */
static void forward(struct net *net, const float *x, float y[BATCH][OUT])
{
	memset(y, 0, sizeof(float[BATCH][OUT]));
	for (int j = 0; j < net->held; j++)
		for (int r = 0; r < BATCH; r++) {
			const float *w = net->w1 + (size_t)j * IN, *row = x + (size_t)r * IN;
			double sum = net->b1[j];
			for (int i = 0; i < IN; i++)
				sum += (double)(w[i] * row[i]);
			float h = net->h[r * net->held + j] = tanhf((float)sum);
			for (int o = 0; o < OUT; o++)
				y[r][o] += h * net->w2[j * OUT + o];
		}
}

/* Turns y without b2 into the gradient of the mean cross entropy; returns the loss. */
static float loss_of(const struct net *net, float y[BATCH][OUT], const int label[BATCH])
{
	float loss = 0;
	for (int r = 0; r < BATCH; r++) {
		float sum = 0;
		for (int o = 0; o < OUT; o++)
			sum += y[r][o] = expf(y[r][o] + net->b2[o]);
		loss -= logf(y[r][label[r]] / sum) / BATCH;
		for (int o = 0; o < OUT; o++)
			y[r][o] = (y[r][o] / sum - (o == label[r])) / BATCH;
	}
	return loss;
}

static void backward(struct net *net, const float *x, float g[BATCH][OUT])
{
	memset(net->db2, 0, sizeof net->db2);
	for (int r = 0; r < BATCH; r++)
		for (int o = 0; o < OUT; o++)
			net->db2[o] += g[r][o];
	for (int j = 0; j < net->held; j++) {
		float *dw = net->dw1 + (size_t)j * IN;
		memset(dw, 0, IN * sizeof *dw);
		memset(net->dw2 + (size_t)j * OUT, 0, OUT * sizeof(float));
		net->db1[j] = 0;
		for (int r = 0; r < BATCH; r++) {
			float h = net->h[r * net->held + j], dh = 0;
			for (int o = 0; o < OUT; o++) {
				net->dw2[j * OUT + o] += g[r][o] * h;
				dh += g[r][o] * net->w2[j * OUT + o];
			}
			dh *= 1 - h * h;
			net->db1[j] += dh;
			for (int i = 0; i < IN; i++)
				dw[i] += dh * x[(size_t)r * IN + (size_t)i];
		}
	}
}

static void descend(float *w, const float *g, size_t n)
{
	for (size_t i = 0; i < n; i++)
		w[i] -= 0.1f * g[i];
}

/* One step of the split net, with a sum over the workers in the middle. */
static float step(struct net *net, const float *x, const int *label, int split)
{
	float y[BATCH][OUT];
	size_t held = (size_t)net->held;
	forward(net, x, y);
	if (split)
		must(mvb_allreduce(&y[0][0], BATCH * OUT, MVB_SUM));
	float loss = loss_of(net, y, label);
	backward(net, x, y);
	descend(net->w1, net->dw1, held * IN);
	descend(net->b1, net->db1, held);
	descend(net->w2, net->dw2, held * OUT);
	descend(net->b2, net->db2, OUT);
	return loss;
}

/* |a - b| / |b| */
static double distance(const float *a, const float *b, size_t n)
{
	double d = 0, whole = 0;
	for (size_t i = 0; i < n; i++) {
		d += pow((double)a[i] - (double)b[i], 2);
		whole += pow((double)b[i], 2);
	}
	return sqrt(d / whole);
}

static float sum_of_squares(const float *x, size_t n)
{
	double sum = 0;
	for (size_t i = 0; i < n; i++)
		sum += (double)x[i] * (double)x[i];
	return (float)sum;
}

int main(void)
{
	static float x[BATCH * IN];
	int label[BATCH];
	must(mvb_init(NULL));
	int id = mvb_worker_id(), workers = mvb_num_workers();
	int first = HIDDEN * id / workers, end = HIDDEN * (id + 1) / workers;
	struct net mine = net_new(first, end - first), whole = net_new(0, HIDDEN);
	size_t held = (size_t)mine.held, at = (size_t)first;
	float loss = 0, whole_loss = 0, before = 0;
	double worst = 0;

	for (unsigned i = 0; i < BATCH * IN; i++)
		x[i] = drawn(3, i);
	for (int r = 0; r < BATCH; r++)
		label[r] = r % OUT;
	for (int s = 0; s < STEPS; s++) {
		loss = step(&mine, x, label, 1);
		whole_loss = step(&whole, x, label, 0);
		before = s == 0 ? loss : before;
		worst = fmax(worst, distance(mine.dw1, whole.dw1 + at * IN, held * IN));
		worst = fmax(worst, distance(mine.db1, whole.db1 + at, held));
		worst = fmax(worst, distance(mine.dw2, whole.dw2 + at * OUT, held * OUT));
		worst = fmax(worst, distance(mine.db2, whole.db2, OUT));
	}
	if (mvb_is_master())
		printf("%d workers, %d of %d hidden units here: loss %.4f, %.4f after %d steps "
		       "(unsplit %.4f); gradients differ by %.1e\n",
		       workers, mine.held, HIDDEN, before, loss, STEPS, whole_loss, worst);
	float squares[] = {sum_of_squares(mine.w1, held * IN), sum_of_squares(mine.w2, held * OUT)};
	must(mvb_allreduce(squares, 2, MVB_SUM)); /* of the split weights */
	if (mvb_is_master())
		printf("parameters: %.9g %.9g", (double)squares[0], (double)squares[1]);
	for (int o = 0; mvb_is_master() && o < OUT; o++)
		printf(" %.9g%s", (double)mine.b2[o], o + 1 < OUT ? "" : "\n");
	int wrong = !(worst < 1e-5) || !(loss < 0.5f * before) || fabsf(loss - whole_loss) > 1e-4f;
	if (wrong)
		fprintf(stderr,
			"worker %d: loss %g, then %g; unsplit %g; gradients differ by %g; expected "
			"half of the loss at most, and 1e-5\n",
			id, before, loss, whole_loss, worst);
	net_free(&mine);
	net_free(&whole);
	must(mvb_shutdown());
	return wrong;
}
