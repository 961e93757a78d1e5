/*
 * npy.c - arrays of NumPy. NAME.npy (format versions 1 to 3 of NumPy's enhancement proposal 1):
 * "\x93NUMPY", the version, the length of a text in little-endian order, a text such as
 *
 *     {'descr': '<f4', 'fortran_order': False, 'shape': (60000, 28, 28), }
 *
 * and the values. NAME.npz is a zip archive (PKWARE's APPNOTE 6.3) of such files, deflated or not.
 * Sizes, lengths and checksums are checked.
 */
#include "workloads/arrays.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#define ADVICE "write it again with numpy.save or numpy.savez"

/* ---- Files --------------------------------------------------------------- */

char *content_read(struct content *c, char *path, int fd)
{
	enum { PIECE = 1 << 20 };
	struct stat st;
	size_t room = 0;
	int got = 0, code;
	*c = (struct content){.path = path};
	if (fd < 0)
		fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC); /* waits for no pipe */
	if (fd < 0)
		return sentence("%s: %s", path, strerror(errno));
	gzFile f = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) ? gzdopen(fd, "rb") : NULL;
	if (!f) {
		close(fd);
		return sentence("%s: not a plain file; give a plain file", path);
	}
	do {
		if (room - c->n <= PIECE) {
			uint8_t *more = realloc(c->at, room = 2 * room + 2 * PIECE);
			if (!more) {
				gzclose(f);
				return sentence("%s: no memory for it; use a smaller set", path);
			}
			c->at = more;
		}
		got = gzread(f, c->at + c->n, PIECE);
		c->n += got > 0 ? (size_t)got : 0;
	} while (got > 0);
	const char *why = gzerror(f, &code);
	char *wrong = got < 0 || code == Z_BUF_ERROR
			      ? sentence("%s: %s; the file is damaged: fetch it again", path,
					 code == Z_ERRNO ? strerror(errno) : why)
			      : NULL;
	gzclose(f);
	c->at[c->n] = 0;
	return wrong;
}

/* ---- One array ----------------------------------------------------------- */

void array_free(struct array *a)
{
	free(a->name);
	free(a->own);
	*a = (struct array){.name = NULL};
}

size_t array_row(const struct array *a)
{
	size_t n = 1;
	for (int i = 1; i < a->dims; i++)
		n *= a->size[i];
	return n;
}

double array_value(const struct array *a, size_t i)
{
	uint64_t u = 0;
	double d;
	float f;
	const uint8_t *from = a->value + i * a->width;
	for (size_t k = 0; k < a->width; k++)
		u |= (uint64_t)from[a->swapped ? a->width - 1 - k : k] << (8 * k);
	if (a->kind == 'f' && a->width == sizeof f) {
		const uint32_t low = (uint32_t)u;
		memcpy(&f, &low, sizeof f);
		return (double)f;
	}
	memcpy(&d, &u, sizeof d);
	const size_t unused = 64 - 8 * a->width;
	return a->kind == 'f'   ? d
	       : a->kind == 'i' ? (double)((int64_t)(u << unused) >> unused)
				: (double)u;
}

/* What follows 'key': in the text. */
static const char *field(const char *text, const char *key)
{
	const char *at = strstr(text, key);
	at = at ? strchr(at, ':') : NULL;
	return at ? at + 1 + strspn(at + 1, " ") : "";
}

static char *type_read(struct array *a, const char *text)
{
	char order;
	unsigned width;
	if (sscanf(text, "'%c%c%u'", &order, &a->kind, &width) != 3 || !strchr("<>|=", order) ||
	    !strchr("buif", a->kind) || !(width == 1 || width == 2 || width == 4 || width == 8) ||
	    (a->kind == 'f' && width < 4))
		return sentence("%s: its values have the type %.*s; write numbers, as "
				"x.astype('float32') does",
				a->name, (int)strcspn(text, ","), text);
	a->width = width;
	a->swapped = order == '>';
	return NULL;
}

/* (60000, 28, 28), where (5,) is one dimension. */
static char *shape_read(struct array *a, const char *text, size_t bytes)
{
	size_t n = 1;
	char *end = (char *)(uintptr_t)text;
	a->dims = 0;
	for (text += *text == '('; *text >= '0' && *text <= '9'; text = end) {
		const unsigned long long size = strtoull(text, &end, 10);
		if (a->dims == 4)
			return sentence("%s: it has more than 4 dimensions; give rows, or images "
					"of height, width and channels",
					a->name);
		if (size == 0 || size > INT32_MAX || n > bytes / size)
			return sentence("%s: size %d is %llu, and the file has %zu bytes of "
					"values; " ADVICE,
					a->name, a->dims, size, bytes);
		n *= a->size[a->dims++] = (size_t)size;
		end += strspn(end, ", ");
	}
	if (*text != ')' || a->dims == 0)
		return sentence("%s: its shape is not (rows, ...); " ADVICE, a->name);
	if (bytes != n * a->width)
		return sentence("%s: its values need %zu bytes, and it has %zu; " ADVICE, a->name,
				n * a->width, bytes);
	return NULL;
}

/* The header is a copy that ends in 0. */
static char *header_read(struct array *a, const char *text, size_t bytes)
{
	TRY(type_read(a, field(text, "'descr'")));
	if (strncmp(field(text, "'fortran_order'"), "False", 5) != 0)
		return sentence("%s: its order is that of Fortran; write "
				"numpy.ascontiguousarray(x)",
				a->name);
	return shape_read(a, field(text, "'shape'"), bytes);
}

