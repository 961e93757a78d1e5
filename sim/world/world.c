/*
 * world.c - the simulated platform: SimGrid's virtual time, and workers that are actors of SMPI in
 * this one process. Its counterpart is runtime/world/world.c.
 *
 * A worker's computation itself takes no virtual time: sim_charge adds up the time that it would
 * take. The worker advances the clock by this pending time, as one computation, when it next reads
 * the clock; every communication does so first. Workers run one at a time and give way only inside
 * SimGrid. Between two such calls no other worker touches shared data.
 *
 * Work is measured in seconds on the fastest host of the platform: a slower one takes longer.
 */
#include "runtime/config/clusters.h"
#include "runtime/config/config.h"
#include "runtime/config/dataset.h"
#include "runtime/config/heterogeneity.h"
#include "runtime/config/hosts.h"
#include "runtime/config/plan.h"
#include "sim/world/network.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <math.h>
#include <simgrid/actor.h>
#include <simgrid/cond.h>
#include <simgrid/engine.h>
#include <simgrid/host.h>
#include <simgrid/link.h>
#include <simgrid/mutex.h>
#include <simgrid/semaphore.h>
#include <simgrid/zone.h>
#include <smpi/mpi.h>
#include <smpi/smpi.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <xbt/dynar.h>

const bool world_is_virtual = true;
const struct plan *sim_plan;

static struct {
	int (*life)(void *ctx);
	void *ctx;
	const struct config *config;
	struct sim_worker *worker; /* [workers] */
	int workers;               /* including servers */
	sg_host_t *place;          /* [workers] the host of each */
	double speed;              /* of the fastest host [flop/s] */
	nsec began;                /* wall clock */
	int64_t events;
	int busy;         /* workers that compute, or sleep for a known time */
	int64_t seen;     /* events, when a worker last polled after a new one, */
	double seen_at;   /* and the time then [s] */
	double longest_s; /* bound on a message's time; 0: not known yet */
} world;

struct sim_worker *sim_self(void)
{
	return sg_actor_self() ? sg_actor_self_get_data() : NULL;
}

struct sim_worker *sim_worker_of(int rank)
{
	return &world.worker[rank];
}

int sim_ranks(void)
{
	return world.workers;
}

sg_host_t sim_host_of(int rank)
{
	return world.place[rank];
}

/* ---- Time ---- */

static nsec wall_now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (nsec)t.tv_sec * 1000000000 + t.tv_nsec;
}

void sim_charge(enum spent kind, double seconds)
{
	sim_self()->charged_s[kind] += seconds;
}

void sim_charge_for(enum spent kind, enum cost what, double amount)
{
	sim_charge(kind, curve_at(&sim_plan->simulation->cost[what], amount));
}

/* Books the time since the last call, which kinds share in proportion. */
static void book(struct sim_worker *me, const double *share, double all)
{
	double now = simgrid_get_clock(), took = me->off_clock ? 0 : now - me->known_s;
	me->known_s = now;
	for (int k = 0; k < SPENT_KINDS && took > 0; k++)
		me->spent_s[k] += took * share[k] / all;
}

static void book_as(struct sim_worker *me, enum spent kind)
{
	double share[SPENT_KINDS] = {0};
	share[kind] = 1;
	book(me, share, 1);
}

/* How long this worker's host computes what takes the fastest host this time [s]. */
static double seconds_here(double seconds)
{
	return seconds * world.speed / sg_host_get_speed(sg_host_self());
}

/* Outside MPI, for about this time: computes, or sleeps. */
static void stay_away(struct sim_worker *me, double seconds, bool computes)
{
	world.busy++;
	me->away_until_s = simgrid_get_clock() + (computes ? seconds_here(seconds) : seconds);
	if (computes)
		sg_actor_execute(seconds * world.speed);
	else
		sg_actor_sleep_for(seconds);
	world.busy--;
	me->away_until_s = 0;
	me->stretches++;
}

static double pending_s(const struct sim_worker *me)
{
	double all = 0;
	for (int k = 0; k < SPENT_KINDS; k++)
		all += me->charged_s[k];
	return all;
}

