/*
 * check_arrays.c - data sets of a user's own: arrays that NumPy has written, tables of text, what
 * the readers refuse, and files with random errors.
 */
#include "runtime/config/config.h"
#include "tests/fixture.h"
#include "tests/shell.h"
#include "tests/suites.h"
#include "workloads/datasets.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Probes and loads folder/NAME, or the folder; NULL, or the message. Both have to agree. */
static char *load_as(const struct dataset *set, const char *name, struct data *train,
		     struct data *test)
{
	char *path AUTOFREE = sentence("%s/%s", folder, name);
	struct run run = {.data_dir = path};
	struct data shape, test_shape;
	char *first AUTOFREE = set->probe(&run, &shape, &test_shape),
		    *wrong = set->load(&run, train, test);
	ck_assert_msg(!first == !wrong && (!first || strcmp(first, wrong) == 0), "%s, then %s",
		      first, wrong);
	ck_assert(!shape.bytes && !shape.floats && !shape.target);
	if (!wrong) {
		ck_assert_uint_eq(shape.n, train->n);
		ck_assert_uint_eq(test_shape.n, test->n);
		ck_assert_uint_eq(shape.features, train->features);
		ck_assert_uint_eq(shape.classes, train->classes);
		ck_assert_uint_eq(shape.value_size, train->bytes ? 1 : sizeof(float));
	}
	return wrong;
}

static char *load(const char *name, struct data *train, struct data *test)
{
	return load_as(&dataset_fashion_mnist, name, train, test);
}

static void forget(struct data *train, struct data *test)
{
	dataset_fashion_mnist.unload(train, test);
}

static double value(const struct data *d, size_t i)
{
	return d->bytes ? d->bytes[i] : (double)d->floats[i];
}

CASE("arrays", .limit = 60, .set_up = folder_new, .tear_down = folder_free);

/* Python prints what the rows must be: rows, features, height, width and channels, and all values
 * and labels, of both parts. */
static const struct {
	const char *file, *save;
	bool bytes;
} saved[] = {
	{"a.npz", "v.savez('a.npz', x_train=x, y_train=y, x_test=x[:7], y_test=y[:7])", false},
	{"a.npz",
	 "v.savez_compressed('a.npz', more=y, x_train=x, y_train=y, x_test=x[:7], "
	 "y_test=y[:7])",
	 false},
	{"a.npz",
	 "b = v.uint8(abs(90 * x)); x = b; v.savez_compressed('a.npz', train_images=b, "
	 "train_labels=v.uint8(y)[:, None], test_images=b[:7], test_labels=v.uint8(y)[:7, None])",
	 true},
	{"",
	 "[v.save('X_train.npy', x), v.save('y_train.npy', y), v.save('X_test.npy', x[:7]), "
	 "v.save('y_test.npy', y[:7])]",
	 false},
	{"",
	 "s = [('x_train', x), ('y_train', y), ('x_test', x[:7]), ('y_test', y[:7])]; "
	 "[v.save(gzip.open(k + '.npy.gz', 'w'), a) for k, a in s]",
	 false},
	{"a.npz",
	 "x = x.reshape(-1, 90); v.savez('a.npz', x_train=x.astype('>f8'), "
	 "y_train=y.astype('>i2'), x_test=x[:7].astype('f4'), y_test=y[:7].astype('f4'))",
	 false},
	{"a.npz",
	 "x = v.int16(100 * x[:, 0]); v.savez('a.npz', x_train=x, y_train=y, "
	 "x_test=x[:7].astype('>i4'), y_test=y[:7])",
	 false},
	{"a.npz", "x = x > 0; v.savez('a.npz', x_train=x, y_train=y, x_test=x[:7], y_test=y[:7])",
	 false},
	{"a.npz",
	 "x = x.transpose(0, 2, 3, 1).copy(); last = True; v.savez('a.npz', x_train=x, "
	 "y_train=y, x_test=x[:7], y_test=y[:7])",
	 false},
};

