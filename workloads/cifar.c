/*
 * cifar.c - CIFAR-10 (Krizhevsky 2009) in its binary version, if --data-dir has it, otherwise a set
 * of the user's own (arrays.c), or Fashion-MNIST padded to the same 32 x 32.
 *
 * data_batch_1.bin to data_batch_5.bin, as many as are there, and test_batch.bin are rows of 3,073
 * bytes: the label, then 32 x 32 pixels of red, of green and of blue. They become images with the
 * channel running fastest. Sizes and labels are checked; messages about errors name the file. 154
 * MB in memory for 50,000 rows.
 */
#include "workloads/arrays.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define WHOLE_SET \
	"CIFAR-10's binary version has data_batch_1.bin to data_batch_5.bin and test_batch.bin"

enum {
	CLASSES = 10,
	SIZE = 32,
	CHANNELS = 3,
	PIXELS = SIZE * SIZE,
	FEATURES = PIXELS * CHANNELS,
	ROW = 1 + FEATURES,
	BATCHES = 5,
	TEST = 0, /* number of the test file */
	TRAIN_ROWS = 50000,
	TEST_ROWS = 10000
};

#define NAME "cifar10"
#define SHAPE \
	.features = FEATURES, .classes = CLASSES, .value_size = 1, .image = {SIZE, SIZE, CHANNELS}

/* ---- Files --------------------------------------------------------------- */

static char *path_of(const struct run *run, int batch)
{
	return batch == TEST ? sentence("%s/test_batch.bin", run_data_dir(run))
			     : sentence("%s/data_batch_%d.bin", run_data_dir(run), batch);
}

/* Is the file there? file_open reports any other reason why it cannot be opened. */
static bool there(const struct run *run, int batch)
{
	char *path = path_of(run, batch);
	const bool is = access(path, F_OK) == 0 || (errno != ENOENT && errno != ENOTDIR);
	free(path);
	return is;
}

static bool is_cifar(const struct run *run)
{
	bool is = false;
	for (int i = 0; run_data_dir(run) && *run_data_dir(run) && i <= BATCHES; i++)
		is |= there(run, i);
	return is;
}

/* Opens a file and counts its rows. The caller closes *f if it is not NULL. */
static char *file_open(const char *path, FILE **f, size_t *rows)
{
	struct stat s;
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC); /* does not wait for a pipe */
	*f = fd >= 0 ? fdopen(fd, "rb") : NULL;
	if (!*f || fstat(fileno(*f), &s) != 0)
		return sentence("%s: %s; " WHOLE_SET, path, strerror(errno));
	if (S_ISDIR(s.st_mode))
		return sentence("%s: %s; " WHOLE_SET, path, strerror(EISDIR));
	if (!S_ISREG(s.st_mode))
		return sentence("%s: not a plain file; give a plain file", path);
	if (s.st_size == 0 || s.st_size % ROW != 0)
		return sentence("%s: has %lld bytes, which is not a number of rows of %d (a label "
				"and 32 x 32 x 3 pixels); fetch it again",
				path, (long long)s.st_size, ROW);
	*rows = (size_t)s.st_size / ROW;
	return NULL;
}

/* Interleaves a row's planes of red, green and blue into pixels. */
static void row_take(uint8_t *pixel, const uint8_t *row)
{
	for (size_t c = 0; c < CHANNELS; c++)
		for (size_t i = 0; i < PIXELS; i++)
			pixel[i * CHANNELS + c] = row[1 + c * PIXELS + i];
}

static char *file_read(const char *path, FILE *f, uint8_t *pixel, float *label, size_t rows)
{
	uint8_t row[ROW];
	for (size_t i = 0; i < rows; i++) {
		if (fread(row, ROW, 1, f) != 1)
			return sentence("%s: row %zu: %s; fetch it again", path, i,
					ferror(f) ? strerror(errno) : "the file ends early");
		if (row[0] >= CLASSES)
			return sentence("%s: row %zu has the label %u, labels are 0 to %d; give "
					"CIFAR-10 in its binary version",
					path, i, row[0], CLASSES - 1);
		label[i] = row[0];
		row_take(pixel + i * FEATURES, row);
	}
	return NULL;
}

/* ---- Parts --------------------------------------------------------------- */

