/*
 * explore.c - the explorer of explore.h.
 *
 * A state is the contents of one arena: the workers' shared memory, and each worker's own memory
 * and stack. Below a stack's end all bytes are zeroed; otherwise leftovers of returned calls would
 * make additional states. A mirror is a copy of the arena after the last step. Comparing both gives
 * the changes of a step; they update the hash, and a journal undoes them.
 */
#include "tests/model/explore.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

enum {
	SHARED_BYTES = 8 << 10,
	OWN_BYTES = 64 << 10,
	STACK_BYTES = 24 << 10,
	ACCESSES = 32, /* most in one step that others can see */
	MARGIN = 512,
	DEEPEST = 4000
};

#define ON_THE_WAY UINT64_C(1)

struct access {
	const char *at;
	uint16_t bytes;
	bool writes, atomic;
};

struct own {
	jmp_buf context;
	enum need need;
	const char *what;
	struct owner *at;
	const int64_t *woken;
	int64_t barriers; /* barriers that it has reached */
	size_t used;
	char *end; /* of its stack, except a MARGIN below */
	bool in_plain;
	_Alignas(64) char heap[OWN_BYTES];
	_Alignas(64) char stack[STACK_BYTES];
};

static struct {
	struct shared {
		size_t used;
		int64_t barriers[WORKERS];
		int64_t dead[WORKERS]; /* 1: has failed */
		_Alignas(64) char memory[SHARED_BYTES];
	} shared;
	_Alignas(64) struct own own[WORKERS];
} arena, mirror;

struct change {
	uint64_t *at;
	uint64_t before;
};

static struct {
	const struct exploration *e;
	struct explored found;
	jmp_buf explorer;
	ucontext_t start[WORKERS];
	int running; /* -1: the explorer */
	bool exploring;
	int last, preempted; /* the worker of the last step; preemptions so far */
	uint64_t hash;
	struct change *journal;
	size_t changes, room;
	uint64_t *seen; /* [seats] hashes, 0 = free; ON_THE_WAY: on the current path */
	size_t seats;
	struct step {
		int who;
		const char *what;
		const void *at;
	} step[DEEPEST];
	size_t depth;
	struct access access[ACCESSES];
	int accesses;
} x = {.running = -1, .last = -1};

int me(void)
{
	return x.running;
}

/* ---- Errors ---- */

static void show_steps(void)
{
	size_t first = x.depth > 80 ? x.depth - 80 : 0;
	if (first)
		printf("  ... %zu steps\n", first);
	for (size_t i = first; i < x.depth; i++) {
		const struct step *s = &x.step[i];
		const char *at = s->at, *memory = arena.shared.memory;
		printf("  worker %d: %s", s->who, s->what);
		if (at >= memory && at < memory + SHARED_BYTES)
			printf(" %zu", (size_t)(at - memory));
		printf("\n");
	}
}

void wrong(const char *fmt, ...)
{
	va_list args;
	show_steps();
	printf("wrong: ");
	va_start(args, fmt);
	vprintf(fmt, args);
	va_end(args);
	printf("\n");
	fflush(stdout);
	_Exit(1);
}

/* ---- Memory ---- */

static void *take(char *memory, size_t *used, size_t room, size_t bytes)
{
	void *p = memory + *used;
	*used += (bytes + 63) & ~(size_t)63;
	if (*used > room)
		wrong("the explorer's memory is too small: %zu bytes", *used);
	return p;
}

void *shared_alloc(size_t bytes)
{
	return take(arena.shared.memory, &arena.shared.used, SHARED_BYTES, bytes);
}

void *own_alloc(size_t bytes)
{
	struct own *o = &arena.own[me()];
	return take(o->heap, &o->used, OWN_BYTES, bytes);
}

static uint64_t mixed(uint64_t place, uint64_t value)
{
	uint64_t h = (value + place * UINT64_C(0x9e3779b97f4a7c15)) * UINT64_C(0xff51afd7ed558ccd);
	h = (h ^ h >> 32) * UINT64_C(0xc4ceb9fe1a85ec53);
	return h ^ h >> 29;
}

static void change(uint64_t *at, uint64_t value)
{
	size_t place = (size_t)(at - (uint64_t *)(void *)&arena);
	uint64_t *known = (uint64_t *)(void *)&mirror + place;
	x.hash += mixed(place, value) - mixed(place, *known);
	*known = *at = value;
}