/* The array in bytes that a->own has already. */
static char *array_read(struct array *a, size_t n)
{
	const uint8_t *b = a->own;
	const size_t words = n > 12 && b[6] > 1 ? 4 : 2, begin = 8 + words;
	size_t length = 0;
	if (n < 12 || memcmp(b, "\x93NUMPY", 6) != 0 || b[6] < 1 || b[6] > 3)
		return sentence("%s: does not start as an array of NumPy does; " ADVICE, a->name);
	for (size_t i = 0; i < words; i++)
		length |= (size_t)b[8 + i] << (8 * i);
	if (length > n - begin)
		return sentence("%s: ends in its header; the file is cut off: fetch it again",
				a->name);
	char *text = strndup((const char *)b + begin, length);
	CHECK(text, "out of memory: a header of %zu bytes", length);
	a->value = b + begin + length;
	char *wrong = header_read(a, text, n - begin - length);
	free(text);
	return wrong;
}

char *npy_read(struct array *a, struct content *c)
{
	*a = (struct array){.name = strdup(c->path), .own = c->at};
	CHECK(a->name, "out of memory: a name");
	c->at = NULL;
	return array_read(a, c->n);
}

/* ---- Archives ------------------------------------------------------------ */

enum { END = 22, ENTRY = 46, LOCAL = 30, COMMENT_MOST = 65535, STORED = 0, DEFLATED = 8 };

static size_t number(const uint8_t *b, size_t bytes)
{
	size_t n = 0;
	for (size_t i = 0; i < bytes; i++)
		n |= (size_t)b[i] << (8 * i);
	return n;
}

static bool begins(const struct content *c, size_t at, const char *mark, size_t bytes)
{
	return at <= c->n && bytes <= c->n - at && memcmp(c->at + at, mark, 4) == 0;
}

/* The record at the end, which a comment may follow; 0: there is none. */
static size_t end_of(const struct content *c)
{
	for (size_t back = END; back <= c->n && back <= END + COMMENT_MOST; back++)
		if (begins(c, c->n - back, "PK\5\6", END))
			return c->n - back;
	return 0;
}

/* Deflate makes at most 1,032 bytes of one. */
static char *member_unpack(struct array *a, const uint8_t *from, size_t packed, size_t size,
			   size_t method, size_t checksum)
{
	z_stream z = {.next_in = (uint8_t *)(uintptr_t)from, .avail_in = (unsigned)packed};
	int got = Z_STREAM_END;
	if ((method != STORED && method != DEFLATED) || (method == STORED && packed != size) ||
	    size / 1032 > packed || !(a->own = malloc(size + 1)))
		return sentence("%s: its member is packed in another way, or has no size of an "
				"array; " ADVICE,
				a->name);
	if (method == STORED) {
		memcpy(a->own, from, size);
	} else if (inflateInit2(&z, -MAX_WBITS) == Z_OK) { /* without zlib's header */
		z.next_out = a->own;
		z.avail_out = (unsigned)size;
		got = inflate(&z, Z_FINISH);
		inflateEnd(&z);
	}
	if (got != Z_STREAM_END || z.avail_out || crc32_z(0, a->own, size) != checksum)
		return sentence("%s: its checksum is not that of the archive; the file is damaged: "
				"fetch it again",
				a->name);
	return array_read(a, size);
}

/* The member of the entry at this place. */
static char *member_read(struct array *a, const struct content *c, size_t entry)
{
	const uint8_t *e = c->at + entry;
	const size_t packed = number(e + 20, 4), size = number(e + 24, 4), at = number(e + 42, 4);
	if (packed == UINT32_MAX || size == UINT32_MAX || at == UINT32_MAX)
		return sentence("%s: has 4 GB or more; give it as a file of its own, with "
				"numpy.save",
				a->name);
	if (!begins(c, at, "PK\3\4", LOCAL))
		return sentence("%s: the archive has no such member; " ADVICE, a->name);
	const size_t names = number(c->at + at + 26, 2) + number(c->at + at + 28, 2);
	if (names > c->n - at - LOCAL || packed > c->n - at - LOCAL - names)
		return sentence("%s: the archive ends early; fetch it again", a->name);
	return member_unpack(a, c->at + at + LOCAL + names, packed, size, number(e + 10, 2),
			     number(e + 16, 4));
}

/* The place of a name in the list, n: it is not there. */
static size_t place_of(const char *const *name, size_t n, const uint8_t *text, size_t length)
{
	size_t i = 0;
	while (i < n && (strlen(name[i]) + 4 != length || memcmp(name[i], text, length - 4) != 0 ||
			 memcmp(text + length - 4, ".npy", 4) != 0))
		i++;
	return i;
}

char *npz_read(struct array *a, const char *const *name, size_t n, const struct content *c,
	       char **all)
{
	const size_t end = end_of(c);
	*all = sentence("%s", "");
	if (!end)
		return sentence("%s: not an archive of NumPy; " ADVICE, c->path);
	size_t at = number(c->at + end + 16, 4);
	for (size_t left = number(c->at + end + 10, 2); left > 0; left--) {
		if (!begins(c, at, "PK\1\2", ENTRY))
			return sentence("%s: its list of members is damaged; fetch it again",
					c->path);
		const uint8_t *e = c->at + at;
		const size_t length = number(e + 28, 2),
			     whole = ENTRY + length + number(e + 30, 2) + number(e + 32, 2);
		if (whole > c->n - at)
			return sentence("%s: its list of members ends early; fetch it again",
					c->path);
		const size_t i = place_of(name, n, e + ENTRY, length);
		char *more = sentence("%s%s%.*s", *all, **all ? ", " : "",
				      (int)(length < 64 ? length : 64), (const char *)e + ENTRY);
		free(*all);
		*all = more;
		if (i < n && !a[i].name) {
			a[i].name = sentence("%s: %s", c->path, name[i]);
			TRY(member_read(&a[i], c, at));
		}
		at += whole;
	}
	return NULL;
}
