/* A push that is complete wakes no waiting worker. */
#include "runtime/table/blocks.h"

#define monitor_broadcast(m) ((void)(m))
#include "runtime/table/shared.c"
