/*
 * check_codecs.c - codecs: their formulas, lengths and random numbers; sums, pairs and feedback
 * over them, in real and in simulated runs; refusals.
 */
#include "runtime/config/config.h"
#include "runtime/config/plan.h"
#include "runtime/config/plugins.h"
#include "runtime/config/run.h"
#include "runtime/table/coded.h"
#include "tests/shell.h"
#include "tests/suites.h"
#undef MPIRUN /* of shell.h; not used here */
#include "tests/trained.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- One message ---- */

enum { ROWS = 19, COLUMNS = 23, MATRIX = ROWS * COLUMNS, VECTOR = 70, FLOATS = MATRIX + VECTOR };

static const struct tensor tensors[] = {
	{.first = 0, .rows = ROWS, .columns = COLUMNS},
	{.first = MATRIX, .rows = 1, .columns = VECTOR},
};

struct message {
	const struct codec *codec;
	struct code code;
	double opts[8];
	float x[FLOATS], y[FLOATS], *state;
	float wire[2][2 * FLOATS + 64];
};

/* options: "share=1", or NULL. */
static void message_new(struct message *m, const struct codec *codec, const char *option,
			const char *value)
{
	uint64_t rng = 1;
	*m = (struct message){.codec = codec};
	ck_assert_uint_le(codec->plugin.opts_size, sizeof m->opts);
	option_default(codec->plugin.options, m->opts);
	if (option) {
		const struct option *o = option_find(codec->plugin.options, option);
		ck_assert_msg(o, "%s has no option %s", codec->plugin.name, option);
		char *wrong = option_set(o, m->opts, codec->plugin.name, value);
		ck_assert_msg(!wrong, "%s", wrong);
	}
	m->code = (struct code){.opts = m->opts,
				.n = FLOATS,
				.tensor = tensors,
				.tensors = 2,
				.key = 7,
				.common = 11,
				.workers = 1};
	if (codec->state) {
		size_t n = codec->state(&m->code);
		m->state = must(calloc(n + 1, sizeof *m->state));
		m->code.state = m->state;
	}
	for (int i = 0; i < FLOATS; i++)
		m->x[i] = (float)(rng_normal(&rng) * exp(2 * rng_normal(&rng)));
}

/* One worker's message there and back. Returns the bytes of all rounds. */
static size_t there_and_back(struct message *m, bool add)
{
	size_t bytes = 0;
	for (m->code.round = 0; bytes == 0 || m->code.round < m->codec->rounds; m->code.round++) {
		float *wire = m->wire[m->code.round & 1];
		m->code.sum = m->code.round ? m->wire[(m->code.round - 1) & 1] : NULL;
		size_t n = m->codec->bytes(&m->code);
		ck_assert_uint_le(n + 4, sizeof m->wire[0]);
		ck_assert_uint_eq(n % 4, 0);
		memset(wire, 0x5a, sizeof m->wire[0]);
		m->codec->encode(&m->code, wire, m->x);
		ck_assert_msg(wire[n / 4] == wire[n / 4 + 1], "%s wrote more than its %zu bytes",
			      m->codec->plugin.name, n);
		bytes += n;
	}
	m->code.round--;
	ck_assert(m->codec->decode(&m->code, m->y, m->wire[m->code.round & 1], add));
	m->code.round = 0;
	return bytes;
}

static double norm(const float *x, const float *y, size_t n)
{
	double sum = 0;
	for (size_t i = 0; i < n; i++)
		sum += pow((double)x[i] - (y ? (double)y[i] : 0), 2);
	return sqrt(sum);
}

static size_t codecs_listed(void)
{
	size_t n = 0;
	while (codecs[n])
		n++;
	return n;
}

CASE("messages");

/* Biased codecs, which get feedback, must not lose more than they are given: otherwise what is kept
 * grows. */
TEST(codec_loses_less_than_it_is_given, 1, (int)codecs_listed())
{
	struct message m;
	message_new(&m, codecs[_i], NULL, NULL);
	there_and_back(&m, false);
	if (m.codec->feedback && m.codec->feedback(m.opts))
		ck_assert_msg(norm(m.x, m.y, FLOATS) < norm(m.x, NULL, FLOATS), "%s loses %g of %g",
			      m.codec->plugin.name, norm(m.x, m.y, FLOATS),
			      norm(m.x, NULL, FLOATS));
	free(m.state);
}

TEST(decoding_adds_what_it_otherwise_sets, 1, (int)codecs_listed())
{
	struct message m;
	float alone[FLOATS];
	message_new(&m, codecs[_i], NULL, NULL);
	there_and_back(&m, false);
	memcpy(alone, m.y, sizeof alone);
	free(m.state);
	message_new(&m, codecs[_i], NULL, NULL);
	for (int i = 0; i < FLOATS; i++)
		m.y[i] = (float)i;
	there_and_back(&m, true);
	for (int i = 0; i < FLOATS; i++)
		ck_assert_msg(fabsf(m.y[i] - ((float)i + alone[i])) <= 1e-4f * (float)(i + 1),
			      "%s: float %d is %g, not %d + %g", m.codec->plugin.name, i,
			      (double)m.y[i], i, (double)alone[i]);
	free(m.state);
}

/* Bytes that no encode has made are refused, or decoded: nothing is written elsewhere. */
TEST(any_bytes_are_decoded_or_refused, 1, (int)codecs_listed())
{
	struct message m;
	uint64_t rng = 5;
	message_new(&m, codecs[_i], NULL, NULL);
	there_and_back(&m, false);
	m.code.round = m.codec->rounds ? m.codec->rounds - 1 : 0;
	size_t n = m.codec->bytes(&m.code) / 4;
	uint32_t *wire = must(malloc((n + 1) * sizeof *wire)); /* its end is its own */
	float *y = must(malloc(FLOATS * sizeof *y));
	for (int k = 0; k < 1000; k++) {
		for (size_t i = 0; i < n; i++)
			wire[i] = (uint32_t)rng_next(&rng) >> (k % 4 * 8);
		m.codec->decode(&m.code, y, wire, false);
	}
	free(wire);
	free(y);
	free(m.state);
}

/* The mean of 10,000 draws is x, to five of its standard errors. */
TEST(unbiased_codecs_are, 6)
{
	static const struct {
		const char *codec, *option, *value;
	} row[] = {{"int8", "rounding", "stochastic"}, {"int4", "rounding", "stochastic"},
		   {"randomk", "unbiased", "true"},    {"qsgd", "levels", "7"},
		   {"qsgd", "levels", "100"},          {"terngrad", NULL, NULL}};
	enum { DRAWS = 10000 };
	struct message m;
	static double sum[FLOATS], least[FLOATS], most[FLOATS];
	double step = 0;
	message_new(&m, plugin_find(PART_CODEC, row[_i].codec), row[_i].option, row[_i].value);
	ck_assert(m.codec->unbiased(m.opts));
	ck_assert(!m.codec->feedback || !m.codec->feedback(m.opts));
	memset(sum, 0, sizeof sum);
	memset(least, 0, sizeof least);
	memset(most, 0, sizeof most);
	for (int k = 0; k < DRAWS; k++) {
		m.code.key = rng_seed(3, RNG_CODEC, k);
		m.code.common = rng_seed(4, RNG_CODEC, k);
		there_and_back(&m, false);
		for (int i = 0; i < FLOATS; i++) {
			double e = (double)m.y[i] - (double)m.x[i];
			sum[i] += e;
			least[i] = k && least[i] < e ? least[i] : e;
			most[i] = k && most[i] > e ? most[i] : e;
			step = fmax(step, fabs(e));
		}
	}
	for (int i = 0; i < FLOATS; i++) {
		double x = fabs((double)m.x[i]), mean = sum[i] / DRAWS;
		/* of two values whose mean is 0 */
		double error = sqrt(fmax(-least[i] * most[i], 0) / DRAWS) + 1e-7 * x;
		if (most[i] == least[i] && mean != 0)
			/* never rounded up to a step: so its probability x / step is small */
			ck_assert_msg(x <= 15 * step / DRAWS, "%s: float %d of %g is always %g off",
				      row[_i].codec, i, (double)m.x[i], mean);
		else
			ck_assert_msg(fabs(mean) <= 5 * error,
				      "%s: float %d is off by %g, %g sigma", row[_i].codec, i, mean,
				      mean / error);
	}
}

