/*
 * linear.c - layers that are split over the workers, compared with whole layers in double
 * precision: outputs, gradients of inputs and parameters, gathered and scattered parameters. Prints
 * the largest difference if it is below 1e-5.
 *
 *     linear INPUTS HIDDEN OUTPUTS        any sizes, also less than the number of workers
 */
#include "tests/seeds/seeds.h"

#include <math.h>
#include <string.h>

enum { ROWS = 7 };

static double worst;

static float *memory(size_t n)
{
	float *p = calloc(n + 1, sizeof *p);
	if (!p)
		exit(1);
	return p;
}

/* The same numbers on all workers, in [-1, 1). */
static float *drawn(size_t n, unsigned state)
{
	float *x = memory(n);
	for (size_t i = 0; i < n; i++) {
		state = state * 1664525u + 1013904223u;
		x[i] = (float)(state >> 8) / (float)(1 << 23) - 1;
	}
	return x;
}

/* Own columns of a whole matrix are at first; a whole matrix has held = columns. */
static void compare(const char *what, const float *is, const double *whole, size_t rows,
		    size_t columns, size_t first, size_t held)
{
	for (size_t r = 0; r < rows; r++)
		for (size_t i = 0; i < held; i++) {
			double d = fabs((double)is[r * held + i] - whole[r * columns + first + i]);
			worst = d > worst ? d : worst;
			if (d < 1e-5)
				continue;
			fprintf(stderr, "worker %d: %s[%zu, %zu] is off by %g\n", mvb_worker_id(),
				what, r, first + i, d);
			exit(1);
		}
}

/* ---- A whole layer ------------------------------------------------------------------------ */

struct whole {
	double *y, *dx, *dw, *db;
};

static struct whole whole_layer(size_t in, size_t out, const float *w, const float *b,
				const double *x, const double *dy)
{
	struct whole l = {calloc(ROWS * out, sizeof(double)), calloc(ROWS * in, sizeof(double)),
			  calloc(out * in, sizeof(double)), calloc(out, sizeof(double))};
	if (!l.y || !l.dx || !l.dw || !l.db)
		exit(1);
	for (size_t r = 0; r < ROWS; r++)
		for (size_t o = 0; o < out; o++) {
			l.y[r * out + o] = b ? (double)b[o] : 0;
			for (size_t i = 0; i < in; i++) {
				l.y[r * out + o] += x[r * in + i] * (double)w[o * in + i];
				l.dw[o * in + i] += dy[r * out + o] * x[r * in + i];
				l.dx[r * in + i] += dy[r * out + o] * (double)w[o * in + i];
			}
			l.db[o] += dy[r * out + o];
		}
	return l;
}

static void whole_free(struct whole *l)
{
	free(l->y), free(l->dx), free(l->dw), free(l->db);
}

static double *doubles(const float *x, size_t n)
{
	double *y = calloc(n + 1, sizeof *y);
	for (size_t i = 0; y && i < n; i++)
		y[i] = (double)x[i];
	return y ? y : (exit(1), y);
}

/* ---- The same, split ---------------------------------------------------------------------- */

struct split {
	struct mvb_linear l;
	struct mvb_linear_part p;
	float *y, *dx;
};

static struct split split_new(enum mvb_form form, size_t in, size_t out, const float *w,
			      const float *b)
{
	float some = 0;
	struct split s = {.l = {.form = form, .inputs = in, .outputs = out, .b = b ? &some : NULL}};
	must(mvb_linear_part(&s.l, &s.p));
	s.l.b = b ? memory(s.p.b) : NULL;
	s.l.w = memory(s.p.w), s.l.dw = memory(s.p.w), s.l.db = memory(s.p.b);
	s.y = memory(ROWS * s.p.outputs), s.dx = memory(ROWS * s.p.inputs);
	if (w)
		must(mvb_linear_scatter(&s.l, w, b));
	return s;
}

static void split_free(struct split *s)
{
	free(s->l.w), free(s->l.b), free(s->l.dw), free(s->l.db), free(s->y), free(s->dx);
}

/* The layer as a whole: its parameters, and all that it computes, in one comparison. */
static void check_linear(enum mvb_form form, size_t in, size_t out, bool bias)
{
	float *w = drawn(in * out, 1), *b = bias ? drawn(out, 2) : NULL, *x = drawn(ROWS * in, 3),
	      *dy = drawn(ROWS * out, 4), *w2 = memory(in * out), *b2 = memory(out);
	double *x2 = doubles(x, ROWS * in), *dy2 = doubles(dy, ROWS * out);
	struct whole whole = whole_layer(in, out, w, b, x2, dy2);
	struct split s = split_new(form, in, out, w, b);
	bool base = form == MVB_BASE_LINEAR;
	/* the own part of x for a base layer, of dy for an initial one */
	struct split cut =
		split_new(MVB_BASE_RESHAPE, base ? in : out, base ? in : out, NULL, NULL);
	must(mvb_linear_forward(&cut.l, base ? x : dy, ROWS, cut.y));
	const float *own_x = base ? cut.y : x, *own_dy = base ? dy : cut.y;

	must(mvb_linear_forward(&s.l, own_x, ROWS, s.y));
	must(mvb_linear_backward(&s.l, own_x, own_dy, ROWS, s.dx));
	size_t first = s.p.first, held = s.p.held;
	compare("y", s.y, whole.y, ROWS, out, base ? 0 : first, s.p.outputs);
	compare("dx", s.dx, whole.dx, ROWS, in, base ? first : 0, s.p.inputs);
	if (base)
		compare("dw", s.l.dw, whole.dw, out, in, first, held);
	else
		compare("dw", s.l.dw, whole.dw + first * in, held, in, 0, in);
	if (bias)
		compare("db", s.l.db, whole.db, 1, out, base ? 0 : first, s.p.b);
	must(mvb_linear_gather(&s.l, w2, b2));
	if (memcmp(w, w2, in * out * sizeof *w) || (bias && memcmp(b, b2, out * sizeof *b))) {
		fprintf(stderr, "worker %d: gathered parameters differ\n", mvb_worker_id());
		exit(1);
	}
	split_free(&s), split_free(&cut), whole_free(&whole);
	free(w), free(b), free(x), free(dy), free(w2), free(b2), free(x2), free(dy2);
}

