/*
 * topk.c - the k floats with the largest |x|, and their places (Stich, Cordonnier, Jaggi, arXiv
 * 1809.07599; Lin et al., arXiv 1712.01887, use it with 0.1 % and by layer).
 *
 *   k = ceil(share n)     of all n floats of a message, or of those of each tensor or chunk
 *
 * Of equal |x| the first ones are sent. A message is k places, then k floats: 8 k bytes. Workers
 * gather the messages of all, because their places differ.
 *
 * Chunks are of 4096 floats, where a place has 12 bits. Values may then have few bits, too:
 * SparseLoCo (Sarfi et al., arXiv 2508.15706) sends 1 to 3 % of the floats of chunks, with 2 bits.
 * This quantiser is not theirs: B bits are a sign and a part of the range of sizes.
 *
 *   l, m: the smallest and largest |x| sent of a chunk;  L = 2^(B - 1);  d = (m - l) / L
 *   j = floor((|x| - l) / d), at most L - 1;  decoded: sign(x) (l + (j + 1/2) d)
 *
 * A chunk is l and m, then k places, then k values, in whole words: about (12 + B) k / 8 + 8 bytes.
 *
 * The k-th largest is found exactly: |x| as a number of 31 bits is cut into three digits, and a
 * histogram of each tells the next one. That is three passes of reads; a fourth collects. Of many
 * floats with a small k, a sample first tells which are too small: two passes are then enough. With
 * threshold=sampled, one is enough: of a random sample, it takes the (s - 2.5 sqrt(s))-th largest,
 * where s is the number of the k largest that the sample has on average. The floats from this size
 * on are sent, at most k. Places n and zeros fill the message.
 */
#include "strategies/codecs/tiles.h"

struct topk_opts {
	double share;
	const char *of;
	int64_t bits;
	const char *threshold;
};

#define OWNER struct topk_opts
static const struct option topk_options[] = {
	OPTION(share, REAL, "share", "0.01", "part of the floats that is sent [factor]",
	       .min = 1e-9, .max = 1),
	OPTION(of, CHOICE, "of", "all",
	       "the largest of all floats together, of each tensor, or of each 4096 floats [name]",
	       .choices = "all|tensors|chunks"),
	OPTION(bits, INT, "bits", "32",
	       "of a value that is sent; below 32 with --topk.of=chunks [bits]", .min = 2,
	       .max = 32),
	OPTION(threshold, CHOICE, "threshold", "exact",
	       "exact: the k largest; sampled: fewer, by the threshold of a sample, of many floats "
	       "with a share of at most 1/16 [name]",
	       .choices = "exact|sampled"),
	{0},
};

static bool is_of(const void *opts, const char *what)
{
	const struct topk_opts *o = opts;
	return strcmp(o->of, what) == 0;
}

static bool is_sampled(const void *opts)
{
	const struct topk_opts *o = opts;
	return strcmp(o->threshold, "sampled") == 0;
}

static bool by_tensor(const struct code *c)
{
	return is_of(c->opts, "tensors");
}

static char *topk_refuse(const struct run *run, const void *opts)
{
	const struct topk_opts *o = opts;
	(void)run;
	return o->bits == 32 || is_of(opts, "chunks")
		       ? NULL
		       : sentence("--topk.bits=%d: values have fewer than 32 bits only with "
				  "--topk.of=chunks; give that too",
				  (int)o->bits);
}

static size_t kept_of(const struct code *c, size_t n)
{
	const struct topk_opts *o = c->opts;
	double k = ceil(o->share * (double)n * (1 - 1e-12)); /* 0.1 of 30 is 3 */
	return k < 1 ? n > 0 : k < (double)n ? (size_t)k : n;
}

static size_t topk_kept(const struct code *c)
{
	size_t k = 0;
	for (size_t i = 0; by_tensor(c) && i < c->tensors; i++)
		k += kept_of(c, c->tensor[i].rows * c->tensor[i].columns);
	return by_tensor(c) ? k : kept_of(c, c->n);
}

enum { CHUNK = 4096, PLACE_BITS = 12 };

