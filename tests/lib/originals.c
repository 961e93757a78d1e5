/*
 * originals.c - what the tests of flashlight (DistributedApiTest), TorchMPI (collectives, parameter
 * server) and Multiverso (aggregate) assert, written again on libmvbench, for any number of
 * workers. Prints each assertion that fails.
 *
 * Not here: communicators of some workers, lists of different lengths in an all-gather, and 8-bit
 * types, which libmvbench does not have.
 */
#include <libmvbench.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static int failures, id, workers;

static void expect_at(int line, double is, double should)
{
	if (fabs(is - should) <= 1e-5 * fmax(1, fabs(should)))
		return;
	if (failures++ < 20)
		fprintf(stderr, "tests/lib/originals.c:%d: worker %d: %.9g; expected %.9g\n", line,
			id, is, should);
}
#define EXPECT(is, should) expect_at(__LINE__, is, should)

static void must_at(int line, int code)
{
	if (code == MVB_OK)
		return;
	fprintf(stderr, "tests/lib/originals.c:%d: worker %d: %s: %s\n", line, id,
		mvb_error_name(code), mvb_message());
	exit(1);
}
#define MUST(call) must_at(__LINE__, call)

enum { LARGE = 1 << 21, SET = 30 };
static float x[LARGE], set[SET][1 << 10];

static void fill(float *to, size_t n, double value)
{
	for (size_t i = 0; i < n; i++)
		to[i] = (float)value;
}

/* All of them have the value. */
static void expect_all(int line, const float *is, size_t n, double should)
{
	for (size_t i = 0; i < n; i++)
		if (fabs((double)is[i] - should) > 1e-5 * fmax(1, fabs(should))) {
			expect_at(line, (double)is[i], should);
			return;
		}
}
#define ALL(is, n, should) expect_all(__LINE__, is, n, should)

/* ---- flashlight ----------------------------------------------------------------------- */

static void all_reduce_and_its_scale(void)
{
	fill(x, 10, id);
	MUST(mvb_allreduce(x, 10, MVB_SUM));
	ALL(x, 10, workers * (workers - 1) / 2.0);
	fill(x, 1 << 20, id + 1); /* the inline reducer, whose scale is 1 / workers */
	MUST(mvb_allreduce(x, 1 << 20, MVB_MEAN));
	ALL(x, 1 << 20, (workers + 1) / 2.0);
}

static void all_reduce_async(void)
{
	int64_t ticket[SET];
	fill(x, LARGE, id + 1);
	MUST(mvb_allreduce_start(x, LARGE, MVB_SUM, ticket));
	MUST(mvb_wait(ticket[0]));
	ALL(x, LARGE, workers * (workers + 1) / 2.0);
	for (int i = 0; i < SET; i++) {
		fill(set[i], 1 << 10, id + 1 + i);
		MUST(mvb_allreduce_start(set[i], 1 << 10, MVB_SUM, &ticket[i]));
	}
	for (int i = SET - 1; i >= 0; i--)
		MUST(mvb_wait(ticket[i]));
	for (int i = 0; i < SET; i++)
		ALL(set[i], 1 << 10, workers * (workers + 1) / 2.0 + workers * i);
}

static void coalescing_reducer(void)
{
	float *tensor[SET];
	size_t n[SET];
	for (int i = 0; i < SET; i++) {
		tensor[i] = set[i];
		n[i] = (size_t)(i + 1) * 30;
		fill(set[i], 1 << 10, id + i);
	}
	MUST(mvb_allreduce_list(tensor, n, SET, MVB_MEAN));
	for (int i = 0; i < SET; i++) {
		ALL(set[i], n[i], (workers - 1) / 2.0 + i);
		ALL(set[i] + n[i], (1 << 10) - n[i], id + i);
	}
}

/* What was pushed before the barrier is there after it. */
static void barrier(void)
{
	struct mvb_table *t;
	MUST(mvb_array_new(&t, 3, NULL, NULL));
	for (int round = 1; round <= 10; round++) {
		fill(x, 3, 1);
		MUST(mvb_table_add(t, x, 3, NULL));
		MUST(mvb_barrier());
		MUST(mvb_table_get(t, x, 3));
		ALL(x, 3, round * workers);
		MUST(mvb_barrier());
	}
	MUST(mvb_table_free(t));
}

/* ---- TorchMPI: collectives ---------------------------------------------------------------- */

