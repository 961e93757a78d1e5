/*
 * coded.c - pushes and pulls that travel as messages of a codec (strategies/codecs/codec.h):
 *
 *   u = pushed + kept;  q = encoded(u);  kept = u - decoded(q);  the table gets decoded(q)
 *
 * kept is the worker's, with error feedback; otherwise it is 0. Each server gets a message of its
 * floats, and decodes it before it applies the push. In the other placements, nothing travels: the
 * worker itself decodes one message of all floats, and pushes that. So a table has the same pushes
 * as with one server.
 *
 * An elastic move is a pull of W, and a push of u = alpha (param - W) to which nothing is kept:
 *
 *   q = encoded(u);  W += decoded(q);  param -= decoded(q)
 *
 * What the codec has lost stays in param - W, and so in the next u. A worker that kept it, too,
 * would count it twice: a float that is sent in each fifth exchange of two workers would then move
 * by 4.5 times the difference.
 *
 * With --codec.pull, a worker pulls decoded(encoded(W)), from each server a message of its floats.
 * The codec may be another than that of pushes, and either may be missing. W itself loses nothing,
 * and evaluation reads it as it is.
 *
 * The keys of random numbers are of the worker and the message: servers know neither, and get the
 * common one with the message.
 *
 * Memory of a worker: 2 P floats, and the messages of a push and of a pull. A checkpoint has what
 * is kept.
 */
#include "runtime/table/coded.h"
#include "runtime/config/run.h"

#include <stdlib.h>
#include <string.h>

struct pushes {
	struct coder coder[WAYS]; /* codec NULL: floats */
	int rank;
	int64_t seed;
	struct tensor *tensor, *some; /* [tensors]: of the table; [tensors + 1]: of a part */
	size_t tensors;
	int parts;
	/* [parts + 1] of each part: its first float, and the first word of its messages */
	size_t *first, *word[WAYS];
	float *kept, *decoded;  /* NULL: no feedback; not needed; no floats at all */
	float *message[WAYS];   /* NULL: no codec, or no floats at all */
	bool feedback, decodes; /* also without floats, for the time of simulations */
	uint64_t common;
	int64_t messages;
};

static struct code code_of(const struct pushes *k, enum table_way way, int j, size_t *first)
{
	*first = k->first[j];
	size_t n = k->first[j + 1] - *first;
	return (struct code){.opts = k->coder[way].opts,
			     .n = n,
			     .tensor = k->some,
			     .tensors = tensors_cut(k->tensor, k->tensors, *first, n, k->some),
			     .common = k->common,
			     .key = rng_seed((int64_t)(k->common >> 1), RNG_CODEC, j),
			     .workers = 1};
}

/* Where the messages of a way begin, [parts + 1]; and room for them, unless there are no floats. */
static void make_messages(struct pushes *k, enum table_way way, bool lengths)
{
	const struct codec *codec = k->coder[way].codec;
	size_t *word = k->word[way], first;
	for (int j = 0; j < k->parts; j++) {
		struct code c = code_of(k, way, j, &first);
		word[j + 1] = word[j] + (codec ? codec->bytes(&c) / sizeof(float) : c.n);
	}
	if (codec && !lengths)
		k->message[way] = must(calloc(word[k->parts] + 1, sizeof(float)));
}

struct pushes *pushes_new(const struct worker *w, size_t n, bool lengths)
{
	const struct tables *s = w->loop->tables;
	const struct model *m = w->model;
	const bool servers = s->servers > 0;
	const int codes = strategy_codes(w->loop->strategy, w->run, w->opts);
	const bool moves = codes == CODES_MOVES;
	const struct coder coder[WAYS] = {{w->codec, w->codec_opts},
					  {w->codec_pull, w->codec_pull_opts}};
	if ((codes != CODES_PUSHES && !moves) || (s->size == 1 && !servers) ||
	    (!is_coder(&coder[WAY_PUSH]) && !is_coder(&coder[WAY_PULL])))
		return NULL;
	if (s->placement->floats_on_device)
		user_error("--codec: a table in a GPU's memory has no messages; give --servers=1 "
			   "or --table-home=shared");
	CHECK(n == m->layer[m->layers], "a coded table of %zu floats", n);
	struct pushes *k = must(calloc(1, sizeof *k));
	*k = (struct pushes){.rank = w->rank,
			     .seed = w->run->seed,
			     .tensor = must(malloc((m->tensors + 1) * sizeof *k->tensor)),
			     .some = must(malloc((m->tensors + 1) * sizeof *k->some)),
			     .tensors = m->tensors,
			     .parts = servers ? s->servers : 1,
			     .feedback = !moves && is_coder(&coder[WAY_PUSH]) &&
					 strcmp(w->run->codec_feedback, "true") == 0};
	for (enum table_way way = 0; way < WAYS; way++)
		if (is_coder(&coder[way]))
			k->coder[way] = coder[way];
	k->decodes = k->feedback || moves || (k->coder[WAY_PUSH].codec && !servers);
	memcpy(k->tensor, m->tensor, m->tensors * sizeof *k->tensor);
	k->first = must(calloc((1 + WAYS) * ((size_t)k->parts + 1), sizeof *k->first));
	for (int j = 0; j < k->parts; j++)
		k->first[j + 1] = part_of(n, (size_t)k->parts, (size_t)j + 1);
	for (enum table_way way = 0; way < WAYS; way++) {
		k->word[way] = k->first + (1 + way) * ((size_t)k->parts + 1);
		make_messages(k, way, lengths);
	}
	if (lengths)
		return k;
	k->kept = k->feedback ? must(calloc(n + 1, sizeof *k->kept)) : NULL;
	k->decoded = k->decodes ? must(calloc(n + 1, sizeof *k->decoded)) : NULL;
	return k;
}

