/*
 * check_store.c - the results database: what it stores, what it refuses, what its views compute,
 * and how queries are printed.
 */
#include "results/db/store.h"
#include "results/run/run.h"
#include "runtime/config/config.h"
#include "runtime/config/machine.h"
#include "runtime/config/plan.h"
#include "runtime/table/table.h"
#include "tests/fixture.h"
#include "tests/made.h"
#include "tests/suites.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern const struct command command_table, command_show;

/* ---- A new folder for every test, and SQL without the store -------------- */

static char path[96];
static struct config plain; /* serial, with seed 1 */
static struct sink sink;    /* of the store that was opened last */

static struct config config_of(const char *seed, const char *label);

static void set_up(void)
{
	folder_enter();
	snprintf(path, sizeof(path), "%s/results.db", folder);
	plain = config_of("1", "");
}

static void tear_down(void)
{
	config_fini(&plain);
	folder_free();
}

static int files_in_folder(void)
{
	DIR *d = opendir(folder);
	int n = 0;
	ck_assert_ptr_nonnull(d);
	for (struct dirent *e; (e = readdir(d));)
		n += e->d_name[0] != '.';
	closedir(d);
	return n;
}

static void sql(const char *text)
{
	sqlite3 *db;
	ck_assert_int_eq(sqlite3_open(path, &db), SQLITE_OK);
	made_sql(db, "PRAGMA foreign_keys = ON");
	made_sql(db, text);
	sqlite3_close(db);
}

