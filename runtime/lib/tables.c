/*
 * tables.c - tables and models for other programs: checks what the caller gives; table.c does the
 * operation. A model is an array table and the list of tensors whose floats it holds, end to end; a
 * sync copies them there and back.
 */
#include "runtime/lib/library.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct mvb_model {
	struct object object;
	struct mvb_table *table;
	struct list list;
	float *flat;
};

/* ---- Tables ------------------------------------------------------------------------- */

_Static_assert((int)MVB_AVERAGE == TABLE_AVERAGE && (int)MVB_TOTAL == TABLE_SUM, "other numbers");

static struct table_rules rules_of(size_t rows, size_t columns, const struct mvb_options *o)
{
	struct table_rules r = {.rows = rows,
				.columns = columns,
				.updater = updater_find(o->updater ? o->updater : "add"),
				.rounds = o->rounds,
				.backup = o->backup,
				.bounded = o->bounded,
				.lead = o->lead,
				.init = (enum table_init)o->initial};
	r.syncs = r.updater && !r.updater->wants.gradient && !r.updater->wants.change;
	return r;
}

/* Does the machine have the memory? A table beyond that would end the process. */
static int check_table_memory(const struct table_rules *r)
{
	const struct updater *u = r->updater;
	double floats = (double)r->rows * (double)r->columns, there;
	double common = sizeof(float) * floats * (double)table_vectors(r);
	double mine = sizeof(float) * floats * ((r->syncs || u->pulled) + u->own);
	there = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
	if (lib.tables->placement->in_shared_memory && lib.workers > 1)
		there = fmin(there, shared_memory_free());
	if (common + mine >= there)
		return lib_fail(MVB_ERR_MEMORY,
				"a table of %zu x %zu floats takes %.0f MiB, and there are %.0f "
				"MiB for it",
				r->rows, r->columns, (common + mine) / 1048576, there / 1048576);
	/* a shard goes in one message */
	const size_t keepers = (size_t)(lib.servers ? lib.servers : lib.workers);
	const size_t each = (r->rows + keepers - 1) / keepers * r->columns;
	if (lib.tables->placement->in_shared_memory || each <= INT_MAX)
		return MVB_OK;
	return lib_fail(MVB_ERR_MEMORY,
			"a table of %zu x %zu floats: one of %zu processes would keep %zu, and %d "
			"is the most; use more of them, or several tables",
			r->rows, r->columns, keepers, each, INT_MAX);
}

/* Can the placement of this process hold such a table? */
static int check_placement(const struct table_rules *r)
{
	const struct placement *placement = lib.tables->placement;
	char *wrong AUTOFREE = placement->refuse ? placement->refuse(r, lib.tables) : NULL;
	if (!wrong)
		return check_table_memory(r);
	/* the placement's own message names options of mvbench */
	return lib_fail(MVB_ERR_ARGUMENT,
			"%s tables have no updater %s%s: use servers, or start all workers on one "
			"machine",
			placement->name, r->updater->name,
			r->backup ? " and no backup workers" : "");
}

static int check_table_options(const struct table_rules *r, const struct mvb_options *o)
{
	if (r->rows == 0 || r->columns == 0)
		return lib_fail(MVB_ERR_ARGUMENT,
				"a table of %zu x %zu floats: it needs at least one", r->rows,
				r->columns);
	if (r->rows > SIZE_MAX / sizeof(float) / r->columns)
		return lib_fail(MVB_ERR_MEMORY, "a table of %zu x %zu floats fits into no memory",
				r->rows, r->columns);
	if (!r->updater)
		return lib_fail(MVB_ERR_ARGUMENT, "no updater is called '%s'; there are %s",
				o->updater, UPDATERS);
	if (o->backup < 0 || o->backup >= lib.workers || (o->backup && !o->rounds))
		return lib_fail(MVB_ERR_ARGUMENT,
				"backup %d: at least one push of the %d workers has to count, and "
				"there have to be rounds",
				o->backup, lib.workers);
	if (o->lead < 0 || (o->lead && !o->bounded) || (o->bounded && o->rounds))
		return lib_fail(MVB_ERR_ARGUMENT,
				"lead %d: not negative, with bounded only, and not with rounds",
				o->lead);
	if (o->initial < MVB_MASTER || o->initial > MVB_TOTAL)
		return lib_fail(MVB_ERR_ARGUMENT,
				"initial %d: MVB_MASTER, MVB_AVERAGE or MVB_TOTAL",
				(int)o->initial);
	return check_placement(r);
}

