/*
 * cluster.c - the machines of a run: what each rank knows of its host, gathered on rank 0 before
 * anything is stored, and the speed of the network between the hosts.
 */
#include "runtime/config/config.h"
#include "runtime/config/hosts.h"
#include "runtime/config/machine.h"
#include "runtime/train/trainer.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <math.h>
#include <net/if.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

extern char **environ;

/* ---- A rank's own host ----------------------------------------------------- */

/* Speed of the interface's link [bit/s]; 0: unknown, as for virtual links and many containers. */
static int64_t link_speed(const char *interface)
{
	char *path AUTOFREE = sentence("/sys/class/net/%s/speed", interface),
		   *text AUTOFREE = text_read(path);
	int64_t mbit = text ? atoll(text) : 0;
	return mbit > 0 ? mbit * 1000000 : 0;
}

/* The first address that is not a loopback's. If there is one network, others reach it there. */
static void find_address(struct rank_row *me)
{
	struct ifaddrs *all = NULL;
	if (getifaddrs(&all) != 0)
		return;
	for (const struct ifaddrs *i = all; i && !*me->address; i = i->ifa_next)
		if (i->ifa_addr && i->ifa_addr->sa_family == AF_INET &&
		    (i->ifa_flags & (IFF_UP | IFF_LOOPBACK)) == IFF_UP) {
			const struct sockaddr_in *in = (const void *)i->ifa_addr;
			inet_ntop(AF_INET, &in->sin_addr, me->address, sizeof me->address);
			me->link_speed = link_speed(i->ifa_name);
		}
	freeifaddrs(all);
}

static void commit_of(char text[COMMIT_ROOM])
{
	memset(text, 0, COMMIT_ROOM);
	snprintf(text, COMMIT_ROOM, "%s", machine()->version);
}

/* Clock rate of the first core; NaN: unknown, as on many virtual machines. */
static double clock_mhz(void)
{
	char *now AUTOFREE = text_read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq"),
		  *all AUTOFREE = text_read("/proc/cpuinfo");
	const char *line = all ? strstr(all, "cpu MHz") : NULL,
		   *at = line ? strchr(line, ':') : NULL;
	return now ? atof(now) * 1e-3 : at ? atof(at + 1) : NAN;
}

static struct rank_row this_worker(const struct plan *p)
{
	const struct machine *m = machine();
	struct rank_row me;
	cpu_set_t allowed;
	memset(&me, 0, sizeof me); /* all bytes are sent */
	snprintf(me.host, sizeof me.host, "%s", m->host);
	snprintf(me.cpu, sizeof me.cpu, "%s", m->cpu);
	snprintf(me.libraries, sizeof me.libraries, "%s, %s%s%s", m->mpi, m->onednn,
		 strcmp(p->device, "cuda") == 0 ? ", CUDA " : "",
		 strcmp(p->device, "cuda") == 0 ? p->facts.version : "");
	me.gpus = strcmp(p->device, "cuda") == 0 ? p->facts.count : 0;
	me.gpu = me.gpus ? p->facts.identity[rank_on_node() % me.gpus % GPUS_MOST] : 0;
	me.mps = p->facts.mps;
	commit_of(me.commit);
	find_address(&me);
	CPU_ZERO(&allowed);
	sched_getaffinity(0, sizeof allowed, &allowed);
	for (int i = 0; i < CPUS_MOST; i++)
		if (CPU_ISSET((size_t)i, &allowed))
			me.allowed[i / 8] |= (uint8_t)(1 << (i % 8));
	me.cores = CPU_COUNT(&allowed);
	if (getloadavg(&me.load, 1) != 1)
		me.load = NAN;
	me.mhz = clock_mhz();
	return me;
}

/* ---- The machines, on rank 0 ------------------------------------------------ */

/* Numbers the hosts in the order of their lowest ranks, first[hosts]. */
static void number_hosts(struct cluster *c, int *number, int *first)
{
	for (int r = 0; r < c->ranks; r++) {
		int other = 0;
		while (other < r && strcmp(c->rank[other].host, c->rank[r].host) != 0)
			other++;
		if (other == r)
			first[c->hosts++] = r;
		number[r] = other < r ? number[other] : c->hosts - 1;
		c->rank[r].slot = 0;
		for (int k = 0; k < r; k++)
			c->rank[r].slot += number[k] == number[r];
	}
}

