/*
 * exchange.c - the exchange with a parameter server that asgd, bsp and ssp have in common; they
 * differ in the terms of their table: which worker waits for which. downpour's pushes and pulls
 * have separate intervals; easgd uses the functions that manage a table.
 *
 *   each step:     v = m v + g;  w -= lr v                                  local, or another
 *                                                                           --optimizer's
 *   every X steps, with c = 1 for sum, 1 / (N - backup workers) for mean:
 *     add:         W += c (w - w_pulled);                   w = w_pulled = W
 *     delayed_nesterov: the same changes c (w - w_pulled), and momentum of every N of them
 *     others:      W = updater(W, sum of the X v, c lr);    w = w_pulled = W
 *
 * In rounds (bsp) an updater that is not additive gets one push a round, the weighted sum of the
 * workers' v, and c scales that instead of lr: momentum and adam then make allreduce's steps. No
 * push of a round is late, so dcasgd and dcasgda are sgd there.
 *
 * With --momentum=0 v is g. momentum, momentum_ema and adam keep v, or M and S, on the server. They
 * get sums of g, and the local steps between two exchanges have no momentum. adagrad's step is rho:
 * c scales that, not lr. staleness has c = 1: it divides by the staleness instead of N. dcasgda's m
 * is --*.square. An exchange moves the shards of the others both ways: 2 (N - 1) / N P floats, 2 P
 * with servers. Gradients of X > 1 steps cost one pass more.
 *
 * A dropped push is a dropped gradient, as in Chen et al. (arXiv 1604.00981). They keep v on the
 * server. Here v is reset to its value after the last push that counted; otherwise the next push
 * would contain most of the dropped gradient. That costs a copy of P floats an exchange.
 */
#include "strategies/exchange.h"

#include <math.h>
#include <string.h>

char *exchange_refuse(const struct run *run, const void *opts)
{
	const struct updater_opts *o = opts;
	if (updater_wants(o->updater).betas && run_momentum(run) != 0)
		return sentence("--momentum=%g: --%s.updater=%s has --%s.beta1 and --%s.beta2 in "
				"its place; give --momentum=0",
				run_momentum(run), run_strategy(run), o->updater, run_strategy(run),
				run_strategy(run));
	if (!updater_wants(o->updater).gradient || strcmp(run_optimizer(run), "sgd") == 0)
		return NULL;
	return sentence("--%s.updater=%s: the server makes the step, but --optimizer=%s makes it "
			"on the worker; use the updater add",
			run_strategy(run), o->updater, run_optimizer(run));
}

/* Do pushes or pulls travel as a codec's messages? A worker alone with its table sends none. */
static bool is_coded(const struct run *run)
{
	bool any = strcmp(run_codec(run), "none") != 0 || strcmp(run_codec_pull(run), "false") != 0;
	return any && (run_workers(run) > 1 || run_servers(run) > 0);
}

struct table_terms exchange_terms(const struct run *run, const void *opts)
{
	const struct updater_opts *o = opts;
	return (struct table_terms){.updater = o->updater,
				    .syncs = !is_coded(run) &&
					     !updater_wants(o->updater).gradient &&
					     !updater_wants(o->updater).change,
				    .init = TABLE_MASTER};
}

void exchange_init(struct worker *w)
{
	struct exchange *s = w->state;
	const struct table_terms terms = worker_terms(w);
	s->wants = updater_wants(terms.updater);
	s->table = table_new(w, w->param);
	s->rounds = terms.rounds;
	s->quorum = terms.joins && terms.backup > 0;
	if (s->apart || s->wants.change || (is_coded(w->run) && !s->wants.gradient) ||
	    (s->wants.gradient && run_sync_every(w->run) > 1))
		s->sum = vec_new(w, vec_len(w->param));
	s->weight = w->weight;
	if (s->wants.whole || terms.mean) /* the table divides */
		s->weight = 1;
	else if (strcmp(run_reduce(w->run), "mean") == 0)
		s->weight = 1 / (double)comm_size(w->data_group);
	bool drops = terms.backup > 0 && !terms.joins && !s->wants.momentum;
	for (int k = 0; k < MOMENTS_MOST && drops; k++) {
		s->counted[k] = w->moment[k] ? vec_new(w, vec_len(w->param)) : NULL;
		worker_keep_vec(w, s->counted[k]);
	}
	if (s->counted[0])
		worker_keep(w, &s->counted_age, sizeof s->counted_age);
}

/* Gradients have the weight of their rows; steps that are equally long for any gradient do not. */
static double weight_of_push(const struct worker *w)
{
	const struct exchange *s = w->state;
	bool even = !s->rounds || !(w->optimizer->normalises || s->wants.evens);
	return even ? s->weight : s->weight * s->shares / s->steps;
}

