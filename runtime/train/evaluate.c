/*
 * evaluate.c - evaluates models between segments: which model, on which rows, and whether the run
 * continues.
 *
 * It evaluates the strategy's canonical model. With a barrier after every epoch, that is the model
 * at the barrier. Otherwise each trainer keeps a snapshot of the model as it knows it at the end of
 * an epoch; the snapshots are evaluated after the segment.
 */
#include "runtime/config/config.h"
#include "runtime/train/trainer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A loss above this multiple of the test loss before training counts as exploded. */
#define EXPLODED 10.0

/* Loss and correct predictions of the model in param on these rows. Each replica evaluates a part
 * of them. */
static struct tally tally_of(struct trainer *r, const struct data *set, const struct rows *rows)
{
	struct worker *w = &r->w;
	struct tally t;
	size_t first = part_of(rows->n, (size_t)r->replicas, (size_t)r->replica);
	size_t end = part_of(rows->n, (size_t)r->replicas, (size_t)r->replica + 1);
	for (size_t at = first; at < end; at += EVALUATE_ROWS) {
		w->model->workload->evaluate(w, set, rows->index + at,
					     smaller(end - at, EVALUATE_ROWS));
		pulse_step();
	}
	tally_take(w, &t);
	return t;
}

/* Does the evaluated model differ from the one in param? */
static bool is_elsewhere(const struct trainer *r, const struct snapshot *at)
{
	const struct strategy *s = r->w.loop->strategy;
	return (at && at->param) || s->canonical || s->average || r->averaged;
}

/* The mean over the workers that have had rows and have not left, or the buffers of the first of
 * them. share: this worker's mean_share, its weight. Before the first step, all count. */
static void share_buffers(struct trainer *r, bool left, double share)
{
	struct worker *w = &r->w;
	double sum[] = {left ? 0 : share, !left}, total;
	link_reduce_all(comm_link(w->data_group), sum, 2, REDUCE_SUM);
	total = sum[0] > 0 ? sum[0] : sum[1];
	share = left ? 0 : sum[0] > 0 ? share : 1;
	double first = share > 0 ? -r->replica : -r->replicas;
	if (strcmp(w->run->norm_statistics, "first") == 0) {
		link_reduce_all(comm_link(w->data_group), &first, 1, REDUCE_MAX);
		comm_broadcast(w->data_group, -(int)first, w->model->buffer);
		return;
	}
	if (share == 0)
		vec_fill(w->model->buffer, 0);
	else if (share != 1)
		vec_scale(w->model->buffer, (float)share);
	comm_allreduce(w->data_group, w->model->buffer, COMM_SUM);
	vec_scale(w->model->buffer, 1 / (float)total);
}

/* Recomputes the buffers for the model in param: the mean over mini-batches of training rows. These
 * are always the same, spread over the set; each replica takes its part of them. */
static void recompute_buffers(struct trainer *r)
{
	enum { ROWS = 8192 };
	struct worker *w = &r->w;
	size_t n = r->train.n, rows = smaller(n, (size_t)w->run->batch);
	size_t batches = rows < ROWS ? smaller(n, ROWS) / rows : 1;
	int32_t *index AUTOFREE = must(malloc(rows * sizeof *index));
	struct tally ignored;
	vec_fill(r->statistics, 0);
	for (size_t i = (size_t)r->replica; i < batches; i += (size_t)r->replicas) {
		for (size_t k = 0; k < rows; k++)
			index[k] = (int32_t)part_of(n, rows * batches, k * batches + i);
		w->model->workload->statistics(w, index, rows);
		pulse_step();
		vec_axpy(r->statistics, 1 / (float)batches, w->model->buffer);
	}
	comm_allreduce(w->data_group, r->statistics, COMM_SUM);
	vec_copy(w->model->buffer, r->statistics);
	tally_take(w, &ignored);
}

