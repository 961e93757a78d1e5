/*
 * apply.c - what a placement calls back into: an operation's work on floats that it has reached,
 * the record of it, and the sentence about a round that cannot end.
 */
#include "runtime/table/table.h"

#include <string.h>

enum { LARGE = 1 << 20 }; /* floats of a table that no core's cache holds */

static void sync_floats(float *restrict w, float *restrict param, float *restrict pulled,
			float scale, size_t n)
{
#pragma omp simd
	for (size_t i = 0; i < n; i++) {
		float now = w[i] + scale * (param[i] - pulled[i]);
		w[i] = now;
		pulled[i] = now;
		param[i] = now;
	}
}

static void elastic_floats(float *restrict w, float *restrict param, float alpha, size_t n)
{
#pragma omp simd
	for (size_t i = 0; i < n; i++) {
		float d = alpha * (param[i] - w[i]);
		w[i] += d;
		param[i] -= d;
	}
}

void table_apply(const struct table_rules *r, const struct table_op *p, float *w, float *state,
		 float *own, float *pulled, const float *in, float *out, size_t n)
{
	bool keep = out && pulled && p->pull;
	if (p->kind == OP_SYNC) {
		sync_floats(w, out, pulled, p->by.scale, n);
		return;
	}
	if (p->kind == OP_ELASTIC) {
		elastic_floats(w, out, p->by.scale, n);
		return;
	}
	if (p->kind == OP_PUSH) {
		struct update u = {.w = w,
				   .state = state,
				   .own = own,
				   .pulled = pulled,
				   .values = in,
				   .by = p->by,
				   .staleness = p->staleness,
				   .large = r->rows * r->columns >= LARGE};
		if (out && in != out && r->updater->apply_read) {
			r->updater->apply_read(&u, out, n);
			out = NULL;
		} else {
			r->updater->apply(&u, n);
		}
	}
	if (out)
		memcpy(out, w, n * sizeof *w);
	if (keep)
		memcpy(pulled, w, n * sizeof *w);
}

void table_arrived(struct table *t, const struct table_op *p, int shard, int64_t seq)
{
	static const char *const kind[] = {[OP_READ] = "pull",
					   [OP_PUSH] = "push",
					   [OP_SYNC] = "sync",
					   [OP_ELASTIC] = "elastic"};
	struct tables *s = t->among;
	CHECK(s->arrivals < s->room || s->room == 0, "more than %zu operations to record", s->room);
	if (s->room == 0)
		return;
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
	return sentence("an incomplete round: worker %d stands at a barrier, or has ended, "
			"after %lld pushes; worker %d has made %lld and waits for it",
			away, (long long)pushes, t->among->rank, (long long)t->pushes);
}
