/*
 * check_gpt.c - the language model: how files make a text, and that the model is the same when it
 * is split, simulated, or computed on a GPU.
 */
#include "runtime/config/config.h"
#include "runtime/config/dataset.h"
#include "runtime/config/option.h"
#include "runtime/config/plugins.h"
#include "tests/fixture.h"
#include "tests/suites.h"
#include "workloads/arrays.h"

#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SMALL \
	"--workload=gpt --gpt.layers=2 --gpt.width=16 --gpt.heads=4 --gpt.context=8 --batch=6 " \
	"--epochs=1 --train-rows=228 --data-dir=$FOLDER/words "

/* ---- Texts --------------------------------------------------------------- */

/* `n` bytes that begin with the name. */
static void file_of(const char *name, size_t n)
{
	char *text AUTOFREE = must(calloc(n + 1, 1));
	for (size_t i = 0; i < n; i++)
		text[i] = name[i % strlen(name)];
	folder_put(name, text, n, false);
}

static struct run of_folder(void)
{
	return (struct run){.data_dir = folder};
}

CASE("texts", .set_up = folder_new, .tear_down = folder_free);

/* Files in the order of their names, also those in subfolders, each content once. */
TEST(text_is_made_of_all_files)
{
	const struct run run = of_folder();
	struct data train, test, train_shape, test_shape;
	char *path = sentence("%s/b", folder);
	ck_assert_int_eq(mkdir(path, 0777), 0);
	free(path);
	file_of("c", 150);
	file_of("a", 60);
	file_of("b/x", 30);
	path = sentence("cp %s/c %s/b/again; ln -s c %s/d; touch %s/empty", folder, folder, folder,
			folder);
	ck_assert_int_eq(system(path), 0);
	free(path);
	ck_assert_ptr_null(dataset_text.probe(&run, &train_shape, &test_shape));
	ck_assert_ptr_null(dataset_text.load(&run, &train, &test));
	/* a, c (equal to b/again), b/x: 240 bytes, of which 228 are trained on */
	ck_assert_uint_eq(train.n, 228 - 1);
	ck_assert_uint_eq(test.n, 12 - 1);
	ck_assert_uint_eq(train.n, train_shape.n);
	ck_assert_uint_eq(test.n, test_shape.n);
	for (size_t i = 0; i < train.n; i++) {
		const char want = i < 60 ? 'a' : i < 210 ? 'c' : "b/x"[i % 3];

		ck_assert_msg(train.bytes[i] == want, "byte %zu is %c, should be %c", i,
			      train.bytes[i], want);
		if (i)
			ck_assert_double_eq(train.target[i - 1], train.bytes[i]);
	}
	for (size_t i = 0; i + 1 < test.n; i++)
		ck_assert_double_eq(test.target[i], test.bytes[i + 1]);
	dataset_text.unload(&train, &test);
}

/* 24 MB of the kernel's documentation, if its package is installed; otherwise its name. */
TEST(linux_doc_is_read_or_its_package_is_named)
{
	const struct run run = {.data_dir = "linux-doc"};
	struct data train, test;
	glob_t found;
	bool is_there = glob("/usr/share/doc/linux-doc-[0-9]*/html/_sources", 0, NULL, &found) == 0;
	char *wrong AUTOFREE = dataset_text.probe(&run, &train, &test);
	globfree(&found);
	if (is_there) {
		ck_assert_msg(!wrong, "%s", wrong);
		ck_assert_uint_gt(train.n + test.n, 20000000);
		return;
	}
	ck_assert_msg(wrong && strstr(wrong, "install the package linux-doc"), "%s",
		      wrong ? wrong : "it is read");
}

TEST(newest_version_has_the_largest_number)
{
	char *const path[] = {"/doc/linux-doc-6.1/html", "/doc/linux-doc-6.12/html",
			      "/doc/linux-doc-6.9/html"};
	ck_assert_str_eq(newest_version(path, 3), path[1]);
	ck_assert_str_eq(newest_version(path, 1), path[0]);
}

