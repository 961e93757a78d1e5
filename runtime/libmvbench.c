/*
 * libmvbench.c - the public functions of libmvbench.h on the tables and links of the runtime.
 *
 * Whatever is collective begins with a meeting: one reduction of a few numbers, from which every
 * worker learns whether all are in the same function with the same arguments, and whether
 * somebody's were refused. Only then does anything happen that needs all of them. So mistakes end
 * as errors on all workers instead of waiting for ever. Cost: one reduction of 22 doubles a
 * collective call.
 *
 * A worker in a meeting will push nothing meanwhile: tables in which others may be waiting for its
 * push are told so (leave, rejoin), which turns that kind of waiting into an error, too.
 */
#include "libmvbench.h"

#include "table.h"

#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* ---- What the process is -------------------------------------------------------- */

enum kind { TABLE, GRADS, MODEL };

/* What a pointer of the caller's may stand for: each of these begins with one. */
struct object {
	enum kind kind;
	struct object *next;
};

struct mvb_table {
	struct object object;
	struct table *core;
	int64_t staleness;
};

struct bucket {
	size_t first, count; /* in the order of the backward pass: 0 is the last tensor */
	size_t floats;
	float *joined;  /* NULL: one tensor, reduced where it is */
	size_t missing; /* tensors that are not ready */
};

struct mvb_grads {
	struct object object;
	struct link *link; /* its own: its reductions cannot meet others */
	size_t count;
	float **tensor; /* from the last to the first */
	size_t *n, *bucket_of;
	bool *ready;
	struct bucket *bucket;
	size_t buckets, started, missing;
};

struct mvb_model {
	struct object object;
	struct mvb_table *table;
	size_t count, total;
	float **tensor, *flat;
	size_t *n;
};

enum { FLIGHTS = 256 };

/* What was started and is not waited for. */
struct flight {
	enum { FREE, PASS, REDUCTION, LANDED } state;
	int64_t generation;
	struct mvb_table *table; /* PASS */
	int64_t ticket;          /* the table's own */
	float *x;                /* REDUCTION; its slot is the flight's place in `slot` */
	size_t n;
	enum mvb_reduce op;
	int slot;
	int code;  /* LANDED: how it ended, */
	char *why; /* and the sentence (heap) */
};

static struct {
	enum { UNBORN, WORKER, SERVER, OVER } state;
	int rank, size, servers, workers;
	struct link *everyone; /* NULL without servers */
	struct link *link;     /* of the workers */
	struct link *async;    /* of the workers: for reductions that are started */
	struct tables *tables;
	struct object *object;
	struct flight flight[FLIGHTS];
	bool slot[LINK_SLOTS];
	pthread_t thread;
	bool failed; /* mvb_init has, after starting MPI */
	char backend[256];
} lib;

/* ---- Errors ----------------------------------------------------------------------- */

enum { MESSAGE = 512 };
static _Thread_local char message[MESSAGE];

const char *mvb_message(void)
{
	return message;
}

const char *mvb_error_name(int code)
{
#define NAME(word) [MVB_##word] = "MVB_" #word
	static const char *const name[] = {NAME(OK),          NAME(ERR_STATE), NAME(ERR_ARGUMENT),
					   NAME(ERR_DIFFERS), NAME(ERR_PEER),  NAME(ERR_UNEVEN),
					   NAME(ERR_TICKET),  NAME(ERR_LIMIT), NAME(ERR_MEMORY),
					   NAME(ERR_START)};
	size_t known = sizeof name / sizeof *name;
	return code >= 0 && (size_t)code < known ? name[code] : "MVB_ERR unknown";
}

__attribute__((format(printf, 2, 3))) static int fail(int code, const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	vsnprintf(message, sizeof message, fmt, args);
	va_end(args);
	return code;
}

/* Frees the sentence; NULL is no failure. */
static int fail_with(int code, char *wrong)
{
	if (!wrong)
		return MVB_OK;
	fail(code, "%s", wrong);
	free(wrong);
	return code;
}

/* May this be called now? */
static int ready(const char *function)
{
	if (lib.state == UNBORN)
		return fail(MVB_ERR_STATE, "%s before mvb_init: call that first", function);
	if (lib.state == OVER)
		return fail(MVB_ERR_STATE, "%s after mvb_shutdown", function);
	if (lib.state == SERVER)
		return fail(MVB_ERR_STATE,
			    "%s on a server, whose life is over: nothing but mvb_shutdown is left",
			    function);
	if (!pthread_equal(lib.thread, pthread_self()))
		return fail(MVB_ERR_STATE, "%s on another thread than mvb_init", function);
	if (platform_gone())
		return fail(MVB_ERR_STATE,
			    "%s after MPI_Finalize: mvb_shutdown has to come before it", function);
	return MVB_OK;
}

/* May it be called, and is this pointer one of ours and alive? */
static int ready_with(const char *function, enum kind kind, const void *p)
{
	static const char *const word[] = {
		[TABLE] = "table", [GRADS] = "set of gradients", [MODEL] = "model"};
	int code = ready(function);
	if (code)
		return code;
	for (const struct object *o = lib.object; o; o = o->next)
		if (o == p && o->kind == kind)
			return MVB_OK;
	return fail(MVB_ERR_ARGUMENT, "%s: %s %s", function,
		    p ? "the pointer is to no living" : "NULL is no", word[kind]);
}

static void *keep(struct object *o, enum kind kind)
{
	*o = (struct object){.kind = kind, .next = lib.object};
	lib.object = o;
	return o;
}

/* From 1, in the order of their making, which is the same on all workers. */
static double number_of(const struct object *object)
{
	double number = 0;
	for (const struct object *o = object; o; o = o->next)
		number++;
	return number;
}

static void forget(struct object *o)
{
	struct object **at = &lib.object;
	while (*at != o)
		at = &(*at)->next;
	*at = o->next;
}

/* ---- Meetings --------------------------------------------------------------------- */

enum function {
	INIT,
	SHUTDOWN,
	BARRIER,
	TABLE_NEW,
	TABLE_FREE,
	ALLREDUCE,
	ALLREDUCE_START,
	ALLREDUCE_LIST,
	BROADCAST,
	GRADS_NEW,
	GRADS_WAIT,
	GRADS_FREE,
	MODEL_NEW,
	MODEL_FREE,
};

enum { ARGS = 8 };