static char *rows_of(const char *text)
{
	sqlite3 *db;
	ck_assert_int_eq(sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
	char *rows = made_rows(db, text);
	sqlite3_close(db);
	return rows;
}

static void ck_rows(const char *text, const char *want)
{
	char *got AUTOFREE = rows_of(text);
	ck_assert_msg(strcmp(got, want) == 0, "%s\ngave %s\nnot  %s", text, got, want);
}

/* Asserts that this is a message that contains these words. */
static void ck_sentence(char *got, const char *words)
{
	ck_assert_msg(got, "no message with \"%s\"", words);
	ck_assert_msg(strstr(got, words), "\"%s\" lacks \"%s\"", got, words);
	free(got);
}

static void ck_fine(char *got)
{
	ck_assert_msg(!got, "%s", got);
}

static struct store *open_store(enum store_mode mode)
{
	struct store *s;
	ck_fine(store_open(&s, path, mode));
	sink = store_sink(s);
	return s;
}

static void make_file(const char *text)
{
	folder_text("results.db", text);
}

static void make_empty_store(void)
{
	store_close(open_store(STORE_WRITE));
}

/* ---- A configuration, and runs that were never trained ------------------- */

static struct config config_of(const char *seed, const char *label)
{
	struct config c;
	const struct setting given[] = {
		{"strategy", "serial"}, {"workload", workloads[0]->plugin.name},
		{"seed", seed},         {"label", label},
		{"lr", "0.1"},          {"batch", "64"},
	};
	ck_fine(config_init(&c, given, sizeof(given) / sizeof(*given), false));
	return c;
}

static const struct machine here = {
	.cpu = "a CPU", .cores = 3, .git_commit = "abc", .git_dirty = true};

static struct experiment experiment_of(const struct config *c, struct machine *m, struct plan *p)
{
	*m = here;
	m->host = machine()->host;
	*p = (struct plan){.params = 7, .device = "cpu", .oversubscribed = true};
	p->train.n = 100;
	p->test.n = 10;
	return (struct experiment){
		.config = c, .machine = m, .plan = p, .started = "2026-01-02T03:04:05Z"};
}

static int64_t begin(const struct config *c)
{
	struct machine m;
	struct plan p;
	struct experiment e = experiment_of(c, &m, &p);
	int64_t id = 0;
	ck_fine(sink.begin(sink.self, &e, &id));
	ck_assert_int_gt(id, 0);
	return id;
}

/* The database, in which the plain configuration has begun to run. */
static struct store *begun(void)
{
	struct store *s = open_store(STORE_WRITE);
	begin(&plain);
	return s;
}

/* Of real runs without a model. */
static const struct closing closing = {.cost = {NAN, NAN, -1}};

static struct epoch_row epoch_row(int64_t epoch, double accuracy)
{
	return (struct epoch_row){
		.epoch = epoch,
		.split = {.seconds = 1.5,
			  .compute_s = 1,
			  .comm_s = 0.25,
			  .wait_s = 0.125,
			  .user_s = 2.5,
			  .system_s = 0.5,
			  .run_delay_s = 0.25,
			  .preemptions = 7,
			  .bytes_sent = 1000 * epoch},
		.running = {NAN, NAN},
		.on = {[ON_TRAIN] = {NAN, NAN},
		       [ON_VALIDATION] = {NAN, NAN},
		       [ON_TEST] = {0.5, accuracy}},
		.consensus = epoch ? NAN : 0.5,
		.share = 1,
	};
}

/* ---- What is stored ------------------------------------------------------ */

CASE("store", .limit = 60, .set_up = set_up, .tear_down = tear_down);

TEST(run_is_stored)
{
	struct store *s = open_store(STORE_WRITE);
	struct config c AUTOCONFIG = config_of("5", "it's");
	int64_t id = begin(&c);
	struct epoch_row row = epoch_row(0, 0.1);
	struct split_row ranks[2] = {
		{.seconds = 1, .comm_s = 0.5, .bytes_sent = 3, .peak_bytes = 2},
		{.seconds = 2, .pushes = 2, .staleness_sum = 3, .staleness_max = 2, .dropped = 1}};
	int64_t histogram[STALENESS_BINS] = {[0] = 2, [3] = 1, [7] = 1};
	char hash[17];
	ck_rows("SELECT status, finished FROM run", "running,null");
	ck_fine(sink.epoch(sink.self, &row, NULL, 0, NULL, NULL));
	row = epoch_row(1, NAN);
	row.split.pushes = 4;
	row.split.staleness_sum = 10;
	row.split.staleness_max = 7;
	row.split.dropped = 1;
	row.split.peak_bytes = 5000;
	row.on[ON_TEST].loss = INFINITY;
	ck_fine(sink.epoch(sink.self, &row, ranks, 2, histogram, NULL));
	ck_rows("SELECT count(*) FROM epoch", "2"); /* other readers see each epoch at once */
	ck_fine(sink.end(sink.self, "done", NULL, &closing));
	store_close(s);

	config_hash(&c, hash);
	char *want AUTOFREE = sentence(
		"%lld,done,null,2026-01-02T03:04:05Z,1,%s,serial,1,0.1,64,5,cpu,it's,7,100,"
		"10,1,a CPU,3,null,abc,1,%d",
		(long long)id, hash, (int)getpid());
	ck_rows("SELECT id, status, reason, started, finished LIKE '20__-__-__T__:__:__Z', "
		"config_hash, strategy, workers, lr, batch, seed, device, label, params, "
		"train_size, test_size, oversubscribed, cpu, cores, gpu, git_commit, git_dirty, "
		"pid "
		"FROM run",
		want);
	ck_rows("SELECT * FROM epoch",
		"1,0,1.5,1.0,0.25,0.125,null,null,null,null,null,null,0.5,0.1,0,"
		"null,null,null,null,0.5,2.5,0.5,0.25,7,0.0,1.0,0;"
		"1,1,1.5,1.0,0.25,0.125,null,null,null,null,null,null,null,null,1000,2.5,"
		"7,4,1,null,2.5,0.5,0.25,7,0.0,1.0,5000");
	ck_rows("SELECT * FROM rank_epoch",
		"1,1,0,1.0,0.0,0.5,0.0,0.0,0.0,0.0,0.0,3,null,null,0,null,null,2;"
		"1,1,1,2.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0,2,1,0,1.5,2,0");
	ck_rows("SELECT * FROM staleness", "1,1,0,2;1,1,3,1;1,1,7,1");
	ck_rows("PRAGMA journal_mode", "wal");
	sql("DELETE FROM run");
	ck_rows("SELECT (SELECT count(*) FROM epoch), (SELECT count(*) FROM rank_epoch), "
		"(SELECT count(*) FROM run_option), (SELECT count(*) FROM run_kept), "
		"(SELECT count(*) FROM staleness)",
		"0,0,0,0,0");
}

/* Under the strategy's names. A resumed run deletes later epochs, and with them their values. */
TEST(strategy_reports_are_stored)
{
	struct store *s = begun();
	struct epoch_values said = {.of = {{"interval", 10, 4}, {"density", INFINITY, 1}}, .n = 2};
	for (int64_t epoch = 1; epoch <= 2; epoch++) {
		struct epoch_row row = epoch_row(epoch, 0.5);
		ck_fine(sink.epoch(sink.self, &row, NULL, 0, NULL, &said));
		said = (struct epoch_values){.of = {{"interval", 3, 1}}, .n = 1};
	}
	ck_fine(sink.end(sink.self, "done", NULL, &closing));
	store_close(s);
	ck_rows("SELECT epoch, name, value, reports FROM epoch_value",
		"1,density,null,1;1,interval,2.5,4;2,interval,3.0,1");
	sql("DELETE FROM epoch WHERE epoch = 2");
	ck_rows("SELECT DISTINCT epoch FROM epoch_value", "1");
	sql("DELETE FROM run");
	ck_rows("SELECT count(*) FROM epoch_value", "0");
}

TEST(chosen_device_and_placement_are_stored)
{
	struct store *s AUTOCLOSE = open_store(STORE_WRITE);
	struct machine m;
	struct plan p;
	struct experiment e = experiment_of(&plain, &m, &p);
	int64_t id;
	plain.run.table_home = "auto";
	ck_fine(store_pend(s, &plain, &(int64_t){0}, 0, 0));
	ck_rows("SELECT device, table_home, record FROM run", "auto,auto,0");
	ck_fine(sink.begin(sink.self, &e, &id));
	ck_fine(sink.end(sink.self, "done", NULL, &closing));
	e.table_home = "gpu";
	e.transport = "ipc";
	p.device = "cuda";
	p.facts = (struct device_facts){
		.count = 1, .model = "a GPU", .driver = "1.2", .version = "CUDA 13"};
	plain.run.precision = "tf32";
	plain.run.record = true;
	ck_fine(sink.begin(sink.self, &e, &id));
	ck_rows("SELECT id, device, table_home, record, precision, transport, gpu, driver, cuda "
		"FROM run ORDER BY id",
		"1,cpu,null,0,float32,null,null,null,null;"
		"2,cuda,gpu,1,tf32,ipc,a GPU,1.2,CUDA 13");
	ck_rows("SELECT config FROM run_summary WHERE id = 2", "serial cuda tf32");
}

/* A push in each bin; none in bin 4, seven in bin 130. */
TEST(staleness_histogram_sums_to_pushes)
{
	struct store *s AUTOCLOSE = begun();
	struct epoch_row row = epoch_row(1, 0.5);
	int64_t histogram[STALENESS_BINS] = {0};
	for (int i = 0; i < STALENESS_BINS; i++)
		if (i != 4)
			row.split.pushes += histogram[i] = i == 130 ? 7 : 1;
	ck_fine(sink.epoch(sink.self, &row, NULL, 0, histogram, NULL));
	row = epoch_row(2, 0.5);
	ck_fine(sink.epoch(sink.self, &row, NULL, 0, NULL, NULL));
	ck_rows("SELECT e.epoch, e.pushes = sum(s.pushes), count(s.pushes) FROM epoch AS e "
		"LEFT JOIN staleness AS s USING (run_id, epoch) GROUP BY e.epoch",
		"1,1,383;2,null,0");
	/* exact below 128; above, the lower ends of bins that are 8 wide at first, then 16 */
	ck_rows("SELECT count(*) FROM staleness WHERE staleness BETWEEN 0 AND 127", "127");
	ck_rows("SELECT staleness, pushes FROM staleness WHERE staleness BETWEEN 127 AND 150",
		"127,1;128,1;136,1;144,7");
	ck_rows("SELECT staleness FROM staleness WHERE staleness BETWEEN 240 AND 300",
		"240;248;256;272;288");
}

TEST(arrivals_are_stored_in_order)
{
	enum { N = 3000 };
	static const char *const kinds[] = {"push", "pull", "sync", "elastic", "drop"};
	struct store *s AUTOCLOSE = open_store(STORE_WRITE);
	struct arrival *a AUTOFREE = must(calloc(N, sizeof(*a)));
	/* two tables of three shards, the latest first, in two segments */
	for (int i = 0; i < N; i++) {
		struct arrival *at = &a[N - 1 - i];
		*at = (struct arrival){.seq = i / 6,
				       .table = (int16_t)(i % 2),
				       .shard = (int16_t)(i % 3),
				       .worker = i * i % 7};
		memcpy(at->kind, kinds[i % 5], strlen(kinds[i % 5]));
	}
	begin(&plain);
	ck_fine(sink.arrivals(sink.self, a + N / 2, N / 2));
	ck_rows("SELECT count(*) FROM arrival", "1500");
	ck_fine(sink.arrivals(sink.self, a, N / 2));
	ck_fine(sink.arrivals(sink.self, NULL, 0));
	ck_rows("SELECT count(*), count(DISTINCT table_id), count(DISTINCT shard), max(seq), "
		"min(run_id), max(run_id) FROM arrival",
		"3000,2,3,499,1,1");
	/* i = 6 seq + 4 for table 0 and shard 1; worker and kind follow from it */
	ck_rows("SELECT seq, worker, kind FROM arrival WHERE table_id = 0 AND shard = 1 "
		"ORDER BY seq LIMIT 5",
		"0,2,drop;1,2,push;2,4,pull;3,1,sync;4,0,elastic");
	ck_rows("SELECT count(*) FROM arrival WHERE table_id = 0 AND shard = 1 AND "
		"worker = (6 * seq + 4) * (6 * seq + 4) % 7",
		"500");
	/* an operation twice: nothing of that call is stored; older rows stay */
	a[0].seq = 500;
	ck_sentence(sink.arrivals(sink.self, a, 2), "UNIQUE");
	ck_rows("SELECT count(*) FROM arrival", "3000");
	sql("DELETE FROM run");
	ck_rows("SELECT count(*) FROM arrival", "0");
}

TEST(plugin_options_are_stored)
{
	struct store *s AUTOCLOSE = begun();
	int64_t n = 0;
	for (const struct option *o = plain.workload->plugin.options; o && o->name; o++) {
		char text[256];
		option_text(o, plain.workload_opts, text, sizeof(text));
		char *ask AUTOFREE = sentence("SELECT value FROM run_option WHERE run_id = 1 AND "
					      "part = 'workload' AND name = '%s'",
					      o->name);
		char *want AUTOFREE = sentence("%s", text);
		ck_rows(ask, want);
		n++;
	}
	for (const struct option *o = plain.strategy->plugin.options; o && o->name; o++)
		n++;
	char *want AUTOFREE = sentence("%lld", (long long)n);
	ck_rows("SELECT count(*) FROM run_option", want);
}

TEST(every_core_option_has_a_column)
{
	make_empty_store();
	for (const struct option *o = run_options; o->name; o++) {
		if (o->core.stored == UNSTORED)
			continue;
		char *ask AUTOFREE =
			sentence("SELECT count(*), '%s' FROM pragma_table_info('run') "
				 "WHERE name = replace(replace('%s', '-', '_'), '.', '_')",
				 o->name, o->name);
		char *want AUTOFREE = sentence("1,%s", o->name);
		ck_rows(ask, want);
	}
}

/* --where, figures and tables know every core option by its column. */
TEST(run_summary_has_every_option)
{
	make_empty_store();
	ck_rows("SELECT \"column\" FROM option_info WHERE \"column\" NOT IN (SELECT name FROM "
		"pragma_table_info('run_summary'))",
		"");
}

static char *schema_shape(void);

/* For every option, two cells differ in config_hash if and only if they differ in the options that
 * option_info marks as deciding. config_key contains these, except the seed, and the options that
 * keep runs apart. compare_key differs in the options of an epoch's work. Rows of pending cells
 * contain options as given. */
TEST(config_hash_and_config_key_agree)
{
	for (const struct option *o = run_options; o->name; o++) {
		char value[64] = "mpi";
		if (strcmp(o->name, "platform") != 0)
			other_value(o, value, sizeof value);
		/* with initial-model given, the file of --init-from is not read */
		struct setting set[] = {{"platform", "sim"},
					{"strategy", "periodic"},
					{"initial-model", "0123456789abcdef"},
					{o->name, value}};
		struct store *s = open_store(STORE_WRITE);
		struct config c;
		for (size_t n = 3; n <= 4; n++) {
			ck_fine(config_init(&c, set, n, false));
			ck_fine(store_pend(s, &c, &(int64_t){0}, 0, 0));
			config_fini(&c);
		}
		store_close(s);
		sql("CREATE VIEW part AS SELECT s.id, s.config_hash, s.config_key, (SELECT "
		    "json_group_object(e.key, e.value) FROM json_each(json_set(s.config_key, "
		    "'$.seed', s.seed)) AS e LEFT JOIN option_info AS i ON i.column = e.key WHERE "
		    "ifnull(i.decides, 1)) AS decides, s.compare_key FROM run_summary AS s");
		bool work = o->core.work || strstr(o->name, "batch");
		char *want AUTOFREE =
			sentence("%d,%d,%d,%s", o->incidental ? 1 : 2,
				 (o->incidental && !o->core.kept_apart) || o->core.repeats ? 1 : 2,
				 work ? 2 : 1, o->name);
		char *ask AUTOFREE =
			sentence("SELECT count(DISTINCT decides), count(DISTINCT config_key), "
				 "count(DISTINCT compare_key), '%s' FROM part",
				 o->name);
		ck_rows(ask, want);
		ck_rows("SELECT count(DISTINCT decides) = count(DISTINCT config_hash) FROM part",
			"1");
		remove(path);
	}
}

/* Each version creates its own. */
static void drop_views_and_triggers(void)
{
	sql("PRAGMA writable_schema = ON;"
	    "DELETE FROM sqlite_master WHERE type IN ('view', 'trigger');"
	    "PRAGMA writable_schema = OFF");
}

/* A file of this version that is older than an option lacks its column. It gets the column, and
 * older runs get the default. */
TEST(new_option_needs_no_migration)
{
	make_empty_store();
	char *fresh AUTOFREE = schema_shape();

	for (int mode = STORE_READ; mode <= STORE_WRITE; mode++) {
		store_close(begun());
		sql("UPDATE run SET status = 'done'");
		drop_views_and_triggers();
		sql("ALTER TABLE run DROP COLUMN speed; ALTER TABLE run DROP COLUMN sim_train;"
		    "ALTER TABLE run DROP COLUMN precision");
		store_close(open_store((enum store_mode)mode));
		ck_rows("PRAGMA user_version", "21");
		char *now AUTOFREE = schema_shape();
		ck_assert_str_eq(now, fresh);
		ck_rows("SELECT DISTINCT r.speed, r.precision, r.sim_train, config_key ->> 'speed' "
			"FROM run AS r JOIN run_summary USING (id)",
			",float32,null,");
		remove(path);
	}
}

TEST(pending_row_becomes_the_run)
{
	struct store *s AUTOCLOSE = open_store(STORE_WRITE);
	struct config b AUTOCONFIG = config_of("2", "");
	char hash[17], status[16], reason[256];
	config_hash(&b, hash);
	ck_assert_int_eq(store_cell(s, hash, status, reason), 0);
	ck_assert_str_eq(status, "");
	ck_fine(store_pend(s, &plain, &(int64_t){0}, 0, 0));
	ck_fine(store_pend(s, &b, &(int64_t){0}, 0, 0));
	ck_fine(store_pend(s, &b, &(int64_t){0}, 0, 0));
	ck_assert_int_eq(begin(&b), 2);
	ck_rows("SELECT id, status, seed FROM run ORDER BY id",
		"1,pending,1;2,running,2;3,pending,2");
	ck_fine(sink.end(sink.self, "diverged", "the loss is nan", &closing));
	ck_assert_int_eq(begin(&b), 3);
	ck_fine(sink.end(sink.self, "done", NULL, &closing));
	ck_assert_int_eq(begin(&b), 4);
	ck_fine(sink.end(sink.self, "failed", "why not", &closing));
	ck_assert_int_eq(store_cell(s, hash, status, reason), 4);
	ck_assert_str_eq(status, "failed");
	ck_assert_str_eq(reason, "why not");
}

TEST(store_fail_marks_only_unfinished_runs)
{
	struct store *s AUTOCLOSE = open_store(STORE_WRITE);
	int64_t id = begin(&plain);
	ck_fine(store_fail(s, id, NULL, "gone"));
	ck_rows("SELECT status, reason, finished IS NULL FROM run", "failed,gone,0");
	ck_fine(sink.end(sink.self, "done", NULL, &closing));
	ck_fine(store_fail(s, id, NULL, "gone"));
	ck_rows("SELECT status, reason FROM run", "done,null");
}

/* The process that launched a run may come to it late: by then another one can have resumed it. */
TEST(run_of_another_process_is_not_marked_failed, 3)
{
	static const char *const other[] = {"pid = pid + 1", "process = process || '1'",
					    "pid = NULL"};
	struct store *s AUTOCLOSE = begun();
	char *owner AUTOFREE = process_owner(), *set = sentence("UPDATE run SET %s", other[_i]);
	sql(set);
	ck_fine(store_fail(s, s->run, NULL, "gone"));
	ck_fine(store_fail(s, s->run, owner, "gone"));
	ck_rows("SELECT status FROM run", "running");
	sql("UPDATE run SET status = 'pending'");
	ck_fine(store_fail(s, s->run, NULL, "gone"));
	ck_rows("SELECT status FROM run", "pending");
	free(set);
}

TEST(runs_of_ended_processes_are_marked_failed)
{
	struct store *s = open_store(STORE_WRITE);
	pid_t child = fork();
	if (child == 0)
		_exit(0);
	waitpid(child, NULL, 0);
	for (int i = 0; i < 4; i++) {
		begin(&plain);
		ck_fine(sink.end(sink.self, "done", NULL, &closing));
	}
	store_close(s);
	/* 1: its process is gone. 2: it runs. 3: its pid is used again. 4: on another machine. */
	char *text AUTOFREE =
		sentence("UPDATE run SET status = 'running', pid = iif(id IN (1, 4), %d, %d), "
			 "process = iif(id = 3, rtrim(process, '0123456789') || '1', process), "
			 "started = iif(id = 3, '2001-01-01T00:00:00Z', "
			 "strftime('%%Y-%%m-%%dT%%H:%%M:%%SZ', 'now')), "
			 "host = iif(id = 4, 'elsewhere', host), finished = NULL, "
			 "heartbeat = CASE id WHEN 1 THEN '2001-02-03T04:05:06Z' WHEN 3 THEN NULL "
			 "ELSE strftime('%%Y-%%m-%%dT%%H:%%M:%%SZ', 'now') END",
			 (int)child, (int)getpid());
	sql(text);
	store_close(open_store(STORE_READ));
	ck_rows("SELECT count(*) FROM run WHERE status = 'running'", "4");
	store_close(open_store(STORE_WRITE));
	char *want AUTOFREE =
		sentence("1,failed,interrupted: its process %d is gone,2001-02-03T04:05:06Z;"
			 "2,running,null,null;"
			 "3,failed,interrupted: its process %d is gone,2001-01-01T00:00:00Z;"
			 "4,running,null,null",
			 (int)child, (int)getpid());
	ck_rows("SELECT id, status, reason, finished FROM run", want);
}

/* A killed process still exists while the kernel frees its memory. */
TEST(runs_of_exiting_processes_are_marked_failed)
{
	enum { BYTES = 1 << 30 };
	char line[2];
	size_t words = 1;
	int ready[2];
	store_close(begun());
	ck_assert_int_eq(pipe(ready), 0);
	pid_t child = fork();
	if (child == 0) {
		char *block = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
				   -1, 0);
		madvise(block, BYTES, MADV_NOHUGEPAGE); /* many pages take long to free */
		memset(block, 1, BYTES);
		ck_assert_int_eq(write(ready[1], block + BYTES - 1, 1), 1);
		for (;;)
			pause();
	}
	ck_assert_int_eq(read(ready[0], line, 1), 1);
	char *name AUTOFREE = process_name(child);
	char *text AUTOFREE = sentence("UPDATE run SET pid = %d, process = '%s'", (int)child, name);
	sql(text);
	store_close(open_store(STORE_WRITE));
	ck_rows("SELECT status FROM run", "running");
	char *words_of AUTOFREE = sentence("/proc/%d/cmdline", (int)child);
	sql(text);
	kill(child, SIGKILL);
	while (words) {
		FILE *f = fopen(words_of, "r");
		words = f ? fread(line, 1, 1, f) : 0;
		if (f)
			fclose(f);
	}
	store_close(open_store(STORE_WRITE));
	ck_rows("SELECT status FROM run", "failed");
	waitpid(child, NULL, 0);
}

