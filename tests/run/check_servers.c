/*
 * check_servers.c - tables on servers: the same results as in shared memory where the order of
 * pushes cannot matter, the bytes of the formulas, what --record stores of several shards, servers
 * that sleep, and servers that end with every kind of run. tests/tools/table checks the tables
 * themselves (check_tables.c).
 */
#include "results/gate/gate.h"
#include "runtime/table/table.h"
#include "tests/made.h"
#include "tests/suites.h"
#include "tests/trained.h"

#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MLP "--workload=mlp --mlp.hidden=32 --lr=0.05 --epochs=1 "

/* ---- The same as in shared memory -------------------------------------------- */

CASE("servers", .limit = 120, .set_up = trained_data, .tear_down = folder_free, .once = true);

/* One worker has one order only: bit for bit, every updater, on one server or two. */
TEST(one_worker_on_servers_equals_shared_memory, 2)
{
	int servers = 1 + _i;
	const char *here[RUNS_MOST], *there[RUNS_MOST];
	struct result near[RUNS_MOST], far[RUNS_MOST];
	size_t runs = 0;
	for (size_t u = (size_t)_i; u < (size_t)LISTED(updaters); u += 2, runs++) {
		here[runs] =
			words(MLP "--batch=48 --momentum=%s --sync-every=3 --weight-decay=1e-3 "
				  "--strategy=asgd --asgd.updater=%s",
			      updaters[u]->wants.betas ? "0" : "0.9", updaters[u]->name);
		there[runs] = words("%s --workers=1 --servers=%d", here[runs], servers);
	}
	train_all(1, runs, here, near);
	train_all(1 + servers, runs, there, far);
	for (size_t i = 0; i < runs; i++)
		compare_runs(&far[i], there[i], &near[i], here[i], 0);
}

/* Rounds add the same pushes in any order. */
TEST(bsp_on_servers_equals_shared_memory, 2)
{
	static const char *const how[] = {"", "--bsp.updater=sgd --batch=20"};
	const char *same =
		words(MLP "--batch=24 --momentum=0.9 --strategy=bsp --sync-every=2 %s", how[_i]);
	expect_same(3 + _i, words("%s --workers=2 --servers=%d", same, 1 + _i), 2, same, 1e-6);
}

/* ---- Every strategy that has a table, and bytes -------------------------- */

/* 40 steps, a multiple of X and F: the run ends, learns, sends the bytes of the formula, pushes as
 * often as it should, and allocates nothing (train_ok). Stragglers make workers wait for each
 * other. */
TEST(strategies_run_on_servers, 7)
{
	static const struct {
		const char *words;
		int workers, servers, pushes;
	} row[] = {
		{"--strategy=asgd --sync-every=2", 2, 2, 2 * 20},
		{"--strategy=asgd --asgd.updater=dcasgda --sync-every=4", 2, 1, 2 * 10},
		{"--strategy=bsp --sync-every=2", 3, 1, 3 * 20},
		{"--strategy=bsp --bsp.backup=1", 4, 1, 0}, /* less those that are dropped */
		{"--strategy=ssp --ssp.bound=1", 3, 2, 3 * 40},
		{"--strategy=downpour --downpour.send=2 --sync-every=4", 2, 2, 2 * 20},
		{"--strategy=easgd --sync-every=2", 2, 1, 2 * 20},
	};
	int n = row[_i].workers;
	struct result r = train_ok(
		n + row[_i].servers,
		words(MLP "--deal=static --batch=%d --momentum=0.5 --straggle=0.3 --workers=%d "
			  "--servers=%d %s",
		      60 / n, n, row[_i].servers, row[_i].words));
	const char *w = row[_i].words;
	ck_assert_msg(fabs(r.bytes - r.formula) <= 1e-9 * r.formula && r.bytes > 0,
		      "%s: counted %.17g bytes, the formula says %.17g", w, r.bytes, r.formula);
	if (row[_i].pushes)
		ck_assert_msg(r.pushes == row[_i].pushes, "%s: %g pushes, not %d", w, r.pushes,
			      row[_i].pushes);
	ck_assert_msg(r.test_loss < 0.9 * r.first_test_loss, "%s learns nothing: %g, at first %g",
		      w, r.test_loss, r.first_test_loss);
}

/* ---- Tables --------------------------------------------------------------------------- */

/* Tables of one row and of three, among others. */
TEST(tables_may_have_fewer_rows_than_servers)
{
	char text[2048];
	int status =
		command_output(MPIRUN "6 ./tests/tools/table servers 4 2>&1", text, sizeof text);
	ck_assert_msg(status == 0 && strcmp(text, "ok\n") == 0, "status %d\n%s", status, text);
}