TEST(arrays_of_numpy_are_read, COUNT(saved))
{
	const char *python = python_with("numpy");
	struct data train, test;
	size_t n, features, shape[3];
	if (!python)
		return;
	run(0,
	    "cd %s && %s -c \"\nimport gzip, numpy as v\nr = v.random.default_rng(1)\n"
	    "last = False\n"
	    "x, y = r.normal(size=(40, 3, 6, 5)).astype('f4'), r.integers(0, 4, 40)\n%s\n"
	    "image = x.transpose(0, 2, 3, 1) if x.ndim == 4 and not last else x\n"
	    "h = ((image.shape + (1,))[1:4] if x.ndim > 2 else (0, 0, 0))\n"
	    "for k in (40, 7):\n  a = image[:k].reshape(k, -1)\n  print(k, a.shape[1], *h)\n"
	    "  for b, c in zip(a, y): print(*map(float, b), int(c))\n\" >want",
	    folder, python, saved[_i].save);
	char *want AUTOFREE = folder_read("want"), *at = want,
		   *wrong AUTOFREE = load(saved[_i].file, &train, &test);
	ck_assert_msg(!wrong, "%s", wrong);
	ck_assert_uint_eq(train.classes, 4);
	ck_assert(!saved[_i].bytes == !train.bytes);
	for (int part = 0; part < 2; part++) {
		const struct data *d = part ? &test : &train;
		int used = 0;
		ck_assert_int_eq(sscanf(at, "%zu %zu %zu %zu %zu%n", &n, &features, &shape[0],
					&shape[1], &shape[2], &used),
				 5);
		at += used;
		ck_assert_uint_eq(d->n, n);
		ck_assert_uint_eq(d->features, features);
		ck_assert_uint_eq(d->image.height, shape[0]);
		ck_assert_uint_eq(d->image.width, shape[1]);
		ck_assert_uint_eq(d->image.channels, shape[2]);
		for (size_t i = 0; i < n; i++) {
			for (size_t k = 0; k < features; k++)
				ck_assert_double_eq(value(d, i * features + k),
						    (double)(float)strtod(at, &at));
			ck_assert_double_eq((double)d->target[i], strtod(at, &at));
		}
	}
	forget(&train, &test);
}

/* Standardised, with the classes in the order of their labels. */
static const struct {
	const char *file, *text;
} tables[] = {
	{"a.csv", "u,v,kind\n1,10,b\n3,30,a\n5,20,b\n1,10,c\n5,30,c\n3,20,a\n"},
	{"a.csv", "1;10;b\n3;30;a\n\n5;20;b\n1;10;c\n5;30;c\n3;20;a"},
	{"a.tsv", "\xef\xbb\xbf"
		  "Class\tu\tv\r\nb\t1\t10\r\na\t3\t30\r\nb\t5\t20\r\nc\t1\t10\r\n"
		  "c\t5\t30\r\na\t3\t20\r\n"},
	{"a.csv", "1.0, 10, 7\n3e0, 30, -2\n5, 20, 7\n1, 10, 40\n5, 30, 40\n3, 20, -2\n"},
	{"a.csv", "\"the \"\"u\"\", first\",label,v\n1,\"b\n,b\",10\n3,\"a\",30\n5,\"b\n,b\",20\n"
		  "1,c,10\n5,\"c\",30\n3,a,\"20\"\n"},
};

/* Are these the rows, without row `out`, which is for tests? */
static bool is_table(const struct data *train, const struct data *test, size_t out)
{
	static const double x[6][2] = {{1, 10}, {3, 30}, {5, 20}, {1, 10}, {5, 30}, {3, 20}};
	static const float label[] = {1, 0, 1, 2, 2, 0};
	bool same = true;
	for (size_t c = 0; c < 2; c++) {
		double mean = 0, square = 0;
		for (size_t i = 0; i < 6; i++) {
			mean += i == out ? 0 : x[i][c] / 5;
			square += i == out ? 0 : x[i][c] * x[i][c] / 5;
		}
		for (size_t i = 0; i < 6; i++) {
			const struct data *d = i == out ? test : train;
			const size_t row = i == out ? 0 : i - (i > out);
			const double want = (x[i][c] - mean) / sqrt(square - mean * mean);
			same &= d->target[row] == label[i] &&
				fabs((double)d->floats[row * 2 + c] - want) < 1e-5;
		}
	}
	return same;
}