/* Two messages of the same floats differ only where random numbers are used. */
TEST(only_random_codecs_draw, 1, (int)codecs_listed())
{
	struct message m;
	float before[FLOATS];
	message_new(&m, codecs[_i], NULL, NULL);
	bool draws = m.codec->unbiased && m.codec->unbiased(m.opts);
	there_and_back(&m, false);
	memcpy(before, m.y, sizeof before);
	if (!m.state) { /* the factors of powersgd go on */
		m.code.key++;
		there_and_back(&m, false);
		ck_assert_int_eq(memcmp(before, m.y, sizeof before) != 0, draws);
	}
	free(m.state);
}

/* All numbers of the formats, from their definitions; and each float becomes the nearest of them.
 */
TEST(small_floats_are_the_nearest_of_their_format, 4)
{
	static const struct {
		const char *codec, *format;
		int e, m;
		double largest;
	} row[] = {{"fp8", "e4m3", 4, 3, 448},
		   {"fp8", "e5m2", 5, 2, 57344},
		   {"fp4", "e2m1", 2, 1, 6},
		   {"fp4", "e3m0", 3, 0, 16}};
	double number[128];
	int n = 0, bias = (1 << (row[_i].e - 1)) - 1, steps = 1 << row[_i].m;
	for (int e = 0; e < 1 << row[_i].e; e++)
		for (int k = 0; k < steps; k++) {
			double x = e ? ldexp(1 + (double)k / steps, e - bias)
				     : ldexp((double)k / steps, 1 - bias);
			if (x <= row[_i].largest)
				number[n++] = x;
		}
	ck_assert_double_eq(number[n - 1], row[_i].largest);
	struct message m;
	message_new(&m, plugin_find(PART_CODEC, row[_i].codec), "format", row[_i].format);
	for (int i = 0; i < FLOATS; i++) /* a scale of 1 in each block */
		m.x[i] = i % 256 ? (float)(row[_i].largest * sin(i) * exp(-i % 7))
				 : (float)row[_i].largest;
	for (int i = 1; i < n; i++)
		m.x[i] = (float)number[i];
	there_and_back(&m, false);
	for (int i = 1; i < n; i++)
		ck_assert_double_eq((double)m.y[i], number[i]);
	for (int i = 0; i < FLOATS; i++) {
		double x = fabs((double)m.x[i]), least = 1e30;
		for (int k = 0; k < n; k++)
			least = fmin(least, fabs(x - number[k]));
		ck_assert_double_eq_tol(fabs((double)m.x[i] - (double)m.y[i]), least, 1e-6 * x);
	}
}

/* All half precision numbers there and back; and of random floats the nearest, ties to even, as the
 * compiler's own type has it. */
TEST(halves_are_the_nearest, 2)
{
	const struct codec *codec = plugin_find(PART_CODEC, _i ? "fp16" : "bf16");
	struct code c = {.n = 1};
	uint64_t rng = 3;
	for (uint32_t h = 0; h < 1 << 16; h++) {
		uint16_t in[2] = {(uint16_t)h, 0}, out[2];
		float x;
		codec->decode(&c, &x, in, false);
		codec->encode(&c, out, &x);
		ck_assert_msg(out[0] == h || isnan(x), "%s: %#x becomes %g, and that %#x",
			      codec->plugin.name, h, (double)x, out[0]);
	}
	for (int k = 0; k < 200000; k++) {
		uint32_t bits = (uint32_t)rng_next(&rng);
		uint16_t h[2], up, down;
		float x, y, above, below;
		memcpy(&x, &bits, sizeof x);
		if (k % 2)
			x = (float)ldexp(rng_normal(&rng), -(k % 30));
		if (isnan(x))
			continue;
		codec->encode(&c, h, &x);
		codec->decode(&c, &y, h, false);
		up = (uint16_t)(h[0] + 1), down = (uint16_t)(h[0] - 1);
		codec->decode(&c, &above, (uint16_t[]){up, 0}, false);
		codec->decode(&c, &below, (uint16_t[]){down, 0}, false);
		if (isinf(y) || isinf(above)) {
			ck_assert(!isinf(y) || fabsf(x) >= (_i ? 65520.0f : 3.39e38f));
			continue;
		}
		double off = fabs((double)x - (double)y);
		bool zero = (h[0] & 0x7fff) == 0;
		ck_assert_msg(off <= fabs((double)x - (double)above) &&
				      (zero || off <= fabs((double)x - (double)below)),
			      "%s: %.9g becomes %.9g, not %.9g or %.9g", codec->plugin.name,
			      (double)x, (double)y, (double)above, (double)below);
		if (off == fabs((double)x - (double)above) && off > 0)
			ck_assert_msg(h[0] % 2 == 0, "%s: %.9g is a tie", codec->plugin.name,
				      (double)x);
	}
}

/* The error is at most half a step of the block's scale. */
TEST(integers_are_the_nearest, 2)
{
	const int bits = _i ? 4 : 8;
	const struct codec *codec = plugin_find(PART_CODEC, _i ? "int4" : "int8");
	struct message m;
	message_new(&m, codec, "block", "64");
	size_t bytes = there_and_back(&m, false), blocks = (FLOATS + 63) / 64;
	ck_assert_uint_eq(bytes, 4 * blocks + ((size_t)bits * FLOATS / 8 + 3) / 4 * 4);
	for (size_t b = 0; b < blocks; b++) {
		float most = 0;
		size_t end = b + 1 < blocks ? 64 * (b + 1) : FLOATS;
		for (size_t i = 64 * b; i < end; i++)
			most = fmaxf(most, fabsf(m.x[i]));
		for (size_t i = 64 * b; i < end; i++)
			ck_assert_double_le(fabs((double)m.x[i] - (double)m.y[i]),
					    0.5001 * (double)most / ((1 << (bits - 1)) - 1));
	}
}

/* A number that is not finite comes out as one: the run is seen to diverge. */
TEST(infinite_floats_do_not_vanish, 1, (int)codecs_listed())
{
	struct message m;
	message_new(&m, codecs[_i], NULL, NULL);
	bool all_travel = strcmp(m.codec->plugin.name, "randomk") != 0 &&
			  strcmp(m.codec->plugin.name, "majority") != 0;
	for (int k = 0; all_travel && k < 2; k++) {
		m.x[40] = k ? NAN : INFINITY;
		there_and_back(&m, false);
		double sum = 0;
		for (int i = 0; i < FLOATS; i++)
			sum += (double)m.y[i];
		ck_assert_msg(!isfinite(sum), "%s hides %g", m.codec->plugin.name, (double)m.x[40]);
	}
	free(m.state);
}

static int by_size(const void *a, const void *b)
{
	float x = fabsf(*(const float *)a), y = fabsf(*(const float *)b);
	return x < y ? 1 : x > y ? -1 : 0;
}

static void expect_largest(const struct message *m, size_t first, size_t n, size_t k)
{
	float sorted[FLOATS];
	size_t sent = 0;
	memcpy(sorted, m->x + first, n * sizeof *sorted);
	qsort(sorted, n, sizeof *sorted, by_size);
	for (size_t i = first; i < first + n; i++) {
		sent += m->y[i] != 0;
		ck_assert(m->y[i] == 0 || m->y[i] == m->x[i]);
		ck_assert_msg((m->y[i] != 0) == (fabsf(m->x[i]) >= fabsf(sorted[k - 1])),
			      "float %zu is %g; the %zu-th largest is %g", i, (double)m->x[i], k,
			      (double)sorted[k - 1]);
	}
	ck_assert_uint_eq(sent, k);
}