void pushes_free(struct pushes *k)
{
	if (!k)
		return;
	free(k->tensor);
	free(k->some);
	free(k->first);
	free(k->kept);
	free(k->decoded);
	for (enum table_way way = 0; way < WAYS; way++)
		free(k->message[way]);
	free(k);
}

void pushes_encode(struct pushes *k, struct table_op *p)
{
	const struct coder *its = &k->coder[WAY_PUSH];
	float *message = k->message[WAY_PUSH];
	size_t n = k->first[k->parts], first;
	if (!its->codec)
		return;
	k->common = rng_seed(k->seed, RNG_CODEC, (int64_t)(k->rank + 1) << 40 | k->messages++);
	for (size_t i = 0; k->kept && i < n; i++)
		k->kept[i] += p->in[i];
	const float *u = k->kept ? k->kept : p->in;
	for (int j = 0; message && j < k->parts; j++) {
		struct code c = code_of(k, WAY_PUSH, j, &first);
		float *wire = message + k->word[WAY_PUSH][j];
		its->codec->encode(&c, wire, u + first);
		if (k->decoded)
			CHECK(its->codec->decode(&c, k->decoded + first, wire, false),
			      "codec %s does not decode its own message", its->codec->plugin.name);
	}
	for (size_t i = 0; k->kept && i < n; i++)
		k->kept[i] -= k->decoded[i];
	code_charge(its->codec, its->opts, n, false);
	if (k->decodes)
		code_charge(its->codec, its->opts, n, true);
	if (k->feedback)
		world_charge(2 * (double)n);
	p->in = k->decoded ? k->decoded : p->in;
	p->message = message ? message : link_nowhere();
}

float *pushes_room(struct pushes *k)
{
	return k->decoded ? k->decoded : link_nowhere();
}

void pushes_differ(struct pushes *k, const float *param, float alpha)
{
	const size_t n = k->first[k->parts];
	if (k->decoded)
		table_change(k->decoded, param, k->decoded, alpha, n);
	world_charge(2 * (double)n);
}

void pushes_moved(struct pushes *k, float *param)
{
	for (size_t i = 0; k->decoded && i < k->first[k->parts]; i++)
		param[i] -= k->decoded[i];
}

/* ---- Pulls ---- */

bool pushes_pull(const struct table *t, const struct table_op *p)
{
	return t->rules.pushes && t->rules.pushes->coder[WAY_PULL].codec && p->pull && p->out;
}

float *pushes_reply(struct pushes *k)
{
	return k->message[WAY_PULL] ? k->message[WAY_PULL] : link_nowhere();
}

void pushes_decode(struct pushes *k, float *out)
{
	const struct coder *its = &k->coder[WAY_PULL];
	const float *reply = k->message[WAY_PULL];
	size_t first;
	for (int j = 0; reply && j < k->parts; j++) {
		struct code c = code_of(k, WAY_PULL, j, &first);
		if (!its->codec->decode(&c, out + first, reply + k->word[WAY_PULL][j], false))
			failure("worker %d pulled a message from server %d that the codec cannot "
				"have made; are all processes of the same version?",
				k->rank, j);
	}
	code_charge(its->codec, its->opts, k->first[k->parts], true);
}

void pushes_recode(struct pushes *k, float *out)
{
	const struct coder *its = &k->coder[WAY_PULL];
	float *reply = k->message[WAY_PULL];
	size_t first;
	for (int j = 0; reply && j < k->parts; j++) {
		struct code c = code_of(k, WAY_PULL, j, &first);
		its->codec->encode(&c, reply + k->word[WAY_PULL][j], out + first);
	}
	code_charge(its->codec, its->opts, k->first[k->parts], false);
	pushes_decode(k, out);
}

/* ---- Messages ---- */

size_t pushes_words(const struct pushes *k, enum table_way way, int j, size_t *first)
{
	const size_t *word = k->word[way] + j;
	*first = word[0];
	return word[1] - word[0];
}

int64_t pushes_bytes(const struct pushes *k, enum table_way way)
{
	return (int64_t)(k->word[way][k->parts] * sizeof(float));
}

uint64_t pushes_common(const struct pushes *k)
{
	return k->common;
}

const struct tensor *pushes_tensors(struct pushes *k, int j, size_t *count)
{
	size_t first;
	*count = code_of(k, WAY_PUSH, j, &first).tensors;
	return k->some;
}

size_t pushes_keep(struct pushes *k, float *x, bool put)
{
	enum { COUNT = sizeof k->messages / sizeof *x };
	size_t n = k->kept ? k->first[k->parts] : 0;
	if (!x)
		return COUNT + n;
	memcpy(put ? (void *)&k->messages : x, put ? (void *)x : &k->messages, sizeof k->messages);
	if (k->kept)
		memcpy(put ? k->kept : x + COUNT, put ? x + COUNT : k->kept, n * sizeof *x);
	return COUNT + n;
}
