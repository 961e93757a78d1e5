/*
 * check_budget.c - runs that end after so many steps or tokens; gradients that are accumulated;
 * averages of models; sums by machine; Adasum; and the most bytes of a step.
 */
#include "runtime/config/config.h"
#include "runtime/config/plan.h"
#include "runtime/config/schedule.h"
#include "tests/made.h"
#include "tests/suites.h"
#include "tests/trained.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* 600 rows: 10 steps an epoch of 60 rows. */
#define SOFTMAX "--workload=softmax --lr=0.05 "
#define SIM     "--platform=sim --sim.step-time=10ms --sim.platform=ethernet_10g "
#define MLP     "--workload=mlp --mlp.hidden=32 --lr=0.05 --lr-schedule=constant --momentum=0 "

static double of(const char *query)
{
	return number_in("run.db", query);
}

static void of_run(int run, const char *query, const char *want)
{
	char *whole AUTOFREE = sentence("%s WHERE run_id = %d", query, run);
	expect_in("run.db", whole, want);
}

/* ---- Budgets ------------------------------------------------------------------ */

CASE("budgets", .limit = 120, .set_up = small_data, .tear_down = folder_free);

static const char *const strategy_of[] = {
	"--strategy=serial --batch=60 ", "--strategy=allreduce --workers=2 --batch=30 ",
	"--strategy=periodic --workers=3 --batch=20 --sync-every=4 "};

/* The model after 25 steps is that of a longer run, at that step; the steps before are the same. */
TEST(budget_of_steps_ends_where_a_longer_run_is_at_that_step, COUNT(strategy_of))
{
	record_run(words(SOFTMAX "%s--epochs=3 --eval-every=25", strategy_of[_i]));
	record_run(words(SOFTMAX "%s--steps=25", strategy_of[_i]));
	record_run(words(SOFTMAX "%s--tokens=1500", strategy_of[_i]));
	record_run(words(SOFTMAX "%s--tokens=1441", strategy_of[_i]));
	of_run(2, "SELECT group_concat(epoch || ' ' || share) FROM epoch",
	       "0 1.0,1 1.0,2 1.0,3 0.5");
	expect_in("run.db", "SELECT epochs FROM run WHERE id = 2", "3");
	for (int run = 2; run <= 4; run++) {
		char *same AUTOFREE = sentence(
			"SELECT count(*) FROM epoch AS a JOIN epoch AS b USING (epoch) WHERE "
			"a.run_id = 1 AND b.run_id = %d AND epoch < 3 AND a.test_loss = "
			"b.test_loss AND a.running_loss IS b.running_loss",
			run);
		char *last AUTOFREE =
			sentence("SELECT e.test_loss = v.test_loss FROM epoch AS e JOIN evaluation "
				 "AS v ON v.run_id = 1 AND v.step = 25 WHERE e.run_id = %d AND "
				 "e.epoch = 3",
				 run);
		expect_in("run.db", same, "3");
		expect_in("run.db", last, "1");
	}
	expect_in("run.db", "SELECT max(epochs) FROM curve WHERE run_id = 2", "2.5");
}

/* With a budget below an epoch, that is the only one. */
TEST(short_budget_is_one_short_epoch)
{
	record_run(SOFTMAX "--strategy=serial --batch=60 --steps=3 --eval-every=2");
	of_run(1, "SELECT group_concat(epoch || ' ' || share) FROM epoch", "0 1.0,1 0.3");
	of_run(1, "SELECT group_concat(step) FROM evaluation", "2");
}

/* Whoever takes them: 25 steps of three workers are 75 mini-batches. */
TEST(dynamic_budget_trains_on_as_many_mini_batches, 4)
{
	const char *at[] = {"", SIM "--straggle=0.3 "};
	int64_t every = _i / 2 ? 3 : 1;
	record_run(words("%s" SOFTMAX "--strategy=asgd --workers=3 --batch=20 --steps=25 "
			 "--sync-every=%d --deal=dynamic --barrier-every=%d",
			 at[_i % 2], (int)every, _i / 2 ? 0 : 1));
	if (every == 1) {
		of_run(1, "SELECT group_concat(pushes) FROM epoch", "30,30,15");
	} else { /* each worker's last push of a run may be of fewer steps */
		double pushes = of("SELECT sum(pushes) FROM epoch");
		ck_assert_msg(pushes >= 25 && pushes <= 75, "%g pushes", pushes);
	}
}

