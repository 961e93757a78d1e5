/*
 * text.c - any file, or all files of a folder and its subfolders, as one sequence of bytes: rows of
 * one byte, whose target is the byte that follows.
 *
 * Files are in the order of their names; equal contents are used once. Training uses the first 95
 * %, of which --validation takes the last rows; the rest is for tests. The default is the licences
 * that every Debian has, 0.24 MB. --data-dir=linux-doc is the sources of the Linux kernel's
 * documentation, in Debian's package linux-doc: 24 MB, licence GPL-2. Memory: five bytes for each
 * byte of the text. FILE.npy is an array of NumPy with the bytes, as numbers of any type.
 */
#include "workloads/arrays.h"

#include <errno.h>
#include <fts.h>
#include <glob.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FOLDER    "/usr/share/common-licenses"
#define LINUX_DOC "/usr/share/doc/linux-doc-[0-9]*/html/_sources"
#define ADVICE    "give --data-dir=FILE or FOLDER with text, of any kind"

enum { TOKENS = 256, TRAIN_PERCENT = 95, LEAST = 100 };

struct text {
	uint8_t *byte;
	size_t n, room;
	size_t *first; /* of each file; has one more entry, the end */
	size_t files;
};

static void text_free(struct text *t)
{
	free(t->byte);
	free(t->first);
	*t = (struct text){0};
}

static char *too_long(const char *path)
{
	return sentence("%s: the text has more than %d bytes; " ADVICE, path, INT32_MAX);
}

static int by_name(const FTSENT **a, const FTSENT **b)
{
	return strcmp((*a)->fts_name, (*b)->fts_name);
}

static bool is_known(const struct text *t, size_t first)
{
	const size_t n = t->n - first;
	for (size_t i = 0; i < t->files; i++)
		if (t->first[i + 1] - t->first[i] == n &&
		    memcmp(t->byte + t->first[i], t->byte + first, n) == 0)
			return true;
	return false;
}

/* Room for more bytes. */
static void text_grow(struct text *t, size_t more)
{
	if (t->room - t->n >= more)
		return;
	uint8_t *byte = realloc(t->byte, t->room = 2 * t->room + more + (1 << 16));
	CHECK(byte, "out of memory: a text of %zu bytes", t->room);
	t->byte = byte;
}

/* Returns an error for a file that cannot be read; drops contents that are already there. */
static char *file_add(struct text *t, const char *path)
{
	const size_t first = t->n;
	size_t got = 1;
	FILE *f = fopen(path, "rb");
	if (!f)
		return sentence("%s: %s; " ADVICE, path, strerror(errno));
	errno = 0;
	while (got && t->n <= INT32_MAX) {
		text_grow(t, 4096);
		got = fread(t->byte + t->n, 1, t->room - t->n, f);
		t->n += got;
	}
	char *wrong = ferror(f) ? sentence("%s: %s; " ADVICE, path, strerror(errno)) : NULL;
	fclose(f);
	if (!wrong && t->n > INT32_MAX)
		return too_long(path);
	if (wrong)
		return wrong;
	if (is_known(t, first)) {
		t->n = first;
		return NULL;
	}
	size_t *more = realloc(t->first, (t->files + 2) * sizeof *more);
	CHECK(more, "out of memory: %zu files", t->files);
	t->first = more;
	t->first[t->files++] = first;
	t->first[t->files] = t->n;
	return NULL;
}

static char *corpus_read(struct text *t, const char *path)
{
	char *paths[] = {(char *)(uintptr_t)path, NULL}, *wrong = NULL;
	FTS *walk = fts_open(paths, FTS_LOGICAL | FTS_NOCHDIR, by_name);
	CHECK(walk, "%s: %s", path, strerror(errno));
	for (FTSENT *e; !wrong && (errno = 0, e = fts_read(walk));)
		if (e->fts_info == FTS_F)
			wrong = file_add(t, e->fts_path);
		else if (e->fts_info == FTS_NS || e->fts_info == FTS_DNR || e->fts_info == FTS_ERR)
			wrong = sentence("%s: %s; " ADVICE, e->fts_path, strerror(e->fts_errno));
	fts_close(walk);
	if (!wrong && t->n < LEAST)
		wrong = sentence("%s: %s; " ADVICE, path,
				 t->files ? "fewer than 100 bytes of text are there"
					  : "there is no file in it");
	return wrong;
}

