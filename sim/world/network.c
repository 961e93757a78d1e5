/*
 * network.c - messages of simulated tables, by SimGrid's model of flows (CM02) without SimGrid's
 * actors and activities: a push of 1,024 workers to each other is a million messages.
 *
 *   a message takes the latency of its way, then its bytes at the rate of its flow
 *   rates are max-min fair: at the link that is the narrowest, flow f gets  b / (p_f sum_g 1 / p_g)
 *   of its bandwidth b;  p_f = latency + sum over its links of weight / bandwidth
 *   each flow also uses 5 % of its rate on the way back
 *
 * Latencies, bandwidths, factors and weights are SimGrid's, and a test compares the times. Flows
 * do not share links with SMPI's messages; a strategy's tables and collectives alternate.
 *
 * Rates change only where flows are connected: links that have flows in common. A change costs
 * O(flows x links) there. A link is left out if another one, or the flow's bound, implies its
 * limit, as that of a server does those of the switches before it. Events are handled when an actor
 * asks, or when one has to know: an actor sleeps until the earliest time at which that can be
 * (passage.least_s).
 */
#include "sim/world/network.h"

#include <float.h>
#include <math.h>
#include <simgrid/actor.h>
#include <simgrid/engine.h>
#include <simgrid/host.h>
#include <simgrid/link.h>
#include <simgrid/semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <xbt/config.h>
#include <xbt/dynar.h>

static const double precision = 1e-9;   /* [s] events that are closer are at the same time */
static const double cross_share = 0.05; /* of a flow's rate, on the way back */

/* One flow on a link; use: the index in its way; usage: of the link, for each unit of rate x
 * penalty. */
struct share {
	struct passage *flow;
	int use;
	double usage;
};

/* A link. */
struct pipe {
	double bandwidth;
	bool shared;         /* false: each flow may have all of it */
	struct share *share; /* [flows] */
	int over;            /* another link that limits all of these flows as much; -1: none */
	int flows, room, waiting;
	double remaining, usage; /* of flows without a rate, while rates are computed */
	uint64_t seen;
	bool changed;
};

/* From a rank's host to another. */
struct way {
	double latency, penalty, bound;
	int links;
	struct use {
		int pipe;
		double weight;
	} use[];
};

/* A passage that an actor waits for, which is not over before this time. */
struct waited {
	struct passage *passage;
	double due;
};

/* A message shorter than this part of the longest one does not slow the others. */
static const double short_part = 0.01;

static struct {
	int ranks;
	struct way ***way; /* [ranks][ranks], made when they are used */
	sg_link_t *link;   /* sorted */
	size_t links;
	struct pipe *pipe; /* [links] */
	int *changed;      /* [links] pipes whose flows have changed; the first `changes` */
	int changes;
	int *part;             /* [links] the pipes that are connected with those, */
	struct passage **flow; /* [room] and their flows */
	size_t flow_room;
	uint64_t seen, order;
	struct passage **heap; /* events */
	struct waited *all;    /* [room] passages that actors wait for */
	size_t events, heap_room, passages, room, soonest;
	double now;     /* all earlier events are done */
	double longest; /* of the messages so far [bytes] */
	bool open, told;
	sg_sem_t bell; /* wakes the actor that waits for the next event */
} net;

/* ---- The heap of events ---- */

static bool earlier(const struct passage *a, const struct passage *b)
{
	return a->at < b->at || (a->at <= b->at && a->order < b->order);
}

static void put(struct passage *p, size_t i)
{
	net.heap[i] = p;
	p->place = i;
}

/* p's time has changed, or i is empty: p takes its place from i on. */
static void sift(struct passage *p, size_t i)
{
	for (size_t up; i > 0 && earlier(p, net.heap[up = (i - 1) / 2]); i = up)
		put(net.heap[up], i);
	for (size_t k; (k = 2 * i + 1) < net.events; i = k) {
		k += k + 1 < net.events && earlier(net.heap[k + 1], net.heap[k]);
		if (!earlier(net.heap[k], p))
			break;
		put(net.heap[k], i);
	}
	put(p, i);
}

static void event_at(struct passage *p, double at)
{
	p->at = at;
	p->order = net.order++;
	if (net.events == net.heap_room) {
		net.heap_room = 2 * net.heap_room + 64;
		net.heap = must(realloc(net.heap, net.heap_room * sizeof(struct passage *)));
	}
	sift(p, net.events++);
}

