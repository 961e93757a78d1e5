/*
 * bench_comm.c - the workers time messages, collectives and tables by size, in turns, and check the
 * received data.
 *
 * Terms are those of nccl-tests (doc/PERFORMANCE.md). A time is that of consecutive calls divided
 * by their number; here it is the slowest worker's. With n workers:
 *
 *   algorithm bandwidth = size / time
 *   bus bandwidth       = algorithm bandwidth x 2 (n - 1) / n    allreduce
 *                                               (n - 1) / n      allgather
 *                                               1                broadcast, sendrecv
 *                                               2                push_pull
 *
 * Bus bandwidth can be compared with the bandwidth of the wires for any number of workers. The size
 * of an allgather is that of all parts together. The size of a push_pull is that of the table:
 * each worker pushes a gradient of it and pulls it.
 */
#include "results/run/bench.h"
#include "runtime/table/table.h"

#include <math.h>
#include <string.h>

static const double timing_s = 0.1; /* fewer calls if they take longer than this together */

struct bench {
	struct worker *w;
	struct link *all;
	const struct bench_flags *flags;
	struct bench_rows *out;
	struct vec *x, *y; /* [most] */
	float *host;       /* [most] */
	/* of the current measurement: */
	struct comm *comm;
	struct table *table;
	struct vec *in, *result; /* [count], [bytes / sizeof(float)]: parts of x and y */
};

/* ---- Messages ------------------------------------------------------------ */

enum { PERIOD = 97, NUMBERS = 8 };

double bench_number(int rank)
{
	return rank % NUMBERS + 1;
}

void bench_fill(float *x, size_t n, int rank)
{
	for (size_t i = 0; i < n; i++)
		x[i] = (float)(bench_number(rank) * (double)(1 + i % PERIOD));
}

size_t bench_wrong(const float *x, size_t n, double number)
{
	size_t wrong = 0;
	for (size_t i = 0; i < n; i++)
		wrong += !(x[i] == (float)(number * (double)(1 + i % PERIOD)));
	return wrong;
}

static double number_of_all(const struct bench *b)
{
	double sum = 0;
	for (int k = 0; k < b->w->trainers; k++)
		sum += bench_number(k);
	return sum;
}

static size_t wrong_in(struct bench *b, double number)
{
	vec_get(b->result, b->host);
	return bench_wrong(b->host, vec_len(b->result), number);
}

/* ---- Operations ---------------------------------------------------------- */

static void do_allreduce(struct bench *b)
{
	comm_allreduce(b->comm, b->result, COMM_SUM);
}

static size_t wrong_sum(struct bench *b)
{
	return wrong_in(b, number_of_all(b));
}

static void do_allgather(struct bench *b)
{
	comm_allgather(b->comm, b->result, b->in);
}

static size_t wrong_parts(struct bench *b)
{
	size_t wrong = 0, n = vec_len(b->in);
	vec_get(b->result, b->host);
	for (int k = 0; k < b->w->trainers; k++)
		wrong += bench_wrong(b->host + (size_t)k * n, n, bench_number(k));
	return wrong;
}

static void do_broadcast(struct bench *b)
{
	comm_broadcast(b->comm, 0, b->result);
}

static size_t wrong_root(struct bench *b)
{
	return wrong_in(b, bench_number(0));
}

/* The peer is half the workers away: with equal shares of workers on two machines it is on the
 * other one. -1: the last worker of an odd number has no peer. */
static int partner(const struct worker *w)
{
	int half = w->trainers / 2;
	return w->rank < half ? w->rank + half : w->rank < 2 * half ? w->rank - half : -1;
}

static void do_sendrecv(struct bench *b)
{
	int peer = partner(b->w);
	if (peer >= 0)
		comm_exchange(b->comm, peer, b->in, peer, b->result);
}

static size_t wrong_partner(struct bench *b)
{
	int peer = partner(b->w);
	return peer < 0 ? 0 : wrong_in(b, bench_number(peer));
}

static void do_op(struct bench *b, enum op_kind kind)
{
	struct table_op op = {.kind = kind,
			      .in = kind == OP_PUSH ? b->in->data : NULL,
			      .out = b->result->data,
			      .pull = true,
			      .by = {.scale = 1}};
	char *wrong = table_do(b->table, &op);
	CHECK(!wrong, "%s", wrong);
}

static void do_push_pull(struct bench *b)
{
	do_op(b, OP_PUSH);
}

static size_t wrong_table(struct bench *b)
{
	link_barrier(b->all);
	do_op(b, OP_READ);
	return wrong_sum(b);
}

