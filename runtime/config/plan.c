/*
 * plan.c - can a configuration run here? All reasons to refuse a run are checked before a process
 * is started or a file is written: devices, data, mpirun, and the shape of the model, which is laid
 * out without allocating it.
 */

#include "runtime/config/clusters.h"
#include "runtime/config/config.h"
#include "runtime/config/dataset.h"
#include "runtime/config/heterogeneity.h"
#include "runtime/config/hosts.h"
#include "runtime/config/plan.h"
#include "runtime/table/table.h"
#include "runtime/watch/watch.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The named device, or the best one that works here. A GPU is worse than the host for a gradient
 * that is computed on the host: vectors would be copied in each step. */
static char *choose_device(const struct config *c, struct plan *p)
{
	const struct run *run = &c->run;
	bool any = strcmp(run->device, "auto") == 0, on_host = c->workload->host;
	const struct device_ops *best = NULL;
	if (is_simulated(c)) { /* the device whose times are simulated */
		p->device = any ? "cpu" : run->device;
		return NULL;
	}

	for (size_t i = 0; devices[i]; i++) {
		struct device_facts facts;
		const char *wrong = NULL;
		if (any ? on_host && !devices[i]->host : strcmp(devices[i]->name, run->device) != 0)
			continue;
		wrong = devices[i]->probe(&facts);
		if (wrong && !any)
			return sentence("--device=%s: %s", run->device, wrong);
		if (wrong && facts.present)
			p->passed_over = wrong;
		if (!wrong && (!best || best->host)) {
			best = devices[i];
			p->facts = facts;
		}
	}
	if (!best)
		return sentence("--device=%s: this program was built without it", run->device);
	p->device = best->name;
	if (on_host && strcmp(run->precision, "float32") != 0)
		return sentence("--precision=%s: --workload=%s computes its gradient on the host, "
				"and this option is for GPUs; leave it out",
				run->precision, run->workload);
	if (!best->host)
		return NULL;
	if (strcmp(run->precision, "float32") != 0)
		return sentence("--precision=%s: the cpu computes in float32; use it, or "
				"--device=cuda where there is a GPU",
				run->precision);
	if (strcmp(c->harness.transport, "auto") != 0)
		return sentence("--transport=%s: vectors are on the cpu and use MPI; leave it out, "
				"or use --device=cuda where there is a GPU",
				c->harness.transport);
	const struct placement *placement = placement_find(run->table_home);
	if (placement && placement->floats_on_device)
		return sentence("--table-home=%s: the workers compute on the cpu; use auto",
				placement->name);
	return NULL;
}

int64_t plan_segment_epochs(const struct run *run)
{
	return run->barrier_every && run->barrier_every < run->epochs ? run->barrier_every
								      : run->epochs;
}

int64_t plan_points(const struct run *run, int64_t steps)
{
	bool any = run->eval_every > 0 && run->eval_every < steps * run->epochs &&
		   run->eval_every % steps != 0; /* otherwise all are ends of epochs */
	return any ? plan_segment_epochs(run) * steps / run->eval_every + 1 : 0;
}

/* Copies of the model that a worker keeps besides the trained one: the model of the last averaging,
 * if workers' models differ; the snapshots between two barriers; the evaluated model; for tables at
 * most two copies with an updater's state, the pulled and its own one; without tables the two
 * blocks that other ranks map. */
static int64_t models_kept(const struct config *c, int64_t steps)
{
	const struct run *run = &c->run;
	int64_t snapshots = run->barrier_every == 1 ? 0 : plan_segment_epochs(run);
	bool differ = run->workers > config_model_workers(c) &&
		      (c->strategy->canonical || c->strategy->average);
	return snapshots + plan_points(run, steps) + 1 + differ + (run->ema > 0) +
	       (c->strategy->terms ? 5
		: run->workers > 1 ? 2
				   : 0);
}

/* NULL, or a message: can the model be split over the workers that share it? Otherwise each of them
 * would train the whole model on the same mini-batches. */
static char *check_split(const struct config *c, const struct worker *w, int share)
{
	if (share == 1 || !c->strategy->linear)
		return NULL;
	if (c->workload->split)
		return c->workload->split(w);
	return sentence("--strategy=%s: %d workers would share a model, and --workload=%s has no "
			"linear layers that can be split over them; give a strategy whose workers "
			"have the whole model, such as allreduce",
			c->run.strategy, share, c->run.workload);
}