/* Records what has changed in these bytes of the arena. */
static void settle(void *from, size_t bytes)
{
	enum { PIECE = 256 };
	char *a = from, *m = (char *)&mirror + (a - (char *)&arena);
	for (size_t i = 0; i < bytes; i += PIECE) {
		size_t n = bytes - i < PIECE ? bytes - i : PIECE;
		if (memcmp(a + i, m + i, n) == 0)
			continue;
		for (size_t k = i; k < i + n; k += sizeof(uint64_t)) {
			uint64_t *now = (uint64_t *)(void *)(a + k);
			uint64_t before = *(uint64_t *)(void *)(m + k);
			if (*now == before)
				continue;
			if (x.changes == x.room) {
				x.room = 2 * x.room + 1024;
				x.journal = realloc(x.journal, x.room * sizeof *x.journal);
			}
			x.journal[x.changes++] = (struct change){now, before};
			change(now, *now);
		}
	}
}

static void undo(size_t to)
{
	while (x.changes > to) {
		x.changes--;
		change(x.journal[x.changes].at, x.journal[x.changes].before);
	}
}

/* ---- Workers ---- */

static bool can_go_on(int k)
{
	const struct own *o = &arena.own[k];
	if (arena.shared.dead[k] || o->need == ENDED)
		return false;
	if (o->need == LOCK || o->need == WAKEUP)
		return o->at->who == 0 && (o->need == LOCK || *o->woken);
	for (int i = 0; o->need == BARRIER && i < WORKERS; i++)
		if (arena.shared.barriers[i] < o->barriers)
			return false;
	return o->need != BEGIN || x.exploring;
}

/* Returns when control is handed over to `from`. Not swapcontext: that makes a system call. */
static void hand_over(jmp_buf *from, jmp_buf *to)
{
	if (_setjmp(*from) == 0)
		_longjmp(*to, 1);
}

void stop_before(enum need need, const char *what, void *at, const int64_t *woken)
{
	struct own *o = &arena.own[me()];
	if (need != PLAIN)
		o->in_plain = false;
	o->need = need;
	o->what = what;
	o->at = at;
	o->woken = woken;
	o->end = __builtin_frame_address(0);
	if (x.exploring || !can_go_on(me()))
		hand_over(&o->context, &x.explorer);
}

void release(struct owner *o)
{
	o->who = 0;
	arena.own[me()].in_plain = false;
}

bool is_fine(void)
{
	return x.e->fine;
}

void begin_here(void)
{
	stop_before(BEGIN, "begin", NULL, NULL);
}

void pass_barrier(const char *what)
{
	if (x.exploring)
		stop_before(FREE, what, NULL, NULL);
	arena.own[me()].barriers = ++arena.shared.barriers[me()];
	stop_before(BARRIER, "leaves the barrier", NULL, NULL);
}

static void run(int k)
{
	struct own *o = &arena.own[k];
	x.running = k;
	x.accesses = 0;
	if (o->need != NOT_STARTED)
		hand_over(&x.explorer, &o->context);
	else if (_setjmp(x.explorer) == 0)
		setcontext(&x.start[k]);
	x.running = -1;
	if (o->need == ENDED) { /* leftovers must not make states */
		memset(&o->context, 0, sizeof o->context);
		o->end = o->stack + STACK_BYTES + MARGIN;
	}
	if (o->end < o->stack + MARGIN)
		wrong("the explorer's stack is too small");
	memset(o->stack, 0, (size_t)(o->end - MARGIN - o->stack));
	settle(&arena.shared, offsetof(struct shared, memory) + arena.shared.used);
	settle(o, offsetof(struct own, heap) + o->used);
	settle(o->stack, STACK_BYTES);
}

static void start_worker(void)
{
	x.e->worker();
	stop_before(ENDED, "end", NULL, NULL);
}

/* ---- Accesses: what the compiler calls ---- */