TEST(killed_run_stays_readable)
{
	struct epoch_row row = epoch_row(0, 0.1);
	pid_t child = fork();
	if (child == 0) {
		begun();
		ck_fine(sink.epoch(sink.self, &row, NULL, 0, NULL, NULL));
		raise(SIGKILL);
	}
	waitpid(child, NULL, 0);
	store_close(open_store(STORE_READ));
	ck_rows("SELECT status, test_accuracy FROM run, epoch", "running,0.1");
	store_close(open_store(STORE_WRITE));
	ck_rows("SELECT status, test_accuracy FROM run, epoch", "failed,0.1");
}

TEST(deleted_run_accepts_no_epochs)
{
	struct store *s AUTOCLOSE = begun();
	struct epoch_row row = epoch_row(0, 0.1);
	sql("DELETE FROM run");
	ck_sentence(sink.epoch(sink.self, &row, NULL, 0, NULL, NULL), "was deleted while it ran");
	ck_fine(sink.end(sink.self, "failed", "deleted", &closing));
	ck_rows("SELECT count(*) FROM epoch", "0");
}

/* ---- What is refused ----------------------------------------------------- */

static void ck_refused(enum store_mode mode, const char *words)
{
	struct store *s = NULL;
	ck_sentence(store_open(&s, path, mode), words);
	ck_assert_ptr_null(s);
	if (mode == STORE_WRITE)
		ck_sentence(store_check(path), words);
}

TEST(store_check_writes_nothing)
{
	ck_fine(store_check(path));
	ck_assert_int_eq(files_in_folder(), 0);
	make_file("");
	ck_fine(store_check(path));
	make_empty_store();
	ck_assert_int_eq(files_in_folder(), 1);
	ck_fine(store_check(path));
	ck_assert_int_eq(files_in_folder(), 1);
	ck_sentence(store_check(""), "--db=");
}

TEST(non_database_files_are_refused)
{
	struct stat before, after;
	ck_refused(STORE_READ, "there is no results database");
	ck_assert_int_eq(files_in_folder(), 0);
	make_file("");
	ck_refused(STORE_READ, "is empty");
	make_file("this is a text, and not a short one: SQLite looks at the first hundred bytes "
		  "before it says anything of a file.\n");
	stat(path, &before);
	ck_refused(STORE_READ, "not a results database");
	ck_refused(STORE_WRITE, "not a results database");
	make_file("short");
	ck_refused(STORE_WRITE, "not a results database");
	remove(path);
	sql("CREATE TABLE other (x)");
	stat(path, &before);
	ck_refused(STORE_READ, "not one of mvbench's");
	ck_refused(STORE_WRITE, "not one of mvbench's");
	stat(path, &after);
	ck_assert_int_eq(before.st_size, after.st_size);
	ck_assert_int_eq(before.st_mtim.tv_nsec, after.st_mtim.tv_nsec);
}

TEST(unwritable_paths_are_refused)
{
	snprintf(path, sizeof(path), "%s", folder);
	ck_refused(STORE_READ, "is a folder");
	ck_refused(STORE_WRITE, "is a folder");
	snprintf(path, sizeof(path), "%s/none/x.db", folder);
	ck_refused(STORE_READ, "there is no results database");
	ck_refused(STORE_WRITE, "its folder");
	snprintf(path, sizeof(path), "/dev/null");
	ck_refused(STORE_WRITE, "not a plain file");
}

TEST(read_only_database_can_be_read)
{
	int status;
	store_close(begun());
	chmod(path, 0444);
	chmod(folder, 0555);
	pid_t child = fork(); /* root may write anywhere */
	if (child == 0) {
		if (geteuid() == 0)
			ck_assert_int_eq(setuid(65534), 0);
		ck_refused(STORE_WRITE, "cannot be written");
		struct store *s = open_store(STORE_READ);
		FILE *f = tmpfile();
		ck_fine(query_run_json(s, f, 1));
		ck_assert_int_gt(ftell(f), 0);
		store_close(s);
		chmod(path, 0666);
		_exit(0);
	}
	waitpid(child, &status, 0);
	ck_assert_int_eq(status, 0);
	chmod(folder, 0700);
}

/* What a killed run leaves, copied without its -shm to where the reader may not write: the last
 * epochs are only in the -wal, which SQLite would ignore. */
TEST(results_that_cannot_be_read_are_named)
{
	int status;
	struct epoch_row row = epoch_row(0, 0.1);
	pid_t child = fork();
	if (child == 0) {
		begun();
		ck_fine(sink.epoch(sink.self, &row, NULL, 0, NULL, NULL));
		raise(SIGKILL);
	}
	waitpid(child, NULL, 0);
	char *shared AUTOFREE = sentence("%s-shm", path);
	ck_assert_int_eq(unlink(shared), 0);
	chmod(folder, 0555);
	child = fork();
	if (child == 0) {
		if (geteuid() == 0)
			ck_assert_int_eq(setuid(65534), 0);
		ck_refused(STORE_READ,
			   "-wal, which can be read only where the folder may be written");
		_exit(0);
	}
	waitpid(child, &status, 0);
	ck_assert_int_eq(status, 0);
	chmod(folder, 0700);
	store_close(open_store(STORE_READ)); /* its owner reads all */
	ck_rows("SELECT status, test_accuracy FROM run, epoch", "running,0.1");
}

/* Without the journal, pages of an interrupted transaction would count as results. An empty one
 * says that none was interrupted. */
TEST(journal_that_cannot_be_applied_is_named, 2)
{
	int status;
	make_empty_store();
	sql("PRAGMA journal_mode = DELETE");
	folder_text("results.db-journal", _i ? "" : "pages");
	chmod(path, 0444);
	chmod(folder, 0555);
	pid_t child = fork();
	if (child == 0) {
		if (geteuid() == 0)
			ck_assert_int_eq(setuid(65534), 0);
		char *apart AUTOFREE = sentence(
			"%s-journal, which can be read only where the folder may be written", path);
		if (_i == 0) {
			ck_refused(STORE_READ, apart);
			ck_refused(STORE_READ, "copy both to a folder of your own");
		} else {
			store_close(open_store(STORE_READ));
		}
		_exit(0);
	}
	waitpid(child, &status, 0);
	ck_assert_int_eq(status, 0);
	chmod(folder, 0700);
}

/* A link in a folder that may be written leads there. SQLite looks next to the file itself. */
TEST(results_behind_a_link_are_named)
{
	int status;
	struct epoch_row row = epoch_row(0, 0.1);
	char *inner AUTOFREE = in_folder("inner"), *file AUTOFREE = in_folder("inner/r.db"),
		    *apart AUTOFREE = in_folder("inner/r.db-wal"),
		    *own AUTOFREE = sentence("%s-wal", path);
	pid_t child = fork();
	if (child == 0) {
		begun();
		ck_fine(sink.epoch(sink.self, &row, NULL, 0, NULL, NULL));
		raise(SIGKILL);
	}
	waitpid(child, NULL, 0);
	ck_assert(mkdir(inner, 0755) == 0 && rename(path, file) == 0 && rename(own, apart) == 0 &&
		  symlink(file, path) == 0 && chmod(inner, 0555) == 0 && chmod(folder, 0777) == 0);
	child = fork();
	if (child == 0) {
		if (geteuid() == 0)
			ck_assert_int_eq(setuid(65534), 0);
		ck_refused(STORE_READ, "inner/r.db-wal, which can be read only where the folder");
		_exit(0);
	}
	waitpid(child, &status, 0);
	ck_assert_int_eq(status, 0);
	chmod(inner, 0755);
}

/* After a power loss the disk has what was synced. A checkpoint must not be newer than the results:
 * with --save each transaction is synced. */