TEST(topk_sends_the_largest, 4)
{
	static const char *const share[] = {"0.01", "0.1", "0.5", "1"};
	const size_t k[] = {6, 51, 254, FLOATS};
	struct message m;
	message_new(&m, plugin_find(PART_CODEC, "topk"), "share", share[_i]);
	ck_assert_uint_eq(there_and_back(&m, false), 8 * k[_i]);
	expect_largest(&m, 0, FLOATS, k[_i]);
	ck_assert_int_eq(k[_i] == FLOATS, memcmp(m.x, m.y, sizeof m.x) == 0);
	message_new(&m, plugin_find(PART_CODEC, "topk"), "of", "tensors");
	ck_assert_uint_eq(there_and_back(&m, false), 8 * (5 + 1));
	expect_largest(&m, 0, MATRIX, 5);
	expect_largest(&m, MATRIX, VECTOR, 1);
}

/* Of many floats a sample tells which can be among the largest; it also finds them where the guess
 * is wrong: in sorted floats, and where most are equal. A sampled threshold finds fewer. */
TEST(topk_finds_the_largest_of_many, 16)
{
	enum { MANY = 300007 };
	static const char *const share[] = {"0.0001", "0.001", "0.01", "0.05"};
	const struct codec *codec = plugin_find(PART_CODEC, "topk");
	double opts[8];
	option_default(codec->plugin.options, opts);
	char *wrong = option_set(option_find(codec->plugin.options, "share"), opts, "topk",
				 share[_i % 4]);
	ck_assert(!wrong);
	if (_i >= 12)
		ck_assert_ptr_null(option_set(option_find(codec->plugin.options, "threshold"), opts,
					      "topk", "sampled"));
	if (_i == 15)
		ck_assert_ptr_null(option_set(option_find(codec->plugin.options, "of"), opts,
					      "topk", "tensors"));
	const struct tensor halves[] = {{.rows = 1, .columns = MANY / 2},
					{.first = MANY / 2, .rows = 1, .columns = MANY - MANY / 2}};
	struct code c = {.opts = opts, .n = MANY, .tensor = halves, .tensors = 2, .workers = 1};
	size_t bytes = codec->bytes(&c), k = bytes / 8;
	float *x = must(malloc(MANY * sizeof *x)), *sorted = must(malloc(MANY * sizeof *x)),
	      *y = must(malloc(MANY * sizeof *x)), *wire = must(malloc(bytes));
	uint64_t rng = 1;
	for (int i = 0; i < MANY; i++)
		x[i] = _i < 4 || _i >= 12 ? (float)rng_normal(&rng)
		       : _i < 8           ? (float)(i + 1)
					  : (float)(rng_next(&rng) % 3) - 1;
	memcpy(sorted, x, MANY * sizeof *x);
	qsort(sorted, MANY, sizeof *sorted, by_size);
	codec->encode(&c, wire, x);
	ck_assert(codec->decode(&c, y, wire, false));
	size_t sent = 0;
	double sum = 0, all = 0;
	for (int i = 0; i < MANY; i++) {
		sent += y[i] != 0;
		sum += fabs((double)y[i]);
		ck_assert(y[i] == 0 || y[i] == x[i]);
	}
	for (size_t i = 0; i < sent; i++)
		all += fabs((double)sorted[i]);
	ck_assert_uint_le(sent, k);
	ck_assert_uint_ge(sent, _i < 12 ? k : _i < 14 ? 1 : k / 2);
	/* of more than k, the first ones are sent; tensors have thresholds of their own */
	if (_i < 12 || (sent < k && _i < 15))
		ck_assert_double_eq_tol(sum, all, 1e-9 * all);
	free(x);
	free(sorted);
	free(y);
	free(wire);
}

/* Of equal sizes the first ones are sent, so that all platforms send the same. */
TEST(topk_takes_the_first_of_equals)
{
	struct message m;
	message_new(&m, plugin_find(PART_CODEC, "topk"), "share", "0.1");
	for (int i = 0; i < FLOATS; i++)
		m.x[i] = i % 2 ? -2 : 2;
	there_and_back(&m, false);
	for (int i = 0; i < FLOATS; i++)
		ck_assert_int_eq(m.y[i] != 0, i < 51);
}

/* Of two chunks of 4096 floats and a part of one: the largest of each, and with few bits their
 * signs and the nearest of 2^(bits - 1) sizes. Random bytes are decoded or refused. */
TEST(topk_of_chunks_has_few_bits, 4)
{
	enum { N = 2 * 4096 + 1808, CHUNK = 4096, K = 41, K_LAST = 19, WORDS = 256 };
	static const int bits[] = {2, 8, 13, 32};
	static const size_t chunk_words[] = {2 + 18, 2 + 26, 2 + 33, 57},
			    last_words[] = {2 + 9, 2 + 12, 2 + 15, 27};
	const struct codec *codec = plugin_find(PART_CODEC, "topk");
	const struct tensor whole = {.rows = 1, .columns = N};
	double opts[8];
	uint64_t rng = 9;
	static float x[N], y[N];
	uint32_t wire[WORDS];
	char *number AUTOFREE = sentence("%d", bits[_i]);
	option_default(codec->plugin.options, opts);
	ck_assert_ptr_null(
		option_set(option_find(codec->plugin.options, "of"), opts, "topk", "chunks"));
	ck_assert_ptr_null(
		option_set(option_find(codec->plugin.options, "bits"), opts, "topk", number));
	struct code c = {.opts = opts, .n = N, .tensor = &whole, .tensors = 1, .workers = 1};
	size_t words = 2 * chunk_words[_i] + last_words[_i];
	ck_assert_uint_eq(codec->bytes(&c), words * 4);
	for (size_t i = 0; i < N; i++)
		x[i] = (float)rng_normal(&rng);
	for (size_t i = 0; i < WORDS; i++)
		wire[i] = 0x5a5a5a5a;
	codec->encode(&c, wire, x);
	ck_assert_uint_eq(wire[words], 0x5a5a5a5a);
	ck_assert(codec->decode(&c, y, wire, false));
	for (size_t at = 0; at < N; at += CHUNK) {
		size_t n = N - at < CHUNK ? N - at : CHUNK, sent = 0;
		float least = INFINITY, most = 0, left = 0;
		for (size_t i = at; i < at + n; i++) {
			float size = fabsf(x[i]);
			sent += y[i] != 0;
			least = y[i] != 0 ? fminf(least, size) : least;
			most = y[i] != 0 ? fmaxf(most, size) : most;
			left = y[i] == 0 ? fmaxf(left, size) : left;
		}
		ck_assert_uint_eq(sent, n == CHUNK ? K : K_LAST);
		ck_assert_msg(left < least, "%g is left out, and %g sent", (double)left,
			      (double)least);
		double half = bits[_i] == 32 ? 0 : ldexp((double)(most - least), -bits[_i]);
		for (size_t i = at; i < at + n; i++)
			ck_assert_msg(y[i] == 0 || fabs((double)x[i] - (double)y[i]) <=
							   half + 1e-6 * (double)most,
				      "%g becomes %g, steps are %g", (double)x[i], (double)y[i],
				      2 * half);
	}
	uint32_t *made = must(malloc(words * sizeof *made)); /* its end is its own */
	for (int k = 0; k < 1000; k++) {
		for (size_t i = 0; i < words; i++)
			made[i] = (uint32_t)rng_next(&rng) >> (k % 4 * 8);
		codec->decode(&c, y, made, k & 1);
	}
	free(made);
}

TEST(topk_refuses_places_that_do_not_rise, 3)
{
	static const uint32_t place[][6] = {
		{0, 1, 2, 3, 4, FLOATS}, {0, 1, 2, 2, 4, 5}, {5, 4, 3, 2, 1, 0}};
	struct message m;
	message_new(&m, plugin_find(PART_CODEC, "topk"), NULL, NULL);
	there_and_back(&m, false);
	memcpy(m.wire[0], place[_i], sizeof place[_i]);
	ck_assert(!m.codec->decode(&m.code, m.y, m.wire[0], false));
}