TEST(tables_are_read, COUNT(tables))
{
	struct data train, test;
	folder_text(tables[_i].file, tables[_i].text);
	char *wrong AUTOFREE = load(tables[_i].file, &train, &test);
	ck_assert_msg(!wrong, "%s", wrong);
	ck_assert_uint_eq(train.n, 5);
	ck_assert_uint_eq(test.n, 1);
	ck_assert_uint_eq(train.classes, 3);
	ck_assert_uint_eq(test.classes, 3);
	size_t out = 0;
	while (out < 6 && !is_table(&train, &test, out))
		out++;
	ck_assert_uint_lt(out, 6);
	forget(&train, &test);
}

TEST(folder_of_tables_has_its_own_test_rows)
{
	struct data train, test;
	folder_text("train.csv", "x,label\n1,no\n3,yes\n1,no\n3,yes\n");
	folder_text("test.csv", "x,label\n2,yes\n5,no\n");
	char *wrong AUTOFREE = load("", &train, &test);
	ck_assert_msg(!wrong, "%s", wrong);
	ck_assert_uint_eq(train.n, 4);
	ck_assert_uint_eq(test.n, 2);
	ck_assert_float_eq(test.target[0], 1);
	ck_assert_double_eq((double)train.floats[1], 1);
	ck_assert_double_eq((double)test.floats[0], 0);
	ck_assert_double_eq((double)test.floats[1], 3);
	forget(&train, &test);
}

static int ascending(const void *a, const void *b)
{
	const float x = *(const float *)a, y = *(const float *)b;
	return (x > y) - (x < y);
}

/* Test rows are a fifth, never in both parts, and the same ones each time. */
TEST(rows_for_tests_are_drawn)
{
	enum { ROWS = 103, TESTS = ROWS / 5, TRAIN = ROWS - TESTS };
	char text[ROWS * 12] = "", *to = text;
	struct data train, test, again, again_test;
	float all[ROWS];
	for (int i = 0; i < ROWS; i++)
		to += sprintf(to, "%d,%d\n", i, i / 52); /* in the order of classes */
	folder_text("a.csv", text);
	char *wrong AUTOFREE = load("a.csv", &train, &test),
		    *other AUTOFREE = load("a.csv", &again, &again_test);
	ck_assert_msg(!wrong && !other, "%s", wrong);
	ck_assert_uint_eq(train.n, TRAIN);
	ck_assert_uint_eq(test.n, TESTS);
	ck_assert_mem_eq(test.floats, again_test.floats, TESTS * sizeof(float));
	memcpy(all, train.floats, TRAIN * sizeof(float));
	memcpy(all + TRAIN, test.floats, TESTS * sizeof(float));
	qsort(all, ROWS, sizeof *all, ascending);
	for (size_t i = 1; i < ROWS; i++) /* each row once */
		ck_assert_float_eq_tol(all[i] - all[i - 1], (all[ROWS - 1] - all[0]) / (ROWS - 1),
				       1e-5f);
	for (size_t i = 1; i < TESTS; i++)
		ck_assert(test.floats[i] > test.floats[i - 1]);
	ck_assert_float_eq(test.target[0], 0); /* of both classes */
	ck_assert_float_eq(test.target[TESTS - 1], 1);
	forget(&train, &test);
	forget(&again, &again_test);
}

/* Gradient descent over the same table in float64. A changed table is another cell. */
TEST(table_trains_as_numpy_does)
{
	const char *python = python_with("numpy");
	if (!python || lacks_program("sqlite3"))
		return;
	run(0,
	    "cd %s && %s -c \"\nimport numpy as v\nr = v.random.default_rng(1)\n"
	    "x = 5 * r.normal(size=(250, 3)) + 7; k = (x.sum(1) > 21) + (x[:, 0] > 9).astype(int)\n"
	    "rows = ['%%.9g,%%.9g,%%.9g,%%s' %% (*a, 'abc'[b]) for a, b in zip(x, k)]\n"
	    "[open(n, 'w').write('\\n'.join(l)) for n, l in (('train.csv', rows[:200]), "
	    "('test.csv', rows[200:]))]\n"
	    "x -= x[:200].mean(0); x /= x[:200].std(0); t = v.eye(3)[k]\n"
	    "w, b = v.zeros((3, 3)), 0\n"
	    "def p(z): e = v.exp(z - z.max(1)[:, None]); return e / e.sum(1)[:, None]\n"
	    "for _ in range(30):\n  d = (p(x[:200] @ w + b) - t[:200]) / 200\n"
	    "  w, b = w - x[:200].T @ d / 2, b - d.sum(0) / 2\n"
	    "print(-v.mean(v.log((p(x @ w + b) * t).sum(1)[200:])))\" >want",
	    folder, python);
	char *want AUTOFREE = folder_read("want"),
		   *sql AUTOFREE = sentence("SELECT abs(test_loss / %.12g - 1) < 1e-5, train_size, "
					    "length(data_hash) FROM run JOIN epoch ON id = run_id "
					    "WHERE epoch = 30",
					    strtod(want, NULL)),
		   *words AUTOFREE = sentence("--workload=softmax --data-dir=%s --epochs=30 "
					      "--batch=200 --lr=0.5",
					      folder);
	record_run(words);
	expect_row(sql, "1,200,16\r\n");
	folder_text("train.csv", "1,2,3,a\n2,3,4,b\n3,4,5,c\n1,2,3,a\n2,3,4,b\n3,4,5,c\n");
	record_run(words);
	expect_row("SELECT count(DISTINCT data_hash), count(DISTINCT config_hash) FROM run",
		   "2,2\r\n");
}

