/*
 * codec.h - the interface of a codec. Part of mvbench.h, which includes it.
 */
#ifndef CODEC_H
#define CODEC_H

/* ---- Codecs: strategies/codecs/NAME.c defines codec_NAME; codec.c there lists it. ----
 *
 * A codec turns floats into the bytes that travel in their place, and back. It is code of the host,
 * without state of its own; what it keeps is in code.state. GPUs have kernels for some forms of
 * messages. Error feedback is not its work: the core keeps x - decoded(encoded(x)) and adds it to
 * the next x. */

struct code { /* one message, or the codec's part of it */
	const void *opts;
	size_t n; /* its floats */
	/* They are whole tensors: tensor[i].first counts from the message's first float. A part of
	 * a scattered sum is one row. */
	const struct tensor *tensor;
	size_t tensors;
	/* Seeds of random numbers: of this worker and message; the same on all workers. */
	uint64_t key, common;
	int workers; /* whose messages are added up */
	bool total;  /* it is the sum of theirs, in the second half of a scattered sum */
	/* Of a codec with rounds: this round, from 0; what the last round has summed; what the
	 * codec keeps for these floats. */
	int round;
	const float *sum;
	float *state;
};

/* How a GPU makes and reads the same messages, bit for bit (runtime/device/cuda/code.cu). */
enum code_kind {
	FORM_HOST, /* it has no kernel: the host does it */
	FORM_BF16, /* two floats in each word */
	FORM_FP16,
	FORM_BLOCKS,  /* a scale for each block, then integers: strategies/codecs/blocks.h */
	FORM_SIGNS,   /* of sign.c */
	FORM_RANDOMK, /* of randomk.c */
	FORM_TOPK     /* of topk.c, of all floats together */
};
struct code_form {
	enum code_kind kind;
	int bits;        /* of an integer: 4 or 8 */
	size_t block;    /* [floats] */
	bool stochastic; /* rounding of the integers */
	bool unbiased;   /* floats in random places are multiplied by the length of their part */
};

struct codec {
	struct plugin plugin;
	/* NULL = accepts all configurations. Returns NULL, or a message (heap). */
	char *(*refuse)(const struct run *run, const void *opts);
	/* How the workers' messages are added up: */
	enum {
		/* Each worker decodes and adds the messages of its part of the floats, in float32,
		 * and encodes the sum again: 2 (N - 1) / N messages a worker. */
		CODEC_SCATTERED,
		/* Each worker gets all messages, decodes and adds them: N - 1 messages. */
		CODEC_GATHERED,
		/* A message is floats, whose sums are decoded: 2 (N - 1) / N messages. If a sum of
		 * messages is not the message of a sum, results are wrong. */
		CODEC_SUMMED
	} sums;
	int rounds; /* of CODEC_SUMMED: sums one after the other; 0 = 1 */
	/* CODEC_SUMMED: only the sum can be decoded. Feedback then keeps x - its mean. */
	bool joint;
	/* Is the mean of decoded(encoded(x)) over the random numbers x? NULL = no. */
	bool (*unbiased)(const void *opts);
	/* The default of --codec.feedback; NULL = false. */
	bool (*feedback)(const void *opts);
	/* Parts of a scattered sum begin at multiples of this number of floats; NULL = 1. */
	size_t (*block)(const void *opts);
	/* Length of a message [bytes]: a multiple of 4, and the same for all x. */
	size_t (*bytes)(const struct code *c);
	/* Floats that it keeps for these floats, as a sum over tensors; zeroed at first. NULL = 0.
	 */
	size_t (*state)(const struct code *c);
	void (*encode)(const struct code *c, void *wire, const float *x);
	/* y = the floats of the message; with add: y += them. false: no encode has made it. */
	bool (*decode)(const struct code *c, float *y, const void *wire, bool add);
	/* For vectors on a GPU. NULL = FORM_HOST: they are copied to the host and back. */
	struct code_form (*form)(const void *opts);
	/* For simulations: work of a call for one float with the default options, in passes that
	 * read two floats and write one (worker_charge). */
	double encode_passes, decode_passes;
	/* How many times this work a call with these options does; NULL = 1. */
	double (*work)(const void *opts);
};
extern const struct codec *const codecs[]; /* ends at NULL */

/* Random bits of float i: a hash of the key and i, which compilers vectorise. */
static inline ON_DEVICE uint32_t code_bits(uint64_t key, size_t i)
{
	uint32_t h = (uint32_t)key ^ (uint32_t)i * 0x9e3779b9u;
	h = (h ^ h >> 16) * 0x85ebca6bu;
	h = (h ^ h >> 13 ^ (uint32_t)(key >> 32)) * 0xc2b2ae35u;
	return h ^ h >> 16;
}
/* [0, 1) */
static inline ON_DEVICE float code_uniform(uint64_t key, size_t i)
{
	return (float)(code_bits(key, i) >> 8) * 0x1p-24f;
}

#endif