static void touch(const void *p, size_t bytes, bool writes, bool atomic)
{
	const char *at = p, *all = (const char *)&arena, *memory = arena.shared.memory;
	if (x.running < 0 || at < all || at >= all + sizeof arena)
		return;
	struct own *o = &arena.own[x.running];
	if (at >= (char *)o && at < (char *)(o + 1))
		return;
	if (at < memory || at >= memory + SHARED_BYTES)
		wrong("worker %d accesses the own memory of another process", x.running);
	if (!x.exploring)
		return;
	if (!x.e->fine && !atomic)
		return;
	if (atomic) {
		stop_before(FREE, "atomic operation at", (void *)(uintptr_t)p, NULL);
	} else if (!o->in_plain) {
		o->in_plain = true;
		stop_before(PLAIN, writes ? "writes from" : "reads from", (void *)(uintptr_t)p,
			    NULL);
	}
	if (!x.e->fine)
		return;
	for (int i = 0; i < x.accesses; i++) {
		struct access *a = &x.access[i];
		if (a->at == at && a->bytes == bytes && a->atomic == atomic) {
			a->writes |= writes;
			return;
		}
	}
	if (x.accesses == ACCESSES)
		wrong("a step with more than %d accesses", ACCESSES);
	x.access[x.accesses++] = (struct access){at, (uint16_t)bytes, writes, atomic};
}

void model_touch(const void *p, size_t bytes, bool writes);
void model_touch(const void *p, size_t bytes, bool writes)
{
	if (bytes)
		touch(p, bytes, writes, false);
}

#define HOOK(name, ...) \
	void __tsan_##name(__VA_ARGS__); \
	void __tsan_##name(__VA_ARGS__)
