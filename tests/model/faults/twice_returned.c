/* One mini-batch of a dropped push is returned twice. */
#include "runtime/train/trainer.h"

#define deal_after_push settle_once
void settle_once(struct trainer *r);
#include "runtime/train/deal.c"
#undef deal_after_push

void deal_after_push(struct trainer *r)
{
	struct dealing *d = r->dealing;
	bool returned = r->stats.dropped != d->dropped && d->helds > 0;
	settle_once(r);
	if (returned)
		counts_add(d->pool, d->held, 1, 1);
}
