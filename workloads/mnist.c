/*
 * mnist.c - image sets in the IDX format of MNIST (LeCun, Cortes, Burges), for Fashion-MNIST (Xiao,
 * Rasul, Vollgraf, arXiv 1708.07747) and every MNIST-like set of 10 classes. --data-dir may
 * give another set: arrays.c.
 *
 * An IDX file is a big-endian magic number 0x0000 08 dd (unsigned bytes, dd dimensions), the dd
 * sizes, and the bytes; it may be gzipped. A set is four files in one folder. Sizes, counts,
 * labels, lengths and checksums are checked; messages about errors name the file. Images stay bytes
 * in memory: 47 MB for 60,000 of 28 x 28.
 */
#include "workloads/arrays.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#define FOLDER "/usr/share/datasets/fashion-mnist"
#define ADVICE "install the Debian package dataset-fashion-mnist or give --data-dir=FOLDER"

enum { CLASSES = 10, SIDE_MAX = 4096 };

struct idx {
	char path[4096];
	gzFile file;      /* NULL: not open */
	uint32_t size[3]; /* number of rows; for images also height and width */
};

/* ---- One file ------------------------------------------------------------ */

/* MVBENCH_DATA is for programs that bring their own copy of the set. */
static const char *folder(const struct run *run)
{
	const char *brought = getenv("MVBENCH_DATA");
	if (run_data_dir(run) && *run_data_dir(run))
		return run_data_dir(run);
	return brought && *brought ? brought : FOLDER;
}

/* Opens the file of this part under any of the usual names: "-" or "." before idx, ".gz" or not. */
static char *idx_find(struct idx *f, const struct run *run, const char *part, const char *kind,
		      int dims)
{
	int why = ENOENT;
	for (int i = 0; i < 4; i++) {
		int n = snprintf(f->path, sizeof f->path, "%s/%s-%s%sidx%d-ubyte%s", folder(run),
				 part, kind, i < 2 ? "-" : ".", dims, i % 2 ? ".gz" : "");
		if (n < 0 || (size_t)n >= sizeof f->path)
			return sentence("%.60s...: the folder's name is too long", folder(run));
		int fd = open(f->path, O_RDONLY | O_NONBLOCK | O_CLOEXEC); /* waits for no pipe */
		f->file = fd >= 0 ? gzdopen(fd, "rb") : NULL;
		if (f->file)
			return NULL;
		if (errno != ENOENT)
			why = errno;
	}
	bool brought = folder(run) == getenv("MVBENCH_DATA");
	return sentence("%s/%s-%s-idx%d-ubyte.gz: %s; %s", folder(run), part, kind, dims,
			strerror(why),
			brought ? "MVBENCH_DATA names this folder; correct or unset it" : ADVICE);
}

/* Reads n bytes, or returns what is wrong with the file. */
static char *idx_read(struct idx *f, uint8_t *to, size_t n)
{
	while (n) {
		unsigned piece = n < 1u << 30 ? (unsigned)n : 1u << 30;
		int got = gzread(f->file, to, piece), code;

		if (got < 0) {
			const char *why = gzerror(f->file, &code);

			return sentence("%s: %s; the file is damaged: fetch it again", f->path,
					code == Z_ERRNO ? strerror(errno) : why);
		}
		if (got == 0)
			return sentence(
				"%s: ends early, %zu bytes are missing; the file is cut off: "
				"fetch it again",
				f->path, n);
		to += got;
		n -= (size_t)got;
	}
	return NULL;
}

/* Opens a file and reads its header; the caller closes what is open. */
static char *idx_open(struct idx *f, const struct run *run, const char *part, const char *kind,
		      int dims)
{
	uint8_t b[16];
	char *wrong = idx_find(f, run, part, kind, dims);
	if (wrong)
		return wrong;
	wrong = idx_read(f, b, 4);
	if (!wrong && (b[0] || b[1] || b[2] != 8 || b[3] != dims))
		wrong = sentence(
			"%s: starts with %02x%02x%02x%02x, not with 000008%02x as an IDX file "
			"of %s does; " ADVICE,
			f->path, b[0], b[1], b[2], b[3], (unsigned)dims, kind);
	if (!wrong)
		wrong = idx_read(f, b, 4 * (size_t)dims);
	for (int i = 0; !wrong && i < dims; i++) {
		f->size[i] = (uint32_t)b[4 * i] << 24 | (uint32_t)b[4 * i + 1] << 16 |
			     (uint32_t)b[4 * i + 2] << 8 | b[4 * i + 3];
		if (f->size[i] == 0 || f->size[i] > (i ? SIDE_MAX : INT32_MAX))
			wrong = sentence("%s: size %d is %u, it should be 1 to %d; " ADVICE,
					 f->path, i, f->size[i], i ? SIDE_MAX : INT32_MAX);
	}
	return wrong;
}

/* No byte may follow the last one; this read also makes zlib check the checksum. */
static char *idx_end(struct idx *f)
{
	uint8_t b;
	int got = gzread(f->file, &b, 1), code;
	if (got > 0)
		return sentence("%s: has more bytes after its %u rows; " ADVICE, f->path,
				f->size[0]);
	const char *why = gzerror(f->file, &code);

	if (got < 0 || code == Z_BUF_ERROR)
		return sentence("%s: %s; the file is damaged: fetch it again", f->path, why);
	return NULL;
}

