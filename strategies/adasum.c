/*
 * adasum.c - synchronous SGD whose workers combine gradients by their angle: Adasum, Maleki et al.,
 * arXiv 2006.02924. Parallel gradients are averaged, orthogonal ones added.
 *
 *   each tensor:   A(a, b) = (1 - a.b / (2 a.a)) a + (1 - a.b / (2 b.b)) b
 *   each step:     g = A(A(g_0, g_1), A(g_2, g_3)) and so on, in pairs;  w -= lr step of g
 *
 * g takes the place of the mean, or of the sum, of the workers' gradients; --reduce does not
 * matter. Of N = 2^k + m workers, the last m first give theirs to the first m, and get g at the
 * end. The 2^k exchange what they have with one other, k times. A step sends (k 2^k + 3 m) / N P
 * floats a trainer. The paper halves the vectors instead, which sends 2 (N - 1) / N P; the result
 * is the same. Dot products are summed in float64, on the host.
 */
#include "mvbench.h"

#include <stdlib.h>

struct adasum {
	struct vec *other;    /* [P] the gradient of the other worker */
	float *mine, *theirs; /* [P] on the host; NULL: a simulation of time only */
};

static void adasum_init(struct worker *w)
{
	struct adasum *s = w->state;
	size_t n = vec_len(w->grad);
	if (comm_size(w->data_group) == 1)
		return;
	s->other = vec_new(w, n);
	if (!vec_has_data(w->grad))
		return;
	s->mine = malloc((n + 1) * sizeof *s->mine);
	s->theirs = malloc((n + 1) * sizeof *s->theirs);
	CHECK(s->mine && s->theirs, "no memory");
}

/* y = scale A(y, x). A gradient of 0 adds nothing. The result does not depend on which is y. */
static void combine(float *y, const float *x, size_t n, double scale)
{
	double xx = 0, yy = 0, xy = 0;
#pragma omp simd reduction(+ : xx, yy, xy)
	for (size_t i = 0; i < n; i++) {
		xx += (double)x[i] * x[i];
		yy += (double)y[i] * y[i];
		xy += (double)x[i] * y[i];
	}
	double of_x = scale * (1 - (xx > 0 ? xy / (2 * xx) : 0)),
	       of_y = scale * (1 - (yy > 0 ? xy / (2 * yy) : 0));
	for (size_t i = 0; i < n; i++)
		y[i] = (float)(of_x * x[i] + of_y * y[i]);
}

/* The largest power of 2 that is at most n. */
static int power_below(int n)
{
	int all = 1;
	while (2 * all <= n)
		all *= 2;
	return all;
}

/* grad = scale A(grad, the other's grad), on both. */
static void combine_with(struct worker *w, int other, double scale)
{
	struct adasum *s = w->state;
	comm_exchange(w->data_group, other, w->grad, other, s->other);
	worker_charge(w, 2 * (double)vec_len(w->grad));
	if (!s->mine)
		return;
	vec_get(w->grad, s->mine);
	vec_get(s->other, s->theirs);
	for (size_t i = 0; i < w->model->tensors; i++) {
		const struct tensor *t = &w->model->tensor[i];
		combine(s->mine + t->first, s->theirs + t->first, t->rows * t->columns, scale);
	}
	vec_put(w->grad, s->mine);
}

/* common_step multiplies by w->weight, which the last combination undoes. */
static void adasum_step(struct worker *w)
{
	int me = comm_rank(w->data_group), all = comm_size(w->data_group), half = power_below(all);
	double scale = 1 / w->weight;
	if (me % half + half < all)
		combine_with(w, me < half ? me + half : me - half, 1);
	for (int at = 1; me < half && at < half; at *= 2)
		combine_with(w, me ^ at, 2 * at == half ? scale : 1);
	if (me >= half)
		comm_recv(w->data_group, me - half, w->grad);
	else if (me + half < all)
		comm_send(w->data_group, me + half, w->grad);
	common_step(w);
}

static void adasum_fini(struct worker *w)
{
	struct adasum *s = w->state;
	vec_free(s->other);
	free(s->mine);
	free(s->theirs);
}

static double adasum_bytes(const struct worker *w)
{
	int all = comm_size(w->data_group), half = power_below(all);
	double messages = 3 * (all - half);
	for (int at = 1; at < half; at *= 2)
		messages += half;
	return messages / all * comm_exchange_bytes(w->data_group, vec_len(w->grad));
}

const struct strategy strategy_adasum = {
	.plugin = {.name = "adasum",
		   .summary = "synchronous SGD: gradients are combined by their angle"},
	.state_size = sizeof(struct adasum),
	.init = adasum_init,
	.step = adasum_step,
	.fini = adasum_fini,
	.bytes_per_step = adasum_bytes,
	.epoch_time = "steps (step + wait for the slowest + log2 N exchanges)",
};
