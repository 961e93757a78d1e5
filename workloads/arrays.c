/*
 * arrays.c - a set of the user's own: arrays of NumPy, or tables of text, in a file or a folder.
 *
 * Rows of arrays are as they are: bytes are divided by 255 when they are used, all other numbers
 * are taken as they are. A Python file gives them by its function data(), which runs in the user's
 * interpreter. Rows of three and four dimensions are images, whose channels come last in
 * memory. Columns of tables get mean 0 and variance 1 over the training rows. If there are no test
 * rows, a fifth of the rows are drawn for that: the same ones in each run. For a regression the
 * label is a number, which is taken as it is; so are bytes.
 */
#include "workloads/arrays.h"
#include "runtime/base/rng.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { X, Y, TEST_X, TEST_Y, ARRAYS, CLASSES_MOST = 65536, TEST_PART = 5 };

/* Usual names; the first two are enough. */
static const char *const names[][ARRAYS] = {
	{"x_train", "y_train", "x_test", "y_test"},
	{"X_train", "y_train", "X_test", "y_test"},
	{"train_images", "train_labels", "test_images", "test_labels"},
	{"x", "y", "-", "-"},
	{"X", "y", "-", "-"},
	{"images", "labels", "-", "-"},
};
#define ADVICE "name them x_train, y_train, x_test and y_test, or x and y (see workloads/README.md)"

enum { NAMES = sizeof names / sizeof *names };
static const char *const tables[] = {"train.csv", "test.csv"};

bool name_ends_in(const char *text, const char *end)
{
	const size_t n = strlen(text), m = strlen(end);
	return n > m && strcmp(text + n - m, end) == 0;
}

/* FOLDER/NAME+ENDING, or the same gzipped, if it is there; heap, or NULL. */
static char *found(const char *folder, const char *name, const char *ending)
{
	for (int zipped = 0; zipped < 2; zipped++) {
		char *path = sentence("%s/%s%s%s", folder, name, ending, zipped ? ".gz" : "");
		if (access(path, F_OK) == 0)
			return path;
		free(path);
	}
	return NULL;
}

static bool is_there(const char *folder, const char *name, const char *ending)
{
	char *path = found(folder, name, ending);
	free(path);
	return path != NULL;
}

/* The first names of which a folder has the rows; NAMES: none. */
static size_t named_in(const char *folder)
{
	size_t i = 0;
	while (i < NAMES && !is_there(folder, names[i][X], ".npy"))
		i++;
	return i;
}

static bool is_archive(const char *path)
{
	return name_ends_in(path, ".npz") || name_ends_in(path, ".npz.gz") ||
	       name_ends_in(path, ".py");
}

static bool is_table(const char *path)
{
	return name_ends_in(path, ".csv") || name_ends_in(path, ".csv.gz") ||
	       name_ends_in(path, ".tsv") || name_ends_in(path, ".tsv.gz");
}

bool arrays_given(const struct run *run)
{
	struct stat st;
	const char *path = run_data_dir(run);
	if (!path || !*path)
		return false;
	if (stat(path, &st) != 0)
		return is_archive(path) || is_table(path);
	return !S_ISDIR(st.st_mode) || named_in(path) < NAMES || is_there(path, tables[0], "");
}

/* ---- Shapes -------------------------------------------------------------- */

/* Where channels are: the last dimension, as in TensorFlow, or the first one, as in PyTorch. */
static bool is_channels(size_t n)
{
	return n == 1 || n == 3 || n == 4;
}

static bool channels_first(const struct array *x)
{
	return x->dims == 4 && !is_channels(x->size[3]) && is_channels(x->size[1]);
}

static char *arrays_shape_of(struct data *d, const struct array *x)
{
	const size_t *s = x->size;
	d->n = s[0];
	d->features = array_row(x);
	if (x->dims == 1)
		return sentence("%s: it has one dimension; give rows of values, as "
				"x.reshape(-1, 1) does",
				x->name);
	if (x->dims == 4 && !is_channels(s[3]) && !is_channels(s[1]))
		return sentence("%s: its rows are %zu x %zu x %zu; give images of height x width "
				"x channels, or channels x height x width, with 1, 3 or 4 channels",
				x->name, s[1], s[2], s[3]);
	if (x->dims == 3)
		d->image = (struct image){s[1], s[2], 1};
	else if (x->dims == 4)
		d->image = channels_first(x) ? (struct image){s[2], s[3], s[1]}
					     : (struct image){s[1], s[2], s[3]};
	return NULL;
}

/* The place in the array of value k of a row whose channels come last. */
static size_t place(const struct array *x, struct image i, size_t k)
{
	const size_t pixel = i.channels ? k / i.channels : 0;
	return channels_first(x) ? k % i.channels * i.height * i.width + pixel : k;
}

