/*
 * errors.c - every mistake that libmvbench.h names gives its code and a message, on every worker
 * that it concerns; none prints, ends the process or waits for ever. For two workers under mpirun;
 * prints nothing if all checks pass.
 *
 *     errors [stay|go [PLACEMENT SERVERS]]   stay: worker 1 continues after worker 0 has shut down
 */
#include <libmvbench.h>

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int failures;

/* Checks the code, and that the message contains these words. */
static void expect_at(int line, int code, int wanted, const char *words)
{
	const char *text = code ? mvb_message() : "";
	if (code == wanted && strstr(text, words))
		return;
	failures++;
	fprintf(stderr, "tests/lib/errors.c:%d: worker %d: %s, \"%s\"; expected %s with \"%s\"\n",
		line, mvb_worker_id(), mvb_error_name(code), text, mvb_error_name(wanted), words);
}
#define EXPECT(call, code, words) expect_at(__LINE__, call, code, words)
#define FINE(call)                expect_at(__LINE__, call, MVB_OK, "")

static void expect_that(int line, int holds, const char *what)
{
	if (holds)
		return;
	failures++;
	fprintf(stderr, "tests/lib/errors.c:%d: worker %d: false: %s\n", line, mvb_worker_id(),
		what);
}
#define THAT(holds) expect_that(__LINE__, holds, #holds)

enum { N = 6 };
static float x[N], y[N];

/* ---- Calls at the wrong time --------------------------------------------------------- */

static void nothing_works(const char *words)
{
	float *const list[] = {x};
	const size_t n[] = {N};
	int64_t row = 0, number;
	size_t size;
	struct mvb_table *t;
	struct mvb_grads *g;
	struct mvb_model *m;
	struct mvb_linear layer = {.form = MVB_BASE_LINEAR, .inputs = 2, .outputs = 1, .w = x};
	struct mvb_linear_part part;
	void *void_now = x;
	EXPECT(mvb_barrier(), MVB_ERR_STATE, words);
	EXPECT(mvb_array_new(&t, N, x, NULL), MVB_ERR_STATE, words);
	THAT(t == NULL);
	EXPECT(mvb_matrix_new(&t, 2, 3, x, NULL), MVB_ERR_STATE, words);
	EXPECT(mvb_table_free(void_now), MVB_ERR_STATE, words);
	EXPECT(mvb_table_add(void_now, x, N, NULL), MVB_ERR_STATE, words);
	EXPECT(mvb_table_set(void_now, x, N), MVB_ERR_STATE, words);
	EXPECT(mvb_table_set_rows(void_now, &row, 1, x, 3), MVB_ERR_STATE, words);
	EXPECT(mvb_table_get(void_now, x, N), MVB_ERR_STATE, words);
	EXPECT(mvb_table_add_get(void_now, x, N, NULL, y), MVB_ERR_STATE, words);
	EXPECT(mvb_table_sync(void_now, x, N), MVB_ERR_STATE, words);
	EXPECT(mvb_table_elastic(void_now, x, N, 0.1f), MVB_ERR_STATE, words);
	EXPECT(mvb_table_add_start(void_now, x, N, NULL, &number), MVB_ERR_STATE, words);
	EXPECT(mvb_table_get_start(void_now, x, N, &number), MVB_ERR_STATE, words);
	EXPECT(mvb_table_sync_start(void_now, x, N, &number), MVB_ERR_STATE, words);
	EXPECT(mvb_table_add_rows(void_now, &row, 1, x, 3, NULL), MVB_ERR_STATE, words);
	EXPECT(mvb_table_get_rows(void_now, &row, 1, x, 3), MVB_ERR_STATE, words);
	EXPECT(mvb_table_add_row(void_now, 0, x, 3, NULL), MVB_ERR_STATE, words);
	EXPECT(mvb_table_get_row(void_now, 0, x, 3), MVB_ERR_STATE, words);
	EXPECT(mvb_kv_new(&t, 1), MVB_ERR_STATE, words);
	EXPECT(mvb_kv_add(void_now, &row, 1, x), MVB_ERR_STATE, words);
	EXPECT(mvb_kv_get(void_now, &row, 1, x), MVB_ERR_STATE, words);
	EXPECT(mvb_table_version(void_now, &number), MVB_ERR_STATE, words);
	EXPECT(mvb_table_staleness(void_now, &number), MVB_ERR_STATE, words);
	EXPECT(mvb_wait(256), MVB_ERR_STATE, words);
	EXPECT(mvb_allreduce(x, N, MVB_SUM), MVB_ERR_STATE, words);
	EXPECT(mvb_allreduce_start(x, N, MVB_SUM, &number), MVB_ERR_STATE, words);
	EXPECT(mvb_allreduce_list(list, n, 1, MVB_SUM), MVB_ERR_STATE, words);
	EXPECT(mvb_broadcast(x, N, 0), MVB_ERR_STATE, words);
	EXPECT(mvb_allreduce_type(x, N, MVB_INT32, MVB_MAX), MVB_ERR_STATE, words);
	EXPECT(mvb_gather(x, sizeof x, y, 0), MVB_ERR_STATE, words);
	EXPECT(mvb_reduce_scatter(x, y, 1, MVB_SUM), MVB_ERR_STATE, words);
	EXPECT(mvb_send(x, sizeof x, 1), MVB_ERR_STATE, words);
	EXPECT(mvb_receive(x, sizeof x, 1), MVB_ERR_STATE, words);
	EXPECT(mvb_grads_new(&g, list, n, 1, 0), MVB_ERR_STATE, words);
	EXPECT(mvb_grads_ready(void_now, 0), MVB_ERR_STATE, words);
	EXPECT(mvb_grads_wait(void_now), MVB_ERR_STATE, words);
	EXPECT(mvb_grads_free(void_now), MVB_ERR_STATE, words);
	EXPECT(mvb_model_new(&m, list, n, 1, NULL), MVB_ERR_STATE, words);
	EXPECT(mvb_model_sync(void_now), MVB_ERR_STATE, words);
	EXPECT(mvb_model_pull(void_now), MVB_ERR_STATE, words);
	EXPECT(mvb_model_size(void_now, &size), MVB_ERR_STATE, words);
	EXPECT(mvb_model_flatten(void_now, x, N), MVB_ERR_STATE, words);
	EXPECT(mvb_model_unflatten(void_now, x, N), MVB_ERR_STATE, words);
	EXPECT(mvb_model_free(void_now), MVB_ERR_STATE, words);
	EXPECT(mvb_linear_part(&layer, &part), MVB_ERR_STATE, words);
	EXPECT(mvb_linear_forward(&layer, x, 1, y), MVB_ERR_STATE, words);
	EXPECT(mvb_linear_backward(&layer, x, y, 1, x), MVB_ERR_STATE, words);
	EXPECT(mvb_linear_gather(&layer, x, NULL), MVB_ERR_STATE, words);
	EXPECT(mvb_linear_scatter(&layer, x, NULL), MVB_ERR_STATE, words);
	EXPECT(mvb_shutdown(), MVB_ERR_STATE, words);
	THAT(mvb_num_workers() == -1 && mvb_worker_id() == -1 && mvb_rank() == -1);
	THAT(mvb_size() == -1 && mvb_num_servers() == -1);
	THAT(!mvb_is_master() && !mvb_is_server());
	THAT(strcmp(mvb_backend(), "not started") == 0);
}

