/*
 * gather.c - gathers results from the trainers, off the clock: sums of an epoch's figures, the
 * recorded operations on tables, the timeline.
 */
#include "runtime/config/config.h"
#include "runtime/train/trainer.h"

#include <math.h>
#include <stdlib.h>

/* ---- Figures of an epoch -------------------------------------------------- */

/* The instant of a snapshot is when the last trainer reaches it; that trainer's snapshot counts. */
static void gather_end(struct trainer *r, struct snapshot *s)
{
	double last = s->left ? 0 : (double)s->end;
	link_reduce_all(r->all, &last, 1, REDUCE_MAX);
	bool is_last = !s->left && (double)s->end == last;
	double by = is_last ? -r->replica : -r->replicas;
	link_reduce_all(r->all, &by, 1, REDUCE_MAX);
	s->reporting = -(int)by;
	s->end = (nsec)last;
}

/* An epoch without a barrier at its end is over when its last row has been trained on: when the
 * last trainer ends it. The time after a worker has left counts as waiting. */
void gather_ends(struct trainer *r, struct epoch_record *record, int64_t n)
{
	nsec before = 0;
	const struct run *run = r->w.run;
	for (int64_t i = 0; i < r->points; i++)
		gather_end(r, &r->point[i]);
	for (int64_t k = 0; k < n && (*run->leave || run->barrier_every != 1); k++, record++) {
		gather_end(r, &record->model);
		double seconds = 1e-9 * (double)(record->model.end - before);
		if (record->model.left) {
			record->split.wait_s += seconds - record->split.seconds;
			record->split.seconds = seconds;
		}
		if (run->barrier_every != 1)
			record->seconds = seconds;
		before = record->model.end;
	}
}

/* Off the clock some ranks work longer than others, and rank 0 alone records. The others sleep: an
 * MPI call would keep their cores busy, which those ranks, or other runs, may need. */
static void wait_asleep(const struct trainer *r)
{
	if (!world_is_virtual && link_size(r->all) > 1)
		link_barrier_asleep(r->all);
}

/* Only the first worker of each model group counts. */
void gather_tallies(struct trainer *r, const struct tally *t, int n, struct judged *out)
{
	enum { LOSS, CORRECT, ROWS, SUMS };
	double sum[EVALUATED][SUMS] = {{0}};
	for (int i = 0; i < n && comm_rank(r->w.model_group) == 0; i++) {
		sum[i][LOSS] = t[i].loss;
		sum[i][CORRECT] = (double)t[i].correct;
		sum[i][ROWS] = (double)t[i].rows;
	}
	wait_asleep(r);
	link_reduce_all(r->all, sum[0], n * SUMS, REDUCE_SUM);
	for (int i = 0; i < n; i++) {
		double rows = sum[i][ROWS] > 0 ? sum[i][ROWS] : NAN;
		bool counted = data_is_counted(&r->train) && sum[i][CORRECT] >= 0;
		out[i] = (struct judged){sum[i][LOSS] / rows,
					 counted ? sum[i][CORRECT] / rows : NAN};
	}
}

/* Adds the values of all trainers, on rank 0, by rank: equal runs then have equal means. */
static void gather_values(struct trainer *r, struct epoch_values *own)
{
	size_t n = (size_t)r->w.trainers;
	struct epoch_values *all AUTOFREE = r->w.rank == 0 ? must(calloc(n, sizeof *all)) : NULL;
	link_gather(r->all, 0, own, all, sizeof *own);
	own->n = 0;
	for (size_t k = 0; all && k < n; k++)
		for (int i = 0; i < all[k].n; i++)
			values_add(own, &all[k].of[i]);
}

/* Times are means, counts are sums. Without a barrier each trainer's epoch begins and ends at its
 * own time. The mean times are then scaled to the duration of the common epoch. Waiting inside
 * synchronisations moves from comm to wait. */
