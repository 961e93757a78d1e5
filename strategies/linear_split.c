/*
 * linear_split.c - linear layers split over the model group (TorchAD-NN, Megatron's column and row
 * split): for .linear of a strategy whose workers share a model.
 *
 *   by output: worker r holds rows W_r[O_r x I], b_r      y_r = x W_r^T + b_r
 *              dW_r = dy_r^T x;  db_r = sum of dy_r;      dx = allreduce(dy_r W_r)
 *   by input:  worker r holds columns W_r[O x I_r]        y = allreduce(x_r W_r^T + [r = 0] b)
 *              dW_r = dy^T x_r;  db on worker 0;          dx_r = dy W_r
 *
 * Of linear layers with only elementwise layers between, the 1st, 3rd, ... are split by output and
 * the layers after them by input: a pair needs one allreduce forward, none between, and one
 * backward unless it is the lowest. A last unpaired layer is split by input, and takes its columns
 * of the whole x. If layers below need dx, an allreduce of zero-padded columns joins its parts.
 *
 * Bytes: an allreduce of B x O (forward, by input) and of B x I (backward, where dx is whole).
 */
#include "workloads/linear.h"

static void split_cut(size_t whole, const struct worker *w, size_t *first, size_t *held)
{
	size_t n = (size_t)comm_size(w->model_group), r = (size_t)comm_rank(w->model_group);
	*first = part_of(whole, n, r);
	*held = part_of(whole, n, r + 1) - *first;
}

static char *split_place(const struct worker *w, struct linear *l)
{
	int n = comm_size(w->model_group);
	linear_whole.place(w, l);
	if (n == 1)
		return NULL;
	l->split = l->chain % 2 == 0 && l->chain + 1 < l->chained ? BY_OUTPUT : BY_INPUT;
	l->in_first = l->out_first = 0;
	if (l->split == BY_OUTPUT) {
		split_cut(l->out, w, &l->out_first, &l->out_held);
		l->bias_held = l->out_held;
	} else {
		split_cut(l->in, w, &l->in_first, &l->in_held);
		l->bias_held = comm_rank(w->model_group) == 0 ? l->out : 0;
	}
	size_t parts = l->split == BY_OUTPUT ? l->out : l->in;
	if ((size_t)n <= parts)
		return NULL;
	return sentence("%s splits the %zu %s of a linear layer over the workers that share a "
			"model, and %d workers are more than that: let at most %zu share one",
			run_strategy(w->run), parts, l->split == BY_OUTPUT ? "outputs" : "inputs",
			n, parts);
}

static const struct vec *split_own_columns(struct linear *l, const struct vec *x, size_t rows)
{
	if (l->split != BY_INPUT || l->x_split)
		return x;
	vec_take_columns(l->part, x, rows, l->in, l->in_first, l->in_held);
	return l->part;
}

static void split_forward(struct worker *w, struct linear *l, struct vec *y, const struct vec *x,
			  size_t rows)
{
	linear_whole.forward(w, l, y, split_own_columns(l, x, rows), rows);
	if (l->split == BY_INPUT)
		comm_allreduce_part(w->model_group, y, 0, rows * l->out, COMM_SUM);
}

static void split_backward(struct worker *w, struct linear *l, struct vec *dx, const struct vec *dy,
			   const struct vec *x, size_t rows)
{
	bool put_together = dx && l->split == BY_INPUT && !l->x_split;
	linear_whole.backward(w, l, put_together ? NULL : dx, dy, split_own_columns(l, x, rows),
			      rows);
	if (put_together) {
		vec_gemm(l->part, false, dy, false, l->weight, rows, l->in_held, l->out);
		vec_fill(dx, 0);
		vec_put_columns(dx, l->part, rows, l->in, l->in_first, l->in_held);
	}
	if (dx && !l->x_split && l->split != WHOLE)
		comm_allreduce_part(w->model_group, dx, 0, rows * l->in, COMM_SUM);
}

const struct linear_ops linear_split = {
	.place = split_place,
	.forward = split_forward,
	.backward = split_backward,
};

double linear_split_bytes(const struct worker *w)
{
	double n = comm_size(w->model_group), floats = 0;
	const struct linear *l;
	for (size_t i = 0; w->model->net && (l = net_linear_at(w->model->net, i)); i++) {
		if (l->split == BY_INPUT)
			floats += (double)(l->places * l->out);
		if (!l->first && !l->x_split && l->split != WHOLE)
			floats += (double)(l->places * l->in);
	}
	return 2 * (n - 1) / n * sizeof(float) * floats * (double)w->rows;
}
