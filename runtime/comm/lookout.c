/*
 * lookout.c - the ranks of a link watch each other (runtime/watch/lookout.c).
 */
#include "runtime/comm/comm.h"
#include "runtime/watch/watch.h"

static void gather_all(void *all, const void *mine, void *into, size_t bytes)
{
	link_gather(all, -1, mine, into, bytes);
}

struct lookout *link_lookout(struct link *all, int workers, bool programs)
{
	struct link *node = link_of_node(all);
	struct lookout_ranks ranks = {.rank = link_rank(all),
				      .ranks = link_size(all),
				      .machine = link_rank(all),
				      .several = link_size(node) < link_size(all),
				      .gather = gather_all,
				      .self = all};
	link_broadcast(node, 0, &ranks.machine, sizeof ranks.machine);
	link_free(node);
	return lookout_open(&ranks, workers, programs);
}