/* Each shard receives every operation of each worker and numbers them without gaps. */
TEST(arrivals_at_two_servers_are_recorded)
{
	char *path AUTOFREE = sentence("%s/servers.db", folder), text[4096];
	char *command AUTOFREE =
		sentence("ASAN_OPTIONS=detect_leaks=0 ./mvbench run --data-dir=%s --db=%s "
			 "--workload=mlp --mlp.hidden=16 --strategy=asgd --workers=2 "
			 "--servers=2 --deal=auto --batch=48 --epochs=2 --record 2>&1",
			 folder, path);
	remove(path);
	int status = command_output(command, text, sizeof text);
	ck_assert_msg(status == 0, "%s: status %d\n%s", command, status, text);
	/* 50 mini-batches an epoch; of a third epoch, each worker takes one number at the end */
	expect_in("servers.db",
		  "SELECT shard, sum(kind = 'sync'), sum(kind = 'pull'), "
		  "count(DISTINCT worker), count(DISTINCT seq) = count(*), "
		  "max(seq) - min(seq) + 1 = count(*) FROM arrival WHERE table_id = 0 "
		  "GROUP BY shard UNION ALL SELECT table_id, count(*), 0, 0, 0, 0 FROM "
		  "arrival WHERE table_id = 1 GROUP BY table_id",
		  "0,100,4,2,1,1;1,100,4,2,1,1;1,104,0,0,0,0");
}

/* ---- Servers as processes ------------------------------------------------ */

/* `time` reports what the server uses in a run with almost no pushes. */
TEST(idle_server_sleeps)
{
	char text[4096];
	double user = NAN, sys = NAN, real = NAN;
	char *train AUTOFREE = sentence(
		"./tests/tools/train %s/idle --data-dir=%s --workers=1 --servers=1 "
		"--strategy=asgd --sync-every=1000000 --barrier-every=0 " MLP "--epochs=80",
		folder, folder);
	char *command AUTOFREE =
		sentence(MPIRUN "1 %s : -n 1 bash -c 'TIMEFORMAT=\"cpu %%U %%S %%R\"; "
				"time %s' 2>&1 | tail -n 5",
			 train, train);
	int status = command_output(command, text, sizeof text);
	const char *said = strstr(text, "cpu ");
	ck_assert_msg(status == 0 && said &&
			      sscanf(said, "cpu %lf %lf %lf", &user, &sys, &real) == 3,
		      "%s: status %d\n%s", command, status, text);
	/* the cost of starting, and a share */
	ck_assert_msg(user + sys < 0.25 + 0.3 * real, "an idle server computes for %g of %g s",
		      user + sys, real);
}

/* Processes whose command line contains this folder's name. */
static int left_behind(void)
{
	int n = 0;
	DIR *d = opendir("/proc");
	for (struct dirent *e; d && (e = readdir(d));) {
		char path[300], line[2048] = "";
		snprintf(path, sizeof path, "/proc/%.200s/cmdline", e->d_name);
		FILE *f = e->d_name[0] >= '1' && e->d_name[0] <= '9' ? fopen(path, "r") : NULL;
		if (!f)
			continue;
		size_t k = fread(line, 1, sizeof line - 1, f);
		for (size_t i = 0; i < k; i++)
			line[i] = line[i] ? line[i] : ' ';
		n += strstr(line, folder) != NULL;
		fclose(f);
	}
	if (d)
		closedir(d);
	return n;
}

CASE("early ends", .limit = 60, .set_up = trained_data, .tear_down = folder_free);

/* Servers end with the workers, however the run ends, and the reason is printed once. */
TEST(servers_leave_with_the_workers, 3)
{
	static const struct {
		const char *words, *says;
		bool damaged; /* a label that no class has: found when the data is read */
		int status;
	} row[] = {
		{"--lr=1000 --lr-schedule=constant --epochs=20", "a smaller --lr may help", false,
		 EXIT_DIVERGED},
		{"", "has the label 77", true, EXIT_USER},
		/* the tables exist already when the database refuses to open */
		{"--db=/proc/no-such.db", "/proc/no-such.db", false, EXIT_USER},
	};
	char *db AUTOFREE = sentence("--db=%s/early.db", folder), text[4096];
	char *command AUTOFREE =
		sentence("timeout 20 env " MPIRUN "4 ./mvbench run --data-dir=%s "
			 "--strategy=asgd --workers=2 --servers=2 " MLP "%s %s 2>&1",
			 folder, db, row[_i].words);
	if (row[_i].damaged) {
		size_t bytes;
		uint8_t *labels AUTOFREE = idx_new(IDX_LABELS, TRAIN_ROWS, &bytes);
		labels[bytes - 1] = 77;
		folder_put("train-labels-idx1-ubyte", labels, bytes, false);
	}
	int status = command_output(command, text, sizeof text);
	ck_assert_msg(status == row[_i].status, "%s: status %d, not %d\n%s", command, status,
		      row[_i].status, text);
	ck_assert_msg(strstr(text, row[_i].says), "%s\ndoes not say \"%s\" but\n%s", command,
		      row[_i].says, text);
	ck_assert_int_eq(left_behind(), 0);
}
