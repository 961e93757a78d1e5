/*
 * sim_flows.c - compares the flows of sim/world/network.c with SimGrid's: every worker sends
 * messages of random lengths to random workers, first by SimGrid, then the same ones by network.c.
 * Every other one is answered by a second message of the same passage. Prints the number of
 * messages and the largest relative difference of their arrivals: sim_flows [--option=value ...]
 */
#include "results/run/run.h"
#include "runtime/config/config.h"
#include "runtime/train/train.h"
#include "sim/world/network.h"

#include <math.h>
#include <simgrid/actor.h>
#include <simgrid/engine.h>
#include <simgrid/host.h>
#include <simgrid/semaphore.h>
#include <stdio.h>

enum { MESSAGES = 20 };

struct sender {
	struct passage passage; /* the first member */
	sg_sem_t bell;
	int from, to;
	double answer;               /* bytes; 0: none is left to send */
	double by_simgrid[MESSAGES]; /* times of arrival */
};

static double worst;
static int64_t messages;

static void arrived(struct passage *p)
{
	struct sender *s = (struct sender *)(void *)p;
	const double bytes = s->answer;
	s->answer = p->least_s = 0;
	if (bytes > 0) {
		passage_send(p, 0, s->to, s->from, bytes, arrived);
		return;
	}
	passage_over(p);
	sg_sem_release(s->bell);
}

/* answer: 0: none. */
static void send(struct sender *s, int from, int to, double bytes, double answer, bool by_network)
{
	if (!by_network) {
		sg_host_sendto(sim_host_of(from), sim_host_of(to), bytes + MESSAGE_ENVELOPE);
		if (answer > 0)
			sg_host_sendto(sim_host_of(to), sim_host_of(from),
				       answer + MESSAGE_ENVELOPE);
		return;
	}
	network_advance();
	s->from = from;
	s->to = to;
	s->answer = answer;
	s->passage.least_s = answer > 0 ? message_least(to, from, answer) : 0;
	passage_send(&s->passage, 0, from, to, bytes, arrived);
	passage_begin(&s->passage);
	sg_sem_acquire(s->bell);
}

static void step_flows(struct worker *w)
{
	struct sender *s = w->state;
	const bool by_network = w->step == 2;
	uint64_t rng = rng_seed(run_seed(w->run), RNG_DATA, w->rank);
	if (w->step > 2)
		return;
	comm_barrier(w->all);
	const double began = simgrid_get_clock();
	for (int i = 0; i < MESSAGES; i++) {
		double pause = 1e-3 * rng_uniform(&rng),
		       bytes = pow(10, 5.1 + 1.9 * rng_uniform(&rng)),
		       answer = i % 2 ? pow(10, 5.1 + 1.9 * rng_uniform(&rng)) : 0;
		/* half of them go to few workers */
		int among = rng_uniform(&rng) < 0.5 ? 2 : w->trainers,
		    to = (int)(rng_uniform(&rng) * among);
		sg_actor_sleep_for(pause);
		send(s, w->rank, to, bytes, answer, by_network);
		double at = simgrid_get_clock() - began;
		if (!by_network)
			s->by_simgrid[i] = at;
		else
			worst = fmax(worst, fabs(at / s->by_simgrid[i] - 1));
		messages += by_network ? 1 + i % 2 : 0;
	}
	comm_barrier(w->all);
}

static void init_flows(struct worker *w)
{
	struct sender *s = w->state;
	s->bell = sg_sem_init(0);
}

static void fini_flows(struct worker *w)
{
	if (w->rank == 0)
		printf("%lld messages, differ by %.3g\n", (long long)messages, worst);
}

static double no_bytes(const struct worker *w)
{
	(void)w;
	return 0;
}

static const struct strategy flows = {.plugin = {.name = "flows"},
				      .state_size = sizeof(struct sender),
				      .init = init_flows,
				      .step = step_flows,
				      .fini = fini_flows,
				      .bytes_per_step = no_bytes};

int main(int argc, char **argv)
{
	struct sink sink = {.self = NULL}; /* the run is not recorded */
	struct simulation simulation;
	struct arguments a;
	struct config c;
	struct plan plan;
	char *wrong = arguments_read(&a, argc - 1, argv + 1, NULL, NULL);
	if (!wrong)
		wrong = config_init(&c, a.option, a.options, false);
	if (!wrong)
		wrong = plan_make(&c, &plan);
	if (!wrong)
		wrong = simulation_find(&c, &plan, &simulation);
	if (wrong)
		user_error("%s", wrong);
	plan.simulation = &simulation;
	c.strategy = &flows;
	return train(&c, &plan, &sink, NULL);
}