/* What the ranks of a host have and share. */
struct host_use {
	int ranks, threads, cores;  /* cores: that its ranks may use; 0: all have high numbers */
	int seen_gpus, gpus, share; /* of its workers: GPUs that they see; that they see or use;
				     * workers that share one, at most */
	bool mps;
};

/* threads: compute threads of a worker; a server has one. */
static struct host_use use_of_host(const struct cluster *c, const int *number, int host,
				   int threads)
{
	struct host_use u = {.ranks = 0};
	uint8_t allowed[CPUS_MOST / 8] = {0};
	for (int r = 0; r < c->ranks; r++) {
		const struct rank_row *row = &c->rank[r];
		int before = 0, share = 0;
		if (number[r] != host)
			continue;
		u.ranks++;
		u.threads += r < c->workers ? threads : 1;
		for (int i = 0; i < CPUS_MOST / 8; i++)
			allowed[i] |= row->allowed[i];
		for (int k = 0; r < c->workers && k < c->workers; k++) {
			const bool same = number[k] == host && c->rank[k].gpu == row->gpu;
			before += same && k < r;
			share += same;
		}
		u.gpus += share > 0 && before == 0;
		u.share = share > u.share ? share : u.share;
		if (share > 0 && row->gpus > u.seen_gpus)
			u.seen_gpus = row->gpus;
		u.mps |= share > 0 && row->mps;
	}
	for (int i = 0; i < CPUS_MOST / 8; i++)
		u.cores += __builtin_popcount(allowed[i]);
	u.gpus = u.gpus > u.seen_gpus ? u.gpus : u.seen_gpus;
	return u;
}

/* Finds hosts with more compute threads than cores, and GPUs that workers share, in turns or under
 * MPS, which the ranks' `libraries` then say. Prints what mvbench has not printed at the start. */
