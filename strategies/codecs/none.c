/*
 * none.c - no codec: floats travel as they are, and are added where they pass.
 */
#include "mvbench.h"

const struct codec codec_none = {
	.plugin = {.name = "none", .summary = "no compression: float32 travels as it is"},
};
