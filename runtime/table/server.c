/*
 * server.c - the main loop of a rank that only serves tables. It handles the requests of wire.h,
 * each worker's in the order in which it sent them, until worker 0 dismisses it. shard.c does the
 * operations.
 *
 * Memory: W and what the updater keeps, of which own and pulled exist once for each worker. Buffers
 * of a shard's size are made when a table is opened: one for each worker, at most COMING_MOST. More
 * are made only for many replies under way, and for longer lists of rows than before. An idle
 * server sleeps (link_sleep).
 */
#include "runtime/table/server.h"

#include <stdlib.h>
#include <string.h>

/* While the floats of many operations are arriving, those of one more would only take memory. In a
 * replay, one more operation may be the one that is due. */
static void expect_requests(struct server *v)
{
	for (int i = 0; i < REQUESTS_MOST && i < v->workers; i++) {
		if (v->incoming[i] || (v->coming >= COMING_MOST && !v->replay))
			continue;
		struct transaction *j = v->incoming[i] = transaction_new();
		j->moved =
			link_recv_start(v->link, -1, TAG_REQUEST, &j->request, sizeof j->request);
	}
}

/* Starts to receive the operation's floats and rows. */
static void server_start_op(struct server *v, struct transaction *j)
{
	size_t rows = j->request.rows > 0 ? (size_t)j->request.rows : 0;
	size_t in = (size_t)(j->request.words ? j->request.words : j->request.in);
	const struct shard *t = v->shard[j->request.table];
	j->begun = true;
	v->coming++;
	if (rows) {
		j->rows = buffer_take(v, t, rows * sizeof(int64_t) / sizeof(float));
		j->listed = link_recv_start(v->link, j->request.worker, TAG_BODY, j->rows->x,
					    rows * sizeof(int64_t));
	}
	if (in) {
		j->data = buffer_take(v, t, in);
		j->moved = link_recv_start(v->link, j->request.worker, TAG_BODY, j->data->x,
					   in * sizeof(float));
	}
}

/* Does what a request asks for; an operation has arrived completely. */
static void server_handle(struct server *v, struct transaction *j)
{
	struct table_request *a = &j->request;
	struct shard *t = v->shard[a->table];
	switch (a->what) {
	case REQUEST_OPEN:
		shard_open(v, a->table);
		break;
	case REQUEST_VERSION:
		j->reply.version = t->version;
		transaction_reply(v, j);
		return;
	case REQUEST_FLUSH:
		rounds_arrive(&t->rounds, j->request.worker);
		shard_poll(v, t);
		v->again |= t->cursor.arrival != NULL;
		break;
	case REQUEST_RESUME:
		rounds_resume(&t->rounds, j->request.worker);
		break;
	case REQUEST_LEAVE:
		rounds_leave(&t->rounds, j->request.worker);
		shard_poll(v, t);
		break;
	case REQUEST_CLOSE:
		rounds_leave(&t->rounds, j->request.worker);
		shard_poll(v, t);
		shard_close(v, a->table);
		break;
	case REQUEST_EVENTS:
		trace_settle(v->trace, NULL);
		trace_gather(v->trace, v->link);
		break;
	case REQUEST_DISMISS:
		v->over = true;
		break;
	case REQUEST_OP:
		v->coming--;
		shard_op(v, t, j);
		if (t->cursor.arrival)
			shard_poll(v, t);
		v->again |= t->cursor.arrival != NULL;
		return;
	}
	transaction_free(v, j);
}

/* Has the operation arrived completely, and is it its turn? */
static bool is_ready(struct server *v, struct transaction *j)
{
	if (!j->begun)
		server_start_op(v, j);
	return (link_test(v->link, &j->listed) & link_test(v->link, &j->moved)) &&
	       shard_due(v->shard[j->request.table], j, j->request.kind);
}