static void event_drop(struct passage *p)
{
	struct passage *last = net.heap[--net.events];
	if (last != p)
		sift(last, p->place);
}

/* ---- Ways ---- */

static int by_address(const void *a, const void *b)
{
	const sg_link_t x = *(const sg_link_t *)a, y = *(const sg_link_t *)b;
	return (x > y) - (x < y);
}

static void add_links(struct way **way, xbt_dynar_t links, double weight)
{
	size_t n = xbt_dynar_length(links);
	struct way *w = *way = must(
		realloc(*way, sizeof **way + ((size_t)(*way)->links + n) * sizeof(struct use)));
	for (size_t i = 0; i < n; i++) {
		sg_link_t link = xbt_dynar_get_as(links, i, sg_link_t), *at;
		at = bsearch(&link, net.link, net.links, sizeof link, by_address);
		CHECK(at, "a route with an unknown link");
		int pipe = (int)(at - net.link), k = 0;
		while (k < w->links && w->use[k].pipe != pipe)
			k++;
		struct use *u = &w->use[k];
		if (k == w->links)
			*u = (struct use){pipe, 0}, w->links++;
		u->weight = net.pipe[pipe].shared ? u->weight + weight : fmax(u->weight, weight);
	}
}

static struct way *way_new(sg_host_t from, sg_host_t to)
{
	struct way *w = must(calloc(1, sizeof *w));
	xbt_dynar_t there = xbt_dynar_new(sizeof(sg_link_t), NULL),
		    back = xbt_dynar_new(sizeof(sg_link_t), NULL);
	sg_host_get_route(from, to, there);
	sg_host_get_route(to, from, back);
	double weight = sg_cfg_get_double("network/weight-S"),
	       window = sg_cfg_get_double("network/TCP-gamma");
	add_links(&w, there, 1);
	w->latency = w->penalty = sg_host_get_route_latency(from, to);
	w->bound = INFINITY;
	for (int i = 0; i < w->links; i++) {
		w->penalty += weight / net.pipe[w->use[i].pipe].bandwidth;
		w->bound = fmin(w->bound, net.pipe[w->use[i].pipe].bandwidth);
	}
	if (w->latency > 0)
		w->bound = fmin(w->bound, window / (2 * w->latency));
	else
		w->penalty = 1; /* as SimGrid's flows that have no latency */
	if (sg_cfg_get_boolean("network/crosstraffic"))
		add_links(&w, back, cross_share);
	xbt_dynar_free(&there);
	xbt_dynar_free(&back);
	return w;
}

static const struct way *way_of(int from, int to)
{
	struct way ***row = &net.way[from];
	if (!*row)
		*row = must(calloc((size_t)net.ranks, sizeof **row));
	if (!(*row)[to])
		(*row)[to] = way_new(sim_host_of(from), sim_host_of(to));
	return (*row)[to];
}

/* ---- Rates ---- */

static void has_changed(int pipe)
{
	if (!net.pipe[pipe].changed)
		net.changed[net.changes++] = pipe;
	net.pipe[pipe].changed = true;
}

static bool is_used(const struct way *w, int pipe, double weight)
{
	for (int i = 0; i < w->links; i++)
		if (w->use[i].pipe == pipe)
			return w->use[i].weight >= weight;
	return false;
}

/* For the first flow of its i-th link, the busiest of its other links that can be that link's
 * `over`. */
static int link_over(const struct way *w, int i)
{
	const struct use *u = &w->use[i];
	int over = -1, most = 0;
	for (int k = 0; k < w->links; k++) {
		const struct pipe *l = &net.pipe[w->use[k].pipe];
		if (k != i && l->flows > most && l->over < 0 && l->shared &&
		    l->bandwidth <= net.pipe[u->pipe].bandwidth && w->use[k].weight == u->weight) {
			over = w->use[k].pipe;
			most = l->flows;
		}
	}
	return over;
}

/* Whether the i-th link limits no rate more than another link or the bound of the flow does. */
static bool is_implied(const struct way *w, int i)
{
	const struct use *u = &w->use[i];
	const struct pipe *l = &net.pipe[u->pipe];
	return l->over >= 0 || (l->flows == 1 && w->bound * u->weight <= l->bandwidth);
}