static const struct operation {
	const char *name;
	bool reduces;                      /* the transport reduces; others are messages */
	bool table;                        /* uses neither */
	bool parts;                        /* the size is that of all workers' parts together */
	enum { NONE, ROOT, ALL } in_place; /* workers whose result begins as a copy of `in` */
	void (*act)(struct bench *b);
	size_t (*wrong)(struct bench *b); /* wrong elements after one call */
	double bus;  /* bus bandwidth over algorithm bandwidth with many workers, */
	bool others; /* times the share of workers that are others: (n - 1) / n */
} operations[] = {
	{"allreduce", .reduces = true, .in_place = ALL, .act = do_allreduce, .wrong = wrong_sum,
	 .bus = 2, .others = true},
	{"allgather", .parts = true, .act = do_allgather, .wrong = wrong_parts, .bus = 1,
	 .others = true},
	{"broadcast", .in_place = ROOT, .act = do_broadcast, .wrong = wrong_root, .bus = 1},
	{"sendrecv", .act = do_sendrecv, .wrong = wrong_partner, .bus = 1},
	{"push_pull", .table = true, .act = do_push_pull, .wrong = wrong_table, .bus = 2},
};
enum { OPERATIONS = sizeof operations / sizeof *operations };

/* ---- Ways: an operation, and its transport or placement ------------------ */

struct way {
	const struct operation *op;
	const char *transport;
	struct comm *comm;     /* NULL for a table */
	struct tables *tables; /* where the table is made; NULL for others */
	bool owner;            /* comm or tables were made for this way and those after it */
};

struct ways {
	struct way *way;
	size_t n;
};

static bool is_known(const struct ways *all, const struct operation *op, const char *transport)
{
	for (size_t i = 0; i < all->n; i++)
		if (all->way[i].op == op && strcmp(all->way[i].transport, transport) == 0)
			return true;
	return false;
}

/* Adds the operations of workers, or those on tables. reduced, messages: names of the transports of
 * reductions and of messages. owner: the first one owns c or t. false: adds none. */
static bool add_ways(struct ways *all, struct comm *c, const char *reduced, const char *messages,
		     struct tables *t, bool owner)
{
	size_t before = all->n;
	for (size_t i = 0; i < OPERATIONS; i++) {
		const struct operation *op = &operations[i];
		const char *by = t ? t->placement->name : op->reduces ? reduced : messages;
		bool first = all->n == before;
		if (op->table == (t != NULL) && !is_known(all, op, by))
			APPEND(all->way, all->n,
			       (struct way){.op = op,
					    .transport = by,
					    .comm = c,
					    .tables = t,
					    .owner = owner && first});
	}
	return all->n > before;
}

#define TRANSPORT_NAME(name) #name,
static void find_transports(struct bench *b, struct ways *all, const char *wanted)
{
	static const char *const names[] = {TRANSPORT_LIST(TRANSPORT_NAME)};
	bool any = strcmp(wanted, "auto") == 0;
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		if (!any && strcmp(names[i], wanted) != 0)
			continue;
		struct comm *c = comm_split(b->w->all, 0);
		char *wrong AUTOFREE = comm_try(c, b->x, names[i]);
		if (wrong && b->w->rank == 0)
			fprintf(stderr, "mvbench: transport %s is left out: %s\n", names[i], wrong);
		if (wrong || !add_ways(all, c, names[i], comm_messages(c), NULL, true))
			comm_free(c);
	}
}

/* Every placement that works here; servers only if the run has some. */
static void find_tables(struct bench *b, struct ways *all, bool far)
{
	struct worker *w = b->w;
	for (const struct placement *const *p = table_placements; *p; p++) {
		struct tables *t = NULL;
		if ((*p)->floats_on_device != far || (*p)->on_servers || w->trainers == 1)
			continue;
		free(tables_open(&t, b->all, b->all, w->rank, w->trainers, 0, (*p)->name, NULL,
				 w->loop->dev));
		if (t)
			add_ways(all, NULL, NULL, NULL, t, true);
	}
	struct tables *own = w->loop->tables;
	if (own && own->placement->on_servers && !far)
		add_ways(all, NULL, NULL, NULL, own, false);
}

static void find_ways(struct bench *b, struct ways *all, const char *wanted)
{
	bool far = b->w->loop->dev->ops->peer != NULL;
	if (b->w->trainers > 1 && far)
		find_transports(b, all, wanted);
	else if (b->w->trainers > 1)
		add_ways(all, b->w->all, "mpi", "mpi", NULL, false);
	find_tables(b, all, far);
}