/* Files first..last: counts their rows and, where d has memory, reads them. */
static char *part_walk(const struct run *run, struct data *d, int first, int last)
{
	size_t at = 0, rows = 0;
	char *wrong = NULL;
	for (int i = first; i <= last && !wrong; i++, at += rows) {
		char *path = path_of(run, i);
		FILE *f;

		wrong = file_open(path, &f, &rows);
		if (!wrong && d->bytes && at + rows > d->n)
			wrong = sentence("%s: grew while it was read", path);
		else if (!wrong && d->bytes)
			wrong = file_read(path, f, (uint8_t *)d->bytes + at * FEATURES,
					  (float *)d->target + at, rows);
		if (f)
			fclose(f);
		free(path);
	}
	if (!d->bytes)
		d->n = at;
	return wrong;
}

static char *part_get(const struct run *run, struct data *d, int first, int last, bool load)
{
	char *wrong;
	*d = (struct data){SHAPE};
	wrong = part_walk(run, d, first, last);
	if (wrong || !load)
		return wrong;
	if (!data_room(d))
		return sentence("--data-dir=%s: no memory for %zu images of %d bytes",
				run_data_dir(run), d->n, FEATURES);
	return part_walk(run, d, first, last);
}

static char *cifar_get(const struct run *run, struct data *train, struct data *test, bool load)
{
	int last = 1;
	char *wrong;
	*train = *test = (struct data){0};
	while (last < BATCHES && there(run, last + 1))
		last++;
	for (int i = last + 2; i <= BATCHES; i++)
		if (there(run, i))
			return sentence("%s/data_batch_%d.bin is not there, and data_batch_%d.bin "
					"is; give the files before it as well",
					run_data_dir(run), last + 1, i);
	/* the sizes of all files before the first image: errors are found early */
	wrong = load ? cifar_get(run, train, test, false) : NULL;
	if (!wrong)
		wrong = part_get(run, train, 1, last, load);
	if (!wrong)
		wrong = part_get(run, test, TEST, TEST, load);
	if (wrong)
		data_unload(train, test);
	return wrong;
}

/* ---- The set ------------------------------------------------------------- */

/* The user's folder may have been meant for either set: reports both. */
static char *either(const struct run *run, char *wrong)
{
	char *both;
	if (!wrong || !run_data_dir(run) || !*run_data_dir(run))
		return wrong;
	both = sentence("--data-dir=%s: has no data_batch_1.bin of CIFAR-10; and for "
			"Fashion-MNIST: %s",
			run_data_dir(run), wrong);
	free(wrong);
	return both;
}

/* A simulation of time alone reads no image and needs no file: the name of the set is enough. */
static bool is_named(const struct run *run)
{
	return run_data_dir(run) && strcmp(run_data_dir(run), NAME) == 0 &&
	       strcmp(run_platform(run), "sim") == 0 && !run_sim_train(run);
}

static char *either_get(const struct run *run, struct data *train, struct data *test, bool load)
{
	const struct dataset *other = &dataset_fashion_mnist_32;
	if (is_cifar(run))
		return cifar_get(run, train, test, load);
	if (arrays_given(run))
		return arrays_get(run, train, test, false, load);
	if (load || !is_named(run))
		return either(run, (load ? other->load : other->probe)(run, train, test));
	*train = (struct data){.n = TRAIN_ROWS, SHAPE};
	*test = (struct data){.n = TEST_ROWS, SHAPE};
	return NULL;
}

PROBE_AND_LOAD(either, either_get(run, train, test, load))

const struct dataset dataset_cifar10_or_fashion = {
	.name = "cifar10_or_fashion",
	.summary = "CIFAR-10, 60,000 colour images of 32 x 32, if --data-dir has it, otherwise "
		   "Fashion-MNIST padded to 32 x 32; or a set of your own",
	.needs = "--data-dir=FOLDER with CIFAR-10's data_batch_1.bin to data_batch_5.bin and "
		 "test_batch.bin, or --data-dir=FILE.npz, FILE.py, or a FOLDER of arrays; without "
		 "them Fashion-MNIST is used: the Debian package dataset-fashion-mnist, or "
		 "--data-dir=FOLDER with IDX files. Simulations of time alone (--sim.train=false) "
		 "need no file: --data-dir=" NAME,
	.probe = either_probe,
	.load = either_load,
	.unload = data_unload,
};
