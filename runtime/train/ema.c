/*
 * ema.c - --ema: the evaluated model is an average of the canonical models of all steps so far.
 *
 *   e_t = e_(t-1) + c_t (w_t - e_(t-1)),   c_t = (1 - d) / (1 - d^t)        d is --ema
 *
 * e_t = (1 - d) / (1 - d^t) sum of d^(t - i) w_i: the weights of all models so far add up to 1, so
 * the model before training has none. With d = 1 it is the mean of all models (Polyak, Juditsky,
 * SIAM J. Control Optim. 30, 1992). Every worker averages its own view of the model. Where models
 * differ, the mean over the workers is evaluated, and that is the average of their means.
 *
 * Where the strategy says what its canonical model is, a worker reads that only in every X-th step,
 * with the clock stopped, as for --eval-every; it counts for X steps.
 */
#include "runtime/config/config.h"
#include "runtime/train/trainer.h"

#include <math.h>

/* Weight of the models of the last n of t steps. */
static double weight(double d, int64_t n, int64_t t)
{
	return d < 1 ? expm1((double)n * log(d)) / expm1((double)t * log(d))
		     : (double)n / (double)t;
}

static void add(struct trainer *r, const struct vec *model)
{
	int64_t t = r->w.step;
	double c = weight(r->w.run->ema, t - r->averaged_steps, t);
	vec_scale(r->averaged, (float)(1 - c));
	vec_axpy(r->averaged, (float)c, model);
	r->averaged_steps = t;
}

void ema_open(struct trainer *r)
{
	struct worker *w = &r->w;
	if (w->run->ema == 0)
		return;
	r->averaged = vec_new(w, vec_len(w->param));
	worker_keep_vec(w, r->averaged);
	worker_keep(w, &r->averaged_steps, sizeof r->averaged_steps);
}

bool ema_is_due(const struct trainer *r)
{
	return r->averaged && !(r->w.loop->strategy->canonical && r->w.step % r->w.run->sync_every);
}

void ema_step(struct trainer *r)
{
	struct worker *w = &r->w;
	const struct strategy *s = w->loop->strategy;
	if (!s->canonical) {
		add(r, w->param);
		return;
	}
	device_sync(w->loop->dev);
	struct stats kept = r->stats; /* restored: evaluation reads do not count */
	nsec since = clock_now();
	r->stats.trace = NULL;
	s->canonical(w, r->saved);
	add(r, r->saved);
	device_sync(w->loop->dev);
	r->stats = kept;
	r->clock_stopped_ns += clock_now() - since;
}

const struct vec *ema_model(const struct trainer *r)
{
	return r->averaged_steps > 0 ? r->averaged : NULL;
}