/* ---- Arrays -------------------------------------------------------------- */

static char *label_check(const struct array *y, size_t row, double label, bool values)
{
	if (values && !isfinite((float)label))
		return sentence("%s: row %zu has the value %g; give finite numbers", y->name, row,
				label);
	if (values || (label >= 0 && label < CLASSES_MOST && label == floor(label)))
		return NULL;
	return sentence("%s: row %zu has the label %g; labels are whole numbers from 0 to %d",
			y->name, row, label, CLASSES_MOST - 1);
}

static char *labels_take(struct data *d, const struct array *y, bool values)
{
	if (y->size[0] != d->n || array_row(y) != 1)
		return sentence("%s: it has %zu x %zu values, and there are %zu rows; give one "
				"label for each row",
				y->name, y->size[0], array_row(y), d->n);
	float *to = (float *)(uintptr_t)d->target;
	for (size_t i = 0; i < d->n; i++) {
		const double label = array_value(y, i);
		TRY(label_check(y, i, label, values));
		to[i] = (float)label;
		if (!values && d->classes <= (size_t)label)
			d->classes = (size_t)label + 1;
	}
	return NULL;
}

static char *values_take(struct data *d, const struct array *x)
{
	uint8_t *bytes = (uint8_t *)(uintptr_t)d->bytes;
	float *floats = (float *)(uintptr_t)d->floats;
	for (size_t row = 0, i = 0; row < d->n; row++)
		for (size_t k = 0; k < d->features; k++, i++) {
			const size_t from = row * d->features + place(x, d->image, k);
			if (bytes)
				bytes[i] = x->value[from];
			else
				floats[i] = (float)array_value(x, from);
			if (floats && !isfinite(floats[i]))
				return sentence("%s: row %zu has the value %g; give finite numbers",
						x->name, row, (double)floats[i]);
		}
	return NULL;
}

/* Memory of d->n rows, of bytes or floats. */
static char *room_for(struct data *d, bool bytes, const char *name)
{
	d->value_size = bytes ? 1 : sizeof(float);
	if (bytes)
		d->bytes = calloc(d->n, d->features);
	else
		d->floats = calloc(d->n, d->features * sizeof(float));
	d->target = calloc(d->n, sizeof *d->target);
	return (d->bytes || d->floats) && d->target
		       ? NULL
		       : sentence("%s: no memory for %zu rows of %zu values; use a smaller set",
				  name, d->n, d->features);
}

static char *part_take(struct data *d, const struct array *x, const struct array *y, bool bytes,
		       bool values)
{
	TRY(arrays_shape_of(d, x));
	TRY(room_for(d, bytes, x->name));
	TRY(values_take(d, x));
	return labels_take(d, y, values);
}

static bool is_bytes(const struct array *x)
{
	return !x->name || (x->kind == 'u' && x->width == 1);
}

static char *arrays_take(const struct array a[ARRAYS], struct data *train, struct data *test,
			 bool values)
{
	const bool bytes = !values && is_bytes(&a[X]) && is_bytes(&a[TEST_X]);
	TRY(part_take(train, &a[X], &a[Y], bytes, values));
	return a[TEST_X].name ? part_take(test, &a[TEST_X], &a[TEST_Y], bytes, values) : NULL;
}

/* Labels are needed where rows are. */
static char *pairs_check(const struct array a[ARRAYS], const char *path, const char *const *name)
{
	for (int i = 0; i < ARRAYS; i += 2)
		if (!a[i].name != !a[i + 1].name)
			return sentence("%s: it has %s, and no %s; " ADVICE, path,
					name[i + !a[i].name], name[i + !a[i + 1].name]);
	return NULL;
}

static char *folder_read(struct array a[ARRAYS], const char *folder)
{
	const char *const *name = names[named_in(folder)];
	for (int i = 0; i < ARRAYS; i++) {
		struct content c;
		char *path = found(folder, name[i], ".npy"), *wrong;
		if (!path)
			continue;
		wrong = content_read(&c, path, -1);
		if (wrong)
			free(c.at);
		else
			wrong = npy_read(&a[i], &c);
		free(path);
		if (wrong)
			return wrong;
	}
	return pairs_check(a, folder, name);
}

static char *archive_read(struct array a[ARRAYS], const struct content *c)
{
	char *all = NULL, *wrong = NULL;
	for (size_t i = 0; i < NAMES && !a[X].name && !wrong; i++) {
		free(all);
		for (int k = 0; k < ARRAYS; k++)
			array_free(&a[k]);
		wrong = npz_read(a, names[i], ARRAYS, c, &all);
		if (!wrong && a[X].name)
			wrong = pairs_check(a, c->path, names[i]);
	}
	if (!wrong && !a[X].name)
		wrong = sentence("%s: it has the arrays %s; " ADVICE, c->path, all);
	free(all);
	return wrong;
}