/* rank: of this process, which only the launcher knows yet. */
static void wrong_starts(int rank)
{
	struct mvb_setup s = {.rank = 1, .size = 2};
	EXPECT(mvb_init(&s), MVB_ERR_ARGUMENT, "the launcher sets rank and size");
	s = (struct mvb_setup){.file = "/tmp/none", .rank = 2, .size = 2};
	EXPECT(mvb_init(&s), MVB_ERR_ARGUMENT, "rank 2 of 2");
	s = (struct mvb_setup){.file = "/tmp/none", .rank = 0, .size = 2, .timeout_s = -1};
	EXPECT(mvb_init(&s), MVB_ERR_ARGUMENT, "timeout_s -1");
	s = (struct mvb_setup){.servers = 2};
	EXPECT(mvb_init(&s), MVB_ERR_ARGUMENT, "2 servers among 2 processes leave no worker");
	s = (struct mvb_setup){.later = {1}};
	EXPECT(mvb_init(&s), MVB_ERR_ARGUMENT,
	       "mvb_init: a field is set that version " MVB_VERSION);
	s = (struct mvb_setup){.servers = -1};
	EXPECT(mvb_init(&s), MVB_ERR_ARGUMENT, "-1 servers");
	s = (struct mvb_setup){.tables = "attic"};
	EXPECT(mvb_init(&s), MVB_ERR_ARGUMENT, "'attic'");
	s = (struct mvb_setup){.tables = "servers"};
	EXPECT(mvb_init(&s), MVB_ERR_ARGUMENT, "there are none");
	s = (struct mvb_setup){.tables = "shared", .servers = 1};
	EXPECT(mvb_init(&s), MVB_ERR_ARGUMENT, "there are 1 servers");
	s = (struct mvb_setup){.tables = rank ? "shared" : "onesided"};
	EXPECT(mvb_init(&s), MVB_ERR_DIFFERS, "tables is ");
	s = (struct mvb_setup){.servers = rank ? 1 : -1};
	EXPECT(mvb_init(&s), rank ? MVB_ERR_PEER : MVB_ERR_ARGUMENT, "-1 servers");
}

/* ---- Wrong arguments that concern only the caller ----------------------------------------- */

