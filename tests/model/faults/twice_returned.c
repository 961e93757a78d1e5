/* One row of a dropped push is assigned again twice. */
#include "runtime/train/trainer.h"

#define deal_settle settle_once
bool settle_once(struct trainer *r);
#include "runtime/train/deal.c"
#undef deal_settle

bool deal_settle(struct trainer *r)
{
	struct dealing *d = r->dealing;
	size_t before = d->agains;
	settle_once(r);
	if (d->agains > before) {
		d->again[d->agains] = d->again[d->agains - 1];
		d->agains++;
	}
	return d->agains > 0;
}
