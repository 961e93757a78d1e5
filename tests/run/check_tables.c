/*
 * check_tables.c - the parameter server: its tables in every placement (tests/tools/table, on
 * several ranks), its updaters compared with their formulas in double precision, the identities of
 * strategies that use it, and what --record stores.
 */
#include "results/gate/gate.h"
#include "runtime/table/table.h"
#include "strategies/exchange.h"
#include "tests/suites.h"
#include "tests/trained.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MLP "--workload=mlp --mlp.hidden=32 --lr=0.05 --epochs=1"

/* ---- From inside ------------------------------------------------------------- */

static const struct {
	const char *placement;
	int workers, servers;
} place[] = {
	{"shared", 1, 0},   {"shared", 2, 0},   {"shared", 3, 0},   {"shared", 4, 0},
	{"onesided", 1, 0}, {"onesided", 2, 0}, {"onesided", 3, 0}, {"servers", 1, 1},
	{"servers", 2, 1},  {"servers", 3, 1},  {"servers", 2, 2},  {"servers", 3, 3},
};
enum { PLACES = COUNT(place) };

CASE("tables", .limit = 300, .set_up = trained_data, .tear_down = folder_free, .once = true);

TEST(tables_hold_what_was_pushed_in_every_placement, PLACES)
{
	int ranks = place[_i].workers + place[_i].servers;
	char text[2048], *mpirun AUTOFREE = sentence(MPIRUN "%d ", ranks);
	char *command AUTOFREE =
		sentence("%s./tests/tools/table %s %d 2>&1", ranks > 1 ? mpirun : "",
			 place[_i].placement, place[_i].servers);
	int status = command_output(command, text, sizeof text);
	ck_assert_msg(status == 0 && strcmp(text, "ok\n") == 0, "%s: status %d\n%s", command,
		      status, text);
}

/* ---- Updaters, compared with their formulas ------------------------------ */

struct element {
	double w, state, more, own[2], pulled[2];
	int t;
};

static void by_the_book(const char *name, struct element *e, int k, double g, int tau)
{
	const double lr = 0.1, m = 0.8, rho = 0.2, lambda = 0.5, scale = 0.25;
	if (strcmp(name, "add") == 0) {
		e->w += scale * g;
	} else if (strcmp(name, "sgd") == 0) {
		e->w -= lr * g;
	} else if (strcmp(name, "momentum") == 0) {
		e->state = m * e->state + g;
		e->w -= lr * e->state;
	} else if (strcmp(name, "momentum_ema") == 0) {
		e->state = m * e->state + (1 - m) * g;
		e->w -= lr * e->state;
	} else if (strcmp(name, "adagrad") == 0) {
		e->own[k] += g * g;
		e->w -= rho / sqrt(e->own[k] + 1e-6) * g;
	} else if (strcmp(name, "adagrad_shared") == 0) {
		e->state += g * g;
		e->w -= rho / sqrt(e->state + 1e-6) * g;
	} else if (strcmp(name, "dcasgd") == 0) {
		e->w -= lr * (g + lambda * g * g * (e->w - e->pulled[k]));
	} else if (strcmp(name, "dcasgda") == 0) {
		e->own[k] = m * e->own[k] + (1 - m) * g * g;
		e->w -= lr * (g + lambda / sqrt(e->own[k] + 1e-7) * g * g * (e->w - e->pulled[k]));
	} else if (strcmp(name, "adam") == 0) {
		e->t++;
		e->state = 0.9 * e->state + 0.1 * g;
		e->more = 0.95 * e->more + 0.05 * g * g;
		e->w -= lr * e->state / (1 - pow(0.9, e->t)) /
			(sqrt(e->more / (1 - pow(0.95, e->t))) + 1e-3);
	} else if (strcmp(name, "delayed_nesterov") == 0) { /* each third push moves the mean */
		double change = scale * g, share = lambda;
		e->more += change;
		if (++e->t % 3 == 0) {
			e->state = m * e->state + e->more;
			e->more = 0;
			share = 1 - 3 * lambda + lambda;
		}
		e->w += lr / scale * (change + share * m * e->state);
	} else if (strcmp(name, "staleness") == 0) {
		e->w -= lr / (tau > 1 ? tau : 1) * g;
	} else {
		ck_abort_msg("%s has no formula in this test: add it here", name);
	}
	e->pulled[k] = e->w;
}

