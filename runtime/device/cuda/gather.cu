/*
 * gather.cu - gathers the rows of a mini-batch on the GPU, which has a copy of the data set. The
 * rows' numbers are an argument of the kernel: the GPU reads no host memory later.
 */
#include "runtime/device/cuda/kernel.h"

namespace
{
constexpr size_t ROWS = 960; /* per launch */
struct row_numbers {
	int32_t number[ROWS];
};
struct source {               /* on the device */
	const uint8_t *bytes; /* [n x features]; NULL: floats has them */
	const float *floats;
	const float *target; /* [n x targets] */
	const float *mean;   /* [features]; NULL = 0 */
	size_t features, targets;
	float unit; /* value of byte 1 */
	uint64_t key;
	unsigned width, height, channels, pad; /* width 0: rows are taken as they are */
	bool flip;
};

/* Where pixel j of the cropped row comes from; -1: it is padding, 0. */
__device__ inline long source_of(const source &from, unsigned j, const crop &c)
{
	unsigned channel = j % from.channels, pixel = j / from.channels;
	unsigned w = pixel % from.width, h = pixel / from.width;
	long i = (long)h + (long)c.down - (long)from.pad;
	long k = (long)(c.mirror ? from.width - 1 - w : w) + (long)c.right - (long)from.pad;
	if (i < 0 || i >= (long)from.height || k < 0 || k >= (long)from.width)
		return -1;
	return (i * from.width + k) * from.channels + channel;
}

template <typename T>
__global__ void __launch_bounds__(THREADS) gather(T *x, float *y, source from, row_numbers rows)
{
	size_t j = (size_t)blockIdx.x * THREADS + threadIdx.x;
	int32_t row = rows.number[blockIdx.y];
	size_t at = (size_t)row * from.features;
	if (j < from.targets)
		y[blockIdx.y * from.targets + j] = from.target[(size_t)row * from.targets + j];
	if (j >= from.features)
		return;
	long source = (long)j;

	if (from.width)
		source = source_of(from, (unsigned)j, crop_of(from.key, row, from.pad, from.flip));
	float value = 0;

	if (source >= 0) {
		value = from.bytes ? from.bytes[at + source] * from.unit : from.floats[at + source];
		if (from.mean)
			value -= from.mean[source];
	}
	x[blockIdx.y * from.features + j] = rounded<T>(value);
}

template <typename T> const T *brought(struct device *d, const T *array, size_t n)
{
	return (const T *)cuda_brought(d, array, n * sizeof *array);
}

} // namespace

void cuda_gather(struct device *d, float *x, float *y, const struct data *data,
		 const int32_t *index, size_t count, const struct transform *t)
{
	const size_t f = data->features;
	struct source from = {};
	from.bytes = brought(d, data->bytes, data->n * f);
	from.floats = data->bytes ? NULL : brought(d, data->floats, data->n * f);
	from.target = brought(d, data->target, data->n * data_targets(data));
	from.mean = t ? brought(d, t->mean, f) : NULL;
	from.features = f;
	from.targets = data_targets(data); /* at most f */
	from.unit = data->tokens ? 1 : 1.0f / 255;
	if (t && (t->pad || t->flip)) {
		from.key = t->key;
		from.width = (unsigned)t->image.width;
		from.height = (unsigned)t->image.height;
		from.channels = (unsigned)t->image.channels;
		from.pad = (unsigned)t->pad;
		from.flip = t->flip;
	}
	for (size_t i = 0; f && i < count; i += ROWS) {
		struct row_numbers rows;
		const size_t n = smaller(count - i, ROWS);
		const dim3 blocks((unsigned)((f + THREADS - 1) / THREADS), (unsigned)n);

		memcpy(rows.number, index + i, n * sizeof *index);
		OF_TYPE(d, QUEUE(d, gather<T>, blocks, THREADS, (T *)x + i * f,
				 y + i * from.targets, from, rows));
	}
}