TEST(sign_has_the_mean_size_of_each_tensor)
{
	struct message m;
	message_new(&m, plugin_find(PART_CODEC, "sign"), NULL, NULL);
	ck_assert_uint_eq(there_and_back(&m, false), 2 * 4 + (FLOATS + 31) / 32 * 4);
	for (int t = 0; t < 2; t++) {
		size_t first = tensors[t].first, n = tensors[t].rows * tensors[t].columns;
		double sum = 0;
		for (size_t i = first; i < first + n; i++)
			sum += fabs((double)m.x[i]);
		for (size_t i = first; i < first + n; i++)
			ck_assert_double_eq_tol((double)m.y[i],
						copysign(sum / (double)n, (double)m.x[i]),
						1e-6 * sum / (double)n);
	}
}

/* One of each part, and over many draws each float of a part as often as the others. */
TEST(randomk_draws_one_of_each_part)
{
	enum { DRAWS = 7000, K = 51 };
	struct message m;
	static int drawn[FLOATS];
	message_new(&m, plugin_find(PART_CODEC, "randomk"), "share", "0.1");
	for (int k = 0; k < DRAWS; k++) {
		m.code.common = rng_seed(9, RNG_CODEC, k);
		m.code.key = (uint64_t)k; /* of the worker: must not matter */
		ck_assert_uint_eq(there_and_back(&m, false), 4 * K);
		for (size_t part = 0; part < K; part++) {
			int in_part = 0;
			for (size_t i = part_of(FLOATS, K, part); i < part_of(FLOATS, K, part + 1);
			     i++) {
				in_part += m.y[i] != 0;
				drawn[i] += m.y[i] != 0;
			}
			ck_assert_int_eq(in_part, 1);
		}
	}
	for (size_t part = 0; part < K; part++) {
		size_t first = part_of(FLOATS, K, part), end = part_of(FLOATS, K, part + 1);
		double mean = DRAWS / (double)(end - first);
		for (size_t i = first; i < end; i++)
			ck_assert_double_eq_tol(drawn[i], mean, 5 * sqrt(mean));
	}
}

/* A matrix of rank 2 travels without loss; vectors always. */
TEST(powersgd_sends_matrices_of_its_rank)
{
	struct message m;
	message_new(&m, plugin_find(PART_CODEC, "powersgd"), NULL, NULL);
	for (int i = 0; i < MATRIX; i++) {
		double a = i / COLUMNS, b = i % COLUMNS;
		m.x[i] = (float)(sin(a) * cos(2 * b) + 0.3 * cos(3 * a) * (b - 7));
	}
	ck_assert_uint_eq(there_and_back(&m, false), 4 * (2 * (ROWS + COLUMNS) + VECTOR));
	ck_assert_double_le(norm(m.x, m.y, FLOATS), 1e-5 * norm(m.x, NULL, FLOATS));
	free(m.state);
}

/* A matrix times 2^k is decoded as 2^k times the same floats, where floats' squares overflow or
 * vanish, too: in each message, as Q is that of the last one. */
TEST(powersgd_decodes_small_and_large_floats_alike, 4)
{
	static const int power[] = {-100, -70, 70, 105};
	struct message m, scaled;
	const struct codec *codec = plugin_find(PART_CODEC, "powersgd");
	message_new(&m, codec, NULL, NULL);
	message_new(&scaled, codec, NULL, NULL);
	for (int i = 0; i < FLOATS; i++)
		scaled.x[i] = ldexpf(m.x[i], power[_i]);
	for (int k = 0; k < 3; k++) {
		there_and_back(&m, false);
		there_and_back(&scaled, false);
		for (int i = 0; i < FLOATS; i++)
			scaled.y[i] = ldexpf(scaled.y[i], -power[_i]);
		double off = norm(m.y, scaled.y, FLOATS), all = norm(m.y, NULL, FLOATS);
		ck_assert_msg(all > 0 && off <= 1e-5 * all, "2^%d, message %d: %g of %g is off",
			      power[_i], k, off, all);
	}
	free(m.state);
	free(scaled.state);
}

/* Floats that change from message to message, with feedback, as one worker of one sends them. From
 * the same first Q, NumPy in float64 computes the same, and PyTorch's hook. */
TEST(powersgd_trajectory_is_that_of_its_references, 2)
{
	enum { MESSAGES = 12 };
	const char *module = _i ? "torch" : "numpy", *python = python_with(module);
	struct message m;
	float kept[FLOATS] = {0}, sums[FLOATS] = {0};
	if (!python)
		return;
	folder_new();
	message_new(&m, plugin_find(PART_CODEC, "powersgd"), NULL, NULL);
	m.codec->encode(&m.code, m.wire[0], m.x); /* draws the first Q */
	char *name AUTOFREE = sentence("%s/q", folder);
	FILE *f = fopen(name, "w");
	for (int i = 0; i < 2 * COLUMNS; i++)
		fprintf(f, "%.9g\n", (double)m.state[1 + i]);
	fclose(f);
	for (int k = 0; k < MESSAGES; k++) {
		for (int i = 0; i < FLOATS; i++)
			m.x[i] = sinf((float)(i * (i + k))) + kept[i];
		there_and_back(&m, false);
		for (int i = 0; i < FLOATS; i++) {
			kept[i] = m.x[i] - m.y[i];
			sums[i] += m.y[i];
		}
	}
	run(0, "%s $MVBENCH_HOME/tests/reference/powersgd.py %s %d %d %d %s 2>%s/said", python,
	    name, ROWS, COLUMNS, VECTOR, module, folder);
	const char *at = printed;
	for (int i = 0; i < MATRIX; i++) {
		char *end;
		double expected = strtod(at, &end);
		ck_assert_msg(end > at && fabs((double)sums[i] - expected) <=
						  1e-5 * MESSAGES * (1 + fabs(expected)),
			      "float %d: %.9g, %s has %.9g", i, (double)sums[i], module, expected);
		at = end;
	}
	free(m.state);
	folder_free();
}

enum { SERVERS = 2 };

/* A worker of three, whose table lies on two servers. */
struct pushing {
	struct message m;
	struct tables among;
	struct loop loop;
	struct model model;
	struct run run;
	struct worker w;
	struct pushes *k;
};

/* False: such pushes are refused. */
static bool pushing_new(struct pushing *p, const struct codec *codec, const struct strategy *s,
			const struct placement *placement)
{
	static const size_t layer[] = {0, FLOATS};
	*p = (struct pushing){
		.run = {.codec = codec->plugin.name, .codec_feedback = "true", .seed = 3}};
	message_new(&p->m, codec, NULL, NULL);
	if (codec->state || (codec->unbiased && codec->unbiased(p->m.opts)) ||
	    strcmp(codec->plugin.name, "majority") == 0) {
		free(p->m.state);
		return false;
	}
	p->among = (struct tables){.servers = SERVERS, .size = 3, .placement = placement};
	p->among.stats = &p->among.unused;
	p->loop = (struct loop){.tables = &p->among, .strategy = s};
	p->model = (struct model){.layer = layer, .layers = 1, .tensor = tensors, .tensors = 2};
	p->w = (struct worker){.run = &p->run,
			       .codec = codec,
			       .codec_opts = p->m.opts,
			       .model = &p->model,
			       .loop = &p->loop};
	p->k = pushes_new(&p->w, FLOATS, false);
	return true;
}

