/*
 * check_steps.c - the distribution of simulated steps (sim/model/steps.c): its mean is that of the
 * measured steps. The longest of N drawn steps is on average the longest of N measured ones, also
 * if a few are many times as long as the others.
 */
#include "runtime/world/world.h"
#include "sim/model/model.h"
#include "tests/fixture.h"
#include "tests/suites.h"

#include <math.h>
#include <stdlib.h>

enum { MOST = 100000 };
static float step[MOST];

static const struct tail {
	const char *name;
	size_t n;
} tails[] = {{"normal", 5000},   {"lognormal", 5000}, {"pareto", 5000}, {"spikes", 5000},
	     {"lognormal", 640}, {"pareto", 100},     {"pareto", MOST}};

/* normal: 1 +- 0.05 ms; lognormal: exp(normal); pareto: 1 / u^0.4, whose variance is hard to know;
 * spikes: 1, one in two hundred 30. */
static double draw_step(const char *name, uint64_t *rng)
{
	double u = 1 - rng_uniform(rng);
	if (*name == 'n')
		return 1e-3 * (1 + 0.05 * rng_normal(rng));
	if (*name == 'l')
		return 1e-3 * exp(rng_normal(rng));
	return 1e-3 * (*name == 'p' ? pow(u, -0.4) : u < 0.005 ? 30 : 1);
}

/* The distribution of a tail's steps, as a calibration stores it. Sorts step. */
static struct steps made(const struct tail *t)
{
	uint64_t rng = rng_seed(1, RNG_STRAGGLE, 0);
	struct points p = {.n = 0};
	struct steps s = {.n = 0};
	for (size_t i = 0; i < t->n; i++)
		step[i] = (float)draw_step(t->name, &rng);
	steps_points(&p, step, t->n, 2);
	for (size_t i = 0; i < p.n; i++) {
		ck_assert_str_eq(p.point[i].name, "step");
		ck_assert(i == 0 || p.point[i].x > p.point[i - 1].x);
		steps_add(&s, p.point[i].x - 2 * STEP_BINS, p.point[i].value);
	}
	ck_assert_double_ge(s.from[0], 0);
	ck_assert_double_lt(s.from[s.n - 1], STEP_BINS);
	free(p.point);
	return s;
}

/* The mean of the longest of N measured steps, and of N drawn ones. */
static double longest_measured(size_t n, int N)
{
	double sum = 0;
	for (size_t i = 0; i < n; i++)
		sum += step[i] *
		       (pow((double)(i + 1) / (double)n, N) - pow((double)i / (double)n, N));
	return sum;
}

static double longest_drawn(const struct steps *s, int N)
{
	double sum = 0;
	for (int i = 0; i < s->n; i++) {
		double end = i + 1 < s->n ? s->from[i + 1] : STEP_BINS;
		sum += s->s[i] * (pow(end / STEP_BINS, N) - pow(s->from[i] / STEP_BINS, N));
	}
	return sum;
}

TEST(longest_drawn_step_equals_longest_measured, COUNT(tails))
{
	const struct tail *t = &tails[_i];
	struct steps s = made(t);
	ck_assert_double_eq_tol(longest_drawn(&s, 1) / longest_measured(t->n, 1), 1, 1e-5);
	for (int N = 2; N <= 1024; N *= 2) {
		double x = longest_drawn(&s, N) / longest_measured(t->n, N);
		ck_assert_msg(fabs(x - 1) < 0.02, "%s of %zu steps: the longest of %d is %g times",
			      t->name, t->n, N, x);
	}
}

TEST(steps_without_rows_do_not_count)
{
	const struct tail *t = &tails[1];
	struct steps s = made(t);
	struct points p = {.n = 0};
	for (size_t i = 0; i < t->n; i++)
		step[t->n + i] = NAN;
	steps_points(&p, step, 2 * t->n, 0);
	ck_assert_int_eq(p.n, s.n);
	for (int i = 0; i < s.n; i++)
		ck_assert(fabs(p.point[i].x - s.from[i]) < 1e-9 && p.point[i].value == s.s[i]);
	free(p.point);
}

/* Draws follow the distribution: the longest of 64, 20,000 times. */
TEST(drawn_steps_follow_distribution, COUNT(tails))
{
	enum { N = 64, TIMES = 20000 };
	const struct tail *t = &tails[_i];
	struct steps s = made(t);
	uint64_t rng = 7;
	double sum = 0, squares = 0;
	for (int k = 0; k < TIMES; k++) {
		double longest = 0;
		for (int i = 0; i < N; i++)
			longest = fmax(longest, steps_draw(&s, rng_uniform(&rng)));
		sum += longest;
		squares += longest * longest;
	}
	double mean = sum / TIMES, error = sqrt((squares / TIMES - mean * mean) / TIMES);
	ck_assert_double_eq_tol(mean, longest_drawn(&s, N), 4 * error + 1e-9);
	ck_assert_double_eq(steps_draw(&s, 0), s.s[0]);
	ck_assert_double_eq(steps_draw(&s, 1), s.s[s.n - 1]);
	if (t->n < MOST)
		ck_assert_double_eq(s.s[s.n - 1], step[t->n - 1]);
}
