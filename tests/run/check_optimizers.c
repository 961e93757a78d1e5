/*
 * check_optimizers.c - the steps that optimisers make of given gradients. They equal PyTorch's
 * numbers, or formulas in double precision where PyTorch has none or not in float32. Strategies
 * that are equal are so with each optimiser.
 */
#include "runtime/config/config.h"
#include "tests/trained.h"
#include "tests/suites.h"
#include "runtime/train/trainer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 4, COLUMNS = 5, N = ROWS * COLUMNS + ROWS, STEPS = 100 };

/* The same float as in tests/reference/torch_optimizers.py: from -1 to 1. */
static float made(size_t i, int t)
{
	return (float)((long)(i * 7919 + (size_t)t * 104729 + 12345) % 2001 - 1000) / 1000;
}

static const struct stepped {
	const char *name;
	int step;
	float param[N];
} torch[] = {
#include "tests/reference/torch_optimizers.inc"
};

/* A worker whose model is a matrix and a bias; `given` sets its options. */
struct setup {
	struct fixture f;
	struct config c;
	struct tensor tensor[2];
};

static void setup_open(struct setup *b, const struct setting *given, size_t n)
{
	char *wrong = config_init(&b->c, given, n, false);
	ck_assert_msg(!wrong, "%s", wrong);
	fixture_open(&b->f, &device_cpu);
	struct worker *w = &b->f.w;
	w->run = &b->c.run;
	w->lr = b->c.run.lr;
	w->optimizer = b->c.optimizer;
	w->optimizer_opts = b->c.optimizer_opts;
	w->model_group = comm_layout(0, 1);
	model_layout(w,
		     &(struct layout){.params = N, .layers = 1, .layer = (const size_t[]){0, N}});
	b->tensor[0] = (struct tensor){.rows = ROWS, .columns = COLUMNS, .hidden = true};
	b->tensor[1] = (struct tensor){
		.first = ROWS * COLUMNS, .rows = 1, .columns = ROWS, .spared = true};
	model_tensors(w, b->tensor, 2);
	float x[N];
	for (size_t i = 0; i < N; i++)
		x[i] = made(i, 0);
	vec_put(w->param, x);
}

/* Step t, with the gradient scale * made(). A sum over four workers uses the scale 1/4. */
static void setup_step(struct setup *b, int t, float scale)
{
	struct worker *w = &b->f.w;
	float g[N];
	for (size_t i = 0; i < N; i++)
		g[i] = made(i, t) / scale;
	vec_put(w->grad, g);
	w->step = t;
	local_begin(w);
	local_step(w, scale);
}

static void setup_close(struct setup *b)
{
	keepsakes_free(&b->f.w);
	model_close(&b->f.w);
	comm_free(b->f.w.model_group);
	b->f.w.run = b->f.run;
	fixture_close(&b->f);
	config_fini(&b->c);
}

/* ---- PyTorch's ----------------------------------------------------------- */

static const struct setting by_name[][7] = {
	{{"lr", "0.05"}, {"weight-decay", "0.1"}, {"momentum", "0"}, {"workload", "mlp"}, {0}},
	{{"lr", "0.05"}, {"weight-decay", "0.1"}, {"momentum", "0.9"}, {0}},
	{{"lr", "0.05"},
	 {"weight-decay", "0.1"},
	 {"momentum", "0.9"},
	 {"optimizer", "nesterov"},
	 {0}},
	{{"lr", "0.05"},
	 {"weight-decay", "0.1"},
	 {"optimizer", "adamw"},
	 {"adamw.beta2", "0.95"},
	 {"decay", "all"},
	 {0}},
	{{"lr", "0.05"}, {"weight-decay", "0.1"}, {"optimizer", "adagrad"}, {0}},
	{{"lr", "0.05"},
	 {"weight-decay", "0.1"},
	 {"optimizer", "adamw"},
	 {"adamw.beta2", "0.95"},
	 {"decay", "all"},
	 {"clip", "1.5"},
	 {0}},
};
static const char *const cases[] = {"sgd", "momentum", "nesterov", "adamw", "adagrad", "clipped"};

CASE("steps");