/* What two servers decode of a worker's pushes, and what the worker keeps, is what was given. */
TEST(feedback_of_pushes_loses_nothing, 1, (int)codecs_listed())
{
	enum { PUSHES = 30, BEFORE = sizeof(int64_t) / sizeof(float) };
	static const struct strategy strategy = {.codes = CODES_PUSHES};
	static const struct placement placement = {.on_servers = true};
	const struct codec *codec = codecs[_i];
	struct pushing given_run;
	if (!pushing_new(&given_run, codec, &strategy, &placement))
		return;
	struct message *m = &given_run.m;
	struct pushes *k = given_run.k;
	double given[FLOATS] = {0}, got[FLOATS] = {0}, most = 0, held = 0;
	uint64_t rng = 2;
	for (int push = 0; push < PUSHES; push++) {
		for (int i = 0; i < FLOATS; i++) {
			m->x[i] = (float)rng_normal(&rng);
			given[i] += (double)m->x[i];
		}
		struct table_op p = {.in = m->x};
		pushes_encode(k, &p);
		for (int j = 0; j < SERVERS; j++) {
			size_t first = part_of(FLOATS, SERVERS, (size_t)j), at;
			struct code c = {.opts = m->opts,
					 .n = part_of(FLOATS, SERVERS, (size_t)j + 1) - first,
					 .common = pushes_common(k),
					 .workers = 1};
			c.tensor = pushes_tensors(k, j, &c.tensors);
			size_t words = pushes_words(k, WAY_PUSH, j, &at);
			ck_assert_uint_eq(words * sizeof(float), codec->bytes(&c));
			ck_assert(codec->decode(&c, m->y, p.message + at, false));
			for (size_t i = 0; i < c.n; i++)
				got[first + i] += (double)m->y[i];
		}
	}
	float kept[BEFORE + FLOATS];
	ck_assert_uint_eq(pushes_keep(k, NULL, false), BEFORE + FLOATS);
	pushes_keep(k, kept, false);
	for (int i = 0; i < FLOATS; i++)
		most = fmax(most, fabs(given[i]));
	for (int i = 0; i < FLOATS; i++) {
		double rest = (double)kept[BEFORE + i];
		held = fmax(held, fabs(rest));
		ck_assert_msg(fabs(given[i] - got[i] - rest) <= 1e-5 * most,
			      "%s: float %d: %g given, %g sent, %g kept", codec->plugin.name, i,
			      given[i], got[i], rest);
	}
	ck_assert_msg(held > 0, "%s keeps nothing", codec->plugin.name);
	pushes_free(k);
}

static struct table_terms makes_a_table(const struct run *run, const void *opts)
{
	(void)run, (void)opts;
	return (struct table_terms){.init = TABLE_MASTER};
}

/* W is at t->at, and gets what the worker itself decodes. */
static char *moves_here(struct table *t, struct table_op *p)
{
	float *w = t->at;
	for (size_t i = 0; i < t->n; i++)
		if (op_pushes(p))
			w[i] += p->by.scale * p->in[i];
		else
			p->out[i] = w[i];
	return NULL;
}

static char *moved_here(struct table *t, struct table_op *p)
{
	(void)t, (void)p;
	return NULL;
}

/* W gains what the model loses, and what a codec has lost comes in a later move: the two come
 * nearer to each other with each. */
TEST(coded_elastic_moves_lose_nothing, 1, (int)codecs_listed())
{
	enum { MOVES = 60 };
	static const struct strategy strategy = {.codes = CODES_MOVES, .terms = makes_a_table};
	static const struct placement placement = {
		.on_servers = true, .start = moves_here, .wait = moved_here};
	const struct codec *codec = codecs[_i];
	struct pushing g;
	if (!pushing_new(&g, codec, &strategy, &placement))
		return;
	float W[FLOATS], sum[FLOATS], *x = g.m.x;
	struct table t = {.among = &g.among,
			  .rules = {.rows = FLOATS,
				    .columns = 1,
				    .updater = updater_find("add"),
				    .pushes = g.k},
			  .n = FLOATS,
			  .at = W};
	for (int i = 0; i < FLOATS; i++) {
		W[i] = 0.5f * sinf((float)i);
		sum[i] = W[i] + x[i];
	}
	double first = norm(x, W, FLOATS), before = first, most = norm(sum, NULL, FLOATS) + first;
	for (int k = 0; k < MOVES; k++) {
		struct table_op p = {
			.kind = OP_ELASTIC, .pull = true, .out = x, .by = {.scale = 0.3f}};
		char *wrong = table_do(&t, &p);
		ck_assert_msg(!wrong, "%s", wrong);
		double apart = norm(x, W, FLOATS);
		ck_assert_msg(apart <= before + 1e-5 * first, "%s: move %d: %g apart, then %g",
			      codec->plugin.name, k, before, apart);
		before = apart;
	}
	ck_assert_msg(before < first, "%s: still %g apart", codec->plugin.name, before);
	for (int i = 0; i < FLOATS; i++)
		ck_assert_msg(fabsf(W[i] + x[i] - sum[i]) <= 1e-6f * (float)most,
			      "%s: float %d: the sum was %g, and is %g", codec->plugin.name, i,
			      (double)sum[i], (double)(W[i] + x[i]));
	ck_assert_int_eq(g.among.unused.pushes, MOVES);
	pushes_free(g.k);
}

/* ---- Runs ---- */

#define MLP \
	"--workload=mlp --mlp.hidden=32 --lr=0.05 --lr-schedule=constant --momentum=0 --batch=24 "
#define SIMULATED "--sim.platform=ethernet_10g --sim.step-time=1ms "

/* What carries what codecs compress: gradients, from MODELS on changes of models, then pairs. */
static const char *const carriers[] = {
	"--strategy=allreduce",
	"--strategy=allreduce --allreduce.overlap=true --allreduce.bucket=1",
	"--strategy=periodic --sync-every=17 --periodic.outer=nesterov --periodic.outer-lr=0.7 "
	"--periodic.start=10",
	"--strategy=periodic --sync-every=17",
	"--strategy=periodic --sync-every=17 --periodic.fragments=2 --periodic.delay=5 "
	"--periodic.mix=0.5",
	"--strategy=easgd --easgd.form=synchronous --sync-every=17",
	"--strategy=gossip --sync-every=17",
};
enum { CARRIERS = sizeof carriers / sizeof *carriers, MODELS = 2, PAIRS = CARRIERS - 1 };

/* More than a default would send of so small a model; majority steps by lr. */
static const char *options_of(const char *codec)
{
	return strcmp(codec, "topk") == 0       ? "--topk.share=0.1"
	       : strcmp(codec, "randomk") == 0  ? "--randomk.share=0.1"
	       : strcmp(codec, "majority") == 0 ? "--lr=0.001"
						: "";
}

static const char *coded(int carrier, const struct codec *codec, int epochs)
{
	return words(MLP "--epochs=%d %s --codec=%s %s", epochs, carriers[carrier],
		     codec->plugin.name, options_of(codec->plugin.name));
}

static bool is_refused(int carrier, const struct codec *codec)
{
	if (carrier >= MODELS && strcmp(codec->plugin.name, "majority") == 0)
		return true;
	double opts[8];
	option_default(codec->plugin.options, opts);
	return carrier == PAIRS &&
	       (codec->rounds > 1 || (codec->unbiased && codec->unbiased(opts)));
}

static int coded_runs(void)
{
	return CARRIERS * ((int)codecs_listed() - 1);
}

CASE("runs", .limit = 300, .set_up = trained_data, .tear_down = folder_free, .once = true);

/* With every codec and strategy: a run learns; its bytes are those of the formula; a simulated run
 * has the same model, bit for bit, and the same bytes. */
TEST(coded_runs_learn_and_equal_simulated_ones, coded_runs())
{
	const struct codec *codec = codecs[1 + _i / CARRIERS];
	int carrier = _i % CARRIERS;
	const char *how = coded(carrier, codec, 2);
	if (is_refused(carrier, codec))
		return;
	/* MPI adds three floats in another order than the simulator, and two alike */
	int n = codec->sums == CODEC_SUMMED ? 2 : 3;
	how = words("%s --batch=%d", how, 72 / n); /* 34 steps an epoch */
	struct result real = carrier == PAIRS ? run_tool(n, how) : train_ok(n, how),
		      simulated = run_simulated(n, words(SIMULATED "%s", how));
	ck_assert_msg(real.status == 0 && simulated.status == 0, "%s: status %d, %d\n%s\n%s", how,
		      real.status, simulated.status, real.output, simulated.output);
	ck_assert_msg(real.test_loss < 0.95 * real.first_test_loss, "%s: test loss %g, %g at first",
		      how, real.test_loss, real.first_test_loss);
	ck_assert_msg(fabs(real.formula - real.bytes) <= 1e-6 * real.bytes + 3,
		      "%s: %.0f bytes, %.17g by the formula", how, real.bytes, real.formula);
	ck_assert_double_eq(simulated.bytes, real.bytes);
	/* pairs end with the mean of three models, which MPI adds up */
	double tolerance = carrier == PAIRS ? 1e-6 : 0;
	ck_assert_msg(distance(&real, &simulated) <= tolerance, "%s: models differ by %g", how,
		      distance(&real, &simulated));
}

