/*
 * cuda_stub.c - stands for the CUDA device where it was not built. Nothing but its name, its
 * summary and its probe may be used: the probe says why.
 */
#include "platform.h"

static const char *cuda_probe(void)
{
	return "this mvbench was built without CUDA: install the CUDA Toolkit and build again, or "
	       "use --device=cpu";
}

const struct device_ops device_cuda = {
	.name = "cuda",
	.summary = "NVIDIA GPUs",
	.probe = cuda_probe,
};