TEST(updaters_follow_their_formulas, LISTED(updaters))
{
	enum { PUSHES = 30, N = 37 };
	const struct updater *u = updaters[_i];
	const struct push by = {.scale = 0.25f,
				.lr = 0.1f,
				.momentum = 0.8,
				.rho = 0.2f,
				.lambda = 0.5f,
				.period = strcmp(u->name, "delayed_nesterov") == 0 ? 3 : 0,
				.beta = {0.9, 0.95},
				.eps = 1e-3f};
	float w[N], state[N] = {0}, more[N] = {0}, own[2][N] = {{0}}, pulled[2][N], g[N];
	struct element book[N] = {{0}};
	uint64_t rng = 5;
	for (int j = 0; j < N; j++) {
		w[j] = pulled[0][j] = pulled[1][j] = (float)rng_normal(&rng);
		book[j].w = book[j].pulled[0] = book[j].pulled[1] = w[j];
	}
	for (int i = 0; i < PUSHES; i++) {
		int k = i % 3 == 0, tau = i % 4; /* two workers, not in alternation */
		for (int j = 0; j < N; j++)
			g[j] = (float)rng_normal(&rng);
		u->apply(&(struct update){.w = w,
					  .state = state,
					  .more = more,
					  .own = own[k],
					  .pulled = pulled[k],
					  .values = g,
					  .by = by,
					  .staleness = tau,
					  .number = i + 1},
			 N);
		memcpy(pulled[k], w, sizeof w);
		for (int j = 0; j < N; j++)
			by_the_book(u->name, &book[j], k, g[j], tau);
	}
	for (int j = 0; j < N; j++)
		ck_assert_msg(fabs(w[j] - book[j].w) <= 1e-4 * fmax(1, fabs(book[j].w)),
			      "%s: float %d is %g, the formula gives %g", u->name, j, (double)w[j],
			      book[j].w);
}

/* The first push of means that start at 0: 1 - beta of a rounded beta is wrong here by percents. */
TEST(first_push_takes_the_exact_rest_to_one, LISTED(updaters))
{
	enum { N = 37 }; /* whole vectors of 16, and a rest */
	const struct updater *u = updaters[_i];
	const double near = 0.999999, g = 0.5;
	const struct push by = {.lr = 1, .momentum = near, .beta = {near, near}, .eps = 1e-8f};
	float w[N] = {0}, state[N] = {0}, more[N] = {0}, own[N] = {0}, pulled[N] = {0}, values[N];
	bool mean = strcmp(u->name, "momentum_ema") == 0, square = strcmp(u->name, "dcasgda") == 0,
	     adam = strcmp(u->name, "adam") == 0;
	for (int j = 0; j < N; j++)
		values[j] = (float)g;
	u->apply(&(struct update){.w = w,
				  .state = state,
				  .more = more,
				  .own = own,
				  .pulled = pulled,
				  .values = values,
				  .by = by,
				  .number = 1},
		 N);
	for (int j = 0; j < N; j++) {
		if (adam || mean)
			ck_assert_double_eq_tol(state[j], (1 - near) * g, 1e-6 * (1 - near));
		if (adam)
			ck_assert_double_eq_tol(more[j], (1 - near) * g * g, 1e-6 * (1 - near));
		if (square)
			ck_assert_double_eq_tol(own[j], (1 - near) * g * g, 1e-6 * (1 - near));
		if (adam)
			ck_assert_double_eq_tol(w[j], -1, 1e-6);
	}
}

/* The option's choices are all updaters, in the order of the list. */
TEST(every_updater_can_be_chosen)
{
	const char *name[64];
	size_t n = 0;
	for (; updaters[n]; n++)
		name[n] = updaters[n]->name;
	char *names AUTOFREE = text_list(name, n, "|");
	ck_assert_str_eq(names, UPDATERS);
	ck_assert_ptr_null(updater_find("nesterov"));
}

TEST(staleness_bins_contain_their_range)
{
	int64_t before = -1;
	for (int bin = 0; bin < STALENESS_BINS; bin++) {
		struct stats s = {.room = 0};
		int64_t least = staleness_of_bin(bin);
		ck_assert_int_gt(least, before);
		stats_push(&s, least);
		ck_assert_int_eq(s.staleness[bin], 1);
		if (bin > 0) {
			stats_push(&s, least - 1);
			ck_assert_int_eq(s.staleness[bin - 1], 1);
		}
		before = least;
	}
	struct stats s = {.room = 0};
	stats_push(&s, INT64_MAX);
	ck_assert_int_eq(s.staleness[STALENESS_BINS - 1], 1);
	ck_assert_int_eq(s.staleness_max, INT64_MAX);
}

