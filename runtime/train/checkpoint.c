/*
 * checkpoint.c - checkpoints: what a run begins with (--init-from), what it keeps (--save), and how
 * an interrupted run continues as if it had not been interrupted.
 *
 * A checkpoint has the evaluated model, assembled from its parts if workers share one. For each
 * worker it has param, moments, buffer, what its strategy names (worker_keep), and what its tables
 * keep. It is made at a barrier, where no operation is pending. Every order, mini-batch and mask is
 * drawn from the seed and the number of its epoch or step. Nothing else decides the losses to come,
 * except times of arrival, which only asynchronous strategies depend on; these are not kept.
 *
 * To continue, the run first begins as with --init-from: tables then have W. Then each worker gets
 * its state back. Cost of a checkpoint: a copy of everything on rank 0, and the file.
 */
#include "runtime/config/config.h"
#include "runtime/config/machine.h"
#include "runtime/train/trainer.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- A worker's state ------------------------------------------------------------- */

/* The training loop's state; that of the strategy comes after it. */
static void keep_own(struct trainer *r)
{
	struct worker *w = &r->w;
	worker_keep_vec(w, w->param);
	for (int k = 0; k < MOMENTS_MOST; k++)
		worker_keep_vec(w, w->moment[k]);
	worker_keep_vec(w, w->model->buffer);
	worker_keep(w, &r->heterogeneity.pause_at, sizeof r->heterogeneity.pause_at);
	worker_keep(w, &w->step, sizeof w->step);
	worker_keep(w, &w->age, sizeof w->age);
	worker_keep(w, &w->loop->shares, sizeof w->loop->shares);
	worker_keep(w, &w->loop->common, sizeof w->loop->common);
}

/* Size of a worker's state, with what its tables keep [bytes]. *all[trainers]: on rank 0 those of
 * all workers; heap. */
static size_t state_bytes(struct trainer *r, int64_t **all)
{
	size_t n = tables_keep(r->w.loop->tables, NULL, false) * sizeof(float) +
		   keepsakes_bytes(&r->w);
	*all = must(calloc((size_t)r->w.trainers, sizeof **all));
	link_gather(r->all, 0, &(int64_t){(int64_t)n}, *all, sizeof **all);
	return n;
}

static void keep_state(struct trainer *r, char *at, bool put)
{
	size_t bytes = keepsakes_copy(&r->w, at, put);
	tables_keep(r->w.loop->tables, (float *)(void *)(at + bytes), put);
}

/* ---- The whole model ---------------------------------------------------------------- */

/* The places of param's floats in the whole model; heap. */
static size_t *places_of(const struct worker *w)
{
	size_t n = vec_len(w->param), *place = must(malloc((n + 1) * sizeof *place));
	for (size_t i = 0; i < n; i++)
		place[i] = i;
	if (w->model->workload->places && comm_size(w->model_group) > 1)
		w->model->workload->places(w, place);
	return place;
}

/* The evaluated model, on rank 0: its parameters, assembled from the workers of the first model,
 * and its buffers. Other ranks get NULL. Heap. */
static float *gather_model(struct trainer *r)
{
	struct worker *w = &r->w;
	size_t n = vec_len(w->param), buffers = w->model->buffer ? vec_len(w->model->buffer) : 0,
	       places, floats;
	size_t *place AUTOFREE = places_of(w), *all_places AUTOFREE = NULL;
	float *x AUTOFREE = must(malloc((n + 1) * sizeof *x)), *all AUTOFREE = NULL;
	float *model = NULL;
	n = r->replica == 0 ? n : 0;
	model_place(r, NULL);
	vec_get(w->param, x);
	all_places = link_gather_parts(r->all, place, n * sizeof *place, &places);
	all = link_gather_parts(r->all, x, n * sizeof *x, &floats);
	if (w->rank == 0) {
		model = must(calloc((size_t)w->model->params + buffers + 1, sizeof *model));
		for (size_t i = 0; i < floats / sizeof *all; i++)
			model[all_places[i]] = all[i];
		if (buffers)
			vec_get(w->model->buffer, model + w->model->params);
	}
	model_take_back(r, NULL);
	return model;
}

/* Collective: each worker takes its part of rank 0's whole model. */
static void scatter_model(struct trainer *r, const struct checkpoint *k)
{
	struct worker *w = &r->w;
	size_t n = vec_len(w->param), whole = (size_t)w->model->params;
	size_t buffers = w->model->buffer ? vec_len(w->model->buffer) : 0,
	       *place AUTOFREE = places_of(w);
	float *model AUTOFREE = must(malloc((whole + buffers + 1) * sizeof *model));
	float *x AUTOFREE = must(malloc((n + 1) * sizeof *x));
	if (w->rank == 0)
		memcpy(model, k->model, (whole + buffers) * sizeof *model);
	link_broadcast(r->all, 0, model, (whole + buffers) * sizeof *model);
	for (size_t i = 0; i < n; i++)
		x[i] = model[place[i]];
	vec_put(w->param, x);
	if (buffers)
		vec_put(w->model->buffer, model + whole);
}

/* ---- The beginning ------------------------------------------------------------------- */

/* A unique name, from this process's host, number and times. */
static void name_run(char name[HASH_ROOM])
{
	char *who AUTOFREE = sentence("%s %d %lld %lld", machine()->host, (int)getpid(),
				      (long long)time(NULL), (long long)clock());
	memset(name, 0, HASH_ROOM);
	snprintf(name, HASH_ROOM, "%016llx",
		 (unsigned long long)hash_of(HASH_START, who, strlen(who)));
}