/* An epoch's time, and rates, are those of a whole one; totals are what the run took. */
TEST(times_of_a_short_epoch_are_those_of_a_whole_one, 2)
{
	const char *train = _i ? "" : "--sim.train=false ";
	record_run(words(SIM SOFTMAX "--strategy=serial --batch=60 --epochs=2 %s", train));
	record_run(words(SIM SOFTMAX "--strategy=serial --batch=60 --steps=14 %s", train));
	near(of("SELECT epoch_seconds FROM run_summary WHERE id = 2"), 0.1, 1e-6);
	near(of("SELECT samples_per_second FROM run_summary WHERE id = 2"), 6000, 0.1);
	near(of("SELECT seconds_total FROM run_summary WHERE id = 2"), 0.14, 1e-6);
	near(of("SELECT seconds FROM epoch WHERE run_id = 2 AND epoch = 2"), 0.04, 1e-6);
	near(of("SELECT max(seconds) FROM curve WHERE run_id = 2"), 0.14, 1e-6);
}

/* A cosine ends at its floor after the last step, not after the epoch. */
TEST(schedules_end_with_the_budget)
{
	const struct run run = {.lr = 1,
				.lr_schedule = "cosine:0.2",
				.lr_scale = "none",
				.epochs = 3,
				.cut_epochs = 0.5};
	ck_assert_double_eq_tol(lr_at(&run, 1, 3, 0.5), 0.2, 1e-12);
	ck_assert_double_eq_tol(lr_at(&run, 1, 2, 0.25), 0.6, 1e-12);
}

/* What the recipe says of epochs does not matter then. */
TEST(cells_with_a_budget_differ_in_it)
{
	char hash[4][17];
	const struct setting set[][2] = {
		{{"steps", "25"}}, {{"steps", "25"}}, {{"steps", "26"}}, {{"tokens", "25"}}};
	for (int i = 0; i < 4; i++) {
		struct config c AUTOCONFIG = {0};
		const struct setting given[] = {
			{"data-dir", folder}, {"workload", "softmax"}, set[i][0]};
		char *wrong = config_init(&c, given, 3, false);
		ck_assert_msg(!wrong, "%s", wrong);
		if (i == 1)
			c.run.epochs = 77;
		config_hash(&c, hash[i]);
	}
	ck_assert_str_eq(hash[0], hash[1]);
	ck_assert_str_ne(hash[0], hash[2]);
	ck_assert_str_ne(hash[0], hash[3]);
}

TEST(budgets_that_contradict_are_refused)
{
	static const struct {
		struct setting set[2];
		const char *says;
	} row[] = {
		{{{"steps", "5"}, {"epochs", "2"}}, "--steps=5: --epochs=2 is another end"},
		{{{"tokens", "5"}, {"epochs", "2"}}, "--tokens=5: --epochs=2 is another end"},
		{{{"tokens", "9"}, {"steps", "5"}}, "--steps=5: --tokens=9 is another end"},
		{{{"steps", "100000000"}, {"workload", "softmax"}}, "more than a million passes"},
	};
	for (size_t i = 0; i < COUNT(row); i++) {
		struct config c AUTOCONFIG = {0};
		const struct setting given[] = {{"data-dir", folder}, row[i].set[0], row[i].set[1]};
		char *wrong AUTOFREE = config_init(&c, given, 3, false);
		ck_assert_msg(wrong && strstr(wrong, row[i].says), "%s: %s", row[i].says,
			      wrong ? wrong : "accepted");
	}
}

/* A replay takes the budget of its run. */
TEST(budget_is_replayed)
{
	char out[8192];
	record_run(SOFTMAX "--strategy=asgd --workers=2 --batch=20 --steps=20 --record");
	int status = run_mvbench("", SIM "--sim.replay=1", out, sizeof out);
	ck_assert_msg(status == EXIT_OK, "%s", out);
	expect_in("run.db", "SELECT count(DISTINCT model_hash) FROM run WHERE steps = 20", "1");
	expect_in("run.db", "SELECT count(*) FROM run WHERE steps = 20", "2");
}

/* ---- Accumulation ------------------------------------------------------------- */

/* ---- Budgets of comparisons ---------------------------------------------------- */

