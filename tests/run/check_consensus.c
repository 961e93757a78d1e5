/*
 * check_consensus.c - consensus distance: after one step it follows from the data alone, equal
 * replicas have distance 0, and runs that do not measure it have none.
 */
#include "runtime/train/train.h"
#include "tests/fixture.h"
#include "tests/made.h"
#include "tests/suites.h"
#include "tests/trained.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 200, HALF = ROWS / 2, CLASSES = 10 };
static const double lr = 0.05;

/* One step an epoch, of 100 rows for each of two workers. */
#define TWO \
	"--workload=softmax --lr=0.05 --epochs=1 --workers=2 --batch=100 " \
	"--deal=static "
#define SIM "--platform=sim --sim.platform=ethernet_10g --sim.step-time=1ms "

static void set_up(void)
{
	folder_new();
	idx_put_set(ROWS, 30, false, '-');
}

/* At w = 0 softmax gives 1/10 for every class: worker i's gradient is the mean over its rows of
 * (1/10 - [class]) (x, 1). Each of two models is half of their difference away from the mean. */
static double after_one_step(void)
{
	static double g[CLASSES][PIXELS + 1];
	size_t bytes;
	uint8_t *images AUTOFREE = idx_new(IDX_IMAGES, ROWS, &bytes),
			*image = images + IDX_IMAGES_AT;
	uint8_t *labels AUTOFREE = idx_new(IDX_LABELS, ROWS, &bytes),
			*class = labels + IDX_LABELS_AT;
	const int32_t *row = data_order(ROWS, 1, 1, NULL);
	double sum = 0;
	memset(g, 0, sizeof g);
	for (size_t i = 0; i < ROWS; i++)
		for (size_t c = 0; c < CLASSES; c++) {
			double dz = (0.1 - (class[row[i]] == c)) / (i < HALF ? HALF : -HALF);
			for (size_t k = 0; k < PIXELS; k++)
				g[c][k] += dz * image[(size_t)row[i] * PIXELS + k] / 255;
			g[c][PIXELS] += dz;
		}
	for (size_t i = 0; i < CLASSES * (PIXELS + 1); i++)
		sum += g[i / (PIXELS + 1)][i % (PIXELS + 1)] *
		       g[i / (PIXELS + 1)][i % (PIXELS + 1)];
	return lr / 2 * sqrt(sum);
}

CASE("consensus", .limit = 120, .set_up = set_up, .tear_down = folder_free, .once = true);

TEST(consensus_after_one_step_is_the_known_distance)
{
	static const char *const how[] = {
		SIM "--strategy=periodic",
		SIM "--strategy=periodic --sync-every=3", /* no synchronisation before the end */
		SIM "--strategy=periodic --periodic.outer=nesterov",
		SIM "--strategy=gossip",
		SIM "--strategy=easgd --easgd.order=after",
		SIM "--strategy=asgd",
		SIM "--strategy=asgd --deal=dynamic",
		SIM "--strategy=asgd --sync-every=3",
		SIM "--strategy=bsp --servers=1",
		SIM "--strategy=ssp --ssp.updater=sgd",
		SIM "--strategy=downpour",
		"--strategy=periodic",
		"--strategy=asgd",
	};
	const double want = after_one_step();
	for (size_t i = 0; i < COUNT(how); i++) {
		char *words AUTOFREE = sentence(TWO "%s", how[i]);
		record_only(words);
		double x = number_in("run.db", "SELECT consensus FROM epoch WHERE epoch = 1");
		ck_assert_msg(fabs(x - want) <= 1e-5 * want, "%s: %.9g, wanted %.9g", words, x,
			      want);
	}
}

TEST(equal_replicas_have_distance_0, LISTED(strategies))
{
	const struct strategy *s = strategies[_i];
	if (s->canonical || s->average)
		return;
	char *words AUTOFREE =
		sentence("--workload=softmax --lr=0.05 --epochs=2 --batch=30 --workers=%d "
			 "--strategy=%s " SIM,
			 strcmp(s->plugin.name, "serial") == 0 ? 1 : 4, s->plugin.name);
	record_only(words);
	expect_in("run.db", "SELECT group_concat(ifnull(consensus, 'NULL')) FROM epoch",
		  "NULL,0.0,0.0");
}

/* Without learning, a round multiplies the distance by the second largest |eigenvalue| of the
 * matrix that mixes eight models. Those of neighbours: (1 + 2 cos(2 pi / 8)) / 3; of the
 * exponential graph (3 - 1) / (3 + 1); of a torus of 2 x 4: (1 + 2 cos(2 pi / 4) + 1) / 4. The
 * third of the exponential graph is 0.46, so that the distance falls a little faster at first. */