static void new_head(struct trainer *r)
{
	struct checkpoint_head *h = &r->head;
	const struct run *run = r->w.run;
	*h = (struct checkpoint_head){
		.workers = r->w.trainers,
		.epochs = run->epochs,
		.params = r->w.model->params,
		.buffers = r->w.model->buffer ? (int64_t)vec_len(r->w.model->buffer) : 0,
		.layout = r->plan->layout};
	snprintf(h->workload, sizeof h->workload, "%s", run->workload);
	snprintf(h->strategy, sizeof h->strategy, "%s", run->strategy);
	config_hash(r->config, h->config_hash);
	name_run(h->run);
}

void checkpoint_begin(struct trainer *r)
{
	bool any = *r->config->harness.init_from || *r->config->harness.save;
	char *wrong = NULL;
	r->w.loop->saves = any;
	if (!any)
		return;
	keep_own(r);
	world_wait("a checkpoint", 0);
	if (r->w.rank == 0)
		wrong = checkpoint_find(r->config, r->plan, &r->initial, &r->resumed);
	world_leave();
	trainers_agree(r, wrong);
	new_head(r);
	if (r->resumed)
		r->head = r->resumed->head;
	double begins[] = {r->initial != NULL, r->resumed != NULL};
	link_reduce_all(r->all, begins, 2, REDUCE_MAX);
	link_broadcast(r->all, 0, &r->head, sizeof r->head);
	r->resumes = begins[1] > 0;
	if (r->resumes || begins[0] > 0)
		scatter_model(r, r->resumes ? r->resumed : r->initial);
	checkpoint_free(r->initial);
	r->initial = NULL;
}

/* Rank 0 sends each other rank its state; heap. bytes: what this rank expects. */
static char *receive_state(struct trainer *r, size_t bytes)
{
	char *mine = must(malloc(bytes + 1));
	if (r->w.rank != 0) {
		link_recv(r->all, 0, (float *)(void *)mine, bytes / sizeof(float));
		return mine;
	}
	const struct checkpoint *k = r->resumed;
	const char *at = k->state + bytes;
	memcpy(mine, k->state, bytes);
	for (int i = 1; i < r->w.trainers; at += k->state_bytes[i++])
		link_send(r->all, i, (const float *)(const void *)at,
			  (size_t)k->state_bytes[i] / sizeof(float));
	return mine;
}

void checkpoint_resume(struct trainer *r)
{
	struct worker *w = &r->w;
	int64_t *all AUTOFREE = NULL;
	char *wrong = NULL;
	if (!r->resumes)
		return;
	size_t bytes = state_bytes(r, &all);
	for (int i = 0; w->rank == 0 && i < w->trainers; i++)
		if (r->head.workers != w->trainers || all[i] != r->resumed->state_bytes[i])
			wrong = sentence("--save=%s: this checkpoint was made by another version "
					 "of mvbench: remove it to start again",
					 r->config->harness.save);
	trainers_agree(r, wrong);
	char *mine AUTOFREE = receive_state(r, bytes);
	keep_state(r, mine, true);
	r->elapsed = r->head.elapsed;
	r->first_loss = r->head.first_loss;
	r->trained = r->head.trained;
	if (r->head.epoch == r->head.epochs)
		r->last = r->resumed; /* it had only to be marked as ended */
	else
		checkpoint_free(r->resumed);
	r->resumed = NULL;
}

/* ---- The ends of epochs -------------------------------------------------------------- */

/* On rank 0; other ranks get NULL. */
static struct checkpoint *gather_checkpoint(struct trainer *r)
{
	float *model = gather_model(r);
	struct checkpoint *k = must(calloc(1, sizeof *k));
	size_t bytes = state_bytes(r, &k->state_bytes), total;
	char *mine AUTOFREE = must(malloc(bytes + 1));
	keep_state(r, mine, false);
	k->head = r->head;
	k->model = model;
	k->state = link_gather_parts(r->all, mine, bytes, &total);
	if (r->w.rank == 0)
		return k;
	checkpoint_free(k);
	return NULL;
}

/* Rank 0. */
static char *write_checkpoint(struct trainer *r, struct checkpoint *k)
{
	char *path AUTOFREE = checkpoint_path(r->config);
	const char *folder = r->config->harness.save;
	world_wait("a checkpoint", 0);
	int failed = folder[strlen(folder) - 1] == '/' ? folder_make(folder) : 0;
	char *wrong = failed ? sentence("--save=%s: the folder cannot be made (%s)", folder,
					strerror(failed))
			     : checkpoint_write(path, k);
	world_leave();
	return wrong;
}

void checkpoint_save(struct trainer *r)
{
	struct worker *w = &r->w;
	const struct harness_options *o = &r->config->harness;
	bool due = w->epoch == w->run->epochs || w->epoch - r->head.epoch >= o->save_every;
	char *wrong = NULL;
	if (!*o->save || !due || r->status)
		return;
	r->head.epoch = w->epoch;
	r->head.elapsed = r->elapsed;
	r->head.first_loss = r->first_loss;
	r->head.trained = r->trained;
	struct checkpoint *k = gather_checkpoint(r);
	if (k)
		wrong = write_checkpoint(r, k);
	if (w->epoch == w->run->epochs)
		r->last = k;
	else
		checkpoint_free(k);
	trainer_share_status(r, wrong);
	stats_reset(&r->stats);
}

void checkpoint_end(struct trainer *r)
{
	if (!r->last || r->status)
		return;
	r->last->head.ended = true;
	char *wrong = write_checkpoint(r, r->last);
	if (wrong) /* the checkpoint before it is still complete */
		complain(wrong);
}

void checkpoint_close(struct trainer *r)
{
	checkpoint_free(r->last);
	checkpoint_free(r->resumed);
	keepsakes_free(&r->w);
}