static char *array_take_bytes(struct text *t, const struct array *a)
{
	const size_t n = a->size[0] * array_row(a);
	if (n > INT32_MAX)
		return too_long(a->name);
	text_grow(t, n);
	for (; t->n < n; t->n++) {
		const double v = array_value(a, t->n);
		if (!(v >= 0 && v < TOKENS && v == floor(v)))
			return sentence("%s: value %zu is %g; gpt trains on bytes: give whole "
					"numbers from 0 to %d",
					a->name, t->n, v, TOKENS - 1);
		t->byte[t->n] = (uint8_t)v;
	}
	return n < LEAST ? sentence("%s: it has fewer than %d values; " ADVICE, a->name, LEAST)
			 : NULL;
}

static char *array_file_read(struct text *t, const char *path)
{
	struct array a = {.name = NULL};
	struct content c;
	char *wrong = content_read(&c, (char *)(uintptr_t)path, -1);
	if (!wrong)
		wrong = npy_read(&a, &c);
	if (!wrong)
		wrong = array_take_bytes(t, &a);
	free(c.at);
	array_free(&a);
	return wrong;
}

const char *newest_version(char *const *path, size_t n)
{
	const char *newest = path[0];
	for (size_t i = 1; i < n; i++)
		if (strverscmp(path[i], newest) > 0)
			newest = path[i];
	return newest;
}

/* The newest version of the kernel's documentation. */
static char *linux_doc_read(struct text *t)
{
	glob_t found;
	char *wrong = glob(LINUX_DOC, 0, NULL, &found) == 0
			      ? corpus_read(t, newest_version(found.gl_pathv, found.gl_pathc))
			      : sentence("--data-dir=linux-doc: there is no " LINUX_DOC
					 "; install the package linux-doc, or " ADVICE);
	globfree(&found);
	return wrong;
}

static char *named_read(struct text *t, const char *name)
{
	if (!name || !*name)
		return corpus_read(t, FOLDER);
	if (name_ends_in(name, ".npz") || name_ends_in(name, ".npz.gz"))
		return sentence("--data-dir=%s: an archive has several arrays, and a text is one; "
				"give one array of bytes as FILE.npy",
				name);
	if (name_ends_in(name, ".npy") || name_ends_in(name, ".npy.gz"))
		return array_file_read(t, name);
	return strcmp(name, "linux-doc") == 0 ? linux_doc_read(t) : corpus_read(t, name);
}

static struct data part(size_t n)
{
	return (struct data){.n = n,
			     .features = 1,
			     .classes = TOKENS,
			     .value_size = 1,
			     .tokens = true,
			     .ordered = true};
}

/* Bytes first .. first + d->n, the last one as a target only. */
static char *part_fill(struct data *d, const struct text *t, size_t first)
{
	if (!data_room(d))
		return sentence("no memory for a text of %zu bytes; give a shorter one", t->n);
	memcpy((uint8_t *)(uintptr_t)d->bytes, t->byte + first, d->n);
	for (size_t i = 0; i < d->n; i++)
		((float *)(uintptr_t)d->target)[i] = t->byte[first + i + 1];
	return NULL;
}

static char *text_get(const struct run *run, struct data *train, struct data *test, bool load)
{
	struct text t = {.n = 0};
	*train = *test = (struct data){0};
	char *wrong = named_read(&t, run_data_dir(run));
	size_t cut = (size_t)((unsigned __int128)t.n * TRAIN_PERCENT / 100);
	if (!wrong) {
		*train = part(cut - 1);
		*test = part(t.n - cut - 1);
	}
	if (!wrong && load)
		wrong = part_fill(train, &t, 0);
	if (!wrong && load)
		wrong = part_fill(test, &t, cut);
	text_free(&t);
	if (wrong)
		data_unload(train, test);
	return wrong;
}

PROBE_AND_LOAD(text, text_get(run, train, test, load))

const struct dataset dataset_text = {
	.name = "text",
	.summary = "the bytes of any file or folder, or of an array; by default the licences that "
		   "Debian has",
	.needs = "a text: " FOLDER ", which every Debian has; --data-dir=linux-doc, 24 MB of the "
		 "package linux-doc; or --data-dir=FILE, FILE.npy or FOLDER",
	.probe = text_probe,
	.load = text_load,
	.unload = data_unload,
	.of_machine = true,
};