static void wrong_operations(struct mvb_table *t, struct mvb_table *gradients)
{
	struct mvb_push by = MVB_PUSH_DEFAULT;
	int64_t ticket = 1, row[] = {0, 1, 2};
	EXPECT(mvb_table_add(t, x, N - 1, NULL), MVB_ERR_ARGUMENT, "5 floats for a table of 6");
	EXPECT(mvb_table_get(t, x, N + 1), MVB_ERR_ARGUMENT, "7 floats for a table of 6");
	EXPECT(mvb_table_sync(t, x, 0), MVB_ERR_ARGUMENT, "0 floats for a table of 6");
	EXPECT(mvb_table_add(t, NULL, N, NULL), MVB_ERR_ARGUMENT, "NULL where floats");
	EXPECT(mvb_table_get(t, NULL, N), MVB_ERR_ARGUMENT, "NULL where floats");
	EXPECT(mvb_table_add_get(t, x, N, NULL, NULL), MVB_ERR_ARGUMENT, "NULL where floats");
	EXPECT(mvb_table_add_get(t, NULL, N, NULL, x), MVB_ERR_ARGUMENT, "NULL where floats");
	EXPECT(mvb_table_set(t, x, N + 1), MVB_ERR_ARGUMENT, "mvb_table_set: ");
	EXPECT(mvb_table_set_rows(t, row, 1, NULL, 3), MVB_ERR_ARGUMENT, "mvb_table_set_rows: ");
	EXPECT(mvb_table_add(NULL, x, N, NULL), MVB_ERR_ARGUMENT, "NULL is no table");
	EXPECT(mvb_table_add((void *)x, x, N, NULL), MVB_ERR_ARGUMENT, "to no live table");
	by.lr = NAN;
	EXPECT(mvb_table_add(gradients, x, N, &by), MVB_ERR_ARGUMENT, "lr nan");
	EXPECT(mvb_table_sync(gradients, x, N), MVB_ERR_ARGUMENT, "sgd, which takes gradients");
	EXPECT(mvb_table_elastic(gradients, x, N, 1), MVB_ERR_ARGUMENT, "takes gradients");
	EXPECT(mvb_table_elastic(t, x, N, -0.1f), MVB_ERR_ARGUMENT, "alpha -0.1 is not from 0");
	EXPECT(mvb_table_elastic(t, x, N, 0.0f / 0.0f), MVB_ERR_ARGUMENT, "is not from 0 to 1");
	EXPECT(mvb_table_add_row(t, 2, x, 3, NULL), MVB_ERR_ARGUMENT,
	       "row 2 of a table with rows "
	       "0 to 1");
	EXPECT(mvb_table_get_row(t, -1, x, 3), MVB_ERR_ARGUMENT, "mvb_table_get_row: row -1");
	EXPECT(mvb_table_add_row(t, 0, x, 2, NULL), MVB_ERR_ARGUMENT,
	       "mvb_table_add_row: 2 floats");
	EXPECT(mvb_table_get_rows(t, NULL, 0, x, 3), MVB_ERR_ARGUMENT, "3 floats for 0 rows");
	EXPECT(mvb_table_get_rows(t, row, 0, x, 3), MVB_ERR_ARGUMENT, "3 floats for 0 rows");
	EXPECT(mvb_table_get_rows(t, row, 3, x, 9), MVB_ERR_ARGUMENT, "row 2");
	EXPECT(mvb_table_get_rows(t, row, 2, x, 5), MVB_ERR_ARGUMENT,
	       "5 floats for 2 rows of 3 columns");
	EXPECT(mvb_table_get_rows(t, row, SIZE_MAX / 3 + 1, x, 2), MVB_ERR_ARGUMENT,
	       "2 floats for 6148914691236517206 rows"); /* whose product wraps */
	EXPECT(mvb_table_get_rows(t, NULL, 2, x, 6), MVB_ERR_ARGUMENT, "NULL where row numbers");
	EXPECT(mvb_table_add_start(t, x, N, NULL, NULL), MVB_ERR_ARGUMENT, "NULL where the ticket");
	EXPECT(mvb_table_version(t, NULL), MVB_ERR_ARGUMENT, "NULL where the number");
	EXPECT(mvb_wait(ticket), MVB_ERR_TICKET, "never given out");
	EXPECT(mvb_wait(-7), MVB_ERR_TICKET, "never given out");
	EXPECT(mvb_wait(INT64_MAX), MVB_ERR_TICKET, "never given out");
	FINE(mvb_table_add_start(t, x, N, NULL, &ticket));
	FINE(mvb_wait(ticket));
	EXPECT(mvb_wait(ticket), MVB_ERR_TICKET, "was waited for already");
	FINE(mvb_table_add_start(t, x, N, NULL, row));
	EXPECT(mvb_wait(ticket), MVB_ERR_TICKET, "was waited for already");
	FINE(mvb_wait(row[0]));
}

static void too_many_tickets(struct mvb_table *t)
{
	int64_t ticket[100];
	int code = MVB_OK, n = 0;
	while (n < 100 && !(code = mvb_table_add_start(t, x, N, NULL, &ticket[n])))
		n++;
	EXPECT(code, MVB_ERR_LIMIT, "mvb_wait for one first");
	THAT(n == 64);
	while (n)
		FINE(mvb_wait(ticket[--n]));
}

static void *on_another_thread(void *unused)
{
	EXPECT(mvb_table_get(NULL, x, N), MVB_ERR_STATE, "another thread");
	return unused;
}

/* It is no worker, whatever it calls; its parent goes on. */
static void in_a_forked_child(struct mvb_table *t)
{
	int status = 1, before = failures;
	int64_t ticket;
	pid_t child = fork();
	if (child == 0) {
		EXPECT(mvb_allreduce(x, N, MVB_SUM), MVB_ERR_STATE, "in a forked child");
		EXPECT(mvb_allreduce_start(x, N, MVB_SUM, &ticket), MVB_ERR_STATE, "forked child");
		EXPECT(mvb_table_add(t, x, N, NULL), MVB_ERR_STATE, "in a forked child");
		EXPECT(mvb_table_get(t, x, N), MVB_ERR_STATE, "in a forked child");
		EXPECT(mvb_send(x, sizeof x, 0), MVB_ERR_STATE, "in a forked child");
		EXPECT(mvb_thread(true), MVB_ERR_STATE, "in a forked child");
		EXPECT(mvb_init(NULL), MVB_ERR_STATE, "in a forked child");
		EXPECT(mvb_shutdown(), MVB_ERR_STATE, "in a forked child");
		_exit(failures != before);
	}
	THAT(child > 0 && waitpid(child, &status, 0) == child && status == 0);
}

