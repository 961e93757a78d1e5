/*
 * cpu.c - the CPU as a device: its table of operations, which the other files of this folder
 * define. They are plain loops that the compiler vectorises, and oneDNN.
 */
#include "runtime/device/cpu/cpu.h"

#include <omp.h>
#include <oneapi/dnnl/dnnl.h>
#include <stdio.h>

static const char *cpu_probe(struct device_facts *f)
{
	const dnnl_version_t *v = dnnl_version();
	if (f) {
		*f = (struct device_facts){.count = 1};
		snprintf(f->version, sizeof f->version, "oneDNN %d.%d.%d", v->major, v->minor,
			 v->patch);
	}
	return NULL;
}

/* Velocities of units without gradient decay through denormal numbers. These cost some 150 cycles
 * each on Intel's processors: the perceptron made 0.34 instead of 1.8 million steps per second. */
void cpu_flush_denormals(void)
{
#ifdef __x86_64__
	enum { FLUSH_TO_ZERO = 1 << 15, DENORMALS_ARE_ZERO = 1 << 6 };
	__builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | FLUSH_TO_ZERO | DENORMALS_ARE_ZERO);
#endif
}

static void cpu_open(struct device *d, int threads)
{
	omp_set_num_threads(threads);
}

static void cpu_get(struct device *d, float *host, const float *x, size_t n)
{
	cpu_put(d, host, x, n);
}

static void cpu_tally(struct device *d, struct tally *out)
{
	*out = d->tally;
	d->tally = (struct tally){0};
}

#define SLOT(name, ...)   .name = cpu_##name,
#define LAYER_SLOTS(name) .name##_new = cpu_##name##_new, .name##_free = cpu_##name##_free,
const struct device_ops device_cpu = {.name = "cpu",
				      .summary = "the processor, with oneDNN",
				      .host = true,
				      DEVICE_BASICS(cpu),
				      DEVICE_OPS(SLOT) DEVICE_LAYERS(LAYER_SLOTS)};
