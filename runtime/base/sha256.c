/*
 * sha256.c - SHA-256 (FIPS 180-4), which identifies the content of a file.
 */
#include "runtime/base/base.h"

#include <string.h>

static uint32_t turned(uint32_t x, int by)
{
	return x >> by | x << (32 - by);
}

static const uint32_t round_constant[64] = {
	0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4,
	0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe,
	0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f,
	0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7,
	0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc,
	0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
	0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116,
	0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
	0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7,
	0xc67178f2};

static void take_block(struct sha256 *s)
{
	uint32_t w[64], v[8];
	for (int i = 0; i < 16; i++)
		w[i] = (uint32_t)s->block[4 * i] << 24 | (uint32_t)s->block[4 * i + 1] << 16 |
		       (uint32_t)s->block[4 * i + 2] << 8 | s->block[4 * i + 3];
	for (int i = 16; i < 64; i++)
		w[i] = w[i - 16] + w[i - 7] +
		       (turned(w[i - 15], 7) ^ turned(w[i - 15], 18) ^ w[i - 15] >> 3) +
		       (turned(w[i - 2], 17) ^ turned(w[i - 2], 19) ^ w[i - 2] >> 10);
	memcpy(v, s->h, sizeof v);
#pragma GCC unroll 8 /* the variables a to h stay in registers */
	for (unsigned i = 0; i < 64; i++) {
		uint32_t *h = &v[(7 - i) % 8], *d = &v[(3 - i) % 8];
		uint32_t a = v[(0 - i) % 8], b = v[(1 - i) % 8], c = v[(2 - i) % 8];
		uint32_t e = v[(4 - i) % 8], f = v[(5 - i) % 8], g = v[(6 - i) % 8];
		*h += (turned(e, 6) ^ turned(e, 11) ^ turned(e, 25)) + ((e & f) ^ (~e & g)) +
		      round_constant[i] + w[i];
		*d += *h;
		*h += (turned(a, 2) ^ turned(a, 13) ^ turned(a, 22)) +
		      ((a & b) ^ (a & c) ^ (b & c));
	}
	for (int i = 0; i < 8; i++)
		s->h[i] += v[i];
}

void sha256_begin(struct sha256 *s)
{
	*s = (struct sha256){.h = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f,
				   0x9b05688c, 0x1f83d9ab, 0x5be0cd19}};
}

void sha256_add(struct sha256 *s, const void *x, size_t bytes)
{
	const unsigned char *at = x;
	for (size_t n; bytes > 0; at += n, bytes -= n) {
		size_t filled = s->bytes % sizeof s->block;
		n = smaller(bytes, sizeof s->block - filled);
		memcpy(s->block + filled, at, n);
		s->bytes += n;
		if (s->bytes % sizeof s->block == 0)
			take_block(s);
	}
}

void sha256_end(struct sha256 *s, char hex[SHA256_ROOM])
{
	static const unsigned char one = 0x80, zero = 0;
	uint64_t bits = 8 * s->bytes;
	sha256_add(s, &one, 1);
	while (s->bytes % sizeof s->block != sizeof s->block - sizeof bits)
		sha256_add(s, &zero, 1);
	for (int i = 7; i >= 0; i--) {
		unsigned char byte = (unsigned char)(bits >> 8 * i);
		sha256_add(s, &byte, 1);
	}
	for (int i = 0; i < 8; i++)
		snprintf(hex + 8 * i, 9, "%08x", (unsigned)s->h[i]);
}

bool sha256_file(struct sha256 *s, const char *path)
{
	char part[65536];
	FILE *f = fopen(path, "r");
	size_t n;
	if (!f)
		return false;
	while ((n = fread(part, 1, sizeof part, f)) > 0)
		sha256_add(s, part, n);
	bool whole = !ferror(f);
	fclose(f);
	return whole;
}