static void table_drop(struct object *o)
{
	struct mvb_table *t = (struct mvb_table *)o;
	lib_finish(TABLE_OP, t);
	table_free(t->core);
	free(t);
}

static int table_make(struct mvb_table **out, const char *function, size_t rows, size_t columns,
		      float *values, const struct mvb_options *options)
{
	struct mvb_options o = options ? *options : (struct mvb_options){0};
	struct table *core;
	int code = MVB_OK;
	if (out)
		*out = NULL;
	TRY(lib_ready(function));
	struct table_rules r = rules_of(rows, columns, &o);
	if (!out)
		code = lib_fail(MVB_ERR_ARGUMENT, "%s: NULL where the table should go", function);
	double updater = r.updater ? (double)r.updater->kind : -1;
	code = code ? code : lib_check_later(function, o.later);
	code = code ? code : check_table_options(&r, &o);
	TRY(lib_collective((struct call){.function = TABLE_NEW,
					 .code = code,
					 .arg = {(double)rows, (double)columns, updater, o.rounds,
						 o.backup, o.bounded, o.lead, (double)o.initial}}));
	TRY(lib_fail_with(MVB_ERR_LIMIT, table_open(&core, lib.tables, &r, values)));
	struct mvb_table *t = must(calloc(1, sizeof *t));
	t->core = core;
	t->staleness = -1;
	*out = lib_keep(&t->object, (struct object){.kind = TABLE, .table = t, .drop = table_drop});
	struct table_op first = {.kind = OP_READ, .out = values, .pull = true};
	if (values)
		code = lib_fail_with(lib_op_code(t), table_do(core, &first));
	link_barrier(lib.link); /* no worker pushes before all have read */
	return code;
}

int mvb_array_new(struct mvb_table **t, size_t n, float *values, const struct mvb_options *options)
{
	return table_make(t, "mvb_array_new", n, 1, values, options);
}

int mvb_matrix_new(struct mvb_table **t, size_t rows, size_t columns, float *values,
		   const struct mvb_options *options)
{
	return table_make(t, "mvb_matrix_new", rows, columns, values, options);
}

int mvb_table_free(struct mvb_table *t)
{
	return lib_free(TABLE_FREE, TABLE, t ? &t->object : NULL);
}

/* An operation as the caller requests it. */
struct request {
	const char *function;
	struct mvb_table *table;
	size_t n; /* floats, according to the caller */
	const struct mvb_push *by;
	struct table_op op;
};

static int check_rows(const struct request *q)
{
	const struct table_rules *r = &q->table->core->rules;
	const struct table_op *p = &q->op;
	if (!p->row)
		return lib_fail(MVB_ERR_ARGUMENT, "%s: NULL where row numbers should be",
				q->function);
	if (q->n / r->columns != p->rows || q->n % r->columns) /* the product may wrap */
		return lib_fail(MVB_ERR_ARGUMENT, "%s: %zu floats for %zu rows of %zu columns",
				q->function, q->n, p->rows, r->columns);
	for (size_t i = 0; i < p->rows; i++)
		if (p->row[i] < 0 || (size_t)p->row[i] >= r->rows)
			return lib_fail(MVB_ERR_ARGUMENT,
					"%s: row %lld of a table with rows 0 to %zu", q->function,
					(long long)p->row[i], r->rows - 1);
	return MVB_OK;
}