/* ---- Identities ---------------------------------------------------------------- */

/* With one worker nothing is stale: these updaters equal the local optimiser. */
TEST(one_worker_with_an_updater_is_serial, 15)
{
	static const char *const strategy[] = {"asgd", "bsp", "ssp"};
	static const char *const updater[] = {"sgd", "momentum", "dcasgd", "dcasgda", "staleness"};
	const char *s = strategy[_i % 3], *u = updater[_i / 3];
	const char *how[2 * 2];
	struct result r[2 * 2];
	for (int i = 0; i < 2; i++) {
		const char *same = i ? MLP " --batch=48"
				     : MLP " --batch=48 --momentum=0.9 --weight-decay=1e-3";
		how[2 * i] = words("%s --strategy=%s --%s.updater=%s", same, s, s, u);
		how[2 * i + 1] = words("%s --strategy=serial", same);
	}
	train_all(1, 2 * 2, how, r);
	compare_runs(&r[0], how[0], &r[1], how[1], 1e-7);
	compare_runs(&r[2], how[2], &r[3], how[3], 0);
}

/* Adam's M and S on the server equal adamw's on the worker if nothing decays. */
TEST(one_worker_with_adam_is_adamw, 5)
{
	static const char *const how[] = {"--strategy=asgd --asgd.updater=adam --asgd.eps=1e-6",
					  "--strategy=bsp --bsp.updater=adam --bsp.eps=1e-6",
					  "--strategy=ssp --ssp.updater=adam --ssp.eps=1e-6",
					  "--strategy=downpour --downpour.updater=adam "
					  "--downpour.eps=1e-6",
					  "--strategy=asgd --asgd.updater=adam --asgd.eps=1e-6 "
					  "--workers=1 --servers=1"};
	const char *same = MLP " --batch=48 --lr=0.003";
	expect_same(strstr(how[_i], "--servers") ? 2 : 1,
		    words("%s --momentum=0 %s", same, how[_i]), 1,
		    words("%s --optimizer=adamw --adamw.eps=1e-6", same), 0);
}

TEST(bsp_every_step_is_allreduce, 2, 5)
{
	static const char *const updater[] = {"add", "sgd"};
	const char *how[2 * 2];
	for (int i = 0; i < 2; i++) {
		const char *same =
			words(MLP " --batch=24 %s", i ? "--reduce=sum --lr=0.01" : "--reduce=mean");
		how[2 * i] = words("%s --strategy=bsp --bsp.updater=%s", same, updater[_i % 2]);
		how[2 * i + 1] = words("%s --strategy=allreduce", same);
	}
	expect_pairs(_i, 2, how, 1e-6);
}

TEST(ssp_with_bound_0_is_bsp, 2, 4)
{
	const char *same = MLP " --batch=24 --momentum=0.9 --sync-every=3";
	expect_same(_i, words("%s --strategy=ssp --ssp.bound=0", same), _i,
		    words("%s --strategy=bsp", same), 2e-6);
}

/* With exchanges at barriers only, nothing but the order of arrival could differ. */
TEST(ssp_without_bound_is_asgd, 2, 4)
{
	const char *same = MLP " --deal=static --epochs=3 --batch=24 --sync-every=1000";
	const char *asgd = words("%s --strategy=asgd", same);
	const char *how[] = {words("%s --strategy=ssp --ssp.bound=1000000", same), asgd,
			     words("%s --strategy=downpour", same), asgd};
	expect_pairs(_i, 2, how, 1e-6);
}

/* On one worker, pushes after F steps and pulls after X coincide after every lcm of both. */
TEST(downpour_pushes_and_pulls_at_two_intervals)
{
	const char *same = MLP " --batch=48 --momentum=0.9 --weight-decay=1e-3";
	const char *how[] = {
		words("%s --strategy=serial", same),
		words("%s --strategy=downpour --downpour.send=1 --sync-every=4", same),
		words("%s --strategy=downpour --downpour.send=4 --sync-every=1", same)};
	struct result r[3];
	train_all(1, 3, how, r);
	double d = distance(&r[1], &r[0]);
	ck_assert_msg(d <= 2e-6, "every step pushed: differs from serial by %g", d);
	ck_assert_double_eq(r[1].pushes, 50);
	d = distance(&r[2], &r[0]);
	ck_assert_msg(d > 1e-4, "pulls without the own last steps change nothing: %g", d);
	ck_assert_double_eq(r[2].pushes, 13);
}

