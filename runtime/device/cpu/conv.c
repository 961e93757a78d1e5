/*
 * conv.c - convolutions on the CPU, through oneDNN.
 *
 * Activations are plain NHWC, which is as fast as oneDNN's own layouts. Each call converts weights
 * into the layout that the kernel prefers; this takes microseconds, the kernel milliseconds. A
 * primitive is made at the first use of a number of rows, and kept. All layers of a device share
 * one scratch area.
 *
 * Costs, one core with AVX-512 (with AVX2): convolutions of ResNet-32 run at 140 to 190 GFLOP/s (80
 * to 125), lenet's 5 x 5 on one channel at 100.
 */
#include "runtime/device/cpu/cpu.h"

#include <oneapi/dnnl/dnnl.h>
#include <stdlib.h>
#include <string.h>

#define DNNL(call) \
	do { \
		dnnl_status_t status_ = (call); \
		CHECK(status_ == dnnl_success, "oneDNN status %d of %s", status_, #call); \
	} while (0)

/* ---- Primitives and their memory ----------------------------------------- */

struct cpu { /* device->at, made by the first layer */
	dnnl_engine_t engine;
	dnnl_stream_t stream;
	dnnl_primitive_attr_t attr; /* this file provides the scratchpads */
	float *scratch;
	size_t scratch_floats;
};

static struct cpu *cpu_of(struct device *d)
{
	if (!d->at) {
		struct cpu *c = d->at = must(calloc(1, sizeof *c));

		DNNL(dnnl_engine_create(&c->engine, dnnl_cpu, 0));
		DNNL(dnnl_stream_create(&c->stream, c->engine, dnnl_stream_default_flags));
		DNNL(dnnl_primitive_attr_create(&c->attr));
		DNNL(dnnl_primitive_attr_set_scratchpad_mode(c->attr, dnnl_scratchpad_mode_user));
	}
	return d->at;
}

/* Growing loses the content; it happens only when a primitive is made. */
static void scratch_holds(struct device *d, size_t floats)
{
	struct cpu *c = cpu_of(d);
	if (c->scratch_floats >= floats)
		return;
	cpu_free(d, c->scratch, c->scratch_floats);
	c->scratch = cpu_alloc(d, floats);
	d->workspace_bytes += (floats - c->scratch_floats) * sizeof(float);
	c->scratch_floats = floats;
}

void cpu_close(struct device *d)
{
	struct cpu *c = d->at;
	if (!c)
		return;
	DNNL(dnnl_primitive_attr_destroy(c->attr));
	DNNL(dnnl_stream_destroy(c->stream));
	DNNL(dnnl_engine_destroy(c->engine));
	cpu_free(d, c->scratch, c->scratch_floats);
	free(c);
	d->at = NULL;
}

/* A primitive and its arguments; each run sets their addresses. Its scratchpad is the start of the
 * scratch area. */
enum { ARGUMENTS = 6 };
struct job {
	dnnl_primitive_t primitive; /* NULL: not made */
	dnnl_exec_arg_t arg[ARGUMENTS];
	int args; /* the last is the scratchpad */
};

/* Size [floats], rounded up to whole cache lines. */
static size_t floats_of(const dnnl_memory_desc_t *m)
{
	return (dnnl_memory_desc_get_size(m) + 63) / 64 * 16;
}

static size_t scratchpad_of(dnnl_primitive_desc_t pd)
{
	return floats_of(dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0));
}

/* kinds: the arguments, ends at 0. Destroys pd. */
static void job_make(struct device *d, struct job *j, dnnl_primitive_desc_t pd, const int *kinds)
{
	struct cpu *c = cpu_of(d);
	scratch_holds(d, scratchpad_of(pd));
	for (bool last = false; !last; j->args++) {
		dnnl_exec_arg_t *a = &j->arg[j->args];

		last = kinds[j->args] == 0;
		CHECK(j->args < ARGUMENTS, "a primitive of more than %d arguments", ARGUMENTS);
		a->arg = last ? DNNL_ARG_SCRATCHPAD : kinds[j->args];
		DNNL(dnnl_memory_create(
			&a->memory,
			dnnl_primitive_desc_query_md(pd, dnnl_query_exec_arg_md, a->arg), c->engine,
			DNNL_MEMORY_NONE));
	}
	DNNL(dnnl_primitive_create(&j->primitive, pd));
	DNNL(dnnl_primitive_desc_destroy(pd));
}

static void job_run(struct device *d, const struct job *j, const float *const *at)
{
	struct cpu *c = d->at;
	for (int i = 0; i < j->args; i++)
		DNNL(dnnl_memory_set_data_handle(j->arg[i].memory,
						 i < j->args - 1 ? (void *)at[i] : c->scratch));
	DNNL(dnnl_primitive_execute(j->primitive, c->stream, j->args, j->arg));
	DNNL(dnnl_stream_wait(c->stream));
}