static void join_links(struct passage *p)
{
	if (p->spots < p->way->links)
		p->spot = must(realloc(p->spot, (size_t)(p->spots = p->way->links) * sizeof(int)));
	for (int i = 0; i < p->way->links; i++) {
		struct pipe *l = &net.pipe[p->way->use[i].pipe];
		if (l->flows == 0)
			l->over = link_over(p->way, i);
		else if (l->over >= 0 && !is_used(p->way, l->over, p->way->use[i].weight))
			l->over = -1;
		if (l->flows == l->room) {
			l->room = 2 * l->room + 4;
			l->share = must(realloc(l->share, (size_t)l->room * sizeof *l->share));
		}
		p->spot[i] = l->flows;
		l->share[l->flows++] =
			(struct share){p, i, p->way->use[i].weight / p->way->penalty};
	}
}

static void leave_links(struct passage *p)
{
	for (int i = 0; i < p->way->links; i++) {
		struct pipe *l = &net.pipe[p->way->use[i].pipe];
		struct share last = l->share[--l->flows];
		l->share[p->spot[i]] = last;
		last.flow->spot[last.use] = p->spot[i];
		if (l->flows && l->over < 0)
			has_changed(p->way->use[i].pipe);
	}
}

/* The rate of one more flow if the others share as now. *alone: there are none. */
static double rate_beside(const struct way *w, bool *alone)
{
	double rate = w->bound;
	*alone = true;
	for (int i = 0; i < w->links; i++) {
		const struct pipe *l = &net.pipe[w->use[i].pipe];
		double own = w->use[i].weight / w->penalty, all = own;
		for (int k = 0; k < l->flows && l->shared; k++)
			all += l->share[k].usage;
		*alone &= l->flows == 0;
		rate = fmin(rate, l->bandwidth / w->use[i].weight * own / all);
	}
	return rate;
}

/* Finds the links and flows that are connected with the changed links. mark < 0: no rate yet. Links
 * that others imply connect nothing more. */
static int connected(size_t *flows)
{
	int links = 0;
	size_t n = 0;
	net.seen++;
	for (int i = 0; i < net.changes; i++) {
		net.pipe[net.changed[i]].changed = false;
		net.pipe[net.changed[i]].seen = net.seen;
		net.part[links++] = net.changed[i];
	}
	net.changes = 0;
	for (int i = 0; i < links; i++) {
		const struct pipe *l = &net.pipe[net.part[i]];
		for (int k = 0; k < l->flows; k++) {
			struct passage *p = l->share[k].flow;
			if (p->mark < 0)
				continue;
			p->mark = -1;
			if (n == net.flow_room) {
				net.flow_room = 2 * net.flow_room + 64;
				net.flow = must(realloc(net.flow,
							net.flow_room * sizeof(struct passage *)));
			}
			net.flow[n++] = p;
			for (int j = 0; j < p->way->links; j++) {
				int other = p->way->use[j].pipe;
				if (net.pipe[other].seen != net.seen && !is_implied(p->way, j)) {
					net.pipe[other].seen = net.seen;
					net.part[links++] = other;
				}
			}
		}
	}
	*flows = n;
	return links;
}

static void all_wait(struct pipe *l)
{
	double sum = 0, most = 0;
	for (int k = 0; k < l->flows; k++) {
		sum += l->share[k].usage;
		most = fmax(most, l->share[k].usage);
	}
	l->usage = l->shared ? sum : most;
	l->remaining = l->bandwidth;
	l->waiting = l->flows;
}

/* A link that is not shared keeps its bandwidth for each flow. */
static void give_rate(struct passage *p, double rate)
{
	const struct way *w = p->way;
	p->mark = fmax(0, rate);
	for (int i = 0; i < w->links; i++) {
		struct pipe *l = &net.pipe[w->use[i].pipe];
		if (l->seen != net.seen)
			continue;
		l->waiting--;
		if (l->shared) {
			l->remaining = fmax(0, l->remaining - w->use[i].weight * p->mark);
			l->usage = fmax(DBL_MIN, l->usage - l->share[p->spot[i]].usage);
		} else {
			l->usage = 0;
			for (int k = 0; k < l->flows; k++)
				if (l->share[k].flow->mark < 0)
					l->usage = fmax(l->usage, l->share[k].usage);
		}
	}
}

