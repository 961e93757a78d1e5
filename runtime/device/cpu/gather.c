/*
 * gather.c - gathers the rows of a mini-batch, from bytes or floats, as they are or as crops.
 */
#include "runtime/device/cpu/cpu.h"
#include "runtime/device/draw.h"

#include <string.h>

enum { CACHE_LINE = 64 }; /* [bytes] */
enum { AHEAD = 4 };       /* rows */

/* Prefetches a row: rows are scattered in memory, whose latency is some 100 ns. */
static inline void prefetch(const void *row, size_t bytes)
{
	for (size_t at = 0; at < bytes; at += CACHE_LINE)
		__builtin_prefetch((const char *)row + at);
}

/* x[n] = the data's floats from `at` on, or bytes / 255, minus the mean's from `mean` on. */
static inline void take_features(float *restrict x, const struct data *data, size_t at,
				 const float *restrict mean, size_t n)
{
	if (data->bytes) {
		const uint8_t *restrict bytes = data->bytes + at;

		const float unit = data->tokens ? 1 : 1.0f / 255;

		for (size_t j = 0; j < n; j++)
			x[j] = bytes[j] * unit;
	} else {
		memcpy(x, data->floats + at, n * sizeof *x);
	}
	if (mean)
		for (size_t j = 0; j < n; j++)
			x[j] -= mean[j];
}

/* Reverses x[width][channels] along its width. */
static void mirror(float *x, size_t width, size_t channels)
{
	for (size_t a = 0, b = width - 1; a < b; a++, b--)
		for (size_t k = 0; k < channels; k++) {
			float kept = x[a * channels + k];

			x[a * channels + k] = x[b * channels + k];
			x[b * channels + k] = kept;
		}
}

/* Crops the image that begins at `at` of the data: line by line, the part inside the image, and
 * zeros on both sides. */
static void take_crop(float *x, const struct data *data, size_t at, const struct transform *t,
		      struct crop c)
{
	const size_t width = t->image.width, channels = t->image.channels, line = width * channels,
		     left = smaller(width, c.right < t->pad ? t->pad - c.right : 0),
		     right = smaller(width, c.right > t->pad ? c.right - t->pad : 0),
		     n = width - left - right; /* pixels from `right` on go to `left` */
	for (size_t i = 0; i < t->image.height; i++, x += line) {
		const size_t row = i + c.down - t->pad; /* wraps around above the image */
		const size_t from = row * line + right * channels;

		if (row >= t->image.height) {
			memset(x, 0, line * sizeof *x);
			continue;
		}
		memset(x, 0, left * channels * sizeof *x);
		take_features(x + left * channels, data, at + from, t->mean ? t->mean + from : NULL,
			      n * channels);
		memset(x + (left + n) * channels, 0, right * channels * sizeof *x);
		if (c.mirror)
			mirror(x, width, channels);
	}
}

void cpu_gather(struct device *d, float *restrict x, float *restrict y, const struct data *data,
		const int32_t *index, size_t count, const struct transform *t)
{
	const size_t f = data->features, targets = data_targets(data);
	const bool crops = t && (t->pad || t->flip);
	for (size_t i = 0; i < count; i++, x += f) {
		const size_t at = (size_t)index[i] * f;

		cpu_put(d, y + i * targets, data->target + (size_t)index[i] * targets, targets);
		if (data->bytes && i + AHEAD < count)
			prefetch(data->bytes + (size_t)index[i + AHEAD] * f, f);
		if (crops)
			take_crop(x, data, at, t, crop_of(t->key, index[i], t->pad, t->flip));
		else
			take_features(x, data, at, t ? t->mean : NULL, f);
	}
}