static void advance_clock(struct sim_worker *me)
{
	double pending[SPENT_KINDS], asleep = me->asleep_s, charged = pending_s(me);
	memcpy(pending, me->charged_s, sizeof pending);
	memset(me->charged_s, 0, sizeof me->charged_s);
	me->asleep_s = 0;
	world.events += (charged > 0) + (asleep > 0);
	book_as(me, SPENT_MESSAGE); /* what nobody has charged */
	if (charged > 0) {
		stay_away(me, charged, true);
		book(me, pending, charged);
	}
	if (asleep > 0) {
		stay_away(me, asleep, false);
		book_as(me, SPENT_STEP);
	}
}

nsec clock_now(void)
{
	struct sim_worker *me = sim_self();
	if (me)
		advance_clock(me);
	return (nsec)llround(1e9 * simgrid_get_clock());
}

/* The pending time counts as on an idle core. */
nsec clock_peek(void)
{
	const struct sim_worker *me = sim_self();
	double pending = me ? seconds_here(pending_s(me)) + me->asleep_s : 0;
	return (nsec)llround(1e9 * (simgrid_get_clock() + pending));
}

void clock_delay(nsec dt)
{
	struct sim_worker *me = sim_self();
	clock_now();
	if (!me || dt <= 0)
		return;
	stay_away(me, 1e-9 * (double)dt, false);
	book_as(me, SPENT_SLEEP);
}

/* Floats in rank 0's memory travel over the links between the two hosts. */
static void charge_links(const struct sim_worker *me, struct table_work work, size_t n)
{
	sg_host_t owner = world.place[0], here = sg_host_self();
	double bytes = (double)(n * sizeof(float));
	if (here == owner || me->rank == 0)
		return;
	if (work.goes)
		sg_host_sendto(here, owner, bytes);
	if (work.returns)
		sg_host_sendto(owner, here, bytes);
}

static double op_cost(struct table_work work, size_t n)
{
	static const enum cost cost[] = {[WORK_READ] = COST_READ,
					 [WORK_PUSH] = COST_PUSH,
					 [WORK_SYNC] = COST_SYNC,
					 [WORK_ELASTIC] = COST_ELASTIC};
	double whole = sim_plan->simulation->update_s * (double)n / (double)sim_plan->params;
	if (isnan(whole))
		return curve_at(&sim_plan->simulation->cost[cost[work.kind]], (double)n) *
		       (work.updates ? sim_plan->simulation->push_share : 1);
	return work.one_way ? whole / 2 : whole;
}

void world_charge_op(struct table_work work, size_t n, bool shared)
{
	struct sim_worker *me = sim_self();
	if (!me || n == 0)
		return;
	sim_charge(SPENT_PUSH, op_cost(work, n));
	advance_clock(me);
	if (shared)
		charge_links(me, work, n);
}

void world_charge_sum(size_t n, int ranks)
{
	struct sim_worker *me = sim_self();
	if (ranks == 1 || me->off_clock)
		return;
	const struct curve *whole = &sim_plan->simulation->allreduce;
	if (me->summed)
		sim_charge(SPENT_SUM, curve_at(whole, (double)n));
	else if (whole->n) /* its own part of a sum whose messages were simulated */
		sim_charge_for(SPENT_SUM, COST_AXPY, (double)n / ranks);
	else
		sim_charge_for(SPENT_SUM, COST_SUM, (double)n);
	me->summed = false;
	advance_clock(me);
}

void world_charge(double floats)
{
	const double guess_s = 1e-9; /* of a float */
	const struct curve *c = &sim_plan->simulation->cost[COST_HOST];
	if (!sim_self()->quiet)
		sim_charge(SPENT_HOST, c->n ? curve_at(c, floats) : guess_s * floats);
}

void world_charge_code(const void *which, double passes, size_t n, bool decodes)
{
	const struct code_time *its = sim_plan->simulation->code;
	its += its->codec != which;
	double whole = its->codec == which ? its->s[decodes] : NAN;
	if (isnan(whole))
		world_charge(passes * (double)n);
	else if (!sim_self()->quiet)
		sim_charge(SPENT_HOST, whole * (double)n / (double)sim_plan->params);
}

/* ---- Monitors ---- */

/* A worker that waits for a time at most. sg_cond_wait_for lets go of the mutex before it waits: a
 * broadcast in between would be lost. */
struct sleeper {
	sg_sem_t bell;
	struct sleeper *next;
};