TEST(results_of_a_saved_run_are_on_the_disk)
{
	static const struct setting save[] = {{"save", "k"}};
	struct config c AUTOCONFIG = {0};
	ck_fine(config_init(&c, save, 1, false));
	struct store *s AUTOCLOSE = open_store(STORE_WRITE);
	begin(&c);
	struct sql q = sql_select(s, "PRAGMA synchronous", "");
	ck_assert(sql_next(&q));
	ck_assert_int_eq(sql_int(&q, 0), 2); /* FULL */
	ck_fine(sql_done(&q));
	ck_fine(sink.end(sink.self, "done", NULL, &closing));
}

TEST(newer_schema_is_refused)
{
	make_empty_store();
	sql("PRAGMA user_version = 999");
	ck_refused(STORE_READ, "schema 999");
	ck_refused(STORE_WRITE, "schema 999");
	ck_rows("PRAGMA user_version", "999");
}

/* Every table with its columns and keys, whatever their order. */
static char *schema_shape(void)
{
	return rows_of(
		"SELECT * FROM (SELECT m.name, l.strict, l.wr, t.name, t.type, t.\"notnull\", "
		"ifnull(t.dflt_value, ''), t.pk FROM sqlite_master AS m "
		"JOIN pragma_table_list AS l ON l.name = m.name "
		"JOIN pragma_table_info(m.name) AS t WHERE m.type = 'table' ORDER BY 1, 4) "
		"UNION ALL SELECT * FROM (SELECT m.name, f.id, f.\"table\", f.\"from\", f.\"to\", "
		"f.on_delete, '', '' FROM sqlite_master AS m "
		"JOIN pragma_foreign_key_list(m.name) AS f WHERE m.type = 'table' ORDER BY 1, 4) "
		"UNION ALL SELECT * FROM (SELECT type, name, '', '', '', '', '', '' "
		"FROM sqlite_master WHERE type <> 'table' ORDER BY 1, 2)");
}

/* The pattern of a migration's test: a file of this version, taken back to the one before. */
TEST(version_16_migrates)
{
	make_empty_store();
	char *fresh AUTOFREE = schema_shape();
	for (int mode = STORE_READ; mode <= STORE_WRITE; mode++) {
		store_close(begun());
		drop_views_and_triggers();
		sql("DROP TABLE source; ALTER TABLE epoch DROP COLUMN share;"
		    "ALTER TABLE epoch DROP COLUMN peak_bytes;"
		    "ALTER TABLE rank_epoch DROP COLUMN peak_bytes;"
		    "UPDATE run SET status = 'done', split = 'dirichlet:0.5', config_hash = 'h';"
		    "INSERT INTO baseline (name, cell, seed, made, config, options, config_hash) "
		    "VALUES ('b', 'c', 1, '', '', '{\"split\":\"dirichlet:0.5\",\"lr\":\"1\"}', "
		    "'');"
		    "CREATE VIEW speedup AS SELECT 1 FROM epoch;"
		    "PRAGMA user_version = 16");
		store_close(open_store((enum store_mode)mode));
		ck_rows("PRAGMA user_version", "21");
		char *migrated AUTOFREE = schema_shape();
		ck_assert_str_eq(migrated, fresh);
		ck_rows("SELECT config_hash, split FROM run", "h,dirichlet_classes:0.5");
		ck_rows("SELECT options ->> 'split', options ->> 'lr' FROM baseline",
			"dirichlet_classes:0.5,1");
		remove(path);
	}
}

/* --codec.pull was true or false. */
TEST(version_20_migrates)
{
	make_empty_store();
	char *fresh AUTOFREE = schema_shape();
	for (int mode = STORE_READ; mode <= STORE_WRITE; mode++) {
		store_close(begun());
		drop_views_and_triggers();
		sql("UPDATE run SET status = 'done'; ALTER TABLE run DROP COLUMN codec_pull;"
		    "ALTER TABLE run ADD COLUMN codec_pull INTEGER NOT NULL DEFAULT 0 "
		    "CHECK (codec_pull IN (0, 1));"
		    "UPDATE run SET codec_pull = 1; PRAGMA user_version = 20");
		store_close(open_store((enum store_mode)mode));
		ck_rows("PRAGMA user_version", "21");
		char *migrated AUTOFREE = schema_shape();
		ck_assert_str_eq(migrated, fresh);
		ck_rows("SELECT run.codec_pull, config_key ->> 'codec_pull' FROM run "
			"JOIN run_summary USING (id)",
			"true,true");
		remove(path);
	}
}

TEST(schema_before_the_first_release_is_refused)
{
	store_close(begun());
	sql("PRAGMA user_version = 15");
	ck_refused(STORE_READ, "before version 0.3.0");
	ck_refused(STORE_WRITE, "before version 0.3.0");
	ck_rows("PRAGMA user_version", "15");
}

/* ---- Heartbeats ------------------------------------------------------------------ */

static void set_heartbeat(const char *id, const char *host, const char *ago)
{
	char *text AUTOFREE =
		sentence("UPDATE run SET host = '%s', pid = 1, status = 'running', heartbeat = "
			 "strftime('%%Y-%%m-%%dT%%H:%%M:%%SZ', 'now', '-%s') WHERE id = %s",
			 host, ago, id);
	sql(text);
}

/* A run on another machine counts as alive while its heartbeat is recent. */
TEST(remote_runs_without_heartbeat_are_marked_failed)
{
	struct store *s = open_store(STORE_WRITE);
	for (int seed = 1; seed <= 3; seed++) {
		char number[12];
		snprintf(number, sizeof number, "%d", seed);
		struct config c AUTOCONFIG = config_of(number, "");
		ck_fine(store_pend(s, &c, &(int64_t){0}, 0, 0));
	}
	store_close(s);
	set_heartbeat("1", "elsewhere", "600 seconds");
	set_heartbeat("2", "elsewhere", "60 seconds");
	sql("UPDATE run SET host = 'elsewhere', pid = 1, status = 'running' WHERE id = 3");
	store_close(open_store(STORE_WRITE));
	ck_rows("SELECT id, status, reason LIKE 'interrupted: its process 1 on elsewhere was last "
		"seen 2%', finished = heartbeat FROM run ORDER BY id",
		"1,failed,1,1;2,running,null,null;3,running,null,null");
}

/* The claim of another host counts for 600 s; that of this host while its process lives. */
TEST(claim_of_another_host_expires)
{
	enum { NOBODY = 0x3ffffff }; /* more than the system's process ids */
	const struct {
		const char *host;
		int pid;
		const char *ago;
		bool mine;
	} row[] = {{"elsewhere", 1, "500 seconds", false},
		   {"elsewhere", NOBODY, "700 seconds", true},
		   {machine()->host, (int)getppid(), "0 seconds", false},
		   {machine()->host, NOBODY, "0 seconds", true}};
	struct store *s AUTOCLOSE = open_store(STORE_WRITE);
	struct config c AUTOCONFIG = config_of("1", "");
	int64_t id = 0;
	ck_fine(store_pend(s, &c, &id, 0, 0));
	for (size_t i = 0; i < COUNT(row); i++) {
		bool mine = !row[i].mine;
		char *owner AUTOFREE = NULL;
		char *set AUTOFREE = sentence(
			"UPDATE run SET status = 'pending', host = '%s', pid = %d, process = NULL, "
			"started = strftime('%%Y-%%m-%%dT%%H:%%M:%%SZ', 'now', '-%s')",
			row[i].host, row[i].pid, row[i].ago);
		sql(set);
		ck_fine(store_claim(s, id, &mine, &owner));
		ck_assert_msg(mine == row[i].mine, "row %zu", i);
		char *who AUTOFREE = sentence("process %d on %s", row[i].pid, row[i].host);
		ck_assert(mine == !owner);
		ck_assert_str_eq(mine ? who : owner, who);
	}
}

/* A run of the same configuration leaves the row to the sweep that has claimed it. */
TEST(claimed_row_is_begun_only_by_its_owner, 2)
{
	struct store *s AUTOCLOSE = open_store(STORE_WRITE);
	struct config c AUTOCONFIG = config_of("1", "");
	int64_t id = 0;
	bool mine = false;
	char *owner = NULL, *other AUTOFREE = process_name(getppid());
	ck_fine(store_pend(s, &c, &id, 0, 0));
	ck_fine(store_claim(s, id, &mine, &owner));
	ck_assert(mine && other);
	char *set AUTOFREE = sentence("UPDATE run SET pid = %d, process = '%s'", (int)getppid(),
				      other),
		  *claim AUTOFREE = sentence("%d %s", (int)getppid(), other);
	sql(set);
	if (_i)
		setenv("MVBENCH_CLAIM", claim, 1); /* by the sweep that starts this process */
	begin(&c);
	unsetenv("MVBENCH_CLAIM");
	ck_rows("SELECT id, status FROM run ORDER BY id", _i ? "1,running" : "1,pending;2,running");
}

/* Another PID namespace, a time namespace, in which starts are shifted, or an earlier start of the
 * machine: only the heartbeat says something. */
#define WITHOUT_LAST(text) "rtrim(rtrim(" text ", '0123456789'))"
TEST(run_of_another_pid_space_is_not_taken_for_dead, 3)
{
	static const char *const other[] = {"'0' || substr(process, 2)",
					    WITHOUT_LAST("process") " || '1 7'",
					    WITHOUT_LAST(WITHOUT_LAST("process")) " || '1 7 7'"};
	store_close(begun());
	char *text AUTOFREE = sentence("UPDATE run SET pid = 1, process = %s, started = "
				       "'2001-01-01T00:00:00Z', heartbeat = "
				       "strftime('%%Y-%%m-%%dT%%H:%%M:%%SZ', 'now')",
				       other[_i]);
	sql(text);
	store_close(open_store(STORE_WRITE));
	ck_rows("SELECT status FROM run", "running");
	sql("UPDATE run SET heartbeat = '2001-01-01T00:00:00Z'");
	store_close(open_store(STORE_WRITE));
	ck_rows("SELECT status, reason LIKE '%was last seen 2001%' FROM run", "failed,1");
}

/* A process whose run another one has taken over writes nothing more. */
TEST(run_that_another_process_continues_is_left_alone)
{
	struct epoch_row row = epoch_row(0, 0.1);
	struct store *s AUTOCLOSE = begun();
	ck_fine(sink.epoch(sink.self, &row, NULL, 0, NULL, NULL));
	sql("UPDATE run SET pid = pid + 1");
	row.epoch = 1;
	char *wrong AUTOFREE = sink.epoch(sink.self, &row, NULL, 0, NULL, NULL);
	ck_assert_msg(wrong && strstr(wrong, "another process continues it"), "%s", wrong);
	char *end AUTOFREE = sink.end(sink.self, "done", NULL, &closing);
	ck_assert_ptr_nonnull(end);
	ck_rows("SELECT status, (SELECT count(*) FROM epoch) FROM run", "running,1");
}

