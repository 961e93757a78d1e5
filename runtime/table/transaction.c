/*
 * transaction.c - the operations that are on their way through a server, and their replies, which
 * leave while it handles other requests.
 */
#include "runtime/table/server.h"

#include <stdlib.h>

struct transaction *transaction_new(void)
{
	struct transaction *j = must(malloc(sizeof *j));
	*j = (struct transaction){.reply = {.seq = -1, .read_seq = -1, .away = -1},
				  .told = -1,
				  .listed = -1,
				  .moved = -1};
	return j;
}

void transaction_free(struct server *v, struct transaction *j)
{
	buffer_drop(v, &j->rows);
	buffer_drop(v, &j->data);
	free(j);
}

void transaction_reply(struct server *v, struct transaction *j)
{
	int tag = reply_tag(j->request.table, j->request.slot);
	pulse_step();
	j->told = link_send_start(v->link, j->request.worker, tag, &j->reply, sizeof j->reply);
	if (j->request.out > 0 && j->reply.away < 0)
		j->moved = link_send_start(v->link, j->request.worker, tag, j->data->x,
					   (size_t)j->request.out * sizeof(float));
	j->next = v->sending;
	v->sending = j;
	link_wake(v->link, j->request.worker);
}

void transactions_advance(struct server *v)
{
	for (struct transaction **at = &v->sending; *at;) {
		struct transaction *j = *at;
		if (link_test(v->link, &j->told) & link_test(v->link, &j->moved)) {
			*at = j->next;
			transaction_free(v, j);
		} else {
			at = &j->next;
		}
	}
}