/* Its products take time in proportion to the rank: a call of the default makes two passes, each of
 * 1 ns a float without a calibration. */
TEST(simulated_powersgd_takes_the_time_of_its_rank, 2)
{
	const int rank = _i ? 8 : 2, steps = TRAIN_ROWS / (2 * 24), calls = 3;
	const char *how = words(MLP "--epochs=1 --strategy=allreduce --codec=powersgd "
				    "--powersgd.rank=%d --codec.feedback=false " SIMULATED,
				rank);
	struct result r = run_simulated(2, how);
	ck_assert_msg(r.status == 0, "%s: status %d\n%s", how, r.status, r.output);
	double want = 1e-9 * 2 * steps * calls * rank * (double)r.params;
	ck_assert_msg(fabs(r.spent_s[SPENT_HOST] - want) <= 1e-6 * want, "%s: %g s, not %g", how,
		      r.spent_s[SPENT_HOST], want);
}

/* What has pushes, and elastic moves. */
static const char *const pushers[] = {"asgd", "easgd"};

static int pushing_runs(void)
{
	return (int)COUNT(pushers) * ((int)codecs_listed() - 1);
}

/* One worker and one server have one order of pushes: real and simulated models are equal. */
TEST(coded_pushes_learn_and_equal_simulated_ones, pushing_runs())
{
	const struct codec *codec = codecs[1 + _i / COUNT(pushers)];
	const bool moves = _i % COUNT(pushers) == 1;
	double opts[8];
	option_default(codec->plugin.options, opts);
	if (codec->state || strcmp(codec->plugin.name, "majority") == 0 ||
	    (moves && codec->unbiased && codec->unbiased(opts)))
		return; /* refused */
	const char *how = words(MLP "--epochs=2 --strategy=%s --sync-every=4 --workers=1 "
				    "--servers=1 --codec=%s %s",
				pushers[_i % COUNT(pushers)], codec->plugin.name,
				options_of(codec->plugin.name));
	struct result real = train_ok(2, how),
		      simulated = run_simulated(2, words(SIMULATED "%s", how));
	ck_assert_msg(simulated.status == 0, "%s: status %d\n%s", how, simulated.status,
		      simulated.output);
	ck_assert_msg(real.test_loss < 0.95 * real.first_test_loss, "%s: test loss %g, %g at first",
		      how, real.test_loss, real.first_test_loss);
	ck_assert_msg(fabs(real.formula - real.bytes) <= 1e-6 * real.bytes,
		      "%s: %.0f bytes, %.17g by the formula", how, real.bytes, real.formula);
	ck_assert_double_eq(simulated.bytes, real.bytes);
	ck_assert_msg(distance(&real, &simulated) == 0, "%s: models differ by %g", how,
		      distance(&real, &simulated));
}

/* Pulls are messages, too. Workers train on what they decode, in both worlds; the model of the
 * table is evaluated. */
TEST(coded_pulls_learn_and_equal_simulated_ones, 8)
{
	static const struct {
		const char *how, *pull;
	} row[] = {{"asgd --servers=1 --codec=bf16", "true"},
		   {"asgd --servers=1 --codec=int8", "true"},
		   {"downpour --servers=2 --codec=fp8", "true"},
		   {"bsp --bsp.updater=momentum --servers=1 --codec=fp16", "true"},
		   {"asgd --servers=1 --codec=topk --topk.share=0.1", "bf16"},
		   {"ssp --servers=2", "int8:block=64"},
		   {"easgd --servers=1 --codec=int4", "fp16"},
		   {"easgd --servers=2", "bf16"}};
	const char *one =
		words(MLP "--epochs=2 --sync-every=4 --workers=1 --strategy=%s", row[_i].how);
	const char *pulls = words("%s --codec.pull=%s", one, row[_i].pull);
	int ranks = strstr(one, "servers=2") ? 3 : 2;
	struct result plain = train_ok(ranks, one), real = train_ok(ranks, pulls),
		      simulated = run_simulated(ranks, words(SIMULATED "%s", pulls));
	ck_assert_msg(simulated.status == 0, "%s: status %d\n%s", pulls, simulated.status,
		      simulated.output);
	ck_assert_msg(real.test_loss < 0.95 * real.first_test_loss, "%s: test loss %g, %g at first",
		      pulls, real.test_loss, real.first_test_loss);
	ck_assert_double_lt(real.bytes, 0.76 * plain.bytes);
	ck_assert_double_eq(simulated.bytes, real.bytes);
	ck_assert_msg(distance(&real, &plain) > 1e-7, "%s: pulls lose nothing", pulls);
	ck_assert_msg(distance(&real, &simulated) == 0, "%s: models differ by %g", pulls,
		      distance(&real, &simulated));
}

/* Without servers a worker decodes what it would get. */
TEST(pulls_without_servers_are_decoded, 3)
{
	static const struct {
		const char *how, *pull;
		double bytes; /* a share of those with pulls of floats */
	} row[] = {{"bsp --codec=int4", "true", 0.25},
		   {"easgd --codec=int4", "true", 0.25},
		   {"bsp", "int4", 0.6}};
	const char *one =
		words(MLP "--epochs=1 --deal=static --sync-every=5 --strategy=%s", row[_i].how);
	struct result plain = train_ok(2, one),
		      pulls = train_ok(2, words("%s --codec.pull=%s", one, row[_i].pull));
	ck_assert_msg(distance(&plain, &pulls) > 1e-4, "pulls lose %g", distance(&plain, &pulls));
	ck_assert_msg(pulls.test_loss < 0.95 * pulls.first_test_loss, "test loss %g, %g at first",
		      pulls.test_loss, pulls.first_test_loss);
	ck_assert_msg(fabs(pulls.formula - pulls.bytes) <= 1e-6 * pulls.bytes + 3,
		      "%.0f bytes, %.17g by the formula", pulls.bytes, pulls.formula);
	ck_assert_double_lt(pulls.bytes, row[_i].bytes * plain.bytes);
}

/* The same codec by another name; and one that loses nothing of the pushes. */
TEST(pulls_by_name_equal_those_by_the_codec_of_pushes)
{
#define SERVED MLP "--epochs=1 --sync-every=5 --strategy=asgd --workers=1 --servers=1 "
	static const char *const how[] = {
		SERVED "--codec=int8 --codec.pull=int8",
		SERVED "--codec=int8 --codec.pull=true",
		SERVED "--codec=int8:block=64 --codec.pull=int8:block=64",
		SERVED "--codec=int8:block=64 --codec.pull=true",
		SERVED "--codec=topk:share=1 --codec.pull=bf16",
		SERVED "--codec.pull=bf16",
		SERVED "--codec.pull=none",
		SERVED,
	};
	expect_pairs(2, COUNT(how) / 2, how, 0);
}

/* A server decodes what a worker decodes itself where there is none. Two pushes have one sum. */
TEST(placements_have_the_same_coded_pushes, 4)
{
	static const char *const how[] = {"bsp --codec=int4", "bsp --codec=topk --topk.share=0.1",
					  "ssp --ssp.bound=0 --codec=randomk --randomk.share=0.1",
					  "bsp --bsp.updater=momentum --codec=sign"};
	const char *one = words(MLP "--epochs=1 --sync-every=5 --strategy=%s", how[_i]);
	struct result server = train_ok(3, words("%s --workers=2 --servers=1", one)),
		      shared = train_ok(2, one),
		      simulated =
			      run_simulated(3, words(SIMULATED "%s --workers=2 --servers=1", one)),
		      /* momentum needs W where the push is: one machine, or servers */
		near = _i < 3 ? run_simulated(2, words(SIMULATED "%s", one)) : shared;
	ck_assert_int_eq(simulated.status, 0);
	ck_assert_double_eq(server.bytes, simulated.bytes);
	ck_assert_double_eq(shared.bytes, near.bytes);
	ck_assert_msg(fabs(shared.formula - shared.bytes) <= 1e-6 * shared.bytes + 3,
		      "%s: %.0f bytes, %.17g by the formula", one, shared.bytes, shared.formula);
	ck_assert_msg(distance(&server, &shared) <= 1e-5, "%s: models differ by %g", one,
		      distance(&server, &shared));
	ck_assert_msg(distance(&server, &simulated) <= 1e-5, "%s: simulated models differ by %g",
		      one, distance(&server, &simulated));
	ck_assert_msg(distance(&shared, &near) <= 1e-5, "%s: simulated models differ by %g", one,
		      distance(&shared, &near));
}

