/*
 * apply.c - functions that placements call: the work of an operation on floats in reach, its
 * record and cost, and the message about a round that cannot end.
 */
#include "runtime/table/table.h"

#include <string.h>

enum { LARGE = 1 << 20 }; /* a table with this many floats fits into no core's cache */

/* What the only client sends with scale 1 is the new W, also in the last bit. */
static BEST_OF_CPU void sync_floats(const struct update *u, size_t n, bool alone)
{
	float *restrict w = u->w, *restrict param = u->out, *restrict pulled = u->pulled;
	const float scale = u->by.scale;
	if (alone && scale == 1) {
		memcpy(w, param, n * sizeof *w);
		memcpy(pulled, param, n * sizeof *pulled);
		return;
	}
#pragma omp simd
	for (size_t i = 0; i < n; i++)
		w[i] = pulled[i] = param[i] = w[i] + scale * (param[i] - pulled[i]);
}

static BEST_OF_CPU void elastic_floats(const struct update *u, size_t n)
{
	float *restrict w = u->w, *restrict param = u->out, alpha = u->by.scale;
#pragma omp simd
	for (size_t i = 0; i < n; i++) {
		float d = alpha * (param[i] - w[i]);
		w[i] += d;
		param[i] -= d;
	}
}

BEST_OF_CPU void table_change(float *d, const float *param, const float *pulled, float scale,
			      size_t n)
{
#pragma omp simd
	for (size_t i = 0; i < n; i++)
		d[i] = scale * (param[i] - pulled[i]);
}

void update_complete(struct update *u, const struct table_rules *r, const struct table_op *p)
{
	u->by = p->by;
	u->staleness = p->staleness;
	u->number = p->number;
	u->keep = p->kind == OP_SYNC || (u->out && u->pulled && p->pull);
	u->large = r->rows * r->columns >= LARGE && u->values != u->out;
}

void table_apply(const struct table_rules *r, const struct table_op *p, struct update *u, size_t n)
{
	update_complete(u, r, p);
	if (p->kind == OP_SYNC) {
		sync_floats(u, n, r->alone);
		return;
	}
	if (p->kind == OP_ELASTIC) {
		elastic_floats(u, n);
		return;
	}
	if (p->kind == OP_SET)
		memcpy(u->w, u->values, n * sizeof *u->w);
	else if (p->kind == OP_PUSH)
		r->updater->apply(u, n);
	else if (u->out)
		memcpy(u->out, u->w, n * sizeof *u->w);
	if (u->keep)
		memcpy(u->pulled, u->w, n * sizeof *u->w);
}

/* ---- Rounds whose pushes are merged ---- */

struct table_rules rules_of_sum(const struct table_rules *r)
{
	struct table_rules sum = *r;
	if (!r->updater->additive) /* otherwise its changes are summed */
		sum.updater = updaters[UPDATER_add];
	return sum;
}

struct table_rules rules_of_end(const struct table_rules *r)
{
	struct table_rules end = *r;
	if (r->updater->additive)
		end.updater = updaters[UPDATER_add];
	return end;
}

void merged_add(struct merged *m, const struct push *by, bool whole, int rank)
{
	if (m->pushes++ == 0 || rank < m->rank) {
		m->rank = rank;
		m->by = *by;
		m->by.lr /= by->scale != 0 ? by->scale : 1; /* the sum has the weight already */
		m->by.rho /= by->scale != 0 ? by->scale : 1;
		m->by.scale = 1;
	}
	m->shares += push_share(by);
	m->whole |= whole;
}

float merged_factor(const struct merged *m, const struct table_rules *r)
{
	double all = m->shares > 0 ? m->shares : (double)m->pushes;
	if (m->pushes < r->full)
		all += (double)(r->full - m->pushes);
	return r->mean ? (float)(1 / all) : 1;
}

size_t merged_run(const struct merged *m, const struct table_rules *r, const bool *touched,
		  size_t at, size_t n, bool *pushed)
{
	const size_t columns = r->columns, end = at + n;
	size_t row = at / columns;
	*pushed = m->whole || touched[row];
	while (!m->whole && (row + 1) * columns < end && touched[row + 1] == *pushed)
		row++;
	return m->whole ? n : smaller(end, (row + 1) * columns) - at;
}

void table_charge(const struct table_op *p, const struct updater *u, size_t n, bool shared)
{
	const bool push = p->kind == OP_PUSH, read = p->kind == OP_READ;
	world_charge_op(
		(struct table_work){
			.kind = read                    ? WORK_READ
				: p->kind == OP_SYNC    ? WORK_SYNC
				: p->kind == OP_ELASTIC ? WORK_ELASTIC
							: WORK_PUSH,
			.updates = push && u && (u->wants.gradient || u->wants.change),
			.one_way = read || p->read_later || (push && !p->out),
			.goes = op_pushes(p),
			.returns = read || op_out(p),
		},
		n, shared);
}

void table_arrived(struct table *t, const struct table_op *p, int shard, int64_t seq)
{
	static const char *const kind[] = {[OP_READ] = "pull",
					   [OP_PUSH] = "push",
					   [OP_SET] = "push",
					   [OP_SYNC] = "sync",
					   [OP_ELASTIC] = "elastic"};
	struct tables *s = t->among;
	if (s->room == 0)
		return;
	if (s->arrivals == s->room)
		s->arrival =
			must(realloc(s->arrival, (s->room = 2 * s->room) * sizeof *s->arrival));
	struct arrival *a = &s->arrival[s->arrivals++];
	*a = (struct arrival){
		.seq = seq, .worker = s->rank, .table = (int16_t)t->id, .shard = (int16_t)shard};
	bool both = p && p->kind == OP_PUSH && p->out;
	strcpy(a->kind, !p              ? "round"
			: p->dropped    ? "drop"
			: p->read_later ? "push"
			: both          ? "sync"
					: kind[p->kind]);
}

char *table_incomplete(const struct table *t, int away, int64_t pushes)
{
	return sentence("an incomplete round: worker %d waits at a barrier, or has ended, "
			"after %lld pushes; worker %d has made %lld and waits for it",
			away, (long long)pushes, t->among->rank, (long long)t->pushes);
}