struct sim_monitor {
	sg_mutex_t mutex;
	sg_cond_t cond;
	struct sleeper *sleepers;
};
_Static_assert(sizeof(struct sim_monitor) <= sizeof(struct monitor), "a monitor is too small");

static struct sim_monitor *in(struct monitor *m)
{
	return (struct sim_monitor *)(void *)m->at;
}

void monitor_init(struct monitor *m)
{
	*in(m) = (struct sim_monitor){.mutex = sg_mutex_init(), .cond = sg_cond_init()};
}

void monitor_lock(struct monitor *m)
{
	sg_mutex_lock(in(m)->mutex);
}

void monitor_unlock(struct monitor *m)
{
	sg_mutex_unlock(in(m)->mutex);
}

static void sleep_in(struct sim_monitor *m, double most_s)
{
	struct sleeper me = {sg_sem_init(0), m->sleepers};
	m->sleepers = &me;
	sg_mutex_unlock(m->mutex);
	sg_sem_acquire_timeout(me.bell, most_s);
	sg_mutex_lock(m->mutex);
	for (struct sleeper **at = &m->sleepers; *at; at = &(*at)->next)
		if (*at == &me) {
			*at = me.next;
			break;
		}
	sg_sem_destroy(me.bell);
}

void monitor_wait(struct monitor *m, nsec most)
{
	if (most)
		sleep_in(in(m), 1e-9 * (double)most);
	else
		sg_cond_wait(in(m)->cond, in(m)->mutex);
	sim_charge_for(SPENT_WAKE, COST_WAKE, 1);
}

void monitor_broadcast(struct monitor *m)
{
	sg_cond_notify_all(in(m)->cond);
	while (in(m)->sleepers) {
		struct sleeper *s = in(m)->sleepers;
		in(m)->sleepers = s->next;
		sg_sem_release(s->bell);
	}
}

/* ---- Workers ---- */

void world_reach(int first, int end)
{
	struct sim_worker *me = sim_self();
	if (!config_simulates_hosts(world.config))
		return;
	int64_t *seen AUTOFREE = must(calloc((size_t)(end - first), sizeof *seen));
	advance_clock(me);
	for (int r = first; r < end; r++)
		seen[r - first] = world.worker[r].stretches;
	for (int r = first; r < end; r++) {
		const struct sim_worker *w = &world.worker[r];
		for (double now; w->node != me->node && w->stretches == seen[r - first] &&
				 w->away_until_s > (now = simgrid_get_clock());)
			sg_actor_sleep_for(w->away_until_s - now);
	}
}

void world_off_clock(bool off)
{
	struct sim_worker *me = sim_self();
	advance_clock(me);
	me->off_clock = off;
}

bool world_is_off_clock(void)
{
	return sim_self()->off_clock;
}

void world_exit(int status)
{
	fflush(NULL);
	_exit(status); /* not exit(): the other workers' stacks are in use */
}

uint64_t world_node(void)
{
	return sim_self()->node;
}

void world_enter(const char *what, int peer)
{
	struct sim_worker *me = sim_self();
	if (!me)
		return;
	advance_clock(me);
	world.events++;
	me->doing = what;
	me->peer = peer;
}

void world_leave(void)
{
}

void world_wait(const char *what, nsec expected)
{
	(void)what, (void)expected;
}

/* NULL, or a message. SimGrid writes a small file there, and ends the process if it cannot. */
static char *look_at_tmp(void)
{
	enum { FILE_BYTES = 1 << 20 };
	char path[] = "/tmp/mvbench-XXXXXX";
	int fd = mkstemp(path), why = fd < 0 ? errno : posix_fallocate(fd, 0, FILE_BYTES);
	if (fd >= 0) {
		unlink(path);
		close(fd);
	}
	return why ? sentence("--platform=sim: a simulation needs 1 MiB in /tmp, which cannot be "
			      "written (%s): free some space",
			      strerror(why))
		   : NULL;
}

float *link_nowhere(void)
{
	static float *nowhere;
	/* SMPI copies no message that begins here, however long it is. Nothing computes with its
	 * floats, except an upper bound of activations. One page backs all of it. */
	if (!nowhere)
		nowhere = must(SMPI_SHARED_MALLOC((size_t)NOWHERE_BYTES));
	return nowhere;
}