/* Sets what the plan says of a model that was laid out on this device, which counts lengths. */
static void note_model(const struct config *c, const struct worker *w, const struct device *nowhere,
		       struct plan *p)
{
	const struct model *m = w->model;
	size_t buffers = m->buffer ? vec_len(m->buffer) : 0;
	size_t model = vec_len(w->param) + buffers;
	size_t trained = vec_len(w->param) * (2 + (w->moment[0] != NULL) + (w->moment[1] != NULL)) +
			 (w->loop->scratch ? vec_len(w->loop->scratch) : 0) + buffers;
	size_t attention = nowhere->attention_floats * (p->facts.free_bytes ? 2 : 1);
	p->params = m->params;
	p->buffers = (int64_t)buffers;
	p->row_flops = 0;
	for (size_t i = 0; m->flops && i <= m->layers; i++)
		p->row_flops += m->flops[i];
	p->layout = hash_of(HASH_START, m->layer, (m->layers + 1) * sizeof *m->layer);
	p->footprint.parameters =
		(trained + (size_t)models_kept(c, p->steps) * model) * sizeof(float);
	p->footprint.activations =
		nowhere->bytes + attention * sizeof(float) - trained * sizeof(float);
	p->footprint.workspace =
		p->facts.workspace_bytes + (nowhere->convs ? p->facts.conv_workspace_bytes : 0);
}

/* NULL, or a message: does --norm-statistics fit the model? */
static char *check_norms(const struct run *run, const struct model *m)
{
	if (m->buffer || strcmp(run->norm_statistics, "average") == 0)
		return NULL;
	return sentence("--norm-statistics=%s: %s has no batch norms; leave it out",
			run->norm_statistics, run->workload);
}

/* Lays out the model for mini-batches of `batch` rows, as rank 0 without communication, on a device
 * that only counts lengths. */
static char *plan_lay_out(const struct config *c, struct plan *p, int64_t batch)
{
	struct run run = c->run;
	struct device nowhere = {.ops = &device_none};
	struct strategy whole = {.plugin = c->strategy->plugin};
	int share = config_model_workers(c), workers = (int)c->run.workers;
	struct loop loop = {.dev = &nowhere,
			    .strategy = &whole,
			    .model = {.workload = c->workload, .opts = c->workload_opts}};
	struct worker w = {
		.size = workers,
		.trainers = workers,
		.run = &run,
		.opts = c->strategy_opts,
		.optimizer = c->optimizer,
		.optimizer_opts = c->optimizer_opts,
		.codec = c->codec,
		.codec_opts = c->codec_opts,
		.all = comm_layout(0, workers),
		.model_group = comm_layout(0, share),
		.data_group = comm_layout(0, workers / share),
		.train = &p->train,
		.test = &p->test,
		.model = &loop.model,
		.loop = &loop,
	};
	run.batch = batch;
	nowhere.ops->open(&nowhere, 1);
	model_open(&w, &p->train);
	note_model(c, &w, &nowhere, p);
	char *wrong = check_norms(&run, w.model);
	w.loop->strategy = c->strategy;
	if (!wrong)
		wrong = check_split(c, &w, share);
	w.loop->strategy = &whole;
	model_close(&w);
	nowhere.ops->close(&nowhere);
	comm_free(w.all);
	comm_free(w.model_group);
	comm_free(w.data_group);
	return wrong;
}

static size_t footprint_bytes(const struct footprint *f)
{
	return f->parameters + f->activations + f->data + f->workspace;
}

static size_t data_bytes(const struct data *d)
{
	return d->n * (d->features * d->value_size + data_targets(d) * sizeof(float));
}

