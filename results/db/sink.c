/*
 * sink.c - writes the rows of a run that is running, in a transaction for each call.
 */
#include "results/db/store.h"
#include "runtime/config/config.h"
#include "runtime/table/table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Begins a run in the place of its pending row, whose id it gets; or resumes it in its own row. */
static char *begin_run(struct store *s, const struct experiment *e, int64_t *id)
{
	enum { ID, ROUND, SEED, FIGURES };
	char hash[17];
	double pending[FIGURES]; /* NaN: there is none; not in a sweep */
	const struct config placed = runs_placed(e->config, e);
	config_hash(&placed, hash);
	TRY(runs_pending(s, hash, e->resumes, pending));
	*id = isnan(pending[ID]) ? 0 : (int64_t)pending[ID];
	TRY(sql_change(s, "DELETE FROM run WHERE id = ?1", "i", *id));
	if (e->resumes)
		return runs_resume(s, e, id);
	TRY(runs_insert(s, e->config, e, id));
	return sql_change(s, "UPDATE run SET sweep_round = ?2, sweep_seed = ?3 WHERE id = ?1",
			  "irr", *id, pending[ROUND], pending[SEED]);
}

/* For store_fail in the process that started the workers. */
static void introduce(struct store *s)
{
	char *owner AUTOFREE = process_owner();
	struct stat st;
	snprintf(s->page->owner, sizeof s->page->owner, "%s", owner);
	if (stat(s->path, &st) == 0)
		s->page->file = (int64_t)st.st_ino;
}

static char *sink_begin(void *self, const struct experiment *e, int64_t *id)
{
	struct store *s = self;
	int64_t own = 0;
	CHECK(s->run == 0, "run %lld has not ended", (long long)s->run);
	*id = 0;
	TRY(store_begin(s));
	TRY(sql_begin(s));
	TRY(sql_end(s, begin_run(s, e, &own)));
	*id = own; /* not before: a run that is refused may be another process's */
	if (s->page)
		introduce(s);
	TRY(sql_reals(s, s->cost_before, 3,
		      "SELECT ifnull(simulated_s, 0), ifnull(wall_s, 0), ifnull(events, 0) FROM "
		      "run WHERE id = ?1",
		      "i", *id));
	s->run = s->begun = *id;
	if (*e->config->harness.save) /* a checkpoint is never newer than the results on the disk */
		TRY(sql_change(s, "PRAGMA synchronous = FULL", ""));
	heartbeat_start(s, HEARTBEAT_S);
	return NULL;
}

/* Begins a transaction that writes results of this run. */
static char *begin_own(struct store *s)
{
	TRY(sql_begin(s));
	char *wrong = runs_own(s, s->run);
	if (!wrong)
		return NULL;
	wrong = sql_end(s, wrong);
	store_part(s);
	return wrong;
}

/* Columns that an epoch and a rank's share of it have in common; their values are those of x. */
#define COLUMN(name) #name ", "
#define PLACE(name)  "?, "
#define REAL(name)   "r"
#define COUNT(name)  "n" /* -1: NULL */
#define VALUE(name)  x.name,
#define SPLIT_COLUMNS \
	SPLIT_TIMES(COLUMN) SPLIT_TOTALS(COLUMN) "staleness_mean, staleness_max, peak_bytes"
#define SPLIT_PLACES SPLIT_TIMES(PLACE) SPLIT_TOTALS(PLACE) "?, ?, ?"
#define SPLIT_TYPES  SPLIT_TIMES(REAL) SPLIT_TOTALS(COUNT) "rnn"
#define SPLIT_VALUES \
	SPLIT_TIMES(VALUE) SPLIT_TOTALS(VALUE) staleness_mean(&x), x.staleness_max, x.peak_bytes

#define EVALUATED_COLUMNS \
	"train_loss, train_accuracy, validation_loss, validation_accuracy, test_loss, test_accuracy"
#define EVALUATED_VALUES(x) \
	x[ON_TRAIN].loss, x[ON_TRAIN].accuracy, x[ON_VALIDATION].loss, x[ON_VALIDATION].accuracy, \
		x[ON_TEST].loss, x[ON_TEST].accuracy

