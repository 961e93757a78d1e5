/*
 * libmvbench.c - the public functions of libmvbench.h on the tables and links of the runtime: start
 * and end are here, tables and models in tables.c, reductions in reduce.c.
 *
 * Each collective function begins with one reduction of a few numbers. From it every worker learns
 * whether all are in the same function with the same arguments, and whether a worker's call was
 * refused. Only then does the function do anything that needs all workers. Mistakes therefore end
 * as errors on all workers, and no worker waits for ever. Cost: one reduction of 22 doubles for
 * each collective call. mvb_allreduce_start starts this reduction and returns. Its floats travel
 * when all workers agree; its mvb_wait returns the error. Reductions of calls match in the order of
 * the calls, waited for or not.
 *
 * A worker in a collective call pushes nothing meanwhile. The library tells this to tables in which
 * other workers may be waiting for its push, which turns that kind of waiting into an error, too.
 */
#include "runtime/lib/library.h"
#include "runtime/watch/watch.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct library lib;

/* ---- Errors ----------------------------------------------------------------------- */

enum { MESSAGE = 512 };
static _Thread_local char message[MESSAGE];

const char *mvb_version(void)
{
	return MVB_VERSION;
}

const char *mvb_message(void)
{
	return message;
}

const char *mvb_error_name(int code)
{
#define NAME(word) [MVB_##word] = "MVB_" #word
	static const char *const name[] = {NAME(OK),          NAME(ERR_STATE), NAME(ERR_ARGUMENT),
					   NAME(ERR_DIFFERS), NAME(ERR_PEER),  NAME(ERR_INCOMPLETE),
					   NAME(ERR_TICKET),  NAME(ERR_LIMIT), NAME(ERR_MEMORY),
					   NAME(ERR_START)};
	size_t known = sizeof name / sizeof *name;
	return code >= 0 && (size_t)code < known ? name[code] : "MVB_ERR unknown";
}

int lib_fail(int code, const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	vsnprintf(message, sizeof message, fmt, args);
	va_end(args);
	return code;
}

int lib_fail_with(int code, char *wrong)
{
	if (!wrong)
		return MVB_OK;
	lib_fail(code, "%s", wrong);
	free(wrong);
	return code;
}

int lib_ready(const char *function)
{
	const char *wrong = NULL;
	if (lib.state == UNBORN)
		wrong = "before mvb_init: call that first";
	else if (lib.state == OVER)
		wrong = "after mvb_shutdown";
	else if (lib.state == SERVER)
		wrong = "on a server after the workers have shut down: only mvb_shutdown is "
			"allowed";
	else if (lib.process != getpid())
		wrong = "in a forked child: only the process that called mvb_init may call it";
	else if (!pthread_equal(lib.thread, pthread_self()))
		wrong = "on another thread than mvb_init";
	else if (platform_gone())
		wrong = "after MPI_Finalize: mvb_shutdown has to come before it";
	if (!wrong)
		link_progress_sums(); /* what is started moves only in calls */
	return wrong ? lib_fail(MVB_ERR_STATE, "%s %s", function, wrong) : MVB_OK;
}

int lib_ready_with(const char *function, enum kind kind, const void *p)
{
	static const char *const word[] = {
		[TABLE] = "table", [GRADS] = "set of gradients", [MODEL] = "model"};
	TRY(lib_ready(function));
	for (const struct object *o = lib.object; o; o = o->next)
		if (o == p && o->kind == kind)
			return MVB_OK;
	return lib_fail(MVB_ERR_ARGUMENT, "%s: %s %s", function,
			p ? "the pointer is to no live" : "NULL is no", word[kind]);
}

int lib_check_later(const char *function, const int64_t later[4])
{
	if (!(later[0] | later[1] | later[2] | later[3]))
		return MVB_OK;
	return lib_fail(MVB_ERR_ARGUMENT,
			"%s: a field is set that version " MVB_VERSION
			" does not know: make unused fields zero, or use a later library",
			function);
}

void *lib_keep(struct object *o, struct object what)
{
	*o = what;
	o->next = lib.object;
	return lib.object = o;
}

double lib_number(const struct object *object)
{
	double number = 0;
	for (const struct object *o = object; o; o = o->next)
		number++;
	return number;
}

void lib_drop(struct object *o)
{
	struct object **at = &lib.object;
	while (*at != o)
		at = &(*at)->next;
	*at = o->next;
	o->drop(o);
}

int lib_no_memory(const char *function, size_t floats)
{
	return lib_fail(MVB_ERR_MEMORY, "%s: no memory for %zu floats", function, floats);
}