#define PLAIN_HOOKS(n) \
	HOOK(read##n, const void *p) \
	{ \
		touch(p, n, false, false); \
	} \
	HOOK(write##n, const void *p) \
	{ \
		touch(p, n, true, false); \
	} \
	HOOK(unaligned_read##n, const void *p) \
	{ \
		touch(p, n, false, false); \
	} \
	HOOK(unaligned_write##n, const void *p) \
	{ \
		touch(p, n, true, false); \
	} \
	HOOK(volatile_read##n, const void *p) \
	{ \
		touch(p, n, false, false); \
	} \
	HOOK(volatile_write##n, const void *p) \
	{ \
		touch(p, n, true, false); \
	}
PLAIN_HOOKS(1)
PLAIN_HOOKS(2)
PLAIN_HOOKS(4)
PLAIN_HOOKS(8)
PLAIN_HOOKS(16)
HOOK(read_range, const void *p, size_t n)
{
	touch(p, n, false, false);
}
HOOK(write_range, const void *p, size_t n)
{
	touch(p, n, true, false);
}
HOOK(func_entry, void *from)
{
	(void)from;
}
HOOK(func_exit, void)
{
}
HOOK(init, void)
{
}
#define ATOMIC_HOOKS(bits, type) \
	type __tsan_atomic##bits##_load(const type *p, int order); \
	type __tsan_atomic##bits##_load(const type *p, int order) \
	{ \
		(void)order; \
		touch(p, sizeof *p, false, true); \
		return *p; \
	} \
	HOOK(atomic##bits##_store, type *p, type v, int order) \
	{ \
		(void)order; \
		touch(p, sizeof *p, true, true); \
		*p = v; \
	} \
	type __tsan_atomic##bits##_fetch_add(type *p, type v, int order); \
	type __tsan_atomic##bits##_fetch_add(type *p, type v, int order) \
	{ \
		(void)order; \
		touch(p, sizeof *p, true, true); \
		type before = *p; \
		*p += v; \
		return before; \
	}
ATOMIC_HOOKS(32, int32_t)
ATOMIC_HOOKS(64, int64_t)

/* ---- The search ---- */

static uint64_t *seat_of(uint64_t h)
{
	size_t at = (h >> 20) % x.seats;
	while (x.seen[at] && (x.seen[at] & ~ON_THE_WAY) != h)
		at = (at + 1) % x.seats;
	return &x.seen[at];
}

static void make_room(void)
{
	uint64_t *before = x.seen;
	size_t seats = x.seats;
	x.seats = 4 * seats + 4096;
	x.seen = calloc(x.seats, sizeof *x.seen);
	if (!x.seen)
		wrong("no memory for %zu states", x.seats);
	for (size_t i = 0; i < seats; i++)
		if (before[i])
			*seat_of(before[i] & ~ON_THE_WAY) = before[i];
	free(before);
}

/* Is the state of this hash new? If so, it is now on the current path. */
static bool is_new(uint64_t h)
{
	if (2 * x.found.states >= x.seats)
		make_room();
	uint64_t *seat = seat_of(h);
	if (*seat & ON_THE_WAY)
		wrong("a state comes back: workers loop without progress");
	if (*seat)
		return false;
	*seat = h | ON_THE_WAY;
	x.found.states++;
	return true;
}

static void check_race(const struct access *a, int na, const struct access *b, int nb)
{
	for (int i = 0; i < na; i++)
		for (int k = 0; k < nb; k++)
			if (a[i].at < b[k].at + b[k].bytes && b[k].at < a[i].at + a[i].bytes &&
			    (a[i].writes || b[k].writes) && !(a[i].atomic && b[k].atomic))
				wrong("a race: two workers access byte %zu of shared memory next, "
				      "and "
				      "one will write",
				      (size_t)(a[i].at - arena.shared.memory));
}

static void check_end(void)
{
	bool over = true, died = false;
	for (int k = 0; k < WORKERS; k++) {
		over &= arena.own[k].need == ENDED;
		died |= arena.shared.dead[k];
	}
	x.found.ends += over;
	x.found.dead_ends += died && !over;
	if (over || died)
		return;
	for (int k = 0; k < WORKERS; k++)
		printf("  now worker %d: %s\n", k, arena.own[k].what);
	wrong("workers wait for each other for ever");
}

static void search(void);

/* After a step: searches from its state, if that is new, and undoes the step. */
static void follow(struct step step, size_t changes)
{
	uint64_t way = x.e->preemptions ? mixed((uint64_t)x.last + 1, (uint64_t)x.preempted) : 0;
	uint64_t h = ((x.hash + way) | 2) & ~ON_THE_WAY;
	x.found.steps++;
	x.step[x.depth++] = step;
	if (x.depth == DEEPEST)
		wrong("more than %d steps", DEEPEST);
	if (x.depth > x.found.longest)
		x.found.longest = x.depth;
	if (is_new(h)) {
		search();
		*seat_of(h) &= ~ON_THE_WAY;
	}
	x.depth--;
	undo(changes);
}

/* An event from outside, which happens once. */
static void outside_event(int k, const char *what, int64_t *flag)
{
	size_t changes = x.changes;
	*flag = 1;
	settle(flag, sizeof *flag);
	follow((struct step){k, what, NULL}, changes);
}

static void search(void)
{
	struct access access[WORKERS][ACCESSES];
	int accesses[WORKERS] = {0};
	bool stuck = true, died = false;
	const int last = x.last, preempted = x.preempted;
	for (int k = 0; k < WORKERS; k++) {
		size_t changes = x.changes;
		struct own *o = &arena.own[k];
		died |= arena.shared.dead[k];
		if (!can_go_on(k))
			continue;
		stuck = false;
		x.preempted = preempted + (last >= 0 && k != last && can_go_on(last));
		if (x.e->preemptions && x.preempted > x.e->preemptions)
			continue;
		x.last = k;
		struct step step = {k, o->what, o->at};
		x.step[x.depth] = step; /* shown by errors within the step */
		x.depth++;
		run(k);
		x.depth--;
		accesses[k] = x.accesses;
		memcpy(access[k], x.access, (size_t)x.accesses * sizeof *x.access);
		for (int i = 0; i < k; i++)
			check_race(access[i], accesses[i], access[k], accesses[k]);
		follow(step, changes);
	}
	x.last = last;
	x.preempted = preempted;
	if (stuck)
		check_end();
	for (int k = 0; k < WORKERS; k++) {
		int64_t *tick = x.e->tick ? x.e->tick(k) : NULL;
		if (arena.shared.dead[k] || arena.own[k].need == ENDED)
			continue;
		if (tick && !*tick)
			outside_event(k, "its time to leave has come", tick);
		if (x.e->deaths && !died)
			outside_event(k, "dies", &arena.shared.dead[k]);
		x.last = last;
		x.preempted = preempted;
	}
}

struct explored explore(const struct exploration *e)
{
	x.e = e;
	for (int k = 0; k < WORKERS; k++) {
		struct own *o = &arena.own[k];
		getcontext(&x.start[k]);
		x.start[k].uc_stack.ss_sp = o->stack;
		x.start[k].uc_stack.ss_size = STACK_BYTES;
		makecontext(&x.start[k], start_worker, 0);
	}
	for (bool ready = false; !ready;) {
		ready = true;
		for (int k = 0; k < WORKERS; k++) {
			if (can_go_on(k))
				run(k);
			ready &= arena.own[k].need == BEGIN;
		}
	}
	x.exploring = true;
	x.changes = 0;
	search();
	free(x.seen);
	return x.found;
}
