/* The last worker is too slow as well, and leaves mini-batches that no worker has taken. */
#include "runtime/train/trainer.h"

#define deal_end end_as_last
bool end_as_last(struct trainer *r);
#include "runtime/train/deal.c"
#undef deal_end

bool deal_end(struct trainer *r)
{
	bool ended = end_as_last(r);
	r->dealing->finishes = 0;
	return ended;
}
