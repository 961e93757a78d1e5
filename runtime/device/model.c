/*
 * model.c - a worker's model: param, its gradient, the moments of the optimiser, and the groups of
 * parameters in which the optimiser steps.
 */
#include "runtime/config/run.h"
#include "runtime/device/device.h"

#include <stdlib.h>
#include <string.h>

/* A copy for struct worker's pointers to const; it is freed with the model. */
static void *copied(const void *from, size_t bytes)
{
	return from ? memcpy(must(malloc(bytes + 1)), from, bytes) : NULL;
}

static void groups_free(struct worker *w)
{
	for (size_t i = 0; i < w->loop->groups; i++) {
		const struct param_group *p = &w->loop->group[i];
		struct vec *const own[] = {p->param, p->grad, p->moment[0], p->moment[1]};
		for (size_t k = 0; k < sizeof own / sizeof *own; k++)
			vec_free(own[k]);
		for (int k = 0; k < SCRATCH_MOST; k++)
			vec_free(p->scratch[k]);
	}
	vec_free(w->loop->scratch);
	free((void *)(uintptr_t)w->loop->group);
	w->loop->group = NULL;
	w->loop->scratch = NULL;
	w->loop->groups = 0;
}

static void tensors_free(struct worker *w)
{
	groups_free(w);
	free((void *)(uintptr_t)w->model->tensor);
	w->model->tensor = NULL;
	w->model->tensors = 0;
}

static struct vec *view(struct vec *v, const struct param_group *p)
{
	return v ? vec_slice(v, p->first, p->end - p->first) : NULL;
}

static size_t scratch_of(const struct optimizer *o, const struct param_group *p,
			 size_t length[SCRATCH_MOST])
{
	size_t all = 0;
	memset(length, 0, SCRATCH_MOST * sizeof *length);
	if (p->rows)
		o->scratch(p->rows, p->columns, length);
	for (int k = 0; k < SCRATCH_MOST; k++)
		all += length[k];
	return all;
}

/* All matrices use the same memory, one after the other. */
static void share_scratch(struct worker *w, struct param_group *group, size_t n)
{
	size_t most = 0, length[SCRATCH_MOST];
	for (size_t i = 0; i < n; i++) {
		size_t all = scratch_of(w->optimizer, &group[i], length);
		most = all > most ? all : most;
	}
	w->loop->scratch = most ? vec_new(w, most) : NULL;
	for (size_t i = 0; i < n; i++) {
		size_t at = 0;
		scratch_of(w->optimizer, &group[i], length);
		for (int k = 0; k < SCRATCH_MOST && length[k]; at += length[k++])
			group[i].scratch[k] = vec_slice(w->loop->scratch, at, length[k]);
	}
}

/* Adjacent tensors with the same treatment form one group. Most models are a single group. */
static void model_make_groups(struct worker *w)
{
	const struct run *run = w->run;
	const struct optimizer *o = w->optimizer;
	bool spares = strcmp(run->decay, "weights") == 0;
	const size_t *layer = w->model->layer, cuts = w->loop->by_layer ? w->model->layers : 0;
	struct param_group *group = must(calloc(w->model->tensors + cuts + 1, sizeof *group));
	size_t n = 0;
	for (size_t i = 0; i < w->model->tensors; i++) {
		const struct tensor *t = &w->model->tensor[i];
		bool matrix = o && o->scratch && (t->hidden || o->tensors);
		struct param_group p = {.first = t->first,
					.end = t->first + t->rows * t->columns,
					.decay = spares && t->spared ? 0 : (float)run->weight_decay,
					.rows = matrix ? t->rows : 0,
					.columns = matrix ? t->columns : 0};
		for (size_t end = p.end; p.first < end; p.first = p.end) {
			while (w->loop->by_layer && *layer <= p.first)
				layer++;
			p.end = w->loop->by_layer ? smaller(end, *layer) : end;
			if (matrix && p.end - p.first < t->rows * t->columns) {
				p.rows = 1; /* a tensor of several layers has no shape here */
				p.columns = p.end - p.first;
			}
			if (n && !matrix && !group[n - 1].rows && group[n - 1].decay == p.decay &&
			    !(w->loop->by_layer && layer[-1] == p.first))
				group[n - 1].end = p.end;
			else
				group[n++] = p;
		}
	}
	w->loop->group = group;
	w->loop->groups = n;
	for (size_t i = 0; i < n; i++) {
		struct param_group *p = &group[i];
		p->param = view(w->param, p);
		p->grad = view(w->grad, p);
		for (int k = 0; k < MOMENTS_MOST; k++)
			p->moment[k] = view(w->moment[k], p);
	}
	share_scratch(w, group, n);
}