/* In folder/job.ini: two strategies on the folder's rows. */
static void put_job(const char *searched, const char *rest)
{
	char *job AUTOFREE = sentence(
		"%s[defaults]\nworkload = softmax\ndata-dir = %s\nworkers = 2\nbatch = 30\n%s"
		"platform = sim\nsim.platform = ethernet_10g\nsim.step-time = 10ms\n"
		"[every step]\nstrategy = allreduce\n[rare]\nstrategy = periodic\n"
		"sync-every = 5\n",
		searched, folder, rest);
	folder_text("job.ini", job);
}

static void says(const char *command, const char *more, const char *text)
{
	char *line AUTOFREE =
		sentence("./mvbench %s %s --db=%s/run.db 2>&1", command, more, folder);
	expect_command(EXIT_OK, line, text);
}

/* A job file crosses budgets with strategies. Each budget is a configuration of its own, whose runs
 * are compared by seed; what an epoch costs does not depend on it. */
TEST(equal_budgets_are_compared)
{
	put_job("", "lr = 0.05\nseed = 1..3\nsteps = 15, 25\n");
	says("sweep", words("%s/job.ini", folder), "12 done");
	expect_in("run.db", "SELECT count(DISTINCT config_key) FROM run_summary", "4");
	expect_in("run.db",
		  "SELECT count(DISTINCT epoch_bytes) || ' ' || count(DISTINCT compare_key) FROM "
		  "run_summary WHERE strategy = 'allreduce'",
		  "1 1");
	says("table --where='steps = 25' --versus='allreduce 2w sim:ethernet_10g'", "--format=json",
	     "\"test_loss_pairs\": 3");
	says("table --versus='allreduce 2w sim:ethernet_10g epochs=3 steps=25'", "--format=json",
	     "periodic 2w X=5 sim:ethernet_10g epochs=2 steps=15");
}

/* Each trial has the budget of steps. */
TEST(budgets_of_steps_are_tuned)
{
	put_job("[search]\nlr = 0.01..0.1 log\n", "steps = 15\n");
	says("tune", words("%s/job.ini --budget=2 --seeds=1", folder), "");
	expect_in("run.db",
		  "SELECT min(status = 'done' AND steps = 15 AND epochs_done = 2) || ' ' || "
		  "(count(DISTINCT lr) >= 2) FROM run_summary",
		  "1 1");
}

/* ---- The most bytes of a step ------------------------------------------------- */

/* Two workers send as many bytes as they sum. Of the mlp's two layers the last has 32 x 10 + 10
 * floats; layers are fragments. */
TEST(peak_bytes_are_those_of_the_largest_step, 6)
{
	static const struct {
		const char *how;
		int params; /* that no step sends */
	} row[] = {{"--strategy=allreduce", 0},
		   {"--strategy=allreduce --accumulate=2", 0},
		   {"--strategy=periodic --sync-every=4", 0},
		   {"--strategy=periodic --sync-every=4 --periodic.fragments=2", 330},
		   {"--strategy=periodic --sync-every=4 --periodic.fragments=2 "
		    "--periodic.layout=neighbours --periodic.delay=2",
		    330},
		   {"--strategy=periodic --sync-every=100", 25450}};
	record_only(words(MLP SIM "--workers=2 --batch=15 --epochs=2 %s", row[_i].how));
	char *peak AUTOFREE =
		sentence("SELECT peak_bytes / 4.0 = params - %d FROM run_summary", row[_i].params);
	expect_in("run.db", peak, "1");
	expect_in("run.db",
		  "SELECT count(*) FROM epoch AS e WHERE epoch > 0 AND peak_bytes <= bytes_sent "
		  "AND peak_bytes = (SELECT max(peak_bytes) FROM rank_epoch AS r WHERE r.epoch = "
		  "e.epoch)",
		  "2");
}

CASE("accumulation", .limit = 300, .set_up = trained_data, .tear_down = folder_free, .once = true);

static const char *const accumulating[] = {
	"--strategy=allreduce",
	"--strategy=allreduce --allreduce.overlap=true",
	"--strategy=allreduce --allreduce.overlap=next --optimizer=lamb --lr=0.003",
	"--strategy=allreduce --clip=0.5",
	"--strategy=periodic --sync-every=5 --periodic.outer=nesterov",
	"--strategy=bsp --bsp.updater=momentum",
	"--strategy=hybrid --workers=2",
	"--strategy=allreduce --optimizer=adamw --lr=0.003 --split=fixed",
};