TEST(steps_are_those_of_pytorch, COUNT(cases))
{
	struct setup b;
	size_t n = 0, compared = 0;
	while (n < 7 && by_name[_i][n].name)
		n++;
	setup_open(&b, by_name[_i], n);
	for (int t = 1; t <= STEPS; t++) {
		setup_step(&b, t, t % 2 ? 1 : 0.25f);
		for (size_t k = 0; k + 1 <= COUNT(torch); k++) {
			if (torch[k].step != t || strcmp(torch[k].name, cases[_i]) != 0)
				continue;
			float *p AUTOFREE = fixture_get(b.f.w.param);
			for (size_t i = 0; i < N; i++)
				ck_assert_msg(fabsf(p[i] - torch[k].param[i]) < 1e-6f,
					      "%s, step %d: param[%zu] is %.9g, PyTorch's %.9g",
					      cases[_i], t, i, (double)p[i],
					      (double)torch[k].param[i]);
			compared++;
		}
	}
	ck_assert_uint_eq(compared, 6);
	setup_close(&b);
}

/* adamw moves each float by lr in its first step, whatever its betas are; muon its bias by 0.05 lr.
 * A worker's optimiser, and one of a strategy. */
TEST(first_step_of_adamw_is_lr_long, 3)
{
	static const char *const beta[] = {"0.9", "0.9999", "0.999999"};
	for (int muon = 0; muon < 2; muon++) {
		const struct setting given[] = {
			{"optimizer", muon ? "muon" : "adamw"},
			{"lr", "0.05"},
			{muon ? "muon.beta1" : "adamw.beta1", beta[2 - _i]},
			{muon ? "muon.beta2" : "adamw.beta2", beta[_i]},
		};
		char *how AUTOFREE =
			sentence("%s:beta1=%s:beta2=%s", given[0].value, beta[2 - _i], beta[_i]);
		struct setup b;
		setup_open(&b, given, COUNT(given));
		struct vec *outer = vec_new(&b.f.w, N), *g = vec_new(&b.f.w, N);
		struct stepper *s = stepper_new(&b.f.w, how, 0, outer, g);
		setup_step(&b, 1, 1);
		vec_copy(g, b.f.w.grad);
		stepper_step(s, 0.05, 0, 1);
		float *p AUTOFREE = fixture_get(b.f.w.param), *q AUTOFREE = fixture_get(outer);
		for (size_t i = muon ? ROWS * COLUMNS : 0; i < N; i++) {
			double by =
				0.05 * (muon ? 0.05 : 1) * ((made(i, 1) < 0) - (made(i, 1) > 0));
			ck_assert_double_eq_tol(p[i], made(i, 0) + by, 2e-6);
			ck_assert_double_eq_tol(q[i], by, 2e-6);
		}
		stepper_free(s);
		vec_free(outer);
		vec_free(g);
		setup_close(&b);
	}
}

/* ---- Formulas in double precision ---------------------------------------- */

TEST(lion_is_its_formula)
{
	const struct setting given[] = {{"optimizer", "lion"},
					{"lr", "0.01"},
					{"weight-decay", "0.3"}}; /* of weights only */
	const double b1 = 0.9, b2 = 0.99;
	double x[N], m[N] = {0};
	struct setup b;
	setup_open(&b, given, COUNT(given));
	for (size_t i = 0; i < N; i++)
		x[i] = made(i, 0);
	for (int t = 1; t <= STEPS; t++) {
		setup_step(&b, t, 0.5f);
		for (size_t i = 0; i < N; i++) {
			double g = made(i, t), u = b1 * m[i] + (1 - b1) * g;
			m[i] = b2 * m[i] + (1 - b2) * g;
			x[i] -= 0.01 * ((u > 0) - (u < 0) + (i < ROWS * COLUMNS ? 0.3 : 0) * x[i]);
		}
	}
	float *p AUTOFREE = fixture_get(b.f.w.param);
	for (size_t i = 0; i < N; i++)
		ck_assert_double_eq_tol(p[i], x[i], 2e-6);
	setup_close(&b);
}

/* x[r x c] becomes NS(x). */
static void newton_schulz(double *x, int r, int c)
{
	double sum = 0, a[COLUMNS][COLUMNS], aa[COLUMNS][COLUMNS], y[COLUMNS * COLUMNS] = {0};
	for (int i = 0; i < r * c; i++)
		sum += x[i] * x[i];
	for (int i = 0; i < r * c; i++)
		x[i] /= sqrt(sum);
	for (int k = 0; k < 5; k++) {
		for (int i = 0; i < r; i++)
			for (int j = 0; j < r; j++) {
				a[i][j] = 0;
				for (int l = 0; l < c; l++)
					a[i][j] += x[i * c + l] * x[j * c + l];
			}
		for (int i = 0; i < r; i++)
			for (int j = 0; j < r; j++) {
				aa[i][j] = 0;
				for (int l = 0; l < r; l++)
					aa[i][j] += a[i][l] * a[l][j];
			}
		for (int i = 0; i < r; i++)
			for (int j = 0; j < c; j++) {
				y[i * c + j] = 3.4445 * x[i * c + j];
				for (int l = 0; l < r; l++)
					y[i * c + j] += (-4.7750 * a[i][l] + 2.0315 * aa[i][l]) *
							x[l * c + j];
			}
		memcpy(x, y, (size_t)(r * c) * sizeof *x);
	}
}