static void look_for_sharing(struct cluster *c, const int *number, const int *first,
			     const struct run *run)
{
	const bool is_news = c->hosts > 1 || !getenv(STATUS_VARIABLE);
	for (int h = 0; h < c->hosts; h++) {
		struct host_use u = use_of_host(c, number, h, (int)run->threads);
		const char *host = c->rank[first[h]].host;
		/* with --step-time, workers sleep most of the time */
		const bool busy = run->step_time == 0;
		const bool share_gpus = busy && u.seen_gpus > 0 && u.share > 1;
		if (!c->oversubscribed && busy && u.cores > 0 && u.threads > u.cores) {
			c->oversubscribed = true;
			if (c->hosts > 1)
				fprintf(stderr,
					"mvbench: oversubscribed: the %d rank%s on %s share %d "
					"core%s: times are unreliable\n",
					u.ranks, u.ranks == 1 ? "" : "s", host, u.cores,
					u.cores == 1 ? "" : "s");
		}
		for (int r = 0; r < c->workers && u.seen_gpus > 0; r++) {
			char *text = c->rank[r].libraries;
			const size_t n = strlen(text), room = sizeof c->rank[r].libraries;
			if (number[r] == h)
				snprintf(text + n, room - n, "; %d GPU%s, %d worker%s a GPU%s",
					 u.gpus, u.gpus == 1 ? "" : "s", u.share,
					 u.share == 1 ? "" : "s", u.mps ? ", MPS" : "");
		}
		c->shares_gpus |= share_gpus;
		if (share_gpus && is_news)
			fprintf(stderr, "mvbench: oversubscribed: %d workers share a GPU on %s%s\n",
				u.share, host, u.mps ? " under MPS" : " in turns");
	}
	c->oversubscribed |= c->shares_gpus;
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The sorted words, separated by `between`; heap. */
static char *joined(const char **word, size_t n, const char *between)
{
	qsort(word, n, sizeof *word, by_text);
	return text_list(word, n, between);
}

static char *names_of_hosts(const struct cluster *c, const int *first)
{
	const char **name AUTOFREE = must(calloc((size_t)c->hosts, sizeof *name));
	for (int h = 0; h < c->hosts; h++)
		name[h] = c->rank[first[h]].host;
	return joined(name, (size_t)c->hosts, ",");
}

/* Open MPI's settings from the user or from mvbench, without those that mpirun itself passes to its
 * processes. */
static char *settings_of_mpi(void)
{
	static const char prefix[] = "OMPI_MCA_";
	static const char *const own[] = {"orte_",         "ess",      "pmix",  "initial_wdir",
					  "shmem_RUNTIME", "plm",      "rmaps", "hwloc_",
					  "opal_",         "mca_base_"};
	const char **found AUTOFREE = NULL;
	size_t n = 0;
	for (char **e = environ; *e; e++) {
		const char *name = *e + sizeof prefix - 1;
		bool matches = strncmp(*e, prefix, sizeof prefix - 1) == 0 &&
			       !strstr(name, "/.mvbench-run-"); /* launch.c's folders */
		for (size_t i = 0; matches && i < sizeof own / sizeof *own; i++)
			matches = strncmp(name, own[i], strlen(own[i])) != 0;
		if (matches)
			APPEND(found, n, name);
	}
	return n ? joined(found, n, " ") : NULL;
}

/* Heap; NULL: no launcher; mvbench started this process. */
static char *launcher_of(void)
{
	const char *job = getenv("SLURM_JOB_ID"), *how = !platform_under_launcher()       ? ""
							 : getenv("OMPI_COMM_WORLD_SIZE") ? "mpirun"
											  : "srun";
	if (job)
		return sentence("%s%sSlurm job %s", how, *how ? ", " : "", job);
	return *how ? sentence("%s", how) : NULL;
}

/* ---- The network ------------------------------------------------------------- */

enum {
	ROUND_TRIPS = 20,
	BULKS_KEPT = 3,         /* messages of the final size; the fastest counts */
	BULK_LEAST = 1 << 12,   /* first size [floats]; the next is four times as large, ... */
	BULK_MOST = 1 << 22,    /* ... up to this size, */
	BULK_ENOUGH = 20000000, /* or until a message takes this time [ns] */
	WIRES_MOST = 5          /* connections that are measured, one after the other */
};

/* One of the two ends sends, the other one receives. */
static void pass(struct link *l, int peer, float *x, size_t n, bool sends)
{
	if (sends)
		link_send_plain(l, peer, x, n * sizeof *x);
	else
		link_recv(l, peer, x, n);
}

/* Both ends of a wire; one asks, and measures. The shortest of several round trips is twice the
 * latency. It sends a bulk, and one float comes back. Then it sends the factor by which the next
 * bulk is longer; 0 = that was the last. */
static void measure_wire(struct link *l, int peer, bool asks, float *bulk, struct cluster *c)
{
	float longer = 1;
	double latency_s = INFINITY, bandwidth = 0;
	for (int i = 0; i < ROUND_TRIPS; i++) {
		nsec start = clock_now();
		pass(l, peer, &longer, 1, asks);
		pass(l, peer, &longer, 1, !asks);
		latency_s = fmin(latency_s, 0.5e-9 * (double)(clock_now() - start));
	}
	/* kept: bulks of the final size; several, because one alone may have waited for a core */
	int kept = 0;
	for (size_t n = BULK_LEAST; longer > 0; n *= (size_t)longer) {
		nsec start = clock_now();
		pass(l, peer, bulk, n, asks);
		pass(l, peer, bulk, 1, !asks);
		nsec took = clock_now() - start;
		double s = fmax(1e-9 * (double)took - 2 * latency_s, 1e-9);
		kept = took >= BULK_ENOUGH || n >= BULK_MOST ? kept + 1 : 0;
		bandwidth = fmax(kept > 1 ? bandwidth : 0, (double)(n * sizeof *bulk) / s);
		longer = !kept ? 4 : kept < BULKS_KEPT;
		pass(l, peer, &longer, 1, asks);
	}
	if (asks) {
		c->latency_s = latency_s;
		c->bandwidth = bandwidth;
	}
}

/* Collective: the slowest of some connections from a host to the next, evenly spaced. */
static void cluster_measure_wires(struct link *l, struct cluster *c, const int *first)
{
	int wires = c->hosts < WIRES_MOST ? c->hosts : WIRES_MOST, me = link_rank(l);
	c->latency_s = c->bandwidth = NAN;
	if (c->hosts < 2)
		return;
	float *bulk AUTOFREE = must(calloc(BULK_MOST, sizeof *bulk));
	link_barrier_asleep(l);
	for (int k = 0; k < wires; k++) {
		int host = k * c->hosts / wires, from = first[host],
		    to = first[(host + 1) % c->hosts];
		if (me == from || me == to)
			measure_wire(l, me == from ? to : from, me == from, bulk, c);
		link_barrier_asleep(l);
	}
	double slowest[] = {fmax(c->latency_s, 0), fmax(-c->bandwidth, -INFINITY)};
	link_reduce_all(l, slowest, 2, REDUCE_MAX);
	c->latency_s = slowest[0];
	c->bandwidth = -slowest[1];
}

/* ---- The cluster ------------------------------------------------------------- */

/* Checked before anything is sent whose layout may differ between builds. */
static char *check_builds(struct link *l)
{
	char mine[COMMIT_ROOM], first[COMMIT_ROOM], *wrong = NULL;
	commit_of(mine);
	memcpy(first, mine, sizeof first);
	link_broadcast(l, 0, first, sizeof first);
	if (strncmp(mine, first, sizeof first) != 0)
		wrong = sentence("rank %d on %s runs mvbench %s, and rank 0 runs %.*s: install "
				 "the same version on all machines",
				 link_rank(l), machine()->host, mine, COMMIT_ROOM, first);
	return link_agree(l, wrong);
}

char *cluster_find(struct link *l, int workers, const struct run *run, const struct plan *p,
		   struct cluster *c)
{
	*c = (struct cluster){.ranks = link_size(l), .workers = workers};
	int *number AUTOFREE = must(calloc((size_t)c->ranks, sizeof *number)),
		    *first AUTOFREE = must(calloc((size_t)c->ranks, sizeof *first));
	char *wrong = check_builds(l);
	if (wrong)
		return wrong;
	struct rank_row me = this_worker(p);
	if (link_rank(l) == 0)
		c->rank = must(calloc((size_t)c->ranks, sizeof *c->rank));
	link_gather(l, 0, &me, c->rank, sizeof me);
	if (link_rank(l) == 0) {
		number_hosts(c, number, first);
		look_for_sharing(c, number, first, run);
		c->names = names_of_hosts(c, first);
		c->placement = placement_text(number, workers, c->ranks - workers);
		c->launcher = launcher_of();
		c->mpi_settings = platform_under_launcher() ? settings_of_mpi() : NULL;
	}
	link_broadcast(l, 0, &c->hosts, sizeof c->hosts);
	link_broadcast(l, 0, first, (size_t)c->ranks * sizeof *first);
	cluster_measure_wires(l, c, first);
	return NULL;
}

void cluster_free(struct cluster *c)
{
	free(c->rank);
	free(c->names);
	free(c->placement);
	free(c->launcher);
	free(c->mpi_settings);
	*c = (struct cluster){.rank = NULL};
}

static uint64_t hash_of_data(uint64_t h, const struct data *d)
{
	h = hash_of(h, &d->n, sizeof d->n);
	if (d->bytes)
		h = hash_of(h, d->bytes, d->n * d->features * sizeof *d->bytes);
	if (d->floats)
		h = hash_of(h, d->floats, d->n * d->features * sizeof *d->floats);
	return d->target ? hash_of(h, d->target, d->n * data_targets(d) * sizeof(float)) : h;
}

char *cluster_check_data(struct link *l, const struct data *const data[], size_t n)
{
	uint64_t mine = HASH_START, first;
	for (size_t i = 0; i < n; i++)
		mine = hash_of_data(mine, data[i]);
	first = mine;
	link_broadcast(l, 0, &first, sizeof first);
	if (mine == first)
		return NULL;
	return sentence("rank %d on %s: the files of its data set differ from those of rank 0: "
			"copy the same files to all machines",
			link_rank(l), machine()->host);
}