/* 2,400 rows: steps of 96 rows, and with 70 rows a last step that is shorter. */
TEST(accumulated_gradients_are_those_of_a_larger_batch, 2 * COUNT(accumulating))
{
	const char *how = accumulating[_i / 2];
	int batch = _i % 2 ? 35 : 48;
	expect_same(2, words(MLP "--epochs=1 %s --batch=%d", how, batch), 2,
		    words(MLP "--epochs=1 %s --batch=%d --accumulate=%d", how, _i % 2 ? 7 : 12,
			  _i % 2 ? 5 : 4),
		    2e-5);
}

/* A step takes as long as its mini-batches, which take as long as they do alone. */
TEST(accumulation_takes_the_time_of_its_mini_batches)
{
	const char *how = "--platform=sim --sim.platform=ethernet_10g --sim.step-time=10ms " MLP
			  "--epochs=1 --strategy=serial --batch=24";
	struct result a = run_simulated(1, how),
		      b = run_simulated(1, words("%s --accumulate=4", how));
	ck_assert_double_gt(a.computed_s, 0.9);
	ck_assert_double_eq_tol(b.computed_s, a.computed_s, 1e-3);
}

/* Memory: activations of one mini-batch, and the sum. */
TEST(accumulation_needs_the_memory_of_one_mini_batch)
{
	size_t bytes[3], params = 0;
	const char *value[][2] = {{"1024", "1"}, {"1024", "4"}, {"4096", "1"}};
	for (int i = 0; i < 3; i++) {
		struct config c AUTOCONFIG = {0};
		struct plan p;
		const struct setting given[] = {
			{"data-dir", folder}, {"batch", value[i][0]}, {"accumulate", value[i][1]}};
		ck_assert_ptr_null(config_init(&c, given, 3, false));
		ck_assert_ptr_null(plan_make(&c, &p));
		bytes[i] = p.footprint.activations;
		params = (size_t)p.params;
	}
	ck_assert_uint_eq(bytes[1], bytes[0] + params * sizeof(float));
	ck_assert_uint_gt(bytes[2], 3 * bytes[0]);
}

/* ---- Averages of models ------------------------------------------------------- */

/* The oracle has the average of one model in float64. These have the same models. */
TEST(averages_are_of_the_canonical_model, 5)
{
	static const char *const same[] = {"--strategy=periodic --sync-every=1",
					   "--strategy=allreduce --allreduce.overlap=next",
					   "--strategy=bsp --sync-every=1",
					   "--strategy=gossip --sync-every=1",
					   "--strategy=hybrid --hybrid.group=2 --batch=48"};
	expect_same(2, words(MLP "--epochs=2 --batch=24 --ema=0.95 --strategy=allreduce"), 2,
		    words(MLP "--epochs=2 --batch=24 --ema=0.95 %s", same[_i]), 2e-5);
}

/* The mean of the models of 4 steps, as four runs have them. */
TEST(average_with_factor_1_is_the_mean_of_all_models)
{
	const char *how[5];
	struct result r[5];
	for (int i = 0; i < 4; i++)
		how[i] = words(MLP "--strategy=allreduce --batch=24 --steps=%d", i + 1);
	how[4] = MLP "--strategy=allreduce --batch=24 --steps=4 --ema=1";
	train_all(2, 5, how, r);
	double worst = 0;
	for (size_t i = 0; i < r[4].params; i++) {
		double mean = 0;
		for (int k = 0; k < 4; k++)
			mean += r[k].param[i] / 4.0;
		worst = fmax(worst, fabs(mean - r[4].param[i]));
	}
	ck_assert_msg(worst < 1e-6, "differs by %g", worst);
}

TEST(average_with_factor_0_is_the_last_model)
{
	expect_same(2, MLP "--epochs=1 --strategy=allreduce --ema=0", 2,
		    MLP "--epochs=1 --strategy=allreduce", 0);
	struct result r = train_ok(2, MLP "--epochs=1 --strategy=asgd --sync-every=3 --ema=0.9");
	ck_assert_double_lt(r.test_loss, 0.9 * r.first_test_loss);
}

/* ---- Sums by machine ----------------------------------------------------------- */

#define CLUSTER "--platform=sim --sim.platform=a100_cluster --sim.step-time=1ms " MLP "--batch=6 "