/* x -= the step of lamb or lars by g, whose tensors are a matrix and a bias. */
static void tensor_step(bool lars, double *x, const double *g, double *m, double *s, int t,
			double lr, const double decay[2])
{
	const int from[] = {0, ROWS * COLUMNS, N};
	for (int k = 0; k < 2; k++) {
		double xx = 0, uu = 0, u[N] = {0};
		for (int i = from[k]; i < from[k + 1]; i++) {
			u[i] = g[i];
			if (!lars) {
				m[i] = 0.9 * m[i] + 0.1 * g[i];
				s[i] = 0.999 * s[i] + 0.001 * g[i] * g[i];
				u[i] = m[i] / (1 - pow(0.9, t)) /
					       (sqrt(s[i] / (1 - pow(0.999, t))) + 1e-6) +
				       decay[k] * x[i];
			}
			xx += x[i] * x[i];
			uu += u[i] * u[i];
		}
		double over = sqrt(uu) + (lars ? decay[k] * sqrt(xx) : 0),
		       by = xx == 0 || over == 0 ? 1 : (lars ? 0.001 : 1) * sqrt(xx) / over;
		for (int i = from[k]; i < from[k + 1]; i++) {
			m[i] = lars ? 0.9 * m[i] + lr * by * (u[i] + decay[k] * x[i]) : m[i];
			x[i] -= lars ? m[i] : lr * by * u[i];
		}
	}
}

/* As optimisers of a worker, with decay of the matrix, and of a strategy, which has none. */
TEST(lamb_and_lars_are_their_formulas, 4)
{
	const bool lars = _i % 2, outer = _i / 2;
	const double lr = lars ? 3 : 0.02, decay[] = {outer ? 0 : 0.3, 0};
	const char *name = lars ? "lars" : "lamb";
	const struct setting given[] = {{"optimizer", name},
					{"lr", lars ? "3" : "0.02"},
					{"momentum", lars ? "0.9" : "0"},
					{"weight-decay", "0.3"}};
	double x[N] = {0}, m[N] = {0}, s[N] = {0}, g[N];
	struct setup b;
	setup_open(&b, given, COUNT(given));
	struct vec *y = vec_new(&b.f.w, N), *of_y = vec_new(&b.f.w, N);
	struct stepper *second = stepper_new(&b.f.w, name, 0.9, y, of_y);
	float start[N] = {0};
	for (size_t i = 0; i < ROWS * COLUMNS; i++) /* the bias begins at 0 */
		x[i] = start[i] = made(i, 0);
	vec_put(b.f.w.param, start);
	vec_put(y, start);
	for (int t = 1; t <= STEPS; t++) {
		for (size_t i = 0; i < N; i++)
			g[i] = made(i, t) * (outer ? 0.5 : 1);
		tensor_step(lars, x, g, m, s, t, lr, decay);
		setup_step(&b, t, 0.5f);
		vec_copy(of_y, b.f.w.grad); /* twice made() */
		vec_scale(of_y, 0.5f);
		stepper_step(second, lr, 0.9, 0.5f);
	}
	float *p AUTOFREE = fixture_get(outer ? y : b.f.w.param);
	for (size_t i = 0; i < N; i++)
		ck_assert_double_eq_tol(p[i], x[i], 2e-5);
	stepper_free(second);
	vec_free(y);
	vec_free(of_y);
	setup_close(&b);
}