/* Results in a file that is no longer at its path would be lost with exit status 0. The moved file
 * keeps all that was committed, and what is at its old name then stays as it is. */
TEST(moved_database_ends_the_run, 6)
{
	enum { MOVED = 1, REPLACED = 2, SEES_EARLIER = 3 };
	const int how = _i % 3;
	char *moved AUTOFREE = in_folder("moved.db"), *other AUTOFREE = in_folder("other.db"),
		    *apart AUTOFREE = sentence("%s-wal", path), before[SHA256_ROOM],
		    after[SHA256_ROOM];
	struct epoch_row row = epoch_row(0, 0.1);
	struct sha256 sum;
	struct stat st;
	make_empty_store();
	sql("CREATE TABLE mark AS SELECT 77 AS id");
	ck_fine(database_copy(path, other));
	sha256_begin(&sum);
	ck_assert(sha256_file(&sum, other));
	sha256_end(&sum, before);
	sql("DROP TABLE mark");
	struct store *s = begun();
	for (; row.epoch < 5; row.epoch++)
		ck_fine(sink.epoch(sink.self, &row, NULL, 0, NULL, NULL));
	if (how == MOVED)
		ck_assert_int_eq(rename(path, moved), 0);
	else if (how == REPLACED)
		ck_assert(rename(path, moved) == 0 && rename(other, path) == 0);
	else
		ck_assert_int_eq(unlink(path), 0);
	if (_i >= SEES_EARLIER) { /* the run is ended in an epoch, and not as it closes the file */
		ck_sentence(sink.epoch(sink.self, &row, NULL, 0, NULL, NULL), "moved or removed");
		ck_sentence(sink.end(sink.self, "done", NULL, &closing), "moved or removed");
	}
	heartbeat_stop(s);
	/* another process sees that, too */
	char seen[200],
		*look AUTOFREE = sentence("sqlite3 %s 'SELECT count(*) FROM epoch' 2>&1", moved);
	if (_i >= SEES_EARLIER && how)
		ck_assert_msg(command_output(look, seen, sizeof seen) == 0 && atoi(seen) == 5, "%s",
			      seen);
	store_close(s);
	ck_assert(stat(apart, &st) != 0 || st.st_size == 0);
	if (how)
		expect_in("moved.db", "SELECT status, (SELECT count(*) FROM epoch) FROM run",
			  "running,5");
	ck_assert(access(path, F_OK) == 0 ? how == REPLACED : how != REPLACED);
	if (how != REPLACED)
		return;
	sha256_begin(&sum);
	ck_assert(sha256_file(&sum, path));
	sha256_end(&sum, after);
	ck_assert_str_eq(before, after);
	ck_rows("SELECT id, (SELECT count(*) FROM run) FROM mark", "77,0");
}

/* SQLite would delete what is left of the moved database before it makes one, also where a link
 * leads, and when it reads an empty file. */
TEST(log_of_a_moved_database_is_not_deleted, 3)
{
	enum { LINK = 1, EMPTY = 2 };
	static const char says[] = "-wal has results of a database that was";
	char *moved AUTOFREE = in_folder("moved.db"), *file AUTOFREE = in_folder("file.db"),
		    *own AUTOFREE = sentence("%s-wal", path),
		    *apart AUTOFREE = sentence("%s-wal", _i == LINK ? file : path),
		    *with AUTOFREE = sentence("%s-wal", moved);
	struct epoch_row row = epoch_row(0, 0.1);
	struct store *s;
	pid_t child = fork();
	if (child == 0) {
		begun();
		ck_fine(sink.epoch(sink.self, &row, NULL, 0, NULL, NULL));
		raise(SIGKILL);
	}
	waitpid(child, NULL, 0);
	ck_assert_int_eq(rename(path, moved), 0);
	if (_i == LINK)
		ck_assert(rename(own, apart) == 0 && symlink("file.db", path) == 0);
	if (_i == EMPTY) {
		make_file("");
		ck_sentence(store_open(&s, path, STORE_READ), says);
	}
	ck_sentence(store_open(&s, path, STORE_WRITE), says);
	ck_sentence(store_open(&s, path, STORE_CHANGE), says);
	ck_assert((access(path, F_OK) == 0) == (_i == EMPTY));
	ck_assert_int_eq(rename(apart, with), 0);
	expect_in("moved.db", "SELECT count(*) FROM epoch", "1");
	if (_i == EMPTY)
		return;
	ck_sentence(store_open(&s, path, STORE_CHANGE), "was moved or removed");
	ck_assert_int_ne(access(path, F_OK), 0);
}

static bool made_beat(struct store *s)
{
	int64_t n = 0;
	ck_fine(sql_number(s, &n, "SELECT heartbeat > '2020' FROM run", ""));
	return n;
}

/* Its connection syncs nothing. It would copy the log into the file, and let the log be
 * overwritten, before the copy is on the disk. */
TEST(heartbeat_does_not_copy_the_log)
{
	struct stat before, after;
	struct store *s AUTOCLOSE = begun();
	heartbeat_stop(s);
	ck_fine(sql_script(s, "PRAGMA wal_autocheckpoint = 0; CREATE TABLE large AS WITH RECURSIVE "
			      "n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n LIMIT 3000) SELECT "
			      "randomblob(4000) FROM n; UPDATE run SET heartbeat = '2000'"));
	ck_assert_int_eq(stat(path, &before), 0);
	heartbeat_start(s, 1);
	for (int i = 0; i < 100 && !made_beat(s); i++)
		clock_delay(100000000);
	ck_assert(made_beat(s));
	ck_assert_int_eq(stat(path, &after), 0);
	ck_assert_int_eq(before.st_size, after.st_size);
}

/* The file at the path may be another one by now, which perhaps has a copy of the run. */
TEST(heartbeat_is_written_into_no_other_file)
{
	char *moved AUTOFREE = in_folder("moved.db"), *other AUTOFREE = in_folder("other.db");
	struct store *s AUTOCLOSE = begun();
	heartbeat_stop(s);
	sql("UPDATE run SET heartbeat = '2000'");
	ck_fine(database_copy(path, other));
	heartbeat_start(s, 1);
	ck_assert(rename(path, moved) == 0 && rename(other, path) == 0);
	clock_delay(2500000000);
	heartbeat_stop(s);
	store_part(s);
	ck_rows("SELECT heartbeat, status FROM run", "2000,running");
}

TEST(running_run_updates_heartbeat)
{
	struct store *s AUTOCLOSE = begun();
	ck_rows("SELECT heartbeat = started FROM run", "1");
	heartbeat_stop(s);
	sql("UPDATE run SET heartbeat = '2000'");
	heartbeat_start(s, 1);
	for (nsec since = clock_now(); clock_now() - since < 2500000000;)
		clock_delay(100000000);
	ck_rows("SELECT heartbeat > '2020' FROM run", "1");
	ck_fine(sink.end(sink.self, "done", NULL, &closing));
	sql("UPDATE run SET heartbeat = '2000'");
	clock_delay(1500000000);
	ck_rows("SELECT heartbeat FROM run", "2000");
}

TEST(locked_database_is_reported)
{
	sqlite3 *other = made_open("results.db");
	made_sql(other,
		 "PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE; PRAGMA user_version = 1");
	struct store *s;
	ck_sentence(store_open(&s, path, STORE_WRITE), "locked by another process");
	sqlite3_close(other);
	make_empty_store();
}

/* Between two calls of this process another one makes the database that it is about to make. */
static sqlite3 *maker;
static int make_first(const char *name, int flags, int mode)
{
	static bool once;
	int fd = open(name, flags, mode);
	if (fd >= 0 && !once && (flags & O_CREAT)) {
		once = true;
		maker = made_again("results.db"); /* has no byte before the commit */
		made_sql(maker, "PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE; CREATE TABLE t "
				"(x)");
	}
	return fd;
}

TEST(database_that_another_process_makes_stays)
{
	sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);
	struct store *s;
	struct stat st;
	vfs->xSetSystemCall(vfs, "open", (sqlite3_syscall_ptr)make_first);
	char *wrong AUTOFREE = store_open(&s, path, STORE_WRITE);
	vfs->xSetSystemCall(vfs, "open", NULL);
	ck_assert_msg(maker && wrong && strstr(wrong, "locked by another process"), "%s", wrong);
	ck_assert(stat(path, &st) == 0 && st.st_size == 0);
	made_sql(maker, "COMMIT");
	sqlite3_close(maker);
	ck_assert(stat(path, &st) == 0 && st.st_size > 0);
	ck_rows("SELECT count(*) FROM t", "0");
}

/* Replaces system calls of SQLite by one that reports a full disk. */
static ssize_t full_pwrite(int fd, const void *p, size_t n, off_t at)
{
	(void)fd, (void)p, (void)n, (void)at;
	errno = ENOSPC;
	return -1;
}

static void fill_disk(bool full)
{
	sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);
	static const char *const calls[] = {"pwrite", "pwrite64"};
	for (int i = 0; i < 2; i++) {
		if (full && vfs->xGetSystemCall(vfs, calls[i]))
			vfs->xSetSystemCall(vfs, calls[i], (sqlite3_syscall_ptr)full_pwrite);
		else if (!full)
			vfs->xSetSystemCall(vfs, calls[i], NULL);
	}
}

TEST(full_disk_ends_the_run)
{
	struct store *s = begun();
	struct epoch_row row = epoch_row(0, 0.1);
	ck_fine(sink.epoch(sink.self, &row, NULL, 0, NULL, NULL));
	fill_disk(true);
	row.epoch = 1;
	ck_sentence(sink.epoch(sink.self, &row, NULL, 0, NULL, NULL), "the disk is full");
	ck_sentence(sink.end(sink.self, "failed", "the disk is full", &closing),
		    "the disk is full");
	ck_rows("SELECT status, count(*) FROM run, epoch", "running,1");
	fill_disk(false);
	store_close(s);
	ck_rows("SELECT count(*) FROM epoch", "1");
}

/* ---- What the views compute ---------------------------------------------- */

#define RUN(strategy, workers, x, seed, status) \
	INSERT_RUN(", train_size, params, table_home, transport", \
		   "'" status "', 'h', 'mlp', '" strategy "', " #workers ", " #seed ", 4, 64, " #x \
		   ", 'mpi', 0.9, 1000, 7, 'shared', 'ipc';")
/* An epoch of 20 pushes: 1/2 of the seconds computes, 1/4 communicates, 1/8 waits. */
#define EPOCH(run, epoch, seconds, accuracy) \
	"INSERT INTO epoch VALUES (" #run ", " #epoch ", " #seconds ", " #seconds \
	" / 2.0, " #seconds " / 4.0, " #seconds \
	" / 8.0, 2.0, NULL, 1.0, NULL, NULL, NULL, 1 - " #accuracy ", " #accuracy \
	", 100 * " #epoch ", " #epoch ", 10 * " #epoch \
	", 20, 0, NULL, NULL, NULL, NULL, NULL, NULL, 1, 9 * " #epoch ");"

