/* A push takes its version number by a read and a write instead of an atomic addition. */
#include "runtime/table/blocks.h"
#include <stdatomic.h>

#undef atomic_fetch_add
#define atomic_fetch_add(p, n) lost_update(p, n)
static long long lost_update(atomic_llong *p, long long n)
{
	long long before = atomic_load(p);
	atomic_store(p, before + n);
	return before;
}
#include "runtime/table/shared.c"