static unsigned bits_of_values(const struct code *c)
{
	const struct topk_opts *o = c->opts;
	return (unsigned)o->bits;
}

static size_t chunk_words(const struct code *c, size_t n)
{
	size_t b = bits_of_values(c);
	if (n == 0)
		return 0;
	return (b < 32 ? 2 : 0) + (kept_of(c, n) * (PLACE_BITS + b) + 31) / 32;
}

static size_t topk_bytes(const struct code *c)
{
	if (is_of(c->opts, "chunks"))
		return sizeof(float) *
		       (c->n / CHUNK * chunk_words(c, CHUNK) + chunk_words(c, c->n % CHUNK));
	return 2 * sizeof(float) * topk_kept(c);
}

enum { DIGIT = 11, DIGITS = 1 << DIGIT, SAMPLES = 16384, BLOCK = 32 };

/* The k-th largest |x| of n; *equal: how many of that size are among the k largest. */
static uint32_t threshold(const float *x, size_t n, size_t k, size_t *equal)
{
	uint32_t prefix = 0, shift = 20;
	for (int pass = 0; pass < 3; pass++, shift = pass == 1 ? 9 : 0) {
		/* digits of 11, 11 and 9 bits; the bits above are those of prefix */
		uint32_t count[2][DIGITS] = {{0}}, width = pass < 2 ? DIGIT : 9;
		uint32_t above = shift + width, mask = (1u << width) - 1;
		if (pass ==
		    0) { /* two histograms: equal digits in a row would wait for each other */
			for (size_t i = 0; i < n; i++)
				count[i & 1][size_of(x, i) >> shift]++;
		} else {
			for (size_t i = 0; i < n; i++)
				if (size_of(x, i) >> above == prefix >> above)
					count[0][size_of(x, i) >> shift & mask]++;
		}
		uint32_t d = mask;
		for (; d > 0 && count[0][d] + count[1][d] < k; d--)
			k -= count[0][d] + count[1][d];
		prefix |= d << shift;
	}
	*equal = k;
	return prefix;
}

/* Floats of at least this size are probably some more than k, and fewer than 2 k; with a key, of a
 * random sample, probably some fewer than k. 0: not worth it. */
static uint32_t guess(const float *x, size_t n, size_t k, uint64_t key)
{
	float sample[SAMPLES];
	size_t stride = n / SAMPLES, equal;
	double expected = SAMPLES * (double)k / (double)n;
	if (stride < 8 || k > n / 16)
		return 0;
	for (size_t i = 0; i < SAMPLES; i++)
		sample[i] = x[i * stride + (key ? code_bits(key, i) % stride : 0)];
	double rank = expected + (key ? -2.5 : 2.5) * sqrt(expected) + (key ? 0 : 2);
	return threshold(sample, SAMPLES, rank > 1 ? (size_t)rank : 1, &equal);
}

/* The same as threshold, mostly in one pass: of the floats that a guess leaves, which `room`, of 2
 * k floats or NULL, keeps. */
static uint32_t threshold_of_few(const float *x, size_t n, size_t k, size_t *equal, float *room)
{
	uint32_t least = room ? guess(x, n, k, 0) : 0;
	size_t found = 0;
	for (size_t at = 0; least > 0 && at < n && found <= 2 * k; at += BLOCK) {
		size_t end = n - at < BLOCK ? n : at + BLOCK;
		uint32_t mask = mask_at_least(x + at, end - at, least);
		for (; mask; mask &= mask - 1, found++)
			if (found < 2 * k)
				room[found] = x[at + (size_t)__builtin_ctz(mask)];
	}
	return found >= k && found <= 2 * k ? threshold(room, found, k, equal)
					    : threshold(x, n, k, equal);
}

