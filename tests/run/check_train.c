/*
 * check_train.c - the identities between strategies, at 1, 2, 3 and 4 ranks: the same order of data
 * must give the same parameters, however the work is divided. The loops run over strategies[], so a
 * new one is tested too.
 */
#include "results/gate/gate.h"
#include "runtime/config/config.h"
#include "tests/suites.h"
#include "tests/trained.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MLP "--workload=mlp --mlp.hidden=32 --lr=0.05 --epochs=1"

extern const struct strategy strategy_easgd;

/* ---- Identities ---------------------------------------------------------- */

CASE("identities", .limit = 300, .set_up = trained_data, .tear_down = folder_free, .once = true);

/* One worker has no other to synchronise with: it equals the serial run bit for bit. */
TEST(one_worker_is_serial, LISTED(strategies))
{
	const struct strategy *s = strategies[_i];
	if (s == &strategy_easgd) /* its model is the centre, which follows even a single worker */
		return;
	expect_same(1,
		    words(MLP " --batch=48 --momentum=0.9 --weight-decay=1e-3 --strategy=%s",
			  s->plugin.name),
		    1, MLP " --batch=48 --momentum=0.9 --weight-decay=1e-3 --strategy=serial", 0);
}

/* 50 steps; the batch of one worker is that of all workers together. */
TEST(allreduce_is_serial_with_the_whole_batch, 2, 5)
{
	int n = _i;
	const char *more = "--momentum=0.9 --lr-schedule=cosine";
	expect_same(n, words(MLP " %s --strategy=allreduce --batch=%d", more, 48 / n), 1,
		    words(MLP " %s --strategy=serial --batch=48", more), 1e-5);
}

TEST(overlap_leaves_results_unchanged, 1, 5)
{
	/* one bucket, and as many as layers; an operation that is started and never waited for ends
	 * the run */
	static const char *const bucket[] = {"20MiB", "1KiB", "4"};
	static const char *const model[] = {
		MLP, "--workload=tanh_mlp --tanh_mlp.hidden=37 --lr=0.05 --epochs=1"};
	const char *how[2 * 3];
	for (size_t k = 0; k < 3; k++) {
		const char *same =
			words("%s --batch=16 --momentum=0.9 --strategy=allreduce", model[k % 2]);
		how[2 * k] =
			words("%s --allreduce.overlap=true --allreduce.bucket=%s", same, bucket[k]);
		how[2 * k + 1] = same;
	}
	expect_pairs(_i, 3, how, 1e-6);
}

TEST(periodic_every_step_is_allreduce, 2, 5)
{
	const char *how[2 * 2];
	for (int i = 0; i < 2 * 2; i++)
		how[i] = words(MLP " --batch=24 --strategy=%s %s", i % 2 ? "allreduce" : "periodic",
			       i / 2 ? "--reduce=sum --lr=0.01" : "--reduce=mean");
	expect_pairs(_i, 2, how, 1e-6);
}

TEST(periodic_start_is_allreduce, 2, 5)
{
	int n = _i;
	expect_same(n,
		    MLP " --batch=24 --momentum=0.9 --strategy=periodic --sync-every=7 "
			"--periodic.start=1000",
		    n, MLP " --batch=24 --momentum=0.9 --strategy=allreduce",
		    2e-7); /* the mean of three equals rounds */
}

/* Averaging the velocities too makes X = 1 equal allreduce with momentum. */
TEST(periodic_with_averaged_state_is_allreduce, 2, 5)
{
	int n = _i;
	expect_same(n, MLP " --batch=24 --momentum=0.9 --strategy=periodic --state=average", n,
		    MLP " --batch=24 --momentum=0.9 --strategy=allreduce", 2e-6);
}

TEST(sum_and_linear_scaling_agree, 2, 5)
{
	int n = _i;
	expect_same(n, MLP " --batch=24 --strategy=allreduce --reduce=sum --lr=0.02", n,
		    MLP " --batch=24 --strategy=allreduce --lr-scale=linear --lr=0.02", 1e-6);
}

TEST(model_parallel_is_serial, 2, 5)
{
	static const char *const model[] = {
		"--workload=softmax --lr=0.05 --batch=48 --epochs=1",
		MLP " --batch=48 --momentum=0.9 --weight-decay=1e-3",
		"--workload=tanh_mlp --tanh_mlp.hidden=37 --lr=0.05 --batch=48 --epochs=1",
	};
	const char *how[3];
	struct result split[3];
	for (size_t i = 0; i < 3; i++)
		how[i] = words("%s --strategy=model_parallel", model[i]);
	train_all(_i, 3, how, split);
	for (size_t i = 0; i < 3; i++) {
		const char *serial = words("%s --strategy=serial", model[i]);
		struct result whole = train_ok(1, serial);
		compare_runs(&split[i], how[i], &whole, serial, 1e-5);
	}
}

