/*
 * device.c - the device of a simulated worker: the operations of another device, or of device_none,
 * with their calibrated times.
 *
 * A gradient without communication takes one draw from the calibrated times of a whole step. The
 * update is a separate cost and is subtracted from the draw. If the layers of one model are spread
 * over workers, a product takes its share of the draw by flops; the other operations take their own
 * time.
 *
 * An update was measured as a whole, as the optimiser updates all parameters. A parameter group
 * takes its share by floats; the operations within it take nothing.
 *
 * A draw (sim/model/steps.c) is in proportion to the rows.
 */
#include "runtime/config/config.h"
#include "runtime/config/heterogeneity.h"
#include "runtime/train/train.h"
#include "sim/sim.h"

#include <string.h>

static struct device_ops ops;          /* what the workers see, */
static const struct device_ops *inner; /* and what computes */
static struct optimizer optimizer;     /* likewise */
static const struct optimizer *inner_optimizer;

static void charge(enum cost what, size_t amount)
{
	if (!sim_self()->quiet && !sim_self()->updating)
		sim_charge_for(SPENT_VECTOR, what, (double)amount);
}

/* Charges also within a gradient, because the draw does not include it. */
static void charge_always(enum cost what, size_t amount)
{
	if (!sim_self()->updating)
		sim_charge_for(what == COST_SGD ? SPENT_UPDATE : SPENT_VECTOR, what,
			       (double)amount);
}

/* Of all layers and the forward pass. */
static double sum_parts(const struct worker *w, const double *part)
{
	double sum = 0;
	for (size_t i = 0; i <= w->model->layers; i++)
		sum += part[i];
	return sum;
}

/* The flops of one row in the whole model. */
static double row_flops(const struct worker *w)
{
	return sum_parts(w, w->model->flops);
}

/* For the current mini-batch: a gradient of the whole model, without the update. */
static double draw(const struct sim_worker *me, double params)
{
	const struct simulation *costs = sim_plan->simulation;
	double rows = (double)me->worker->rows / costs->rows;
	double step = steps_draw(&costs->step, rng_uniform(&sim_self()->rng));
	double update = curve_at(&costs->cost[COST_SGD], params);
	return step > update ? rows * (step - update) : 0;
}

/* A step that --step-time paces takes no core, because real workers sleep for most of it. */
static void charge_gradient(double seconds)
{
	if (sim_plan->simulation->sleeps)
		sim_self()->asleep_s += seconds;
	else
		sim_charge(SPENT_STEP, seconds);
}

static bool is_spread(const struct worker *w)
{
	return comm_size(w->model_group) > 1;
}

/* The mean time of a flop of a gradient [s]. */
static double flop_time(const struct worker *w)
{
	const struct simulation *costs = sim_plan->simulation;
	double mean = -curve_at(&costs->cost[COST_SGD], (double)sim_plan->params);
	for (int i = 0; i < 64; i++)
		mean += steps_draw(&costs->step, (i + 0.5) / 64) / 64;
	return fmax(0, mean) / (costs->rows * row_flops(w));
}

/* A product outside a gradient takes the time of as many flops of one. In a gradient of a spread
 * model it takes its share of the draw. A step that --step-time paces tells no speed. */
static void charge_product(double flops)
{
	const struct sim_worker *me = sim_self();
	const struct worker *w = me->worker;
	if (me->quiet || me->updating || !w->model->flops || flops == 0)
		return;
	if (!is_spread(w) && !sim_plan->simulation->sleeps && !me->off_clock)
		sim_charge(SPENT_VECTOR, flops * flop_time(w));
	else if (is_spread(w) && w->rows)
		charge_gradient(me->gradient_s * flops / (row_flops(w) * (double)w->rows));
}

/* A mini-batch arrives. If the model is spread, layers without matrix products are charged here,
 * because the flops of convolutions are known for a layer, not for an operation. */
static void charge_data(size_t n)
{
	struct sim_worker *me = sim_self();
	const struct worker *w = me->worker;
	if (!is_spread(w))
		return;
	me->gradient_s = draw(me, (double)sim_plan->params);
	charge(COST_COPY, n);
	charge_product(net_other_flops(w->model->net) * (double)w->rows);
}

/* The costs of the kinds of operations. If a gradient is one draw, the draw includes the data.
 * CLIP: of gradients, which calibrations do not clip; UPDATE: a strategy's own. */
#define CHARGE_NOTHING(amount)
#define CHARGE_FILL(n)        charge(COST_FILL, n)
#define CHARGE_COPY(n)        charge(COST_COPY, n)
#define CHARGE_SCALE(n)       charge(COST_SCALE, n)
#define CHARGE_AXPY(n)        charge(COST_AXPY, n)
#define CHARGE_PRODUCT(flops) charge_product(flops)
#define CHARGE_DATA(n)        charge_data(n)
#define CHARGE_CLIP(n)        charge_always(COST_SCALE, n)
#define CHARGE_UPDATE(n)      charge_always(COST_SGD, n)