/* One worker sends nothing: it trains as without a codec. Votes are for allreduce, and powersgd for
 * sums. */
TEST(one_worker_loses_nothing, 1, (int)codecs_listed())
{
	static const char *const strategy[] = {
		"allreduce",
		"periodic --sync-every=25 --periodic.outer=nesterov --periodic.outer-lr=0.7",
		"easgd --easgd.form=synchronous --sync-every=10", "asgd --sync-every=5"};
	const char *name = codecs[_i]->plugin.name, *how[2 * COUNT(strategy)];
	size_t n = strcmp(name, "majority") == 0 ? 1 : COUNT(strategy) - !!codecs[_i]->state;
	for (size_t i = 0; i < n; i++) {
		how[2 * i + 1] = words(MLP "--epochs=1 --strategy=%s", strategy[i]);
		how[2 * i] = words("%s --codec=%s", how[2 * i + 1], name);
	}
	expect_pairs(1, n, how, 0);
}

/* Bytes by hand, from the number of parameters P = 25,450: in 34 steps of 3 workers. */
TEST(bytes_are_those_of_the_encoding)
{
	static const struct {
		const char *codec;
		double bytes; /* of a step, of all workers */
	} row[] = {
		{"--codec=topk --topk.share=0.01", 3 * 2 * 8 * 255.0},
		/* 41 floats of each of 6 chunks, 9 of the last one: of 14 bits each, and two scales
		 */
		{"--codec=topk --topk.of=chunks --topk.bits=2",
		 3 * 2 * 4 * (6 * (2 + 18) + 2 + 4.0)},
		{"--codec=sign", 3 * 2 * (4 * 4 + 4 * 796.0)},
		{"--codec=randomk --randomk.share=0.01", 2 * 2 * 4 * 255.0},
		/* parts of 33, 33 and 34 blocks of 256 floats; the last has 106 */
		{"--codec=int8", 2 * 2 * (25450 + 2 + 4 * 100.0)},
		/* (784 + 32) x 2 and (32 + 10) x 2 floats, 42 biases */
		{"--codec=powersgd", 2 * 2 * 4 * (2 * (784 + 32) + 2 * (32 + 10) + 42.0)},
	};
	const char *how[COUNT(row)];
	struct result r[COUNT(row)];
	for (size_t i = 0; i < COUNT(row); i++)
		how[i] = words(MLP "--epochs=1 --strategy=allreduce %s", row[i].codec);
	train_all(3, COUNT(row), how, r);
	for (size_t i = 0; i < COUNT(row); i++) {
		ck_assert_uint_eq(r[i].params, 25450);
		ck_assert_msg(r[i].bytes == 34 * row[i].bytes, "%s: %.0f bytes, not %.0f",
			      row[i].codec, r[i].bytes, 34 * row[i].bytes);
	}
}

/* 25 pushes and pulls in 100 steps; a server's part is 12,725 floats. */
TEST(pushes_have_the_bytes_of_the_encoding, 9)
{
	static const double floats = 4 * 25450.0;
	static const struct {
		const char *how;
		int ranks;
		double push, pull; /* bytes */
	} row[] = {
		{"--workers=1 --servers=1 --codec=int8", 2, 25452 + 4 * 100.0, floats},
		{"--workers=1 --servers=2 --codec=int8", 3, 2 * (12728 + 4 * 50.0), floats},
		{"--workers=1 --servers=2 --codec=topk --topk.share=0.01", 3, 2 * 8 * 128.0,
		 floats},
		{"--workers=1 --servers=2 --codec=int8 --codec.pull=true", 3,
		 2 * (12728 + 4 * 50.0), 2 * (12728 + 4 * 50.0)},
		{"--workers=1 --servers=1 --codec=bf16 --codec.pull=true", 2, floats / 2,
		 floats / 2},
		{"--workers=1 --servers=1 --codec=topk --topk.share=0.01 --codec.pull=bf16", 2,
		 8 * 255.0, floats / 2},
		{"--workers=1 --servers=2 --codec.pull=int8:block=64", 3, floats,
		 2 * (12728 + 4 * 199.0)},
		{"--strategy=easgd --workers=1 --servers=1 --codec=int8", 2, 25452 + 4 * 100.0,
		 floats},
		{"--strategy=easgd --workers=1 --servers=2 --codec=int8 --codec.pull=true", 3,
		 2 * (12728 + 4 * 50.0), 2 * (12728 + 4 * 50.0)},
	};
	struct result r = train_ok(
		row[_i].ranks,
		words(MLP "--epochs=1 --strategy=downpour --sync-every=4 %s", row[_i].how));
	ck_assert_double_eq(r.bytes, 25 * (row[_i].push + row[_i].pull));
	ck_assert_msg(fabs(r.formula - r.bytes) <= 1e-6 * r.bytes, "%s: %.17g bytes by the formula",
		      row[_i].how, r.formula);
}

/* What is not lost is not changed: the sum of two floats has one order. */
TEST(all_of_the_floats_are_the_uncompressed_run)
{
#define PLAIN MLP "--epochs=1 --strategy=allreduce"
	static const char *const how[] = {PLAIN " --codec=topk --topk.share=1",
					  PLAIN,
					  PLAIN " --codec=topk --topk.share=1 --topk.of=tensors",
					  PLAIN,
					  PLAIN " --codec=randomk --randomk.share=1",
					  PLAIN};
	expect_pairs(2, 3, how, 0);
}

/* A codec of single floats does not see where buckets end. */
TEST(buckets_change_no_float_of_bf16)
{
	expect_same(3, MLP "--epochs=1 --strategy=allreduce --codec=bf16", 3,
		    MLP "--epochs=1 --strategy=allreduce --codec=bf16 --allreduce.overlap=true "
			"--allreduce.bucket=1KiB",
		    0);
}

/* Its path is that of many fragments: the mix changes no float but a 0. */
TEST(one_fragment_is_the_whole_model)
{
	static const char *const codec[] = {"--codec=fp4", "--codec=powersgd",
					    "--codec=topk --topk.of=tensors --topk.share=0.1"};
	const char *how[2 * COUNT(codec)];
	for (size_t i = 0; i < COUNT(codec); i++) {
		char *whole = words(MLP "--epochs=1 --strategy=periodic --sync-every=10 "
					"--periodic.outer=nesterov %s",
				    codec[i]);
		how[2 * i] = words("%s --periodic.mix=1e-30", whole);
		how[2 * i + 1] = whole;
	}
	expect_pairs(2, COUNT(codec), how, 1e-12);
}

/* Over all workers and steps, what was given is what was summed and what is kept. */
TEST(feedback_loses_nothing, 1, (int)codecs_listed())
{
	const struct codec *codec = codecs[_i];
	double off, size, kept;
	if (codec->unbiased && !codec->feedback)
		return; /* it may lose more than it is given, and is refused */
	if (strcmp(codec->plugin.name, "majority") == 0)
		return; /* a vote has no size: its own refusal */
	setenv("MVBENCH_PROBE", "coded", 1);
	struct result r = run_tool(3, words("%s --codec.feedback=true", coded(0, codec, 1)));
	unsetenv("MVBENCH_PROBE");
	const char *line = strstr(r.output, "ledger ");
	ck_assert_msg(r.status == 0 && line, "%s: status %d\n%s", codec->plugin.name, r.status,
		      r.output);
	ck_assert_int_eq(sscanf(line, "ledger %lf of %lf kept %lf", &off, &size, &kept), 3);
	ck_assert_msg(off <= 1e-5 * size, "%s: %g of %g is lost", codec->plugin.name, off, size);
	ck_assert_msg(kept > 0, "%s: nothing is kept", codec->plugin.name);
}

