/*
 * transaction.c - the operations that are on their way through a server, and their replies, which
 * leave while it handles other requests. Floats of coded pushes and pulls travel as messages.
 */
#include "runtime/comm/coding.h"
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

static struct code code_of_shard(const struct coder *k, const struct shard *t,
				 const struct transaction *j)
{
	return (struct code){.opts = k->opts,
			     .n = t->n,
			     .tensor = t->tensor,
			     .tensors = t->tensors,
			     .common = j->request.common,
			     .workers = 1};
}

/* data, which is pulled, becomes a message. Returns its length [floats]. */
static size_t encode_pulled(struct server *v, const struct shard *t, struct transaction *j)
{
	const struct coder *k = &v->coder[WAY_PULL];
	const struct code c = code_of_shard(k, t, j);
	CHECK(t->tensor && is_coder(k), "a pull of messages from a table without a codec");
	size_t words = k->codec->bytes(&c) / sizeof(float);
	struct buffer *message = buffer_take(v, t, words);
	if (!t->rules.lengths)
		k->codec->encode(&c, message->x, j->data->x);
	code_charge(k->codec, c.opts, t->n, false);
	buffer_drop(v, &j->data);
	j->data = message;
	return words;
}

void transaction_decode(struct server *v, const struct shard *t, struct transaction *j)
{
	const struct coder *k = &v->coder[WAY_PUSH];
	const struct code c = code_of_shard(k, t, j);
	struct buffer *floats = buffer_take(v, t, t->n);
	bool right = t->rules.lengths;
	if (!right && t->tensor && is_coder(k) &&
	    k->codec->bytes(&c) == (size_t)j->request.words * sizeof(float))
		right = k->codec->decode(&c, floats->x, j->data->x, false);
	if (!right)
		failure("server %d received a message from worker %d that the codec cannot have "
			"made; are all processes of the same version?",
			v->rank, j->request.worker);
	code_charge(k->codec, c.opts, t->n, true);
	buffer_drop(v, &j->data);
	j->data = floats;
}

void transaction_reply(struct server *v, struct transaction *j)
{
	int tag = reply_tag(j->request.table, j->request.slot);
	bool floats = j->request.out > 0 && j->reply.away < 0;
	size_t words = (size_t)j->request.out;
	pulse_step();
	if (floats && j->request.pull == PULL_CODED)
		words = encode_pulled(v, v->shard[j->request.table], j);
	j->told = link_send_start(v->link, j->request.worker, tag, &j->reply, sizeof j->reply);
	if (floats)
		j->moved = link_send_start(v->link, j->request.worker, tag, j->data->x,
					   words * sizeof(float));
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