/* Rows of a text are consecutive, and --validation takes the last ones. */
TEST(rows_of_a_text_are_consecutive)
{
	struct run run = of_folder();
	struct data train, test, held;
	const struct workload *gpt = plugin_find(PART_WORKLOAD, "gpt");
	void *opts AUTOFREE = must(calloc(1, gpt->plugin.opts_size));
	option_default(gpt->plugin.options, opts);
	char text[4001] = "";
	for (size_t i = 0; i < sizeof text - 1; i++)
		text[i] = (char)('!' + i * 7 % 89);
	folder_text("text", text);
	ck_assert_ptr_null(dataset_text.load(&run, &train, &test));
	ck_assert_ptr_null(data_cut(gpt, opts, &train, &test));
	ck_assert_uint_eq(train.n, 3799 / 64);
	ck_assert_uint_eq(test.n, 199 / 64);
	run.validation = 9;
	run.train_rows = 20;
	validation_split(&run, &train, &held);
	ck_assert_uint_eq(train.n, 20);
	ck_assert_uint_eq(held.n, 9);
	for (size_t i = 0; i < 20 * 64; i++)
		ck_assert_int_eq(train.bytes[i], text[i]);
	for (size_t i = 0; i < 9 * 64; i++) {
		ck_assert_int_eq(held.bytes[i], text[50 * 64 + i]);
		ck_assert_double_eq(held.target[i], text[50 * 64 + i + 1]);
	}
	dataset_text.unload(&train, &test);
}

/* Writes the values 0, 7, 14, ... below 256 as an array of NumPy; `last` stands at the end. */
static void array_put(const char *name, const char *type, size_t width, size_t n, int last)
{
	char *header AUTOFREE =
		sentence("{'descr': '%s', 'fortran_order': False, 'shape': (%zu,), }\n", type, n);
	const size_t length = strlen(header), begin = 10 + length;
	uint8_t *b AUTOFREE = must(calloc(begin + n * width, 1));
	memcpy(b, "\x93NUMPY\1", 8);
	b[8] = (uint8_t)length;
	memcpy(b + 10, header, length);
	for (size_t i = 0; i < n; i++) {
		const int value = i + 1 == n ? last : (int)(i * 7 % 256);
		for (size_t k = 0; k < width; k++)
			b[begin + i * width + k] = (uint8_t)(value >> (8 * k));
	}
	folder_put(name, b, begin + n * width, false);
}

TEST(array_of_bytes_is_a_text, 2)
{
	char *path AUTOFREE = sentence("%s/a.npy", folder);
	const struct run run = {.data_dir = path};
	struct data train, test;
	array_put("a.npy", _i ? "<i2" : "|u1", _i ? 2 : 1, 200, 9);
	char *wrong AUTOFREE = dataset_text.load(&run, &train, &test);
	ck_assert_msg(!wrong, "%s", wrong);
	ck_assert_uint_eq(train.n, 190 - 1);
	ck_assert_uint_eq(test.n, 10 - 1);
	for (size_t i = 0; i < train.n; i++)
		ck_assert_int_eq(train.bytes[i], (int)(i * 7 % 256));
	ck_assert_double_eq((double)test.target[8], 9);
	dataset_text.unload(&train, &test);
}

TEST(other_arrays_are_no_text, 4)
{
	static const struct {
		const char *name;
		size_t n;
		int last;
		const char *says;
	} row[] = {
		{"a.npy", 200, 256, "value 199 is 256; gpt trains on bytes"},
		{"a.npy", 200, -1, "value 199 is -1; gpt trains on bytes"},
		{"a.npy", 50, 0, "it has fewer than 100 values"},
		{"a.npz", 200, 0, "give one array of bytes as FILE.npy"},
	};
	char *path AUTOFREE = sentence("%s/%s", folder, row[_i].name);
	const struct run run = {.data_dir = path};
	struct data train, test;
	array_put(row[_i].name, "<i2", 2, row[_i].n, row[_i].last);
	char *wrong AUTOFREE = dataset_text.load(&run, &train, &test);
	ck_assert_msg(wrong && strstr(wrong, row[_i].says), "%s", wrong ? wrong : "it is read");
}

