/*
 * check_bench.c - mvbench bench: every operation has a row for each size, its bandwidths follow
 * from its time, and elements that arrive wrong are counted.
 */
#include "results/run/bench.h"
#include "tests/made.h"
#include "tests/suites.h"
#include "tests/trained.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { OUTPUT = 60000, N = 500 };

/* ---- Wrong elements ------------------------------------------------------ */

CASE("bench", .set_up = folder_enter, .tear_down = folder_free);

TEST(bench_counts_wrong_elements)
{
	float x[N];
	for (int rank = 0; rank < 20; rank++) {
		bench_fill(x, N, rank);
		ck_assert_uint_eq(bench_wrong(x, N, bench_number(rank)), 0);
		ck_assert_uint_eq(bench_wrong(x, N, bench_number(rank + 1)), N);
	}
	x[0] += 1;
	x[N - 1] = NAN;
	ck_assert_uint_eq(bench_wrong(x, N, bench_number(19)), 2);
	float before = x[7];
	x[7] = x[8]; /* two elements exchanged */
	x[8] = before;
	ck_assert_uint_eq(bench_wrong(x, N, bench_number(19)), 4);
	/* all elements one place further */
	bench_fill(x, N, 3);
	ck_assert_uint_eq(bench_wrong(x + 1, N - 1, bench_number(3)), N - 1);
}

/* The row has the medians of the times and the sum of the wrong elements. */
TEST(repetitions_give_one_row)
{
	static struct bench_row row[] = {
		{0, "allreduce", "mpi", 800, 200, 1.5, 1, 0, 3e-6},
		{1, "sendrecv", "mpi", 80, 20, 1, 1, 0, 1e-6},
		{0, "allreduce", "mpi", 800, 200, 1.5, 2, 1, 9e-6},
		{1, "sendrecv", "mpi", 80, 20, 1, 2, 0, 3e-6},
		{0, "allreduce", "mpi", 800, 200, 1.5, 3, 4, 4e-6},
	};
	struct bench_rows rows = {.row = row, .n = COUNT(row)};
	ck_assert_ptr_nonnull(freopen("out", "w", stdout));
	ck_assert_ptr_null(bench_print(&rows, FORMAT_CSV));
	ck_assert_ptr_null(bench_print(&rows, FORMAT_TEXT));
	expect_said("out",
		    "operation,transport,bytes,count,time_us,algbw_gb_s,busbw_gb_s,wrong\r\n"
		    "allreduce,mpi,800,200,4,0.2,0.3,5\r\n"
		    "sendrecv,mpi,80,20,2,0.04,0.04,0\r\n",
		    true);
	expect_said("out", "  200     4.00       0.200       0.300      5\n", true);
}

/* ---- The command --------------------------------------------------------- */

static void bench(const char *words, int status, char *out)
{
	char *all AUTOFREE = sentence("timeout 100 ./mvbench bench %s", words);
	int got = command_output(all, out, OUTPUT);
	ck_assert_msg(got == status, "%s: %d, not %d: %s", all, got, status, out);
}

/* Bus bandwidth divided by algorithm bandwidth, for n workers. */
static double bus_of(const char *operation, double n)
{
	return strcmp(operation, "allreduce") == 0   ? 2 * (n - 1) / n
	       : strcmp(operation, "allgather") == 0 ? (n - 1) / n
	       : strcmp(operation, "push_pull") == 0 ? 2
						     : 1;
}

static void expect_bandwidths(const char *line, int workers)
{
	char operation[32], transport[32];
	long bytes, count, wrong;
	double us, algorithm, bus;
	ck_assert_msg(sscanf(line, "%31[^,],%31[^,],%ld,%ld,%lf,%lf,%lf,%ld", operation, transport,
			     &bytes, &count, &us, &algorithm, &bus, &wrong) == 8,
		      "%s", line);
	int parts = strcmp(operation, "allgather") == 0 ? workers : 1;
	ck_assert_int_eq(bytes, count * parts * 4);
	ck_assert_int_eq(wrong, 0);
	ck_assert_double_gt(us, 0);
	near(algorithm, 1e-3 * (double)bytes / us, 2e-6 + 1e-3 * algorithm);
	near(bus, algorithm * bus_of(operation, workers), 2e-6);
}

