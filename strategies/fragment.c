/*
 * fragment.c - see fragment.h.
 */
#include "strategies/fragment.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- The outer optimiser ---- */

static bool is(const struct outer_opts *o, const char *name)
{
	return strcmp(o->how, name) == 0;
}

static bool has_outer(const struct outer_opts *o)
{
	return !is(o, "none");
}

/* SlowMo is sgd, except that its u is rescaled with lr. */
static const char *stepper_words(const struct outer_opts *o)
{
	return is(o, "momentum") ? "sgd" : o->how;
}

/* Optimisers with mu, whose step is linear in d. */
static bool is_linear(const struct outer_opts *o)
{
	return strcmp(stepper_words(o), "sgd") == 0 || is(o, "nesterov");
}

char *outer_refuse(const struct run *run, const char *strategy, const struct outer_opts *o)
{
	if (!has_outer(o))
		return NULL;
	char option[64];
	snprintf(option, sizeof option, "%s.outer", strategy);
	char *wrong = stepper_refuse(run, option, stepper_words(o), o->momentum);
	if (wrong || is_linear(o) || o->momentum == 0.5)
		return wrong;
	return sentence("--%s-momentum=%g: --%s=%s has options of its own in its place; leave it "
			"out",
			option, o->momentum, option, o->how);
}

/* ---- Fragments, and how long their sums travel ---- */

/* Otherwise there is one fragment, and nothing happens while its sum travels. */
static bool streams(const struct stream_opts *o)
{
	return o->fragments > 1 || o->delay > 0 || o->mix > 0;
}

char *stream_refuse(const struct run *run, const char *strategy, const struct stream_opts *o,
		    const struct outer_opts *outer)
{
	const char *what = o->fragments > 1 ? "fragments" : o->delay > 0 ? "delay" : "mix";
	const char *why =
		strcmp(run_state(run), "keep") != 0
			? "the optimiser's state belongs to all layers, and cannot be averaged or "
			  "reset with one fragment; use --state=keep"
		: o->delay > run_sync_every(run)
			? "a fragment is due again after --sync-every steps; give at most that many"
		: o->fragments > 1 && strncmp(outer->how, "muon", 4) == 0
			? "muon needs whole matrices, and a fragment is a row of floats; choose "
			  "another outer optimiser"
			: NULL;
	if (o->eager && o->delay != run_sync_every(run))
		return sentence("--%s.eager: the others' changes are late by one round; give "
				"--%s.delay=%lld, as --sync-every",
				strategy, strategy, (long long)run_sync_every(run));
	if (o->eager && strcmp(run_codec(run), "none") != 0)
		return sentence("--%s.eager: a worker adds its own change as it is, and a codec "
				"changes what it sends; use --codec=none",
				strategy);
	return streams(o) && why ? sentence("--%s.%s: %s", strategy, what, why) : NULL;
}

/* ---- Rounds ---- */

void fragment_init(struct fragment *f, struct worker *w, const struct fragment_terms *t, size_t k)
{
	*f = (struct fragment){.change = w->param, .coded = w->coded};
	if (streams(t->stream))
		fragment_cut(f, w, t->stream, k);
	else if (has_outer(t->outer) || t->remembers)
		f->averaged = vec_new(w, vec_len(w->param));
	f->late =
		t->stream->delay == run_sync_every(w->run) ? vec_new(w, vec_len(f->change)) : NULL;
	worker_keep_vec(w, f->averaged);
	worker_keep_vec(w, t->stream->eager ? f->late : NULL);
	fragment_restart(f, 0, true);
	if (has_outer(t->outer))
		f->outer = stepper_new(w, stepper_words(t->outer), t->outer->momentum, f->averaged,
				       f->late ? f->late : f->change);
	worker_keep(w, &f->now, sizeof f->now);
}

void fragment_fini(struct fragment *f, const struct worker *w)
{
	for (size_t i = 0; i < f->slices; i++) {
		vec_free(f->slice[i].param);
		vec_free(f->slice[i].change);
		vec_free(f->slice[i].averaged);
	}
	if (f->slice)
		vec_free(f->change);
	if (f->coded != w->coded && f->coded != w->data_group)
		comm_free(f->coded);
	free(f->slice);
	stepper_free(f->outer);
	vec_free(f->averaged);
	vec_free(f->late);
}

static void collect(struct fragment *f)
{
	for (size_t i = 0; i < f->slices; i++)
		vec_copy(f->slice[i].change, f->slice[i].param);
}

void fragment_restart(struct fragment *f, int64_t step, bool common)
{
	f->now.taken = f->now.sent = step;
	if (!common || !f->averaged)
		return;
	collect(f);
	vec_copy(f->averaged, f->change);
	if (f->late)
		vec_fill(f->change, 0);
}

void fragment_stepped(struct fragment *f, const struct worker *w)
{
	f->now.shares += worker_share(w);
	f->now.steps++;
	if (w->step == f->now.sent + 1)
		f->now.lr = w->lr;
}

/* Weight of this trainer's part in an average now, relative to 1/N. Gradients have their rows'
 * weights; steps that are equally long for any gradient do not. */