/* ---- One part: images and labels ----------------------------------------- */

/* The shape of the images: h x w, or padded with zeros to side x side if side is not 0. */
static char *part_shape(struct data *d, const struct idx *images, size_t side)
{
	size_t h = images->size[1], w = images->size[2];
	if (side && (h > side || w > side))
		return sentence("%s: images of %zu x %zu do not fit %zu x %zu; use a set of "
				"smaller images",
				images->path, h, w, side, side);
	d->n = images->size[0];
	d->image = side ? (struct image){side, side, 1} : (struct image){h, w, 1};
	d->features = image_size(d->image);
	d->classes = CLASSES;
	d->value_size = 1;
	return NULL;
}

static char *read_images(struct idx *f, uint8_t *to, size_t features, size_t side)
{
	size_t h = f->size[1], w = f->size[2];
	if (!side)
		return idx_read(f, to, f->size[0] * features);

	uint8_t *image = malloc(h * w);
	char *wrong = NULL;

	CHECK(image, "out of memory: an image of %zu x %zu", h, w);
	to += (side - h) / 2 * side + (side - w) / 2;
	for (size_t i = 0; i < f->size[0] && !wrong; i++, to += features) {
		wrong = idx_read(f, image, h * w);
		for (size_t y = 0; y < h && !wrong; y++)
			memcpy(to + y * side, image + y * w, w);
	}
	free(image);
	return wrong;
}

static char *read_labels(struct idx *f, float *to)
{
	size_t n = f->size[0];
	uint8_t *label = malloc(n);
	CHECK(label, "out of memory: %zu labels", n);
	char *wrong = idx_read(f, label, n);

	for (size_t i = 0; i < n && !wrong; i++) {
		if (label[i] >= CLASSES)
			wrong = sentence(
				"%s: row %zu has the label %u, labels are 0 to %d; " ADVICE,
				f->path, i, label[i], CLASSES - 1);
		to[i] = label[i];
	}
	free(label);
	return wrong;
}

static char *read_part(struct data *d, struct idx *images, struct idx *labels, size_t side)
{
	char *wrong;
	if (!data_room(d))
		return sentence("%s: no memory for %zu images of %zu bytes; use a smaller set",
				images->path, d->n, d->features);
	if (!(wrong = read_images(images, (uint8_t *)d->bytes, d->features, side)) &&
	    !(wrong = idx_end(images)) && !(wrong = read_labels(labels, (float *)d->target)))
		wrong = idx_end(labels);
	return wrong;
}

/* Fills d with the shape of a part and, when `load` is set, with its rows. */
static char *mnist_part_get(struct data *d, const struct run *run, const char *part, size_t side,
			    bool load)
{
	struct idx images = {.file = NULL}, labels = {.file = NULL};
	char *wrong = idx_open(&images, run, part, "images", 3);
	if (!wrong)
		wrong = idx_open(&labels, run, part, "labels", 1);
	if (!wrong && images.size[0] != labels.size[0])
		wrong = sentence("%s has %u images, %s has %u labels; " ADVICE, images.path,
				 images.size[0], labels.path, labels.size[0]);
	if (!wrong)
		wrong = part_shape(d, &images, side);
	if (!wrong && load)
		wrong = read_part(d, &images, &labels, side);
	gzclose(images.file); /* NULL is fine */
	gzclose(labels.file);
	return wrong;
}

/* ---- The sets ------------------------------------------------------------ */

/* side 0: images are not padded. */
static char *mnist_get(const struct run *run, struct data *train, struct data *test, size_t side,
		       bool load)
{
	*train = *test = (struct data){0};
	/* all four headers before the first image: errors are found early */
	char *wrong = load ? mnist_get(run, train, test, side, false) : NULL;
	if (!wrong)
		wrong = mnist_part_get(train, run, "train", side, load);
	if (!wrong)
		wrong = mnist_part_get(test, run, "t10k", side, load);
	const struct image a = train->image, b = test->image;
	if (!wrong && (a.height != b.height || a.width != b.width))
		wrong = sentence(
			"%s: training images are %zu x %zu, test images %zu x %zu; " ADVICE,
			folder(run), a.height, a.width, b.height, b.width);
	if (wrong)
		data_unload(train, test);
	return wrong;
}

#define NEEDS \
	"the Debian package dataset-fashion-mnist, or --data-dir=FOLDER with IDX files, " \
	"--data-dir=FILE.npz, FILE.csv, FILE.py, or a FOLDER of these"
#define SLOTS(set) .probe = set##_probe, .load = set##_load, .unload = data_unload

PROBE_AND_LOAD(plain, arrays_given(run) ? arrays_get(run, train, test, false, load)
					: mnist_get(run, train, test, 0, load))
PROBE_AND_LOAD(padded, arrays_given(run) ? arrays_get(run, train, test, false, load)
					 : mnist_get(run, train, test, 32, load))

const struct dataset dataset_fashion_mnist = {
	.name = "fashion_mnist",
	.summary = "60,000 + 10,000 images of 28 x 28, 10 classes; or a set of your own",
	.needs = NEEDS,
	SLOTS(plain),
};

const struct dataset dataset_fashion_mnist_32 = {
	.name = "fashion_mnist_32",
	.summary = "fashion_mnist, padded with zeros to 32 x 32; or a set of your own",
	.needs = NEEDS,
	SLOTS(padded),
};