/* TorchAD-NN's net: reshape, linear, tanh, linear; and a net that begins with the base reshape. */
static void check_net(size_t in, size_t hidden, size_t out)
{
	float *w1 = drawn(in * hidden, 5), *b1 = drawn(hidden, 6), *w2 = drawn(hidden * out, 7),
	      *b2 = drawn(out, 8), *x = drawn(ROWS * in, 9), *dy = drawn(ROWS * out, 10);
	double *x2 = doubles(x, ROWS * in), *dy2 = doubles(dy, ROWS * out);
	double *none = calloc(ROWS * hidden, sizeof *none);
	struct whole first = whole_layer(in, hidden, w1, b1, x2, none);
	for (size_t i = 0; i < ROWS * hidden; i++)
		first.y[i] = tanh(first.y[i]);
	struct whole last = whole_layer(hidden, out, w2, b2, first.y, dy2);
	for (size_t i = 0; i < ROWS * hidden; i++)
		last.dx[i] *= 1 - first.y[i] * first.y[i];
	struct whole back = whole_layer(in, hidden, w1, b1, x2, last.dx);

	struct split net[] = {split_new(MVB_INITIAL_RESHAPE, in, in, NULL, NULL),
			      split_new(MVB_INITIAL_LINEAR, in, hidden, w1, b1),
			      split_new(MVB_TANH, hidden, hidden, NULL, NULL),
			      split_new(MVB_BASE_LINEAR, hidden, out, w2, b2)};
	for (int i = 0; i < 4; i++)
		must(mvb_linear_forward(&net[i].l, i ? net[i - 1].y : x, ROWS, net[i].y));
	for (int i = 3; i >= 0; i--)
		must(mvb_linear_backward(&net[i].l, i ? net[i - 1].y : x,
					 i < 3 ? net[i + 1].dx : dy, ROWS, net[i].dx));
	compare("the net's y", net[3].y, last.y, ROWS, out, 0, out);
	compare("the net's dx", net[0].dx, back.dx, ROWS, in, 0, in);
	compare("the net's dw", net[1].l.dw, back.dw + net[1].p.first * in, net[1].p.held, in, 0,
		in);

	/* base reshape: the parts of x, and their gradients gathered */
	struct split cut = split_new(MVB_BASE_RESHAPE, in, in, NULL, NULL),
		     base = split_new(MVB_BASE_LINEAR, in, hidden, w1, b1);
	struct whole one = whole_layer(in, hidden, w1, b1, x2, last.dx);
	float *dh = memory(ROWS * hidden);
	for (size_t i = 0; i < ROWS * hidden; i++)
		dh[i] = (float)last.dx[i];
	must(mvb_linear_forward(&cut.l, x, ROWS, cut.y));
	must(mvb_linear_forward(&base.l, cut.y, ROWS, base.y));
	must(mvb_linear_backward(&base.l, cut.y, dh, ROWS, base.dx));
	must(mvb_linear_backward(&cut.l, x, base.dx, ROWS, cut.dx));
	compare("y after the reshape", base.y, one.y, ROWS, hidden, 0, hidden);
	compare("dx of the reshape", cut.dx, one.dx, ROWS, in, 0, in);

	for (int i = 0; i < 4; i++)
		split_free(&net[i]);
	split_free(&cut), split_free(&base);
	whole_free(&first), whole_free(&last), whole_free(&back), whole_free(&one);
	free(w1), free(b1), free(w2), free(b2), free(x), free(dy), free(x2), free(dy2), free(none);
	free(dh);
}

int main(int argc, char **argv)
{
	if (argc != 4)
		return 2;
	size_t in = strtoul(argv[1], NULL, 10), hidden = strtoul(argv[2], NULL, 10),
	       out = strtoul(argv[3], NULL, 10);
	must(mvb_init(NULL));
	for (int bias = 0; bias < 2; bias++) {
		check_linear(MVB_INITIAL_LINEAR, in, hidden, bias);
		check_linear(MVB_BASE_LINEAR, in, hidden, bias);
	}
	check_net(in, hidden, out);
	if (mvb_is_master())
		printf("split layers differ from whole ones by %.1e\n", worst);
	must(mvb_shutdown());
	return 0;
}