/* The matrix follows the formula; the bias follows adamw with 0.05 of the rate. */
TEST(muon_is_its_formula, 2)
{
	const bool tall = _i;
	const struct setting given[] = {
		{"optimizer", "muon"}, {"lr", "0.02"}, {"weight-decay", "0.3"}, {"decay", "all"}};
	const int r = tall ? COLUMNS : ROWS, c = tall ? ROWS : COLUMNS;
	double x[N], m[N] = {0}, s[N] = {0}, o[ROWS * COLUMNS] = {0}, ot[ROWS * COLUMNS] = {0};
	struct setup b;
	setup_open(&b, given, COUNT(given));
	b.tensor[0].rows = (size_t)r;
	b.tensor[0].columns = (size_t)c;
	model_tensors(&b.f.w, b.tensor, 2);
	for (size_t i = 0; i < N; i++)
		x[i] = made(i, 0);
	for (int t = 1; t <= 20; t++) {
		setup_step(&b, t, 0.5f);
		for (int i = 0; i < r * c; i++) {
			m[i] = 0.95 * m[i] + made((size_t)i, t);
			o[i] = made((size_t)i, t) + 0.95 * m[i];
		}
		for (int i = 0; i < r && tall; i++) /* on its shorter side */
			for (int j = 0; j < c; j++)
				ot[j * r + i] = o[i * c + j];
		newton_schulz(tall ? ot : o, tall ? c : r, tall ? r : c);
		for (int i = 0; i < r && tall; i++)
			for (int j = 0; j < c; j++)
				o[i * c + j] = ot[j * r + i];
		for (int i = 0; i < r * c; i++)
			x[i] -= 0.02 * (sqrt(tall ? (double)r / c : 1) * o[i] + 0.3 * x[i]);
		for (size_t i = ROWS * COLUMNS; i < N; i++) {
			double g = made(i, t);
			m[i] = 0.9 * m[i] + 0.1 * g;
			s[i] = 0.999 * s[i] + 0.001 * g * g;
			x[i] -= 0.05 * 0.02 *
				(m[i] / (1 - pow(0.9, t)) /
					 (sqrt(s[i] / (1 - pow(0.999, t))) + 1e-8) +
				 0.3 * x[i]);
		}
	}
	float *p AUTOFREE = fixture_get(b.f.w.param);
	for (size_t i = 0; i < N; i++)
		ck_assert_double_eq_tol(p[i], x[i], 1e-5);
	setup_close(&b);
}

/* ---- Starting again ------------------------------------------------------ */

/* After --state=reset a step is a first step, whatever t is. */
TEST(state_reset_restarts_the_moments)
{
	const struct setting given[] = {{"optimizer", "adamw"},
					{"lr", "0.05"},
					{"strategy", "periodic"},
					{"state", "reset"}};
	struct setup b;
	setup_open(&b, given, COUNT(given));
	b.f.w.loop->strategy = b.c.strategy;
	for (int t = 1; t <= 7; t++)
		setup_step(&b, t, 1);
	local_met(&b.f.w);
	float *before AUTOFREE = fixture_get(b.f.w.param);
	setup_step(&b, 8, 1);
	float *p AUTOFREE = fixture_get(b.f.w.param);
	for (size_t i = 0; i < N; i++) { /* adamw moves every float by lr in it */
		double g = made(i, 8);
		ck_assert_double_eq_tol(p[i], before[i] - 0.05 * ((g > 0) - (g < 0)), 1e-5);
	}
	setup_close(&b);
}

/* Two halves with nothing between them make the same step. */
TEST(split_optimizer_step_equals_whole_step, LISTED(optimizers))
{
	struct setting given[] = {{"optimizer", optimizers[_i]->plugin.name},
				  {"momentum", optimizers[_i]->momentum ? "0.9" : "0"},
				  {"weight-decay", "0.1"},
				  {"clip", "0.5"}};
	struct setup whole, halves;
	setup_open(&whole, given, COUNT(given));
	setup_open(&halves, given, COUNT(given));
	for (int t = 1; t <= 5; t++) {
		setup_step(&whole, t, 1);
		float *g AUTOFREE = fixture_get(whole.f.w.grad);
		for (size_t i = 0; i < N; i++)
			g[i] = made(i, t);
		struct worker *w = &halves.f.w;
		vec_put(w->grad, g);
		w->step = t;
		local_begin(w);
		local_gradient(w);
		local_update(w);
	}
	float *p AUTOFREE = fixture_get(whole.f.w.param),
		 *q AUTOFREE = fixture_get(halves.f.w.param);
	for (size_t i = 0; i < N; i++)
		ck_assert_double_eq_tol(p[i], q[i], 1e-6);
	setup_close(&whole);
	setup_close(&halves);
}

/* ---- Weight decay ---------------------------------------------------------- */

/* With gradients of 0 only decay changes floats: for the decoupled ones and lars the weights only,
 * for the others all floats. --decay overrides that for every optimiser. */