/* ---- Every strategy of the table ----------------------------------------- */

/* Tables add pushes in the order of arrival, even in strategies that wait for all. */
#define ORDER_OF_SUMS 2e-6

static bool can_run(const struct strategy *s, int ranks)
{
	char *error;
	struct config c;
	struct setting given[] = {{"strategy", s->plugin.name},
				  {"workers", ranks == 1   ? "1"
					      : ranks == 2 ? "2"
					      : ranks == 3 ? "3"
							   : "4"}};
	error = config_init(&c, given, 2, false);
	ck_assert_msg(!error, "%s", error);
	char *refused AUTOFREE = s->refuse ? s->refuse(&c.run, c.strategy_opts) : NULL;
	bool can = !refused;
	config_fini(&c);
	return can;
}

/* Sparta's parts have a mean length; here they are equally long. */
static const char *equal_parts(const struct strategy *s)
{
	return strcmp(s->plugin.name, "sparta") == 0 ? "--sparta.share=0.02" : "";
}

/* 40 or 60 steps, a multiple of X: the counted bytes equal the formula, and the model learns. */
TEST(counted_bytes_are_the_formula, LISTED(strategies))
{
	const struct strategy *s = strategies[_i];
	for (int n = 1; n <= 4; n++) {
		if (!can_run(s, n))
			continue;
		int replicas = s->model_workers ? 1 : n;
		struct result r = train_ok(
			n,
			words(MLP " --batch=%d --sync-every=2 --epochs=2 --barrier-every=0 "
				  "--deal=static --strategy=%s %s",
			      replicas == 3 ? 20 : 40 / replicas, s->plugin.name, equal_parts(s)));
		ck_assert_msg(fabs(r.bytes - r.formula) <= 1e-9 * r.formula,
			      "%s on %d: counted %.17g bytes, the formula says %.17g",
			      s->plugin.name, n, r.bytes, r.formula);
		ck_assert_msg(n == 1 || r.bytes > 0, "%s on %d sends nothing", s->plugin.name, n);
		ck_assert_msg(r.test_loss < 0.9 * r.first_test_loss, "%s on %d: %g, at first %g",
			      s->plugin.name, n, r.test_loss, r.first_test_loss);
	}
}

/* 2,400 rows over 1 to 4 workers in odd batches: every row once an epoch. */
TEST(epoch_trains_on_every_row_once, LISTED(strategies))
{
	static const char *const deal[] = {"", "--deal=static"};
	const struct strategy *s = strategies[_i];
	for (int n = 1; n <= 4; n++) {
		const char *how[RUNS_MOST];
		struct result r[RUNS_MOST];
		size_t runs = 0;
		/* also static, if that is not the default */
		for (int i = 0; i < (n > 1 && s->may_leave ? 2 : 1); i++)
			for (int batch = 7; batch <= 1001; batch *= 11)
				how[runs++] = words(MLP " --lr=0.001 --batch=%d --strategy=%s %s",
						    batch, s->plugin.name, deal[i]);
		if (!can_run(s, n))
			continue;
		train_all(n, runs, how, r);
		for (size_t k = 0; k < runs; k++) {
			ck_assert_double_eq(r[k].rows, TRAIN_ROWS);
			ck_assert_double_eq(r[k].numbers, TRAIN_ROWS * (TRAIN_ROWS - 1) / 2);
		}
	}
}

/* Rare barriers change no result of a strategy that waits by itself. They change only when it is
 * evaluated. */
TEST(rare_barriers_change_no_result, LISTED(strategies))
{
	const struct strategy *s = strategies[_i];
	const char *same = words(MLP " --epochs=3 --batch=24 --strategy=%s", s->plugin.name);
	const char *how[2 * 2];
	for (int i = 0; i < 2 * 2; i++)
		how[i] = i % 2 ? same : words("%s --barrier-every=%d", same, i);
	if (!arrival_decides(s))
		expect_pairs(can_run(s, 3) ? 3 : 1, 2, how, s->terms ? ORDER_OF_SUMS : 0);
}

/* Without barriers a segment is three epochs long: nothing between them allocates either. */
TEST(segments_allocate_nothing, LISTED(strategies))
{
	const struct strategy *s = strategies[_i];
	for (int n = 1; n <= 3; n += 2)
		if (can_run(s, n))
			train_ok(n, words(MLP " --epochs=3 --barrier-every=0 --batch=40 "
					      "--straggle=0.2 --momentum=0.9 "
					      "--lr-schedule=cosine --strategy=%s",
					  s->plugin.name));
}