/* Do the workers fit into the device's memory? Each has its own copy of the data. */
static char *check_memory(const struct config *c, struct plan *p)
{
	const struct device_facts *f = &p->facts;
	bool host = f->free_bytes == 0;
	struct footprint *need = &p->footprint;
	int64_t count = host ? 1 : f->count, sharing = (c->run.workers + count - 1) / count;
	need->data = data_bytes(&p->train) + data_bytes(&p->validation) + data_bytes(&p->test);
	/* once workers have started, some have allocated their memory already */
	if (*c->harness.hostfile || platform_under_launcher() || (host && is_simulated(c)))
		return NULL;
	size_t free_bytes = f->free_bytes;
	if (host)
		TRY(host_room((int)(c->run.workers + c->run.servers), &free_bytes));
	size_t room = free_bytes / (size_t)sharing;
	if (footprint_bytes(need) <= room)
		return NULL;

	double wanted = 1e-9 * (double)footprint_bytes(need), there = 1e-9 * (double)free_bytes;
	int64_t workers = (int64_t)(free_bytes / footprint_bytes(need)) * count;
	int64_t batch = c->run.batch, most = 0;
	struct plan trial = *p;
	char *wrong AUTOFREE = NULL;
	while (!wrong && !most && batch > 1) {
		batch /= 2;
		wrong = plan_lay_out(c, &trial, batch);
		if (!wrong && footprint_bytes(&trial.footprint) <= room)
			most = batch;
	}
	char *advice AUTOFREE = most && workers
					? sentence("--batch=%lld or --workers=%lld would fit",
						   (long long)most, (long long)workers)
				: most    ? sentence("--batch=%lld would fit", (long long)most)
				: workers ? sentence("--workers=%lld would fit", (long long)workers)
				: host    ? sentence("use a machine with more memory")
					  : sentence("use --device=cpu, or a GPU with more memory");
	return sentence("--device=%s: %lld worker%s of batch %lld on one %s need%s %.2f GB%s, "
			"and %.2f GB are free; %s",
			p->device, (long long)sharing, sharing == 1 ? "" : "s",
			(long long)c->run.batch, host ? "machine" : f->model,
			sharing == 1 ? "s" : "", wanted, sharing == 1 ? "" : " each", there,
			advice);
}

/* Between two barriers a worker keeps the models of epochs and points, to evaluate them later. */
static char *check_snapshots(const struct config *c, const struct plan *p)
{
	const struct run *run = &c->run;
	int64_t epochs = run->barrier_every == 1 ? 0 : plan_segment_epochs(run),
		points = plan_points(run, p->steps);
	/* simulations of time only keep no floats; workers on several machines share no memory */
	bool none = is_simulated(c) && !run->sim_train,
	     apart = *c->harness.hostfile ||
		     (platform_under_launcher() && launched_on_several_hosts());
	double memory = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGE_SIZE);
	double bytes = (double)(epochs + points) * (double)p->params * (double)sizeof(float) *
		       (double)run->workers;
	if (none || apart || bytes < memory / 2)
		return NULL;
	if (points > epochs)
		return sentence("--eval-every=%lld: the models of all points between two barriers "
				"would take %.1f GB; give more steps, or a barrier more often",
				(long long)run->eval_every, bytes * 1e-9);
	return sentence("--barrier-every=%lld: the models of all epochs between two barriers would "
			"take %.1f GB; give a barrier more often",
			(long long)run->barrier_every, bytes * 1e-9);
}

static char *check_tables(const struct config *c)
{
	const struct run *run = &c->run;
	const struct placement *placement = placement_find(run->table_home); /* NULL: auto */
	if (run->servers > 0 && !c->strategy->terms)
		return sentence("--servers=%d: %s keeps nothing on a server; use --servers=0",
				(int)run->servers, run->strategy);
	if (placement && !c->strategy->terms)
		return sentence("--table-home=%s: %s keeps nothing in tables; leave it out",
				run->table_home, run->strategy);
	if (run->record && !c->strategy->terms)
		return sentence("--record: %s pushes nothing to a server: there is no order to "
				"store; leave it out",
				run->strategy);
	if (!placement || placement->on_servers == (run->servers > 0))
		return NULL;
	if (placement->on_servers)
		return sentence("--table-home=%s: there are no servers; give --servers=1 or more",
				placement->name);
	return sentence("--table-home=%s: with --servers=%d tables live on the servers; leave one "
			"of the two out",
			run->table_home, (int)run->servers);
}

static struct table_rules rules_of_tables(const struct config *c)
{
	const struct strategy *s = c->strategy;
	struct table_terms t =
		s->terms ? s->terms(&c->run, c->strategy_opts) : (struct table_terms){0};
	return (struct table_rules){.updater = updater_find(t.updater ? t.updater : "add"),
				    .rounds = t.rounds,
				    .by_rows = t.each,
				    .backup = t.backup};
}

char *plan_tables(const struct config *c, bool near)
{
	const struct run *run = &c->run;
	const struct table_rules r = rules_of_tables(c);
	/* in a replay they are in shared memory, as if all were on one machine */
	if (run->sim_replay || !c->strategy->terms)
		return NULL;
	return tables_refuse(&r, (int)run->servers, near, run->table_home, run->record);
}