struct world_cost world_cost(void)
{
	struct world_cost cost = {.simulated_s = simgrid_get_clock(),
				  .wall_s = 1e-9 * (double)(wall_now() - world.began),
				  .events = world.events};
	if (sim_self())
		memcpy(cost.spent_s, sim_self()->spent_s, sizeof cost.spent_s);
	return cost;
}

static uint64_t node_of(sg_host_t host)
{
	const char *node = sg_host_get_property_value(host, "node");
	const char *name = node ? node : sg_host_get_name(host);
	return hash_of(HASH_START, name, strlen(name));
}

/* ---- The platform ---- */

/* "node-2" before "node-10", so that neighbours are neighbours. */
static int by_natural_name(const void *a, const void *b)
{
	return strverscmp(sg_host_get_name(*(const sg_host_t *)a),
			  sg_host_get_name(*(const sg_host_t *)b));
}

/* The places for one rank each, a core of a host, in the order of the hosts. */
struct seats {
	sg_host_t *host;   /* NULL: taken */
	int *site;         /* the number of the host's site */
	size_t n, *next;   /* next [sites]: no seat before it is free */
	const char **name; /* of the sites; "" = hosts without the property */
	int sites;
};

static const char *site_of(sg_host_t host)
{
	const char *site = sg_host_get_property_value(host, "site");
	return site ? site : "";
}

static int site_number(struct seats *s, const char *name)
{
	int i = s->sites;
	while (i > 0 && strcmp(s->name[i - 1], name) != 0)
		i--;
	if (i > 0)
		return i - 1;
	s->name = must(realloc(s->name, (size_t)(s->sites + 1) * sizeof *s->name));
	s->name[s->sites] = name;
	return s->sites++;
}

/* A platform of one host takes all ranks. */
static struct seats seats_of(const sg_host_t *host, size_t hosts)
{
	struct seats s = {.n = 0};
	for (size_t i = 0; i < hosts; i++) {
		int cores = sg_host_core_count(host[i]), site = site_number(&s, site_of(host[i]));
		if (hosts == 1 || cores > world.workers)
			cores = world.workers;
		s.host = must(realloc(s.host, (s.n + (size_t)cores) * sizeof *s.host));
		s.site = must(realloc(s.site, (s.n + (size_t)cores) * sizeof *s.site));
		for (; cores > 0; cores--) {
			s.host[s.n] = host[i];
			s.site[s.n++] = site;
		}
	}
	s.next = must(calloc((size_t)s.sites, sizeof *s.next));
	return s;
}

static void seats_free(struct seats *s)
{
	free(s->host);
	free(s->site);
	free(s->next);
	free(s->name);
}

/* A free seat of this site, or else of another one; NULL: all are taken. */
static sg_host_t take_seat(struct seats *s, int site)
{
	sg_host_t found = NULL;
	for (int k = 0; k < s->sites && !found; k++) {
		int at = (site + k) % s->sites;
		size_t *i = &s->next[at];
		while (*i < s->n && (s->site[*i] != at || !s->host[*i]))
			++*i;
		if (*i < s->n) {
			found = s->host[*i];
			s->host[*i] = NULL;
		}
	}
	return found;
}

/* --placement, or calibrated hosts: as real ranks are placed. A machine is the hosts that share
 * memory; its ranks take them in turn. */
static char *place_as_told(const sg_host_t *host, size_t hosts)
{
	struct host_list l = {.host = must(calloc(hosts, sizeof *l.host))};
	size_t *first AUTOFREE = must(calloc(hosts + 1, sizeof *first)),
		      *taken AUTOFREE = must(calloc(hosts, sizeof *taken));
	int *number AUTOFREE = must(calloc((size_t)world.workers, sizeof *number));
	for (size_t i = 0; i < hosts; i++)
		if (i == 0 || node_of(host[i]) != node_of(host[i - 1])) {
			l.host[l.n].slots = -1;
			first[l.n++] = i;
		}
	first[l.n] = hosts;
	char *wrong = host_list_deal(&l, world.config, number);
	for (int i = 0; i < world.workers && !wrong; i++) {
		size_t m = (size_t)number[i];
		world.place[i] = host[first[m] + taken[m]++ % (first[m + 1] - first[m])];
	}
	free(l.host);
	return wrong;
}