static int check_push(const struct request *q)
{
	const struct table_rules *r = &q->table->core->rules;
	const struct mvb_push *by = q->by;
	bool elastic = q->op.kind == OP_ELASTIC;
	if ((elastic || q->op.kind == OP_SYNC) &&
	    (r->updater->wants.gradient || r->updater->wants.change))
		return lib_fail(
			MVB_ERR_ARGUMENT,
			"%s: the table's updater is %s, which takes gradients; this needs add",
			q->function, r->updater->name);
	if (elastic && (r->rounds || r->bounded))
		return lib_fail(MVB_ERR_ARGUMENT, "%s: not on a table with rounds or a bound",
				q->function);
	if (q->op.kind == OP_SET && (r->rounds || lib.tables->placement->only_adds))
		return lib_fail(MVB_ERR_ARGUMENT, "%s: not on a table %s", q->function,
				r->rounds ? "with rounds" : "that is onesided");
	if (r->rounds && op_pushes(&q->op) && q->table->core->pushing)
		return lib_fail(MVB_ERR_STATE,
				"%s: a worker pushes once a round: mvb_wait for the push under way "
				"first",
				q->function);
	if (elastic && !(q->op.by.scale >= 0 && q->op.by.scale <= 1))
		return lib_fail(MVB_ERR_ARGUMENT, "%s: alpha %g is not from 0 to 1", q->function,
				(double)q->op.by.scale);
	if (!(isfinite(by->lr) && isfinite(by->momentum) && isfinite(by->rho) &&
	      isfinite(by->lambda)))
		return lib_fail(MVB_ERR_ARGUMENT, "%s: lr %g, momentum %g, rho %g, lambda %g",
				q->function, (double)by->lr, by->momentum, (double)by->rho,
				(double)by->lambda);
	return MVB_OK;
}

static int check_request(const struct request *q)
{
	const struct table_op *p = &q->op;
	int code = MVB_OK;
	TRY(lib_ready_with(q->function, TABLE, q->table));
	bool none = p->row && p->rows == 0;
	if (!none && (op_has_in(p) ? !p->in : !p->out))
		return lib_fail(MVB_ERR_ARGUMENT, "%s: NULL where floats should be", q->function);
	if (p->row || p->rows)
		code = check_rows(q);
	else if (q->n != q->table->core->n)
		code = lib_fail(MVB_ERR_ARGUMENT, "%s: %zu floats for a table of %zu", q->function,
				q->n, q->table->core->n);
	return code ? code : check_push(q);
}

/* Checks the request, and fills in what goes with the push. */
static int prepare_push(struct request *q)
{
	static const struct mvb_push defaults = MVB_PUSH_DEFAULT;
	q->by = q->by ? q->by : &defaults;
	TRY(check_request(q));
	if (q->op.kind != OP_ELASTIC)
		q->op.by = (struct push){.scale = 1,
					 .lr = q->by->lr,
					 .momentum = q->by->momentum,
					 .rho = q->by->rho,
					 .lambda = q->by->lambda,
					 .beta = {0.9, 0.999},
					 .eps = 1e-8f};
	/* it may sleep, and started reductions need this worker */
	if (q->table->core->rules.rounds || q->table->core->rules.bounded)
		lib_finish(REDUCTION, NULL);
	return MVB_OK;
}

static int op_now(struct request q)
{
	TRY(prepare_push(&q));
	TRY(lib_fail_with(lib_op_code(q.table), table_do(q.table->core, &q.op)));
	lib_note_push(q.table, &q.op);
	return MVB_OK;
}

static int op_start(struct request q, int64_t *ticket)
{
	int under_way = 0;
	TRY(prepare_push(&q));
	if (!ticket)
		return lib_fail(MVB_ERR_ARGUMENT, "%s: NULL where the ticket should go",
				q.function);
	for (int i = 0; i < PENDING_OPS; i++)
		under_way +=
			lib.pending_op[i].state == TABLE_OP && lib.pending_op[i].table == q.table;
	struct pending_op *f = under_way < TICKETS_MAX ? lib_pending_new() : NULL;
	if (!f)
		return lib_too_many(q.function);
	f->operation = q.op;
	TRY(lib_fail_with(lib_op_code(q.table), table_start(q.table->core, &f->operation)));
	f->state = TABLE_OP;
	f->table = q.table;
	*ticket = lib_ticket(f);
	return MVB_OK;
}