/* Tables of workers of one machine are in /dev/shm. This is checked before the start, because the
 * kernel may end a worker without a reason if they do not fit. */
static char *check_shared_memory(const struct config *c, const struct plan *p)
{
	const struct run *run = &c->run;
	const struct table_rules r = rules_of_tables(c);
	double models = r.by_rows ? (double)run->workers : 1;
	double need = (double)(sizeof(float) * table_vectors(&r)) * (double)p->params * models,
	       there = shared_memory_free();
	if (!c->strategy->terms || run->workers == 1 || run->servers > 0 || *c->harness.hostfile ||
	    is_simulated(c) || strcmp(p->device, "cpu") != 0 || platform_under_launcher() ||
	    there >= need)
		return NULL;
	if (need < 1e5)
		return sentence("the shared model needs %.0f kB in /dev/shm, and %.0f kB are free "
				"there: " ENLARGE_SHARED_MEMORY ", or give --servers=1",
				ceil(1e-3 * need), floor(1e-3 * there));
	return sentence("the shared model needs %.1f MB in /dev/shm, and %.1f MB are free "
			"there: " ENLARGE_SHARED_MEMORY ", or give --servers=1",
			1e-6 * need, 1e-6 * there);
}

static char *check_deal(const struct config *c)
{
	const char *why = config_why_static(c);
	if (!why || strcmp(c->run.deal, "dynamic") != 0)
		return NULL;
	return sentence("--deal=dynamic: %s must give each worker the same number of mini-batches: "
			"%s",
			c->run.strategy, why);
}

/* Checks the options of evaluation. */
static char *check_evaluation(const struct config *c)
{
	const struct run *run = &c->run;
	bool simulated = is_simulated(c);
	if (run->target_loss > 0 && run->target_accuracy > 0)
		return sentence("--target-loss=%g: a run has one target; leave "
				"--target-accuracy=%g out",
				run->target_loss, run->target_accuracy);
	if (run->eval_every && simulated && !run->sim_train)
		return sentence("--eval-every=%lld: with --sim.train=false there is no model to "
				"evaluate; leave one of the two out",
				(long long)run->eval_every);
	if (run->ema > 0 && simulated && !run->sim_train)
		return sentence("--ema=%g: with --sim.train=false there is no model to evaluate; "
				"leave one of the two out",
				run->ema);
	if (run->ema > 0 && c->strategy->terms && run->record && run->workers > 1)
		return sentence(
			"--ema=%g: not with --record, which does not store evaluation reads; "
			"leave one of the two out",
			run->ema);
	if (run->eval_every && run->record && run->workers > 1)
		return sentence("--eval-every=%lld: not with --record, which does not store "
				"evaluation reads; leave one of the two out",
				(long long)run->eval_every);
	return NULL;
}

/* Simulations of time only have no model, neither to start with nor to save. */
static char *check_checkpoints(const struct config *c)
{
	const char *file = *c->harness.save ? c->harness.save : c->harness.init_from;
	if (*c->harness.initial_model && !*c->harness.init_from)
		return sentence("--initial-model=%s: it names the model of --init-from; give that "
				"too",
				c->harness.initial_model);
	if (!*file || !is_simulated(c) || c->run.sim_train)
		return NULL;
	return sentence("--%s=%s: with --sim.train=false there is no model; leave one of the two "
			"out",
			*c->harness.save ? "save" : "init-from", file);
}

static char *check_hosts(const struct config *c)
{
	bool simulated = is_simulated(c), none = !*c->harness.hostfile || simulated;
	if (config_simulates_hosts(c))
		return NULL;
	const char *placement = c->harness.placement, *rate = c->harness.lab_rate;
	if (platform_under_launcher()) {
		bool ours = getenv(STATUS_VARIABLE) != NULL;
		return ours || (!*placement && !*rate)
			       ? NULL
			       : sentence(
					 "--%s=%s: your own launcher has placed the ranks already; "
					 "leave it out",
					 *rate ? "lab.rate" : "placement",
					 *rate ? rate : placement);
	}
	if (none && *placement && !simulated)
		return sentence(
			"--placement=%s: it needs the machines of a --hostfile; give one, or "
			"leave it out",
			placement);
	if (*rate && (simulated || access(LAB_FOLDER, F_OK) != 0))
		return sentence("--lab.rate=%s: it needs the wires of a lab and real workers: "
				"mvbench lab run 2 -- mvbench run ...",
				rate);
	int *number AUTOFREE =
		must(calloc((size_t)(c->run.workers + c->run.servers), sizeof *number));
	if (!none)
		TRY(config_hosts(c, number));
	bool near = hosts_with_workers(number, (int)c->run.workers) == 1;
	return simulated ? NULL : plan_tables(c, near); /* the simulator knows its machines */
}