TEST(summaries_are_right)
{
	make_empty_store();
	sql(RUN("asgd", 4, 3, 1, "done") RUN("serial", 1, 1, 1, "running") EPOCH(1, 0, 100, 0.1)
		    EPOCH(1, 1, 8, 0.5) EPOCH(1, 2, 2, 0.95) EPOCH(1, 3, 4, 0.9)
			    EPOCH(1, 4, 6, 0.875));
	/* even: the mean of the middle two of 2 4 6 8; epoch 0 does not count */
	ck_rows("SELECT epoch_seconds, samples_per_second, seconds_total, epochs_done, "
		"test_accuracy, "
		"best_test_accuracy, test_loss, train_loss, running_loss FROM run_summary WHERE "
		"id = 1",
		"5.0,200.0,20.0,4,0.875,0.95,0.125,1.0,2.0");
	ck_rows("SELECT compute_fraction, comm_fraction, wait_fraction, epoch_bytes, "
		"peak_bytes, staleness_mean, "
		"staleness_max, dropped_fraction, config FROM run_summary WHERE id = 1",
		"0.5,0.25,0.125,250.0,36,2.5,40,0.0,asgd 4w X=3");
	/* 1 + 2 + 3 + 4 dropped and 80 counted pushes; epoch 0 does not count */
	sql("UPDATE epoch SET dropped = iif(epoch = 0, 20, epoch)");
	ck_rows("SELECT round(dropped_fraction * 90, 9) FROM run_summary", "10.0;null");
	/* nothing is known yet of a run that has just begun */
	ck_rows("SELECT epoch_seconds, samples_per_second, comm_fraction, test_accuracy, "
		"seconds_total, config FROM run_summary WHERE id = 2",
		"null,null,null,null,null,serial");
	/* odd; NULL seconds do not count */
	sql("DELETE FROM epoch WHERE epoch = 4; UPDATE epoch SET seconds = 3 WHERE epoch = 1");
	ck_rows("SELECT epoch_seconds FROM run_summary WHERE id = 1", "3.0");
	sql("UPDATE epoch SET seconds = NULL WHERE epoch = 1");
	ck_rows("SELECT epoch_seconds FROM run_summary WHERE id = 1", "3.0");
	sql("UPDATE epoch SET seconds = NULL WHERE epoch = 2");
	ck_rows("SELECT epoch_seconds FROM run_summary WHERE id = 1", "4.0");
}

/* The model before training can be better than any after it, as with --init-from. */
TEST(best_accuracy_is_of_trained_models)
{
	make_empty_store();
	sql(RUN("asgd", 4, 3, 1, "done") EPOCH(1, 0, 0, 0.99) EPOCH(1, 1, 8, 0.5)
		    EPOCH(1, 2, 2, 0.25) RUN("asgd", 4, 3, 2, "running") EPOCH(2, 0, 0, 0.99));
	ck_rows("SELECT best_test_accuracy, test_accuracy FROM run_summary", "0.5,0.25;null,0.99");
	/* a run without an epoch is still one of a classification: it has no accuracy */
	sql("UPDATE run SET status = 'diverged' WHERE id = 2; DELETE FROM run WHERE id = 1");
	ck_rows("SELECT best_test_accuracy FROM run_summary", "null");
	ck_rows("SELECT test_accuracy = -9e999, test_loss = 9e999 FROM finished", "1,1");
}

TEST(config_key_contains_every_option_except_seed)
{
	make_empty_store();
	sql(RUN("asgd", 2, 1, 1, "done") RUN("asgd", 2, 1, 2, "done"));
	ck_rows("SELECT count(DISTINCT config_key) FROM run_summary", "1");
	for (const struct option *o = run_options; o->name; o++) {
		if (o->incidental || strcmp(o->name, "seed") == 0)
			continue;
		char column[COLUMN_ROOM];
		option_column(o, column);
		bool text = o->type == OPT_STRING || o->type == OPT_CHOICE;
		char *differ AUTOFREE = sentence("UPDATE run SET %s = ifnull(%s, %s WHERE id = 2",
						 column, column, text ? "'') || 'x'" : "0) + 1");
		char *equal AUTOFREE = sentence(
			"UPDATE run SET %s = (SELECT %s FROM run WHERE id = 1)", column, column);
		char *ask AUTOFREE = sentence(
			"SELECT count(DISTINCT config_key), '%s' FROM run_summary", o->name);
		char *want AUTOFREE = sentence("2,%s", o->name);
		sql(differ);
		ck_rows(ask, want);
		sql(equal);
	}
	ck_rows("SELECT count(DISTINCT config_key) FROM run_summary", "1");
}

TEST(stored_medians_follow_changes)
{
	make_empty_store();
	sql(RUN("serial", 1, 1, 1, "running") EPOCH(1, 1, 1, 0.5) EPOCH(1, 2, 2, 0.5));
	ck_rows("SELECT count(*) FROM run_kept", "0");
	sql("UPDATE run SET status = 'done'");
	ck_rows("SELECT epoch_seconds FROM run_kept", "1.5");
	ck_rows("SELECT epoch_seconds FROM run_summary", "1.5");
	sql(EPOCH(1, 3, 7, 0.5));
	ck_rows("SELECT epoch_seconds FROM run_summary", "2.0");
	sql("UPDATE run SET status = 'done'; UPDATE epoch SET seconds = 9 WHERE epoch = 2");
	ck_rows("SELECT epoch_seconds FROM run_summary", "7.0");
	sql("UPDATE run SET status = 'done'; DELETE FROM epoch WHERE epoch = 3");
	ck_rows("SELECT epoch_seconds FROM run_summary", "5.0");
}

TEST(time_to_accuracy_is_right)
{
	make_empty_store();
	sql(RUN("serial", 1, 1, 1, "done") RUN("serial", 1, 1, 2, "done")
		    RUN("serial", 1, 1, 3, "done") RUN("serial", 1, 1, 4, "done")
			    EPOCH(1, 0, 0, 0.1) EPOCH(1, 1, 8, 0.5) EPOCH(1, 2, 2, 0.9)
				    EPOCH(1, 3, 4, 0.8) EPOCH(1, 4, 4, 0.95) EPOCH(2, 1, 8, 0.89)
					    EPOCH(3, 0, 3, 0.9) EPOCH(4, 1, 1, 1));
	sql("UPDATE run SET target_accuracy = 0 WHERE id = 4");
	ck_rows("SELECT run_id, target, epoch, seconds FROM time_to_accuracy ORDER BY run_id",
		"1,0.9,4,16.6666666666667;2,0.9,null,null;3,0.9,0,0.0");
	/* evaluations within an epoch count, too */
	sql("INSERT INTO evaluation (run_id, step, epochs, seconds, test_accuracy) VALUES "
	    "(1, 9, 3.5, 15, 0.85)");
	ck_rows("SELECT round(seconds, 9) FROM time_to_accuracy WHERE run_id = 1", "16.5");
	/* no time if the last evaluation misses the target */
	sql("UPDATE epoch SET test_accuracy = 0.89 WHERE run_id = 1 AND epoch = 4");
	ck_rows("SELECT epoch, seconds FROM time_to_accuracy WHERE run_id = 1", "null,null");
	/* a loss has to be below its target; an unknown one misses it */
	sql("UPDATE run SET target_accuracy = 0, target_loss = 0.15; "
	    "UPDATE epoch SET test_loss = NULL WHERE run_id = 1 AND epoch = 3; "
	    "DELETE FROM evaluation; UPDATE epoch SET test_loss = 0.1 WHERE run_id = 2");
	ck_rows("SELECT run_id, figure, target, epoch, round(seconds, 9) FROM time_to_target "
		"ORDER BY run_id",
		"1,test_loss,0.15,4,18.0;2,test_loss,0.15,1,8.0;"
		"3,test_loss,0.15,0,0.0;4,test_loss,0.15,1,1.0");
}

/* Makes that many more epochs of run 1, whose target only the last one reaches. Returns the steps
 * in which SQLite then computes the figures of the run. */
static int steps_of_figures(int epochs)
{
	sqlite3 *db;
	sqlite3_stmt *q;
	ck_assert_int_eq(sqlite3_open(path, &db), SQLITE_OK);
	char *more AUTOFREE = sentence(
		"WITH n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < %d) INSERT INTO "
		"epoch (run_id, epoch, seconds, test_accuracy) SELECT 1, i + (SELECT count(*) FROM "
		"epoch), 1, iif(i = %d, 0.95, 0.5) FROM n",
		epochs, epochs);
	made_sql(db, more);
	ck_assert_int_eq(sqlite3_prepare_v2(db, "SELECT * FROM run_computed", -1, &q, NULL),
			 SQLITE_OK);
	ck_assert_int_eq(sqlite3_step(q), SQLITE_ROW);
	int steps = sqlite3_stmt_status(q, SQLITE_STMTSTATUS_VM_STEP, 0);
	sqlite3_finalize(q);
	sqlite3_close(db);
	return steps;
}

TEST(time_of_a_runs_figures_is_linear_in_its_epochs)
{
	make_empty_store();
	sql(RUN("serial", 1, 1, 1, "done"));
	int few = steps_of_figures(100), many = steps_of_figures(900);
	ck_assert_msg(many < 15 * few, "%d steps for 100 epochs, %d for 1000", few, many);
}

static const char four_configurations[] = RUN("serial", 1, 1, 1, "done")
	RUN("serial", 1, 1, 2, "done") RUN("asgd", 1, 1, 1, "done") RUN("asgd", 4, 1, 1, "done")
		RUN("asgd", 4, 1, 2, "done") RUN("asgd", 4, 1, 3, "done")
			RUN("asgd", 4, 1, 4, "failed") RUN("asgd", 4, 3, 1, "diverged")
				EPOCH(1, 1, 10, 0.5) EPOCH(2, 1, 14, 0.75) EPOCH(3, 1, 99, 0.5)
					EPOCH(4, 1, 3, 0.5) EPOCH(5, 1, 4, 0.25)
						EPOCH(6, 1, 8, 0.75) EPOCH(7, 1, 1, 0.5)
							EPOCH(8, 1, 5, 0.1);