TEST(decay_applies_to_the_selected_floats, LISTED(optimizers))
{
	static const char *const said[] = {NULL, "all", "weights"};
	const struct optimizer *o = optimizers[_i];
	for (size_t k = 0; k < COUNT(said); k++) {
		const struct setting given[] = {{"optimizer", o->plugin.name},
						{"momentum", o->momentum ? "0.5" : "0"},
						{"weight-decay", "0.1"},
						{"lr", "0.1"},
						{"decay", said[k]}};
		struct setup b;
		setup_open(&b, given, said[k] ? 5 : 4);
		vec_fill(b.f.w.grad, 0);
		b.f.w.step = 1;
		local_begin(&b.f.w);
		local_step(&b.f.w, 1);
		float *p AUTOFREE = fixture_get(b.f.w.param);
		bool spares = said[k] ? strcmp(said[k], "weights") == 0 : !o->coupled;
		for (size_t i = 0; i < N; i++)
			ck_assert_msg((p[i] == made(i, 0)) ==
					      (made(i, 0) == 0 || (spares && i >= ROWS * COLUMNS)),
				      "%s, %s: param[%zu] was %g and is %g", o->plugin.name,
				      said[k] ? said[k] : "as it is", i, (double)made(i, 0),
				      (double)p[i]);
		setup_close(&b);
	}
}

/* ---- Optimisers of a strategy -------------------------------------------- */

struct second {
	struct setup b;
	struct stepper *s;
	struct vec *x, *g;
};

static void second_open(struct second *t, const char *how, double momentum)
{
	float x[N];
	setup_open(&t->b, NULL, 0);
	t->x = vec_new(&t->b.f.w, N);
	t->g = vec_new(&t->b.f.w, N);
	for (size_t i = 0; i < N; i++)
		x[i] = made(i, 0);
	vec_put(t->x, x);
	t->s = stepper_new(&t->b.f.w, how, momentum, t->x, t->g);
}

static void second_gradient(struct second *t, int step)
{
	float g[N];
	for (size_t i = 0; i < N; i++)
		g[i] = made(i, step);
	vec_put(t->g, g);
}

static void second_close(struct second *t)
{
	stepper_free(t->s);
	vec_free(t->x);
	vec_free(t->g);
	setup_close(&t->b);
}

/* SlowMo's and DiLoCo's outer steps equal, bit for bit, these lines, which periodic.c had before
 * they were plug-ins. */
TEST(outer_steps_equal_the_former_code, 4)
{
	const char *const how[] = {"sgd", "nesterov"};
	const float a = 0.7f, mu = 0.9f, weight = 1 / (float)(2 + _i / 2);
	const bool nesterov = _i % 2;
	struct second t;
	second_open(&t, how[nesterov], (double)mu);
	struct vec *met = vec_new(&t.b.f.w, N), *u = vec_new(&t.b.f.w, N);
	vec_copy(met, t.x);
	for (int step = 1; step <= 50; step++) {
		second_gradient(&t, step);
		vec_sgd(met, u, t.g, nesterov ? 0 : a, mu, 0, -weight);
		if (nesterov) {
			vec_axpy(met, -a * mu, u);
			vec_axpy(met, a * weight, t.g);
		}
		stepper_step(t.s, (double)a, (double)mu, -weight);
	}
	float *p AUTOFREE = fixture_get(t.x), *q AUTOFREE = fixture_get(met);
	ck_assert_int_eq(memcmp(p, q, N * sizeof *p), 0);
	vec_free(met);
	vec_free(u);
	second_close(&t);
}

/* The outer adamw has its own options and step count, and changes nothing of the worker's
 * optimiser. */
TEST(outer_adamw_is_its_formula)
{
	const double b1 = 0.8, b2 = 0.95, lr = 0.05, eps = 1e-6;
	double x[N], m[N] = {0}, s[N] = {0};
	struct second t;
	second_open(&t, "adamw:beta1=0.8:beta2=0.95:eps=1e-6", 0.5);
	for (size_t i = 0; i < N; i++)
		x[i] = made(i, 0);
	t.b.f.w.loop->dev->unbias[0] = 7;
	for (int step = 1; step <= STEPS; step++) {
		second_gradient(&t, step);
		stepper_step(t.s, lr, 0.5, -0.25f);
		for (size_t i = 0; i < N; i++) {
			double g = -0.25 * made(i, step);
			m[i] = b1 * m[i] + (1 - b1) * g;
			s[i] = b2 * s[i] + (1 - b2) * g * g;
			x[i] -= lr * m[i] / (1 - pow(b1, step)) /
				(sqrt(s[i] / (1 - pow(b2, step))) + eps);
		}
	}
	ck_assert(t.b.f.w.loop->dev->unbias[0] == 7);
	float *p AUTOFREE = fixture_get(t.x);
	for (size_t i = 0; i < N; i++)
		ck_assert_double_eq_tol(p[i], x[i], 1e-5);
	second_close(&t);
}

/* ---- SlowMo ---------------------------------------------------------------- */