/* What a collective function is called with, in numbers: the names say what they are. */
static const struct {
	const char *name, *arg[ARGS];
} functions[] = {
	[INIT] = {"mvb_init", {"servers", "tables"}},
	[SHUTDOWN] = {"mvb_shutdown", {NULL}},
	[BARRIER] = {"mvb_barrier", {NULL}},
	[TABLE_NEW] = {"mvb_array_new or mvb_matrix_new",
		       {"rows", "columns", "updater", "rounds", "backup", "bounded", "lead",
			"initial"}},
	[TABLE_FREE] = {"mvb_table_free", {NULL}},
	[ALLREDUCE] = {"mvb_allreduce", {"n", "op"}},
	[ALLREDUCE_START] = {"mvb_allreduce_start", {"n", "op"}},
	[ALLREDUCE_LIST] = {"mvb_allreduce_list",
			    {"count", "floats of all tensors", "fingerprint of their lengths",
			     "op"}},
	[BROADCAST] = {"mvb_broadcast", {"n", "root"}},
	[GRADS_NEW] = {"mvb_grads_new",
		       {"count", "floats of all tensors", "fingerprint of their lengths",
			"bucket_bytes"}},
	[GRADS_WAIT] = {"mvb_grads_wait", {NULL}},
	[GRADS_FREE] = {"mvb_grads_free", {NULL}},
	[MODEL_NEW] = {"mvb_model_new",
		       {"count", "floats of all tensors", "fingerprint of their lengths"}},
	[MODEL_FREE] = {"mvb_model_free", {NULL}},
};

struct call {
	enum function function;
	int code; /* not MVB_OK: refused on this worker, for the reason in its message */
	double arg[ARGS];
	double object; /* which table, set or model it is about */
};

struct report {
	struct call call;
	char message[MESSAGE];
};

/* The first rank that is in another function than rank 0, or has another argument; 0 = none. */
static int first_elsewhere(const struct report *r, int n)
{
	for (int k = 1; k < n; k++)
		if (r[k].call.function != r[0].call.function ||
		    r[k].call.object != r[0].call.object)
			return k;
	return 0;
}

static int first_other(const struct report *r, int n, int arg)
{
	for (int k = 1; k < n; k++)
		if (r[k].call.arg[arg] != r[0].call.arg[arg])
			return k;
	return 0;
}

static void say_where(const struct call *c, char text[96])
{
	if (c->object)
		snprintf(text, 96, "%s of number %.15g", functions[c->function].name, c->object);
	else
		snprintf(text, 96, "%s", functions[c->function].name);
}

/* The rank that is elsewhere, has been refused, or has other arguments, in that order: everyone
 * must come to the same verdict, as what happens next depends on it. */
static void judge(struct report *out, const struct report *r, int n)
{
	const char *who = r[0].call.function == INIT ? "process" : "worker";
	char here[96], there[96];
	int k = first_elsewhere(r, n);
	out->call.code = MVB_ERR_DIFFERS;
	if (k) {
		say_where(&r[0].call, here);
		say_where(&r[k].call, there);
		snprintf(out->message, MESSAGE, "worker 0 has come to %s, worker %d to %s", here, k,
			 there);
		return;
	}
	while (k < n && !r[k].call.code)
		k++;
	if (k < n) {
		out->call.code = MVB_ERR_PEER;
		snprintf(out->message, MESSAGE, "%s %d: %.*s", who, k, MESSAGE - 32, r[k].message);
		return;
	}
	for (int i = ARGS - 1; i >= 0; i--)
		if ((k = first_other(r, n, i)))
			snprintf(out->message, MESSAGE,
				 "%s: %s is %.15g on %s 0, but %.15g on %s %d",
				 functions[r[0].call.function].name,
				 functions[r[0].call.function].arg[i], r[0].call.arg[i], who,
				 r[k].call.arg[i], who, k);
}

/* Something is wrong: rank 0 looks at all the calls, and tells. */
static int explain(struct link *link, int rank, int size, const struct call *mine)
{
	struct report out = {.call = *mine}, *all = NULL;
	snprintf(out.message, MESSAGE, "%s", mine->code ? message : "");
	if (rank == 0)
		all = must(calloc((size_t)size, sizeof *all));
	link_gather_bytes(link, &out, all, sizeof out);
	if (rank == 0)
		judge(&out, all, size);
	free(all);
	link_broadcast(link, 0, &out, sizeof out);
	if (out.call.code == MVB_ERR_PEER && mine->code)
		return mine->code;
	return fail(out.call.code, "%s", out.message);
}

static int meet_on(struct link *link, int rank, int size, const struct call *mine)
{
	enum { FACTS = ARGS + 3 };
	double fact[FACTS] = {mine->function, mine->code, mine->object}, most[2 * FACTS];
	bool fine = true;
	memcpy(fact + 3, mine->arg, sizeof mine->arg);
	for (int i = 0; i < FACTS; i++) {
		most[2 * i] = fact[i];
		most[2 * i + 1] = -fact[i];
	}
	link_fold(link, most, 2 * FACTS, FOLD_MAX);
	for (int i = 0; i < FACTS; i++)
		fine = fine && most[2 * i] == -most[2 * i + 1];
	if (fine)
		return mine->code;
	return explain(link, rank, size, mine);
}

/* While this worker waits for the others elsewhere, no push of its will come. */
static void leave(bool all)
{
	for (int i = 0; i < lib.tables->count; i++) {
		struct table *t = lib.tables->table[i];
		if (t && (all || t->rules.rounds || t->rules.bounded))
			lib.tables->home->flush(t);
	}
}

static void rejoin(bool all)
{
	for (int i = 0; i < lib.tables->count; i++) {
		struct table *t = lib.tables->table[i];
		if (t && (all || t->rules.rounds || t->rules.bounded))
			lib.tables->home->resume(t);
	}
}

static int meet(const struct call *mine)
{
	bool all = mine->function == BARRIER;
	leave(all);
	int code = meet_on(lib.link, lib.rank, lib.workers, mine);
	rejoin(all);
	return code;
}

/* ---- What was started ------------------------------------------------------------- */

static int end_reduction(const struct flight *f)
{
	if (lib.workers > 1)
		link_allreduce_wait(lib.async, f->slot);
	lib.slot[f->slot] = false;
	for (size_t i = 0; f->op == MVB_MEAN && i < f->n; i++)
		f->x[i] /= (float)lib.workers;
	return MVB_OK;
}

static int pass_code(const struct mvb_table *t)
{
	return t->core->rules.rounds ? MVB_ERR_UNEVEN : MVB_ERR_ARGUMENT;
}

static void note_push(struct mvb_table *t, const struct pass *p)
{
	if (pass_pushes(p))
		t->staleness = p->dropped ? -1 : p->staleness;
}

static void land(struct flight *f)
{
	if (f->state == PASS) {
		struct pass done = {0};
		f->why = table_wait(f->table->core, f->ticket, &done);
		f->code = f->why ? pass_code(f->table) : MVB_OK;
		note_push(f->table, &done);
	} else if (f->state == REDUCTION) {
		f->code = end_reduction(f);
	}
	f->state = LANDED;
}

/* Ends what was started: the passes of one table, of all (NULL), or the reductions. Returns the
 * first error. */
static int land_passes(const struct mvb_table *t)
{
	int code = MVB_OK;
	for (int i = 0; i < FLIGHTS; i++) {
		struct flight *f = &lib.flight[i];
		if (f->state != PASS || (t && f->table != t))
			continue;
		land(f);
		if (f->code && !code)
			code = fail(f->code, "%s", f->why);
	}
	return code;
}