/* ---- Collective functions: every worker is told ------------------------------------------- */

static void wrong_tables(int id)
{
	struct mvb_table *t = (void *)x;
	struct mvb_options o = {.updater = "adams"};
	EXPECT(mvb_array_new(&t, 0, NULL, NULL), MVB_ERR_ARGUMENT, "0 x 1 floats");
	THAT(t == NULL);
	EXPECT(mvb_matrix_new(&t, 5, 0, NULL, NULL), MVB_ERR_ARGUMENT, "5 x 0 floats");
	EXPECT(mvb_array_new(NULL, N, NULL, NULL), MVB_ERR_ARGUMENT, "the table should go");
	EXPECT(mvb_array_new(&t, SIZE_MAX / 2, NULL, NULL), MVB_ERR_MEMORY, "fits into no memory");
	EXPECT(mvb_array_new(&t, (size_t)1 << 48, NULL, NULL), MVB_ERR_MEMORY, "MiB");
	if (mvb_num_servers() == 1) /* more than MPI counts, or than the memory */
		EXPECT(mvb_array_new(&t, ((size_t)1 << 31) + 8, NULL, NULL), MVB_ERR_MEMORY,
		       "2147483656 x 1 floats");
	EXPECT(mvb_array_new(&t, N, NULL, &o), MVB_ERR_ARGUMENT, "'adams'; there are add|sgd|");
	o = (struct mvb_options){.rounds = true, .backup = 2};
	EXPECT(mvb_array_new(&t, N, NULL, &o), MVB_ERR_ARGUMENT, "backup 2");
	o = (struct mvb_options){.backup = 1};
	EXPECT(mvb_array_new(&t, N, NULL, &o), MVB_ERR_ARGUMENT, "there have to be rounds");
	o = (struct mvb_options){.bounded = true, .lead = -1};
	EXPECT(mvb_array_new(&t, N, NULL, &o), MVB_ERR_ARGUMENT, "lead -1");
	o = (struct mvb_options){.later = {0, 0, 0, 1}};
	EXPECT(mvb_array_new(&t, N, NULL, &o), MVB_ERR_ARGUMENT, "a field is set that version");
	o = (struct mvb_options){.initial = 7};
	EXPECT(mvb_array_new(&t, N, NULL, &o), MVB_ERR_ARGUMENT, "initial 7");

	EXPECT(mvb_array_new(&t, id ? 10 : 12, NULL, NULL), MVB_ERR_DIFFERS,
	       "rows is 12 on worker 0, but 10 on worker 1");
	THAT(t == NULL);
	o = (struct mvb_options){.updater = id ? "sgd" : "add"};
	EXPECT(mvb_array_new(&t, N, NULL, &o), MVB_ERR_DIFFERS, "updater is");
	EXPECT(mvb_array_new(&t, id ? N : 0, NULL, NULL), id ? MVB_ERR_PEER : MVB_ERR_ARGUMENT,
	       id ? "worker 0: a table of 0 x 1" : "0 x 1 floats");
	EXPECT(id ? mvb_array_new(&t, N, NULL, NULL) : mvb_barrier(), MVB_ERR_DIFFERS,
	       "worker 0 called mvb_barrier, worker 1 called mvb_array_new");
	FINE(mvb_barrier());
}

static void wrong_reductions(int id)
{
	float *list[] = {x, y};
	size_t n[] = {2, 3}, other[] = {3, 2};
	int64_t ticket;
	EXPECT(mvb_allreduce(x, id ? 3 : 4, MVB_SUM), MVB_ERR_DIFFERS,
	       "mvb_allreduce: n is 4 on worker 0, but 3 on worker 1");
	EXPECT(mvb_allreduce(x, N, id ? MVB_SUM : MVB_MEAN), MVB_ERR_DIFFERS, "op is 1");
	EXPECT(mvb_allreduce(id ? NULL : x, N, MVB_SUM), id ? MVB_ERR_ARGUMENT : MVB_ERR_PEER,
	       "x is NULL, where 6 floats should be");
	EXPECT(mvb_allreduce(x, N, (enum mvb_reduce)5), MVB_ERR_ARGUMENT, "op 5");
	EXPECT(mvb_broadcast(x, N, 2), MVB_ERR_ARGUMENT, "root 2; workers are 0 to 1");
	EXPECT(mvb_broadcast(x, N, id), MVB_ERR_DIFFERS, "root is 0 on worker 0, but 1");
	EXPECT(mvb_allreduce_list(list, id ? n : other, 2, MVB_SUM), MVB_ERR_DIFFERS, "lengths");
	EXPECT(mvb_allreduce_list(NULL, n, 2, MVB_SUM), MVB_ERR_ARGUMENT, "list of tensors");
	EXPECT(mvb_allreduce_start(x, N, MVB_SUM, NULL), MVB_ERR_ARGUMENT, "the ticket");
	EXPECT(mvb_allreduce_start(x, (size_t)1 << 31, MVB_SUM, &ticket), MVB_ERR_LIMIT, "2^31");
	FINE(mvb_allreduce_start(x, N, MVB_SUM, &ticket));
	FINE(mvb_wait(ticket));
	EXPECT(mvb_wait(ticket), MVB_ERR_TICKET, "was waited for already");
	list[1] = NULL;
	EXPECT(mvb_allreduce_list(list, n, 2, MVB_SUM), MVB_ERR_ARGUMENT,
	       "tensor 1 of 3 floats is NULL");
}

