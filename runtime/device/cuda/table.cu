/*
 * table.cu - operations on the floats of parameter-server tables (updaters.h has the formulas), and
 * sums over peers.
 */
#include "runtime/device/cuda/kernel.h"

namespace
{
/* Unused pointers are NULL; in may be out. */
__global__ void __launch_bounds__(THREADS)
	apply(op_kind kind, updater_kind updater, float *w, float *kept, const float *bak,
	      float *pulled, const float *in, float *out, push by, float tau, bool keep, size_t n,
	      float *more, float2 unbias)
{
	for (size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x; i < n;
	     i += (size_t)gridDim.x * THREADS) {
		table_element x = {};

		x.w = w[i];
		if (kind == OP_ELASTIC) {
			float mine = out[i], d = by.scale * (mine - x.w);
			w[i] = x.w + d;
			out[i] = mine - d;
			continue;
		}
		if (kind == OP_SYNC) {
			x.w += by.scale * (out[i] - pulled[i]);
		} else if (kind == OP_PUSH) {
			x.g = in[i];
			x.state = kept ? kept[i] : 0;
			x.pulled = bak ? bak[i] : 0;
			x.tau = tau;
			x.more = more ? more[i] : 0;
			x.unbias[0] = unbias.x;
			x.unbias[1] = unbias.y;
			x = push_any(updater, x, by);
			if (kept)
				kept[i] = x.state;
			if (more)
				more[i] = x.more;
		}
		if (kind != OP_READ)
			w[i] = x.w;
		if (out)
			out[i] = x.w;
		if (keep)
			pulled[i] = x.w;
	}
}

#define UPDATER_FACTS(word, text, keeps, reads, ...) {KEEPS_##keeps, reads},
const struct {
	keeps kept;
	bool reads;
} facts[] = {UPDATER_LIST(UPDATER_FACTS)};

constexpr int PEERS = 256;
struct sum {
	const float *from[PEERS];
	int k;
	float a;
	template <int V> __device__ void operator()(at<V> here, float *y) const
	{
		pack<float, V> all = load<V>(from[0] + here.i);

#pragma unroll 4
		for (int i = 1; i < k; i++) {
			pack<float, V> x = load<V>(from[i] + here.i);
			for (int v = 0; v < V; v++)
				all.v[v] += x.v[v];
		}
		for (int v = 0; v < V; v++)
			all.v[v] *= a;
		store<V>(y + here.i, all);
	}
};

} // namespace

void cuda_sum(struct device *d, float *y, const float *const *x, int k, float a, size_t n)
{
	sum s = {{}, k, a};
	bool packed = true;
	CHECK(k > 0 && k <= PEERS, "sum of %d peers", k);
	for (int i = 0; i < k; i++)
		packed = aligned(s.from[i] = x[i]) && packed;
	cuda_writes(d);
	for_each<wide<float>>(d, packed, n, s, y);
}

void cuda_apply(struct device *d, enum op_kind kind, enum updater_kind updater,
		const struct update *u, size_t n)
{
	float *kept = update_state(u, facts[updater].kept);
	const float *bak = facts[updater].reads ? u->pulled : NULL;
	float *more = facts[updater].kept == KEEPS_MORE ? u->more : NULL, unbias[] = {1, 1};
	if (more && kind == OP_PUSH)
		update_unbias(u, unbias);
	cuda_writes(d);
	if (n)
		QUEUE(d, apply, blocks_for(n, MAP_BLOCKS), THREADS, kind, updater, u->w, kept, bak,
		      u->pulled, u->values, u->out, u->by, (float)u->staleness, u->keep, n, more,
		      make_float2(unbias[0], unbias[1]));
	cuda_sync(d);
}
