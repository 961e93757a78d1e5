/*
 * threads.cc - the threads of a block, as coroutines on the host's one thread.
 *
 * A coroutine runs one thread after another to its end; kernels without barriers therefore never
 * switch. When a thread waits, its coroutine is parked and another one continues with the next
 * threads. When all are parked or done, the threads whose barrier is complete are released. If no
 * barrier is complete, not all threads reached it: an error in the kernel.
 */
#include "fake.h"
#include "fake_cuda.h"

#include <cstdio>
#include <sys/mman.h>
#include <vector>

#ifndef __x86_64__
#error "the switch of stacks is written for x86-64"
#endif

/* Saves the callee-saved registers on this stack, and its top in *from; continues where `to`
 * stopped. */
extern "C" __attribute__((visibility("hidden"))) void fake_switch(void **from, void *to);
asm(R"(
	.text
	.hidden fake_switch
	.globl fake_switch
	.type fake_switch, @function
fake_switch:
	pushq %rbp
	pushq %rbx
	pushq %r12
	pushq %r13
	pushq %r14
	pushq %r15
	movq %rsp, (%rdi)
	movq %rsi, %rsp
	popq %r15
	popq %r14
	popq %r13
	popq %r12
	popq %rbx
	popq %rbp
	ret
	.size fake_switch, .-fake_switch
)");

extern char __start_fake_shared[] __attribute__((weak));
extern char __stop_fake_shared[] __attribute__((weak));

