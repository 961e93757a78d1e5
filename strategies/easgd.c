/*
 * easgd.c - elastic averaging SGD (Zhang, Choromanska, LeCun, NIPS 2015, arXiv 1412.6651): trainers
 * and a centre c move toward each other.
 *
 *   each step:     v = m v + g(w);  w -= lr v                        local
 *   every X steps: d = alpha (w - c);  w -= d;  c += d               alpha = beta / N
 *
 * --easgd.order  together  at the step's own w: g(w) and d are of one model, as in the paper's box
 *                after     the exchange comes after the step
 * --easgd.form   asynchronous  the centre is on the server; workers exchange with it in turn
 *                synchronous   all exchange at once, same c: c += sum of d = beta (mean of w - c);
 *                              each trainer keeps the centre, which is the same on all
 *
 * With --codec an asynchronous exchange pulls c, and moves both by what the codec leaves of d: the
 * rest stays in w - c. In the synchronous form, w moves by d, and feedback keeps the rest.
 *
 * The canonical model is the centre; it gains what the trainers lose. An exchange moves 2 (N - 1) /
 * N P floats, 2 P with servers. --reduce does not matter: beta takes its place. The paper's EAMSGD
 * uses Nesterov's gradient; this uses a heavy ball.
 */
#include "strategies/exchange.h"

#include <string.h>

struct easgd_opts {
	double beta;
	const char *order, *form;
};

struct easgd {
	/* the first member: exchange_* use the state as a struct exchange; for the asynchronous
	 * form */
	struct exchange exchange;
	struct vec *centre, *apart; /* for the synchronous form: c, and w - c */
};

#define OWNER struct easgd_opts
static const struct option easgd_options[] = {
	OPTION(beta, REAL, "beta", "0.9",
	       "elastic coefficient: an exchange moves worker and centre by alpha = beta / N of "
	       "their difference [factor]",
	       .min = 0, .max = 1),
	OPTION(order, CHOICE, "order", "together",
	       "when a worker exchanges with the centre: together with its step, both at one "
	       "model, as in the paper; or after its step [name]",
	       .choices = "together|after"),
	OPTION(form, CHOICE, "form", "asynchronous",
	       "workers exchange one after the other with a centre on the server; or all at once, "
	       "and wait for each other [name]",
	       .choices = "asynchronous|synchronous"),
	{0},
};

static bool is_synchronous(const void *opts)
{
	const struct easgd_opts *o = opts;
	return strcmp(o->form, "synchronous") == 0;
}

static char *easgd_refuse(const struct run *run, const void *opts)
{
	const char *why = !is_synchronous(opts)  ? NULL
			  : run_servers(run) > 0 ? "each worker keeps the centre, and no server "
						   "does; use --servers=0"
			  : *run_leave(run)      ? "workers wait for each other in every "
						   "exchange, and none can --leave"
			  : run_record(run)      ? "there is no order of arrival to --record"
			  : strcmp(run_table_home(run), "auto") != 0
				  ? "each worker keeps the centre, and there is no table; leave "
				    "--table-home out"
				  : NULL;
	return why ? sentence("--easgd.form=synchronous: %s", why) : NULL;
}

static const char *easgd_why_static(const struct run *run, const void *opts)
{
	(void)run;
	return is_synchronous(opts) ? "all workers exchange at once; give "
				      "--easgd.form=asynchronous"
				    : NULL;
}

static struct table_terms easgd_terms(const struct run *run, const void *opts)
{
	(void)run;
	return (struct table_terms){.none = is_synchronous(opts), .init = TABLE_MASTER};
}

static void easgd_init(struct worker *w)
{
	struct easgd *s = w->state;
	if (!is_synchronous(w->opts)) {
		s->exchange.table = table_new(w, w->param);
		return;
	}
	s->centre = vec_new(w, vec_len(w->param));
	s->apart = vec_new(w, vec_len(w->param));
	vec_copy(s->centre, w->param);
	worker_keep_vec(w, s->centre);
}

static void easgd_pull(struct worker *w)
{
	const struct easgd_opts *o = w->opts;
	struct easgd *s = w->state;
	float alpha = (float)(o->beta / (double)comm_size(w->data_group));
	consensus_mark(w);
	if (!s->centre) {
		table_elastic(s->exchange.table, w->param, alpha);
		local_met(w);
		return;
	}
	vec_copy(s->apart, w->param);
	vec_axpy(s->apart, -1, s->centre);
	vec_axpy(w->param, -alpha, s->apart);
	comm_allreduce(w->coded, s->apart, COMM_SUM);
	vec_axpy(s->centre, alpha, s->apart);
	local_met(w);
}

static void easgd_step(struct worker *w)
{
	const struct easgd_opts *o = w->opts;
	const struct easgd *s = w->state;
	bool pulls = w->step % run_sync_every(w->run) == 0;
	bool steps = w->rows > 0 || s->centre; /* who waits for nobody makes no step without rows */
	if (!pulls || strcmp(o->order, "after") == 0) {
		if (steps)
			local_step(w, 1);
		if (pulls)
			easgd_pull(w);
		return;
	}
	if (steps)
		local_gradient(w); /* at the w of the gradient, before the exchange moves it */
	easgd_pull(w);
	if (steps)
		local_update(w);
}

static void easgd_canonical(struct worker *w, struct vec *model)
{
	struct easgd *s = w->state;
	if (s->centre)
		vec_copy(model, s->centre);
	else
		exchange_canonical(w, model);
}

static double easgd_bytes(const struct worker *w)
{
	const struct easgd *s = w->state;
	return s->centre ? comm_sum_bytes(w->coded, 0, vec_len(w->param)) /
				   (double)run_sync_every(w->run)
			 : exchange_bytes(w);
}

static void easgd_fini(struct worker *w)
{
	struct easgd *s = w->state;
	exchange_fini(w);
	vec_free(s->centre);
	vec_free(s->apart);
}

const struct strategy strategy_easgd = {
	.plugin = {.name = "easgd",
		   .summary = "elastic averaging: workers and a centre move toward each other",
		   .options = easgd_options,
		   .opts_size = sizeof(struct easgd_opts)},
	.state_size = sizeof(struct easgd),
	.refuse = easgd_refuse,
	.init = easgd_init,
	.step = easgd_step,
	.codes = CODES_MOVES,
	.fini = easgd_fini,
	.canonical = easgd_canonical,
	.why_static = easgd_why_static,
	.may_leave = true,
	.terms = easgd_terms,
	.meets = MEETS_ALONE,
	.bytes_per_step = easgd_bytes,
	.epoch_time = "steps (step + elastic exchange / X)",
};