static void collectives_of_all_sizes(void)
{
	for (size_t n = 1 << 8; n <= LARGE; n *= 2) {
		for (size_t i = 0; i < n; i++)
			x[i] = (float)((size_t)id + i % 7);
		MUST(mvb_allreduce(x, n, MVB_SUM));
		EXPECT(x[n - 1], workers * ((workers - 1) / 2.0 + (double)((n - 1) % 7)));
		for (int root = 0; root < workers; root++) {
			fill(x, n, id);
			MUST(mvb_broadcast(x, n, root));
			ALL(x, n, root);
		}
	}
}

#define TYPE(type, name, most) \
	static void all_of_##name(enum mvb_type number) \
	{ \
		type v[3] = {(type)(id + 1), (type)-id, (type)(most)}, all[16][3]; \
		double product = 1; \
		for (int k = 1; k <= workers; k++) \
			product *= k; \
		MUST(mvb_allreduce_type(v, 2, number, MVB_SUM)); \
		EXPECT((double)v[0], workers *(workers + 1) / 2.0); \
		EXPECT((double)v[1], -workers *(workers - 1) / 2.0); \
		v[0] = (type)(id + 1); \
		MUST(mvb_allreduce_type(v, 1, number, MVB_PRODUCT)); \
		EXPECT((double)v[0], product); \
		v[0] = (type)id, v[1] = (type)-id; \
		MUST(mvb_allreduce_type(v, 3, number, MVB_MAX)); \
		EXPECT((double)v[0], workers - 1); \
		EXPECT((double)v[1], 0); \
		if (v[2] != (type)(most)) \
			EXPECT(0, 1); \
		v[0] = (type)id; \
		MUST(mvb_gather(v, sizeof v, all, -1)); \
		for (int k = 0; k < workers; k++) { \
			EXPECT((double)all[k][0], k); \
			if (all[k][2] != (type)(most)) \
				EXPECT(0, 1); \
		} \
	}
TYPE(double, double, 9007199254740991.)
TYPE(int32_t, int32, INT32_MAX)
TYPE(int64_t, int64, INT64_MAX)
TYPE(float, float, 16777215)

/* Each worker gets its part; the last time in the place of its first floats. */
static void reduce_scatter_of_all_sizes(void)
{
	static float part[LARGE];
	for (size_t n = 0; n * (size_t)workers <= LARGE; n = 3 * n + 1) {
		for (size_t i = 0; i < n * (size_t)workers; i++)
			x[i] = (float)((size_t)id + i / n);
		MUST(mvb_reduce_scatter(x, part, n, MVB_MEAN));
		ALL(part, n, id + (workers - 1) / 2.0);
		if (n)
			EXPECT((double)x[n * (size_t)workers - 1], id + workers - 1);
		MUST(mvb_reduce_scatter(x, x, n, MVB_MAX));
		ALL(x, n, id + workers - 1);
	}
}

/* Each worker sends to the next, round a ring; 0 begins. */
static void send_and_receive_next(void)
{
	int next = (id + 1) % workers, before = (id + workers - 1) % workers;
	if (workers == 1)
		return;
	fill(set[0], 1 << 10, id);
	if (id == 0)
		MUST(mvb_send(set[0], sizeof set[0], next));
	MUST(mvb_receive(set[1], sizeof set[1], before));
	if (id)
		MUST(mvb_send(set[0], sizeof set[0], next));
	ALL(set[1], 1 << 10, before);
}

/* The start of a registered tensor waits for no worker: worker 1 makes its own ready only after a
 * message that worker 0 sends after its start. */
static void start_waits_for_nobody(void)
{
	float *const tensor[] = {set[0]};
	const size_t n[] = {1 << 10};
	struct mvb_grads *g;
	MUST(mvb_grads_new(&g, tensor, n, 1, 0));
	for (int step = 0; step < 3; step++) {
		fill(set[0], 1 << 10, id + step);
		if (id == 1)
			MUST(mvb_receive(x, sizeof *x, 0));
		MUST(mvb_grads_ready(g, 0));
		if (id == 0 && workers > 1)
			MUST(mvb_send(x, sizeof *x, 1));
		MUST(mvb_grads_wait(g));
		ALL(set[0], 1 << 10, (workers - 1) / 2.0 + step);
	}
	MUST(mvb_grads_free(g));
}