TEST(sums_by_machine_are_sums, 2)
{
	int workers = _i ? 16 : 12; /* two machines of 8, and one of them with 4 */
	struct result flat = run_simulated(workers, CLUSTER "--strategy=allreduce --epochs=1"),
		      levels = run_simulated(workers, CLUSTER
					     "--strategy=allreduce --allreduce.hierarchical "
					     "--epochs=1");
	ck_assert_msg(levels.status == 0, "%s", levels.output);
	ck_assert_double_le(distance(&flat, &levels), 1e-5);
	ck_assert_double_eq_tol(levels.bytes, levels.formula, 1e-9 * levels.bytes);
}

/* On one machine there is one level. */
TEST(sum_of_one_machine_is_flat)
{
	expect_same(3, MLP "--epochs=1 --batch=16 --strategy=allreduce --allreduce.hierarchical", 3,
		    MLP "--epochs=1 --batch=16 --strategy=allreduce", 1e-7);
}

/* 64 GPUs, 8 of each machine: the small model's ring between all has 126 steps, of which each takes
 * the latency between two machines. */
TEST(sums_by_machine_are_faster_on_machines_of_gpus)
{
	struct result flat = run_simulated(64, CLUSTER "--strategy=allreduce --steps=3"),
		      levels = run_simulated(
			      64,
			      CLUSTER "--strategy=allreduce --allreduce.hierarchical --steps=3");
	ck_assert_msg(levels.communicated_s < 0.5 * flat.communicated_s, "%g s, flat %g s",
		      levels.communicated_s, flat.communicated_s);
}

/* ---- Adasum --------------------------------------------------------------------- */

/* One step of gradients that the file makes: (1, 0, 0, 0) by all, or by worker k a 1 at place k. Of
 * three workers one has no pair. */
static const char angle_text[] =
	"#include \"workloads/datasets.h\"\n"
	"struct opts {\n\tbool turned;\n};\n"
	"#define OWNER struct opts\n"
	"static const struct option options[] = {OPTION(turned, BOOL, \"turned\", \"false\", "
	"\"orthogonal [true/false]\"), {0}};\n"
	"static void init(struct worker *w, const struct data *s)\n{\n"
	"\tstatic const size_t layer[] = {0, 4};\n\t(void)s;\n"
	"\tmodel_layout(w, &(struct layout){.params = 4, .layers = 1, .layer = layer});\n}\n"
	"static void load(struct worker *w)\n{\n\t(void)w;\n}\n"
	"static void gradient(struct worker *w)\n{\n"
	"\tconst struct opts *o = w->model->opts;\n\tfloat g[4] = {0};\n"
	"\tg[o->turned ? w->rank : 0] = 1;\n"
	"\tvec_put(w->grad, g);\n\tworker_tally(w, (double)w->rows, (int64_t)w->rows, 0);\n"
	"\tlayer_ready(w, 0);\n}\n"
	"static void evaluate(struct worker *w, const struct data *d, const int32_t *i, size_t n)\n"
	"{\n\t(void)d, (void)i;\n\tworker_tally(w, (double)n, (int64_t)n, 0);\n}\n"
	"static void fini(struct worker *w)\n{\n\t(void)w;\n}\n"
	"static const struct workload angle = {.plugin = {.name = \"angle\", .summary = \"a\", "
	".options = options, .opts_size = sizeof(struct opts)}, .dataset = &dataset_cubes, "
	".host = true, .init = init, .load = load, .gradient = gradient, .evaluate = evaluate, "
	".fini = fini};\n"
	"MVBENCH_PLUGIN(.workload = &angle);\n";

TEST(adasum_averages_parallel_gradients_and_adds_orthogonal_ones, 2)
{
	folder_text("angle.c", angle_text);
	for (int n = 3; n <= 4; n++) {
		struct result r = train_ok(
			n, words("--workload=%s/angle.c --strategy=adasum --train-rows=60 "
				 "--steps=1 --batch=1 --lr=1 --angle.turned=%s --reduce=%s",
				 folder, _i ? "true" : "false", n == 4 ? "sum" : "mean"));
		for (int k = 0; k < 4; k++)
			ck_assert_double_eq_tol(r.param[k], k < (_i ? n : 1) ? -1 : 0, 1e-6);
	}
}

TEST(adasum_on_one_worker_is_serial)
{
	expect_same(1, MLP "--epochs=1 --strategy=adasum", 1, MLP "--epochs=1 --strategy=serial",
		    0);
	struct result r = train_ok(4, MLP "--epochs=1 --batch=12 --strategy=adasum");
	ck_assert_double_eq_tol(r.bytes, r.formula, 1e-9 * r.bytes);
}