void model_place(struct trainer *r, const struct snapshot *s)
{
	struct worker *w = &r->w;
	if (is_elsewhere(r, s))
		vec_copy(r->saved, w->param);
	if (s && s->param)
		vec_copy(w->param, s->param);
	else if (ema_model(r))
		vec_copy(w->param, ema_model(r));
	else if (w->loop->strategy->canonical)
		w->loop->strategy->canonical(w, w->param);
	if (w->loop->strategy->average)
		comm_allreduce(w->data_group, w->param, COMM_MEAN);
	else if (is_elsewhere(r, s))
		comm_broadcast(w->data_group, s ? s->reporting : 0, w->param);
	if (!w->model->buffer)
		return;
	vec_copy(r->buffer, w->model->buffer);
	if (r->statistics) {
		recompute_buffers(r);
		return;
	}
	if (s && s->buffer)
		vec_copy(w->model->buffer, s->buffer);
	share_buffers(r, s ? s->left : r->left, s ? s->share : mean_share(r));
}

void model_take_back(struct trainer *r, const struct snapshot *s)
{
	struct worker *w = &r->w;
	if (is_elsewhere(r, s))
		vec_copy(w->param, r->saved);
	if (w->model->buffer)
		vec_copy(w->model->buffer, r->buffer);
}

static void evaluate_model(struct trainer *r, const struct snapshot *s, struct judged e[EVALUATED])
{
	nsec since = clock_peek();
	r->account.metrics.n = 0;
	model_place(r, s);
	const struct tally t[EVALUATED] = {[ON_TRAIN] = tally_of(r, &r->train, &r->train_rows),
					   [ON_VALIDATION] =
						   tally_of(r, &r->validation, &r->validation_rows),
					   [ON_TEST] = tally_of(r, &r->test, &r->test_rows)};
	model_take_back(r, s);
	if (r->trace) {
		trace_at(r->trace, s->epoch, 0);
		trace_add(r->trace, TRACE_EVALUATE, since, clock_peek());
	}
	gather_tallies(r, t, EVALUATED, e);
}

/* Until statistics of normalisations have seen data, they make the test loss useless, unless it is
 * not finite. */
static bool has_useless_test(const struct trainer *r, const struct epoch_row *row)
{
	return r->w.model->buffer && isfinite(row->on[ON_TEST].loss);
}

/* What a model without training loses. */
static double first_loss_of(const struct trainer *r, const struct epoch_row *row)
{
	return has_useless_test(r, row) && r->train.classes > 1
		       ? log((double)r->train.classes)
		       : fmax(row->on[ON_TEST].loss, row->on[ON_TRAIN].loss);
}

/* NULL, or why this epoch has diverged. By the training loss if it exploded, otherwise by the test
 * loss; before training there is no training loss. Heap. */
static char *diverges(const struct trainer *r, const struct epoch_row *row)
{
	bool before = row->epoch == 0, useless = has_useless_test(r, row);
	double training = row->running.loss, most = EXPLODED * r->first_loss;
	bool by_test = before || (!useless && training <= most);
	double loss = by_test ? row->on[ON_TEST].loss : training;
	const char *which = by_test ? "test" : "training";
	if (!isfinite(loss))
		return sentence("epoch %d: the %s loss is %s; a smaller --lr may help",
				(int)row->epoch, which, isnan(loss) ? "not a number" : "infinite");
	if (loss > most && !(before && useless))
		return sentence("epoch %d: the %s loss exploded to %.4g, it was %.4g before "
				"training; a smaller --lr may help",
				(int)row->epoch, which, loss, r->first_loss);
	return NULL;
}

static void look_for_divergence(struct trainer *r, const struct epoch_row *row)
{
	if (!vec_has_data(r->w.param))
		return;
	if (row->epoch == 0)
		r->first_loss = first_loss_of(r, row);
	char *why AUTOFREE = diverges(r, row);
	if (!why)
		return;
	snprintf(r->reason, sizeof r->reason, "%s", why);
	r->status = EXIT_DIVERGED;
}

static double square_norm(const struct vec *v)
{
	size_t n = vec_len(v);
	float *x AUTOFREE = must(malloc((n + 1) * sizeof *x));
	double sum = 0;
	vec_get(v, x);
	for (size_t i = 0; i < n; i++)
		sum += (double)x[i] * x[i];
	return sum;
}