/* ---- Collective functions --------------------------------------------------------- */

static const struct {
	const char *name, *arg[ARGS];
} functions[] = {
#define FUNCTION_WORDS(id, words, ...) {words, {__VA_ARGS__}},
	FUNCTIONS(FUNCTION_WORDS)};

struct report {
	struct call call;
	char message[MESSAGE];
};

/* The first rank that has another argument than rank 0; ARGS: that is in another function, or uses
 * another object. 0 = none. */
static int first_other(const struct report *r, int n, int arg)
{
	const struct call *a = &r[0].call;
	for (int k = 1; k < n; k++) {
		const struct call *b = &r[k].call;
		if (arg < ARGS ? b->arg[arg] != a->arg[arg]
			       : b->function != a->function || b->object != a->object)
			return k;
	}
	return 0;
}

static void name_call(const struct call *c, char text[96])
{
	if (c->object)
		snprintf(text, 96, "%s of number %.15g", functions[c->function].name, c->object);
	else
		snprintf(text, 96, "%s", functions[c->function].name);
}

/* Finds the first rank that is in another function, that was refused, or that has other arguments,
 * in that order. All workers must get the same verdict, because what they do next depends on it. */
static void find_verdict(struct report *out, const struct report *r, int n)
{
	const char *who = r[0].call.function == INIT ? "process" : "worker";
	char here[96], there[96];
	int k = first_other(r, n, ARGS);
	out->call.code = MVB_ERR_DIFFERS;
	if (k) {
		name_call(&r[0].call, here);
		name_call(&r[k].call, there);
		snprintf(out->message, MESSAGE, "worker 0 called %s, worker %d called %s", here, k,
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

/* A call is wrong: rank 0 compares all calls and reports the mistake to all workers. */
static int explain(struct link *link, const struct call *mine)
{
	struct report out = {.call = *mine};
	struct report *all AUTOFREE = must(calloc((size_t)link_size(link), sizeof *all));
	snprintf(out.message, MESSAGE, "%s", mine->code ? message : "");
	link_gather(link, 0, &out, all, sizeof out);
	if (link_rank(link) == 0)
		find_verdict(&out, all, link_size(link));
	link_broadcast(link, 0, &out, sizeof out);
	if (out.call.code == MVB_ERR_PEER && mine->code)
		return mine->code;
	return lib_fail(out.call.code, "%s", out.message);
}

enum { FUNCTION, CODE, OBJECT, FIRST_ARG }; /* the facts */

void lib_facts(const struct call *mine, double fact[FACTS])
{
	double own[FACTS / 2] = {
		[FUNCTION] = mine->function, [CODE] = mine->code, [OBJECT] = mine->object};
	memcpy(own + FIRST_ARG, mine->arg, sizeof mine->arg);
	for (int i = 0; i < FACTS / 2; i++) {
		fact[2 * i] = own[i];
		fact[2 * i + 1] = -own[i];
	}
}

/* The error of a call, from the maxima alone: a worker that has only started its call may compute
 * now, and cannot explain it. code: of this worker. */
static int verdict_of_start(const double most[FACTS], int code)
{
	const int least = (int)-most[2 * FUNCTION + 1], refused = (int)most[2 * CODE];
	const char *name = functions[ALLREDUCE_START].name;
	if (least != ALLREDUCE_START)
		return lib_fail(MVB_ERR_DIFFERS, "one worker called %s, another called %s",
				functions[least].name, name);
	if (refused)
		return code ? code
			    : lib_fail(MVB_ERR_PEER, "%s was refused on another worker: %s", name,
				       mvb_error_name(refused));
	for (int i = 0; i < ARGS; i++) {
		const double *arg = most + 2 * (FIRST_ARG + i);
		if (arg[0] != -arg[1])
			return lib_fail(MVB_ERR_DIFFERS,
					"%s: %s is %.15g on one worker, but %.15g on another", name,
					functions[ALLREDUCE_START].arg[i], arg[0], -arg[1]);
	}
	return MVB_OK;
}

static int collective_on(struct link *link, const struct call *mine)
{
	double most[FACTS];
	lib_facts(mine, most);
	link_reduce_all(link, most, FACTS, REDUCE_MAX);
	if (all_equal(most, FACTS))
		return mine->code;
	if ((int)most[2 * FUNCTION] == ALLREDUCE_START)
		return verdict_of_start(most, mine->code);
	return explain(link, mine);
}

int lib_collective(struct call mine)
{
	bool all = mine.function == BARRIER;
	/* a worker that waits for the others in a collective call pushes nothing meanwhile */
	tables_leave(lib.tables, AWAY, all);
	int code = collective_on(lib.link, &mine);
	tables_leave(lib.tables, BACK, all);
	return code;
}

int lib_free(enum function function, enum kind kind, struct object *o)
{
	if (!o)
		return MVB_OK;
	TRY(lib_ready_with(functions[function].name, kind, o));
	int code = o->table ? lib_finish(TABLE_OP, o->table) : MVB_OK;
	code = lib_collective(
		(struct call){.function = function, .code = code, .object = lib_number(o)});
	if (code != MVB_ERR_DIFFERS)
		lib_drop(o);
	return code;
}

/* ---- Started operations ----------------------------------------------------------- */

int lib_op_code(const struct mvb_table *t)
{
	return t->core->rules.rounds ? MVB_ERR_INCOMPLETE : MVB_ERR_ARGUMENT;
}

void lib_note_push(struct mvb_table *t, const struct table_op *p)
{
	if (op_pushes(p))
		t->staleness = p->dropped ? -1 : p->staleness;
}

void lib_mean(float *x, size_t n, enum mvb_reduce op)
{
	for (size_t i = 0; op == MVB_MEAN && i < n; i++)
		x[i] /= (float)lib.workers;
}

static void finish_op(struct pending_op *f)
{
	if (f->state == TABLE_OP) {
		f->why = table_wait(f->table->core, &f->operation);
		f->code = f->why ? lib_op_code(f->table) : MVB_OK;
		lib_note_push(f->table, &f->operation);
	} else if (f->state == REDUCTION) {
		if (lib.workers > 1)
			link_allreduce_wait(lib.async, f->slot);
		lib.slot[f->slot] = false;
		f->code = verdict_of_start(f->fact, MVB_OK);
		f->why = f->code ? sentence("%s", message) : NULL;
		if (!f->code)
			lib_mean(f->x, f->n, f->op);
	}
	f->state = DONE;
}

int lib_finish(enum pending_state state, const struct mvb_table *t)
{
	int code = MVB_OK;
	for (struct pending_op *f = lib.pending_op; f < lib.pending_op + PENDING_OPS; f++) {
		if (f->state != state || (t && f->table != t))
			continue;
		finish_op(f);
		if (f->code && !code)
			code = lib_fail(f->code, "%s", f->why);
	}
	return code;
}

int64_t lib_ticket(const struct pending_op *f)
{
	return f->generation * PENDING_OPS + (f - lib.pending_op);
}

struct pending_op *lib_pending_new(void)
{
	for (int i = 0; i < PENDING_OPS; i++)
		if (lib.pending_op[i].state == FREE) {
			int64_t generation = lib.pending_op[i].generation + 1;
			lib.pending_op[i] = (struct pending_op){.generation = generation};
			return &lib.pending_op[i];
		}
	return NULL;
}

int lib_too_many(const char *function)
{
	return lib_fail(MVB_ERR_LIMIT, "%s: too many tickets are out; mvb_wait for one first",
			function);
}

int mvb_wait(int64_t ticket)
{
	TRY(lib_ready("mvb_wait"));
	struct pending_op *f = &lib.pending_op[ticket > 0 ? ticket % PENDING_OPS : 0];
	if (ticket < PENDING_OPS || ticket / PENDING_OPS > f->generation)
		return lib_fail(MVB_ERR_TICKET, "mvb_wait: ticket %lld was never given out",
				(long long)ticket);
	if (ticket != lib_ticket(f) || f->state == FREE)
		return lib_fail(MVB_ERR_TICKET, "mvb_wait: ticket %lld was waited for already",
				(long long)ticket);
	finish_op(f);
	f->state = FREE;
	return lib_fail_with(f->code, f->why);
}

/* ---- Start and end ---------------------------------------------------------------- */

/* NULL: a placement that this library does not have, or auto. */
static const struct placement *placement_of(const struct mvb_setup *s)
{
	const struct placement *h = s->tables ? placement_find(s->tables) : NULL;
	return h && !h->floats_on_device ? h : NULL;
}

/* Is this start allowed? */
static int check_start(const struct mvb_setup *s)
{
	if (lib.state == OVER && lib.launched)
		return lib_fail(MVB_ERR_STATE, "mvb_init after mvb_shutdown: MPI starts only once");
	if (lib.state == WORKER || lib.state == SERVER)
		return lib_fail(MVB_ERR_STATE,
				lib.process == getpid()
					? "mvb_init a second time"
					: "mvb_init in a forked child of a process that called it");
	TRY(lib_check_later("mvb_init", s->later));
	if (!s->file && (s->rank || s->size))
		return lib_fail(
			MVB_ERR_ARGUMENT,
			"mvb_init: the launcher sets rank and size; give them only with a file "
			"through which the processes find each other");
	if (s->file && (s->size < 1 || s->rank < 0 || s->rank >= s->size))
		return lib_fail(MVB_ERR_ARGUMENT,
				"mvb_init: rank %d of %d processes; ranks go from 0 to size - 1",
				s->rank, s->size);
	if (s->file && (!*s->file || !(s->timeout_s >= 0)))
		return lib_fail(MVB_ERR_ARGUMENT,
				"mvb_init: file '%s', timeout_s %g: give a path, and 0 or more",
				s->file, s->timeout_s);
	return MVB_OK;
}

/* torchrun's processes of one machine find each other through a file. *path: its memory. */
static int read_torchrun(struct mvb_setup *s, char **path)
{
	const char *rank = getenv("RANK"), *size = getenv("WORLD_SIZE"), *folder = getenv("TMPDIR"),
		   *here = getenv("LOCAL_WORLD_SIZE"), *port = getenv("MASTER_PORT"),
		   *job = getenv("TORCHELASTIC_RUN_ID"),
		   *restart = getenv("TORCHELASTIC_RESTART_COUNT");
	if (s->file || platform_under_launcher() || !rank || !size || atoi(size) < 2)
		return MVB_OK;
	if (!job || !here || !port || strcmp(here, size) != 0)
		return lib_fail(
			MVB_ERR_START,
			"mvb_init: RANK=%s and WORLD_SIZE=%s are set, but this is no torchrun "
			"on one machine: start the processes with mpirun, or unset these "
			"variables",
			rank, size);
	*path = sentence("%s/mvbench-%ld-%s-%s-%s", folder && *folder ? folder : "/tmp",
			 (long)getuid(), job, port, restart ? restart : "0");
	for (char *c = *path + strlen(folder && *folder ? folder : "/tmp") + 1; *c; c++)
		if (*c == '/')
			*c = '-';
	s->file = *path;
	s->rank = atoi(rank);
	s->size = atoi(size);
	return MVB_OK;
}

static int start_library(const struct mvb_setup *s)
{
	bool launched = platform_under_launcher();
	double patience = s->timeout_s > 0 ? s->timeout_s : 60;
	if (s->file && s->size > 1 && !launched) {
		char *wrong AUTOFREE = rendezvous(s->file, s->rank, s->size, patience);
		if (wrong)
			return lib_fail(MVB_ERR_START, "mvb_init: %s", wrong);
	}
	lib.launched = launched || (s->file && s->size > 1);
	platform_open(lib.launched, &lib.rank, &lib.size);
	lib.failed = true; /* until the start is complete */
	return MVB_OK;
}

/* Are these numbers of workers and servers and this placement possible? */
static int check_roles(const struct mvb_setup *s)
{
	const struct placement *placement = placement_of(s);
	if (s->file && (lib.rank != s->rank || lib.size != s->size))
		return lib_fail(MVB_ERR_ARGUMENT,
				"mvb_init: rank %d of %d, but the launcher made it rank %d of %d",
				s->rank, s->size, lib.rank, lib.size);
	if (!placement && s->tables && strcmp(s->tables, "auto") != 0)
		return lib_fail(MVB_ERR_ARGUMENT,
				"mvb_init: tables cannot live on '%s': auto, shared, onesided or "
				"servers",
				s->tables);
	if (s->servers < 0)
		return lib_fail(MVB_ERR_ARGUMENT, "mvb_init: %d servers: give 0 or more",
				s->servers);
	if (s->servers >= lib.size)
		return lib_fail(MVB_ERR_ARGUMENT,
				"mvb_init: %d servers among %d processes leave no worker: start at "
				"least %d",
				s->servers, lib.size, s->servers + 1);
	if (placement && placement->on_servers && s->servers == 0)
		return lib_fail(
			MVB_ERR_ARGUMENT,
			"mvb_init: tables on servers, but there are none: set servers to 1 or "
			"more");
	if (placement && !placement->on_servers && s->servers > 0)
		return lib_fail(
			MVB_ERR_ARGUMENT,
			"mvb_init: tables %s, but there are %d servers: leave one of them out",
			placement->name, s->servers);
	return MVB_OK;
}

static int open_worker(const struct mvb_setup *s)
{
	TRY(lib_fail_with(MVB_ERR_ARGUMENT,
			  tables_open(&lib.tables, lib.everyone, lib.link, lib.rank, lib.workers,
				      lib.servers, s->tables ? s->tables : "auto", NULL, NULL)));
	lib.async = link_split(lib.link, 0);
	snprintf(lib.backend, sizeof lib.backend, "%s, tables: %s",
		 lib.size > 1 || platform_under_launcher() ? platform_version() : "one process",
		 lib.tables->placement->name);
	lib.state = WORKER;
	return MVB_OK;
}

static void close_links(void)
{
	lookout_close(lib.lookout);
	lib.lookout = NULL;
	link_free(lib.async);
	link_free(lib.link);
	link_free(lib.everyone);
	lib.async = lib.link = lib.everyone = NULL;
}

#define STALL_TIMEOUT "MVBENCH_STALL_TIMEOUT"

int mvb_init(const struct mvb_setup *setup)
{
	struct mvb_setup s = setup ? *setup : (struct mvb_setup){0};
	const char *stall = getenv(STALL_TIMEOUT);
	char *path AUTOFREE = NULL;
	int code;
	TRY(check_start(&s));
	TRY(read_torchrun(&s, &path));
	/* 0: a process that makes no progress is only reported */
	lookout_limits(stall ? fmax(atof(stall), 0) : 0, STALL_TIMEOUT);
	TRY(start_library(&s));
	const struct placement *placement = placement_of(&s);
	struct call call = {.function = INIT,
			    .code = check_roles(&s),
			    .arg = {s.servers, placement ? placement->preference : -1}};
	lib.everyone = link_world(lib.size);
	if ((code = collective_on(lib.everyone, &call))) {
		close_links();
		return code;
	}
	pulse_phase(PHASE_WORKS);
	lib.lookout = link_lookout(lib.everyone, lib.size - s.servers, true);
	lib.servers = s.servers;
	lib.workers = lib.size - s.servers;
	lib.link = link_world(lib.workers);
	lib.home = lib.thread = pthread_self();
	lib.process = getpid();
	if (lib.rank < lib.workers) {
		code = open_worker(&s);
	} else {
		tables_serve(lib.everyone, lib.rank, lib.workers, NULL, NULL, NULL);
		lib.state = SERVER;
	}
	if (lib.state != WORKER)
		close_links();
	return code;
}

int mvb_thread(bool here)
{
	const pthread_t before = lib.thread;
	if (lib.state == WORKER)
		lib.thread = here ? pthread_self() : lib.home;
	int code = here ? lib_ready("mvb_thread") : MVB_OK;
	if (code)
		lib.thread = before;
	return code;
}

/* The number between start and end, otherwise -1. */
static int known(int number)
{
	return lib.state == WORKER || lib.state == SERVER ? number : -1;
}

int mvb_num_workers(void)
{
	return known(lib.workers);
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
	return known(lib.servers);
}

bool mvb_is_server(void)
{
	return lib.state == SERVER;
}

int mvb_rank(void)
{
	return known(lib.rank);
}

int mvb_size(void)
{
	return known(lib.size);
}

const char *mvb_backend(void)
{
	return lib.state == WORKER   ? lib.backend
	       : lib.state == SERVER ? "a server of the others' tables"
				     : "not started";
}

int mvb_barrier(void)
{
	TRY(lib_ready("mvb_barrier"));
	int code = lib_finish(TABLE_OP, NULL);
	return lib_collective((struct call){.function = BARRIER, .code = code});
}

/* ---- The end ----------------------------------------------------------------------------- */

static int close_worker(void)
{
	TRY(lib_ready("mvb_shutdown"));
	int code = lib_finish(TABLE_OP, NULL);
	lib_finish(REDUCTION, NULL);
	tables_leave(lib.tables, GONE, false);
	/* until no worker is in another function, where it gets the error */
	while (lib_collective((struct call){.function = SHUTDOWN}))
		continue;
	while (lib.object) /* the newest first: a model frees its table */
		lib_drop(lib.object);
	tables_close(lib.tables);
	for (int i = 0; i < PENDING_OPS; i++) {
		if (lib.pending_op[i].state == DONE)
			free(lib.pending_op[i].why);
		lib.pending_op[i].state = FREE;
	}
	lib.tables = NULL;
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
		return lib_ready("mvb_shutdown");
	else if (lib.process && lib.process != getpid())
		return lib_fail(MVB_ERR_STATE, "mvb_shutdown in a forked child");
	if (lib.state == WORKER)
		return code;
	platform_stop();
	lib.state = OVER;
	return code;
}