static double staleness_mean(const struct split_row *r)
{
	return r->pushes > 0 ? (double)r->staleness_sum / (double)r->pushes : NAN;
}

/* Figures of pushes are NULL if there were none. */
static struct split_row as_stored(struct split_row x)
{
	if (x.pushes == 0)
		x.staleness_max = -1;
	if (x.pushes + x.dropped == 0)
		x.pushes = x.dropped = -1;
	return x;
}

/* The bins that are not empty. */
static char *insert_staleness(struct store *s, int64_t epoch, const int64_t *pushes)
{
	for (int i = 0; i < STALENESS_BINS; i++)
		if (pushes[i] > 0)
			TRY(sql_change(s,
				       "INSERT INTO staleness (run_id, epoch, staleness, pushes) "
				       "VALUES (?, ?, ?, ?)",
				       "iiii", s->run, epoch, staleness_of_bin(i), pushes[i]));
	return NULL;
}

/* Stores what a simulation has cost, with each epoch, because its process can be killed. */
static char *put_cost(struct store *s, const struct world_cost *now)
{
	const double *before = s->cost_before;
	if (isnan(now->simulated_s)) /* real */
		return NULL;
	return sql_change(s,
			  "UPDATE run SET simulated_s = ?2, wall_s = ?3, events = ?4 WHERE id = ?1",
			  "irri", s->run, before[0] + now->simulated_s, before[1] + now->wall_s,
			  (int64_t)before[2] + now->events);
}

static char *insert_epoch(struct store *s, const struct epoch_row *row,
			  const struct split_row *ranks, int n, const int64_t *staleness)
{
	struct split_row x = as_stored(row->split);
	struct world_cost cost = world_cost();
	TRY(put_cost(s, &cost));
	TRY(sql_change(s,
		       "INSERT INTO epoch (run_id, epoch, running_loss, running_accuracy, "
		       "consensus, share, " EVALUATED_COLUMNS ", " SPLIT_COLUMNS
		       ") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, " SPLIT_PLACES ")",
		       "iirrrrrrrrrr" SPLIT_TYPES, s->run, row->epoch, row->running.loss,
		       row->running.accuracy, row->consensus, row->share, EVALUATED_VALUES(row->on),
		       SPLIT_VALUES));
	if (staleness)
		TRY(insert_staleness(s, row->epoch, staleness));
	for (int i = 0; i < n; i++) {
		x = as_stored(ranks[i]);
		TRY(sql_change(s,
			       "INSERT INTO rank_epoch (run_id, epoch, rank, " SPLIT_COLUMNS
			       ") VALUES (?, ?, ?, " SPLIT_PLACES ")",
			       "iii" SPLIT_TYPES, s->run, row->epoch, (int64_t)i, SPLIT_VALUES));
	}
	return NULL;
}

static char *insert_values(struct store *s, int64_t epoch, const struct epoch_values *r)
{
	struct sql q = sql_select(s,
				  "INSERT INTO epoch_value (run_id, epoch, name, value, reports) "
				  "VALUES (?, ?, ?, ?, ?)",
				  "");
	for (const struct epoch_value *x = r->of; x < r->of + r->n; x++) {
		sql_again(&q, "iitri", s->run, epoch, x->name, x->sum / x->count,
			  (int64_t)x->count);
		sql_next(&q);
	}
	return sql_done(&q);
}

static char *sink_epoch(void *self, const struct epoch_row *row, const struct split_row *ranks,
			int n, const int64_t *staleness, const struct epoch_values *values)
{
	struct store *s = self;
	CHECK(s->run, "an epoch of no run");
	if (s->on_epoch)
		s->on_epoch(s->on_epoch_ctx, row);
	TRY(begin_own(s));
	char *wrong = insert_epoch(s, row, ranks, n, staleness);
	return sql_end(s, wrong || !values ? wrong : insert_values(s, row->epoch, values));
}

static char *sink_shards(void *self, const int64_t *rows, size_t models, size_t classes, int share)
{
	struct store *s = self;
	size_t columns = classes ? classes : 1;
	CHECK(s->run, "shards of no run");
	TRY(begin_own(s));
	struct sql q = sql_select(
		s, "INSERT INTO shard (run_id, worker, class, rows) VALUES (?, ?, ?, ?)", "");
	for (size_t i = 0; i < models * columns; i++) {
		sql_again(&q, "iiii", s->run, (int64_t)(i / columns) * share,
			  classes ? (int64_t)(i % columns) : -1, rows[i]);
		sql_next(&q);
	}
	return sql_end(s, sql_done(&q));
}