static void land_reductions(void)
{
	for (int i = 0; i < FLIGHTS; i++)
		if (lib.flight[i].state == REDUCTION)
			land(&lib.flight[i]);
}

static int64_t ticket_of(const struct flight *f)
{
	return f->generation * FLIGHTS + (f - lib.flight);
}

/* A free place, or NULL. */
static struct flight *flight_new(void)
{
	for (int i = 0; i < FLIGHTS; i++)
		if (lib.flight[i].state == FREE) {
			int64_t generation = lib.flight[i].generation + 1;
			lib.flight[i] = (struct flight){.generation = generation};
			return &lib.flight[i];
		}
	return NULL;
}

static int too_many(const char *function)
{
	return fail(MVB_ERR_LIMIT, "%s: too many tickets are out; mvb_wait for one first",
		    function);
}

int mvb_wait(int64_t ticket)
{
	int code = ready("mvb_wait");
	if (code)
		return code;
	struct flight *f = &lib.flight[ticket > 0 ? ticket % FLIGHTS : 0];
	if (ticket < FLIGHTS || ticket / FLIGHTS > f->generation)
		return fail(MVB_ERR_TICKET, "mvb_wait: ticket %lld was never given out",
			    (long long)ticket);
	if (ticket != ticket_of(f) || f->state == FREE)
		return fail(MVB_ERR_TICKET, "mvb_wait: ticket %lld was waited for already",
			    (long long)ticket);
	land(f);
	f->state = FREE;
	code = f->code;
	return fail_with(code, f->why);
}

/* ---- Start and end ---------------------------------------------------------------- */

static int known_home(const char *name)
{
	static const char *const home[] = {"auto", "shared", "onesided", "servers"};
	for (int i = 0; i < 4; i++)
		if (strcmp(name ? name : "auto", home[i]) == 0)
			return i;
	return -1;
}

/* Can this process start as it was told to? */
static int check_start(const struct mvb_setup *s)
{
	if (lib.state == OVER)
		return fail(MVB_ERR_STATE, "mvb_init after mvb_shutdown: MPI starts only once");
	if (lib.state != UNBORN)
		return fail(MVB_ERR_STATE, "mvb_init a second time");
	if (!s->file && (s->rank || s->size))
		return fail(MVB_ERR_ARGUMENT,
			    "mvb_init: rank and size are the launcher's, unless a file is given "
			    "through which the processes find each other");
	if (s->file && (s->size < 1 || s->rank < 0 || s->rank >= s->size))
		return fail(MVB_ERR_ARGUMENT,
			    "mvb_init: rank %d of %d processes; ranks go from 0 to size - 1",
			    s->rank, s->size);
	if (s->file && (!*s->file || !(s->timeout_s >= 0)))
		return fail(MVB_ERR_ARGUMENT,
			    "mvb_init: file '%s', timeout_s %g: a path, and no "
			    "negative number",
			    s->file, s->timeout_s);
	return MVB_OK;
}

/* The processes without a launcher find each other; NULL, or a sentence. */
static char *find_each_other(const struct mvb_setup *s)
{
	(void)s;
	return sentence("starting through a file is not built: use mpirun or srun");
}

static int start(const struct mvb_setup *s)
{
	bool launched = platform_under_launcher();
	char *wrong = s->file && s->size > 1 && !launched ? find_each_other(s) : NULL;
	if (wrong)
		return fail_with(MVB_ERR_START, wrong);
	platform_open(launched || (s->file && s->size > 1), &lib.rank, &lib.size);
	if (s->file && (lib.rank != s->rank || lib.size != s->size))
		return fail(MVB_ERR_ARGUMENT,
			    "mvb_init: rank %d of %d, but the launcher made it rank %d of %d",
			    s->rank, s->size, lib.rank, lib.size);
	return MVB_OK;
}

/* Can there be workers, servers and tables as it says? */
static int check_roles(const struct mvb_setup *s)
{
	const char *home = s->tables ? s->tables : "auto";
	bool on_servers = strcmp(home, "servers") == 0;
	if (known_home(s->tables) < 0)
		return fail(MVB_ERR_ARGUMENT,
			    "mvb_init: tables cannot live on '%s': auto, shared, onesided or "
			    "servers",
			    s->tables);
	if (s->servers < 0)
		return fail(MVB_ERR_ARGUMENT, "mvb_init: %d servers", s->servers);
	if (s->servers >= lib.size)
		return fail(MVB_ERR_ARGUMENT,
			    "mvb_init: %d servers among %d processes leave no worker: start at "
			    "least %d",
			    s->servers, lib.size, s->servers + 1);
	if (on_servers && s->servers == 0)
		return fail(MVB_ERR_ARGUMENT,
			    "mvb_init: tables on servers, but there are none: set servers to 1 or "
			    "more");
	if (s->servers > 0 && !on_servers && strcmp(home, "auto") != 0)
		return fail(MVB_ERR_ARGUMENT,
			    "mvb_init: tables %s, but there are %d servers: leave one of them out",
			    home, s->servers);
	return MVB_OK;
}

static int open_worker(const struct mvb_setup *s)
{
	bool shared = s->tables && strcmp(s->tables, "shared") == 0;
	int code = MVB_OK;
	if (shared && !link_one_node(lib.link))
		code = fail(MVB_ERR_ARGUMENT, "mvb_init: tables in shared memory need all workers "
					      "on one machine: use onesided or servers");
	else
		code = fail_with(MVB_ERR_ARGUMENT,
				 tables_open(&lib.tables, lib.everyone ? lib.everyone : lib.link,
					     lib.link, lib.rank, lib.workers, lib.servers,
					     s->tables ? s->tables : "auto", NULL));
	if (code)
		return code;
	int rank, size;
	lib.async = link_split(lib.link, 0, &rank, &size);
	snprintf(lib.backend, sizeof lib.backend, "%s, tables: %s",
		 lib.size > 1 || platform_under_launcher() ? platform_version() : "one process",
		 lib.tables->home->name);
	lib.state = WORKER;
	return MVB_OK;
}

static void close_links(void)
{
	link_free(lib.async);
	link_free(lib.link);
	link_free(lib.everyone);
	lib.async = lib.link = lib.everyone = NULL;
}

int mvb_init(const struct mvb_setup *setup)
{
	struct mvb_setup s = setup ? *setup : (struct mvb_setup){0};
	int code = check_start(&s);
	if (!code)
		code = start(&s);
	if (code)
		return code;
	struct call call = {.function = INIT,
			    .code = check_roles(&s),
			    .arg = {s.servers, known_home(s.tables)}};
	lib.failed = true;
	lib.everyone = link_world(lib.size);
	if ((code = meet_on(lib.everyone, lib.rank, lib.size, &call))) {
		close_links();
		return code;
	}
	lib.servers = s.servers;
	lib.workers = lib.size - s.servers;
	lib.link = link_world(lib.workers);
	lib.thread = pthread_self();
	if (lib.servers == 0) {
		link_free(lib.everyone);
		lib.everyone = NULL;
	}
	if (lib.rank < lib.workers) {
		code = open_worker(&s);
	} else {
		tables_serve(lib.everyone, lib.rank, lib.workers);
		lib.state = SERVER;
	}
	if (lib.state != WORKER)
		close_links();
	return code;
}