/* A trainer is at most `bound` exchanges ahead of the slowest. Between its pull and its push
 * another trainer therefore makes at most 2 bound + 1 pushes. */
TEST(ssp_bound_limits_staleness, 1, 3)
{
	int bound = _i, n = 3;
	struct result r = train_ok(n, words(MLP " --batch=8 --straggle=1 --strategy=ssp "
						"--ssp.bound=%d",
					    bound));
	ck_assert_msg(r.most_stale <= (n - 1) * (2 * bound + 1) && r.most_stale > 0,
		      "with a bound of %d a push has staleness %g", bound, r.most_stale);
}

/* Stragglers' pushes are dropped; without backup workers none is. */
TEST(late_pushes_of_stragglers_are_dropped)
{
	const char *same = MLP " --deal=static --batch=8 --straggle=1 --strategy=bsp";
	const char *how[] = {same, words("%s --bsp.backup=1", same)};
	struct result r[2], *all = &r[0], *some = &r[1];
	train_all(3, 2, how, r);
	ck_assert_double_eq(all->pushes, 3 * 100);
	ck_assert_msg(some->pushes < 300 && some->pushes >= 200, "%g of 300 pushes count",
		      some->pushes);
	ck_assert_msg(some->test_loss < 0.9 * some->first_test_loss,
		      "it learns nothing: %g, at first %g", some->test_loss, some->first_test_loss);
}

/* One worker and one exchange, after the last of 50 steps: c = c_0 + beta (w - c_0). */
TEST(centre_moves_by_beta)
{
	const char *same = MLP " --batch=48 --momentum=0.9", *how[4];
	struct result c[4];
	for (int i = 0; i < 3; i++)
		how[i] = words(
			"%s --strategy=easgd --easgd.order=after --sync-every=50 --easgd.beta=%g",
			same, 0.5 * i);
	how[3] = words("%s --strategy=serial", same);
	train_all(1, 4, how, c);
	for (size_t i = 0; i < c[0].params; i++)
		c[0].param[i] = (c[0].param[i] + c[2].param[i]) / 2;
	double d = distance(&c[1], &c[0]);
	ck_assert_msg(d <= 1e-6, "half of beta does not move half as far: off by %g", d);
	ck_assert_double_gt(distance(&c[1], &c[2]), 1e-2);
	compare_runs(&c[2], how[2], &c[3], how[3], 1e-6);
}

/* ---- Downpour, compared with its formula ----------- */

enum { INPUTS = PIXELS, OUTPUTS = 10, SOFTMAX = OUTPUTS * (INPUTS + 1) };

/* The gradient of softmax regression's mean loss over all rows; w and g are W[10 x 784], b[10]. */
static void whole_gradient(const uint8_t *image, const uint8_t *label, const double *w, double *g)
{
	memset(g, 0, SOFTMAX * sizeof *g);
	for (size_t r = 0; r < TRAIN_ROWS; r++) {
		const uint8_t *x = image + r * INPUTS;
		double z[OUTPUTS], most = -INFINITY, sum = 0;
		for (int o = 0; o < OUTPUTS; o++) {
			z[o] = w[OUTPUTS * INPUTS + o];
			for (int i = 0; i < INPUTS; i++)
				z[o] += w[o * INPUTS + i] * x[i] / 255;
			most = fmax(most, z[o]);
		}
		for (int o = 0; o < OUTPUTS; o++)
			sum += z[o] = exp(z[o] - most);
		for (int o = 0; o < OUTPUTS; o++) {
			double dz = (z[o] / sum - (label[r] == o)) / TRAIN_ROWS;
			g[OUTPUTS * INPUTS + o] += dz;
			for (int i = 0; i < INPUTS; i++)
				g[o * INPUTS + i] += dz * x[i] / 255;
		}
	}
}

/* Dean's downpour: accrued gradients to a server with Adagrad, one worker, whole batches, in double
 * precision. */