static void job_fini(struct job *j)
{
	for (int i = 0; i < j->args; i++)
		DNNL(dnnl_memory_destroy(j->arg[i].memory));
	if (j->primitive)
		DNNL(dnnl_primitive_destroy(j->primitive));
}

/* ---- Convolution --------------------------------------------------------- */

enum { FORWARD, BACKWARD_DATA, BACKWARD_WEIGHT, DIRECTIONS };

struct conv_pass { /* one direction for one number of rows */
	size_t rows;
	int direction;
	struct job job, weight; /* weight: converts to or from job's layout, if needed */
	size_t weight_at;       /* place of the converted weights in the scratch area [floats] */
	size_t rest_at;         /* first free place behind them */
};

struct cpu_conv {
	struct shape s;
	/* few numbers of rows: of a mini-batch, of an epoch's last one, of an evaluation */
	struct conv_pass *pass;
	size_t passes;
};

void *cpu_conv_new(struct device *d, const struct shape *s)
{
	struct cpu_conv *l = must(calloc(1, sizeof *l));
	l->s = *s;
	return l;
}

void cpu_conv_free(struct device *d, void *conv)
{
	struct cpu_conv *l = conv;
	for (size_t i = 0; i < l->passes; i++) {
		job_fini(&l->pass[i].job);
		job_fini(&l->pass[i].weight);
	}
	free(l->pass);
	free(l);
}

static dnnl_memory_desc_t described(int n, const dnnl_dims_t dims, dnnl_format_tag_t tag)
{
	dnnl_memory_desc_t md;
	DNNL(dnnl_memory_desc_init_by_tag(&md, n, dims, dnnl_f32, tag));
	return md;
}

static dnnl_memory_desc_t images(size_t rows, struct image m)
{
	const dnnl_dims_t dims = {(dnnl_dim_t)rows, (dnnl_dim_t)m.channels, (dnnl_dim_t)m.height,
				  (dnnl_dim_t)m.width};
	return described(4, dims, dnnl_nhwc);
}

static dnnl_memory_desc_t weights(const struct shape *s, dnnl_format_tag_t tag)
{
	const dnnl_dim_t size = (dnnl_dim_t)s->window.size;
	const dnnl_dims_t dims = {(dnnl_dim_t)s->out.channels, (dnnl_dim_t)s->in.channels, size,
				  size};
	return described(4, dims, tag);
}

static dnnl_primitive_desc_t conv_describe(struct device *d, const struct shape *s, size_t rows,
					   int direction)
{
	const dnnl_dim_t by = (dnnl_dim_t)s->window.stride, pad = (dnnl_dim_t)s->window.pad;
	const dnnl_dims_t strides = {by, by}, pads = {pad, pad},
			  outs = {(dnnl_dim_t)s->out.channels};
	const dnnl_memory_desc_t x = images(rows, s->in), y = images(rows, s->out),
				 weight = weights(s, dnnl_format_tag_any),
				 b = described(1, outs, dnnl_a);
	struct cpu *c = cpu_of(d);
	dnnl_convolution_desc_t desc;
	dnnl_primitive_attr_t attr;
	dnnl_post_ops_t after;
	dnnl_primitive_desc_t pd, hint = NULL;
	if (direction != FORWARD)
		hint = conv_describe(d, s, rows, FORWARD);
	DNNL(dnnl_primitive_attr_clone(&attr, c->attr));
	if (direction == FORWARD) {
		DNNL(dnnl_convolution_forward_desc_init(
			&desc, dnnl_forward_training, dnnl_convolution_direct, &x, &weight,
			s->bias ? &b : NULL, &y, strides, pads, pads));
		DNNL(dnnl_post_ops_create(&after));
		if (s->relu)
			DNNL(dnnl_post_ops_append_eltwise(after, 1, dnnl_eltwise_relu, 0, 0));
		DNNL(dnnl_primitive_attr_set_post_ops(attr, after));
		DNNL(dnnl_post_ops_destroy(after));
	} else if (direction == BACKWARD_DATA) {
		DNNL(dnnl_convolution_backward_data_desc_init(&desc, dnnl_convolution_direct, &x,
							      &weight, &y, strides, pads, pads));
	} else {
		DNNL(dnnl_convolution_backward_weights_desc_init(&desc, dnnl_convolution_direct, &x,
								 &weight, s->bias ? &b : NULL, &y,
								 strides, pads, pads));
	}
	DNNL(dnnl_primitive_desc_create(&pd, &desc, attr, c->engine, hint));
	DNNL(dnnl_primitive_attr_destroy(attr));
	if (hint)
		DNNL(dnnl_primitive_desc_destroy(hint));
	return pd;
}