int mvb_num_workers(void)
{
	return lib.state == WORKER || lib.state == SERVER ? lib.workers : -1;
}

int mvb_worker_id(void)
{
	return lib.state == WORKER ? lib.rank : -1;
}

bool mvb_is_master(void)
{
	return mvb_worker_id() == 0;
}

int mvb_num_servers(void)
{
	return lib.state == WORKER || lib.state == SERVER ? lib.servers : -1;
}

bool mvb_is_server(void)
{
	return lib.state == SERVER;
}

int mvb_rank(void)
{
	return lib.state == WORKER || lib.state == SERVER ? lib.rank : -1;
}

int mvb_size(void)
{
	return lib.state == WORKER || lib.state == SERVER ? lib.size : -1;
}

const char *mvb_backend(void)
{
	return lib.state == WORKER   ? lib.backend
	       : lib.state == SERVER ? "a server of the others' tables"
				     : "not started";
}

int mvb_barrier(void)
{
	int code = ready("mvb_barrier");
	if (code)
		return code;
	struct call call = {.function = BARRIER, .code = land_passes(NULL)};
	return meet(&call);
}

/* ---- Tables ------------------------------------------------------------------------- */

static struct table_rules rules_of(size_t rows, size_t columns, const struct mvb_options *o)
{
	static const enum table_init init[] = {[MVB_MASTER] = TABLE_MASTER,
					       [MVB_AVERAGE] = TABLE_AVERAGE,
					       [MVB_TOTAL] = TABLE_SUM};
	struct table_rules r = {.rows = rows,
				.columns = columns,
				.updater = updater_find(o->updater ? o->updater : "add"),
				.rounds = o->rounds,
				.backup = o->backup,
				.bounded = o->bounded,
				.lead = o->lead};
	if (o->initial <= MVB_TOTAL)
		r.init = init[o->initial];
	r.syncs = r.updater && !r.updater->gradient;
	return r;
}

static int updater_number(const struct updater *u)
{
	int i = 0;
	while (updaters[i] && updaters[i] != u)
		i++;
	return i;
}

/* "add, sgd, ..." */
static const char *updater_names(void)
{
	static char text[256];
	size_t at = 0;
	for (int i = 0; updaters[i] && at < sizeof text; i++)
		at += (size_t)snprintf(text + at, sizeof text - at, "%s%s", i ? ", " : "",
				       updaters[i]->name);
	return text;
}

/* Floats that this machine can hold; a table beyond that would end the process. */
static int check_memory(const struct table_rules *r)
{
	const struct updater *u = r->updater;
	double floats = (double)r->rows * (double)r->columns, there;
	double common = sizeof(float) * floats * (1 + r->rounds + u->state);
	double mine = sizeof(float) * floats * ((r->syncs || u->pulled) + u->own);
	struct statvfs shm;
	there = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
	if (lib.tables->home == &home_shared && lib.workers > 1 && !statvfs("/dev/shm", &shm) &&
	    (double)shm.f_bavail * (double)shm.f_frsize < there)
		there = (double)shm.f_bavail * (double)shm.f_frsize;
	if (common + mine < there)
		return MVB_OK;
	return fail(MVB_ERR_MEMORY,
		    "a table of %zu x %zu floats takes %.0f MiB, and there are %.0f MiB for it",
		    r->rows, r->columns, (common + mine) / 1048576, there / 1048576);
}

static int check_options(const struct table_rules *r, const struct mvb_options *o)
{
	if (r->rows == 0 || r->columns == 0)
		return fail(MVB_ERR_ARGUMENT, "a table of %zu x %zu floats: it needs at least one",
			    r->rows, r->columns);
	if (r->rows > SIZE_MAX / sizeof(float) / r->columns)
		return fail(MVB_ERR_MEMORY, "a table of %zu x %zu floats fits into no memory",
			    r->rows, r->columns);
	if (!r->updater)
		return fail(MVB_ERR_ARGUMENT, "no updater is called '%s'; there are %s", o->updater,
			    updater_names());
	if (o->backup < 0 || o->backup >= lib.workers || (o->backup && !o->rounds))
		return fail(MVB_ERR_ARGUMENT,
			    "backup %d: at least one push of the %d workers has to count, and "
			    "there have to be rounds",
			    o->backup, lib.workers);
	if (o->lead < 0 || (o->lead && !o->bounded) || (o->bounded && o->rounds))
		return fail(MVB_ERR_ARGUMENT,
			    "lead %d: not negative, with bounded only, and not with rounds",
			    o->lead);
	if (o->initial < MVB_MASTER || o->initial > MVB_TOTAL)
		return fail(MVB_ERR_ARGUMENT, "initial %d: MVB_MASTER, MVB_AVERAGE or MVB_TOTAL",
			    (int)o->initial);
	return check_memory(r);
}

