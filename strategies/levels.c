/*
 * levels.c - see levels.h.
 */
#include "strategies/levels.h"

#include <string.h>

char *levels_refuse(const struct run *run, const char *strategy, const struct levels_opts *o)
{
	if (o->size == 0 && o->every == 0)
		return NULL;
	if (o->every == 0)
		return sentence("--%s.group=%lld: say how often a group averages: "
				"--%s.group-every=10",
				strategy, (long long)o->size, strategy);
	const char *why = o->size && run_workers(run) % o->size
				  ? "the workers are no whole number of such groups"
			  : strcmp(run_state(run), "average") == 0
				  ? "a group averages models only; leave --state=average out"
				  : NULL;
	return why ? sentence("--%s.group=%lld: %s", strategy, (long long)o->size, why) : NULL;
}

void levels_init(struct levels *l, struct worker *w, const char *strategy,
		 const struct levels_opts *o)
{
	int n = comm_size(w->data_group), size = (int)o->size;
	if (o->every == 0)
		return;
	l->every = o->every;
	l->share = vec_new(w, 1);
	worker_keep(w, &l->since, sizeof l->since);
	if (size > 0) {
		l->groups = n / size;
		l->comm = comm_split(w->data_group, comm_rank(w->data_group) / size);
		return;
	}
	l->comm = comm_split_places(w->data_group, &l->groups);
	if (n > 1 && (l->groups == 1 || l->groups == n))
		user_error("--%s.group=0: the workers are on %d machine%s; give a number", strategy,
			   l->groups, l->groups > 1 ? "s, each on its own" : "");
}

void levels_fini(struct levels *l)
{
	comm_free(l->comm);
	vec_free(l->share);
}

void levels_stepped(struct levels *l, const struct worker *w)
{
	const double share = worker_share(w);
	l->since.shares += share;
	l->since.idle += share != 1;
}

bool levels_due(const struct levels *l, const struct worker *w)
{
	return l->comm && w->step % l->every == 0;
}

void levels_restart(struct levels *l)
{
	memset(&l->since, 0, sizeof l->since);
}

/* Without rows a model does not count, unless the whole group had none: then all are equal. */
void levels_average(struct levels *l, struct worker *w)
{
	float mine = (float)l->since.shares, mean = 0;
	consensus_mark(w);
	if (l->since.idle && w->optimizer->normalises) {
		vec_fill(l->share, mine);
		comm_allreduce(l->comm, l->share, COMM_MEAN);
		if (vec_has_data(l->share))
			vec_get(l->share, &mean);
		vec_scale(w->param, mean > 0 ? mine / mean : 1);
	}
	comm_allreduce(l->comm, w->param, COMM_MEAN);
	local_met(w);
	levels_restart(l);
}

double levels_bytes(const struct levels *l, const struct worker *w, int64_t steps)
{
	double n = comm_size(w->data_group);
	if (!l->comm)
		return 0;
	double floats = 2 * (n - l->groups) / n * (double)vec_len(w->param);
	return (double)((steps - 1) / l->every) * floats * sizeof(float);
}
