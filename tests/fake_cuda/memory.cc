/*
 * memory.cc - device memory and pinned host memory of the fake cudart.
 *
 * An allocation of device memory is a range of one file in memory. It is mapped into a large
 * address space that nothing else uses, and no address is used twice. A read after the free, or
 * beyond the end, is therefore a fault. The data end at the end of a page, up to the alignment of
 * cudaMalloc; the rest of the pages is checked when it is freed. Fresh memory is filled with 0xff
 * bytes: NaN, -1. While the device is idle the host cannot access it (see memory_open). Other
 * processes open the file through /proc.
 */
#include "runtime.h"

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <map>
#include <sys/mman.h>
#include <unistd.h>

namespace fake
{
namespace
{
constexpr size_t PAGE = 4096, SPACE = (size_t)1 << 40, ALIGN = 256;
constexpr unsigned char POISON = 0xff;

enum kind { DEVICE, MAPPED, PINNED };

struct block {
	kind what;
	char *data, *pages;
	size_t bytes, page_bytes;
	off_t offset; /* in the file */
	int on;
};

struct handle { /* the content of a cudaIpcMemHandle_t */
	pid_t pid;
	int fd, on;
	off_t offset;
	size_t bytes, page_bytes;
};
static_assert(sizeof(handle) <= sizeof(cudaIpcMemHandle_t));

std::map<uintptr_t, block> blocks; /* by the address of the data */
std::map<int, size_t> used;        /* bytes by device */
char *space, *fresh;               /* the whole range; its unused part */
int file = -1;
off_t file_end;
struct sigaction before_segv, before_ill; /* the previous handlers of faults */
int opened;                               /* depth of nested memory_open */

/* On a fault in device memory: prints who accessed what. The fault then repeats, and ends the test.
 */
void explain(int number, siginfo_t *info, void *)
{
	char *at = (char *)info->si_addr;
	const char *who = running();
	sigaction(number, number == SIGSEGV ? &before_segv : &before_ill, NULL);
	if (number == SIGILL && who)
		fprintf(stderr,
			"fake CUDA: %s: an address that is not aligned, or an index that is "
			"out of bounds\n",
			who);
	if (number != SIGSEGV || at < space || at >= space + SPACE)
		return;
	fprintf(stderr, "fake CUDA: %s touched device memory at %p\n", who ? who : "the host", at);
	for (auto &[from, b] : blocks)
		if (at >= b.pages - PAGE && at < b.pages + b.page_bytes + PAGE)
			fprintf(stderr,
				"fake CUDA: %td bytes after the start of an allocation of "
				"%zu bytes\n",
				at - b.data, b.bytes);
}

void open_space()
{
	space = (char *)mmap(NULL, SPACE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
			     -1, 0);
	file = memfd_create("fake device", MFD_CLOEXEC);
	if (space == MAP_FAILED || file < 0)
		fail("no address space for device memory: %s", strerror(errno));
	fresh = space + PAGE;
	struct sigaction act = {};
	act.sa_sigaction = explain;
	act.sa_flags = SA_SIGINFO;
	sigaction(SIGSEGV, &act, &before_segv);
	sigaction(SIGILL, &act, &before_ill); /* the trap of -fsanitize in kernels */
}

bool on_device(const block &b)
{
	return b.what == DEVICE || b.what == MAPPED;
}

void protect(const block &b, int how)
{
	if (mprotect(b.pages, b.page_bytes, how) != 0)
		fail("mprotect: %s", strerror(errno));
}

/* Pages of a file (-1: of none), at an address of their own. One page before the next block is
 * never mapped. */
block place_block(kind what, int fd, off_t offset, size_t bytes, size_t page_bytes, int on)
{
	block b = {what, NULL, fresh, bytes, page_bytes, offset, on};
	if (fresh + page_bytes + PAGE > space + SPACE)
		fail("the address space of device memory is used up");
	int flags = MAP_FIXED | (fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED);
	b.pages = fresh;
	if (mmap(b.pages, page_bytes, PROT_READ | PROT_WRITE, flags, fd, offset) == MAP_FAILED)
		fail("mmap of %zu bytes: %s", page_bytes, strerror(errno));
	fresh += page_bytes + PAGE;
	b.data = b.pages + page_bytes - (bytes + ALIGN - 1) / ALIGN * ALIGN;
	return b;
}

block *find(const void *p)
{
	auto i = blocks.upper_bound((uintptr_t)p);
	if (i == blocks.begin())
		return NULL;
	block *b = &std::prev(i)->second;
	return (const char *)p < b->data + b->bytes || p == b->data ? b : NULL;
}

/* Fills only the start and the end of a large block, because this makes the pages real. */
void poison(const block &b)
{
	constexpr size_t MUCH = 8 << 20;
	memset(b.pages, POISON, b.page_bytes < MUCH ? b.page_bytes : MUCH);
	memset(b.pages + b.page_bytes - PAGE, POISON, PAGE);
}

/* The bytes around the data must be unchanged. */
void check_margins(const block &b)
{
	const char *margin[2][2] = {{b.pages, b.data}, {b.data + b.bytes, b.pages + b.page_bytes}};
	for (auto &m : margin)
		for (const char *p = m[0]; p < m[1]; p++)
			if ((unsigned char)*p != POISON)
				fail("something wrote %td bytes after the start of an allocation "
				     "of %zu bytes of device memory",
				     p - b.data, b.bytes);
}

} // namespace

void memory_open()
{
	if (opened++ == 0 && setting("FAKE_CUDA_STRICT", 1))
		for (auto &[from, b] : blocks)
			if (on_device(b))
				protect(b, PROT_READ | PROT_WRITE);
}

void memory_close()
{
	if (--opened == 0 && setting("FAKE_CUDA_STRICT", 1))
		for (auto &[from, b] : blocks)
			if (on_device(b))
				protect(b, PROT_NONE);
}

bool reaches(const void *p, size_t bytes)
{
	const block *b = find(p);
	return b && (const char *)p + bytes <= b->data + b->bytes;
}

where memory_where(const void *p, size_t bytes)
{
	const block *b = find(p);
	if (!b)
		return p >= space && p < space + SPACE ? NOWHERE : PAGEABLE;
	if ((const char *)p + bytes > b->data + b->bytes)
		return NOWHERE;
	return on_device(*b) ? ON_DEVICE : ON_PINNED;
}

size_t memory_total()
{
	return (size_t)setting("FAKE_CUDA_MEMORY", (long)4 << 30);
}

} // namespace fake

