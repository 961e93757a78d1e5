/*
 * code.cu - messages of codecs from floats on the device, and back: the same bits as those of
 * strategies/codecs, which has the formulas. Products are rounded before they are added, as on the
 * host: no addition is fused with __fmul_rn. Only denormal numbers differ, which workers flush to 0
 * on processors, but not on GPUs.
 *
 * Memory-bound: encoding reads the floats and writes the message, decoding the reverse. Blocks are
 * read twice, the second time from a cache; signs are read twice, too, and the floats of
 * topk five times.
 */
#include "runtime/device/cuda/kernel.h"

#include <cuda_fp16.h>

namespace
{
constexpr uint32_t SIZE = 0x7fffffff, INFINITE = 0x7f800000, NOT_A_NUMBER = 0x7fc00000;
constexpr int FLOATS = 16 / sizeof(float); /* of a pack */

__device__ inline uint32_t bits_of(float x)
{
	uint32_t bits;
	memcpy(&bits, &x, sizeof bits);
	return bits;
}

__device__ inline float float_of(uint32_t bits)
{
	float x;
	memcpy(&x, &bits, sizeof x);
	return x;
}

/* y[v] = x(v), or y[v] += x(v), v < V. */
template <int V, typename X> __device__ inline void put_each(float *y, bool add, X x)
{
	pack<float, V> out = {};
	if (add)
		out = load<V>(y);
#pragma unroll
	for (int v = 0; v < V; v++)
		out.v[v] = add ? out.v[v] + x(v) : x(v);
	store<V>(y, out);
}

/* ---- bf16, fp16 ------------------------------------------------------------ */

/* The conversions of CUDA have other NaNs. */
__device__ inline uint16_t half_of(bool fp16, float x)
{
	const uint32_t bits = bits_of(x), upper = bits >> 16;
	const bool nan = (bits & SIZE) > INFINITE;
	if (fp16)
		return nan ? (upper & 0x8000) | 0x7e00 : __half_as_ushort(__float2half_rn(x));
	return nan ? upper | 0x40 : (bits + 0x7fff + (upper & 1)) >> 16;
}

__device__ inline float float_of_half(bool fp16, uint32_t h)
{
	if (!fp16)
		return float_of(h << 16);
	if ((h & 0x7c00) == 0x7c00)
		return float_of((h & 0x8000) << 16 | INFINITE | (h & 0x3ff) << 13);
	return __half2float(__ushort_as_half((unsigned short)h));
}

struct to_halves {
	bool fp16;
	size_t n;
	template <int V> __device__ void operator()(at<V> here, const float *x, uint16_t *h) const
	{
		pack<float, V> from = load<V>(x + here.i);
		pack<uint16_t, V> to;

#pragma unroll
		for (int v = 0; v < V; v++)
			to.v[v] = half_of(fp16, from.v[v]);
		store<V>(h + here.i, to);
		if (here.i + V == n && n % 2)
			h[n] = 0;
	}
};

struct from_halves {
	bool fp16, add;
	template <int V> __device__ void operator()(at<V> here, float *y, const uint16_t *h) const
	{
		pack<uint16_t, V> from = load<V>(h + here.i);

		put_each<V>(y + here.i, add, [&](int v) { return float_of_half(fp16, from.v[v]); });
	}
};

/* ---- Integers with a scale for each block ------------------------------------ */

/* The integer in its lowest bits, plus 8 for 4 bits. per: 1 / scale; 0 for 0 and NaN. */
template <int BITS>
__device__ inline uint32_t integer_of(float x, float per, bool stochastic, uint64_t key, size_t i)
{
	constexpr int MOST = (1 << (BITS - 1)) - 1, ZERO = BITS == 8 ? 0 : 8;
	if (!stochastic) /* 1.5 x 2^23 + v has round(v) in its last bits; 0 times infinite is 0 */
		return (per > 0 ? bits_of(__fmul_rn(x, per) + 12582912.0f) : 0) + ZERO;
	float v = __fmul_rn(x, per) + code_uniform(key, i) + (float)MOST;
	v = v < (float)(2 * MOST) ? v : (float)(2 * MOST);
	v = v > 0 ? v : 0;
	return (uint32_t)((int32_t)v - MOST + ZERO);
}

/* A warp for each block. */
template <int BITS>
__global__ void __launch_bounds__(THREADS)
	to_blocks(bool stochastic, uint64_t key, size_t block, size_t n, float *scale,
		  uint32_t *code, const float *x)
{
	constexpr unsigned EACH = 32 / BITS, MASK = (1u << BITS) - 1;
	const unsigned lane = threadIdx.x % 32;
	for (size_t b = (size_t)blockIdx.x * WARPS + threadIdx.x / 32; b * block < n;
	     b += (size_t)gridDim.x * WARPS) {
		const size_t first = b * block, end = n - first < block ? n : first + block;
		uint32_t largest = 0;

		for (size_t i = first + lane; i < end; i += 32) {
			uint32_t size = bits_of(x[i]) & SIZE;
			largest = size > largest ? size : largest;
		}
		largest = warp_max(largest);
		const float s = largest < INFINITE ? float_of(largest) / (float)(MASK / 2)
						   : float_of(NOT_A_NUMBER);
		float per = s > 0 ? 1 / s : 0;
		per = per > 1e38f ? 0 : per; /* of a scale that is hardly a number */
		if (lane == 0)
			scale[b] = s;
		for (size_t at = first + (size_t)lane * EACH; at < end; at += 32 * EACH) {
			uint32_t word = 0;

#pragma unroll
			for (unsigned v = 0; v < EACH; v++)
				if (at + v < end)
					word |= (integer_of<BITS>(x[at + v], per, stochastic, key,
								  at + v) &
						 MASK)
						<< v * BITS;
			code[at / EACH] = word;
		}
	}
}

/* Blocks are multiples of 8 floats: a pack has one scale, and is in one word. */
template <int BITS> struct from_blocks {
	bool add;
	uint32_t block;
	const uint32_t *code;
	template <int V> __device__ void operator()(at<V> here, float *y, const float *scale) const
	{
		constexpr unsigned EACH = 32 / BITS;
		const uint32_t word = code[here.i / EACH] >> here.i % EACH * BITS;
		const float s = scale[(uint32_t)here.i / block];

		put_each<V>(y + here.i, add, [&](int v) {
			uint32_t q = word >> v * BITS;
			return __fmul_rn(s,
					 BITS == 8 ? (float)(int8_t)q : (float)(int)(q & 15) - 8);
		});
	}
};

template <int BITS>
void encode_blocks(struct device *d, const code_form &f, const code &c, float *wire, const float *x)
{
	const size_t blocks = (c.n + f.block - 1) / f.block;
	QUEUE(d, to_blocks<BITS>, blocks_for(32 * blocks, MAP_BLOCKS), THREADS, f.stochastic, c.key,
	      f.block, c.n, wire, (uint32_t *)(wire + blocks), x);
}

template <int BITS>
void decode_blocks(struct device *d, const code_form &f, size_t n, float *y, const float *wire,
		   bool add)
{
	const size_t blocks = (n + f.block - 1) / f.block;
	const from_blocks<BITS> how = {add, (uint32_t)f.block, (const uint32_t *)(wire + blocks)};
	for_each<FLOATS>(d, true, n, how, y, wire);
}

/* ---- Signs, and a scale for each tensor ------------------------------------------ */

constexpr size_t TILE = 2048;           /* as in strategies/codecs/tiles.h */
constexpr unsigned LANES_OF_TILES = 64; /* as in sign.c */

/* The mean of |x|: a warp for each tile, whose sum goes to sum[tile]; the last block adds them. */
__global__ void __launch_bounds__(THREADS)
	mean_size(size_t n, const float *x, double *sum, float *scale, unsigned *counter)
{
	const unsigned lane = threadIdx.x % 32;
	const size_t tiles = (n + TILE - 1) / TILE;
	for (size_t t = (size_t)blockIdx.x * WARPS + threadIdx.x / 32; t < tiles;
	     t += (size_t)gridDim.x * WARPS) {
		const size_t end = n - t * TILE < TILE ? n : (t + 1) * TILE;
		float s = 0;

#pragma unroll 8
		for (size_t i = t * TILE + lane; i < end; i += 32)
			s += float_of(bits_of(x[i]) & SIZE);
		const double whole = warp_sum((double)s);
		if (lane == 0)
			sum[t] = whole;
	}
	if (!last_block(counter))
		return;
	double *all = shared_doubles(), own = 0;
	for (size_t t = threadIdx.x; threadIdx.x < LANES_OF_TILES && t < tiles; t += LANES_OF_TILES)
		own += sum[t];
	all[threadIdx.x] = own;
	block_reduce<1>(all, threadIdx.x, LANES_OF_TILES, 1);
	if (threadIdx.x == 0) {
		const float s = n ? (float)(all[0] / (double)n) : 0;
		*scale = s == s ? s : float_of(NOT_A_NUMBER);
	}
}

/* A warp makes 32 words at a time. */
__global__ void __launch_bounds__(THREADS) to_signs(size_t n, uint32_t *word, const float *x)
{
	const size_t words = (n + 31) / 32;
	const unsigned lane = threadIdx.x % 32;
	for (size_t w = ((size_t)blockIdx.x * WARPS + threadIdx.x / 32) * 32; w < words;
	     w += (size_t)gridDim.x * WARPS * 32) {
		uint32_t own = 0;

#pragma unroll 8
		for (unsigned k = 0; k < 32; k++) {
			const size_t i = (w + k) * 32 + lane;
			const uint32_t votes = __ballot_sync(ALL, i < n && x[i] < 0);
			own = k == lane ? votes : own;
		}
		if (w + lane < words)
			word[w + lane] = own;
	}
}

__global__ void __launch_bounds__(THREADS) from_signs(size_t first, size_t n, bool add, float *y,
						      const float *scale, const uint32_t *word)
{
	const uint32_t s = bits_of(*scale);
	for (size_t i = first + (size_t)blockIdx.x * THREADS + threadIdx.x; i < first + n;
	     i += (size_t)gridDim.x * THREADS) {
		const float x = float_of(s ^ word[i / 32] >> i % 32 << 31);
		y[i] = add ? y[i] + x : x;
	}
}

void encode_signs(struct device *d, const code &c, float *wire, const float *x)
{
	const struct cuda_stage s = cuda_stage_of(d, (c.n / TILE + 1) * sizeof(double));
	for (size_t i = 0; i < c.tensors; i++) {
		const size_t n = c.tensor[i].rows * c.tensor[i].columns;
		QUEUE(d, mean_size, blocks_for(n / 8, MAP_BLOCKS), THREADS, n,
		      x + c.tensor[i].first, (double *)s.partial, wire + i, s.counter);
	}
	QUEUE(d, to_signs, blocks_for((c.n + 31) / 32, MAP_BLOCKS), THREADS, c.n,
	      (uint32_t *)(wire + c.tensors), x);
}

void decode_signs(struct device *d, const code &c, float *y, const float *wire, bool add)
{
	for (size_t i = 0; i < c.tensors; i++) {
		const size_t n = c.tensor[i].rows * c.tensor[i].columns;
		QUEUE(d, from_signs, blocks_for(n, MAP_BLOCKS), THREADS, c.tensor[i].first, n, add,
		      y, wire + i, (const uint32_t *)(wire + c.tensors));
	}
}

/* ---- Floats in random places -------------------------------------------------------- */

struct drawn_part {
	size_t place, length;
};
/* Of part i of k; it begins at floor(i n / k). */
__device__ inline drawn_part draw_part(uint64_t key, size_t n, size_t k, size_t i)
{
	const size_t least = n / k, rest = n % k, first = i * least + i * rest / k,
		     length = (i + 1) * least + (i + 1) * rest / k - first;
	return {first + (size_t)((uint64_t)code_bits(key, i) * length >> 32), length};
}

__global__ void __launch_bounds__(THREADS)
	to_drawn(uint64_t key, size_t n, size_t k, bool unbiased, float *wire, const float *x)
{
	for (size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x; i < k;
	     i += (size_t)gridDim.x * THREADS) {
		const drawn_part p = draw_part(key, n, k, i);
		wire[i] = x[p.place] * (unbiased ? (float)p.length : 1.0f);
	}
}

__global__ void __launch_bounds__(THREADS)
	from_drawn(uint64_t key, size_t n, size_t k, bool add, float *y, const float *wire)
{
	for (size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x; i < k;
	     i += (size_t)gridDim.x * THREADS) {
		const size_t at = draw_part(key, n, k, i).place;
		y[at] = add ? y[at] + wire[i] : wire[i];
	}
}

/* y = 0, unless it is added to. */
void clear(struct device *d, float *y, size_t n, bool add)
{
	if (!add)
		TRY_CUDA(d, cudaMemsetAsync(y, 0, n * sizeof *y, cuda_of(d)->stream));
}

void decode_drawn(struct device *d, const code &c, float *y, const float *wire, size_t k, bool add)
{
	clear(d, y, c.n, add);
	QUEUE(d, from_drawn, blocks_for(k, MAP_BLOCKS), THREADS, c.common, c.n, k, add, y, wire);
}

/* ---- The largest floats and their places ---------------------------------------------- */

constexpr unsigned DIGIT = 11, DIGITS = 1 << DIGIT, PASSES = 3;
struct choice {         /* while the k largest |x| are searched */
	uint32_t least; /* the bits that are known of the k-th largest; at last, all of them */
	uint32_t equal; /* of the floats with these bits, this number is among the k largest */
	uint32_t count[PASSES][DIGITS];
};

/* Counts the values of a digit of |x| over the floats that have the bits known so far. The last
 * block finds the digit of the k-th largest. */
__global__ void __launch_bounds__(THREADS)
	find_digit(int pass, size_t n, uint32_t k, const float *x, choice *c, unsigned *counter)
{
	constexpr unsigned EACH = DIGITS / THREADS; /* digits of a thread */
	__shared__ uint32_t own[DIGITS];
	const unsigned shift = pass < 2 ? 20 - DIGIT * pass : 0, width = pass < 2 ? DIGIT : 9,
		       above = shift + width, t = threadIdx.x;
	const uint32_t known = pass ? c->least : 0, wanted = pass ? c->equal : k;
	uint32_t *count = c->count[pass], sum = 0, larger = 0;

	for (unsigned digit = t; digit < DIGITS; digit += THREADS)
		own[digit] = 0;
	__syncthreads();
	for (size_t i = (size_t)blockIdx.x * THREADS + t; i < n; i += (size_t)gridDim.x * THREADS) {
		const uint32_t size = bits_of(x[i]) & SIZE;
		if (size >> above == known >> above)
			atomicAdd(&own[size >> shift & ((1u << width) - 1)], 1u);
	}
	__syncthreads();
	for (unsigned digit = t; digit < DIGITS; digit += THREADS)
		if (own[digit])
			atomicAdd(&count[digit], own[digit]);
	if (!last_block(counter))
		return;
	for (unsigned v = 0; v < EACH; v++)
		sum += count[t * EACH + v];
	own[t] = sum;
	__syncthreads();
	for (unsigned other = t + 1; other < THREADS; other++)
		larger += own[other];
	if (larger < wanted && wanted <= larger + sum) { /* in one thread */
		unsigned digit = t * EACH + EACH - 1;
		for (larger = wanted - larger; larger > count[digit]; digit--)
			larger -= count[digit];
		c->least = known | digit << shift;
		c->equal = larger;
	}
}

__device__ inline uint2 operator+(uint2 a, uint2 b)
{
	return make_uint2(a.x + b.x, a.y + b.y);
}

/* before[tile]: in all tiles before it, the floats above the least, and those equal to it. A warp
 * counts a tile; the last block adds. */
__global__ void __launch_bounds__(THREADS)
	count_tiles(size_t n, const float *x, const choice *c, uint2 *before, unsigned *counter)
{
	__shared__ uint2 own[THREADS];
	const unsigned lane = threadIdx.x % 32;
	const size_t tiles = (n + TILE - 1) / TILE;
	const uint32_t least = c->least;
	for (size_t t = (size_t)blockIdx.x * WARPS + threadIdx.x / 32; t < tiles;
	     t += (size_t)gridDim.x * WARPS) {
		const size_t end = n - t * TILE < TILE ? n : (t + 1) * TILE;
		uint32_t both = 0; /* larger ones, and 2^16 times the equal ones */

#pragma unroll 8
		for (size_t i = t * TILE + lane; i < end; i += 32) {
			const uint32_t size = bits_of(x[i]) & SIZE;
			both += size > least ? 1 : size == least ? 1 << 16 : 0;
		}
		both = warp_sum(both);
		if (lane == 0)
			before[t] = make_uint2(both & 0xffff, both >> 16);
	}
	if (!last_block(counter))
		return;
	const size_t each = (tiles + THREADS - 1) / THREADS, first = threadIdx.x * each,
		     end = first + each < tiles ? first + each : tiles;
	uint2 sum = make_uint2(0, 0);
	for (size_t t = first; t < end; t++)
		sum = sum + before[t];
	own[threadIdx.x] = sum;
	__syncthreads();
	sum = make_uint2(0, 0);
	for (unsigned other = 0; other < threadIdx.x; other++)
		sum = sum + own[other];
	for (size_t t = first; t < end; t++) {
		const uint2 here = before[t];
		before[t] = sum;
		sum = sum + here;
	}
}

/* In the order of places; of equal sizes the first ones. A warp for each tile. */
__global__ void __launch_bounds__(THREADS)
	to_largest(size_t n, const float *x, const choice *c, const uint2 *before, uint32_t *place,
		   float *value)
{
	const unsigned lane = threadIdx.x % 32, below = (1u << lane) - 1;
	for (size_t t = (size_t)blockIdx.x * WARPS + threadIdx.x / 32; t * TILE < n;
	     t += (size_t)gridDim.x * WARPS) {
		uint2 seen = before[t];
		for (size_t at = t * TILE; at < n && at < (t + 1) * TILE; at += 32) {
			const size_t i = at + lane;
			const uint32_t size = i < n ? bits_of(x[i]) & SIZE : 0;
			const bool larger = size > c->least, tie = i < n && size == c->least;
			const uint32_t all_larger = __ballot_sync(ALL, larger),
				       ties = __ballot_sync(ALL, tie),
				       rank = seen.y + __popc(ties & below); /* among the ties */

			if (larger || (tie && rank < c->equal)) {
				const uint32_t to = seen.x + __popc(all_larger & below) +
						    (rank < c->equal ? rank : c->equal);
				place[to] = (uint32_t)i;
				value[to] = x[i];
			}
			seen = seen + make_uint2(__popc(all_larger), __popc(ties));
		}
	}
}

/* Places that do not rise, or end outside, are wrong. */
__global__ void __launch_bounds__(THREADS)
	from_largest(size_t n, size_t k, bool add, float *y, const uint32_t *place,
		     const float *value, float *wrong)
{
	for (size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x; i < k;
	     i += (size_t)gridDim.x * THREADS) {
		const uint32_t at = place[i];
		if (at >= n || (i > 0 && at <= place[i - 1]))
			*wrong = 1;
		else
			y[at] = add ? y[at] + value[i] : value[i];
	}
}

void encode_largest(struct device *d, size_t n, size_t k, float *wire, const float *x)
{
	const size_t tiles = (n + TILE - 1) / TILE;
	const struct cuda_stage s = cuda_stage_of(d, sizeof(choice) + tiles * sizeof(uint2));
	choice *c = (choice *)s.partial;
	uint2 *before = (uint2 *)(c + 1);
	const unsigned blocks = blocks_for(32 * tiles, MAP_BLOCKS);
	TRY_CUDA(d, cudaMemsetAsync(c, 0, sizeof *c, cuda_of(d)->stream));
	for (int pass = 0; pass < (int)PASSES; pass++)
		QUEUE(d, find_digit, blocks_for(n / 8, MAP_BLOCKS), THREADS, pass, n, (uint32_t)k,
		      x, c, s.counter);
	QUEUE(d, count_tiles, blocks, THREADS, n, x, c, before, s.counter);
	QUEUE(d, to_largest, blocks, THREADS, n, x, c, before, (uint32_t *)wire, wire + k);
}

bool decode_largest(struct device *d, size_t n, float *y, const float *wire, size_t k, bool add)
{
	float *flag = (float *)cuda_workspace(d, sizeof *flag), wrong = 0;
	clear(d, y, n, add);
	TRY_CUDA(d, cudaMemsetAsync(flag, 0, sizeof *flag, cuda_of(d)->stream));
	QUEUE(d, from_largest, blocks_for(k, MAP_BLOCKS), THREADS, n, k, add, y,
	      (const uint32_t *)wire, wire + k, flag);
	cuda_get(d, &wrong, flag, 1);
	return wrong == 0;
}

} // namespace