/* The flows of the narrowest links get their rates; then those of the links that are the narrowest
 * for the others. A flow whose bound is below its share gets its bound first. */
static void network_fill(int links)
{
	for (;;) {
		double least = INFINITY, bound = INFINITY;
		for (int i = 0; i < links; i++) {
			const struct pipe *l = &net.pipe[net.part[i]];
			if (l->waiting && l->remaining < least * l->usage)
				least = l->remaining / l->usage;
		}
		if (isinf(least))
			return;
		for (int pass = 0; pass < 2; pass++)
			for (int i = 0; i < links; i++) {
				struct pipe *l = &net.pipe[net.part[i]];
				if (!l->waiting || l->remaining > least * (1 + 1e-12) * l->usage)
					continue;
				for (int k = 0; k < l->flows; k++) {
					struct passage *p = l->share[k].flow;
					double most = p->way->bound * p->way->penalty;
					if (p->mark >= 0)
						continue;
					if (pass == 0 && most < least)
						bound = fmin(bound, most);
					else if (pass == 1 && isinf(bound))
						give_rate(p, least / p->way->penalty);
					else if (pass == 1 && most <= bound * (1 + 1e-12))
						give_rate(p, p->way->bound);
				}
			}
	}
}

static void update_rates(void)
{
	size_t flows;
	int links = connected(&flows);
	for (int i = 0; i < links; i++)
		all_wait(&net.pipe[net.part[i]]);
	network_fill(links);
	for (size_t i = 0; i < flows; i++) {
		struct passage *p = net.flow[i];
		if (p->mark < 0) /* its links have more than can be computed with */
			p->mark = p->way->bound;
		double rate = fmax(p->mark, 1e-9) * p->factor;
		if (rate == p->rate)
			continue;
		p->left = fmax(0, p->left - p->rate * (net.now - p->since));
		p->since = net.now;
		p->rate = rate;
		p->at = net.now + p->left / rate;
		sift(p, p->place);
	}
}

/* ---- Time ---- */

/* A flow alone, and a short one, change no other's rate. */
static void begin_flow(struct passage *p)
{
	bool alone;
	const double rate = rate_beside(p->way, &alone) * p->factor;
	const bool is_short = p->left < short_part * net.longest;
	p->state = is_short ? PASSAGE_BESIDE : PASSAGE_FLOWS;
	p->rate = alone || is_short ? rate : 0;
	p->mark = 0;
	p->since = net.now;
	event_at(p, p->rate > 0 ? net.now + p->left / p->rate : INFINITY); /* until it is known */
	if (is_short)
		return;
	join_links(p);
	for (int i = 0; i < p->way->links && !alone; i++)
		if (net.pipe[p->way->use[i].pipe].over < 0)
			has_changed(p->way->use[i].pipe);
}

static void handle(struct passage *p)
{
	event_drop(p);
	if (p->state == PASSAGE_LATENT && p->way->links > 0) {
		begin_flow(p);
		return;
	}
	if (p->state == PASSAGE_FLOWS)
		leave_links(p);
	p->state = PASSAGE_IDLE;
	p->then(p);
}

/* Rates change once for all that happens at the same time. */
static void network_advance_to(double now)
{
	for (;;) {
		double next = net.events ? net.heap[0]->at : INFINITY;
		if (net.changes && fmin(next, now) > net.now + precision) {
			update_rates();
			continue;
		}
		if (next > now + precision)
			break;
		net.now = fmax(net.now, next);
		handle(net.heap[0]);
	}
	net.now = fmax(net.now, now);
}

/* The earliest time at which an actor may have to know something. A passage without an event waits
 * for another passage's. After the next event a flow can have all of its way. Most of many passages
 * are due later than the soonest one, and are not looked at again. */
static double next_time(void)
{
	double next = INFINITY, first = net.events ? net.heap[0]->at : INFINITY;
	for (size_t i = 0, k = net.soonest; i < net.passages; i++, k++) {
		k = k < net.passages ? k : 0;
		struct waited *a = &net.all[k];
		if (a->due >= next)
			continue;
		const struct passage *p = a->passage;
		double at = p->state == PASSAGE_IDLE ? first : p->at;
		if (p->state == PASSAGE_LATENT)
			at += p->left / (p->way->bound * p->factor);
		else if (p->state == PASSAGE_FLOWS)
			at = first + fmax(0, p->left - p->rate * (first - p->since)) /
					     (p->way->bound * p->factor);
		/* an actor can begin a passage whose event comes first */
		const bool stays = p->state != PASSAGE_IDLE && p->state != PASSAGE_FLOWS;
		a->due = (stays ? at : net.now) + p->least_s;
		if (at + p->least_s < next) {
			next = at + p->least_s;
			net.soonest = k;
		}
	}
	return next;
}

