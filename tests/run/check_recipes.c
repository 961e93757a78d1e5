/*
 * check_recipes.c - simulations with known results: Multiverso's published table, and the shapes of
 * workloads/sweeps/shapeN_*.ini; and what these need of simulations of time alone.
 */
#include "results/gate/gate.h"
#include "tests/suites.h"
#include "tests/trained.h"

#include <stdlib.h>
#include <string.h>

CASE("recipes", .limit = 120, .set_up = small_data, .tear_down = folder_free);

/* The simulation is fitted to the rows of one worker and predicts those of four within 7 %. */
TEST(published_times_are_predicted)
{
	char *sweep AUTOFREE = sentence(
		"./mvbench sweep multiverso_sim --order=file --epochs=2 --db=%s/run.db 2>&1",
		folder);
	expect_command(EXIT_OK, sweep, "4 cells: 4 done");
	expect_row(
		"SELECT params, train_size, test_size, most FROM run, (SELECT max(pushes) AS most"
		" FROM epoch WHERE run_id = 2) WHERE id = 2",
		"464154,50000,10000,391\r\n");
	expect_row("SELECT abs(epoch_seconds / 100.02 - 1) < 1e-3 FROM run_summary WHERE id = 1",
		   "1\r\n");
	expect_row("SELECT abs(epoch_seconds / 109.78 - 1) < 1e-3 FROM run_summary WHERE id = 2",
		   "1\r\n");
	expect_row("SELECT epoch_seconds BETWEEN 0.93 * 29.38 AND 1.07 * 29.38 FROM run_summary"
		   " WHERE id = 3",
		   "1\r\n");
	expect_row("SELECT epoch_seconds BETWEEN 0.93 * 27.46 AND 1.07 * 27.46 FROM run_summary"
		   " WHERE id = 4",
		   "1\r\n");
	/* The query of `make reproduce` finds all times near; if a run is missing, it does not. */
	char *sql AUTOFREE = installed_path("tests/scripts/reproduce.sql");
	char *check AUTOFREE =
		sentence("sqlite3 -batch -bail %s/run.db < %s | tail -n 1", folder, sql);
	char *fewer AUTOFREE =
		sentence("sqlite3 -batch -bail %s/run.db 'DELETE FROM run WHERE id = 4' && %s",
			 folder, check);
	expect_command(EXIT_OK, check, "0.0");
	expect_command(EXIT_OK, fewer, "1.0");
}

/* In the other two tables of `make reproduce`, each cell without a run misses its bound. */
TEST(published_tables_miss_their_bounds_without_runs)
{
	char *measured AUTOFREE = installed_path("tests/scripts/reproduce_measured.sql"),
		       *cells AUTOFREE = installed_path("tests/reference/diloco_measured.csv"),
		       *streaming AUTOFREE =
			       installed_path("tests/scripts/reproduce_streaming.sql");
	record_run("--workload=softmax --strategy=serial --batch=60 --epochs=1 --platform=sim "
		   "--sim.platform=ethernet_10g --sim.train=false --sim.step-time=1ms");
	char *of_table AUTOFREE =
		sentence("sqlite3 -batch -bail %s/run.db < %s | tail -n 1", folder, streaming);
	char *of_cells AUTOFREE =
		sentence("sqlite3 -batch %s/run.db '.mode csv' '.import %s measured' && sqlite3 "
			 "-batch -bail %s/run.db < %s | tail -n 1",
			 folder, cells, folder, measured);
	expect_command(EXIT_OK, of_table, "25.0\n");
	expect_command(EXIT_OK, of_cells, "28.0\n");
}

/* The name of the data set is enough only if no image is read. */
TEST(cifar10_is_found_by_its_name)
{
	const char *const how = "./mvbench run --workload=resnet --data-dir=cifar10 --platform=sim "
				"--sim.platform=titanx4 --sim.step-time=1ms --dry-run %s 2>&1";
	char *shape AUTOFREE = sentence(how, "--sim.train=false"),
		    *images AUTOFREE = sentence(how, "");
	expect_command(EXIT_OK, shape, "50000, 3072 values each");
	expect_command(EXIT_USER, images, "has no data_batch_1.bin");
}

/* The given time of a step is shared by split layers: half for each of two workers, and the
 * messages. */
TEST(split_layers_share_the_given_step_time)
{
	static const char *const how[] = {"--strategy=serial",
					  "--strategy=model_parallel --workers=2",
					  "--strategy=model_parallel --workers=4",
					  "--strategy=hybrid --hybrid.group=2 --workers=2"};
	for (size_t i = 0; i < COUNT(how); i++) {
		char *words AUTOFREE =
			sentence("--workload=tanh_mlp --batch=60 --epochs=1 --platform=sim "
				 "--sim.platform=gpu8_nvlink --sim.train=false "
				 "--sim.step-time=1s %s",
				 how[i]);
		record_run(words);
	}
	expect_row("SELECT round(epoch_seconds / (SELECT epoch_seconds FROM run_summary WHERE id = "
		   "1), 3)"
		   " FROM run_summary WHERE id > 1 ORDER BY id",
		   "0.5\r\n0.25\r\n0.5\r\n");
}

/* A shape is shown if its runs show it, and not if some runs are missing. */
TEST(shape_is_shown_only_with_all_its_runs)
{
	char *script AUTOFREE = installed_path("tests/scripts/shapes.sh"),
		     *sql AUTOFREE = installed_path("tests/scripts/shapes.sql");
	char *shapes AUTOFREE = sentence("OUT=%s %s . 10 2>&1", folder, script);
	char *missing
		AUTOFREE = sentence(
			"sqlite3 -batch -bail %s/shapes.db 'DELETE FROM run WHERE workers = 32' "
			"&& sqlite3 -batch -bail %s/shapes.db < %s | cut -c 1-4 | tr '\\n' ' '",
			folder, folder, sql),
		*twice AUTOFREE = /* SQLite calls the second column of a name "name:1" */
		sentence("{ cat %s; echo \"SELECT 'twice', count(*) FROM "
			 "pragma_table_info('cell') WHERE name LIKE '%%:%%';\"; } | "
			 "sqlite3 -batch -bail %s/shapes.db | tail -n 1",
			 sql, folder);
	expect_command(EXIT_OK, shapes, "shape 10 shown");
	expect_command(EXIT_OK, twice, "twice|0\n");
	expect_command(EXIT_OK, missing,
		       "2|0| 3|0| 4|0| 5|0| 6|0| 7|0| 8|0| 9|0| 10|0 11|0 12|0 13|0 14|0 "
		       "15|0");
}

/* A program in the place of mvbench prints whether it could draw a bar. */
TEST(shapes_on_a_terminal_show_the_bar_of_their_sweeps)
{
	char *script AUTOFREE = installed_path("tests/scripts/shapes.sh");
	if (lacks_program("script"))
		return;
	folder_text("mvbench", "#!/bin/sh\n[ -t 2 ] && echo a bar >&2\nexit 1\n");
	char *shapes AUTOFREE = sentence("chmod +x %s/mvbench && script -qec 'OUT=%s %s %s 10' "
					 "/dev/null </dev/null 2>&1",
					 folder, folder, script, folder);
	expect_command(1, shapes, "a bar");
}