TEST(same_seed_gives_the_same_result, LISTED(strategies))
{
	const struct strategy *s = strategies[_i];
	int n = can_run(s, 2) ? 2 : 1;
	if (arrival_decides(s))
		return;
	const char *w = words(MLP " --batch=24 --seed=7 --strategy=%s", s->plugin.name);
	const char *how[] = {w, w, words("%s --seed=8", w)};
	struct result r[3];
	train_all(n, 3, how, r);
	ck_assert_double_gt(distance(&r[0], &r[2]), 1e-3);
	compare_runs(&r[0], w, &r[1], w, s->terms ? ORDER_OF_SUMS : 0);
}

TEST(replicas_stay_equal, 2, 5)
{
	struct result r = train_ok(_i, MLP " --batch=24 --momentum=0.9 --strategy=allreduce");
	ck_assert_double_eq(r.spread, 0);
}

/* Pushes at the end of an epoch only, a barrier, and a pull average once an epoch. */
TEST(asgd_with_pushes_at_barriers_is_periodic, 1, 5)
{
	int n = _i;
	expect_same(
		n,
		words(MLP " --epochs=3 --batch=%d --strategy=asgd --sync-every=1000 --deal=static",
		      48 / n),
		n, words(MLP " --epochs=3 --batch=%d --strategy=periodic --sync-every=50", 48 / n),
		1e-6);
}

TEST(asgd_staleness_is_within_bounds, 1, 5)
{
	int n = _i;
	struct result r = train_ok(n, words(MLP " --batch=%d --strategy=asgd --sync-every=4 "
						"--barrier-every=0 --deal=static",
					    48 / n));
	ck_assert_double_eq(r.pushes, n * ceil(50 / 4.0)); /* the 13th is incomplete */
	/* A push of another worker counts at most once in a worker's staleness; the last push of
	 * all has counted every one. */
	double foreign = r.pushes / n * (n - 1);
	ck_assert_msg(r.stale >= foreign && r.stale <= foreign * n,
		      "%g pushes of %d workers: stale by %g, not %g to %g", r.pushes, n, r.stale,
		      foreign, foreign * n);
	ck_assert_msg(r.most_stale <= foreign && r.most_stale >= r.stale / r.pushes,
		      "%g pushes of %d workers: one is stale by %g, all by %g", r.pushes, n,
		      r.most_stale, r.stale);
}

/* ---- Communication and tables, from inside ------------------------------- */

TEST(communication_delivers_correct_results, 1, 5)
{
	char command[256], text[1024];
	if (_i > 1)
		snprintf(command, sizeof command, MPIRUN "%d ./tests/tools/comm %d 2>&1", _i, _i);
	else
		snprintf(command, sizeof command, "./tests/tools/comm 2>&1");
	int status = command_output(command, text, sizeof text);
	ck_assert_msg(status == 0 && strcmp(text, "ok\n") == 0, "%d ranks: %s", _i, text);
}

/* ---- Under the user's own launcher --------------------------------------- */

/* A run that cannot start here is refused once, whatever started the ranks, and nothing is
 * recorded. */
TEST(refusal_under_a_launcher_is_one_message, 4)
{
	static const struct {
		const char *option, *says;
		const struct device_ops *lacks; /* refused only if this device is missing */
	} row[] = {{"--device=cuda", "--device=cuda: ", &device_cuda},
		   {"--servers=1", "use --servers=0", NULL}};
	char command[512], text[4096];
	int said = 0;
	if (row[_i / 2].lacks && !row[_i / 2].lacks->probe(NULL))
		return;
	snprintf(command, sizeof command,
		 MPIRUN "%d ./mvbench run --workload=perceptron --epochs=1 --workers=%d "
			"--strategy=%s --db=%s/refused.db %s 2>&1",
		 _i % 2 + 1, _i % 2 + 1, _i % 2 ? "allreduce" : "serial", folder,
		 row[_i / 2].option);
	int status = command_output(command, text, sizeof text);
	ck_assert_msg(status == EXIT_USER, "%s\nexit status %d, not %d:\n%s", command, status,
		      EXIT_USER, text);
	for (const char *at = text; (at = strstr(at, "mvbench: ")); at++)
		said++;
	ck_assert_msg(said == 1 && strstr(text, row[_i / 2].says), "%s\nsays\n%s", command, text);
	snprintf(command, sizeof command, "%s/refused.db", folder);
	ck_assert_msg(access(command, F_OK) != 0, "%s: a refused run made %s", text, command);
}