static const struct {
	const char *words;
	int workers;
	const char *rows[8]; /* operation and transport, or NULL; each with every size */
} benched[] = {
	{"--workers=2",
	 2,
	 {"allreduce,mpi", "allgather,mpi", "broadcast,mpi", "sendrecv,mpi", "push_pull,shared",
	  "push_pull,onesided"}},
	{"--workers=3 --servers=2",
	 3,
	 {"allreduce,mpi", "allgather,mpi", "broadcast,mpi", "sendrecv,mpi", "push_pull,shared",
	  "push_pull,onesided", "push_pull,servers"}},
	{"--workers=1 --servers=1", 1, {"push_pull,servers"}},
};

CASE("command", .limit = 120);

TEST(every_operation_has_a_row_for_each_size, COUNT(benched))
{
	/* with three workers an allgather takes a multiple of three elements */
	static const long sizes[] = {16, 512, 16384};
	char *out AUTOFREE = must(malloc(OUTPUT));
	int workers = benched[_i].workers;
	size_t lines = 0, wanted = 0;
	bench(words("comm --min=16 --max=16KiB --factor=32 --iterations=5 --repetitions=2 "
		    "--format=csv %s 2>/dev/null",
		    benched[_i].words),
	      0, out);
	for (char *line = strchr(out, '\n') + 1; *line; line = strchr(line, '\n') + 1, lines++)
		expect_bandwidths(line, workers);
	for (const char *const *row = benched[_i].rows; *row; row++)
		for (size_t k = 0; k < COUNT(sizes); k++, wanted++) {
			long part = strncmp(*row, "allgather", 9) == 0 ? 4 * workers : 4;
			const char *text = words("\n%s,%ld,", *row, sizes[k] / part * part);
			ck_assert_msg(strstr(out, text), "no \"%s\":\n%s", text + 1, out);
		}
	ck_assert_msg(lines == wanted, "%zu rows, not %zu:\n%s", lines, wanted, out);
}

/* A size that has no element for each worker has no row. */
TEST(size_without_an_element_for_each_worker_has_no_row)
{
	char *out AUTOFREE = must(malloc(OUTPUT));
	bench("comm --workers=3 --min=8 --max=16 --repetitions=1 --format=csv 2>/dev/null", 0, out);
	ck_assert_msg(strstr(out, "allreduce,mpi,8,2,") && strstr(out, "allgather,mpi,12,1,"), "%s",
		      out);
	ck_assert_msg(!strstr(out, "allgather,mpi,0") && !strstr(out, "allgather,mpi,8,"), "%s",
		      out);
}

static const struct {
	const char *words, *says;
} refused[] = {
	{"", "bench: unknown measurement; use mvbench bench comm"},
	{"com", "bench com: unknown measurement"},
	{"comm --workers=1", "--workers=1: one worker has no peer"},
	{"comm --lr=1", "--lr: bench trains nothing; of the options"},
	{"comm --platform=sim", "--platform: bench trains nothing"},
	{"comm --wrkers=2", "did you mean --workers?"},
	{"comm --min=2KiB --max=1KiB", "--max=1024: it is below --min=2048"},
	{"comm --factor=1", "--factor=1: give a whole number"},
	{"comm --max=1GiB --workers=1000", "give a smaller size"},
	{"comm --transport=ipc --device=cpu", "--transport=ipc: vectors are on the cpu"},
};

TEST(bench_mistakes_are_refused, COUNT(refused))
{
	char *out AUTOFREE = must(malloc(OUTPUT));
	bench(words("%s 2>&1", refused[_i].words), EXIT_USER, out);
	ck_assert_msg(strstr(out, refused[_i].says), "%s: %s", refused[_i].words, out);
}

TEST(interrupt_ends_all_ranks)
{
	char out[OUTPUT];
	int status = command_output("timeout --preserve-status -s INT 3 ./mvbench bench comm "
				    "--max=4MiB --repetitions=987 --workers=3 2>&1",
				    out, sizeof out);
	ck_assert_msg(status == EXIT_INTERRUPTED && strstr(out, "mvbench: interrupted"), "%d: %s",
		      status, out);
	ck_assert_msg(!strstr(out, "allreduce"), "%s", out);
	status = command_output("pgrep -f 'bench comm .*--repetitions=98[7]'", out, sizeof out);
	ck_assert_msg(status == 1, "left: %s", out);
}

TEST(unwritable_bench_table_is_a_failure)
{
	char *out AUTOFREE = must(malloc(OUTPUT));
	bench("comm --max=64 --repetitions=1 2>&1 >/dev/full", EXIT_FAILED, out);
	ck_assert_msg(strstr(out, "standard output cannot be written"), "%s", out);
}