/* Without learning, averaging in pairs does not change the mean over the workers, which is
 * evaluated; and what a codec loses comes later: the models become equal. */
TEST(pairs_keep_the_mean, 3)
{
	static const char *const codec[] = {"--codec=int4", "--codec=topk --topk.share=0.1",
					    "--codec=randomk --randomk.share=0.1"};
	struct result r = run_tool(2, words(MLP "--epochs=4 --strategy=gossip --sync-every=1 "
						"--lr-schedule=step:1:x1e-30 %s",
					    codec[_i]));
	double test, first = 0;
	int e, n = 0;
	ck_assert_int_eq(r.status, 0);
	for (const char *line = r.output; (line = strstr(line, "\nepoch ")); line++) {
		if (sscanf(line, "\nepoch %d bytes %*f formula %*f train %*f test %lf", &e,
			   &test) != 2 ||
		    e < 1)
			continue;
		first = e == 1 ? test : first;
		ck_assert_msg(fabs(test - first) <= 1e-5 * first, "%s: test loss %.9g, then %.9g",
			      codec[_i], first, test);
		n++;
	}
	ck_assert_int_ge(n, 3);
	ck_assert_double_lt(first, 0.95 * r.first_test_loss);
	ck_assert_msg(r.spread <= 1e-4, "%s: the models differ by %g", codec[_i], r.spread);
}

/* ---- Refusals ---- */

CASE("refusals");

TEST(codecs_without_meaning_are_refused, 40)
{
	static const struct {
		struct setting set[4];
		const char *says; /* NULL: accepted */
	} row[] = {
		{{{"codec", "topkk"}}, "--codec=topkk: unknown name; did you mean topk?"},
		{{{"codec", "topk"}, {"strategy", "serial"}}, "--codec=topk: serial sends nothing"},
		{{{"codec", "int8"}, {"strategy", "model_parallel"}, {"workers", "2"}},
		 "--codec=int8: model_parallel sends nothing"},
		{{{"codec", "topk"}, {"strategy", "sparta"}, {"workers", "2"}},
		 "--codec=topk: sparta sends nothing"},
		{{{"codec", "sign"}, {"strategy", "adpsgd"}, {"workers", "2"}},
		 "--codec=sign: adpsgd sends nothing"},
		{{{"codec", "bf16"},
		  {"strategy", "hybrid"},
		  {"workers", "4"},
		  {"hybrid.group", "2"}},
		 "--codec=bf16: hybrid sends nothing"},
		{{{"codec", "int8"}, {"strategy", "adasum"}, {"workers", "2"}},
		 "--codec=int8: adasum sends nothing"},
		{{{"codec", "sign"}, {"strategy", "easgd"}}, NULL},
		{{{"codec", "int8"}, {"strategy", "easgd"}, {"codec.pull", "true"}}, NULL},
		{{{"codec", "powersgd"}, {"strategy", "easgd"}, {"workers", "2"}},
		 "--codec=powersgd: it needs sums over all workers"},
		{{{"codec", "powersgd"},
		  {"strategy", "easgd"},
		  {"easgd.form", "synchronous"},
		  {"workers", "2"}},
		 NULL},
		{{{"codec", "qsgd"}, {"strategy", "easgd"}}, "models keep what it loses"},
		{{{"codec", "sign"}, {"strategy", "easgd"}, {"codec.feedback", "false"}},
		 "stays in the difference from the centre"},
		{{{"codec", "int8"},
		  {"strategy", "easgd"},
		  {"easgd.form", "synchronous"},
		  {"codec.pull", "true"}},
		 "easgd pulls no model from a table"},
		{{{"codec", "powersgd"}, {"strategy", "gossip"}, {"workers", "2"}},
		 "--codec=powersgd: it needs sums over all workers"},
		{{{"codec", "sign"}, {"strategy", "gossip"}, {"codec.feedback", "false"}},
		 "--codec.feedback=false: a pair of gossip"},
		{{{"codec", "powersgd"}, {"strategy", "asgd"}, {"workers", "2"}},
		 "asgd has pushes of single workers"},
		{{{"codec", "majority"}, {"strategy", "bsp"}, {"workers", "2"}},
		 "what bsp adds up has one"},
		{{{"codec.feedback", "true"}, {"strategy", "allreduce"}},
		 "--codec.feedback=true: there is no codec"},
		{{{"codec", "majority"}, {"strategy", "allreduce"}, {"codec.feedback", "true"}},
		 "--codec.feedback=true: a vote has no size"},
		{{{"codec", "majority"}, {"strategy", "periodic"}, {"workers", "2"}},
		 "use --codec=sign"},
		{{{"codec", "randomk"},
		  {"strategy", "allreduce"},
		  {"codec.feedback", "true"},
		  {"randomk.unbiased", "true"}},
		 "right on average"},
		{{{"codec", "qsgd"}, {"strategy", "gossip"}}, "pairs keep what it loses"},
		{{{"codec", "qsgd"}, {"strategy", "allreduce"}, {"codec.feedback", "true"}},
		 "leave --codec.feedback out"},
		{{{"codec", "bf16"}, {"strategy", "gossip"}}, NULL},
		{{{"codec", "topk"}, {"strategy", "allreduce"}, {"topk.bits", "2"}},
		 "--topk.bits=2: values have fewer than 32 bits only with --topk.of=chunks"},
		{{{"codec", "topk"},
		  {"strategy", "allreduce"},
		  {"topk.of", "chunks"},
		  {"topk.bits", "2"}},
		 NULL},
		{{{"codec.pull", "true"}, {"strategy", "asgd"}, {"workers", "2"}},
		 "there is no codec for pulls"},
		{{{"codec", "int8"}, {"codec.pull", "true"}, {"strategy", "allreduce"}},
		 "allreduce pulls no model from a table"},
		{{{"codec", "topk"}, {"codec.pull", "true"}, {"strategy", "asgd"}},
		 "by codec topk would not keep all its floats"},
		{{{"codec", "int8"},
		  {"codec.pull", "true"},
		  {"strategy", "asgd"},
		  {"int8.rounding", "stochastic"}},
		 "by codec int8 would not keep"},
		{{{"codec", "int8"}, {"codec.pull", "true"}, {"strategy", "asgd"}}, NULL},
		{{{"codec.pull", "bf16"}, {"strategy", "allreduce"}},
		 "--codec.pull=bf16: allreduce pulls no model from a table"},
		{{{"codec.pull", "topk:share=0.5"}, {"strategy", "asgd"}},
		 "--codec.pull=topk:share=0.5: a model that travels by codec topk would not keep"},
		{{{"codec.pull", "int8:rounding=stochastic"}, {"strategy", "asgd"}},
		 "by codec int8 would not keep"},
		{{{"codec", "topk"}, {"codec.pull", "bf16"}, {"strategy", "asgd"}}, NULL},
		{{{"codec.pull", "int8:block=64"}, {"strategy", "easgd"}, {"workers", "2"}}, NULL},
		{{{"codec.pull", "int8:block=12"}, {"strategy", "asgd"}},
		 "--block=12: give a multiple of 8"},
		{{{"codec", "int8"}, {"strategy", "allreduce"}, {"int8.block", "12"}},
		 "--block=12: give a multiple of 8"},
		{{{"codec", "int8"}, {"strategy", "allreduce"}, {"int8.block", "16"}}, NULL},
	};
	struct config c = {0};
	size_t n = 0;
	while (n < 4 && row[_i].set[n].name)
		n++;
	char *wrong AUTOFREE = config_init(&c, row[_i].set, n, false);
	if (!wrong)
		wrong = plan_refuse(&c);
	ck_assert_msg(row[_i].says ? wrong && strstr(wrong, row[_i].says) : !wrong,
		      "\"%s\" does not say \"%s\"", wrong ? wrong : "",
		      row[_i].says ? row[_i].says : "");
	config_fini(&c);
}