static void leave_ways(struct ways *all)
{
	for (const struct way *w = all->way; w < all->way + all->n; w++)
		if (w->owner && w->tables)
			tables_close(w->tables);
		else if (w->owner)
			comm_free(w->comm);
	free(all->way);
}

/* ---- Measuring ----------------------------------------------------------- */

/* Mean time of a call on the slowest worker [s]. */
static double time_calls(struct bench *b, const struct operation *op, int64_t calls)
{
	link_barrier(b->all);
	nsec since = clock_now();
	for (int64_t i = 0; i < calls; i++)
		op->act(b);
	device_sync(b->w->loop->dev);
	double took = 1e-9 * (double)(clock_now() - since) / (double)calls;
	link_reduce_all(b->all, &took, 1, REDUCE_MAX);
	return took;
}

/* The first call is checked and warms the caches; then come the timed calls. */
static struct bench_row time_one(struct bench *b, const struct operation *op)
{
	const double n = b->w->trainers;
	struct bench_row row = {.operation = op->name,
				.bus = op->others ? op->bus * (n - 1) / n : op->bus};
	bench_fill(b->host, vec_len(b->in), b->w->rank);
	vec_put(b->in, b->host);
	vec_fill(b->result, 0);
	if (op->in_place == ALL || (op->in_place == ROOT && b->w->rank == 0))
		vec_copy(b->result, b->in);
	double took = time_calls(b, op, 1), wrong = (double)op->wrong(b);
	link_reduce_all(b->all, &wrong, 1, REDUCE_SUM);
	row.wrong = (int64_t)wrong;
	vec_fill(b->in, 0); /* repeated sums stay finite */
	vec_fill(b->result, 0);
	double calls = fmax(1, fmin(timing_s / took, (double)b->flags->iterations));
	row.seconds = time_calls(b, op, (int64_t)calls);
	return row;
}

/* Each measurement gets a new table, which holds only its own pushes. */
static void open_way(struct bench *b, const struct way *way)
{
	b->comm = way->comm;
	b->table = NULL;
	if (!way->tables)
		return;
	struct table_rules r = {
		.rows = vec_len(b->result), .columns = 1, .updater = updater_find("add")};
	char *wrong = table_open(&b->table, way->tables, &r, NULL);
	CHECK(!wrong, "%s", wrong);
}

/* Makes no row if a part would be empty. */
static void measure_ways(struct bench *b, const struct ways *all, size_t i, size_t floats,
			 int64_t repetition)
{
	const struct way *way = &all->way[i];
	size_t parts = way->op->parts ? (size_t)b->w->trainers : 1, count = floats / parts;
	if (count == 0)
		return;
	b->in = vec_slice(b->x, 0, count);
	b->result = vec_slice(b->y, 0, count * parts);
	open_way(b, way);
	struct bench_row row = time_one(b, way->op);
	row.way = i;
	row.transport = way->transport;
	row.bytes = (int64_t)(count * parts * sizeof(float));
	row.count = (int64_t)count;
	row.repetition = repetition;
	table_free(b->table);
	vec_free(b->in);
	vec_free(b->result);
	APPEND(b->out->row, b->out->n, row);
}

static void measure_all(struct bench *b, const struct ways *all)
{
	const struct bench_flags *f = b->flags;
	for (int64_t k = 1; k <= f->repetitions; k++) {
		if (b->w->rank == 0)
			fprintf(stderr, "repetition %lld of %lld\n", (long long)k,
				(long long)f->repetitions);
		for (int64_t bytes = f->min; bytes <= f->max; bytes *= f->factor)
			for (size_t i = 0; i < all->n; i++)
				measure_ways(b, all, i, (size_t)bytes / sizeof(float), k);
	}
}

void bench_comm(struct worker *w, const struct bench_flags *f, const char *transport,
		struct bench_rows *out)
{
	size_t most = (size_t)f->max / sizeof(float);
	struct ways all = {.n = 0};
	struct bench b = {.w = w,
			  .all = comm_link(w->all),
			  .flags = f,
			  .out = out,
			  .x = vec_new(w, most),
			  .y = vec_new(w, most),
			  .host = must(malloc(most * sizeof(float)))};
	find_ways(&b, &all, transport);
	measure_all(&b, &all);
	leave_ways(&all);
	vec_free(b.x);
	vec_free(b.y);
	free(b.host);
}
