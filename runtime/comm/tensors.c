/*
 * tensors.c - the tensors of a part of a model, for codecs, and the time that a message takes them.
 */
#include "runtime/comm/coding.h"

size_t tensors_cut(const struct tensor *all, size_t tensors, size_t first, size_t n,
		   struct tensor *tensor)
{
	size_t count = 0;
	for (size_t i = 0; i < tensors; i++) {
		struct tensor t = all[i];
		size_t whole = t.rows * t.columns, from = t.first, end = from + whole;
		from = from > first ? from : first;
		end = end < first + n ? end : first + n;
		if (from >= end)
			continue;
		if (end - from < whole)
			t.rows = 1, t.columns = end - from;
		t.first = from - first;
		tensor[count++] = t;
	}
	return count;
}

void code_charge(const struct codec *k, const void *opts, size_t n, bool decodes)
{
	double passes = decodes ? k->decode_passes : k->encode_passes;
	world_charge_code(k, passes * (k->work ? k->work(opts) : 1), n, decodes);
}
