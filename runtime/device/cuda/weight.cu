/*
 * weight.cu - the gradient of a convolution's weights, for windows of 3 x 3 and 5 x 5 pixels.
 *
 * dw[o][place][c] = sum over all output pixels of dy[o] x[c], with x at this place of the pixel's
 * window. The result is small, and the sum is long: with a batch of 128, ResNet-32's layers have
 * 432 to 36,864 results, each of 8,192 to 131,072 products. For 32 x 32 channels in tf32, cuDNN's
 * deterministic kernel takes 146 us on an H200; reading its inputs takes 2 us.
 *
 * Here a warp keeps a tile of outputs x places x channels in registers, and goes along rows of
 * pixels. The warps of a block, and then the blocks, add up their tiles in a fixed order. Products
 * are of floats, in every precision.
 *
 * Cost, in passes over an activation: dy is read once for each tile of channels, x once for each
 * tile of outputs and each row of the window.
 */
#include "runtime/device/cuda/kernel.h"

namespace
{
/* A warp's tile: its lanes are OUT_LANES x IN_LANES, each with outs<K> outputs and ins<K> channels,
 * as many as the registers can hold. */
constexpr int OUT_LANES = 4, IN_LANES = 8;
template <int K> constexpr int outs = K == 3 ? 4 : 2;
template <int K> constexpr int ins = K == 3 ? 2 : 1;
template <int K> constexpr int lane_sums = K *K *outs<K> *ins<K>;
template <int K> constexpr int tile_sums = 32 * lane_sums<K>;

/* Of the upper half of a block's warps. */
__device__ inline float *shared_tiles()
{
	static_assert(tile_sums<5> <= tile_sums<3>, "either tile fits");
	__shared__ float all[WARPS / 2 * tile_sums<3>];
	return all;
}

/* Two blocks on each of 132 multiprocessors (H100, H200). A constant, because the order of
 * additions must not depend on the GPU. */
constexpr size_t TILE_BLOCKS = 264;

struct weight_sizes {
	int height, width, channels, out_height, out_width, outs, pad;
	unsigned rows; /* rows of output pixels in all images */
};

/* N numbers from p, of which `left` exist. */
template <int N, bool PACKED, typename T>
__device__ inline void load_some(float *to, const T *p, int left)
{
	if (PACKED) {
		pack<T, N> got = {};
		if (left > 0)
			got = load<N>(p);
#pragma unroll
		for (int i = 0; i < N; i++)
			to[i] = number(got.v[i]);
	} else {
#pragma unroll
		for (int i = 0; i < N; i++)
			to[i] = i < left ? number(p[i]) : 0;
	}
}

/* partial[tile][block][sum of a lane][lane]; tile: blockIdx.z of channels, blockIdx.y of outputs.
 * Warps take turns at the rows. A warp handles K pixels at once: x has the columns of their
 * windows, of which K - S are also columns of the next pixels' windows. */
template <typename T, int K, int S, bool PACKED>
__global__ void __launch_bounds__(THREADS, 2)
	weight_sums(const T *x, const T *dy, weight_sizes s, float *partial)
{
	constexpr int O = outs<K>, I = ins<K>, SPAN = (K - 1) * S + K, KEPT = K - S;
	const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
	const int o = ((int)blockIdx.y * OUT_LANES + lane / IN_LANES) * O;
	const int c = ((int)blockIdx.z * IN_LANES + lane % IN_LANES) * I;
	float sum[K * K][O][I] = {};

	for (unsigned row = blockIdx.x * WARPS + (unsigned)warp; row < s.rows;
	     row += gridDim.x * WARPS) {
		const unsigned image = row / (unsigned)s.out_height;
		const int top = (int)(row % (unsigned)s.out_height) * S - s.pad;
		const T *from = x + ((size_t)image * s.height * s.width) * s.channels + c;
		const T *grad = dy + (size_t)row * s.out_width * s.outs + o;
		float in[K][SPAN][I], g[K][O];
		auto column = [&](int j, int at) {
#pragma unroll
			for (int k = 0; k < K; k++) {
				const int h = top + k;
				const bool there =
					h >= 0 && h < s.height && at >= 0 && at < s.width;
				load_some<I, PACKED>(in[k][j],
						     from + (h * s.width + at) * s.channels,
						     there ? s.channels - c : 0);
			}
		};
#pragma unroll
		for (int j = 0; j < KEPT; j++)
			column(j, j - s.pad);
		for (int w = 0; w < s.out_width; w += K) {
#pragma unroll
			for (int u = 0; u < K; u++)
				load_some<O, PACKED>(g[u], grad + (w + u) * s.outs,
						     w + u < s.out_width ? s.outs - o : 0);
#pragma unroll
			for (int j = KEPT; j < SPAN; j++)
				column(j, w * S + j - s.pad);
#pragma unroll
			for (int u = 0; u < K; u++)
#pragma unroll
				for (int k = 0; k < K * K; k++)
#pragma unroll
					for (int oi = 0; oi < O * I; oi++)
						sum[k][oi / I][oi % I] +=
							g[u][oi / I] *
							in[k / K][u * S + k % K][oi % I];
#pragma unroll
			for (int k = 0; k < K; k++)
#pragma unroll
				for (int j = 0; j < KEPT; j++)
#pragma unroll
					for (int i = 0; i < I; i++)
						in[k][j][i] = in[k][j + K * S][i];
		}
	}
	float *all = shared_tiles() + lane;
	for (int half = (int)WARPS / 2; half > 0; half /= 2) {
		if (warp >= half && warp < 2 * half)
#pragma unroll
			for (int n = 0; n < lane_sums<K>; n++)
				all[(warp - half) * tile_sums<K> + n * 32] =
					sum[n / (O * I)][n / I % O][n % I];
		__syncthreads();
		if (warp < half)
#pragma unroll
			for (int n = 0; n < lane_sums<K>; n++)
				sum[n / (O * I)][n / I % O][n % I] +=
					all[warp * tile_sums<K> + n * 32];
		__syncthreads();
	}
	partial += (((size_t)blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x) *
		   tile_sums<K>;
	if (warp == 0)
#pragma unroll
		for (int n = 0; n < lane_sums<K>; n++)
			partial[n * 32 + lane] = sum[n / (O * I)][n / I % O][n % I];
}

/* Adds up the blocks' sums; blockIdx.x: the sum of a lane. Warp w adds blocks w, w + WARPS, ... */
template <typename T, int K>
__global__ void __launch_bounds__(THREADS)
	weight_finish(T *dw, const float *partial, weight_sizes s, unsigned blocks)
{
	constexpr int O = outs<K>, I = ins<K>;
	const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32, n = (int)blockIdx.x;
	const int o = ((int)blockIdx.y * OUT_LANES + lane / IN_LANES) * O + n / I % O;
	const int c = ((int)blockIdx.z * IN_LANES + lane % IN_LANES) * I + n % I;
	const float *from = partial +
			    ((size_t)blockIdx.z * gridDim.y + blockIdx.y) * blocks * tile_sums<K> +
			    n * 32 + lane;
	float *all = shared_floats(), sum = 0;
#pragma unroll 8
	for (unsigned b = (unsigned)warp; b < blocks; b += WARPS)
		sum += from[(size_t)b * tile_sums<K>];
	all[threadIdx.x] = sum;
	__syncthreads();
	if (warp > 0 || o >= s.outs || c >= s.channels)
		return;
	for (unsigned w = 1; w < WARPS; w++)
		sum += all[w * 32 + threadIdx.x];
	dw[((size_t)o * K * K + n / (O * I)) * s.channels + c] = rounded<T>(sum);
}

struct tiling {
	unsigned of_outs, of_channels, blocks; /* blocks: of each tile */
	size_t sums;                           /* of a tile */
};
template <int K> tiling tiling_of(struct image in, struct image out, size_t rows)
{
	tiling t = {(unsigned)((out.channels + OUT_LANES * outs<K> - 1) / (OUT_LANES * outs<K>)),
		    (unsigned)((in.channels + IN_LANES * ins<K> - 1) / (IN_LANES * ins<K>)), 1,
		    tile_sums<K>};
	const size_t most = TILE_BLOCKS / ((size_t)t.of_outs * t.of_channels),
		     useful = (rows * out.height + WARPS - 1) / WARPS;
	t.blocks = (unsigned)(most < 1 ? 1 : smaller(most, useful));
	return t;
}

template <typename T, int K, int S>
void gradient(struct device *d, T *dw, const T *x, const T *dy, struct image in, struct image out,
	      size_t pad, size_t rows, float *partial)
{
	const tiling t = tiling_of<K>(in, out, rows);
	const weight_sizes s = {
		(int)in.height, (int)in.width,     (int)in.channels, (int)out.height,
		(int)out.width, (int)out.channels, (int)pad,         (unsigned)(rows * out.height)};
	const dim3 blocks(t.blocks, t.of_outs, t.of_channels);
	if (in.channels % ins<K> == 0 && out.channels % outs<K> == 0 && aligned(x, dy))
		QUEUE(d, (weight_sums<T, K, S, true>), blocks, THREADS, x, dy, s, partial);
	else
		QUEUE(d, (weight_sums<T, K, S, false>), blocks, THREADS, x, dy, s, partial);
	QUEUE(d, (weight_finish<T, K>), dim3(lane_sums<K>, t.of_outs, t.of_channels), THREADS, dw,
	      partial, s, t.blocks);
}

bool supported(struct window w)
{
	return (w.size == 3 && (w.stride == 1 || w.stride == 2)) || (w.size == 5 && w.stride == 1);
}

} // namespace

size_t cuda_weight_bytes(struct image in, struct image out, struct window w, size_t rows)
{
	const tiling t = w.size == 3 ? tiling_of<3>(in, out, rows) : tiling_of<5>(in, out, rows);
	if (!supported(w) || t.of_outs > MOST_ROWS || t.of_channels > MOST_ROWS)
		return SIZE_MAX;
	return (size_t)t.of_outs * t.of_channels * t.blocks * t.sums * sizeof(float);
}

void cuda_weight_gradient(struct device *d, void *dw, const void *x, const void *dy,
			  struct image in, struct image out, struct window w, size_t rows,
			  void *work)
{
	auto partial = (float *)work;
	OF_TYPE(d, {
		auto to = (T *)dw;
		auto a = (const T *)x, b = (const T *)dy;
		if (w.size == 5)
			gradient<T, 5, 1>(d, to, a, b, in, out, w.pad, rows, partial);
		else if (w.stride == 2)
			gradient<T, 3, 2>(d, to, a, b, in, out, w.pad, rows, partial);
		else
			gradient<T, 3, 1>(d, to, a, b, in, out, w.pad, rows, partial);
	});
}