/* Starts that do not wait: mvb_wait returns the error, and the floats are unchanged. */
static void wrong_starts_of_sums(int id)
{
	enum { SUMS = 3 };
	float z[SUMS][N] = {{1, 1, 1}, {1, 1, 1, 1}, {2}};
	int64_t ticket[SUMS];
	for (int i = 0; i < SUMS; i++)
		FINE(mvb_allreduce_start(z[i], i == 1 && id ? 3 : 4, MVB_SUM, &ticket[i]));
	FINE(mvb_wait(ticket[2]));
	EXPECT(mvb_wait(ticket[1]), MVB_ERR_DIFFERS,
	       "mvb_allreduce_start: n is 4 on one worker, but 3 on another");
	EXPECT(mvb_wait(ticket[1]), MVB_ERR_TICKET, "was waited for already");
	FINE(mvb_wait(ticket[0]));
	THAT(z[0][2] == 2 && z[1][2] == 1 && z[2][0] == 4);
	FINE(mvb_allreduce_start(z[0], N, id ? MVB_SUM : MVB_MEAN, ticket));
	EXPECT(mvb_wait(ticket[0]), MVB_ERR_DIFFERS, "op is 1 on one worker, but 0");
	if (id) {
		EXPECT(mvb_allreduce_start(NULL, N, MVB_SUM, ticket), MVB_ERR_ARGUMENT,
		       "x is NULL");
		EXPECT(mvb_barrier(), MVB_ERR_DIFFERS, "another called mvb_allreduce_start");
		EXPECT(mvb_allreduce(x, N, MVB_SUM), MVB_ERR_DIFFERS, "mvb_allreduce_start");
	} else {
		for (int i = 0; i < SUMS; i++)
			FINE(mvb_allreduce_start(z[i], N, MVB_SUM, &ticket[i]));
		EXPECT(mvb_wait(ticket[0]), MVB_ERR_PEER, "another worker: MVB_ERR_ARGUMENT");
		EXPECT(mvb_wait(ticket[1]), MVB_ERR_DIFFERS, "one worker called mvb_barrier");
		EXPECT(mvb_wait(ticket[2]), MVB_ERR_DIFFERS, "one worker called mvb_allreduce,");
	}
	THAT(z[0][2] == 2 && z[1][2] == 1 && z[2][0] == 4);
	FINE(mvb_barrier());
}

static void wrong_keys(int id, struct mvb_table *matrix)
{
	const int64_t key[] = {1, 2, 3};
	struct mvb_table *t;
	EXPECT(mvb_kv_new(&t, 0), MVB_ERR_ARGUMENT, "0 x 6 floats");
	EXPECT(mvb_kv_new(&t, id ? 2 : 3), MVB_ERR_DIFFERS, "rows is 3 on worker 0, but 2");
	FINE(mvb_kv_new(&t, 2));
	EXPECT(mvb_kv_add(matrix, key, 1, x), MVB_ERR_ARGUMENT, "not of mvb_kv_new");
	EXPECT(mvb_kv_get(matrix, key, 1, x), MVB_ERR_ARGUMENT, "not of mvb_kv_new");
	EXPECT(mvb_kv_get(t, NULL, 1, x), MVB_ERR_ARGUMENT, "NULL where keys should be");
	EXPECT(mvb_kv_get(t, key, 1, NULL), MVB_ERR_ARGUMENT, "values is NULL");
	EXPECT(mvb_kv_add(t, key, SIZE_MAX / 2, x), MVB_ERR_MEMORY, "no memory");
	EXPECT(mvb_kv_add(t, key, 3, x), MVB_ERR_LIMIT, "all 2 places have other keys than ");
	FINE(mvb_table_free(t));
}