static void clock_main(int argc, char **argv)
{
	(void)argc, (void)argv;
	sg_actor_daemonize(sg_actor_self());
	for (;;) {
		net.told = false;
		network_advance_to(simgrid_get_clock());
		if (net.changes)
			update_rates();
		double next = next_time() - simgrid_get_clock();
		if (isinf(next))
			sg_sem_acquire(net.bell);
		else
			sg_sem_acquire_timeout(net.bell, fmax(next, precision));
	}
}

static void network_open(void)
{
	net.open = true;
	net.ranks = sim_ranks();
	net.way = must(calloc((size_t)net.ranks, sizeof *net.way));
	net.links = sg_link_count();
	net.link = sg_link_list();
	qsort(net.link, net.links, sizeof *net.link, by_address);
	net.pipe = must(calloc(net.links + 1, sizeof *net.pipe));
	net.changed = must(calloc(net.links + 1, sizeof *net.changed));
	net.part = must(calloc(net.links + 1, sizeof *net.part));
	for (size_t i = 0; i < net.links; i++) {
		net.pipe[i].bandwidth = sg_link_get_bandwidth(net.link[i]);
		net.pipe[i].shared = sg_link_is_shared(net.link[i]);
	}
	net.now = simgrid_get_clock();
	net.bell = sg_sem_init(0);
	sg_actor_t actor = sg_actor_init("network", sg_host_self());
	sg_actor_start(actor, clock_main, 0, NULL);
}

void network_advance(void)
{
	if (!net.open)
		network_open();
	network_advance_to(simgrid_get_clock());
}

double network_now(void)
{
	return net.now;
}

static void tell(void)
{
	const bool told = net.told;
	net.told = true;
	if (!told) /* other actors run here */
		sg_sem_release(net.bell);
}

void network_free(void)
{
	for (int i = 0; i < net.ranks && net.open; i++) {
		for (int k = 0; net.way[i] && k < net.ranks; k++)
			free(net.way[i][k]);
		free(net.way[i]);
	}
	for (size_t i = 0; i < net.links && net.open; i++)
		free(net.pipe[i].share);
	free(net.way);
	free(net.link);
	free(net.pipe);
	free(net.changed);
	free(net.part);
	free(net.flow);
	free(net.heap);
	free(net.all);
	memset(&net, 0, sizeof net);
}

/* ---- Passages ---- */

void passage_begin(struct passage *p)
{
	if (net.passages == net.room) {
		net.room = 2 * net.room + 64;
		net.all = must(realloc(net.all, net.room * sizeof *net.all));
	}
	p->number = net.passages;
	net.all[net.passages++] = (struct waited){p, 0};
	tell();
}

void passage_over(struct passage *p)
{
	struct waited last = net.all[--net.passages];
	net.all[last.passage->number = p->number] = last;
}

void passage_delay(struct passage *p, double seconds, void (*then)(struct passage *p))
{
	p->state = PASSAGE_DELAYED;
	p->then = then;
	event_at(p, net.now + seconds);
}

void passage_send(struct passage *p, double after, int from, int to, double bytes,
		  void (*then)(struct passage *p))
{
	const double with_envelope = bytes + MESSAGE_ENVELOPE;
	p->state = PASSAGE_LATENT;
	p->then = then;
	p->way = way_of(from, to);
	p->left = with_envelope;
	net.longest = fmax(net.longest, with_envelope);
	p->factor = engine_factor(FACTOR_BANDWIDTH, with_envelope);
	event_at(p,
		 net.now + after + p->way->latency * engine_factor(FACTOR_LATENCY, with_envelope));
}

double message_least(int from, int to, double bytes)
{
	const double with_envelope = bytes + MESSAGE_ENVELOPE;
	const struct way *w = way_of(from, to);
	return w->latency * engine_factor(FACTOR_LATENCY, with_envelope) +
	       with_envelope / (w->bound * engine_factor(FACTOR_BANDWIDTH, with_envelope));
}