TEST(speedups_are_right)
{
	make_empty_store();
	sql(four_configurations);
	ck_rows("SELECT config, n, epoch_seconds, base_n, base_epoch_seconds, speedup FROM speedup "
		"ORDER BY config",
		"asgd,1,99.0,2,12.0,0.121212121212121;asgd 4w,3,4.0,2,12.0,3.0;"
		"serial,2,12.0,2,12.0,1.0");
	/* every repetition of serial counts; another strategy on one worker is not the base */
	sql("UPDATE run SET seed = 1 WHERE strategy = 'serial'");
	ck_rows("SELECT config, speedup FROM speedup WHERE workers = 4", "asgd 4w,3.0");
	/* a slowed serial run is not the base */
	sql("UPDATE run SET speed = '0:0.25' WHERE id = 2");
	ck_rows("SELECT base_n, base_epoch_seconds FROM speedup WHERE workers = 4", "1,10.0");
	sql("UPDATE run SET speed = ''");
	sql("UPDATE run SET batch = 32 WHERE strategy = 'serial'");
	ck_rows("SELECT config, speedup FROM speedup ORDER BY config",
		"asgd,null;asgd 4w,null;serial,1.0");
	sql("DELETE FROM run WHERE strategy = 'serial'");
	ck_rows("SELECT config, speedup FROM speedup ORDER BY config", "asgd,null;asgd 4w,null");
	ck_rows("SELECT count(DISTINCT config_key), count(*) FROM run_summary "
		"WHERE config = 'asgd 4w'",
		"1,4");
	/* of a simulated seed the newest run counts, as in tables */
	sql("UPDATE run SET platform = 'sim', seed = 1 WHERE id IN (4, 5, 6)");
	ck_rows("SELECT epoch_seconds FROM speedup WHERE workers = 4", "8.0");
}

/* ---- How queries are printed --------------------------------------------- */

/* What query_print writes; wrong: its message. */
static char *printed(enum format format, const char *query, const char *param, char **wrong)
{
	struct store *s AUTOCLOSE = open_store(STORE_READ);
	struct text t;
	FILE *f = text_open(&t);
	int64_t rows = -1;
	*wrong = query_print(s, f, format, query, &param, param ? 1 : 0, &rows);
	return text_close(&t);
}

static void ck_printed(enum format format, const char *query, const char *param, const char *want)
{
	char *wrong, *got AUTOFREE = printed(format, query, param, &wrong);
	ck_fine(wrong);
	ck_assert_str_eq(got, want);
}

static const char awkward[] =
	"SELECT 1 AS n, 0.1 AS x, ?1 AS \"a|\"\"b\", NULL AS none, '7.50' AS rounded "
	"UNION ALL SELECT 23456789012, 1e300 * 1e300, 'é', NULL, '10.25'";
static const char awkward_text[] = "it's \"x\", a|b\nc\\ \x01\xff";

TEST(query_formats_are_exact)
{
	make_empty_store();
	ck_printed(FORMAT_CSV, awkward, awkward_text,
		   "n,x,\"a|\"\"b\",none,rounded\r\n"
		   "1,0.1,\"it's \"\"x\"\", a|b\nc\\ \x01\xef\xbf\xbd\",,7.50\r\n"
		   "23456789012,,é,,10.25\r\n");
	ck_printed(FORMAT_JSON, awkward, awkward_text,
		   "{\"n\": 1, \"x\": 0.1, \"a|\\\"b\": \"it's \\\"x\\\", a|b\\u000ac\\\\ "
		   "\\u0001\xef\xbf\xbd\", \"none\": null, \"rounded\": \"7.50\"}\n"
		   "{\"n\": 23456789012, \"x\": null, \"a|\\\"b\": \"é\", \"none\": null, "
		   "\"rounded\": \"10.25\"}\n");
	ck_printed(FORMAT_TEXT, awkward, "ü|漢\n",
		   "          n    x  a|\"b    none  rounded\n"
		   "-----------  ---  ------  ----  -------\n"
		   "          1  0.1  ü|漢\\n     -     7.50\n"
		   "23456789012  inf  é          -    10.25\n");
	ck_printed(FORMAT_MARKDOWN, awkward, "ü|漢",
		   "|           n |   x | a\\|\"b | none | rounded |\n"
		   "| ----------: | --: | ----- | ---: | ------: |\n"
		   "|           1 | 0.1 | ü\\|漢 |    - |    7.50 |\n"
		   "| 23456789012 | inf | é     |    - |   10.25 |\n");
	ck_printed(FORMAT_TEXT, "SELECT 1 AS a WHERE 0", NULL, "a\n-\n");
	ck_printed(FORMAT_CSV, "SELECT 1 AS a WHERE 0", NULL, "a\r\n");
	ck_printed(FORMAT_JSON, "SELECT 1 AS a WHERE 0", NULL, "");
	ck_printed(FORMAT_JSON, "SELECT 0.1 + 0.2 AS x, 1e21 AS y", NULL,
		   "{\"x\": 0.30000000000000004, \"y\": 1e+21}\n");
}

TEST(format_names_are_found)
{
	ck_assert_int_eq(format_of("text"), FORMAT_TEXT);
	ck_assert_int_eq(format_of("markdown"), FORMAT_MARKDOWN);
	ck_assert_int_eq(format_of("csv"), FORMAT_CSV);
	ck_assert_int_eq(format_of("json"), FORMAT_JSON);
}

TEST(queries_other_than_select_are_refused)
{
	static const char *const bad[][2] = {
		{"DELETE FROM run", "only a SELECT"},
		{"DELETE FROM run RETURNING id", "only a SELECT"},
		{"SELECT 1; DELETE FROM run", "one statement"},
		{"SELECT nought", "no such column: nought"},
		{"", "one statement"},
	};
	make_empty_store();
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		char *wrong;
		free(printed(FORMAT_TEXT, bad[i][0], NULL, &wrong));
		ck_sentence(wrong, bad[i][1]);
	}
}

TEST(run_is_one_json_object)
{
	struct text t;
	make_empty_store();
	sql(four_configurations);
	struct store *s AUTOCLOSE = open_store(STORE_READ);
	FILE *f = text_open(&t);
	ck_fine(query_run_json(s, f, 5));
	ck_sentence(query_run_json(s, f, 99), "no run 99");
	char *text AUTOFREE = text_close(&t);
	ck_assert_str_eq(
		text,
		"{\"id\": 5, \"status\": \"done\", \"strategy\": \"asgd\", "
		"\"workload\": \"mlp\", \"workers\": 4, \"params\": 7, "
		"\"test_accuracy\": 0.25, \"best_test_accuracy\": 0.25, "
		"\"test_loss\": 0.75, \"epoch_seconds\": 4, "
		"\"samples_per_second\": 250, \"cores_share\": null, \"comm_fraction\": 0.25, "
		"\"staleness_mean\": 1, \"staleness_max\": 10, "
		"\"dropped_fraction\": 0}\n");
}

/* ---- mvbench table ------------------------------------------------------- */

/* Runs the command; the files out and err get what it wrote. */
static int table(const char *const *words)
{
	const char *word[16];
	char *db AUTOFREE = sentence("--db=%s", path);
	size_t n = 0;
	for (word[n++] = db; *words; words++)
		word[n++] = *words;
	word[n] = NULL;
	return start_command(&command_table, word);
}

static void ck_table(int want_status, const char *want_out, const char *want_err,
		     const char *const *words)
{
	int status = table(words);
	char *out AUTOFREE = folder_read("out"), *err AUTOFREE = folder_read("err");
	ck_assert_msg(status == want_status, "status %d: %s", status, err);
	if (want_out)
		ck_assert_str_eq(out, want_out);
	if (want_err)
		ck_assert_msg(strstr(err, want_err), "\"%s\" lacks \"%s\"", err, want_err);
	else
		ck_assert_str_eq(err, "");
}

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

TEST(table_lists_configurations)
{
	make_empty_store();
	sql(four_configurations);
	ck_table(0,
		 "workload  configuration  n  accuracy %                  accuracy versus  loss    "
		 "            epoch s  samples/s  speedup  to target s      comm %  wait %  "
		 "staleness  not done\n"
		 "--------  -------------  -  --------------------------  ---------------  "
		 "--------  -----------------  ---------  -------  ---------------  ------  "
		 "------  ---------  ----------\n"
		 "mlp       serial         2  62.50 (50.00..75.00, 50 %)  control          0.375   "
		 "  12 (10..14, 50 %)         83     1.00  not reached 2/2      25      13  "
		 "1.00 (10)\n"
		 "mlp       asgd 4w X=3    0  diverged                    undecided        "
		 "diverged                  -          -        -  not reached 1/1       -       "
		 "-          -  1 diverged\n" MARKS("the control (allreduce; without one, serial)"),
		 NULL, WORDS("--where=strategy = 'serial' OR sync_every = 3"));
	/* failed runs only add to `failed`; diverged runs count as the worst */
	ck_table(0,
		 "workload,configuration,strategy,workers,servers,sync_every,n,seeds,samples,"
		 "test_accuracy,test_accuracy_low,test_accuracy_high,test_accuracy_coverage,"
		 "test_accuracy_min,test_accuracy_max,test_accuracy_mark,test_accuracy_versus,"
		 "test_accuracy_pairs,test_accuracy_difference,test_accuracy_difference_low,"
		 "test_accuracy_difference_high,test_accuracy_margin,test_accuracy_p_better,"
		 "test_accuracy_p_worse,test_accuracy_p_equal,test_accuracy_wanted,"
		 "test_accuracy_wanted_low,test_accuracy_wanted_high,test_loss,"
		 "test_loss_low,test_loss_high,test_loss_coverage,test_loss_mark,"
		 "test_loss_versus,test_loss_pairs,test_loss_difference,"
		 "test_loss_difference_low,test_loss_difference_high,test_loss_margin,"
		 "test_loss_p_better,test_loss_p_worse,test_loss_p_equal,test_loss_wanted,"
		 "test_loss_wanted_low,test_loss_wanted_high,"
		 "epoch_seconds,epoch_seconds_low,epoch_seconds_high,epoch_seconds_coverage,"
		 "epoch_seconds_mark,epoch_seconds_versus,epoch_seconds_pairs,"
		 "epoch_seconds_difference,epoch_seconds_difference_low,"
		 "epoch_seconds_difference_high,epoch_seconds_margin,epoch_seconds_p_better,"
		 "epoch_seconds_p_worse,epoch_seconds_p_equal,epoch_seconds_wanted,"
		 "epoch_seconds_wanted_low,epoch_seconds_wanted_high,"
		 "samples_per_second,speedup,target_accuracy,target_loss,time_to_accuracy,"
		 "time_to_accuracy_low,time_to_accuracy_high,time_to_accuracy_coverage,reached,"
		 "missed,comm_fraction,wait_fraction,utilisation,staleness_mean,staleness_max,"
		 "dropped_fraction,peak_bytes,reported,cores_share,busy,failed,refused,diverged,"
		 "unfinished\r\n"
		 "mlp,asgd 4w,asgd,4,0,1,3,3,3,0.5,0.25,0.75,0.75,0.25,0.75,,,,,,,,,,,,,,0.5,0.25,"
		 "0.75,0.75,,,,,,,,,,,,,,4,3,8,0.75,,,,,,,,,,,,,,250,3,0.9,,,,,0.75,0,3,0.25,0.125,"
		 "0.5,1,10,0,9,,,0,1,0,0,0\r\n"
		 "mlp,asgd 4w X=3,asgd,4,0,3,0,0,1,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,"
		 ",,,,,,,,,,0.9,,,,,,0,1,,,,,,,,,,,0,0,1,0\r\n",
		 NULL, WORDS("--where", "workers = 4 -- and a comment", "--format=csv"));
	/* a share that people see only if they ask for it */
	ck_assert_int_eq(table(WORDS("--columns=configuration,utilisation")), 0);
	expect_said("out", "utilisation", true);
	expect_said("out", "50 %", true);
}

