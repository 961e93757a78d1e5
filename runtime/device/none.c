/*
 * none.c - the device that has lengths and no floats: for models whose parameters are only counted,
 * and for simulations of time alone.
 *
 * Operations are empty and cost one call. Losses are 0 over 0 rows.
 */
#include "runtime/device/device.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"

static const char *none_probe(struct device_facts *f)
{
	if (f)
		*f = (struct device_facts){.count = 1};
	return NULL;
}

#define NOT_DONE(name, params, ...) \
	static void none_##name DEVICE_PARAMS(params) \
	{ \
	}
DEVICE_OPS(NOT_DONE)
NOT_DONE(open, (int threads))
NOT_DONE(free, (float *p, size_t n))
NOT_DONE(free_layer, (void *layer))

static void none_close(struct device *d)
{
}

static float *none_alloc(struct device *d, size_t n)
{
	return NULL;
}

/* There are no floats: the host gets zeros instead of the old content of its buffer. */
static void none_get(struct device *d, float *host, const float *x, size_t n)
{
	for (size_t i = 0; i < n; i++)
		host[i] = 0;
}

static void none_tally(struct device *d, struct tally *out)
{
	*out = (struct tally){0};
}

static void *none_new(struct device *d, const struct shape *s)
{
	return NULL;
}

#define SLOT(name, ...)   .name = none_##name,
#define LAYER_SLOTS(name) .name##_new = none_new, .name##_free = none_free_layer,
const struct device_ops device_none = {.name = "none",
				       .summary = "lengths only: computes and holds nothing",
				       .host = true,
				       DEVICE_BASICS(none),
				       DEVICE_OPS(SLOT) DEVICE_LAYERS(LAYER_SLOTS)};
