/*
 * codec.c - the list of codecs. To add a codec: a file that defines codec_NAME, and one line here.
 */
#include "mvbench.h"

#define CODECS(X) \
	X(none) \
	X(bf16) \
	X(fp16) \
	X(int8) \
	X(int4) \
	X(fp8) \
	X(fp4) \
	X(qsgd) \
	X(terngrad) \
	X(sign) \
	X(majority) \
	X(topk) \
	X(randomk) \
	X(powersgd) \
	/* the end: a new line changes no other line */

#define DECLARE(name) extern const struct codec codec_##name;
#define POINT(name)   &codec_##name,

CODECS(DECLARE)
const struct codec *const codecs[] = {CODECS(POINT) NULL};
