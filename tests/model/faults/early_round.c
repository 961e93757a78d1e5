/* A round ends one push too early. */
#include "runtime/table/rounds.h"

#define rounds_fate fate_of_full
enum round_fate fate_of_full(const struct rounds *r, int64_t in, int of, int *away);
#include "runtime/table/rounds.c"
#undef rounds_fate

enum round_fate rounds_fate(const struct rounds *r, int64_t in, int of, int *away)
{
	struct round more = *r->now;
	struct rounds nearly = *r;
	more.applied++;
	nearly.now = &more;
	return fate_of_full(&nearly, in, of, away);
}