static struct table_op push_of(const float *values, float *out)
{
	return (struct table_op){.kind = OP_PUSH, .in = values, .out = out, .pull = out != NULL};
}

static struct table_op pull_of(enum op_kind kind, float *out)
{
	return (struct table_op){.kind = kind, .out = out, .pull = true};
}

int mvb_table_add(struct mvb_table *t, const float *values, size_t n, const struct mvb_push *by)
{
	return op_now((struct request){__func__, t, n, by, push_of(values, NULL)});
}

int mvb_table_set(struct mvb_table *t, const float *values, size_t n)
{
	return op_now((struct request){__func__, t, n, NULL, {.kind = OP_SET, .in = values}});
}

int mvb_table_get(struct mvb_table *t, float *out, size_t n)
{
	return op_now((struct request){__func__, t, n, NULL, pull_of(OP_READ, out)});
}

int mvb_table_add_get(struct mvb_table *t, const float *values, size_t n, const struct mvb_push *by,
		      float *out)
{
	const float *in = out ? values : NULL; /* both, or the call is refused */
	return op_now((struct request){__func__, t, n, by, push_of(in, out)});
}

int mvb_table_sync(struct mvb_table *t, float *param, size_t n)
{
	return op_now((struct request){__func__, t, n, NULL, pull_of(OP_SYNC, param)});
}

int mvb_table_elastic(struct mvb_table *t, float *param, size_t n, float alpha)
{
	struct request q = {__func__, t, n, NULL, pull_of(OP_ELASTIC, param)};
	q.op.by.scale = alpha;
	return op_now(q);
}

int mvb_table_add_start(struct mvb_table *t, const float *values, size_t n,
			const struct mvb_push *by, int64_t *ticket)
{
	return op_start((struct request){__func__, t, n, by, push_of(values, NULL)}, ticket);
}

int mvb_table_get_start(struct mvb_table *t, float *out, size_t n, int64_t *ticket)
{
	return op_start((struct request){__func__, t, n, NULL, pull_of(OP_READ, out)}, ticket);
}

int mvb_table_sync_start(struct mvb_table *t, float *param, size_t n, int64_t *ticket)
{
	return op_start((struct request){__func__, t, n, NULL, pull_of(OP_SYNC, param)}, ticket);
}

/* An empty push is sent too: other workers may wait for it. */
static int rows_now(struct request q, const int64_t *row, size_t rows)
{
	static const int64_t none = 0;
	q.op.row = row || rows > 0 ? row : &none;
	q.op.rows = rows;
	return op_now(q);
}

int mvb_table_add_rows(struct mvb_table *t, const int64_t *row, size_t rows, const float *values,
		       size_t n, const struct mvb_push *by)
{
	return rows_now((struct request){__func__, t, n, by, push_of(values, NULL)}, row, rows);
}

int mvb_table_set_rows(struct mvb_table *t, const int64_t *row, size_t rows, const float *values,
		       size_t n)
{
	return rows_now((struct request){__func__, t, n, NULL, {.kind = OP_SET, .in = values}}, row,
			rows);
}

int mvb_table_get_rows(struct mvb_table *t, const int64_t *row, size_t rows, float *out, size_t n)
{
	return rows_now((struct request){__func__, t, n, NULL, pull_of(OP_READ, out)}, row, rows);
}

int mvb_table_add_row(struct mvb_table *t, int64_t row, const float *values, size_t n,
		      const struct mvb_push *by)
{
	return rows_now((struct request){__func__, t, n, by, push_of(values, NULL)}, &row, 1);
}

int mvb_table_get_row(struct mvb_table *t, int64_t row, float *out, size_t n)
{
	return rows_now((struct request){__func__, t, n, NULL, pull_of(OP_READ, out)}, &row, 1);
}

int lib_add_get_row(struct mvb_table *t, int64_t row, const float *values, size_t n, float *out)
{
	return rows_now((struct request){__func__, t, n, NULL, push_of(values, out)}, &row, 1);
}