/* Does what is possible of worker k's requests. */
static void advance_connection(struct server *v, int k)
{
	struct connection *c = &v->connection[k];
	while (c->first && !v->over) {
		struct transaction *j = c->first;
		bool op = j->request.what == REQUEST_OP;
		v->latest = k;
		if (j->request.number > c->next || (op && !is_ready(v, j)))
			return;
		c->next += j->request.number >= 0;
		c->first = j->next;
		server_handle(v, j);
	}
}

static void advance_connections(struct server *v)
{
	do {
		v->again = false;
		for (int k = 0; k < v->workers && !v->over; k++)
			advance_connection(v, k);
	} while (v->again && !v->over);
}

/* Takes the requests that have arrived. They may be found in another order than they were sent in.
 */
static void take_requests(struct server *v)
{
	for (int i = 0; i < REQUESTS_MOST; i++) {
		struct transaction *j = v->incoming[i];
		if (!j || !link_test(v->link, &j->moved))
			continue;
		v->incoming[i] = NULL;
		struct transaction **at = &v->connection[j->request.worker].first;
		while (*at && (*at)->request.number <= j->request.number)
			at = &(*at)->next;
		j->next = *at;
		*at = j;
	}
}

/* As nudge_servers in servers.c does. */
static void nudge_workers(struct server *v)
{
	for (int k = 0; k < v->workers; k++)
		if (v->connection[k].first)
			link_wake(v->link, k);
	for (struct transaction *j = v->sending; j; j = j->next)
		link_wake(v->link, j->request.worker);
}

/* Ends rounds whose grace is over. Returns how long to sleep at most before the next look, 0: no
 * limit. */
static nsec look_at_graces(struct server *v)
{
	enum { SHORTEST = 1000, EIGHTH = 8 };
	nsec nap = 0;
	for (int i = 0; i < TABLES_MAX; i++) {
		struct shard *t = v->shard[i];
		if (!t || t->now.until == 0)
			continue;
		nsec left = t->now.until - clock_now();
		nsec next = SHORTEST + (t->rules.grace - left) / EIGHTH;
		if (left <= 0)
			shard_poll(v, t); /* its replies have to be sent */
		nap = left <= 0 ? SHORTEST : left < next ? left : next;
	}
	return nap;
}

/* A reply that no worker has fetched within a second belongs to a run that ends early. */
static void shut_down(struct server *v)
{
	nsec since = clock_now(), nap = 0;
	for (int i = 0; i < REQUESTS_MOST; i++)
		if (v->incoming[i]) {
			link_cancel(v->link, &v->incoming[i]->moved);
			transaction_free(v, v->incoming[i]);
		}
	for (; v->sending && clock_now() - since < 1000000000; transactions_advance(v))
		if (!link_progress(v->link))
			link_sleep(v->link, &nap, 0);
	link_wakeup_free(v->link);
	for (int i = 0; i < TABLES_MAX; i++)
		shard_free(v, i);
	buffers_free(v);
	free(v->connection);
	free(v);
}

void tables_serve(struct link *everyone, int rank, int workers, const struct recording *replay,
		  struct trace *trace, const struct coder *coder)
{
	struct server *v = must(calloc(1, sizeof *v));
	nsec nap = 0;
	*v = (struct server){.link = everyone,
			     .rank = rank - workers,
			     .workers = workers,
			     .replay = replay,
			     .trace = trace,
			     .nowhere.users = 1};
	if (coder)
		memcpy(v->coder, coder, sizeof v->coder);
	v->connection = must(calloc((size_t)workers, sizeof *v->connection));
	expect_requests(v);
	while (!v->over) {
		if (!link_progress(everyone)) {
			if (nap)
				nudge_workers(v);
			link_sleep(everyone, &nap, look_at_graces(v));
			continue;
		}
		nap = 0;
		take_requests(v);
		advance_connections(v);
		transactions_advance(v);
		expect_requests(v);
	}
	shut_down(v);
}