/* --state is refused where it would have no effect. */
static char *check_optimizer(const struct config *c, int share)
{
	const struct run *run = &c->run;
	const struct optimizer *o = c->optimizer;
	if (run->momentum != 0 && !o->momentum)
		return sentence("--momentum: --optimizer=%s has its own options instead "
				"(mvbench help %s); leave it out",
				run->optimizer, run->optimizer);
	if (o->refuse)
		TRY(o->refuse(run, c->optimizer_opts));
	if (o->scratch && share > 1)
		return sentence("--optimizer=%s: it needs whole matrices, and %s splits them over "
				"%d workers; use another optimiser",
				run->optimizer, run->strategy, share);
	if (strcmp(run->state, "keep") == 0)
		return NULL;
	if (c->strategy->meets == MEETS_NEVER)
		return sentence("--state=%s: the workers of %s have the same model at every step, "
				"and therefore equal optimiser states; leave it out",
				run->state, run->strategy);
	if (strcmp(run->state, "average") == 0 && c->strategy->meets != MEETS_TOGETHER)
		return sentence(
			"--state=average: the workers of %s do not synchronise all at once; "
			"use --state=keep or --state=reset",
			run->strategy);
	if (o->moments(run, c->optimizer_opts) == 0)
		return sentence("--state=%s: --optimizer=%s has no state here; leave it out",
				run->state, run->optimizer);
	return NULL;
}

/* A pulled model needs all its floats, and the same ones at each pull. */
static char *check_pulls(const struct config *c)
{
	static const char give[] = "bf16, fp16, int8, int4, fp8 or fp4";
	const struct codec *k = c->codec_pull;
	const char *typed = c->run.codec_pull;
	int codes = strategy_codes(c->strategy, &c->run, c->strategy_opts);
	if (!k)
		return NULL;
	if (!k->encode)
		return sentence("--codec.pull=%s: there is no codec for pulls; give %s", typed,
				give);
	if (codes != CODES_PUSHES && codes != CODES_MOVES)
		return sentence("--codec.pull=%s: %s pulls no model from a table for a codec; "
				"give asgd, bsp, ssp, downpour or easgd, or leave it out",
				typed, c->run.strategy);
	if (k->sums != CODEC_SCATTERED || (k->unbiased && k->unbiased(c->codec_pull_opts)))
		return sentence("--codec.pull=%s: a model that travels by codec %s would not keep "
				"all its floats; give %s",
				typed, k->plugin.name, give);
	return k->refuse ? k->refuse(&c->run, c->codec_pull_opts) : NULL;
}

/* Where a codec would have no effect, or no meaning. */
static char *check_codec(const struct config *c)
{
	const struct run *run = &c->run;
	const struct codec *k = c->codec;
	TRY(check_pulls(c));
	if (!k->encode)
		return strcmp(run->codec_feedback, "auto") == 0
			       ? NULL
			       : sentence("--codec.feedback=%s: there is no codec whose errors "
					  "could be kept; give --codec, or leave it out",
					  run->codec_feedback);
	int codes = strategy_codes(c->strategy, run, c->strategy_opts);
	if (codes == CODES_NOTHING)
		return sentence("--codec=%s: %s sends nothing that a codec compresses; give "
				"allreduce, periodic, gossip, easgd, asgd, bsp, ssp or downpour, "
				"or leave it out",
				run->codec, run->strategy);
	bool pairs = codes == CODES_PAIRS, moves = codes == CODES_MOVES;
	bool kept = strcmp(run->codec_feedback, "true") == 0;
	if (kept && k->unbiased && k->unbiased(c->codec_opts))
		return sentence("--codec=%s: it is right on average, and may lose more than it was "
				"given: %s, and the errors would grow; %s",
				run->codec,
				pairs   ? "pairs keep what it loses"
				: moves ? "models keep what it loses"
					: "--codec.feedback keeps it",
				pairs || moves
					? "give another codec, or its options for nearest rounding"
					: "leave --codec.feedback out");
	bool alone = pairs || moves || codes == CODES_PUSHES;
	if (alone && (k->rounds > 1 || k->joint || k->state))
		return sentence("--codec=%s: it needs sums over all workers, and %s %s; give "
				"another codec",
				run->codec, run->strategy,
				pairs ? "averages in pairs" : "has pushes of single workers");
	if (moves && strcmp(run->codec_feedback, "false") == 0)
		return sentence("--codec.feedback=false: what a codec has lost stays in the "
				"difference from the centre, which %s always sends; leave it out",
				run->strategy);
	if (pairs && strcmp(run->codec_feedback, "false") == 0)
		return sentence(
			"--codec.feedback=false: a pair of %s always sends its changes since "
			"what both know, and what a codec has lost is one of them; leave it "
			"out",
			run->strategy);
	return k->refuse ? k->refuse(run, c->codec_opts) : NULL;
}