/* The box of arXiv 1910.00643 in double precision, with a learning rate that changes in every step:
 * u = mu u + (w_avg - w) / gamma; w = w_avg - a gamma u. gamma is that of the round's first step.
 */
TEST(slowmo_takes_the_rate_of_the_first_step_of_a_round, 3)
{
	enum { STEPS_OF_ROUND = 4, ROUNDS = 6 };
	static const char *const start[] = {"0", "2", "4"}; /* steps of plain allreduce */
	const double a = 0.7, mu = 0.6;
	const struct setting given[] = {
		{"strategy", "periodic"},           {"sync-every", "4"},
		{"periodic.outer", "momentum"},     {"periodic.outer-lr", "0.7"},
		{"periodic.outer-momentum", "0.6"}, {"momentum", "0"},
		{"periodic.start", start[_i]}};
	struct setup b;
	double x[N], before[N], u[N] = {0};
	setup_open(&b, given, COUNT(given));
	struct worker *w = &b.f.w;
	const struct strategy *s = b.c.strategy;
	w->loop->strategy = s;
	w->opts = b.c.strategy_opts;
	w->data_group = w->coded = w->model_group;
	w->weight = 1;
	w->loop->account = must(calloc(1, sizeof *w->loop->account));
	w->state = must(calloc(1, s->state_size));
	s->init(w);
	for (size_t i = 0; i < N; i++)
		x[i] = before[i] = made(i, 0);
	double gamma = 0;
	for (int t = 1; t <= ROUNDS * STEPS_OF_ROUND; t++) {
		float g[N], lr = 0.1f / (float)t; /* within a round, and from round to round */
		bool plain = t <= atoi(start[_i]);
		for (size_t i = 0; i < N; i++) {
			g[i] = made(i, t);
			x[i] -= (double)lr * (double)g[i];
			if (plain)
				before[i] = x[i];
		}
		vec_put(w->grad, g);
		w->step = t;
		w->lr = (double)lr;
		local_begin(w);
		s->step(w);
		if (!plain && (gamma == 0 || t % STEPS_OF_ROUND == 1))
			gamma = (double)lr;
		for (size_t i = 0; i < N && !plain && t % STEPS_OF_ROUND == 0; i++) {
			u[i] = mu * u[i] + (before[i] - x[i]) / gamma;
			x[i] = before[i] -= a * gamma * u[i];
		}
		float *p AUTOFREE = fixture_get(w->param);
		for (size_t i = 0; i < N; i++)
			ck_assert_msg(fabs(p[i] - x[i]) < 1e-6,
				      "step %d: param[%zu] is %.9g, should be %.9g", t, i,
				      (double)p[i], x[i]);
	}
	s->fini(w);
	free(w->state);
	free(w->loop->account);
	setup_close(&b);
}

/* ---- Refusals ------------------------------------------------------------ */

static const struct refusal {
	struct setting given[4];
	const char *says;
} refusals[] = {
	{{{"optimizer", "adam"}}, "unknown name; did you mean adamw?"},
	{{{"optimizer", "adamw"}, {"adamw.beta2", "1"}}, "--adamw.beta2=1"},
	{{{"optimizer", "adamw"}, {"lion.beta1", "0.5"}}, "an option of optimizer lion"},
	{{{"optimizer", "adamw"}, {"momentum", "0.9"}},
	 "--momentum: --optimizer=adamw has its own options"},
	{{{"optimizer", "nesterov"}, {"momentum", "0"}}, "give --momentum=0.9"},
	{{{"optimizer", "adamw"}, {"strategy", "asgd"}, {"workers", "2"}, {"asgd.updater", "sgd"}},
	 "use the updater add"},
	{{{"optimizer", "muon"}, {"strategy", "model_parallel"}, {"workers", "2"}},
	 "it needs whole matrices"},
	{{{"state", "reset"}, {"strategy", "allreduce"}, {"workers", "2"}},
	 "equal optimiser states"},
	{{{"state", "average"}, {"strategy", "asgd"}, {"workers", "2"}},
	 "do not synchronise all at once"},
	{{{"state", "reset"}, {"strategy", "periodic"}, {"workers", "2"}, {"momentum", "0"}},
	 "has no state here"},
	{{{"clip", "-1"}}, "--clip=-1"},
	{{{"strategy", "periodic"}, {"periodic.outer", "adam"}},
	 "--periodic.outer=adam: unknown optimizer adam; known: sgd, nesterov, adagrad, adamw"},
	{{{"strategy", "periodic"}, {"periodic.outer", "adamw:beta3=0.9"}},
	 "--periodic.outer=adamw:beta3=0.9: --adamw.beta3: there is no such option"},
	{{{"strategy", "periodic"}, {"periodic.outer", "adamw:beta1=0.9:beta2=1"}},
	 "--adamw.beta2=1"},
	{{{"strategy", "periodic"}, {"periodic.outer", "lion:beta1"}},
	 "give a value, as in lion:beta1=0.9"},
	{{{"strategy", "periodic"}, {"periodic.outer", "lion"}, {"periodic.outer-momentum", "0.9"}},
	 "--periodic.outer=lion has options of its own in its place"},
};

