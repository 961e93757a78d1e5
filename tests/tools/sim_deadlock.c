/*
 * sim_deadlock.c - simulated workers that wait for each other for ever:
 * sim_deadlock recv|send|collectives|table [--option=value ...]
 */
#include "results/run/run.h"
#include "runtime/config/config.h"
#include "runtime/train/train.h"

#include <string.h>

enum { STEP = 3 }; /* the first step that deadlocks */

static int before(const struct worker *w)
{
	return (w->rank + w->trainers - 1) % w->trainers;
}

static int after(const struct worker *w)
{
	return (w->rank + 1) % w->trainers;
}

/* All receive first. */
static void step_recv(struct worker *w)
{
	if (w->step < STEP)
		return;
	comm_recv(w->all, before(w), w->grad);
	comm_send(w->all, after(w), w->grad);
}

/* All send first. */
static void step_send(struct worker *w)
{
	if (w->step < STEP)
		return;
	comm_send(w->all, after(w), w->grad);
	comm_recv(w->all, before(w), w->grad);
}

static void step_collectives(struct worker *w)
{
	if (w->step == STEP && w->rank == 0)
		comm_allreduce(w->all, w->grad, COMM_SUM);
	else if (w->step == STEP)
		comm_recv(w->all, 0, w->grad);
}

struct state {
	struct table *table;
};

static void init_table(struct worker *w)
{
	struct state *s = w->state;
	s->table = table_new(w, w->param);
}

/* The last worker pushes only after worker 0, which waits for the last worker's push. */
static void step_table(struct worker *w)
{
	struct state *s = w->state;
	if (w->step == STEP && w->rank == w->trainers - 1)
		comm_recv(w->all, 0, w->grad);
	table_sync(s->table, w->param, &(struct push){.scale = 1});
	if (w->step == STEP && w->rank == 0)
		comm_send(w->all, w->trainers - 1, w->grad);
}

static void fini_table(struct worker *w)
{
	struct state *s = w->state;
	table_free(s->table);
}

static double no_bytes(const struct worker *w)
{
	(void)w;
	return 0;
}

static struct table_terms rounds(const struct run *run, const void *opts)
{
	(void)run, (void)opts;
	return (struct table_terms){.rounds = true, .syncs = true};
}

#define STUCK(kind) .plugin = {.name = #kind}, .step = step_##kind, .bytes_per_step = no_bytes

static const struct strategy kinds[] = {
	{STUCK(recv)},
	{STUCK(send)},
	{STUCK(collectives)},
	{STUCK(table), .state_size = sizeof(struct state), .init = init_table, .fini = fini_table,
	 .terms = rounds},
};

int main(int argc, char **argv)
{
	struct sink sink = {.self = NULL}; /* the run is not recorded */
	struct simulation simulation;
	struct arguments a;
	struct config c;
	struct plan plan;
	size_t kind = 0;
	CHECK(argc > 1, "which kind?");
	while (kind < sizeof kinds / sizeof *kinds && strcmp(kinds[kind].plugin.name, argv[1]))
		kind++;
	CHECK(kind < sizeof kinds / sizeof *kinds, "no kind %s", argv[1]);
	char *wrong = arguments_read(&a, argc - 2, argv + 2, NULL, NULL);
	if (!wrong)
		wrong = config_init(&c, a.option, a.options, false);
	if (!wrong)
		wrong = plan_make(&c, &plan);
	if (!wrong)
		wrong = simulation_find(&c, &plan, &simulation);
	if (wrong)
		user_error("%s", wrong);
	plan.simulation = &simulation;
	c.strategy = &kinds[kind];
	return train(&c, &plan, &sink, NULL);
}
