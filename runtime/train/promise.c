/*
 * promise.c - --check-promises: checks what a strategy and a workload state about themselves, as
 * far as a run shows it.
 *
 *   local         the step does not communicate or change the strategy's state; it reads and
 *                 writes no vector on the host
 *   host          if not set, the gradient reads and writes no vector on the host
 *   layer_ready   a gradient calls it once for each layer, from the last to the first
 *   average       if not set, all trainers have the same model at a barrier, bit for bit
 *
 * Every run checks what costs nothing: a strategy that has tables has .terms (table_new), one that
 * calls local_met has .meets (step.c). Off, the rest costs one branch per step. On, steps are not
 * repeated from graphs, and models are hashed at barriers.
 */
#include "runtime/config/config.h"
#include "runtime/config/plugins.h"
#include "runtime/train/trainer.h"

#include <stdlib.h>
#include <string.h>

struct promises {
	const struct device_ops *ops; /* the device's own */
	struct device_ops watched;    /* the same, but they count on_host */
	int64_t on_host;              /* vectors that the host read or wrote while watched */
	void *state;                  /* the strategy's, before a step */
	struct stats before;
	size_t next_layer; /* layers from this one on are done */
	struct vec *model;
	float *floats; /* [its length], host */
};

static struct promises *promises_of_device(struct device *d)
{
	struct trainer *r = (struct trainer *)(void *)((char *)d - offsetof(struct trainer, dev));
	return r->account.promises;
}

static void watched_put(struct device *d, float *y, const float *host, size_t n)
{
	struct promises *p = promises_of_device(d);
	p->on_host++;
	p->ops->put(d, y, host, n);
}

static void watched_get(struct device *d, float *host, const float *x, size_t n)
{
	struct promises *p = promises_of_device(d);
	p->on_host++;
	p->ops->get(d, host, x, n);
}

/* From here to watch(w, false) the device counts its vectors that the host reads or writes. */
static void watch(struct worker *w, bool on)
{
	struct promises *p = w->loop->account->promises;
	w->loop->dev->ops = on ? &p->watched : p->ops;
	if (on)
		p->on_host = 0;
}

void promises_open(struct trainer *r)
{
	struct worker *w = &r->w;
	if (!r->config->harness.check_promises)
		return;
	struct promises *p = r->account.promises = must(calloc(1, sizeof *p));
	p->ops = w->loop->dev->ops;
	p->watched = *p->ops;
	p->watched.put = watched_put;
	p->watched.get = watched_get;
	p->state = must(calloc(1, w->loop->strategy->state_size + 1));
	p->model = vec_new(w, vec_len(w->param));
	p->floats = must(calloc(vec_len(w->param) + 1, sizeof *p->floats));
	p->next_layer = w->model->layers;
}

void promises_close(struct trainer *r)
{
	struct promises *p = r->account.promises;
	if (!p)
		return;
	vec_free(p->model);
	free(p->floats);
	free(p->state);
	free(p);
	r->account.promises = NULL;
}

/* ---- Gradients ---- */

void promise_gradient(struct worker *w)
{
	w->loop->account->promises->next_layer = w->model->layers;
	watch(w, true);
	w->model->workload->gradient(w);
	watch(w, false);
	struct promises *p = w->loop->account->promises;
	const char *name = w->model->workload->plugin.name;
	/* workers that share a model communicate in the gradient, maybe through the host */
	CHECK(!p->on_host || w->model->workload->host || comm_size(w->model_group) > 1,
	      "workload %s: .host is not set, but its gradient reads or writes vectors on the host "
	      "(vec_get, vec_put): a device that captures it as a graph would repeat the first one",
	      name);
	CHECK(p->next_layer == 0,
	      "workload %s: its gradient does not call layer_ready for layer %zu and those below: "
	      "strategies that wait for them would hang, or send missing gradients",
	      name, p->next_layer - 1);
}

void promise_layer(struct worker *w, size_t i)
{
	struct promises *p = w->loop->account->promises;
	CHECK(i + 1 == p->next_layer,
	      "workload %s: its gradient calls layer_ready for layer %zu when %zu of %zu are "
	      "left: call it once for each layer, from the last to the first",
	      w->model->workload->plugin.name, i, p->next_layer, w->model->layers);
	p->next_layer = i;
}

/* ---- Steps ---- */

static bool is_of_a_file(const struct plugin *p)
{
	char *typed AUTOFREE = plugin_typed(p);
	return strchr(typed, '#');
}

void promise_step(struct worker *w)
{
	struct promises *p = w->loop->account->promises;
	const struct strategy *s = w->loop->strategy;
	p->before = *w->loop->stats;
	memcpy(p->state, w->state, s->state_size);
	p->next_layer = w->model->layers; /* a next step without rows computes no gradient */
	watch(w, true);
	s->step(w);
	watch(w, false);
	const struct stats *after = w->loop->stats;
	const char *does =
		after->joint_ops != p->before.joint_ops ||
				after->bytes_sent != p->before.bytes_sent ||
				after->pushes != p->before.pushes ||
				after->comm != p->before.comm || after->wait != p->before.wait
			? "communicates"
		: p->on_host ? "reads or writes vectors on the host"
		: memcmp(p->state, w->state, s->state_size) != 0 ? "changes the strategy's state"
								 : NULL;
	/* a strategy of this program keeps its promise with the program's own optimisers */
	if (s->local && does && !is_of_a_file(&s->plugin) && is_of_a_file(&w->optimizer->plugin))
		failure("optimizer %s: its step %s: a device that captures the step of strategy %s "
			"as a graph would not repeat that; compute with vec_ operations",
			w->optimizer->plugin.name, does, s->plugin.name);
	CHECK(!s->local || !does,
	      "strategy %s: .local is set, but its step, with optimizer %s, %s: a device that "
	      "captures the step as a graph would not repeat that; compute with vec_ operations",
	      s->plugin.name, w->optimizer->plugin.name, does);
}

/* ---- Barriers ---- */

static void check_models(struct trainer *r)
{
	struct worker *w = &r->w;
	const struct strategy *s = w->loop->strategy;
	struct promises *p = r->account.promises;
	if (s->average || r->replicas == 1 || *w->run->leave || !vec_has_data(w->param))
		return;
	vec_copy(p->model, w->param);
	if (s->canonical)
		s->canonical(w, p->model);
	vec_get(p->model, p->floats);
	double hash =
		(double)(hash_of(HASH_START, p->floats, vec_len(p->model) * sizeof *p->floats) >>
			 12);
	double most[] = {hash, -hash};
	link_reduce_all(comm_link(w->data_group), most, 2, REDUCE_MAX);
	CHECK(most[0] == -most[1],
	      "strategy %s: .average is not set, but after epoch %lld trainers have different "
	      "models%s: only one of them would be evaluated",
	      s->plugin.name, (long long)w->epoch,
	      s->wants_layer ? " (layer_ready was called only for layers that wants_layer names)"
			     : "");
}

void promises_at_barrier(struct trainer *r)
{
	if (r->account.promises)
		check_models(r);
}