/* Chooses the host of each rank. The workers are spread evenly over the sites, in blocks of their
 * ranks, and the servers in turn; each core takes one rank. Servers share the workers' hosts,
 * evenly, if there are not enough cores for them. A message, or NULL. */
static char *place_ranks(void)
{
	const struct config *c = world.config;
	size_t hosts = sg_host_count(), ranks = (size_t)world.workers,
	       workers = (size_t)c->run.workers;
	sg_host_t *host AUTOFREE = sg_host_list();
	qsort(host, hosts, sizeof *host, by_natural_name);
	world.place = must(calloc(ranks, sizeof *world.place));
	for (size_t i = 0; i < hosts; i++)
		world.speed = fmax(world.speed, sg_host_get_speed(host[i]));
	if (config_simulates_hosts(c) || *c->harness.placement)
		return place_as_told(host, hosts);
	struct seats s = seats_of(host, hosts);
	size_t seats = s.n, site = 0;
	for (size_t i = 0; i < workers && seats >= workers; i++) {
		while (i >= part_of(workers, (size_t)s.sites, site + 1))
			site++;
		world.place[i] = take_seat(&s, (int)site);
	}
	for (size_t i = workers; i < ranks && seats >= workers; i++) {
		sg_host_t free_one = take_seat(&s, (int)((i - workers) % (size_t)s.sites));
		world.place[i] =
			free_one ? free_one
				 : world.place[part_of(workers, ranks - workers, i - workers)];
	}
	seats_free(&s);
	return seats >= workers
		       ? NULL
		       : sentence("it has room for %zu workers on %zu hosts; --workers=%zu is too "
				  "large",
				  seats, hosts, workers);
}

static bool on_several_sites(void)
{
	bool sites = false;
	for (int i = 1; i < world.config->run.workers; i++)
		sites |= strcmp(site_of(world.place[i]), site_of(world.place[0])) != 0;
	return sites;
}

/* The first worker on the site, or the machine, of worker i. */
static int first_near(int i, bool sites)
{
	int k = 0;
	while (k < i && (sites ? strcmp(site_of(world.place[k]), site_of(world.place[i])) != 0
			       : node_of(world.place[k]) != node_of(world.place[i])))
		k++;
	return k;
}

int world_place(void)
{
	return first_near(sim_self()->rank, on_several_sites());
}

/* Prints how many workers are where, if there are several on a machine or several sites:
 * "WORKERS: 2 ireland, 2 tokyo", or by the machine: "WORKERS: 8 on each of 4 machines". */
static void print_places(FILE *f)
{
	enum { NAMED = 8 };
	int workers = (int)world.config->run.workers, groups = 0, most = 0, least = 0;
	bool sites = on_several_sites();
	int *count AUTOFREE = must(calloc((size_t)workers, sizeof *count));
	for (int i = 0; i < workers; i++) {
		int k = first_near(i, sites);
		groups += k == i;
		count[k]++;
	}
	for (int i = 0; i < workers; i++) {
		most = count[i] > most ? count[i] : most;
		least = count[i] && (!least || count[i] < least) ? count[i] : least;
	}
	if (groups == 1 || (!sites && most == 1))
		return;
	fputs(WORKERS_WHERE, f);
	const char *what = sites ? "site" : "machine";
	bool named = sites && groups <= NAMED;
	for (int i = 0, n = 0; i < workers && named; i++)
		if (count[i])
			fprintf(f, "%s%d %s", n++ ? ", " : "", count[i], site_of(world.place[i]));
	if (!named && least == most)
		fprintf(f, "%d on each of %d %ss", most, groups, what);
	else if (!named)
		fprintf(f, "%d to %d on each of %d %ss", least, most, groups, what);
	fputc('\n', f);
}

void world_describe(FILE *f)
{
	fputs(MESSAGE_FACTORS, f);
	engine_print_factors(f);
	fputc('\n', f);
	print_places(f);
}

