/* The rows of a dropped push are lost. */
#include "runtime/train/trainer.h"

#define deal_after_push settle_all
void settle_all(struct trainer *r);
#include "runtime/train/deal.c"
#undef deal_after_push

void deal_after_push(struct trainer *r)
{
	r->dealing->dropped = r->stats.dropped;
	settle_all(r);
}