/* Returns their number. key 0: k. */
static size_t topk_choose(uint32_t *place, float *value, const float *x, size_t first, size_t n,
			  size_t k, float *room, uint64_t key)
{
	size_t equal = k, found = 0;
	x += first;
	if (k == 0)
		return 0;
	uint32_t least = key ? guess(x, n, k, key) : 0;
	if (least == 0)
		least = threshold_of_few(x, n, k, &equal, room);
	for (size_t at = 0; at < n && found < k; at += BLOCK) {
		size_t end = n - at < BLOCK ? n : at + BLOCK;
		uint32_t mask = mask_at_least(x + at, end - at, least);
		for (; mask && found < k; mask &= mask - 1) {
			size_t i = at + (size_t)__builtin_ctz(mask);
			bool tie = size_of(x, i) == least;
			if (tie && equal == 0)
				continue;
			equal -= tie;
			place[found] = (uint32_t)(first + i);
			value[found++] = x[i];
		}
	}
	return found;
}

/* Numbers of few bits, one after the other in words. */
struct few {
	uint32_t *word;
	uint64_t held;
	unsigned n; /* below 32: bits that are held */
};

static inline void few_put(struct few *f, uint32_t x, unsigned bits)
{
	f->held |= (uint64_t)x << f->n;
	for (f->n += bits; f->n >= 32; f->n -= 32, f->held >>= 32)
		*f->word++ = (uint32_t)f->held;
}

static inline uint32_t few_get(struct few *f, unsigned bits)
{
	if (f->n < bits) {
		f->held |= (uint64_t)*f->word++ << f->n;
		f->n += 32;
	}
	uint32_t x = (uint32_t)(f->held & ((1ull << bits) - 1));
	f->held >>= bits;
	f->n -= bits;
	return x;
}

/* |x| of the smallest and the largest; NaN is the largest. */
struct sizes {
	float least, most;
};

static float step_of(struct sizes s, unsigned bits)
{
	return (s.most - s.least) / (float)(1u << (bits - 1));
}

static uint32_t value_code(float x, struct sizes s, unsigned bits)
{
	uint32_t last = (1u << (bits - 1)) - 1, word;
	memcpy(&word, &x, sizeof word);
	if (bits == 32)
		return word;
	float part = (fabsf(x) - s.least) / step_of(s, bits); /* no number: all sizes are equal */
	uint32_t j = part < (float)last ? (uint32_t)part : last;
	return j | (word >> 31) << (bits - 1);
}

static float value_of(uint32_t code, struct sizes s, unsigned bits)
{
	float x;
	if (bits == 32) {
		memcpy(&x, &code, sizeof x);
		return x;
	}
	uint32_t negative = code >> (bits - 1), j = code & ((1u << (bits - 1)) - 1);
	x = s.least + ((float)j + 0.5f) * step_of(s, bits);
	return negative ? -x : x;
}

static void chunk_encode(const struct code *c, uint32_t *wire, const float *x, size_t n)
{
	uint32_t place[CHUNK];
	float value[CHUNK];
	const unsigned bits = bits_of_values(c);
	size_t k = kept_of(c, n);
	struct few f = {.word = wire};
	struct sizes s = {.least = INFINITY, .most = 0};
	topk_choose(place, value, x, 0, n, k, NULL, 0);
	for (size_t i = 0; i < k; i++) {
		float size = fabsf(value[i]);
		s.least = size < s.least ? size : s.least;
		s.most = size > s.most || isnan(size) ? size : s.most;
	}
	if (bits < 32) {
		memcpy(f.word, &s, sizeof s);
		f.word += sizeof s / sizeof *f.word;
	}
	for (size_t i = 0; i < k; i++)
		few_put(&f, place[i], PLACE_BITS);
	for (size_t i = 0; i < k; i++)
		few_put(&f, value_code(value[i], s, bits), bits);
	if (f.n > 0)
		*f.word = (uint32_t)f.held;
}