/* Bright and dark images, which any model tells apart after a few steps. */
TEST(own_images_train_each_model, 3)
{
	static const char *const workload[] = {"softmax", "mlp", "lenet"};
	const char *python = python_with("numpy");
	if (!python)
		return;
	run(0,
	    "cd %s && %s -c \"\nimport numpy as v\nr = v.random.default_rng(1)\n"
	    "y = v.arange(240) %% 2\nx = 0.1 * r.normal(size=(240, 8, 9)) + y[:, None, None]\n"
	    "v.savez('a.npz', x=x.astype('f4'), y=y)\"",
	    folder, python);
	char *words AUTOFREE = sentence("--workload=%s --data-dir=%s/a.npz --epochs=4 --batch=16",
					workload[_i], folder);
	record_run(words);
	expect_row("SELECT train_size, test_size, test_accuracy > 0.9 FROM run JOIN epoch ON id = "
		   "run_id WHERE epoch = 4",
		   "192,48,1\r\n");
}

/* ---- Regression ---------------------------------------------------------- */

/* The labels are numbers: of a table, and of arrays, whose bytes are taken as they are. */
TEST(regression_takes_numbers, 2)
{
	const char *python = python_with("numpy"), *file = _i ? "a.npz" : "a.csv";
	struct data train, test;
	double sum = 0, most = 0;
	if (_i && !python)
		return;
	if (_i)
		run(0,
		    "cd %s && %s -c \"import numpy as v; v.savez('a.npz', "
		    "x=v.uint8([[1], [3], [5], [200], [5]]), y=[0.5, -7, 1e3, 2, 2])\"",
		    folder, python);
	else
		folder_text(file, "u,y\n1,0.5\n3,-7\n5,1e3\n1,2\n5,2\n");
	char *wrong AUTOFREE = load_as(&dataset_cubes, file, &train, &test);
	ck_assert_msg(!wrong, "%s", wrong);
	ck_assert_uint_eq(train.n, 4);
	ck_assert_uint_eq(test.n, 1);
	ck_assert_uint_eq(train.features, 1);
	ck_assert_uint_eq(train.classes + test.classes, 0);
	for (size_t i = 0; i < 5; i++) {
		sum += (double)(i < 4 ? train.target[i] : test.target[0]);
		most = fmax(most, (double)(i < 4 ? train.floats[i] : test.floats[0]));
	}
	ck_assert_double_eq(sum, 997.5);
	if (_i)
		ck_assert_double_eq(most, 200);
	forget(&train, &test);
}

TEST(regression_refuses_other_files, 3)
{
	static const struct {
		const char *file, *text, *says;
	} row[] = {{"a.csv", "u,y\n1,1\n2,b\n3,2\n4,1\n5,1\n",
		    "row 1 has the label 'b'; a regression needs numbers"},
		   {"a.dat", "1,2\n", "a file that ends in .npz, .csv, .tsv or .py"},
		   {"none.csv", NULL, "No such file"}};
	struct data train, test;
	if (row[_i].text)
		folder_text(row[_i].file, row[_i].text);
	char *wrong AUTOFREE = load_as(&dataset_cubes, row[_i].file, &train, &test);
	ck_assert_msg(wrong && strstr(wrong, row[_i].says), "%s", wrong);
	ck_assert(!train.floats && !train.target && !test.floats);
}