TEST(distance_falls_by_the_second_eigenvalue, 3)
{
	static const char *const schedule[] = {"neighbours", "exponential", "torus"};
	const double lambda[] = {(1 + 2 * cos(M_PI / 4)) / 3, 0.5, 0.5};
	char *words AUTOFREE = sentence("--workload=softmax --lr=0.05 --epochs=8 --workers=8 "
					"--batch=5 --sync-every=2 --strategy=gossip "
					"--lr-schedule=step:1:x1e-30 --gossip.schedule=%s " SIM,
					schedule[_i]);
	record_only(words);
	/* five rounds in the ten steps of two epochs */
	double fell = number_in("run.db", "SELECT b.consensus / a.consensus FROM epoch AS a, epoch "
					  "AS b WHERE a.epoch = 4 AND b.epoch = 6");
	double want = pow(lambda[_i], 5), least = _i == 1 ? 0.85 : 0.98;
	ck_assert_msg(fell < 1.02 * want && fell > least * want,
		      "%s: %.6g in five rounds, wanted %.6g", schedule[_i], fell, want);
}

/* Eight workers hear one other each, at distances of 1, 2 and 4 in turn: after three rounds all are
 * equal. The distance of epoch 2 is that after two rounds without learning, of epoch 3 after four.
 */
TEST(distance_is_0_after_log_n_rounds, 2)
{
	static const char *const schedule[] = {"one_peer", "hypercube"};
	record_only(words("--workload=softmax --lr=0.05 --epochs=3 --workers=8 --batch=5 "
			  "--sync-every=2 --strategy=gossip --lr-schedule=step:1:x1e-30 "
			  "--gossip.schedule=%s " SIM,
			  schedule[_i]));
	double at[4];
	for (int e = 1; e <= 3; e++)
		at[e] = number_in("run.db",
				  words("SELECT consensus FROM epoch WHERE epoch = %d", e));
	ck_assert_msg(at[2] > 0.05 * at[1] && at[3] < 1e-5 * at[1], "%s: %g, %g, %g", schedule[_i],
		      at[1], at[2], at[3]);
}

/* A round of pairs leaves (N - 2) / (2 (N - 1)) of the squared distance in the mean: half of it,
 * less what the models of a pair, which add up to 0 with the others, have in common. */
TEST(pairs_leave_their_share_of_the_distance)
{
	enum { SEEDS = 4, N = 8 };
	double left = 0, want = (N - 2) / (2.0 * (N - 1));
	for (int seed = 1; seed <= SEEDS; seed++) {
		record_only(words("--workload=softmax --lr=0.05 --epochs=2 --workers=%d --batch=5 "
				  "--sync-every=5 --strategy=gossip --gossip.schedule=pairs "
				  "--lr-schedule=step:1:x1e-30 --seed=%d " SIM,
				  N, seed));
		double fell =
			number_in("run.db", "SELECT b.consensus / a.consensus FROM epoch AS "
					    "a, epoch AS b WHERE a.epoch = 1 AND b.epoch = 2");
		left += fell * fell / SEEDS;
	}
	ck_assert_msg(fabs(left - want) <= 0.08 * want, "%.4f is left, wanted %.4f", left, want);
}

/* Rarer synchronisation lets models drift further apart. One worker has no other model to differ
 * from. */
TEST(consensus_is_recorded_where_it_is_measured)
{
	static const struct {
		const char *words, *want;
	} row[] = {
		{"--workers=1 --strategy=asgd", "NULL,0.0,0.0"},
		{"--workers=4 --strategy=periodic --sim.train=false", "NULL,NULL,NULL"},
		{"--workers=4 --strategy=periodic --barrier-every=0", "NULL,NULL,>"},
		{"--workers=4 --strategy=asgd --deal=dynamic --leave=1:4ms", "NULL,>,>"},
		{"--workers=4 --strategy=periodic --periodic.start=2 --sync-every=2", "NULL,0.0,>"},
	};
	for (size_t i = 0; i < COUNT(row); i++) {
		char *words AUTOFREE =
			sentence("--workload=softmax --lr=0.05 --epochs=2 --batch=25 " SIM "%s",
				 row[i].words);
		record_only(words);
		expect_in("run.db",
			  "SELECT group_concat(CASE WHEN consensus > 1e-6 THEN '>' WHEN consensus "
			  "THEN '0.0' ELSE ifnull(consensus, 'NULL') END) FROM epoch",
			  row[i].want);
	}
	record_only("--workload=softmax --lr=0.05 --epochs=1 --batch=5 --workers=2 "
		    "--strategy=periodic --sync-every=1 " SIM);
	record_run("--workload=softmax --lr=0.05 --epochs=1 --batch=5 --workers=2 "
		   "--strategy=periodic --sync-every=10 " SIM);
	ck_assert_double_gt(number_in("run.db", "SELECT b.consensus / a.consensus FROM epoch AS a, "
						"epoch AS b WHERE a.run_id = 1 AND b.run_id = 2 "
						"AND a.epoch = 1 AND b.epoch = 1"),
			    1.5);
}
