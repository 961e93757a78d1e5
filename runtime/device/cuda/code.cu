/*
 * code.cu - messages of codecs from floats on the device, and back: the same bits as those of
 * strategies/codecs, which has the formulas. Products are rounded before they are added, as on the
 * host: no addition is fused with __fmul_rn. Only denormal numbers differ, which workers flush to 0
 * on processors, but not on GPUs.
 *
 * Memory-bound: encoding reads the floats and writes the message, decoding the reverse. Blocks are
 * read twice, the second time from a cache.
 */
#include "runtime/device/cuda/kernel.h"

#include <cuda_fp16.h>

namespace
{
constexpr uint32_t SIZE = 0x7fffffff, INFINITE = 0x7f800000, NOT_A_NUMBER = 0x7fc00000;

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
	for_each<wide<float>>(d, true, n, how, y, wire);
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
	else
		for_each<wide<float>>(d, true, c->n, to_halves{f->kind == FORM_FP16, c->n}, x,
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
	else
		for_each<wide<float>>(d, true, c->n, from_halves{f->kind == FORM_FP16, add}, y,
				      (const uint16_t *)wire);
	return true;
}