void cuda_encode(struct device *d, const struct code_form *f, const struct code *c, float *wire,
		 size_t words, const float *x)
{
	CHECK(c->n <= UINT32_MAX, "a message of %zu floats", c->n);
	if (words == 0)
		return;
	if (f->kind == FORM_BLOCKS && f->bits == 8)
		encode_blocks<8>(d, *f, *c, wire, x);
	else if (f->kind == FORM_BLOCKS)
		encode_blocks<4>(d, *f, *c, wire, x);
	else if (f->kind == FORM_SIGNS)
		encode_signs(d, *c, wire, x);
	else if (f->kind == FORM_RANDOMK)
		QUEUE(d, to_drawn, blocks_for(words, MAP_BLOCKS), THREADS, c->common, c->n, words,
		      f->unbiased, wire, x);
	else if (f->kind == FORM_TOPK)
		encode_largest(d, c->n, words / 2, wire, x);
	else
		for_each<FLOATS>(d, true, c->n, to_halves{f->kind == FORM_FP16, c->n}, x,
				 (uint16_t *)wire);
}

bool cuda_decode(struct device *d, const struct code_form *f, const struct code *c, float *y,
		 const float *wire, size_t words, bool add)
{
	cuda_writes(d);
	if (words == 0)
		return true;
	if (f->kind == FORM_BLOCKS && f->bits == 8)
		decode_blocks<8>(d, *f, c->n, y, wire, add);
	else if (f->kind == FORM_BLOCKS)
		decode_blocks<4>(d, *f, c->n, y, wire, add);
	else if (f->kind == FORM_SIGNS)
		decode_signs(d, *c, y, wire, add);
	else if (f->kind == FORM_RANDOMK)
		decode_drawn(d, *c, y, wire, words, add);
	else if (f->kind == FORM_TOPK)
		return decode_largest(d, c->n, y, wire, words / 2, add);
	else
		for_each<FLOATS>(d, true, c->n, from_halves{f->kind == FORM_FP16, add}, y,
				 (const uint16_t *)wire);
	return true;
}