void model_tensors(struct worker *w, const struct tensor *tensor, size_t n)
{
	size_t at = 0;
	for (size_t i = 0; i < n; i++) {
		CHECK(tensor[i].first == at, "tensor %zu begins at %zu, the one before ends at %zu",
		      i, tensor[i].first, at);
		at += tensor[i].rows * tensor[i].columns;
	}
	CHECK(at == vec_len(w->param), "tensors of %zu floats, param has %zu", at,
	      vec_len(w->param));
	tensors_free(w);
	w->model->tensor = copied(tensor, n * sizeof *tensor);
	w->model->tensors = n;
	model_make_groups(w);
}

void common_step_cut(struct worker *w)
{
	w->loop->by_layer = true;
	groups_free(w);
	model_make_groups(w);
}

/* n floats of the device, or, if there are any, those at place k of the workload's. */
static struct vec *placed(struct worker *w, const struct layout *l, int k, size_t n)
{
	if (!l->host)
		return vec_new(w, n);
	struct vec *v = must(malloc(sizeof *v));
	*v = (struct vec){.data = l->host[k], .n = n, .dev = w->loop->dev, .view = true};
	return v;
}

void model_layout(struct worker *w, const struct layout *l)
{
	const struct optimizer *o = w->optimizer;
	int moments = o ? o->moments(w->run, w->optimizer_opts) : 0;
	CHECK(!w->param, "a model is laid out twice");
	CHECK(l->layers && l->layer[l->layers] == l->params,
	      "%zu layers of a model of %zu floats end at %zu", l->layers, l->params,
	      l->layers ? l->layer[l->layers] : 0);
	w->model->layers = l->layers;
	w->model->layer = copied(l->layer, (l->layers + 1) * sizeof *l->layer);
	w->model->flops = copied(l->flops, (l->layers + 1) * sizeof *l->flops);
	w->model->params = l->whole ? l->whole : (int64_t)l->params;
	w->param = placed(w, l, 0, l->params);
	w->grad = placed(w, l, 1, l->params);
	for (int k = 0; k < moments; k++)
		w->moment[k] = vec_new(w, l->params);
	w->model->buffer = l->buffers ? placed(w, l, 2, l->buffers) : NULL;
	w->loop->squares = w->run->clip > 0 ? vec_new(w, 2) : NULL;
	w->loop->earlier = w->run->accumulate > 1 ? vec_new(w, l->params) : NULL;
	const struct tensor all = {.rows = 1, .columns = l->params};
	model_tensors(w, &all, 1);
}

const struct linear_ops *linear_ops_of(const struct worker *w)
{
	return w->loop->strategy ? w->loop->strategy->linear : NULL;
}

void model_open(struct worker *w, const struct data *sample)
{
	w->model->state = must(calloc(1, w->model->workload->state_size + 1));
	w->model->workload->init(w, sample);
	CHECK(w->param, "%s makes no model", w->model->workload->plugin.name);
}

void model_forget(struct worker *w)
{
	tensors_free(w);
	for (int k = 0; k < MOMENTS_MOST; k++) {
		vec_free(w->moment[k]);
		w->moment[k] = NULL;
	}
}

void model_close(struct worker *w)
{
	if (w->model->workload && w->model->workload->fini && w->param)
		w->model->workload->fini(w);
	model_forget(w);
	struct vec **const own[] = {&w->param, &w->grad, &w->model->buffer, &w->loop->squares,
				    &w->loop->earlier};
	for (size_t k = 0; k < sizeof own / sizeof *own; k++) {
		vec_free(*own[k]);
		*own[k] = NULL;
	}
	free((void *)(uintptr_t)w->model->layer);
	free((void *)(uintptr_t)w->model->flops);
	free(w->model->state);
	w->model->layer = NULL;
	w->model->flops = NULL;
	w->model->state = NULL;
	w->model->layers = 0;
}