#define TIMED(name, params, args, kind, amount, ...) \
	static void sim_##name DEVICE_PARAMS(params) \
	{ \
		inner->name DEVICE_ARGS(args); \
		CHARGE_##kind(amount); \
	}
DEVICE_OPS(TIMED)

static void sim_get(struct device *d, float *host, const float *x, size_t n)
{
	inner->get(d, host, x, n);
	charge(COST_COPY, n);
}

/* ---- A gradient as a whole ---- */

/* The parts of a step, by measured times or by flops; NULL = not known. */
static const double *parts(const struct worker *w)
{
	const struct simulation *s = sim_plan->simulation;
	return s->layers == w->model->layers ? s->layer_s : w->model->flops;
}

/* A layer's weight in the backward pass: by its part, or else by its parameters. */
static double layer_weight(const struct worker *w, size_t i)
{
	const double *part = parts(w);
	return part ? part[i] : (double)(w->model->layer[i + 1] - w->model->layer[i]);
}

static double forward_part(const struct worker *w)
{
	const double *part = parts(w);
	return part ? part[w->model->layers] / sum_parts(w, part) : 1.0 / 3;
}

/* The layers of a forward pass take shares of its time, as they do of the backward pass. The lowest
 * one has no gradient for a layer below. */
static void forward_layers(struct worker *w, double seconds)
{
	double all = layer_weight(w, 0);
	for (size_t i = 0; i < w->model->layers; i++)
		all += layer_weight(w, i);
	for (size_t i = 0; i < w->model->layers; i++) {
		layer_needed(w, i);
		double weight = layer_weight(w, i) * (i ? 1 : 2);
		charge_gradient(seconds *
				(all > 0 ? weight / all : 1.0 / (double)w->model->layers));
	}
}

static void sim_graph(struct device *d, size_t key, void (*body)(void *ctx), void *ctx)
{
	struct sim_worker *me = sim_self();
	(void)key;
	struct worker *w = me->worker;
	const double whole = draw(me, (double)vec_len(w->param)), forward = whole * forward_part(w);
	const bool by_layer = w->loop->by_layer && w->step > 0;
	if (by_layer)
		forward_layers(w, forward);
	me->quiet = d->in_graph = true;
	body(ctx);
	me->quiet = d->in_graph = false;
	me->pending_s = 0;
	if (!wants_layers(w)) {
		charge_gradient(by_layer ? whole - forward : whole);
	} else { /* the forward pass; the backward pass comes layer by layer */
		if (!by_layer)
			charge_gradient(forward);
		me->pending_s = whole - forward;
	}
}

static void sim_event_record(struct device *d, size_t i)
{
	(void)d, (void)i;
}

/* A layer of the backward pass takes its share of the layers that are left. */
static void sim_event_wait(struct device *d, size_t i)
{
	struct sim_worker *me = sim_self();
	const struct worker *w = me->worker;
	(void)d;
	double left = 0;
	for (size_t k = 0; k <= i; k++)
		left += layer_weight(w, k);
	double part =
		i == 0 || left <= 0 ? me->pending_s : me->pending_s * layer_weight(w, i) / left;
	charge_gradient(part);
	me->pending_s -= part;
}

/* ---- An update as a whole ---- */

/* An update takes its time also inside a body of graph. */
static void sim_update(struct worker *w, const struct param_group *p, float scale, float decay)
{
	struct sim_worker *me = sim_self();
	me->updating = true;
	inner_optimizer->step(w, p, scale, decay);
	me->updating = false;
	double whole = (double)sim_plan->params, share = (double)vec_len(p->param) / whole;
	sim_charge(SPENT_UPDATE, share * curve_at(&sim_plan->simulation->cost[COST_SGD], whole));
}

/* The operations of w's device take virtual time. Without sim.train they do nothing else. */
void world_device(struct worker *w)
{
	struct sim_worker *me = sim_self();
	me->worker = w;
	me->rng = rng_seed(arrival_seed(w->run), RNG_COMPUTE, w->rank);
	if (!inner) {
		inner = w->run->sim_train ? &device_cpu : &device_none;
		ops = *inner;
#define TAKE(name, ...) ops.name = sim_##name;
		DEVICE_OPS(TAKE)
		ops.get = sim_get;
		ops.graph = sim_graph;
		ops.event_record = sim_event_record;
		ops.event_wait = sim_event_wait;
	}
	w->loop->dev->ops = &ops;
	if (!inner_optimizer && w->optimizer) {
		inner_optimizer = w->optimizer;
		optimizer = *inner_optimizer;
		optimizer.step = sim_update;
	}
	if (w->optimizer)
		w->optimizer = &optimizer;
}