using namespace fake;

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total)
{
	return call([&] {
		*total = memory_total();
		*free_bytes = *total - used[device()];
		return cudaSuccess;
	});
}

cudaError_t cudaMalloc(void **p, size_t bytes)
{
	return call_unsafe([&] {
		*p = NULL;
		if (bytes == 0)
			return cudaSuccess;
		size_t page_bytes = (bytes + PAGE - 1) / PAGE * PAGE;
		if (page_bytes > memory_total() - used[device()]) {
			note("cudaMalloc of %zu bytes: %zu of %zu are used", bytes, used[device()],
			     memory_total());
			return cudaErrorMemoryAllocation;
		}
		if (!space)
			open_space();
		if (ftruncate(file, file_end + (off_t)page_bytes) != 0)
			fail("ftruncate: %s", strerror(errno));
		block b = place_block(DEVICE, file, file_end, bytes, page_bytes, device());
		file_end += (off_t)page_bytes;
		used[b.on] += page_bytes;
		poison(b);
		if (!opened && setting("FAKE_CUDA_STRICT", 1))
			protect(b, PROT_NONE);
		blocks[(uintptr_t)b.data] = b;
		*p = b.data;
		return cudaSuccess;
	});
}

/* Waits for all work that was started, as cudaFree does. */
static cudaError_t release(void *p, kind what, const char *name)
{
	return call_unsafe([&] {
		if (!p)
			return cudaSuccess;
		block *b = find(p);
		if (!b || b->data != p || b->what != what) {
			note("%s: %p is not from the matching allocation", name, p);
			return cudaErrorInvalidValue;
		}
		cudaError_t e = finish_all();
		if (e != cudaSuccess)
			return e;
		if (what == DEVICE || what == PINNED) {
			protect(*b, PROT_READ | PROT_WRITE);
			check_margins(*b);
		}
		if (what == DEVICE) {
			used[b->on] -= b->page_bytes;
			fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, b->offset,
				  (off_t)b->page_bytes);
		}
		mmap(b->pages, b->page_bytes, PROT_NONE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
		blocks.erase((uintptr_t)p);
		return cudaSuccess;
	});
}

cudaError_t cudaFree(void *p)
{
	return release(p, DEVICE, "cudaFree");
}

cudaError_t cudaHostAlloc(void **p, size_t bytes, unsigned)
{
	return call_unsafe([&] {
		if (bytes == 0)
			return cudaErrorInvalidValue;
		if (!space)
			open_space();
		size_t page_bytes = (bytes + PAGE - 1) / PAGE * PAGE;
		block b = place_block(PINNED, -1, 0, bytes, page_bytes, device());
		poison(b);
		blocks[(uintptr_t)b.data] = b;
		*p = b.data;
		return cudaSuccess;
	});
}

cudaError_t cudaFreeHost(void *p)
{
	return release(p, PINNED, "cudaFreeHost");
}

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t *out, void *p)
{
	return call_unsafe([&] {
		const block *b = find(p);
		if (!b || b->what != DEVICE || b->data != p)
			return cudaErrorInvalidValue;
		handle h = {getpid(), file, b->on, b->offset, b->bytes, b->page_bytes};
		memset(out, 0, sizeof *out);
		memcpy(out, &h, sizeof h);
		return cudaSuccess;
	});
}

cudaError_t cudaIpcOpenMemHandle(void **p, cudaIpcMemHandle_t in, unsigned flags)
{
	return call_unsafe([&] {
		handle h;
		memcpy(&h, &in, sizeof h);
		if (flags != cudaIpcMemLazyEnablePeerAccess)
			return cudaErrorInvalidValue;
		if (h.pid == getpid()) {
			note("cudaIpcOpenMemHandle: the handle is this process's own");
			return cudaErrorDeviceUninitialized;
		}
		char path[64];
		snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)h.pid, h.fd);
		int fd = open(path, O_RDWR | O_CLOEXEC);
		if (fd < 0) {
			note("cudaIpcOpenMemHandle: %s: %s", path, strerror(errno));
			return cudaErrorMapBufferObjectFailed;
		}
		if (!space)
			open_space();
		block b = place_block(MAPPED, fd, h.offset, h.bytes, h.page_bytes, h.on);
		close(fd);
		if (!opened && setting("FAKE_CUDA_STRICT", 1))
			protect(b, PROT_NONE);
		blocks[(uintptr_t)b.data] = b;
		*p = b.data;
		return cudaSuccess;
	});
}

cudaError_t cudaIpcCloseMemHandle(void *p)
{
	return release(p, MAPPED, "cudaIpcCloseMemHandle");
}