TEST(meaningless_optimizer_options_are_refused, COUNT(refusals))
{
	const struct refusal *r = &refusals[_i];
	struct config c;
	size_t n = 0;
	while (n < 4 && r->given[n].name)
		n++;
	char *wrong AUTOFREE = config_init(&c, r->given, n, false);
	if (!wrong) {
		wrong = plan_refuse(&c);
		config_fini(&c);
	}
	ck_assert_msg(wrong && strstr(wrong, r->says), "\"%s\" lacks \"%s\"",
		      wrong ? wrong : "(taken)", r->says);
}

/* ---- Identities ------------------------------------------------------------ */

#define MLP "--workload=mlp --mlp.hidden=32 --epochs=1 --weight-decay=0.01 --clip=0.7 "
/* Without eps, gradients near 0 would give the largest steps. With it, small differences stay
 * small. */
#define ADAMW "--optimizer=adamw --adamw.eps=1e-3 --lr=0.003 "

static const char *const kinds[] = {"--optimizer=nesterov --momentum=0.9 --lr=0.02 ", ADAMW,
				    "--optimizer=adagrad --adagrad.eps=1e-3 --lr=0.02 ",
				    "--optimizer=lion --lr=0.0003 ", "--optimizer=muon --lr=0.01 "};

CASE("identities", .limit = 120, .set_up = trained_data, .tear_down = folder_free, .once = true);

/* One worker gives the serial run bit for bit, with every optimiser but sgd, which check_train.c
 * tests. */
TEST(one_worker_is_serial_with_every_optimizer, LISTED(strategies))
{
	const struct strategy *s = strategies[_i];
	bool shortcut = strcmp(s->plugin.name, "easgd") == 0;
	for (size_t k = 0; optimizers[k] && !shortcut; k++) {
		const struct optimizer *o = optimizers[k];
		if (o->plain || (o->scratch && s->model_workers))
			continue;
		const char *how = words(MLP "--optimizer=%s --lr=%s --batch=48%s", o->plugin.name,
					strcmp(o->plugin.name, "lars") == 0 ? "3" : "0.003",
					o->momentum ? " --momentum=0.9" : "");
		expect_same(1, words("%s --strategy=%s", how, s->plugin.name), 1, how, 0);
	}
}

/* With one worker, tables of every placement give the serial run, too, real and simulated. */
TEST(one_worker_is_serial_with_every_table_placement, LISTED(strategies))
{
	static const char *const placements[] = {"", "--table-home=onesided",
						 "--workers=1 --servers=1"};
	const struct strategy *s = strategies[_i];
	const char *how = words(MLP ADAMW "--batch=48");
	struct result serial = train_ok(1, how);
	if (strcmp(s->plugin.name, "easgd") == 0) /* moves the model to its centre */
		return;
	for (size_t k = 0; k < (s->terms ? COUNT(placements) : 1); k++)
		for (int simulated = 0; simulated < 2; simulated++) {
			const char *same =
				words("%s --strategy=%s %s%s", how, s->plugin.name, placements[k],
				      simulated ? " --sim.platform=gpu4_pcie "
						  "--sim.step-time=1ms"
						: "");
			int ranks = k == 2 ? 2 : 1;
			struct result r =
				simulated ? run_simulated(1, same) : train_ok(ranks, same);
			ck_assert_msg(r.status == 0, "%s: status %d\n%s", same, r.status, r.output);
			ck_assert_msg(distance(&r, &serial) == 0, "%s: distance %g", same,
				      distance(&r, &serial));
		}
}

/* The sum of all workers' gradients is clipped. */
TEST(allreduce_with_adamw_is_serial_with_the_whole_batch, 2, 4)
{
	expect_same(_i, words(MLP ADAMW "--strategy=allreduce --batch=%d", 48 / _i), 1,
		    MLP ADAMW "--batch=48", 1e-4);
}

/* The length of a gradient that workers share counts each part once. The bias of the second layer
 * is the first worker's alone. */