/* Checks p, and the pointer for the result. */
static int check_number(const char *function, enum kind kind, const void *p, const void *number)
{
	TRY(lib_ready_with(function, kind, p));
	return number ? MVB_OK
		      : lib_fail(MVB_ERR_ARGUMENT, "%s: NULL where the number should go", function);
}

int mvb_table_version(struct mvb_table *t, int64_t *version)
{
	TRY(check_number(__func__, TABLE, t, version));
	*version = table_version(t->core);
	return MVB_OK;
}

int mvb_table_staleness(struct mvb_table *t, int64_t *pushes)
{
	TRY(check_number(__func__, TABLE, t, pushes));
	*pushes = t->staleness;
	return MVB_OK;
}

/* ---- Models ------------------------------------------------------------------------------ */

static void model_drop(struct object *o)
{
	struct mvb_model *m = (struct mvb_model *)o;
	if (m->table)
		lib_drop(&m->table->object);
	lib_list_free(m->list);
	free(m->flat);
	free(m);
}

int mvb_model_new(struct mvb_model **out, float *const *tensor, const size_t *n, size_t count,
		  const struct mvb_options *options)
{
	struct list l = {tensor, n, count, 0};
	float *flat = NULL;
	if (out)
		*out = NULL;
	TRY(lib_ready(__func__));
	int code = lib_check_list(__func__, &l);
	if (!code && !out)
		code = lib_fail(MVB_ERR_ARGUMENT, "%s: NULL where the model should go", __func__);
	if (!code && options && options->updater && strcmp(options->updater, "add") != 0)
		code = lib_fail(
			MVB_ERR_ARGUMENT,
			"%s: updater '%s'; a model pushes what has changed, which needs add",
			__func__, options->updater);
	if (!code && !(flat = malloc((l.total + 1) * sizeof *flat)))
		code = lib_no_memory(__func__, l.total);
	if ((code = lib_collective_list(MODEL_NEW, code, l, 0))) {
		free(flat);
		return code;
	}
	struct mvb_model *m = must(calloc(1, sizeof *m));
	m->list = lib_list_copy(l);
	m->flat = flat;
	lib_join(flat, l);
	if ((code = table_make(&m->table, __func__, l.total, 1, flat, options))) {
		model_drop(&m->object);
		return code;
	}
	lib_part(flat, l);
	*out = lib_keep(&m->object,
			(struct object){.kind = MODEL, .table = m->table, .drop = model_drop});
	return MVB_OK;
}

int mvb_model_sync(struct mvb_model *m)
{
	TRY(lib_ready_with(__func__, MODEL, m));
	lib_join(m->flat, m->list);
	TRY(mvb_table_sync(m->table, m->flat, m->list.total));
	lib_part(m->flat, m->list);
	return MVB_OK;
}

int mvb_model_pull(struct mvb_model *m)
{
	TRY(lib_ready_with(__func__, MODEL, m));
	TRY(mvb_table_get(m->table, m->flat, m->list.total));
	lib_part(m->flat, m->list);
	return MVB_OK;
}

int mvb_model_size(struct mvb_model *m, size_t *n)
{
	TRY(check_number(__func__, MODEL, m, n));
	*n = m->list.total;
	return MVB_OK;
}

static int check_flat(const char *function, const struct mvb_model *m, const float *flat, size_t n)
{
	TRY(lib_ready_with(function, MODEL, m));
	if (!flat || n != m->list.total)
		return lib_fail(MVB_ERR_ARGUMENT, "%s: %zu floats at %s, for a model of %zu",
				function, n, flat ? "flat" : "NULL", m->list.total);
	return MVB_OK;
}

int mvb_model_flatten(struct mvb_model *m, float *flat, size_t n)
{
	TRY(check_flat(__func__, m, flat, n));
	lib_join(flat, m->list);
	return MVB_OK;
}

int mvb_model_unflatten(struct mvb_model *m, const float *flat, size_t n)
{
	TRY(check_flat(__func__, m, flat, n));
	lib_part(flat, m->list);
	return MVB_OK;
}

int mvb_model_free(struct mvb_model *m)
{
	return lib_free(MODEL_FREE, MODEL, m ? &m->object : NULL);
}