/* A folder without rows of this kind is for other workloads: the rows are then made from the seed,
 * and are not compared with those of another one. */
TEST(own_rows_train_the_perceptron)
{
	char text[40 * 16] = "", *to = text;
	for (int i = 0; i < 40; i++)
		to += sprintf(to, "%d,%g\n", i, i / 40.0);
	folder_text("a.csv", text);
	for (int seed = 1; seed <= 2; seed++) {
		char *own AUTOFREE = sentence("--workload=perceptron --data-dir=%s/a.csv "
					      "--epochs=20 --batch=4 --lr=1e-3 --seed=%d",
					      folder, seed),
			  *made AUTOFREE = sentence("--workload=perceptron --epochs=1 --batch=500 "
						    "--label=made --seed=%d",
						    seed);
		record_run(own);
		record_run(made);
	}
	expect_row("SELECT count(*), min(train_size), min(params), min(length(data_hash)), "
		   "count(DISTINCT data_hash), min(b.test_loss < a.test_loss) FROM run JOIN epoch "
		   "AS a ON a.run_id = id AND a.epoch = 0 JOIN epoch AS b ON b.run_id = id AND "
		   "b.epoch = 20",
		   "2,32,301,16,1,1\r\n");
	expect_row("SELECT count(*), min(train_size), group_concat(DISTINCT status) FROM run WHERE "
		   "label = 'made'",
		   "2,10000,done\r\n");
}

/* ---- Refusals ------------------------------------------------------------ */

static const struct {
	const char *file, *text, *says;
} refused[] = {
	{"a.csv", "", "values separated by commas"},
	{"a.csv", "alone\n1\n2\n", "its first line has 1 values"},
	{"a.csv", "x,label\n", "it has no rows"},
	{"a.csv", "u,v,label\n1,2,a\n3,a\n", "line 3 has fewer than 3 values"},
	{"a.csv", "u,v,label\n1,2,a\n\n3,4,a,5\n", "line 4 has more than 3 values"},
	{"a.csv", "u,v,label\n1,NA,a\n", "line 2, column 2: 'NA' is not a number"},
	{"a.csv", "u,v,label\n1,,a\n", "line 2, column 2: '' is not a number"},
	{"a.csv", "u,v,label\n1,inf,a\n", "'inf' is not a number"},
	{"a.csv", "u,label\n1,a\n2,b\n3,c\n4,d\n5,a\n6,e\n", "has 5 different values in 6 rows"},
	{"a.csv", "u,v,label\n1,2,x\n3,4,y\n", "a class needs at least two rows: add rows"},
	{"a.csv", "u,label\n1,a\n2,a\n3,a\n4,a\n5,a\n", "all rows have the same label"},
	{"a.csv", "u,label\n1,a\n2,b\n3,a\n4,b\n", "4 rows are too few to take test rows from"},
	{"a.dat", "1,2\n", "a file that ends in .npz, .csv, .tsv or .py"},
	{"a.npz", "PK", "not an archive of NumPy"},
	{"a.npz", "", "not an archive of NumPy"},
};

TEST(broken_tables_are_refused, COUNT(refused))
{
	struct data train, test;
	folder_text(refused[_i].file, refused[_i].text);
	char *wrong AUTOFREE = load(refused[_i].file, &train, &test);
	ck_assert_msg(wrong && strstr(wrong, refused[_i].says), "%s", wrong);
	ck_assert_msg(strstr(wrong, folder), "%s names no file", wrong);
	ck_assert(!train.floats && !train.target && !test.floats);
}