/* ---- The model ----------------------------------------------------------- */

static const struct {
	const char *words;
	double within; /* largest distance from the losses of one worker */
} ways[] = {
	{"--strategy=model_parallel --workers=2", 1e-4},
	{"--strategy=model_parallel --workers=4", 1e-4},
	{"--strategy=allreduce --workers=2 --batch=3", 1e-4},
	{"--strategy=hybrid --hybrid.group=2 --workers=4 --batch=3", 1e-4},
	{"--strategy=serial --platform=sim --sim.step-time=1ms --sim.platform=ethernet_10g", 0},
	{"--strategy=model_parallel --workers=2 --platform=sim --sim.step-time=1ms "
	 "--sim.platform=ethernet_10g",
	 1e-4},
};

static void set_up(void)
{
	char text[2001] = "";
	folder_new();
	setenv("FOLDER", folder, 1);
	for (size_t i = 0; i < sizeof text - 1; i++)
		text[i] = "the cat sat on the mat, and the dog on the log. "[i * i / 7 % 48];
	folder_text("words", text);
}

CASE("model", .limit = 60, .set_up = set_up, .tear_down = folder_free, .once = true);

/* Split or simulated, the model learns what one worker learns. */
TEST(gpt_equals_one_worker_in_every_mode, COUNT(ways))
{
	record_only(SMALL "--strategy=serial");
	char *how AUTOFREE = sentence(SMALL "%s", ways[_i].words);
	record_run(how);
	char *far AUTOFREE = sentence(
		"SELECT max(abs(a.test_loss - b.test_loss)) <= %g, max(a.test_loss) > "
		"min(a.test_loss) + 0.1, count(*) FROM epoch AS a JOIN epoch AS b USING (epoch) "
		"WHERE a.run_id = 1 AND b.run_id = 2",
		ways[_i].within);
	expect_row(far, "1,1,2\r\n");
}

TEST(gpt_on_a_gpu_equals_the_cpu)
{
	if (!have_gpu())
		return;
	record_only(SMALL "--strategy=serial --device=cpu");
	use_gpu();
	record_run(SMALL "--strategy=serial --device=cuda");
	expect_row("SELECT max(abs(a.test_loss - b.test_loss)) < 1e-4, count(*) = 2 "
		   "FROM epoch AS a JOIN epoch AS b USING (epoch) WHERE a.run_id = 1 AND b.run_id "
		   "= 2",
		   "1,1\r\n");
}

/* In a step model_parallel sends the activations of all positions. */
TEST(sent_bytes_count_all_positions)
{
	record_only(SMALL "--strategy=model_parallel --workers=2 --train-rows=6");
	/* two layers of two pairs: an allreduce of 6 x 8 x 16 floats forward and one backward; and
	 * the two floats of --clip's sum */
	expect_row("SELECT bytes_sent FROM rank_epoch WHERE epoch = 1 AND rank = 0", "24584\r\n");
}

static const struct {
	const char *words, *says;
} mistakes[] = {
	{"--gpt.heads=3", "--gpt.heads=3: this number does not divide --gpt.width=16"},
	{"--gpt.context=60000", "--gpt.context=60000: the text has a part of only"},
	{"--data-dir=$FOLDER/none", "No such file or directory; give --data-dir=FILE or FOLDER"},
	{"--data-dir=$FOLDER/empty", "there is no file in it"},
	{"--data-dir=$FOLDER/short", "fewer than 100 bytes of text are there"},
	{"--split=dirichlet:0.5", "it divides the rows by class"},
	{"--strategy=model_parallel --workers=3", "heads of an attention cannot be divided evenly"},
};

TEST(gpt_mistakes_are_refused, COUNT(mistakes))
{
	char *words AUTOFREE = sentence(
			    "%s %s %s", SMALL,
			    strstr(mistakes[_i].words, "--strategy") ? "" : "--strategy=serial",
			    mistakes[_i].words),
		    *path AUTOFREE = sentence("%s/empty", folder);
	mkdir(path, 0777);
	folder_text("short", "a short text");
	expect_refused("", words, mistakes[_i].says);
}