/* --sim.rate and --sim.latency on a platform with links of its own. A message, or NULL. */
static char *set_links(void)
{
	const struct harness_options *h = &world.config->harness;
	struct cluster_shape k;
	size_t links = sg_link_count();
	sg_link_t *link AUTOFREE = sg_link_list();
	double rate = 0;
	if (cluster_of(world.config, &k) || (h->sim_rate == 0 && h->sim_latency == 0))
		return NULL;
	for (size_t i = 0; i < links; i++) {
		double its = sg_link_get_bandwidth(link[i]);
		if (strstr(sg_link_get_name(link[i]), "loopback"))
			continue;
		if (rate > 0 && fabs(its - rate) > 1e-6 * rate)
			return sentence("it has links of %.4g and of %.4g bytes/s: --sim.rate and "
					"--sim.latency are for links that are all alike; give "
					"--sim.platform=cluster",
					rate, its);
		rate = its;
	}
	for (size_t i = 0; i < links; i++) {
		if (strstr(sg_link_get_name(link[i]), "loopback"))
			continue;
		if (h->sim_rate > 0)
			sg_link_set_bandwidth(link[i], h->sim_rate / 8);
		if (h->sim_latency > 0) /* half on each machine's link */
			sg_link_set_latency(link[i], h->sim_latency / 2);
	}
	return NULL;
}

/* Slows the first link of the route from one host to another, or the last one. The data of a slowed
 * link is its original bandwidth [byte/s]. */
static void slow_link(sg_host_t from, sg_host_t to, bool last, double factor)
{
	xbt_dynar_t way = xbt_dynar_new(sizeof(sg_link_t), NULL);
	sg_host_get_route(from, to, way);
	if (xbt_dynar_length(way) > 0) {
		size_t at = last ? xbt_dynar_length(way) - 1 : 0;
		sg_link_t link = xbt_dynar_get_as(way, at, sg_link_t);
		double now = sg_link_get_bandwidth(link), *full = sg_link_get_data(link);
		if (!full) {
			full = must(malloc(sizeof *full));
			*full = now;
			sg_link_set_data(link, full);
		}
		if (factor * *full < now)
			sg_link_set_bandwidth(link, factor * *full);
	}
	xbt_dynar_free(&way);
}

/* --sim.slow-link: slows the links next to a worker's host on the routes to the others. Other
 * workers that use them, as on the same host, have slow links too. Called in an actor, because
 * before there are no routes. */
static void slow_links(void)
{
	const struct run *run = &world.config->run;
	for (int rank = 0; rank < run->workers && *run->sim_slow_link; rank++) {
		double factor = heterogeneity_of(run, rank).link;
		sg_host_t here = world.place[rank];
		bool linked = false;
		for (int i = 0; i < world.workers && factor < 1; i++) {
			sg_host_t there = world.place[i];
			if (there == here || (i > 0 && there == world.place[i - 1]))
				continue;
			slow_link(here, there, false, factor);
			slow_link(there, here, true, factor);
			linked = true;
		}
		if (factor < 1 && !linked)
			user_error("--sim.slow-link=%s: worker %d has no link to others, because "
				   "on --sim.platform=%s all are on one host; give a platform with "
				   "more hosts",
				   run->sim_slow_link, rank, run->sim_platform);
	}
}

static void actor_main(int argc, char **argv)
{
	CHECK(argc == 2, "an actor with %d arguments", argc);
	struct sim_worker *me = &world.worker[atoi(argv[1])];
	me->rank = atoi(argv[1]);
	me->node = node_of(sg_host_self());
	sg_actor_self_set_data(me);
	if (me->rank == 0)
		slow_links();
	me->status = world.life(world.ctx);
	me->over = true;
}

static void deploy(void)
{
	struct text t;
	FILE *f = text_open(&t);
	fprintf(f, "<?xml version='1.0'?>\n<!DOCTYPE platform SYSTEM "
		   "\"https://simgrid.org/simgrid.dtd\">\n<platform version=\"4.1\">\n");
	for (int i = 0; i < world.workers; i++)
		fprintf(f,
			"<actor host=\"%s\" function=\"worker\"><argument value=\"%d\"/>"
			"<prop id=\"instance_id\" value=\"worker\"/>"
			"<prop id=\"rank\" value=\"%d\"/></actor>\n",
			sg_host_get_name(world.place[i]), i, i);
	fprintf(f, "</platform>\n");
	char *text AUTOFREE = text_close(&t);
	char *path AUTOFREE = file_in_memory(text);
	SMPI_app_instance_register("worker", actor_main, world.workers);
	simgrid_load_deployment(path);
}