TEST(downpour_with_adagrad_equals_the_formula, 3)
{
	static const int send[] = {1, 2, 2}, pull[] = {1, 2, 4};
	enum { STEPS = 8 };
	const double lr = 0.2, rho = 0.01;
	static double w[SOFTMAX], local[SOFTMAX], g[SOFTMAX], acc[SOFTMAX], square[SOFTMAX];
	size_t bytes;
	uint8_t *image AUTOFREE = idx_new(IDX_IMAGES, TRAIN_ROWS, &bytes);
	uint8_t *label AUTOFREE = idx_new(IDX_LABELS, TRAIN_ROWS, &bytes);
	for (int t = 1; t <= STEPS; t++) {
		whole_gradient(image + IDX_IMAGES_AT, label + IDX_LABELS_AT, local, g);
		for (int i = 0; i < SOFTMAX; i++) {
			acc[i] += g[i];
			local[i] -= lr * g[i];
			if (t % send[_i] == 0) {
				square[i] += acc[i] * acc[i];
				w[i] -= rho / sqrt(square[i] + 1e-6) * acc[i];
				acc[i] = 0;
			}
			if (t % pull[_i] == 0)
				local[i] = w[i];
		}
	}
	struct result r = train_ok(
		1, words("--workload=softmax --batch=%d --epochs=%d --barrier-every=0 --momentum=0 "
			 "--lr=%g --lr-schedule=constant --strategy=downpour --downpour.send=%d "
			 "--sync-every=%d --downpour.updater=adagrad --downpour.rho=%g",
			 TRAIN_ROWS, STEPS, lr, send[_i], pull[_i], rho));
	double d = 0, n = 0;
	ck_assert_uint_eq(r.params, SOFTMAX);
	for (int i = 0; i < SOFTMAX; i++) {
		d += pow(r.param[i] - w[i], 2);
		n += pow(w[i], 2);
	}
	ck_assert_msg(n > 0 && sqrt(d / n) <= 1e-4, "off by %g", sqrt(d / n));
}

/* ---- Elastic averaging ---- */

#define FREEZE "--momentum=0 --lr-schedule=step:1:x1e-30 "
#define ELASTIC \
	MLP " " FREEZE \
	    "--strategy=easgd --easgd.form=synchronous --easgd.order=after --sync-every=50 " \
	    "--batch=%d "

/* Synchronous: c_1 = c_0 + beta (mean w - c_0) after 50 steps. After that the learning rate is 0,
 * and the next exchange has c_2 = c_1 + beta (mean w - alpha (mean w - c_0) - c_1). */
TEST(synchronous_centre_moves_by_beta, 2, 4)
{
	const double beta = 0.6, alpha = beta / _i;
	double d = 0, n = 0;
	const char *how[] = {
		words(ELASTIC "--lr=0", 48 / _i),
		/* workers that never synchronise are evaluated at their mean */
		words(MLP " " FREEZE "--strategy=periodic --sync-every=51 --batch=%d", 48 / _i),
		words(ELASTIC "--easgd.beta=%g", 48 / _i, beta),
		words(ELASTIC "--easgd.beta=%g --epochs=2", 48 / _i, beta)};
	struct result r[4], *w0 = &r[0], *mean = &r[1], *c1 = &r[2], *c2 = &r[3];
	train_all(_i, 4, how, r);
	for (size_t i = 0; i < w0->params; i++) {
		double m = mean->param[i], c0 = w0->param[i], one = c0 + beta * (m - c0);
		double two = one + beta * (m - alpha * (m - c0) - one);
		d += pow(c1->param[i] - one, 2) + pow(c2->param[i] - two, 2);
		n += pow(m - c0, 2);
	}
	ck_assert_msg(n > 0 && sqrt(d / n) <= 1e-5, "%d workers: off by %g of the way", _i,
		      sqrt(d / n));
}

/* With one worker both forms are the same. */
TEST(synchronous_easgd_on_one_worker_equals_asynchronous, 2)
{
	const char *same =
		words(MLP " --batch=48 --momentum=0.9 --weight-decay=0.1 --strategy=easgd "
			  "--sync-every=3 --easgd.order=%s",
		      _i ? "together" : "after");
	expect_same(1, words("%s --easgd.form=synchronous", same), 1, same, 1e-6);
}

/* The worker pulls at the model w with which the last of 50 steps begins; that step moves it by s -
 * w. With e = alpha (w - c_0) the centre is c_1 = c_0 + e, and the worker is at s - e, where s is
 * the serial run's model. The next exchange, without learning, has c_2 = c_1 + alpha (s - e -
 * c_1). */