/* sqrt(mean over the models of |w_i - mean w|^2), Kong et al., arXiv 2102.04828. w_i is the model
 * right before the worker's last synchronisation in the epoch that a barrier has just ended.
 * Workers that have left do not count. */
static double consensus_distance(struct trainer *r, const struct epoch_record *record)
{
	struct worker *w = &r->w;
	if (!w->loop->consensus || record->model.epoch == 0)
		return record->model.epoch && vec_has_data(w->param) ? 0 : NAN;
	double models = !record->model.left, sum = 0;
	link_reduce_all(r->all, &models, 1, REDUCE_SUM);
	models *= (double)r->replicas / w->trainers;
	if (models < 1)
		return NAN;
	if (record->model.left)
		vec_fill(w->loop->consensus, 0);
	vec_copy(r->saved, w->loop->consensus);
	comm_allreduce(w->data_group, r->saved, COMM_SUM);
	if (!record->model.left) {
		vec_axpy(w->loop->consensus, -1 / (float)models, r->saved);
		sum = square_norm(w->loop->consensus);
	}
	link_reduce_all(r->all, &sum, 1, REDUCE_SUM);
	return sqrt(sum / models);
}

void page_add(struct status_page *p, const struct epoch_row *row)
{
	*page_row(p, p->rows) = *row;
	if (p->rows == 0)
		p->sum.first = row->epoch;
	p->sum.dropped += row->split.dropped;
	p->sum.seconds += row->split.seconds;
	if (row->epoch > 0) /* steal_s is NaN where it is not known */
		p->sum.delay_s += row->split.run_delay_s + fmax(0, row->split.steal_s);
	__atomic_fetch_add(&p->rows, 1, __ATOMIC_RELEASE);
}

/* barrier: the epoch ended with one, and the models have not changed since. */
static void evaluate_epoch(struct trainer *r, struct epoch_record *record, bool barrier)
{
	int64_t epoch = record->model.epoch;
	struct epoch_row row = {.epoch = epoch,
				.share = (double)epoch_steps(r, epoch) / (double)r->w.steps,
				.consensus = barrier ? consensus_distance(r, record) : NAN};
	evaluate_model(r, &record->model, row.on);
	for (int i = 0; i < r->account.metrics.n; i++)
		values_add(&record->values, &r->account.metrics.of[i]);
	gather_epoch(r, record, &row);
	r->elapsed += row.split.seconds;
	if (r->w.rank == 0)
		look_for_divergence(r, &row);
	TO_SINK(r, true, epoch, &row, r->ranks, r->w.trainers,
		row.split.pushes ? record->staleness : NULL,
		record->values.n ? &record->values : NULL);
	if (r->page) /* on rank 0 */
		page_add(r->page, &row);
}

/* began: when its epoch began, since the segment's start. */
static void evaluate_point(struct trainer *r, const struct snapshot *s, nsec began)
{
	struct point_row row = {.step = s->step,
				.epochs = (double)s->step / (double)r->w.steps,
				.seconds = r->elapsed + 1e-9 * (double)(s->end - began)};
	evaluate_model(r, s, row.on);
	TO_SINK(r, true, point, &row);
}

void trainer_evaluate(struct trainer *r, struct epoch_record *record, int64_t n)
{
	const struct snapshot *s = r->point, *end = r->point + r->points;
	nsec began = 0;
	pulse_step();
	if (r->page)
		r->page->state = STATUS_EVALUATING;
	stats_reduce(&r->w);
	gather_ends(r, record, n);
	gather_arrivals(r);
	for (int64_t k = 0; k < n && !r->status; k++) {
		for (; s < end && s->epoch == record[k].model.epoch && !r->status; s++)
			evaluate_point(r, s, began);
		if (!r->status)
			evaluate_epoch(r, &record[k], k == n - 1);
		began = record[k].model.end;
	}
	r->points = 0;
	gather_events(r);
	stats_reset(&r->stats); /* what evaluation communicated does not count */
}
