/*
 * sha256.c - SHA-256, which identifies the content of a file. OpenSSL computes it.
 */
#include "runtime/base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/stat.h>
#include <unistd.h>

void sha256_begin(struct sha256 *s)
{
	s->digest = must(EVP_MD_CTX_new());
	CHECK(EVP_DigestInit_ex(s->digest, EVP_sha256(), NULL), "OpenSSL has no SHA-256");
}

void sha256_add(struct sha256 *s, const void *x, size_t bytes)
{
	EVP_DigestUpdate(s->digest, x, bytes);
}

void sha256_end(struct sha256 *s, char hex[SHA256_ROOM])
{
	unsigned char hash[SHA256_ROOM / 2];
	EVP_DigestFinal_ex(s->digest, hash, NULL);
	EVP_MD_CTX_free(s->digest);
	for (size_t i = 0; i < sizeof hash; i++)
		snprintf(hex + 2 * i, 3, "%02x", hash[i]);
}

bool sha256_file(struct sha256 *s, const char *path)
{
	char part[65536];
	struct stat st;
	size_t n;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* does not wait for a pipe */
	FILE *f = fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) ? fdopen(fd, "r") : NULL;
	if (!f) {
		if (fd >= 0)
			close(fd), errno = EINVAL;
		return false;
	}
	while ((n = fread(part, 1, sizeof part, f)) > 0)
		sha256_add(s, part, n);
	bool whole = !ferror(f);
	fclose(f);
	return whole;
}
