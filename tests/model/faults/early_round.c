/* A round ends one push too early. */
#include "runtime/table/rounds.h"

#define rounds_state state_of_full_round
enum round_state state_of_full_round(const struct rounds *r, int64_t in, int of, int *away);
#include "runtime/table/rounds.c"
#undef rounds_state

enum round_state rounds_state(const struct rounds *r, int64_t in, int of, int *away)
{
	struct round more = *r->now;
	struct rounds nearly = *r;
	more.counted++;
	more.applied++;
	nearly.now = &more;
	return state_of_full_round(&nearly, in, of, away);
}