static char *sink_point(void *self, const struct point_row *row)
{
	struct store *s = self;
	CHECK(s->run, "an evaluation of no run");
	TRY(begin_own(s));
	char *wrong = sql_change(
		s,
		"INSERT INTO evaluation (run_id, step, epochs, seconds, " EVALUATED_COLUMNS
		") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
		"iirrrrrrrr", s->run, row->step, row->epochs, row->seconds,
		EVALUATED_VALUES(row->on));
	return sql_end(s, wrong);
}

static char *sink_arrivals(void *self, const struct arrival *a, size_t n)
{
	struct store *s = self;
	CHECK(s->run, "arrivals of no run");
	TRY(begin_own(s));
	struct sql q = sql_select(s,
				  "INSERT INTO arrival (run_id, table_id, shard, seq, worker, "
				  "kind) VALUES (?, ?, ?, ?, ?, ?)",
				  "");
	for (size_t i = 0; i < n; i++) {
		char kind[sizeof a->kind + 1];
		snprintf(kind, sizeof kind, "%.*s", (int)sizeof a->kind, a[i].kind);
		sql_again(&q, "iiiiit", s->run, (int64_t)a[i].table, (int64_t)a[i].shard,
			  (int64_t)a[i].seq, (int64_t)a[i].worker, kind);
		sql_next(&q);
	}
	return sql_end(s, sql_done(&q));
}

/* flow and seen count from 1. */
static int64_t from_1(int64_t number)
{
	return number >= 1 ? number : -1;
}

static char *sink_events(void *self, const struct slice *e, size_t n, size_t lost)
{
	struct store *s = self;
	CHECK(s->run, "events of no run");
	TRY(begin_own(s));
	struct sql q = sql_select(s,
				  "INSERT INTO event (run_id, rank, seq, epoch, step, name, "
				  "start_s, duration_s, parent, peer, bytes, flow, seen, "
				  "staleness) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
				  "");
	for (const struct slice *end = e + n; e < end; e++) {
		sql_again(&q, "iiiiitrrnnnnnn", s->run, (int64_t)e->rank, (int64_t)e->seq,
			  (int64_t)e->epoch, (int64_t)e->step, trace_names[e->kind],
			  1e-9 * (double)e->start, 1e-9 * (double)e->length, (int64_t)e->parent,
			  (int64_t)e->peer, (int64_t)e->bytes, from_1(e->flow), from_1(e->seen),
			  (int64_t)e->staleness);
		sql_next(&q);
	}
	char *wrong = sql_done(&q);
	if (!wrong)
		wrong = sql_change(s,
				   "UPDATE run SET events_lost = ifnull(events_lost, 0) + ?2 "
				   "WHERE id = ?1",
				   "ii", s->run, (int64_t)lost);
	return sql_end(s, wrong);
}

static char *end(struct store *s, const char *status, const char *reason, const struct closing *c)
{
	TRY(put_cost(s, &c->cost));
	return sql_change(s,
			  "UPDATE run SET status = ?2, reason = ?3, model_hash = ?4, "
			  "finished = strftime('%Y-%m-%dT%H:%M:%SZ', 'now') WHERE id = ?1",
			  "ittt", s->run, status, reason, c->model_hash);
}

static char *sink_end(void *self, const char *status, const char *reason, const struct closing *c)
{
	struct store *s = self;
	CHECK(s->run, "the end of no run");
	heartbeat_stop(s);
	char *wrong = begin_own(s);
	if (!wrong)
		wrong = sql_end(s, end(s, status, reason, c));
	s->run = 0;
	return wrong;
}

struct sink store_sink(struct store *s)
{
	return (struct sink){
		.self = s,
		.begin = sink_begin,
		.epoch = sink_epoch,
		.shards = sink_shards,
		.point = sink_point,
		.arrivals = sink_arrivals,
		.events = sink_events,
		.end = sink_end,
	};
}
