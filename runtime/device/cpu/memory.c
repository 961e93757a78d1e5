/*
 * memory.c - memory for vectors.
 */
#include "runtime/device/cpu/cpu.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
	ALIGN = 64,     /* a cache line [bytes] */
	PAGE = 4 << 10, /* a page [bytes] */
	HUGE = 2 << 20, /* a huge page [bytes] */
	STEP = 17 *
	       ALIGN, /* a vector's offset in its page, minus that of the vector before [bytes] */
	MAPPED = 64 << 10,    /* from this size on memory is mapped: untouched pages cost nothing */
	MAPPED_HUGE = 4 << 20 /* from this size on in huge pages */
};

static size_t whole(size_t bytes, size_t unit)
{
	return (bytes + unit - 1) / unit * unit;
}

/* The unit in which cpu_alloc allocates bytes for n floats. */
static size_t unit_of(size_t n)
{
	size_t bytes = n * sizeof(float);
	return bytes >= MAPPED_HUGE ? HUGE : bytes >= MAPPED ? PAGE : ALIGN;
}

/* The number of bytes that it allocates. */
static size_t footprint(size_t n)
{
	return whole(n * sizeof(float) + (unit_of(n) > ALIGN ? PAGE : 0), unit_of(n));
}

/* A processor assumes that a load depends on an earlier store if the low bits of their addresses
 * are equal. Each vector therefore starts at a different offset in its page: a pass over several
 * vectors then uses different low bits in each. */
static float *staggered(void *p)
{
	static size_t vectors;
	return (float *)(void *)((char *)p + vectors++ * STEP % PAGE);
}

float *cpu_alloc(struct device *d, size_t n)
{
	size_t bytes = footprint(n);
	if (unit_of(n) == ALIGN) {
		float *p = must(aligned_alloc(ALIGN, bytes ? bytes : ALIGN));

		memset(p, 0, bytes);
		return p;
	}
	/* A mapping starts at any page: map one huge page more, and unmap both ends. */
	size_t slack = unit_of(n) == HUGE ? HUGE : 0;
	void *map = mmap(NULL, bytes + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			 -1, 0);

	must(map == MAP_FAILED ? NULL : map);
	if (!slack)
		return staggered(map);
	size_t before = whole((uintptr_t)map, HUGE) - (uintptr_t)map;
	void *p = (char *)map + before;

	if (before)
		munmap(map, before);
	if (before < slack)
		munmap((char *)p + bytes, slack - before);
	madvise(p, bytes, MADV_HUGEPAGE);
	return staggered(p);
}

void cpu_free(struct device *d, float *p, size_t n)
{
	if (unit_of(n) == ALIGN)
		free(p);
	else
		munmap((char *)p - (uintptr_t)p % PAGE, footprint(n));
}

void cpu_put(struct device *d, float *y, const float *host, size_t n)
{
	if (n)
		memcpy(y, host, n * sizeof *y);
}