void gather_epoch(struct trainer *r, struct epoch_record *record, struct epoch_row *row)
{
	struct split_row *own = &record->split;
	double n = r->w.trainers,
	       waited = 1e-9 * (double)stats_waited(&r->stats, record->first_joint_op,
						    record->last_meeting);
	own->comm_s -= waited;
	own->wait_s += waited;
	struct epoch_sum sum = {
#define OWN(name) .name = (double)own->name,
		SPLIT_TIMES(OWN) SPLIT_COUNTS(OWN)
#undef OWN
			.reports = record->values.n,
	};
	for (int i = 0; i < STALENESS_BINS; i++)
		sum.staleness[i] = (double)record->staleness[i];
	link_reduce_all(r->all, &sum, sizeof sum / sizeof(double), REDUCE_SUM);
	row->split = (struct split_row){
#define MEAN_OF(name)  .name = sum.name / n,
#define TOTAL_OF(name) .name = (int64_t)sum.name,
		SPLIT_TIMES(MEAN_OF) SPLIT_COUNTS(TOTAL_OF)
#undef MEAN_OF
#undef TOTAL_OF
	};
	double scale = record->seconds > 0 ? record->seconds / row->split.seconds : 1;
#define SCALED(name) row->split.name *= scale;
	SPLIT_TIMES(SCALED)
#undef SCALED
	gather_tallies(r, &record->running, 1, &row->running);
	for (int i = 0; i < STALENESS_BINS; i++)
		record->staleness[i] = (int64_t)sum.staleness[i];
	if (sum.reports > 0)
		gather_values(r, &record->values);
	link_gather(r->all, 0, own, r->ranks, sizeof *own);
	for (int k = 0; r->w.rank == 0 && k < r->w.trainers; k++) {
		if (r->ranks[k].staleness_max > row->split.staleness_max)
			row->split.staleness_max = r->ranks[k].staleness_max;
		if (r->ranks[k].peak_bytes > row->split.peak_bytes)
			row->split.peak_bytes = r->ranks[k].peak_bytes;
		row->split.run_delay_s = k ? fmax(row->split.run_delay_s, r->ranks[k].run_delay_s)
					   : r->ranks[k].run_delay_s;
		row->split.steal_s =
			k ? fmax(row->split.steal_s, r->ranks[k].steal_s) : r->ranks[k].steal_s;
	}
}

/* ---- Recorded orders ------------------------------------------------------ */

static int by_order(const void *a, const void *b)
{
	const struct arrival *x = a, *y = b;
	int where = x->table != y->table ? x->table - y->table : x->shard - y->shard;
	return where ? where : x->seq < y->seq ? -1 : x->seq > y->seq;
}

void gather_arrivals(struct trainer *r)
{
	struct tables *s = r->w.loop->tables;
	size_t bytes = 0;
	if (!s || !(r->w.run->record || r->replay))
		return;
	struct arrival *a AUTOFREE =
		link_gather_parts(r->all, s->arrival, s->arrivals * sizeof *s->arrival, &bytes);
	size_t n = a ? bytes / sizeof *a : 0;
	s->arrivals = 0;
	r->arrived += n;
	if (a)
		qsort(a, n, sizeof *a, by_order);
	TO_SINK(r, r->w.run->record, arrivals, a, n);
}

void gather_events(struct trainer *r)
{
	bool servers = r->everyone && r->w.loop->tables;
	if (!r->trace)
		return;
	trace_settle(r->trace, &r->stats);
	if (servers) {
		link_barrier(r->all); /* no worker needs a server until the events are gathered */
		servers_events(r->everyone, r->w.trainers);
	}
	struct slices e = trace_gather(r->trace, servers ? r->everyone : r->all);
	TO_SINK(r, true, events, e.event, e.n, e.lost);
	free(e.event);
}

/* ---- What all ranks know ---- */

void trainers_agree(struct trainer *r, char *mine)
{
	wait_asleep(r);
	char *wrong = link_agree(r->all, mine);
	if (wrong)
		user_error("%s", wrong);
}

void trainer_share_status(struct trainer *r, char *sink_error)
{
	double status = r->status;
	if (sink_error) {
		snprintf(r->reason, sizeof r->reason, "%s", sink_error);
		status = EXIT_FAILED;
		free(sink_error);
	}
	wait_asleep(r);
	link_broadcast(r->all, 0, &status, sizeof status);
	r->status = (int)status;
}