/* The longest line, in characters. */
static size_t widest_line(const char *text)
{
	size_t most = 0, n = 0;
	for (; *text; text++) {
		n = *text == '\n' ? 0 : n + ((*text & 0xc0) != 0x80);
		most = n > most ? n : most;
	}
	return most;
}

static int occurrences(const char *text, const char *what)
{
	int n = 0;
	for (; (text = strstr(text, what)); text += strlen(what))
		n++;
	return n;
}

static void ck_in(const char *text, const char *what, bool there)
{
	ck_assert_msg((strstr(text, what) != NULL) == there, "\"%s\" is %s in:\n%s", what,
		      there ? "not" : "", text);
}

TEST(table_fits_the_terminal)
{
	static const char *const head[] = {"accuracy %", "epoch s", "time versus",
					   "speedup",    "wait %",  "not done"};
	make_empty_store();
	sql(four_configurations);
	setenv("COLUMNS", "72", 1);
	ck_assert_int_eq(table(WORDS("--top=0")), 0);
	char *out AUTOFREE = folder_read("out");
	ck_assert_msg(strstr(out, "\nThe table is wider"), "%s", out);
	ck_assert_msg(widest_line(out) <= 72, "%s", out);
	for (size_t i = 0; i < sizeof head / sizeof *head; i++)
		ck_assert_msg(occurrences(out, head[i]) == 1, "%s:\n%s", head[i], out);
	/* each part names its rows */
	ck_assert_msg(occurrences(out, "\nasgd 4w X=3 ") == occurrences(out, "\n\nconfiguration"),
		      "%s", out);
	/* a file has whole lines */
	char *file AUTOFREE = sentence("--out=%s/whole", folder);
	ck_assert_int_eq(table(WORDS(file)), 0);
	char *whole AUTOFREE = folder_read("whole");
	ck_assert_msg(widest_line(strtok(whole, "\n")) > 100, "%s", whole);
}

TEST(wide_table_begins_with_the_important_columns)
{
	make_empty_store();
	sql(four_configurations);
	setenv("COLUMNS", "80", 1);
	ck_assert_int_eq(table(WORDS("--top=0", "--where=id > 0")), 0);
	char *out AUTOFREE = folder_read("out"),
		  *joined AUTOFREE = text_replaced(out, " \\\n    ", " "),
		  *command AUTOFREE = sentence("\nmvbench table --db=%s --top=0 --where='id > 0' | "
					       "less -S\n",
					       path);
	ck_assert_msg(strstr(joined, command), "no %s in\n%s", command, joined);
	*strstr(out, "\n\n") = '\0'; /* the first part */
	ck_assert_msg(strstr(out, " n ") && strstr(out, "accuracy %") && strstr(out, "epoch s"),
		      "%s", out);
}

/* A shell joins the lines of the command. */
TEST(long_values_of_show_fit_the_terminal)
{
	make_empty_store();
	sql(four_configurations);
	sql("UPDATE run SET cpu = replace(hex(zeroblob(20)), '00', 'word ') || 'end' WHERE "
	    "id = 1");
	setenv("COLUMNS", "60", 1);
	char *file AUTOFREE = sentence("--db=%s", path);
	ck_assert_int_eq(start_command(&command_show, WORDS("1", file)), 0);
	char *out AUTOFREE = folder_read("out"), *facts = strstr(out, "\n\n"),
		  *second = strstr(facts, " end\n");
	ck_assert_msg(second && widest_line(out) <= 60, "%s", out);
	ck_in(out, "mvbench run --workload=mlp", true);
	ck_in(out, " \\\n    --", true);
	ck_assert_int_eq(occurrences(facts, " word"), 20);
	/* below the first words, not below the names */
	while (second > facts && second[-1] != '\n')
		second--;
	ck_assert_msg(strncmp(second, "        ", 8) == 0, "%s", out);
}

TEST(table_is_latex)
{
	make_empty_store();
	sql(four_configurations);
	sql("UPDATE run SET label = 'a_b & 5 % \\x' WHERE workers = 4");
	ck_assert_int_eq(table(WORDS("--format=latex", "--columns=configuration,n,epoch_seconds",
				     "--where=sync_every = 1 AND workers <> 2")),
			 0);
	char *out AUTOFREE = folder_read("out");
	static const char *const says[] = {"\\begin{tabular}{lrr}\n\\toprule\n",
					   " & n & ",
					   "\\midrule\n",
					   "asgd 4w, a\\_b \\& 5 \\% \\textbackslash{}x & 3 & ",
					   "4 (3..8, 75 \\%) \\\\\n",
					   "\\bottomrule\n\\end{tabular}\n"};
	for (size_t i = 0; i < sizeof says / sizeof *says; i++)
		ck_assert_msg(strstr(out, says[i]), "%s is not in:\n%s", says[i], out);
}

/* The most important columns that have values, and the mark of a busy machine explained below. */
TEST(latex_table_fits_a_paper)
{
	make_empty_store();
	sql(four_configurations);
	sql("UPDATE epoch SET run_delay_s = 0.5 * seconds WHERE run_id = 4");
	ck_assert_int_eq(table(WORDS("--format=latex")), 0);
	char *out AUTOFREE = folder_read("out"), *head = strstr(out, "\\toprule\n") + 9;
	const char *note = strstr(out, "\\end{tabular}\n") + 14;
	ck_assert_ptr_eq(strstr(note, "\\par\\smallskip{\\footnotesize"), note);
	ck_assert_str_eq(note + strlen(note) - 6, "\\par}\n");
	ck_in(note, "*: in 1 run a worker had less than 90 \\% of its core", true);
	ck_in(note, "-{}-busy=drop", true);
	ck_in(note, "95 \\% interval of the median", true);
	ck_in(note, "versus", false);
	head[strcspn(head, "\n")] = '\0';
	ck_assert_msg(occurrences(head, " & ") == 6, "%s", head);
	ck_in(head, "accuracy \\%", true);
	ck_in(head, "epoch s", true);
	ck_in(head, "speedup", true);
	/* without a run of serial the speed-up has no value */
	sql("DELETE FROM run WHERE strategy = 'serial'");
	ck_assert_int_eq(table(WORDS("--format=latex")), 0);
	char *none AUTOFREE = folder_read("out");
	ck_in(none, "speedup", false);
	ck_assert_int_eq(table(WORDS("--format=latex", "--columns=configuration,samples/s")), 0);
	char *asked AUTOFREE = folder_read("out");
	ck_in(asked, "samples/s", true);
}

TEST(table_shows_dropped_pushes_only_if_any)
{
	make_empty_store();
	sql(four_configurations);
	sql("UPDATE epoch SET dropped = 5 WHERE run_id = 3");
	ck_assert_int_eq(table(WORDS("--where=workers = 4")), 0);
	expect_said("out", "dropped", false);
	ck_table(0,
		 "workload  configuration  n                  accuracy %  accuracy versus    loss  "
		 "          epoch s  time versus         samples/s  speedup  to target s      "
		 "comm %  wait %  staleness  dropped %\n"
		 "--------  -------------  -  --------------------------  ----------------  -----  "
		 "-----------------  ------------------  ---------  -------  ---------------  "
		 "------  ------  ---------  ---------\n"
		 "mlp       asgd           1                       50.00  undecided -12.50    0.5  "
		 "               99  undecided +736.7 %         10     0.12  not reached 1/1      "
		 "25      13  1.00 (10)      20.00\n"
		 "mlp       serial         2  62.50 (50.00..75.00, 50 %)  control           0.375  "
		 "12 (10..14, 50 %)  control                    83     1.00  not reached 2/2      "
		 "25      13  1.00 (10)       0.00\n" MARKS(
			 "the control (allreduce; without one, serial)"),
		 NULL, WORDS("--where=workers = 1"));
}

/* Busy epochs are left out of the base of speed-ups, too. */
TEST(speedups_without_busy_epochs_have_such_a_base)
{
	make_empty_store();
	sql(four_configurations);
	sql("UPDATE epoch SET run_delay_s = 0.5 * seconds WHERE run_id = 2");
	ck_assert_int_eq(table(WORDS("--busy=drop", "--format=csv", "--columns=speedup",
				     "--where=strategy = 'serial'")),
			 0);
	expect_said("out", "speedup\r\n1\r\n", true);
}

TEST(table_distinguishes_configurations_of_equal_name)
{
	make_empty_store();
	sql(four_configurations);
	sql("UPDATE run SET lr = 0.2, label = 'b' WHERE id = 5;"
	    "INSERT INTO run_option VALUES (6, 'strategy', 'beta', '0.5');"
	    "DELETE FROM run WHERE id NOT IN (4, 5, 6)");
	ck_assert_int_eq(table(WORDS("--runs", "--format=csv")), 0);
	expect_said("out", "\r\n4,mlp,asgd 4w lr=0.1,", true);
	expect_said("out", "\r\n5,mlp,\"asgd 4w lr=0.2, b\",", true);
	expect_said("out", "\r\n6,mlp,asgd 4w lr=0.1 asgd.beta=0.5,", true);
	sql("UPDATE run_option SET part = 'optimizer'; UPDATE run SET optimizer = 'adamw'");
	ck_assert_int_eq(table(WORDS("--runs", "--format=csv")), 0);
	expect_said("out", "\r\n4,mlp,asgd 4w lr=0.1,", true);
	expect_said("out", "\r\n6,mlp,asgd 4w lr=0.1 adamw.beta=0.5,", true);
}

TEST(table_refuses_invalid_options)
{
	ck_table(2, "", "there is no results database", WORDS(NULL));
	make_empty_store();
	ck_table(0, NULL, "holds no runs yet", WORDS(NULL));
	sql(four_configurations);
	ck_table(0, NULL, "none of the 8 runs", WORDS("--where=workers = 99"));
	ck_table(2, "", "--label=x: there is no such label", WORDS("--label=x"));
	ck_table(2, "", "did you mean --where", WORDS("--wher=1"));
	ck_table(2, "", "no such column: wrkers", WORDS("--where=wrkers=1"));
	ck_table(2, "", "test_accuracy", WORDS("--where=wrkers=1"));
	ck_table(2, "", "syntax error", WORDS("--where=workers ="));
	ck_table(2, "", "one SQL condition", WORDS("--where=1); DELETE FROM run; --"));
	ck_table(2, "", "text, markdown, csv, json", WORDS("--format=xml"));
	ck_table(2, "", "not understood", WORDS("runs"));
	ck_table(2, "", "--out=", WORDS("--out=/dev/null/x"));
	ck_rows("SELECT count(*) FROM run", "8");
}

TEST(table_prints_help)
{
	ck_table(0, NULL, NULL, WORDS("--help"));
	expect_said("out", "--where", true);
	expect_said("out", "samples_per_second", true);
}