static void wrong_collectives(int id)
{
	EXPECT(mvb_allreduce_type(x, N, MVB_INT32, MVB_MEAN), MVB_ERR_ARGUMENT, "no MVB_MEAN");
	EXPECT(mvb_allreduce_type(x, N, (enum mvb_type)4, MVB_SUM), MVB_ERR_ARGUMENT, "type 4");
	EXPECT(mvb_allreduce_type(x, N, id ? MVB_FLOAT : MVB_INT32, MVB_SUM), MVB_ERR_DIFFERS,
	       "type is 2 on worker 0, but 0");
	EXPECT(mvb_gather(x, 4, y, 2), MVB_ERR_ARGUMENT, "root 2; workers are 0 to 1, all are -1");
	EXPECT(mvb_gather(x, 4, NULL, 1), id ? MVB_ERR_ARGUMENT : MVB_ERR_PEER, "all is NULL");
	EXPECT(mvb_gather(x, id ? 4 : 8, y, -1), MVB_ERR_DIFFERS, "bytes is 8 on worker 0, but 4");
	EXPECT(mvb_gather(x, (size_t)1 << 31, y, 0), MVB_ERR_LIMIT, "less than 2^31");
	EXPECT(mvb_reduce_scatter(x, NULL, 1, MVB_SUM), MVB_ERR_ARGUMENT, "part is NULL");
	EXPECT(mvb_reduce_scatter(x, y, 1, (enum mvb_reduce)5), MVB_ERR_ARGUMENT, "op 5");
	EXPECT(mvb_reduce_scatter(x, y, id ? 1 : 2, MVB_SUM), MVB_ERR_DIFFERS,
	       "n is 2 on worker 0");
	EXPECT(mvb_reduce_scatter(x, y, SIZE_MAX / 4, MVB_SUM), MVB_ERR_MEMORY, "no memory");
	EXPECT(mvb_send(x, 4, id), MVB_ERR_ARGUMENT, "it has to be another one from 0 to 1");
	EXPECT(mvb_receive(x, 4, 2), MVB_ERR_ARGUMENT, "worker 2");
	EXPECT(mvb_send(x, 3, !id), MVB_ERR_ARGUMENT, "3 bytes are no multiple of 4");
	EXPECT(mvb_receive(NULL, 4, !id), MVB_ERR_ARGUMENT, "x is NULL");
	EXPECT(id ? mvb_receive(x, 8, 0) : mvb_send(x, 4, 1), MVB_ERR_DIFFERS,
	       id ? "8 bytes, but worker 0 has 4" : "4 bytes, but worker 1 has 8");
}

static void wrong_gradients(int id)
{
	float *const list[] = {x, y};
	const size_t n[] = {2, 3};
	struct mvb_grads *g, *h;
	EXPECT(mvb_grads_new(&g, list, n, 0, 0), MVB_ERR_ARGUMENT, "no tensors");
	EXPECT(mvb_grads_new(&g, list, n, id ? 1 : 2, 0), MVB_ERR_DIFFERS, "count is 2");
	FINE(mvb_grads_new(&g, list, n, 2, 1));
	FINE(mvb_grads_new(&h, list, n, 2, 1));
	EXPECT(mvb_grads_ready(g, 2), MVB_ERR_ARGUMENT, "tensor 2; they are 0 to 1");
	FINE(mvb_grads_ready(g, 1));
	EXPECT(mvb_grads_ready(g, 1), MVB_ERR_ARGUMENT, "second time");
	EXPECT(mvb_grads_wait(g), MVB_ERR_ARGUMENT, "tensor 0 and 0 more were not made ready");
	FINE(mvb_grads_ready(g, 1)); /* that step is over */
	FINE(mvb_grads_ready(g, 0));
	EXPECT(mvb_grads_wait(id ? g : h), MVB_ERR_DIFFERS, "number");
	EXPECT(id ? mvb_barrier() : mvb_grads_wait(g), MVB_ERR_DIFFERS, "mvb_barrier");
	FINE(mvb_grads_wait(g));
	if (id)
		FINE(mvb_grads_ready(h, 1));
	EXPECT(mvb_grads_wait(h), MVB_ERR_ARGUMENT, "were not made ready");
	if (id)
		FINE(mvb_grads_ready(h, 1));
	FINE(mvb_grads_free(h)); /* though a reduction of worker 1's is under way */
	EXPECT(mvb_grads_free(h), MVB_ERR_ARGUMENT, "no live set of gradients");
	FINE(mvb_grads_free(g));
}

static void wrong_models(int id)
{
	float *const list[] = {x, y};
	const size_t n[] = {2, 3};
	struct mvb_options o = {.updater = "sgd"};
	struct mvb_model *m;
	EXPECT(mvb_model_new(&m, list, n, 2, &o), MVB_ERR_ARGUMENT, "needs add");
	EXPECT(mvb_model_new(&m, list, n, 0, NULL), MVB_ERR_ARGUMENT, "0 x 1 floats");
	EXPECT(mvb_model_new(&m, list, n, id ? 1 : 2, NULL), MVB_ERR_DIFFERS, "count is 2");
	FINE(mvb_model_new(&m, list, n, 2, NULL));
	EXPECT(mvb_model_flatten(m, x, 4), MVB_ERR_ARGUMENT, "4 floats at flat, for a model of 5");
	EXPECT(mvb_model_unflatten(m, NULL, 5), MVB_ERR_ARGUMENT, "5 floats at NULL");
	EXPECT(mvb_table_get((struct mvb_table *)m, x, 5), MVB_ERR_ARGUMENT, "no live table");
	FINE(mvb_model_free(m));
	EXPECT(mvb_model_sync(m), MVB_ERR_ARGUMENT, "no live model");
}