/* y += what was sent. false: the places do not rise, or end outside. */
static bool chunk_add(const struct code *c, float *y, const uint32_t *wire, size_t n)
{
	uint32_t place[CHUNK];
	const unsigned bits = bits_of_values(c);
	size_t k = kept_of(c, n);
	struct few f = {.word = (uint32_t *)(uintptr_t)wire}; /* is only read */
	struct sizes s = {.least = 0};
	if (bits < 32) {
		memcpy(&s, f.word, sizeof s);
		f.word += sizeof s / sizeof *f.word;
	}
	for (size_t i = 0; i < k; i++) {
		place[i] = few_get(&f, PLACE_BITS);
		if (place[i] >= n || (i > 0 && place[i] <= place[i - 1]))
			return false;
	}
	for (size_t i = 0; i < k; i++)
		y[place[i]] += value_of(few_get(&f, bits), s, bits);
	return true;
}

static bool chunks_decode(const struct code *c, float *y, const uint32_t *wire, bool add)
{
	if (!add)
		memset(y, 0, c->n * sizeof *y);
	for (size_t at = 0; at < c->n; at += CHUNK) {
		size_t n = smaller_of(CHUNK, c->n - at);
		if (!chunk_add(c, y + at, wire, n))
			return false;
		wire += chunk_words(c, n);
	}
	return true;
}

static void chunks_encode(const struct code *c, uint32_t *wire, const float *x)
{
	for (size_t at = 0; at < c->n; at += CHUNK) {
		size_t n = smaller_of(CHUNK, c->n - at);
		chunk_encode(c, wire, x + at, n);
		wire += chunk_words(c, n);
	}
}

static void topk_encode(const struct code *c, void *wire, const float *x)
{
	if (is_of(c->opts, "chunks")) {
		chunks_encode(c, wire, x);
		return;
	}
	size_t all = topk_kept(c);
	uint32_t *place = wire;
	float *value = (float *)wire + all;
	const uint64_t key = is_sampled(c->opts) ? c->key | 1 : 0;
	if (!by_tensor(c))
		place += topk_choose(place, value, x, 0, c->n, all, wire, key);
	for (size_t i = 0, left = all; by_tensor(c) && i < c->tensors; i++) {
		size_t n = c->tensor[i].rows * c->tensor[i].columns, k = kept_of(c, n);
		float *room = 2 * k <= left ? value : NULL;
		size_t found = topk_choose(place, value, x, c->tensor[i].first, n, k, room, key);
		place += found;
		value += found;
		left -= k;
	}
	for (; place < (uint32_t *)wire + all; place++) {
		*place = (uint32_t)c->n;
		place[all] = 0;
	}
}

/* Places rise: none comes twice, and none is outside. */
static bool topk_decode(const struct code *c, float *y, const void *wire, bool add)
{
	if (is_of(c->opts, "chunks"))
		return chunks_decode(c, y, wire, add);
	size_t k = topk_kept(c);
	const uint32_t *place = wire;
	const float *value = (const float *)wire + k;
	while (is_sampled(c->opts) && k > 0 && place[k - 1] == c->n)
		k--;
	for (size_t i = 0; i < k; i++)
		if (place[i] >= c->n || (i > 0 && place[i] <= place[i - 1]))
			return false;
	for (size_t i = 0; add && i < k; i++)
		y[place[i]] += value[i];
	for (size_t at = 0, i = 0; !add && at < c->n; at += TILE) {
		size_t end = smaller_of(at + TILE, c->n);
		float some[TILE] = {0};
		for (; i < k && place[i] < end; i++)
			some[place[i] - at] = value[i];
		tile_put(y + at, some, end - at, false, c->n);
	}
	tiles_end();
	return true;
}

static bool topk_feedback(const void *opts)
{
	(void)opts;
	return true;
}

static struct code_form topk_form(const void *opts)
{
	return (struct code_form){.kind = is_of(opts, "all") && !is_sampled(opts) ? FORM_TOPK
										  : FORM_HOST};
}

const struct codec codec_topk = {
	.plugin = {.name = "topk",
		   .summary = "the largest floats and their places",
		   .options = topk_options,
		   .opts_size = sizeof(struct topk_opts)},
	.refuse = topk_refuse,
	.sums = CODEC_GATHERED,
	.feedback = topk_feedback,
	.bytes = topk_bytes,
	.encode = topk_encode,
	.decode = topk_decode,
	.form = topk_form,
	.encode_passes = 0.9,
	.decode_passes = 0.25,
};
