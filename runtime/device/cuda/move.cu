/*
 * move.cu - copies matrices to wider or narrower ones or to another type: weights and images for
 * cuDNN, and its results. One launch copies many small matrices.
 */
#include "runtime/device/cuda/kernel.h"

#include <limits.h>

namespace
{
constexpr size_t PIECES = 100;        /* per launch, whose arguments are then below 4 KiB */
constexpr unsigned PIECE_BLOCKS = 32; /* most blocks of a piece, if there are several */
struct pieces {
	cuda_piece one[PIECES];
};

template <typename To, typename From>
__global__ void __launch_bounds__(THREADS) move_pieces(pieces all)
{
	const cuda_piece &p = all.one[blockIdx.y];
	const From *from = (const From *)p.from;
	To *to = (To *)p.to;
	for (unsigned i = blockIdx.x * THREADS + threadIdx.x; i < p.to_rows * p.to_columns;
	     i += gridDim.x * THREADS) {
		unsigned row = i / p.to_columns, column = i % p.to_columns;
		bool there = row < p.from_rows && column < p.from_columns;
		to[i] = rounded<To>(there ? number(from[row * p.from_columns + column]) : 0);
	}
}

template <typename To, typename From> void move_all(struct device *d, const cuda_piece *p, size_t n)
{
	for (size_t first = 0, some; first < n; first += some) {
		pieces all = {};
		unsigned blocks = 1;
		some = smaller(n - first, PIECES);
		for (size_t i = 0; i < some; i++) {
			const cuda_piece &one = all.one[i] = p[first + i];
			const size_t from = (size_t)one.from_rows * one.from_columns,
				     to = (size_t)one.to_rows * one.to_columns;
			CHECK(from <= INT_MAX && to <= INT_MAX, "a copy of %zu to %zu", from, to);
			unsigned own = blocks_for(to, some > 1 ? PIECE_BLOCKS : MAP_BLOCKS);
			blocks = own > blocks ? own : blocks;
		}
		QUEUE(d, (move_pieces<To, From>), dim3(blocks, (unsigned)some), THREADS, all);
	}
}

} // namespace

void cuda_move(struct device *d, const struct cuda_piece *p, size_t n, bool from_bf16, bool to_bf16)
{
	if (to_bf16 && from_bf16)
		move_all<bf16, bf16>(d, p, n);
	else if (to_bf16)
		move_all<bf16, float>(d, p, n);
	else if (from_bf16)
		move_all<float, bf16>(d, p, n);
	else
		move_all<float, float>(d, p, n);
}