static void wrong_layers(int id)
{
	float w[4] = {0}, gradient[4];
	struct mvb_linear base = {.form = MVB_BASE_LINEAR, .inputs = 2, .outputs = 2, .w = w},
			  initial = base, bad = base,
			  cut = {.form = MVB_BASE_RESHAPE, .inputs = 2, .outputs = 2};
	struct mvb_linear_part part;
	initial.form = MVB_INITIAL_LINEAR;
	EXPECT(mvb_linear_part(NULL, &part), MVB_ERR_ARGUMENT, "NULL is no layer");
	EXPECT(mvb_linear_part(&base, NULL), MVB_ERR_ARGUMENT, "where the part should go");
	bad.form = MVB_TANH + 1;
	EXPECT(mvb_linear_part(&bad, &part), MVB_ERR_ARGUMENT, "form 5 is none of");
	bad = base, bad.inputs = 0;
	EXPECT(mvb_linear_part(&bad, &part), MVB_ERR_ARGUMENT, "0 inputs and 2 outputs");
	bad = cut, bad.outputs = 3;
	EXPECT(mvb_linear_forward(&bad, x, 1, y), MVB_ERR_ARGUMENT, "2 inputs and 3 outputs");
	bad = base, bad.inputs = bad.outputs = SIZE_MAX / 4;
	EXPECT(mvb_linear_part(&bad, &part), MVB_ERR_ARGUMENT, "0 rows of");
	EXPECT(mvb_linear_forward(&initial, NULL, 1, y), MVB_ERR_ARGUMENT, "x is NULL");
	EXPECT(mvb_linear_forward(&cut, x, 1, NULL), MVB_ERR_ARGUMENT, "y is NULL");
	EXPECT(mvb_linear_backward(&initial, x, y, 1, NULL), MVB_ERR_ARGUMENT, "dw is NULL");
	initial.dw = gradient;
	EXPECT(mvb_linear_backward(&initial, x, NULL, 1, NULL), MVB_ERR_ARGUMENT, "dy is NULL");
	FINE(mvb_linear_backward(&initial, x, y, 1, NULL));
	EXPECT(mvb_linear_gather(&cut, x, y), MVB_ERR_ARGUMENT, "no parameters");
	EXPECT(mvb_linear_scatter(&base, NULL, NULL), MVB_ERR_ARGUMENT, "w is NULL");
	bad = base, bad.w = NULL;
	EXPECT(mvb_linear_forward(&bad, x, 1, y), MVB_ERR_ARGUMENT, "w is NULL, where 2 floats");

	EXPECT(mvb_linear_forward(&base, x, id ? 1 : 2, y), MVB_ERR_DIFFERS, "rows is 2");
	EXPECT(mvb_linear_forward(&base, id ? x : NULL, 1, y), id ? MVB_ERR_PEER : MVB_ERR_ARGUMENT,
	       "x is NULL");
	EXPECT(mvb_linear_backward(id ? &initial : &cut, x, y, 1, x), MVB_ERR_DIFFERS, "form is");
	base.b = id ? w : NULL;
	EXPECT(mvb_linear_forward(&base, x, 1, y), MVB_ERR_DIFFERS, "bias is 0");
	base.b = NULL, base.outputs = id ? 1 : 2;
	EXPECT(mvb_linear_gather(&base, x, NULL), MVB_ERR_DIFFERS, "outputs is 2");
}

/* ---- Rounds: a worker that the others wait for in vain ------------------------------------ */

/* Worker 1 pushes once more than worker 0, which waits in this function meanwhile. */
static void incomplete_round(int id, const char *where)
{
	const struct mvb_options o = {.rounds = true};
	struct mvb_table *t;
	int64_t ticket;
	float *const list[] = {y};
	const size_t n[] = {N};
	FINE(mvb_array_new(&t, N, NULL, &o));
	FINE(mvb_table_add(t, x, N, NULL));
	if (id && strcmp(where, "wait") == 0) {
		FINE(mvb_table_add_start(t, x, N, NULL, &ticket));
		EXPECT(mvb_wait(ticket), MVB_ERR_INCOMPLETE, "an incomplete round: worker 0");
	} else if (id && strcmp(where, "flush") == 0) {
		FINE(mvb_table_add_start(t, x, N, NULL, &ticket));
		EXPECT(mvb_barrier(), MVB_ERR_INCOMPLETE, "an incomplete round: worker 0");
		EXPECT(mvb_wait(ticket), MVB_ERR_INCOMPLETE, "an incomplete round: worker 0");
	} else if (id) {
		EXPECT(mvb_table_add(t, x, N, NULL), MVB_ERR_INCOMPLETE,
		       "an incomplete round: worker 0");
	}
	if (strcmp(where, "allreduce") == 0)
		FINE(mvb_allreduce(y, N, MVB_SUM));
	else if (strcmp(where, "start") == 0)
		FINE(mvb_allreduce_start(y, N, MVB_SUM, &ticket));
	else if (strcmp(where, "broadcast") == 0)
		FINE(mvb_broadcast(y, N, 0));
	else if (strcmp(where, "list") == 0)
		FINE(mvb_allreduce_list(list, n, 1, MVB_SUM));
	else if (strcmp(where, "flush") == 0 && id == 0)
		EXPECT(mvb_barrier(), MVB_ERR_PEER, "worker 1: an incomplete round");
	else if (strcmp(where, "flush") != 0 && strcmp(where, "free") != 0)
		FINE(mvb_barrier());
	if (strcmp(where, "start") == 0)
		FINE(mvb_wait(ticket));
	FINE(mvb_table_free(t));
}

/* After an incomplete round a table accepts no more pushes, from both workers. It can be read, and
 * a new table has rounds again. */