namespace fake
{
place here;
bool has_waited;

void did_not_wait(const char *kernel)
{
	fail("kernel %s was launched early, and does not wait for the kernel before", kernel);
}

namespace
{
constexpr size_t STACK = 128 << 10, PAGE = 4096;
constexpr unsigned WARP = 32, MOST = 1024;

enum wait { NOTHING, BLOCK, SHUFFLE };

struct alignas(64) coroutine { /* at the upper end of its stack */
	void *stack_top;
	uint3 thread;
	unsigned number; /* of the thread in the block */
	wait waits;
	int line; /* the line of the wait */
};

std::vector<coroutine *> pool;
coroutine *parked[MOST]; /* by the thread's number; NULL: not parked */
coroutine *current;
void *scheduler;
const std::function<void()> *kernel_body;
const char *kernel_name;
unsigned begun, count;                        /* threads of the block: started, all */
bool backwards;                               /* threads run in reverse order in this launch */
alignas(16) unsigned char given[2][MOST][16]; /* values of shuffles, in two alternating sets */
unsigned char turn[MOST];

void take_threads() /* the endless loop of a coroutine */
{
	for (;;) {
		while (begun < count) {
			unsigned i = backwards ? count - 1 - begun : begun;
			unsigned x = here.threads.x, y = here.threads.y;
			begun++;
			current->number = i;
			turn[i] = 0;
			here.thread =
				x == count ? uint3{i, 0, 0} : uint3{i % x, i / x % y, i / x / y};
			current->thread = here.thread;
			(*kernel_body)();
		}
		pool.push_back(current);
		fake_switch(&current->stack_top, scheduler);
	}
}

coroutine *coroutine_new()
{
	char *map = (char *)mmap(NULL, STACK + PAGE, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (map == MAP_FAILED || mprotect(map, PAGE, PROT_NONE) != 0)
		fail("no memory for a stack");
	/* The stack as fake_switch leaves it: six registers, then the return address. The tops
	 * differ in their last bits; otherwise a processor's cache would hold only a few of them.
	 */
	static unsigned made;
	void **top = (void **)(map + PAGE + STACK - sizeof(coroutine) - made++ % 60 * 64);
	top[-2] = (void *)take_threads;
	return new (map + PAGE + STACK - sizeof(coroutine)) coroutine{top - 8, {}, 0, NOTHING, 0};
}

void resume(coroutine *c)
{
	current = c;
	here.thread = c->thread;
	fake_switch(&scheduler, c->stack_top);
}

void park(wait what, int line)
{
	current->waits = what;
	current->line = line;
	parked[current->number] = current;
	fake_switch(&current->stack_top, scheduler);
}

/* Do all of these threads wait at the same place? */
bool complete(unsigned first, unsigned n, wait what)
{
	for (unsigned i = first; i < first + n; i++)
		if (!parked[i] || parked[i]->waits != what ||
		    parked[i]->line != parked[first]->line)
			return false;
	return true;
}

void release(unsigned first, unsigned n)
{
	coroutine *them[MOST];
	memcpy(them, &parked[first], n * sizeof *them);
	memset(&parked[first], 0, n * sizeof *them);
	for (unsigned i = 0; i < n; i++)
		resume(them[backwards ? n - 1 - i : i]);
}

[[noreturn]] void stuck()
{
	unsigned waiting = 0;
	const coroutine *one = NULL;
	for (unsigned i = 0; i < count; i++)
		if (parked[i]) {
			waiting++;
			one = parked[i];
		}
	here.thread = one->thread;
	fail("%s: the %s in line %d was not reached by all threads of the %s: of %u, %u wait there "
	     "or elsewhere, the others have ended",
	     running(), one->waits == BLOCK ? "barrier" : "shuffle", one->line,
	     one->waits == BLOCK ? "block" : "warp", count, waiting);
}

void run_block()
{
	size_t shared = (size_t)(__stop_fake_shared - __start_fake_shared);
	if (shared)
		memset(__start_fake_shared, 0xff, shared);
	begun = 0;
	while (begun < count) {
		if (pool.empty())
			pool.push_back(coroutine_new());
		coroutine *c = pool.back();
		pool.pop_back();
		resume(c);
	}
	for (;;) {
		bool waiting = false, released = false;
		if (complete(0, count, BLOCK)) {
			release(0, count);
			continue;
		}
		for (unsigned first = 0; first < count; first += WARP) {
			if (first + WARP <= count && complete(first, WARP, SHUFFLE)) {
				release(first, WARP);
				released = true;
			}
		}
		for (unsigned i = 0; i < count; i++)
			waiting = waiting || parked[i];
		if (!waiting)
			return;
		if (!released)
			stuck();
	}
}

} // namespace

const char *running()
{
	static char text[256];
	if (!kernel_name)
		return NULL;
	snprintf(text, sizeof text, "kernel %s, block (%u,%u,%u), thread (%u,%u,%u)", kernel_name,
		 here.block.x, here.block.y, here.block.z, here.thread.x, here.thread.y,
		 here.thread.z);
	return text;
}

void run_blocks(const char *kernel, dim3 blocks, dim3 threads, const std::function<void()> &body)
{
	kernel_name = kernel;
	kernel_body = &body;
	count = threads.x * threads.y * threads.z;
	here.threads = threads;
	here.blocks = blocks;
	backwards = !backwards;
	size_t n = (size_t)blocks.x * blocks.y * blocks.z;
	for (size_t b = 0; b < n; b++) {
		size_t i = backwards ? n - 1 - b : b;
		here.block = {(unsigned)(i % blocks.x), (unsigned)(i / blocks.x % blocks.y),
			      (unsigned)(i / blocks.x / blocks.y)};
		run_block();
	}
	kernel_name = NULL;
}

void barrier(int line)
{
	park(BLOCK, line);
}

unsigned lane()
{
	return current->number % WARP;
}

/* What all threads of the warp give. It is kept until the shuffle after the next: by then all have
 * read it. */
static unsigned char (*of_warp(int line, unsigned mask, const void *mine, size_t bytes))[16]
{
	unsigned me = current->number;
	if (mask != 0xffffffffu || count % WARP)
		fail("%s: a shuffle in line %d of a part of a warp (mask %x, %u threads)",
		     running(), line, mask, count);
	if (bytes > sizeof given[0][0])
		fail("%s: a shuffle in line %d of %zu bytes", running(), line, bytes);
	unsigned char(*slot)[16] = given[turn[me] ^= 1];
	memcpy(slot[me], mine, bytes);
	park(SHUFFLE, line);
	return slot + me / WARP * WARP;
}

void shuffle(int line, unsigned mask, const void *mine, void *theirs, size_t bytes, unsigned from)
{
	memcpy(theirs, of_warp(line, mask, mine, bytes)[from], bytes);
}

unsigned ballot(int line, unsigned mask, bool mine)
{
	unsigned char(*all)[16] = of_warp(line, mask, &mine, sizeof mine);
	unsigned votes = 0;
	for (unsigned i = 0; i < WARP; i++)
		votes |= (unsigned)(all[i][0] != 0) << i;
	return votes;
}

} // namespace fake