/* Deadlock: the workers wait for each other and none proceeds. */
static void print_deadlock(void)
{
	enum { NAMED = 8 };
	struct text t;
	FILE *f = text_open(&t);
	int waiting = 0, workers = (int)world.config->run.workers;
	for (int i = 0; i < world.workers; i++) {
		const struct sim_worker *me = &world.worker[i];
		const struct worker *w = me->worker;
		if (me->over || waiting++ >= NAMED)
			continue;
		bool server = i >= workers;
		fprintf(f, "%s%s %d in %s", waiting > 1 ? ", " : "", server ? "server" : "worker",
			server ? i - workers : i, me->doing ? me->doing : "its start");
		if (me->doing && me->peer >= 0)
			fprintf(f, " with %d", me->peer);
		if (w && w->step)
			fprintf(f, " (epoch %lld, step %lld)", (long long)w->epoch,
				(long long)w->step);
	}
	char *text = text_close(&t);
	const struct recording *replay = sim_plan->simulation->replay;
	char *what =
		replay ? sentence("the recording of run %lld does not fit; was it changed since "
				  "it was made?",
				  (long long)replay->run)
		       : sentence("deadlock:");
	failure("%s %d of %d workers%s wait for each other%s: %s%s", what, waiting, world.workers,
		world.workers > workers ? " and servers" : "",
		waiting > NAMED ? ", first of them" : "", text, waiting > NAMED ? ", ..." : "");
}

/* An upper bound of a message's time: four times that of all workers' models together on the
 * slowest link. [s] */
static double longest_message(const struct worker *w)
{
	size_t links = sg_link_count();
	sg_link_t *link AUTOFREE = sg_link_list();
	double bytes = 4.0 * sizeof(float) * (double)vec_len(w->param) * w->size, longest = 1;
	for (size_t i = 0; i < links; i++)
		longest = fmax(longest, 1 + 100 * sg_link_get_latency(link[i]) +
						bytes / sg_link_get_bandwidth(link[i]));
	return longest;
}

/* SimGrid sees no deadlock in workers that poll for each other's actions. It is one when no worker
 * computes, and none begins a message while the longest would end. */
void world_rest(const char *what, nsec dt)
{
	struct sim_worker *me = sim_self();
	double now = simgrid_get_clock();
	advance_clock(me);
	me->doing = what;
	me->peer = -1;
	if (world.busy > 0 || world.seen != world.events) {
		world.seen = world.events;
		world.seen_at = now;
	} else if (world.longest_s == 0) {
		world.longest_s = longest_message(me->worker);
	} else if (now > world.seen_at + world.longest_s) {
		print_deadlock();
	}
	sg_actor_sleep_for(1e-9 * (double)dt);
}

int world_run(const struct config *c, const struct plan *p, int (*life)(void *ctx), void *ctx)
{
	const char *file = p->simulation->platform_file;
	char *name AUTOFREE = platform_tried(c), *wrong = NULL;
	const char *tried = getenv(PLATFORM_TRIED);
	if (!tried || strcmp(tried, name) != 0)
		wrong = engine_try(file);
	if (wrong)
		user_error("--sim.platform=%s: %s", c->run.sim_platform, wrong);
	world.life = life;
	world.ctx = ctx;
	world.config = c;
	sim_plan = p;
	world.workers = (int)(c->run.workers + c->run.servers);
	world.worker = must(calloc((size_t)world.workers, sizeof *world.worker));
	world.began = wall_now();
	/* SMPI allocates and frees buffers with every message: avoid page faults each time. */
	mallopt(M_MMAP_THRESHOLD, 1 << 30);
	mallopt(M_TRIM_THRESHOLD, 1 << 30);
	if ((wrong = look_at_tmp()))
		user_error("%s", wrong);
	if ((wrong = engine_start(file, world.workers)) || (wrong = set_links()) ||
	    (wrong = place_ranks()))
		user_error("--sim.platform=%s: %s", c->run.sim_platform, wrong);
	deploy();
	simgrid_run();
	for (int i = 0; i < world.workers; i++)
		if (!world.worker[i].over)
			print_deadlock();
	int status = world.worker[0].status;
	for (int i = 0; i < world.workers; i++)
		mailbox_free(world.worker[i].mailbox);
	network_free();
	free(world.worker);
	free(world.place);
	return status;
}
