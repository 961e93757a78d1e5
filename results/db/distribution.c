/*
 * distribution.c - the F distribution, and Student's t, which mvbench adds to its connections as
 * functions of SQL. A bare sqlite3 shell lacks them. Both are NULL if an argument is, or df < 1.
 *
 *   t_above(d, se, df)     P(T > d / se); se = 0: d is certain
 *   t_quantile(p, df)      the t with P(T > t) = p, 0 < p < 1/2
 */
#include "results/db/db.h"

#include <math.h>

/* The continued fraction of the incomplete beta function (Abramowitz and Stegun, 26.5.8), by
 * Lentz's method. */
static double beta_fraction(double a, double b, double x)
{
	double c = 1, d = 1 / (1 - (a + b) * x / (a + 1)), h = d;
	for (int m = 1; m < 500; m++) {
		double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
		double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
		d = 1 / (1 + even * d);
		c = 1 + even / c;
		h *= c * d;
		d = 1 / (1 + odd * d);
		c = 1 + odd / c;
		h *= c * d;
		if (fabs(c * d - 1) < 1e-14)
			break;
	}
	return h;
}

/* P(F < f) with these degrees of freedom. */
static double f_cdf(double f, double df1, double df2)
{
	double a = df1 / 2, b = df2 / 2, x = df1 * f / (df1 * f + df2);
	double front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x));
	return x < (a + 1) / (a + b + 2) ? front * beta_fraction(a, b, x) / a
					 : 1 - front * beta_fraction(b, a, 1 - x) / b;
}

double f_quantile(double p, double df1, double df2)
{
	double low = -60, high = 60; /* of its logarithm */
	for (int i = 0; i < 100; i++) {
		double middle = (low + high) / 2;
		if (f_cdf(exp(middle), df1, df2) < p)
			low = middle;
		else
			high = middle;
	}
	return exp(low);
}

/* T^2 has the F distribution of 1 and df degrees of freedom, 1 / T^2 that of df and 1. */
static double t_above(const double *x)
{
	double t = x[0] == 0 ? 0 : x[0] / x[1], square = t * t, df = x[2];
	double beyond = square < 1 ? 1 - f_cdf(square, 1, df) : f_cdf(1 / square, df, 1);
	return !(df >= 1) ? NAN : t > 0 ? beyond / 2 : 1 - beyond / 2;
}

static double t_quantile(const double *x)
{
	return !(x[1] >= 1) ? NAN : 1 / sqrt(f_quantile(2 * x[0], x[1], 1));
}

/* SQLite makes NaN NULL. */
static void call(sqlite3_context *context, int n, sqlite3_value **value)
{
	double x[3];
	for (int i = 0; i < n; i++)
		x[i] = sqlite3_value_type(value[i]) == SQLITE_NULL ? NAN
								   : sqlite3_value_double(value[i]);
	sqlite3_result_double(context, n == 3 ? t_above(x) : t_quantile(x));
}

void database_functions(sqlite3 *db)
{
	const int flags = SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS;
	sqlite3_create_function(db, "t_above", 3, flags, NULL, call, NULL, NULL);
	sqlite3_create_function(db, "t_quantile", 2, flags, NULL, call, NULL, NULL);
}