/* Arguments by direction: the weights, or their gradient, come first, and the bias last. */
static const int conv_kinds[DIRECTIONS][4] = {
	[FORWARD] = {DNNL_ARG_WEIGHTS, DNNL_ARG_SRC, DNNL_ARG_DST, DNNL_ARG_BIAS},
	[BACKWARD_DATA] = {DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_SRC},
	[BACKWARD_WEIGHT] = {DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_DST, DNNL_ARG_SRC,
			     DNNL_ARG_DIFF_BIAS},
};

static const struct conv_pass *pass_of(struct device *d, struct cpu_conv *l, size_t rows,
				       int direction)
{
	static const int reorder[] = {DNNL_ARG_FROM, DNNL_ARG_TO, 0};
	struct cpu *c = cpu_of(d);
	int kinds[5] = {0};
	for (size_t i = 0; i < l->passes; i++)
		if (l->pass[i].rows == rows && l->pass[i].direction == direction)
			return &l->pass[i];
	l->pass = must(realloc(l->pass, (l->passes + 1) * sizeof *l->pass));
	struct conv_pass *p = &l->pass[l->passes++];

	*p = (struct conv_pass){.rows = rows, .direction = direction};
	memcpy(kinds, conv_kinds[direction], sizeof conv_kinds[direction]);
	if (!l->s.bias)
		kinds[3] = 0;
	dnnl_primitive_desc_t pd = conv_describe(d, &l->s, rows, direction);
	const dnnl_memory_desc_t plain = weights(&l->s, dnnl_ohwi),
				 packed = *dnnl_primitive_desc_query_md(pd, dnnl_query_exec_arg_md,
									kinds[0]);

	p->weight_at = p->rest_at = scratchpad_of(pd);
	job_make(d, &p->job, pd, kinds);
	if (dnnl_memory_desc_equal(&packed, &plain))
		return p;
	bool out = direction == BACKWARD_WEIGHT;

	DNNL(dnnl_reorder_primitive_desc_create(&pd, out ? &packed : &plain, c->engine,
						out ? &plain : &packed, c->engine, c->attr));
	if (p->weight_at < scratchpad_of(pd))
		p->weight_at = scratchpad_of(pd);
	job_make(d, &p->weight, pd, reorder);
	p->rest_at = p->weight_at + floats_of(&packed);
	scratch_holds(d, p->rest_at);
	return p;
}

/* The weights in the layout of the pass. */
static const float *conv_weight(struct device *d, const struct conv_pass *p, const float *weight)
{
	if (!p->weight.primitive)
		return weight;
	float *packed = cpu_of(d)->scratch + p->weight_at;

	job_run(d, &p->weight, (const float *[]){weight, packed});
	return packed;
}

void cpu_conv_forward(struct device *d, void *conv, float *y, const float *x, const float *weight,
		      const float *bias, size_t rows)
{
	const struct conv_pass *p = pass_of(d, conv, rows, FORWARD);
	job_run(d, &p->job, (const float *[]){conv_weight(d, p, weight), x, y, bias});
}

void cpu_conv_backward_weight(struct device *d, void *conv, float *dweight, float *dbias,
			      const float *x, const float *dy, size_t rows)
{
	const struct conv_pass *p = pass_of(d, conv, rows, BACKWARD_WEIGHT);
	float *packed = p->weight.primitive ? cpu_of(d)->scratch + p->weight_at : dweight;
	job_run(d, &p->job, (const float *[]){packed, dy, x, dbias});
	if (packed != dweight)
		job_run(d, &p->weight, (const float *[]){packed, dweight});
}

/* oneDNN cannot add to dx. The gradient therefore goes to the scratch area first, in parts of at
 * most this many floats: they are still in the core's own cache when they are added. */
enum { ADDED_AT_ONCE = 1 << 16 };

void cpu_conv_backward_data(struct device *d, void *conv, float *dx, const float *dy,
			    const float *weight, bool add, size_t rows)
{
	struct cpu_conv *l = conv;
	const size_t in = image_size(l->s.in), out = image_size(l->s.out),
		     some = !add                 ? rows
			    : in < ADDED_AT_ONCE ? ADDED_AT_ONCE / in
						 : 1;
	const struct conv_pass *before = NULL;
	const float *packed = NULL;
	for (size_t first = 0; first < rows; first += some) {
		const size_t n = smaller(some, rows - first);
		const struct conv_pass *p = pass_of(d, l, n, BACKWARD_DATA);

		if (add)
			scratch_holds(d, p->rest_at + n * in);
		if (p != before) /* the first, and the last if it has fewer rows */
			packed = conv_weight(d, p, weight);
		before = p;
		float *to = add ? cpu_of(d)->scratch + p->rest_at : dx;

		job_run(d, &p->job, (const float *[]){packed, dy + first * out, to});
		if (add)
			cpu_axpy(d, dx + first * in, 1, to, n * in);
	}
}
