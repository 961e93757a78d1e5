/*
 * plan.c - can a configuration run here? Everything that would end a run before it begins is looked
 * for before anything is started or written: devices, data, mpirun, and the shape of the model,
 * which is laid out without memory.
 */
#include "platform.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A launcher binds its ranks to cores; what the machine has is what the launcher itself may use. */
int usable_cores(void)
{
	cpu_set_t set;
	pid_t who = platform_under_launcher() ? getppid() : 0;

	if (sched_getaffinity(who, sizeof set, &set) != 0 &&
	    sched_getaffinity(0, sizeof set, &set) != 0)
		return 1;
	return CPU_COUNT(&set);
}

static bool in_path(const char *program)
{
	const char *path = getenv("PATH");
	bool found = false;

	while (path && *path && !found) {
		int n = (int)strcspn(path, ":");
		char *file = sentence("%.*s/%s", n, path, program);
		found = access(file, X_OK) == 0;
		free(file);
		path += n;
		path += *path == ':';
	}
	return found;
}

/* The named device, or the best that can be used here. */
static char *choose_device(const char *wanted, const char **chosen)
{
	bool any = strcmp(wanted, "auto") == 0;
	const struct device_ops *best = NULL;

	for (size_t i = 0; devices[i]; i++) {
		const char *wrong = NULL;
		if (!any && strcmp(devices[i]->name, wanted) != 0)
			continue;
		wrong = devices[i]->probe ? devices[i]->probe() : NULL;
		if (wrong && !any)
			return sentence("--device=%s: %s", wanted, wrong);
		if (!wrong && (!best || best == &device_cpu))
			best = devices[i];
	}
	if (!best)
		return sentence("--device=%s: this program was built without it", wanted);
	*chosen = best->name;
	return NULL;
}

/* Lays the model out as rank 0 of no communicator, on a device that has lengths only. */
static char *lay_out(const struct config *c, struct plan *p)
{
	struct device nowhere = {.ops = &device_none};
	struct strategy whole = {.plugin = c->strategy->plugin};
	int share = config_model_workers(c), workers = (int)c->run.workers;
	struct worker w = {
		.size = workers,
		.trainers = workers,
		.run = &c->run,
		.strategy = &whole,
		.opts = c->strategy_opts,
		.workload = c->workload,
		.workload_opts = c->workload_opts,
		.all = comm_layout(0, workers),
		.model_group = comm_layout(0, share),
		.data_group = comm_layout(0, workers / share),
		.train = &p->train,
		.test = &p->test,
		.dev = &nowhere,
	};
	const struct linear *l;
	char *wrong = NULL;

	nowhere.ops->open(&nowhere, 1);
	c->workload->init(&w, &p->train);
	p->params = w.model_params;
	w.strategy = c->strategy;
	if (share > 1 && c->strategy->linear)
		for (size_t i = 0; !wrong && w.net && (l = net_linear_at(w.net, i)); i++) {
			struct linear copy = *l;
			wrong = c->strategy->linear->place(&w, &copy);
		}
	w.strategy = &whole;
	c->workload->fini(&w);
	nowhere.ops->close(&nowhere);
	comm_free(w.all);
	comm_free(w.model_group);
	comm_free(w.data_group);
	return wrong;
}

/* Between two barriers a worker keeps the model of every epoch, to judge it later. */
static char *check_snapshots(const struct run *run, int64_t params)
{
	int64_t epochs = run->barrier_every ? run->barrier_every : run->epochs;
	double memory = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGE_SIZE);
	double bytes = (double)(epochs < run->epochs ? epochs : run->epochs) * (double)params *
		       (double)sizeof(float) * (double)run->workers;

	if (run->barrier_every == 1 || *run->hostfile || bytes < memory / 2)
		return NULL;
	return sentence("--barrier-every=%lld: the models of all epochs between two barriers would "
			"take %.1f GB; give a barrier more often",
			(long long)run->barrier_every, bytes * 1e-9);
}

static char *check_tables(const struct config *c)
{
	const struct run *run = &c->run;
	bool servers = strcmp(run->table_home, "servers") == 0;

	if (run->servers > 0 && !c->strategy->tables)
		return sentence("--servers=%d: %s keeps nothing on a server; use --servers=0",
				(int)run->servers, run->strategy);
	if (strcmp(run->table_home, "auto") != 0 && !c->strategy->tables)
		return sentence("--table-home=%s: %s keeps nothing in tables; leave it out",
				run->table_home, run->strategy);
	if (run->record && !c->strategy->tables)
		return sentence("--record: %s pushes nothing to a server, so that there is no "
				"order to keep",
				run->strategy);
	if (strcmp(run->table_home, "auto") == 0 || servers == (run->servers > 0))
		return NULL;
	if (servers)
		return sentence("--table-home=servers: there are none; give --servers=1 or more");
	return sentence("--table-home=%s: with --servers=%d tables live on the servers; leave one "
			"of the two out",
			run->table_home, (int)run->servers);
}

char *plan_make(const struct config *c, struct plan *p)
{
	const struct run *run = &c->run;
	char *wrong;

	*p = (struct plan){.cores = usable_cores()};
	if (strcmp(run->platform, "mpi") != 0)
		return sentence("--platform=%s: the simulator is not built yet; use --platform=mpi",
				run->platform);
	if (c->strategy->refuse && (wrong = c->strategy->refuse(run, c->strategy_opts)))
		return wrong;
	if ((wrong = check_tables(c)))
		return wrong;
	int share = config_model_workers(c);
	if (share < 1 || run->workers % share != 0)
		return sentence(
			"--workers=%d: %s shares one model among %d workers; give a multiple of "
			"%d",
			(int)run->workers, run->strategy, share, share);
	if ((wrong = choose_device(run->device, &p->device)))
		return wrong;
	if (*run->hostfile && access(run->hostfile, R_OK) != 0)
		return sentence("--hostfile=%s: %m; give a file with one machine a line",
				run->hostfile);
	if (run->workers > 1 && !platform_under_launcher() && !in_path("mpirun"))
		return sentence(
			"--workers=%d: mpirun is not in the PATH; install openmpi-bin, or run "
			"make deps",
			(int)run->workers);
	if ((wrong = c->workload->dataset->probe(run, &p->train, &p->test)))
		return wrong;
	int64_t models = run->workers / share;
	if ((size_t)models > p->train.n)
		return sentence(
			"--workers=%d: there are only %zu rows to train on; give fewer workers",
			(int)run->workers, p->train.n);
	if ((wrong = lay_out(c, p)))
		return wrong;
	if ((wrong = check_snapshots(run, p->params)))
		return wrong;
	int64_t together = models * run->batch;
	p->steps = ((int64_t)p->train.n + together - 1) / together;
	p->oversubscribed =
		!*run->hostfile && run->workers * run->threads + run->servers > p->cores;
	return NULL;
}