TEST(easgd_exchanges_at_the_model_of_the_gradient, 2)
{
	static const char *const form[] = {"asynchronous", "synchronous"};
	const double alpha = 0.5;
	const char *same = MLP " " FREEZE "--batch=48 --weight-decay=0.1 ";
	const char *easgd =
		words("%s --strategy=easgd --sync-every=50 --easgd.beta=%g --easgd.form=%s", same,
		      alpha, form[_i]);
	const char *how[] = {words("%s --strategy=serial", same), words("%s --lr=0", easgd), easgd,
			     words("%s --epochs=2", easgd), words("%s --easgd.order=after", easgd)};
	struct result r[5], *s = &r[0], *c0 = &r[1], *c1 = &r[2], *c2 = &r[3], *after = &r[4];
	train_all(1, 5, how, r);
	double d = 0, n = 0;
	for (size_t i = 0; i < s->params; i++) {
		double e = (double)c1->param[i] - c0->param[i];
		double want = c1->param[i] + alpha * (s->param[i] - e - c1->param[i]);
		d += pow(c2->param[i] - want, 2);
		n += pow(e, 2);
	}
	ck_assert_msg(n > 0 && sqrt(d / n) <= 1e-5, "off by %g of the pull", sqrt(d / n));
	ck_assert_double_gt(distance(c1, after), 1e-5); /* the change of the last step */
}

/* ---- What --record stores ------------------------------------------------ */

#define SMALL "--mlp.hidden=16 "

TEST(order_of_arrival_is_recorded, 3)
{
	static const struct {
		const char *words, *says;
	} row[] = {
		{"--workers=2", "100,4,2,1,100\r\n"},
		{"--workers=2 --servers=1", "100,4,2,1,100\r\n"},
		{"--workers=1", "100,2,1,1,100\r\n"},
	};
	/* 2,400 rows, 50 pushes an epoch, the first pull of each worker, and one after the barrier
	 * between the epochs */
	expect_recorded(
		"", words(SMALL "--strategy=asgd --batch=48 --epochs=2 --record %s", row[_i].words),
		"SELECT sum(kind = 'sync'), sum(kind = 'pull'), "
		"count(DISTINCT worker), max(seq) - min(seq) + 1 = count(*), "
		"(SELECT sum(pushes) FROM epoch) FROM arrival WHERE table_id = 0",
		row[_i].says);
}

/* 3 workers of 50 pushes: some are dropped, and the histogram has those that count. */
TEST(dropped_fraction_is_of_all_pushes)
{
	expect_recorded(
		"",
		SMALL
		"--strategy=bsp --bsp.backup=1 --deal=static --workers=3 --batch=16 --epochs=1 "
		"--step-time=2ms --speed=2:0.2",
		"SELECT sum(pushes) + sum(dropped), sum(dropped) > 0, "
		"(SELECT round(150 * dropped_fraction) FROM run_summary) = sum(dropped), "
		"(SELECT sum(pushes) FROM staleness) = sum(pushes) FROM epoch",
		"150,1,1,1\r\n");
}

TEST(impossible_placements_and_recordings_are_refused)
{
	static const struct {
		const char *words, *says;
	} row[] = {
		{"--strategy=allreduce --workers=2 --servers=1", "keeps nothing on a server"},
		{"--strategy=allreduce --workers=2 --record", "pushes nothing to a server"},
		{"--strategy=gossip --workers=2 --table-home=onesided", "keeps nothing in tables"},
		{"--strategy=asgd --workers=2 --table-home=servers", "give --servers=1 or more"},
		{"--strategy=asgd --workers=2 --servers=1 --table-home=shared", "leave one"},
		{"--strategy=asgd --workers=2 --table-home=onesided --record", "have no order"},
		{"--strategy=bsp --workers=2 --bsp.backup=2", "at least one has to count"},
		{"--strategy=asgd --workers=2 --asgd.updater=nesterov", "nesterov"},
		{"--strategy=asgd --workers=2 --asgd.updater=adam --momentum=0.9",
		 "--asgd.beta1 and --asgd.beta2 in its place; give --momentum=0"},
		{"--strategy=easgd --workers=2 --easgd.form=synchronous --servers=1",
		 "synchronous: each"},
		{"--strategy=easgd --workers=2 --easgd.form=synchronous --record",
		 "no order of arrival"},
		{"--strategy=easgd --workers=2 --easgd.form=synchronous --leave=0:1s",
		 "none can --leave"},
		{"--strategy=easgd --workers=2 --easgd.form=synchronous --deal=dynamic",
		 "give --easgd.form=asynchronous"},
		{"--strategy=asgd --workers=0 --servers=1", "--workers"},
	};
	for (size_t i = 0; i < COUNT(row); i++)
		expect_refused("", words(SMALL "%s", row[i].words), row[i].says);
}
