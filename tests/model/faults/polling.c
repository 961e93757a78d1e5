/* A waiting worker polls instead of sleeping. */
#include "runtime/table/blocks.h"

#define monitor_wait(m, most) (monitor_unlock(m), monitor_lock(m))
#include "runtime/table/shared.c"