static int table_make(struct mvb_table **out, const char *function, size_t rows, size_t columns,
		      float *values, const struct mvb_options *options)
{
	struct mvb_options o = options ? *options : (struct mvb_options){0};
	struct table *core;
	int code = ready(function);
	if (out)
		*out = NULL;
	if (code)
		return code;
	struct table_rules r = rules_of(rows, columns, &o);
	if (!out)
		code = fail(MVB_ERR_ARGUMENT, "%s: NULL is no place for the table", function);
	struct call call = {.function = TABLE_NEW,
			    .code = code ? code : check_options(&r, &o),
			    .arg = {(double)rows, (double)columns, updater_number(r.updater),
				    o.rounds, o.backup, o.bounded, o.lead, (double)o.initial}};
	code = meet(&call);
	if (code)
		return code;
	code = fail_with(MVB_ERR_LIMIT, table_open(&core, lib.tables, &r, values));
	if (code)
		return code;
	struct mvb_table *t = must(calloc(1, sizeof *t));
	t->core = core;
	t->staleness = -1;
	*out = keep(&t->object, TABLE);
	struct pass first = {.kind = PASS_READ, .out = values, .pull = true};
	if (values)
		code = fail_with(pass_code(t), table_pass(core, &first));
	link_barrier(lib.link); /* nobody pushes before all have read */
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

static void table_drop(struct mvb_table *t)
{
	land_passes(t);
	table_close(t->core);
	forget(&t->object);
	free(t);
}

int mvb_table_free(struct mvb_table *t)
{
	if (!t)
		return MVB_OK;
	int code = ready_with("mvb_table_free", TABLE, t);
	if (code)
		return code;
	struct call call = {
		.function = TABLE_FREE, .code = land_passes(t), .object = number_of(&t->object)};
	code = meet(&call);
	if (code != MVB_ERR_DIFFERS)
		table_drop(t);
	return code;
}

/* A pass that the caller asks for. */
struct request {
	const char *function;
	struct mvb_table *table;
	size_t n; /* floats that the caller says there are */
	const struct mvb_push *by;
	struct pass pass;
};

static int check_rows(const struct request *q)
{
	const struct table_rules *r = &q->table->core->rules;
	const struct pass *p = &q->pass;
	if (!p->row)
		return fail(MVB_ERR_ARGUMENT, "%s: NULL where row numbers should be", q->function);
	for (size_t i = 0; i < p->rows; i++)
		if (p->row[i] < 0 || (size_t)p->row[i] >= r->rows)
			return fail(MVB_ERR_ARGUMENT, "%s: row %lld of a table with rows 0 to %zu",
				    q->function, (long long)p->row[i], r->rows - 1);
	if (q->n != p->rows * r->columns)
		return fail(MVB_ERR_ARGUMENT,
			    "%s: %zu floats for %zu rows of %zu columns, which are %zu",
			    q->function, q->n, p->rows, r->columns, p->rows * r->columns);
	return MVB_OK;
}

static int check_push(const struct request *q)
{
	const struct table_rules *r = &q->table->core->rules;
	const struct mvb_push *by = q->by;
	bool elastic = q->pass.kind == PASS_ELASTIC;
	if ((elastic || q->pass.kind == PASS_SYNC) && r->updater->gradient)
		return fail(MVB_ERR_ARGUMENT,
			    "%s: the table's updater is %s, which takes gradients; this needs add",
			    q->function, r->updater->name);
	if (elastic && (r->rounds || r->bounded))
		return fail(MVB_ERR_ARGUMENT, "%s on a table with rounds or a bound", q->function);
	if (!(isfinite(by->lr) && isfinite(by->momentum) && isfinite(by->rho) &&
	      isfinite(by->lambda)))
		return fail(MVB_ERR_ARGUMENT, "%s: lr %g, momentum %g, rho %g, lambda %g",
			    q->function, (double)by->lr, (double)by->momentum, (double)by->rho,
			    (double)by->lambda);
	return MVB_OK;
}

static int check_request(const struct request *q)
{
	const struct pass *p = &q->pass;
	int code = ready_with(q->function, TABLE, q->table);
	if (code)
		return code;
	if (p->kind == PASS_PUSH ? !p->in : !p->out)
		return fail(MVB_ERR_ARGUMENT, "%s: NULL where floats should be", q->function);
	if (p->row || p->rows)
		code = check_rows(q);
	else if (q->n != q->table->core->n)
		code = fail(MVB_ERR_ARGUMENT, "%s: %zu floats for a table of %zu", q->function,
			    q->n, q->table->core->n);
	return code ? code : check_push(q);
}

/* Checks it, and fills in what goes with the push. */
static int prepare(struct request *q)
{
	static const struct mvb_push defaults = MVB_PUSH_DEFAULT;
	q->by = q->by ? q->by : &defaults;
	int code = check_request(q);
	if (code)
		return code;
	if (q->pass.kind != PASS_ELASTIC)
		q->pass.by = (struct push){.scale = 1,
					   .lr = q->by->lr,
					   .momentum = q->by->momentum,
					   .rho = q->by->rho,
					   .lambda = q->by->lambda};
	/* it may sleep, and reductions under way need this worker */
	if (q->table->core->rules.rounds || q->table->core->rules.bounded)
		land_reductions();
	return MVB_OK;
}

static int pass_now(struct request q)
{
	int code = prepare(&q);
	if (code || (q.pass.row && q.pass.rows == 0))
		return code;
	code = fail_with(pass_code(q.table), table_pass(q.table->core, &q.pass));
	if (!code)
		note_push(q.table, &q.pass);
	return code;
}

static int pass_start(struct request q, int64_t *ticket)
{
	int under_way = 0, code = prepare(&q);
	if (code)
		return code;
	if (!ticket)
		return fail(MVB_ERR_ARGUMENT, "%s: NULL where the ticket should go", q.function);
	for (int i = 0; i < FLIGHTS; i++)
		under_way += lib.flight[i].state == PASS && lib.flight[i].table == q.table;
	struct flight *f = under_way < TICKETS_MAX ? flight_new() : NULL;
	if (!f)
		return too_many(q.function);
	code = fail_with(pass_code(q.table), table_start(q.table->core, &q.pass, &f->ticket));
	if (code)
		return code;
	f->state = PASS;
	f->table = q.table;
	*ticket = ticket_of(f);
	return MVB_OK;
}

static struct pass push_of(const float *values, float *out)
{
	return (struct pass){.kind = PASS_PUSH, .in = values, .out = out, .pull = out != NULL};
}

static struct pass pull_of(enum pass_kind kind, float *out)
{
	return (struct pass){.kind = kind, .out = out, .pull = true};
}

int mvb_table_add(struct mvb_table *t, const float *values, size_t n, const struct mvb_push *by)
{
	return pass_now((struct request){__func__, t, n, by, push_of(values, NULL)});
}

int mvb_table_get(struct mvb_table *t, float *out, size_t n)
{
	return pass_now((struct request){__func__, t, n, NULL, pull_of(PASS_READ, out)});
}

int mvb_table_add_get(struct mvb_table *t, const float *values, size_t n, const struct mvb_push *by,
		      float *out)
{
	const float *in = out ? values : NULL; /* both, or it is refused */
	return pass_now((struct request){__func__, t, n, by, push_of(in, out)});
}

int mvb_table_sync(struct mvb_table *t, float *param, size_t n)
{
	return pass_now((struct request){__func__, t, n, NULL, pull_of(PASS_SYNC, param)});
}

int mvb_table_elastic(struct mvb_table *t, float *param, size_t n, float alpha)
{
	struct request q = {__func__, t, n, NULL, pull_of(PASS_ELASTIC, param)};
	q.pass.by.scale = alpha;
	return pass_now(q);
}

int mvb_table_add_start(struct mvb_table *t, const float *values, size_t n,
			const struct mvb_push *by, int64_t *ticket)
{
	return pass_start((struct request){__func__, t, n, by, push_of(values, NULL)}, ticket);
}

int mvb_table_get_start(struct mvb_table *t, float *out, size_t n, int64_t *ticket)
{
	return pass_start((struct request){__func__, t, n, NULL, pull_of(PASS_READ, out)}, ticket);
}

int mvb_table_sync_start(struct mvb_table *t, float *param, size_t n, int64_t *ticket)
{
	return pass_start((struct request){__func__, t, n, NULL, pull_of(PASS_SYNC, param)},
			  ticket);
}

int mvb_table_add_rows(struct mvb_table *t, const int64_t *row, size_t rows, const float *values,
		       size_t n, const struct mvb_push *by)
{
	struct request q = {__func__, t, n, by, push_of(values, NULL)};
	q.pass.row = row;
	q.pass.rows = rows;
	return pass_now(q);
}

int mvb_table_get_rows(struct mvb_table *t, const int64_t *row, size_t rows, float *out, size_t n)
{
	struct request q = {__func__, t, n, NULL, pull_of(PASS_READ, out)};
	q.pass.row = row;
	q.pass.rows = rows;
	return pass_now(q);
}

int mvb_table_add_row(struct mvb_table *t, int64_t row, const float *values, size_t n,
		      const struct mvb_push *by)
{
	return mvb_table_add_rows(t, &row, 1, values, n, by);
}

int mvb_table_get_row(struct mvb_table *t, int64_t row, float *out, size_t n)
{
	return mvb_table_get_rows(t, &row, 1, out, n);
}

int mvb_table_version(struct mvb_table *t, int64_t *version)
{
	int code = ready_with(__func__, TABLE, t);
	if (code)
		return code;
	if (!version)
		return fail(MVB_ERR_ARGUMENT, "%s: NULL where the number should go", __func__);
	*version = table_version(t->core);
	return MVB_OK;
}

int mvb_table_staleness(struct mvb_table *t, int64_t *pushes)
{
	int code = ready_with(__func__, TABLE, t);
	if (code)
		return code;
	if (!pushes)
		return fail(MVB_ERR_ARGUMENT, "%s: NULL where the number should go", __func__);
	*pushes = t->staleness;
	return MVB_OK;
}

/* ---- Reductions ----------------------------------------------------------------------- */

static int check_op(const char *function, enum mvb_reduce op)
{
	if (op == MVB_SUM || op == MVB_MEAN)
		return MVB_OK;
	return fail(MVB_ERR_ARGUMENT, "%s: op %d is neither MVB_SUM nor MVB_MEAN", function,
		    (int)op);
}

static int check_floats(const char *function, const float *x, size_t n)
{
	if (x || n == 0)
		return MVB_OK;
	return fail(MVB_ERR_ARGUMENT, "%s: NULL where %zu floats should be", function, n);
}

static int check_reduction(const char *function, const float *x, size_t n, enum mvb_reduce op)
{
	int code = check_floats(function, x, n);
	return code ? code : check_op(function, op);
}

/* x is the sum over the workers, or their mean. */
static void reduce(float *x, size_t n, enum mvb_reduce op)
{
	if (lib.workers == 1 || n == 0)
		return;
	link_allreduce(lib.link, x, n);
	for (size_t i = 0; op == MVB_MEAN && i < n; i++)
		x[i] /= (float)lib.workers;
}

int mvb_allreduce(float *x, size_t n, enum mvb_reduce op)
{
	int code = ready(__func__);
	if (code)
		return code;
	struct call call = {.function = ALLREDUCE,
			    .code = check_reduction(__func__, x, n, op),
			    .arg = {(double)n, (double)op}};
	code = meet(&call);
	if (!code)
		reduce(x, n, op);
	return code;
}

static int check_started(const char *function, size_t n, const int64_t *ticket)
{
	int slots = 0;
	if (!ticket)
		return fail(MVB_ERR_ARGUMENT, "%s: NULL where the ticket should go", function);
	if (n > INT32_MAX)
		return fail(MVB_ERR_LIMIT, "%s: %zu floats; less than 2^31 can be started",
			    function, n);
	for (int i = 0; i < LINK_SLOTS; i++)
		slots += lib.slot[i];
	return slots == LINK_SLOTS ? too_many(function) : MVB_OK;
}

int mvb_allreduce_start(float *x, size_t n, enum mvb_reduce op, int64_t *ticket)
{
	int slot = 0, code = ready(__func__);
	if (code)
		return code;
	code = check_reduction(__func__, x, n, op);
	code = code ? code : check_started(__func__, n, ticket);
	struct flight *f = code ? NULL : flight_new();
	if (!code && !f)
		code = too_many(__func__);
	struct call call = {
		.function = ALLREDUCE_START, .code = code, .arg = {(double)n, (double)op}};
	code = meet(&call);
	if (code)
		return code;
	while (lib.slot[slot])
		slot++;
	lib.slot[slot] = true;
	f->state = REDUCTION;
	f->x = x;
	f->n = n;
	f->op = op;
	f->slot = slot;
	if (lib.workers > 1)
		link_allreduce_start(lib.async, slot, x, n);
	*ticket = ticket_of(f);
	return MVB_OK;
}

/* ---- Lists of tensors ------------------------------------------------------------------- */

static int check_list(const char *function, float *const *tensor, const size_t *n, size_t count)
{
	double total = 0;
	if (count && (!tensor || !n))
		return fail(MVB_ERR_ARGUMENT, "%s: NULL where the list of tensors should be",
			    function);
	for (size_t i = 0; i < count; i++) {
		if (n[i] && !tensor[i])
			return fail(MVB_ERR_ARGUMENT, "%s: tensor %zu of %zu floats is NULL",
				    function, i, n[i]);
		total += (double)n[i];
	}
	if (total > (double)(SIZE_MAX / sizeof(float) / 4))
		return fail(MVB_ERR_ARGUMENT, "%s: tensors of %g floats", function, total);
	return MVB_OK;
}

static size_t list_total(const size_t *n, size_t count)
{
	size_t total = 0;
	for (size_t i = 0; i < count; i++)
		total += n[i];
	return total;
}

/* Exact as a double. Lists of equal total and other lengths differ in it, or nearly surely so. */
static double list_print(const size_t *n, size_t count)
{
	uint64_t h = 1469598103934665603U;
	for (size_t i = 0; i < count; i++)
		h = (h ^ n[i]) * 1099511628211U;
	return (double)(h >> 12);
}

/* A call whose list has passed its check, or has not: then it counts as empty. */
static struct call list_call(enum function function, int code, const size_t *n, size_t count)
{
	struct call call = {.function = function, .code = code, .arg = {(double)count}};
	if (!code) {
		call.arg[1] = (double)list_total(n, count);
		call.arg[2] = list_print(n, count);
	}
	return call;
}

static void join(float *flat, float *const *tensor, const size_t *n, size_t count)
{
	for (size_t i = 0; i < count; flat += n[i++])
		if (n[i])
			memcpy(flat, tensor[i], n[i] * sizeof *flat);
}

static void part(const float *flat, float *const *tensor, const size_t *n, size_t count)
{
	for (size_t i = 0; i < count; flat += n[i++])
		if (n[i])
			memcpy(tensor[i], flat, n[i] * sizeof *flat);
}

static int no_memory(const char *function, size_t floats)
{
	return fail(MVB_ERR_MEMORY, "%s: no memory for %zu floats", function, floats);
}

int mvb_allreduce_list(float *const *tensor, const size_t *n, size_t count, enum mvb_reduce op)
{
	int code = ready(__func__);
	if (code)
		return code;
	code = check_list(__func__, tensor, n, count);
	code = code ? code : check_op(__func__, op);
	float *flat = NULL;
	size_t total = code ? 0 : list_total(n, count);
	if (!code && !(flat = malloc((total + 1) * sizeof *flat)))
		code = no_memory(__func__, total);
	struct call call = list_call(ALLREDUCE_LIST, code, n, count);
	call.arg[3] = (double)op;
	code = meet(&call);
	if (!code) {
		join(flat, tensor, n, count);
		reduce(flat, total, op);
		part(flat, tensor, n, count);
	}
	free(flat);
	return code;
}

int mvb_broadcast(float *x, size_t n, int root)
{
	int code = ready(__func__);
	if (code)
		return code;
	code = check_floats(__func__, x, n);
	if (!code && (root < 0 || root >= lib.workers))
		code = fail(MVB_ERR_ARGUMENT, "%s: root %d; workers are 0 to %d", __func__, root,
			    lib.workers - 1);
	struct call call = {.function = BROADCAST, .code = code, .arg = {(double)n, root}};
	code = meet(&call);
	if (!code && n)
		link_broadcast(lib.link, root, x, n * sizeof *x);
	return code;
}

/* ---- Gradients ------------------------------------------------------------------------- */

static const size_t bucket_bytes_default = 1 << 20;

/* Neighbours from the last tensor to the first, each bucket of at least so many floats; their
 * number stays below LINK_SLOTS. */
static void fill_buckets(struct mvb_grads *g, size_t bytes)
{
	size_t total = list_total(g->n, g->count), least = bytes / sizeof(float);
	if (least < total / (LINK_SLOTS / 2) + 1)
		least = total / (LINK_SLOTS / 2) + 1;
	for (size_t i = 0; i < g->count; i++) {
		struct bucket *b = &g->bucket[g->buckets];
		g->bucket_of[i] = g->buckets;
		b->first = b->count++ ? b->first : i;
		b->floats += g->n[i];
		g->buckets += b->floats >= least || i + 1 == g->count;
	}
}

static void grads_reset(struct mvb_grads *g)
{
	for (size_t i = 0; i < g->buckets; i++)
		g->bucket[i].missing = g->bucket[i].count;
	memset(g->ready, 0, g->count * sizeof *g->ready);
	g->started = 0;
	g->missing = g->count;
}

static void grads_free(struct mvb_grads *g)
{
	for (size_t i = 0; i < g->buckets; i++)
		free(g->bucket[i].joined);
	link_free(g->link);
	free(g->tensor);
	free(g->n);
	free(g->bucket_of);
	free(g->ready);
	free(g->bucket);
	free(g);
}

/* What needs no other worker; NULL when there is no memory. */
static struct mvb_grads *grads_make(float *const *tensor, const size_t *n, size_t count,
				    size_t bytes)
{
	struct mvb_grads *g = calloc(1, sizeof *g);
	if (!g)
		return NULL;
	g->count = count;
	g->tensor = calloc(count + 1, sizeof *g->tensor);
	g->n = calloc(count + 1, sizeof *g->n);
	g->bucket_of = calloc(count + 1, sizeof *g->bucket_of);
	g->ready = calloc(count + 1, sizeof *g->ready);
	g->bucket = calloc(count + 1, sizeof *g->bucket);
	bool whole_of_it = g->tensor && g->n && g->bucket_of && g->ready && g->bucket;
	for (size_t i = 0; whole_of_it && i < count; i++) {
		g->tensor[i] = tensor[count - 1 - i];
		g->n[i] = n[count - 1 - i];
	}
	if (whole_of_it)
		fill_buckets(g, bytes ? bytes : bucket_bytes_default);
	for (size_t i = 0; whole_of_it && i < g->buckets; i++) {
		struct bucket *b = &g->bucket[i];
		if (b->count > 1)
			whole_of_it = (b->joined = malloc((b->floats + 1) * sizeof(float)));
	}
	if (whole_of_it)
		return g;
	grads_free(g);
	return NULL;
}

static int check_buckets(const char *function, const struct mvb_grads *g)
{
	for (size_t i = 0; i < g->buckets; i++)
		if (g->bucket[i].floats > INT32_MAX)
			return fail(MVB_ERR_LIMIT,
				    "%s: %zu floats in one bucket; less than 2^31 can be started",
				    function, g->bucket[i].floats);
	return MVB_OK;
}

int mvb_grads_new(struct mvb_grads **out, float *const *tensor, const size_t *n, size_t count,
		  size_t bucket_bytes)
{
	struct mvb_grads *g = NULL;
	int rank, size, code = ready(__func__);
	if (out)
		*out = NULL;
	if (code)
		return code;
	code = check_list(__func__, tensor, n, count);
	if (!code && (!out || count == 0))
		code = fail(MVB_ERR_ARGUMENT, "%s: %s", __func__,
			    out ? "no tensors" : "NULL is no place for the set");
	if (!code && !(g = grads_make(tensor, n, count, bucket_bytes)))
		code = no_memory(__func__, list_total(n, count));
	if (g)
		code = check_buckets(__func__, g);
	struct call call = list_call(GRADS_NEW, code, n, count);
	call.arg[3] = (double)bucket_bytes;
	code = meet(&call);
	if (code) {
		if (g)
			grads_free(g);
		return code;
	}
	g->link = link_split(lib.link, 0, &rank, &size);
	grads_reset(g);
	*out = keep(&g->object, GRADS);
	return MVB_OK;
}

static void start_bucket(struct mvb_grads *g)
{
	struct bucket *b = &g->bucket[g->started];
	if (b->joined)
		join(b->joined, g->tensor + b->first, g->n + b->first, b->count);
	if (lib.workers > 1)
		link_allreduce_start(g->link, (int)g->started,
				     b->joined ? b->joined : g->tensor[b->first], b->floats);
	g->started++;
}

static void end_bucket(struct mvb_grads *g, size_t i)
{
	struct bucket *b = &g->bucket[i];
	float *x = b->joined ? b->joined : g->tensor[b->first];
	if (lib.workers > 1)
		link_allreduce_wait(g->link, (int)i);
	for (size_t k = 0; k < b->floats; k++)
		x[k] /= (float)lib.workers;
	if (b->joined)
		part(x, g->tensor + b->first, g->n + b->first, b->count);
}

/* All workers are in it: what some have started, the others start now. */
static void grads_drain(struct mvb_grads *g)
{
	while (g->started < g->buckets)
		start_bucket(g);
	for (size_t i = 0; i < g->buckets; i++)
		end_bucket(g, i);
	grads_reset(g);
}

int mvb_grads_ready(struct mvb_grads *g, size_t i)
{
	int code = ready_with(__func__, GRADS, g);
	if (code)
		return code;
	if (i >= g->count)
		return fail(MVB_ERR_ARGUMENT, "%s: tensor %zu; they are 0 to %zu", __func__, i,
			    g->count - 1);
	size_t place = g->count - 1 - i;
	if (g->ready[place])
		return fail(MVB_ERR_ARGUMENT, "%s: tensor %zu for the second time in this step",
			    __func__, i);
	g->ready[place] = true;
	g->missing--;
	g->bucket[g->bucket_of[place]].missing--;
	while (g->started < g->buckets && g->bucket[g->started].missing == 0)
		start_bucket(g);
	return MVB_OK;
}

int mvb_grads_wait(struct mvb_grads *g)
{
	size_t place = 0;
	int code = ready_with(__func__, GRADS, g);
	if (code)
		return code;
	while (place < g->count && g->ready[place])
		place++;
	if (g->missing)
		code = fail(MVB_ERR_ARGUMENT, "%s: tensor %zu and %zu more were not made ready",
			    __func__, g->count - 1 - place, g->missing - 1);
	struct call call = {.function = GRADS_WAIT, .code = code, .object = number_of(&g->object)};
	code = meet(&call);
	if (code != MVB_ERR_DIFFERS)
		grads_drain(g);
	return code;
}

static void grads_drop(struct mvb_grads *g)
{
	double started = (double)g->started;
	link_fold(lib.link, &started, 1, FOLD_MAX);
	if (started > 0)
		grads_drain(g);
	forget(&g->object);
	grads_free(g);
}

int mvb_grads_free(struct mvb_grads *g)
{
	if (!g)
		return MVB_OK;
	int code = ready_with(__func__, GRADS, g);
	if (code)
		return code;
	struct call call = {.function = GRADS_FREE, .object = number_of(&g->object)};
	code = meet(&call);
	if (!code)
		grads_drop(g);
	return code;
}

/* ---- Models ------------------------------------------------------------------------------ */

static void model_free(struct mvb_model *m)
{
	free(m->tensor);
	free(m->n);
	free(m->flat);
	free(m);
}

static struct mvb_model *model_make(float *const *tensor, const size_t *n, size_t count)
{
	struct mvb_model *m = calloc(1, sizeof *m);
	if (!m)
		return NULL;
	m->count = count;
	m->total = list_total(n, count);
	m->tensor = calloc(count + 1, sizeof *m->tensor);
	m->n = calloc(count + 1, sizeof *m->n);
	m->flat = calloc(m->total + 1, sizeof *m->flat);
	if (!m->tensor || !m->n || !m->flat) {
		model_free(m);
		return NULL;
	}
	memcpy(m->tensor, tensor, count * sizeof *tensor);
	memcpy(m->n, n, count * sizeof *n);
	join(m->flat, tensor, n, count);
	return m;
}

int mvb_model_new(struct mvb_model **out, float *const *tensor, const size_t *n, size_t count,
		  const struct mvb_options *options)
{
	struct mvb_model *m = NULL;
	int code = ready(__func__);
	if (out)
		*out = NULL;
	if (code)
		return code;
	code = check_list(__func__, tensor, n, count);
	if (!code && !out)
		code = fail(MVB_ERR_ARGUMENT, "%s: NULL is no place for the model", __func__);
	if (!code && options && options->updater && strcmp(options->updater, "add") != 0)
		code = fail(MVB_ERR_ARGUMENT,
			    "%s: updater '%s'; a model pushes what has changed, which needs add",
			    __func__, options->updater);
	if (!code && !(m = model_make(tensor, n, count)))
		code = no_memory(__func__, list_total(n, count));
	struct call call = list_call(MODEL_NEW, code, n, count);
	code = meet(&call);
	if (!code)
		code = table_make(&m->table, __func__, m->total, 1, m->flat, options);
	if (code) {
		if (m)
			model_free(m);
		return code;
	}
	part(m->flat, m->tensor, m->n, m->count);
	*out = keep(&m->object, MODEL);
	return MVB_OK;
}

int mvb_model_sync(struct mvb_model *m)
{
	int code = ready_with(__func__, MODEL, m);
	if (code)
		return code;
	join(m->flat, m->tensor, m->n, m->count);
	code = mvb_table_sync(m->table, m->flat, m->total);
	if (!code)
		part(m->flat, m->tensor, m->n, m->count);
	return code;
}

int mvb_model_pull(struct mvb_model *m)
{
	int code = ready_with(__func__, MODEL, m);
	if (code)
		return code;
	code = mvb_table_get(m->table, m->flat, m->total);
	if (!code)
		part(m->flat, m->tensor, m->n, m->count);
	return code;
}

int mvb_model_size(struct mvb_model *m, size_t *n)
{
	int code = ready_with(__func__, MODEL, m);
	if (code)
		return code;
	if (!n)
		return fail(MVB_ERR_ARGUMENT, "%s: NULL where the number should go", __func__);
	*n = m->total;
	return MVB_OK;
}

static int check_flat(const char *function, const struct mvb_model *m, const float *flat, size_t n)
{
	int code = ready_with(function, MODEL, m);
	if (code)
		return code;
	if (!flat || n != m->total)
		return fail(MVB_ERR_ARGUMENT, "%s: %zu floats at %s, for a model of %zu", function,
			    n, flat ? "flat" : "NULL", m->total);
	return MVB_OK;
}

int mvb_model_flatten(struct mvb_model *m, float *flat, size_t n)
{
	int code = check_flat(__func__, m, flat, n);
	if (!code)
		join(flat, m->tensor, m->n, m->count);
	return code;
}

int mvb_model_unflatten(struct mvb_model *m, const float *flat, size_t n)
{
	int code = check_flat(__func__, m, flat, n);
	if (!code)
		part(flat, m->tensor, m->n, m->count);
	return code;
}

static void model_drop(struct mvb_model *m)
{
	table_drop(m->table);
	forget(&m->object);
	model_free(m);
}

int mvb_model_free(struct mvb_model *m)
{
	if (!m)
		return MVB_OK;
	int code = ready_with(__func__, MODEL, m);
	if (code)
		return code;
	struct call call = {.function = MODEL_FREE,
			    .code = land_passes(m->table),
			    .object = number_of(&m->object)};
	code = meet(&call);
	if (code != MVB_ERR_DIFFERS)
		model_drop(m);
	return code;
}

/* ---- The end ----------------------------------------------------------------------------- */

/* Models come after their tables, which they drop: whoever is newest goes first. */
static void drop_all(void)
{
	while (lib.object) {
		struct object *o = lib.object;
		if (o->kind == MODEL)
			model_drop((struct mvb_model *)o);
		else if (o->kind == GRADS)
			grads_drop((struct mvb_grads *)o);
		else
			table_drop((struct mvb_table *)o);
	}
}

static int close_worker(void)
{
	struct call call = {.function = SHUTDOWN};
	int code = ready("mvb_shutdown");
	if (code)
		return code;
	code = land_passes(NULL);
	land_reductions();
	while (meet(&call)) /* somebody is elsewhere, and has been told */
		continue;
	drop_all();
	tables_close(lib.tables);
	for (int i = 0; i < FLIGHTS; i++)
		if (lib.flight[i].state == LANDED)
			free(lib.flight[i].why);
	close_links();
	lib.state = OVER;
	return code;
}

int mvb_shutdown(void)
{
	int code = MVB_OK;
	if (lib.state == WORKER)
		code = close_worker();
	else if (lib.state == OVER || (lib.state == UNBORN && !lib.failed))
		return ready("mvb_shutdown");
	if (lib.state == WORKER)
		return code;
	platform_stop();
	lib.state = OVER;
	return code;
}