static const struct {
	const char *save, *says;
} unfit[] = {
	{"v.savez('a.npz', z=x)", "it has the arrays z.npy; name them x_train"},
	{"v.savez('a.npz', x_train=x, x_test=x)", "it has x_train, and no y_train"},
	{"v.savez('a.npz', x=x, y=y[1:])", "y: it has 39 x 1 values, and there are 40 rows"},
	{"v.savez('a.npz', x=x, y=y - 1)", "has the label -1; labels are whole numbers"},
	{"v.savez('a.npz', x=x, y=y + 0.5)", "has the label"},
	{"v.savez('a.npz', x=x, y=v.eye(4)[y])", "it has 40 x 4 values, and there are 40 rows"},
	{"v.savez('a.npz', x=x, y=y.astype(str))", "its values have the type '<U"},
	{"v.savez('a.npz', x=x.astype('f2'), y=y)", "type '<f2'; write numbers"},
	{"v.savez('a.npz', x=v.array([{}] * 40), y=y)", "its values have the type '|O'"},
	{"v.savez('a.npz', x=v.asfortranarray(x), y=y)", "its order is that of Fortran"},
	{"v.savez('a.npz', x=x[:, 0] / 0, y=y)", "give finite numbers"},
	{"v.savez('a.npz', x=x[:, 0], y=y * 0)", "all rows have the same label"},
	{"v.savez('a.npz', x=x[:, 0, 0, 0], y=y)", "it has one dimension"},
	{"v.savez('a.npz', x=x[None], y=y)", "more than 4 dimensions"},
	{"v.savez('a.npz', x=x.reshape(40, 2, 9, 5), y=y)", "its rows are 2 x 9 x 5"},
	{"v.savez('a.npz', x=x[:0], y=y[:0])", "size 0 is 0"},
	{"v.savez('a.npz', x_train=x, y_train=y, x_test=x[:, :1], y_test=y)", "test rows 30 (6 x"},
	{"b = v.savez('a.npz', x=x, y=y); b = bytearray(open('a.npz', 'rb').read()); b[900] ^= 1; "
	 "open('a.npz', 'wb').write(b)",
	 "its checksum is not that of the archive"},
};

TEST(unfit_arrays_are_refused, COUNT(unfit))
{
	const char *python = python_with("numpy");
	struct data train, test;
	if (!python)
		return;
	run(0,
	    "cd %s && %s -W ignore -c \"\nimport numpy as v\nr = v.random.default_rng(1)\n"
	    "x, y = r.normal(size=(40, 3, 6, 5)).astype('f4'), r.integers(0, 4, 40)\n%s\n\"",
	    folder, python, unfit[_i].save);
	char *wrong AUTOFREE = load("a.npz", &train, &test);
	ck_assert_msg(wrong && strstr(wrong, unfit[_i].says), "%s", wrong);
	ck_assert_msg(strstr(wrong, folder), "%s names no file", wrong);
	ck_assert(!train.floats && !train.target && !test.floats);
}

/* Random changes of good files: each is read or refused, and sanitizers find no error. */
TEST(random_errors_in_own_data_are_refused, 4)
{
	static const char *const file[] = {"a.npz", "b.npz", "x.npy", "a.csv"};
	const char *python = python_with("numpy");
	int good = 0, bad = 0;
	uint64_t rng = (uint64_t)_i + 1;
	struct data train, test;
	size_t n;
	if (!python)
		return;
	run(0,
	    "cd %s && %s -c \"\nimport numpy as v\nr = v.random.default_rng(1)\n"
	    "x, y = r.normal(size=(12, 2, 3)).astype('f4'), v.arange(12) %% 4\n"
	    "v.savez('a.npz', x=x, y=y); v.savez_compressed('b.npz', X=x, y=y)\n"
	    "v.save('x.npy', x); v.save('y.npy', y)\n"
	    "open('a.csv', 'w').write('a,b,label\\n' + ''.join('%%g,%%g,%%d\\n' %% (i[0, 0], "
	    "i[0, 1], k) for i, k in zip(x, y)))\"",
	    folder, python);
	char *path AUTOFREE = sentence("%s/%s", folder, file[_i]);
	char *whole AUTOFREE = bytes_read(path, &n);
	uint8_t *bytes AUTOFREE = must(malloc(n));
	for (int i = 0; i < 400; i++) {
		size_t length = rng_next(&rng) % 8 ? n : rng_next(&rng) % n;
		memcpy(bytes, whole, n);
		for (uint64_t k = rng_next(&rng) % 4; k < 4; k++) {
			const size_t at = rng_next(&rng) % (rng_next(&rng) % 2 ? n : n / 8);
			bytes[rng_next(&rng) % 3 ? at : n - 1 - at] = (uint8_t)rng_next(&rng);
		}
		folder_put(file[_i], bytes, length, false);
		char *wrong AUTOFREE = load(_i == 2 ? "" : file[_i], &train, &test);
		good += !wrong;
		bad += wrong != NULL;
		if (!wrong)
			forget(&train, &test);
	}
	ck_assert_msg(bad > 40, "%d of %d were refused", bad, good + bad);
}