TEST(model_parallel_with_adamw_is_serial, 2, 3)
{
	expect_same(_i, words(MLP ADAMW "--strategy=model_parallel --batch=48"), 1,
		    MLP ADAMW "--batch=48", 1e-4);
	expect_same(2 * _i, words(MLP ADAMW "--strategy=hybrid --hybrid.group=%d --batch=24", _i),
		    1, MLP ADAMW "--batch=48", 1e-4);
}

TEST(optimizer_state_is_averaged)
{
	const char *same = "--batch=24 --strategy=periodic --sync-every=5 ";
	const char *how[] = {words(MLP ADAMW "%s--state=average", same),
			     words(MLP ADAMW "%s--state=reset", same), words(MLP ADAMW "%s", same)};
	enum { AVERAGE, RESET, KEEP, STATES };
	struct result r[STATES];
	train_all(2, STATES, how, r);
	ck_assert_double_gt(distance(&r[AVERAGE], &r[RESET]), 1e-4);
	ck_assert_double_gt(distance(&r[AVERAGE], &r[KEEP]), 1e-4);
	ck_assert_double_gt(distance(&r[RESET], &r[KEEP]), 1e-4);
	/* the model and two moments */
	ck_assert_double_eq_tol(r[AVERAGE].bytes, 3 * r[KEEP].bytes, 1e-9 * r[AVERAGE].bytes);
	ck_assert_double_eq_tol(r[AVERAGE].formula, r[AVERAGE].bytes, 1e-9 * r[AVERAGE].bytes);
}

/* With one worker, pushing and pulling at different intervals equals doing both together. */
TEST(separate_push_interval_equals_the_common_one)
{
	const char *same = words(MLP ADAMW "--batch=48 --strategy=downpour --sync-every=4 ");
	expect_same(1, words("%s --downpour.send=2", same), 1, same, 1e-5);
}

/* After one local step of sgd the models have moved by its rate times the mean gradient. adamw and
 * muon do not depend on this factor; the others scale with it. An outer step therefore equals one
 * of allreduce. */
TEST(outer_steps_every_step_are_allreduce, 4)
{
	static const struct {
		const char *outer, *inner;
		double tolerance;
	} row[] = {
		{"sgd --periodic.outer-momentum=0.8 --periodic.outer-lr=0.04",
		 "sgd --momentum=0.8 --lr=0.02", 1e-6},
		{"nesterov --periodic.outer-momentum=0.8 --periodic.outer-lr=0.04",
		 "nesterov --momentum=0.8 --lr=0.02", 1e-6},
		{"adamw:eps=5e-4:beta2=0.95 --periodic.outer-lr=0.003",
		 "adamw --adamw.eps=1e-3 --adamw.beta2=0.95 --lr=0.003", 1e-4},
		{"muon:eps=5e-4 --periodic.outer-lr=0.01", "muon --muon.eps=1e-3 --lr=0.01", 1e-3},
	};
	const char *same = "--workload=mlp --mlp.hidden=32 --lr-schedule=constant "
			   "--epochs=1 --batch=24 ";
	expect_same(2,
		    words("%s--momentum=0 --lr=0.5 --strategy=periodic --periodic.outer=%s", same,
			  row[_i].outer),
		    2, words("%s--strategy=allreduce --optimizer=%s", same, row[_i].inner),
		    row[_i].tolerance);
}

/* The inner and the outer optimiser may be one plug-in with different numbers. */
TEST(inner_and_outer_optimizer_are_independent)
{
	const char *same = MLP ADAMW "--batch=24 --strategy=periodic --sync-every=5 ";
	const char *how[] = {
		words("%s--periodic.outer=adamw:beta1=0.5 --periodic.outer-lr=0.003", same),
		words("%s--periodic.outer=adamw --periodic.outer-lr=0.003", same)};
	struct result r[2];
	train_all(2, 2, how, r);
	ck_assert_double_lt(r[0].test_loss, 0.9 * r[0].first_test_loss);
	ck_assert_double_gt(distance(&r[0], &r[1]), 1e-4);
	ck_assert_double_eq_tol(r[0].formula, r[0].bytes, 1e-9 * r[0].bytes);
}

/* Simulated workers compute the same as real ones. */
TEST(simulated_optimizers_equal_real_ones, COUNT(kinds))
{
	const char *how = words(MLP "%s--batch=24 --strategy=periodic --sync-every=4 --state=reset",
				kinds[_i]);
	struct result a = train_ok(2, how),
		      b = run_simulated(
			      2, words("%s --sim.platform=ethernet_1g --sim.step-time=1ms", how));
	ck_assert_int_eq(b.status, 0);
	ck_assert_double_eq(distance(&a, &b), 0);
}
