/* A push that is through wakes nobody. */
#include "runtime/table/blocks.h"

#define monitor_broadcast(m) ((void)(m))
#include "runtime/table/shared.c"