char *plan_refuse(const struct config *c)
{
	const struct run *run = &c->run;
	TRY(heterogeneity_refuse(c));
	TRY(cluster_refuse(c));
	if (c->strategy->refuse)
		TRY(c->strategy->refuse(run, c->strategy_opts));
	if (c->workload->refuse)
		TRY(c->workload->refuse(run, c->workload_opts));
	TRY(check_tables(c));
	TRY(check_deal(c));
	TRY(check_evaluation(c));
	TRY(check_checkpoints(c));
	int share = config_model_workers(c);
	TRY(check_optimizer(c, share));
	TRY(check_codec(c));
	if (share < 1 || run->workers % share != 0)
		return sentence(
			"--workers=%d: %s shares one model among %d workers; give a multiple of %d",
			(int)run->workers, run->strategy, share, share);
	/* The workers exchange activations, and messages are floats. */
	if (share > 1 && strcmp(run->precision, "bf16") == 0)
		return sentence(
			"--precision=bf16: %s splits one model over %d workers; use float32 "
			"or tf32",
			run->strategy, share);
	return NULL;
}

char *plan_make(const struct config *c, struct plan *p)
{
	const struct run *run = &c->run;
	*p = (struct plan){.cores = usable_cores()};
	bool simulated = is_simulated(c);
	TRY(plan_refuse(c));
	TRY(choose_device(c, p));
	TRY(check_hosts(c));
	if (config_needs_mpirun(c) && !platform_under_launcher() && !program_exists("mpirun"))
		return sentence("--workers=%d%s%s: mpirun is not in the PATH; install "
				"openmpi-bin, or run make deps",
				(int)run->workers, *c->harness.hostfile ? " --hostfile=" : "",
				c->harness.hostfile);
	TRY(c->workload->dataset->probe(run, &p->train, &p->test));
	TRY(data_cut(c->workload, c->workload_opts, &p->train, &p->test));
	if (run->target_accuracy > 0 && !data_is_counted(&p->train))
		return sentence("--target-accuracy=%g: %s has no accuracy; give --target-loss",
				run->target_accuracy, run->workload);
	if (data_split_of(run).alpha > 0 && data_classes(&p->train) == 0)
		return sentence("--split=%s: it divides the rows by class, and the rows of "
				"--workload=%s have no classes; use --split=fixed",
				run->split, run->workload);
	int64_t models = run->workers / config_model_workers(c);
	if ((size_t)models > p->train.n)
		return sentence("--workers=%d: there %s only %zu row%s to train on; give fewer "
				"workers",
				(int)run->workers, p->train.n == 1 ? "is" : "are", p->train.n,
				p->train.n == 1 ? "" : "s");
	TRY(validation_check(run, p->train.n, models));
	validation_split(run, &p->train, &p->validation);
	p->steps = config_epoch_steps(c, p->train.n);
	TRY(plan_lay_out(c, p, run->batch));
	TRY(check_snapshots(c, p));
	TRY(check_memory(c, p));
	TRY(check_shared_memory(c, p));
	p->dynamic = strcmp(run->deal, "dynamic") == 0;
	/* of GPUs only; ranks of the user's launcher may see one GPU each: cluster.c compares them
	 */
	p->share_gpus =
		p->facts.free_bytes && run->workers > p->facts.count && !platform_under_launcher();
	p->oversubscribed =
		!*c->harness.hostfile && !simulated && run->step_time == 0 &&
		(run->workers * run->threads + run->servers > p->cores || p->share_gpus);
	return NULL;
}