/* Nor do the starts of other floats, few or many; they are waited for in any order. */
static void starts_of_any_floats_wait_for_nobody(void)
{
	enum { SUMS = 3 };
	float *const at[SUMS] = {set[0], x, set[1]};
	const size_t n[SUMS] = {3, 1 << 20, 1 << 10};
	int64_t ticket[SUMS];
	for (int step = 0; step < 3; step++) {
		for (int i = 0; i < SUMS; i++)
			fill(at[i], n[i], id + step + i);
		if (id == 1)
			MUST(mvb_receive(set[2], sizeof *set[2], 0));
		for (int i = 0; i < SUMS; i++)
			MUST(mvb_allreduce_start(at[i], n[i], MVB_SUM, &ticket[i]));
		if (id == 0 && workers > 1)
			MUST(mvb_send(set[2], sizeof *set[2], 1));
		for (int i = 0; i < SUMS; i++)
			MUST(mvb_wait(ticket[(i + id) % SUMS]));
		for (int i = 0; i < SUMS; i++)
			ALL(at[i], n[i], workers * ((workers - 1) / 2.0 + step + i));
	}
}

/* ---- TorchMPI: the parameter server's rules --------------------------------------------- */

static void parameter_server_rules(void)
{
	struct mvb_table *t;
	fill(x, 100, id + 5);
	MUST(mvb_array_new(&t, 100, x, NULL)); /* starts as the master's */
	ALL(x, 100, 5);
	MUST(mvb_table_add(t, x, 100, NULL)); /* add */
	MUST(mvb_barrier());
	MUST(mvb_table_get(t, x, 100));
	ALL(x, 100, 5 + 5 * workers);
	MUST(mvb_barrier());
	fill(x, 100, 7);
	if (id == workers - 1)
		MUST(mvb_table_set(t, x, 100)); /* copy */
	MUST(mvb_barrier());
	MUST(mvb_table_get(t, x, 100));
	ALL(x, 100, 7);
	MUST(mvb_barrier());
	fill(x, 100, 0);
	MUST(mvb_table_set(t, x, 100)); /* zero, by all */
	MUST(mvb_barrier());
	fill(x, 100, 1);
	MUST(mvb_table_add(t, x, 100, NULL));
	MUST(mvb_barrier());
	MUST(mvb_table_get(t, x, 100));
	ALL(x, 100, workers);
	MUST(mvb_table_free(t));
}

/* ---- Multiverso: key-value table, aggregate ------------------------------------------------ */

/* Keys from 0 to a bound are the rows of a matrix of one column. */
static void key_value_table(void)
{
	const int64_t key[] = {3, 70000, 3}, absent = 4;
	const float value[] = {1, 2, 4};
	struct mvb_table *t;
	MUST(mvb_matrix_new(&t, 100000, 1, NULL, NULL));
	MUST(mvb_table_add_rows(t, key, 3, value, 3, NULL));
	MUST(mvb_barrier());
	MUST(mvb_table_get_rows(t, key, 2, x, 2));
	EXPECT((double)x[0], 5 * workers);
	EXPECT((double)x[1], 2 * workers);
	MUST(mvb_table_get_row(t, absent, x, 1));
	EXPECT((double)x[0], 0);
	MUST(mvb_table_free(t));
}

static void aggregate_of_integers(void)
{
	int32_t a[5];
	for (int i = 0; i < 5; i++)
		a[i] = 1;
	MUST(mvb_allreduce_type(a, 5, MVB_INT32, MVB_SUM));
	for (int i = 0; i < 5; i++)
		EXPECT(a[i], workers);
}

int main(void)
{
	MUST(mvb_init(NULL));
	id = mvb_worker_id();
	workers = mvb_num_workers();
	all_reduce_and_its_scale();
	all_reduce_async();
	coalescing_reducer();
	barrier();
	collectives_of_all_sizes();
	all_of_double(MVB_DOUBLE);
	all_of_int32(MVB_INT32);
	all_of_int64(MVB_INT64);
	all_of_float(MVB_FLOAT);
	reduce_scatter_of_all_sizes();
	send_and_receive_next();
	start_waits_for_nobody();
	starts_of_any_floats_wait_for_nobody();
	parameter_server_rules();
	key_value_table();
	aggregate_of_integers();
	MUST(mvb_shutdown());
	return failures != 0;
}