static char *arrays_read(const char *path, bool archive, struct data *train, struct data *test,
			 bool values)
{
	struct array a[ARRAYS] = {{.name = NULL}};
	struct content c = {.at = NULL};
	char *wrong = NULL;
	int fd = name_ends_in(path, ".py") ? data_of_python(path, &wrong) : -1;
	if (!wrong)
		wrong = archive ? content_read(&c, (char *)(uintptr_t)path, fd)
				: folder_read(a, path);
	else if (fd >= 0)
		close(fd);
	if (!wrong && archive)
		wrong = archive_read(a, &c);
	free(c.at);
	if (!wrong)
		wrong = arrays_take(a, train, test, values);
	for (int i = 0; i < ARRAYS; i++)
		array_free(&a[i]);
	return wrong;
}

/* ---- Tables -------------------------------------------------------------- */

static int by_number(const void *a, const void *b)
{
	const double x = strtod(*(char *const *)a, NULL), y = strtod(*(char *const *)b, NULL);
	return (x > y) - (x < y);
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool are_numbers(char *const *label, size_t n)
{
	char *end;
	size_t i = 0;
	while (i < n && (strtod(label[i], &end), end != label[i] && !*end))
		i++;
	return i == n;
}

/* Labels in ascending order are classes 0, 1, ... */
static char *classes_take(struct data *train, struct data *test, const struct csv *c)
{
	const size_t n = c[0].n + c[1].n;
	size_t classes = 0;
	char **sorted = malloc(n * sizeof *sorted);
	CHECK(sorted, "out of memory: %zu labels", n);
	memcpy(sorted, c[0].label, c[0].n * sizeof *sorted);
	if (c[1].n)
		memcpy(sorted + c[0].n, c[1].label, c[1].n * sizeof *sorted);
	int (*order)(const void *, const void *) = are_numbers(sorted, n) ? by_number : by_text;
	qsort(sorted, n, sizeof *sorted, order);
	for (size_t i = 0; i < n; i++)
		if (i == 0 || order(&sorted[classes - 1], &sorted[i]) != 0)
			sorted[classes++] = sorted[i];
	train->classes = test->classes = classes;
	for (int part = 0; part < 2; part++) {
		float *to = (float *)(uintptr_t)(part ? test : train)->target;
		for (size_t i = 0; i < c[part].n; i++) {
			char **at =
				bsearch(&c[part].label[i], sorted, classes, sizeof *sorted, order);
			to[i] = (float)(at - sorted);
		}
	}
	free(sorted);
	return classes < CLASSES_MOST && 2 * classes <= n
		       ? NULL
		       : sentence("%s: its label column has %zu different values in %zu rows; "
				  "a class needs at least two rows: add rows, or call the column "
				  "that has the classes label",
				  c[0].content.path, classes, n);
}

static void standardise(struct data *train, struct data *test)
{
	const size_t n = train->features;
	struct data *const part[] = {train, test};
	double *mean = calloc(2 * n, sizeof *mean), *square = mean + n;
	CHECK(mean, "out of memory: %zu columns", n);
	for (size_t i = 0; i < train->n * n; i++)
		mean[i % n] += (double)train->floats[i] / (double)train->n;
	for (size_t i = 0; i < train->n * n; i++) {
		const double d = (double)train->floats[i] - mean[i % n];
		square[i % n] += d * d / (double)train->n;
	}
	for (int p = 0; p < 2; p++)
		for (size_t i = 0; i < part[p]->n * n; i++) {
			float *x = (float *)(uintptr_t)part[p]->floats + i;
			const double d = (double)*x - mean[i % n];
			*x = square[i % n] > 0 ? (float)(d / sqrt(square[i % n])) : 0;
		}
	free(mean);
}

/* The labels as numbers. */
static char *numbers_take(struct data *d, const struct csv *c)
{
	for (size_t i = 0; i < c->n; i++)
		if (!csv_number(c->label[i], (float *)(uintptr_t)d->target + i))
			return sentence("%s: row %zu has the label '%.40s'; a regression needs "
					"numbers: give a workload with classes, such as mlp",
					c->content.path, i, c->label[i]);
	return NULL;
}

static char *tables_take(struct csv c[2], struct data *train, struct data *test, bool values)
{
	struct data *const part[] = {train, test};
	if (c[1].n && c[0].features != c[1].features)
		return sentence("%s: it has %zu columns, and %s has %zu; both need all columns and "
				"the label",
				c[1].content.path, c[1].features + 1, c[0].content.path,
				c[0].features + 1);
	for (int i = 0; i < 2 && c[i].n; i++) {
		*part[i] = (struct data){.n = c[i].n, .features = c[i].features};
		TRY(room_for(part[i], false, c[i].content.path));
		memcpy((float *)(uintptr_t)part[i]->floats, c[i].x,
		       c[i].n * c[i].features * sizeof(float));
		if (values)
			TRY(numbers_take(part[i], &c[i]));
	}
	return values ? NULL : classes_take(train, test, c);
}

/* path: a table; folder: one that has tables instead. */
static char *tables_read(const char *path, bool folder, struct data *train, struct data *test,
			 bool values)
{
	struct csv c[2] = {{.n = 0}, {.n = 0}};
	char *file[2] = {folder ? found(path, tables[0], "") : sentence("%s", path),
			 folder ? found(path, tables[1], "") : NULL},
	     *wrong = NULL;
	for (int i = 0; i < 2 && file[i] && !wrong; i++)
		wrong = csv_read(&c[i], file[i]);
	if (!wrong)
		wrong = tables_take(c, train, test, values);
	for (int i = 0; i < 2; i++) {
		csv_free(&c[i]);
		free(file[i]);
	}
	return wrong;
}

/* ---- The set ------------------------------------------------------------- */

/* Moves a fifth of the rows from train to test. Selection sampling (Knuth, The Art of Computer
 * Programming 2, 3.4.2, algorithm S): both keep the order of the rows. */
static char *test_draw(struct data *train, struct data *test, const char *path)
{
	const size_t n = train->n, tests = n / TEST_PART, row = train->features * train->value_size;
	uint64_t rng = rng_seed(0, RNG_DATA, 0);
	size_t kept = 0, drawn = 0;
	*test = *train;
	test->n = tests;
	test->bytes = NULL;
	test->floats = NULL;
	test->target = NULL;
	if (tests == 0)
		return sentence("%s: %zu rows are too few to take test rows from; give at least %d",
				path, n, TEST_PART);
	TRY(room_for(test, train->bytes, path));
	uint8_t *from = train->bytes ? (uint8_t *)(uintptr_t)train->bytes
				     : (uint8_t *)(uintptr_t)train->floats,
		*to = test->bytes ? (uint8_t *)(uintptr_t)test->bytes
				  : (uint8_t *)(uintptr_t)test->floats;
	float *y = (float *)(uintptr_t)train->target, *test_y = (float *)(uintptr_t)test->target;
	for (size_t i = 0; i < n; i++) {
		const bool out = (double)(n - i) * rng_uniform(&rng) < (double)(tests - drawn);
		memmove(out ? to + drawn * row : from + kept * row, from + i * row, row);
		*(out ? &test_y[drawn] : &y[kept]) = y[i];
		drawn += out;
		kept += !out;
	}
	train->n = kept;
	return NULL;
}

static char *parts_check(struct data *train, struct data *test, const char *path, bool values)
{
	const struct image a = train->image, b = test->image;
	if (train->features != test->features || a.height != b.height || a.channels != b.channels)
		return sentence(
			"%s: training rows have %zu values (%zu x %zu x %zu), test rows %zu "
			"(%zu x %zu x %zu)",
			path, train->features, a.height, a.width, a.channels, test->features,
			b.height, b.width, b.channels);
	if (train->n > INT32_MAX || test->n > INT32_MAX)
		return sentence("%s: more than %d rows", path, INT32_MAX);
	train->classes = train->classes > test->classes ? train->classes : test->classes;
	test->classes = train->classes;
	return values || train->classes > 1
		       ? NULL
		       : sentence("%s: all rows have the same label; give two classes or "
				  "more",
				  path);
}

static char *arrays_rows_read(const char *path, struct data *train, struct data *test, bool values)
{
	struct stat st;
	const bool folder = stat(path, &st) == 0 && S_ISDIR(st.st_mode),
		   archive = !folder && is_archive(path),
		   table = folder ? is_there(path, tables[0], "") : is_table(path);
	if (!folder && !archive && !table)
		return sentence("--data-dir=%s: give a folder, or a file that ends in .npz, .csv, "
				".tsv or .py",
				path);
	TRY(table ? tables_read(path, folder, train, test, values)
		  : arrays_read(path, archive, train, test, values));
	if (!test->n)
		TRY(test_draw(train, test, path));
	if (table)
		standardise(train, test);
	return parts_check(train, test, path, values);
}

char *arrays_get(const struct run *run, struct data *train, struct data *test, bool values,
		 bool load)
{
	*train = *test = (struct data){0};
	char *wrong = arrays_rows_read(run_data_dir(run), train, test, values);
	struct data shape[] = {*train, *test};
	if (wrong || !load)
		data_unload(train, test);
	for (int i = 0; i < 2 && !wrong && !load; i++) {
		shape[i].bytes = NULL;
		shape[i].floats = shape[i].target = NULL;
		*(i ? test : train) = shape[i];
	}
	return wrong;
}