static void pushing_on(int id)
{
	const struct mvb_options o = {.rounds = true};
	struct mvb_table *t;
	int64_t ticket;
	float ones[N] = {1, 1, 1, 1, 1, 1};
	FINE(mvb_array_new(&t, N, NULL, &o));
	FINE(mvb_table_add(t, ones, N, NULL));
	if (id)
		EXPECT(mvb_table_add(t, ones, N, NULL), MVB_ERR_INCOMPLETE, "worker 0 waits at");
	FINE(mvb_barrier());
	for (int i = 0; id && i < 3; i++) {
		EXPECT(mvb_table_add(t, ones, N, NULL), MVB_ERR_INCOMPLETE, "create a new one");
		EXPECT(mvb_table_add_start(t, ones, N, NULL, &ticket), MVB_ERR_INCOMPLETE,
		       "no more pushes");
		EXPECT(mvb_table_sync(t, y, N), MVB_ERR_INCOMPLETE, "no more pushes");
	}
	FINE(mvb_table_get(t, y, N));
	THAT(y[0] == 2 && y[N - 1] == 2);
	FINE(mvb_table_get_start(t, y, N, &ticket));
	FINE(mvb_wait(ticket));
	THAT(y[N - 1] == 2);
	FINE(mvb_barrier());
	if (!id) {
		FINE(mvb_table_add(t, ones, N, NULL)); /* the round that worker 1 waited for */
		EXPECT(mvb_table_add(t, ones, N, NULL), MVB_ERR_INCOMPLETE, "worker 1 waits at");
		EXPECT(mvb_table_add(t, ones, N, NULL), MVB_ERR_INCOMPLETE, "create a new one");
	}
	FINE(mvb_barrier());
	FINE(mvb_table_get(t, y, N)); /* any result */
	FINE(mvb_table_free(t));
	FINE(mvb_array_new(&t, N, NULL, &o));
	FINE(mvb_table_add_get(t, ones, N, NULL, y));
	THAT(y[0] == 2 && y[N - 1] == 2);
	FINE(mvb_table_add(t, ones, N, NULL));
	FINE(mvb_table_free(t));
}

/* ---- The end ------------------------------------------------------------------------------ */

static void end(int id, int stay)
{
	struct mvb_table *t, *freed;
	FINE(mvb_array_new(&t, N, NULL, NULL)); /* left to mvb_shutdown */
	FINE(mvb_array_new(&freed, N, NULL, NULL));
	EXPECT(mvb_table_free(id ? t : freed), MVB_ERR_DIFFERS, "number");
	FINE(mvb_table_free(freed));
	EXPECT(mvb_table_get(freed, x, N), MVB_ERR_ARGUMENT, "no live table");
	FINE(mvb_table_free(NULL));
	if (id && stay) {
		EXPECT(mvb_barrier(), MVB_ERR_DIFFERS, "worker 0 called mvb_shutdown");
		EXPECT(mvb_allreduce(x, N, MVB_SUM), MVB_ERR_DIFFERS, "mvb_shutdown");
	}
	FINE(mvb_shutdown());
	nothing_works("after mvb_shutdown");
	EXPECT(mvb_init(NULL), MVB_ERR_STATE, "after mvb_shutdown");
}

int main(int argc, char **argv)
{
	static const char *const where[] = {"barrier", "wait",      "flush",     "free",
					    "list",    "allreduce", "broadcast", "start"};
	const char *rank = getenv("OMPI_COMM_WORLD_RANK");
	const struct mvb_options sgd = {.updater = "sgd"};
	const struct mvb_setup setup = {.tables = argc > 2 ? argv[2] : NULL,
					.servers = argc > 3 ? atoi(argv[3]) : 0};
	struct mvb_table *t, *gradients;
	pthread_t thread;
	THAT(strcmp(mvb_message(), "") == 0);
	THAT(strcmp(mvb_error_name(MVB_ERR_START), "MVB_ERR_START") == 0);
	THAT(strcmp(mvb_error_name(-1), "MVB_ERR unknown") == 0);
	nothing_works("before mvb_init");
	if (setup.servers == 0)
		wrong_starts(rank ? atoi(rank) : 0);
	FINE(mvb_init(&setup));
	if (mvb_is_server()) {
		EXPECT(mvb_barrier(), MVB_ERR_STATE, "only mvb_shutdown is allowed");
		THAT(mvb_worker_id() == -1 && mvb_num_workers() == 2 && mvb_rank() == 2);
		FINE(mvb_shutdown());
		return failures != 0;
	}
	EXPECT(mvb_init(NULL), MVB_ERR_STATE, "second time");
	int id = mvb_worker_id();
	THAT(mvb_num_workers() == 2);

	FINE(mvb_matrix_new(&t, 2, 3, NULL, NULL));
	FINE(mvb_array_new(&gradients, N, NULL, &sgd));
	wrong_operations(t, gradients);
	too_many_tickets(t);
	THAT(pthread_create(&thread, NULL, on_another_thread, NULL) == 0);
	pthread_join(thread, NULL);
	in_a_forked_child(t);
	wrong_tables(id);
	wrong_reductions(id);
	wrong_starts_of_sums(id);
	wrong_keys(id, t);
	wrong_collectives(id);
	wrong_gradients(id);
	wrong_models(id);
	wrong_layers(id);
	for (size_t i = 0; i < sizeof where / sizeof *where; i++)
		incomplete_round(id, where[i]);
	pushing_on(id);
	end(id, argc > 1 && strcmp(argv[1], "stay") == 0);
	return failures != 0;
}