static float share_of_trainer(const struct fragment *f, const struct worker *w)
{
	bool counts = w->optimizer->normalises && f->now.steps > 0;
	return counts ? (float)(f->now.shares / f->now.steps) : 1;
}

/* The factor of u in the outer step of this round. */
static double momentum_now(const struct fragment *f, const struct outer_opts *o)
{
	bool moves = is(o, "momentum") && f->now.lr_last > 0;
	return o->momentum * (moves ? f->now.lr / f->now.lr_last : 1);
}

void fragment_wait(struct fragment *f)
{
	if (f->sum)
		comm_wait(f->sum);
	f->sum = NULL;
}

/* late = the sum of the last round; eager: without what this worker sent for it */
static void get_late(struct fragment *f, bool eager)
{
	fragment_wait(f);
	if (!eager) {
		vec_copy(f->late, f->change);
		return;
	}
	vec_scale(f->late, -1);
	vec_axpy(f->late, 1, f->change);
}

/* The trainer's part and W become one, but for --*.mix. */
static void restart_part(struct fragment *f, const struct fragment_terms *t)
{
	const float mix = (float)t->stream->mix, rest = (float)(1 - t->stream->mix);
	if (!f->slice && f->averaged)
		vec_copy(f->change, f->averaged);
	for (size_t i = 0; i < f->slices; i++) {
		if (mix == 0) {
			vec_copy(f->slice[i].param, f->slice[i].averaged);
			continue;
		}
		vec_scale(f->slice[i].param, mix);
		vec_axpy(f->slice[i].param, rest, f->slice[i].averaged);
	}
}

/* The outer step, with the sum of all (w - W): -N d for the mean and -d for the sum; then W. */
static void take(struct fragment *f, struct worker *w, const struct fragment_terms *t,
		 const struct vec *sum)
{
	if (f->outer)
		stepper_step(f->outer, t->outer->lr, f->now.momentum, -(float)w->weight);
	else if (f->averaged)
		vec_axpy(f->averaged, (float)w->weight, sum);
	restart_part(f, t);
	f->now.taken = f->now.sent;
	f->now.steps *= t->stream->mix;
	f->now.shares *= t->stream->mix;
}

/* A sum that arrives now changes W and the trainer's part only after the change is measured: the
 * steps since the last round are in no other sum. At the first one there is nothing to add to W;
 * what travels leaves the trainer's part. */
void fragment_send(struct fragment *f, struct worker *w, const struct fragment_terms *t)
{
	float share = share_of_trainer(f, w);
	bool eager = t->stream->eager;
	if (f->late)
		get_late(f, eager);
	collect(f);
	if (f->averaged)
		vec_axpy(f->change, -1, f->averaged);
	if (share != 1)
		vec_scale(f->change, share);
	if (f->late && !eager && f->now.taken < f->now.sent)
		take(f, w, t, f->late);
	else if (f->late && !eager)
		restart_part(f, t);
	f->now.momentum = momentum_now(f, t->outer);
	f->now.lr_last = f->now.lr;
	f->now.sent = w->step;
	f->now.steps = f->now.shares = 0;
	if (eager) {
		vec_axpy(f->late, 1, f->change);
		take(f, w, t, f->late);
		vec_copy(f->late, f->change);
	}
	if (f->slice)
		f->sum = comm_allreduce_start(f->coded, f->change, 0, vec_len(f->change));
	else
		comm_allreduce(f->coded, f->change, f->averaged ? COMM_SUM : COMM_MEAN);
	if (f->late)
		local_met(w);
}

void fragment_take(struct fragment *f, struct worker *w, const struct fragment_terms *t)
{
	fragment_wait(f);
	take(f, w, t, f->change);
	local_met(w);
}

static void get_common(const struct fragment *f, struct vec *model)
{
	if (!f->slice)
		vec_copy(model, f->averaged);
	for (size_t i = 0; i < f->slices; i++) {
		const struct fragment_slice *s = &f->slice[i];
		struct vec *at = vec_slice(model, s->first, s->length);
		vec_copy(at, s->averaged);
		vec_free(at);
	}
}

/* momentum: W - a mu u - a d; nesterov: W - a mu^2 u - a (1 + mu) d. */
void fragment_preview(const struct fragment *f, struct worker *w, const struct fragment_terms *t,
		      struct vec *model)
{
	const struct outer_opts *o = t->outer;
	bool between = f->now.taken != w->step;
	if (f->slice || (f->outer && !is_linear(o) && between)) {
		get_common(f, model);
		return;
	}
	if (model != w->param)
		vec_copy(model, w->param);
	if (!between)
		return;
	float share = share_of_trainer(f, w);
	if (!f->averaged && share != 1)
		vec_scale(model, share);
	if (!f->averaged)
		return;
	float a = f->outer ? (float)o->lr : 1, mu = f->outer ? (float)momentum_now(f, o) : 0;
	float all = (float)(w->weight * comm_size(w->data_group)); /* 1 for mean, N for sum */
	float nesterov = is(o, "nesterov") ? mu : 0;
	float d = a * all * (1 + nesterov);
	vec_scale(model, d * share);
	vec_axpy(model, 1 - d * share, f->averaged);
	if (mu > 0)
		vec_axpy(model, -a * mu * (nesterov > 0 ? mu : 1), stepper_moment(f->outer, 0));
}