/* What goes with a push of this worker. */
static struct push terms_of_push(const struct worker *w)
{
	const struct updater_opts *o = w->opts; /* the first member of a strategy's options */
	const struct exchange *s = w->state;
	double part = s->quorum ? (double)s->steps / (double)run_sync_every(w->run) : 1;
	double weight = part * weight_of_push(w);
	double rows = s->wants.evens || w->optimizer->normalises ? s->shares : s->rows;
	return (struct push){.scale = (float)weight,
			     .share = (float)(part * rows / s->steps),
			     .idle = rows == 0,
			     .lr = (float)(weight * (s->wants.change ? o->outer_lr : w->lr)),
			     .momentum = s->wants.change    ? o->outer_momentum
					 : s->wants.squares ? o->square
							    : run_momentum(w->run),
			     .period = !s->wants.change ? 0
				       : s->rounds      ? 1
				       : o->period > 0  ? (float)o->period
							: (float)comm_size(w->data_group),
			     .rho = (float)(weight * o->rho),
			     .lambda = (float)(s->wants.change ? o->spread : o->lambda),
			     .beta = {o->beta1, o->beta2},
			     .eps = (float)o->eps};
}

/* A local step, without a momentum that the server keeps. Returns v or g, the gradient to push. */
static struct vec *gradient_step(struct worker *w)
{
	struct exchange *s = w->state;
	struct vec *v = s->wants.momentum ? NULL : w->moment[0];
	local_gradient(w);
	if (s->sum || v || consensus_marks(w)) /* otherwise the pull overwrites it */
		vec_sgd(w->param, v, w->grad, (float)w->lr, v ? (float)run_momentum(w->run) : 0, 0,
			1);
	return v ? v : w->grad;
}

/* A local step. Returns the gradient, or the sum, that the next push takes; NULL: the push takes
 * the change of param. */
static struct vec *exchange_one_step(struct worker *w)
{
	struct exchange *s = w->state;
	if (!s->wants.gradient && !s->sum) {
		local_step(w, 1);
		return NULL;
	}
	if (!s->wants.gradient && !w->optimizer->plain) { /* the parameter change of the step */
		vec_axpy(s->sum, -1, w->param);
		local_step(w, 1);
		vec_axpy(s->sum, 1, w->param);
		return s->sum;
	}
	struct vec *v = gradient_step(w);
	if (!s->sum)
		return v;
	vec_axpy(s->sum, s->wants.gradient ? 1 : -(float)w->lr, v);
	return s->sum;
}

/* Also pulls, unless pulls have an interval of their own. */
static void push(struct worker *w, const struct vec *pushed)
{
	struct exchange *s = w->state;
	struct push by = terms_of_push(w);
	bool counts;
	s->outstanding = false;
	if (s->apart)
		counts = table_push(s->table, pushed, &by);
	else if (pushed)
		counts = table_push_pull(s->table, pushed, &by, w->param);
	else
		counts = table_sync(s->table, w->param, &by);
	s->shares = s->rows = s->steps = 0;
	if (s->sum)
		vec_fill(s->sum, 0);
	for (int k = 0; k < MOMENTS_MOST && s->counted[k]; k++)
		vec_copy(counts ? s->counted[k] : w->moment[k],
			 counts ? w->moment[k] : s->counted[k]);
	if (!counts) /* the moments lack the steps since then */
		w->age = s->counted_age;
	s->counted_age = w->age;
	if (!s->apart)
		local_met(w);
}

static void next_interval(struct worker *w)
{
	struct exchange *s = w->state;
	worker_report(w, "interval", (double)(w->step - s->last));
	s->interval = (int64_t)fmax(1, round(worker_speed(w) * (double)run_sync_every(w->run)));
	s->last = w->step;
}

void exchange_step(struct worker *w)
{
	struct exchange *s = w->state;
	bool pulls = s->interval ? w->step >= s->last + s->interval
				 : w->step % run_sync_every(w->run) == 0;
	bool steps = w->rows > 0 || s->rounds;
	s->outstanding |= steps;
	s->shares += worker_share(w);
	s->rows += w->mean_rows > 0 ? (double)w->rows / w->mean_rows : w->rows > 0;
	s->steps++;
	struct vec *pushed = steps ? exchange_one_step(w) : s->sum;
	if (pulls)
		consensus_mark(w);
	if ((s->apart ? w->step % s->send == 0 : pulls) && s->outstanding)
		push(w, pushed);
	if (pulls && s->apart) {
		table_pull(s->table, w->param);
		local_met(w);
	}
	if (pulls && s->interval)
		next_interval(w);
}

void exchange_flush(struct worker *w)
{
	struct exchange *s = w->state;
	if (s->outstanding)
		push(w, s->sum);
}

/* The push came before the barrier; the pull after it gives all workers the same model. */
void exchange_rejoin(struct worker *w)
{
	struct exchange *s = w->state;
	table_pull(s->table, w->param);
}

void exchange_canonical(struct worker *w, struct vec *model)
{
	struct exchange *s = w->state;
	table_get(s->table, model);
}

void exchange_fini(struct worker *w)
{
	struct exchange *s = w->state;
	table_free(s->table);
	vec_free(s->sum);
	for (int k = 0; k < MOMENTS_MOST; k++)
		vec_free(s->counted[k]);
}

double exchange_bytes(const struct worker *w)
{
	const struct exchange *s = w->state;
	double pulls = (double)run_sync_every(w->run);
	return table_push_bytes(w, s->table) / (s->apart ? (double)s->send : pulls) +
	       table_pull_bytes(w, s->table) / pulls;
}
