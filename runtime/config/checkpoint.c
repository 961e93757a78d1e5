/*
 * checkpoint.c - the files of --save: a model, and the state from which its run continues.
 *
 *   head                        struct checkpoint_head: identifies the run and the model
 *   int64 [workers]             bytes of each worker's state
 *   float [params + buffers]    the evaluated model; --init-from starts with it
 *   states                      each worker continues from its own (runtime/train/checkpoint.c)
 *   uint64                      FNV-1a of everything before it
 *
 * The whole file is checked before any of it is used. A file belongs to one configuration: a run of
 * that configuration continues from it, or overwrites it if the earlier run has ended. Other
 * configurations are refused, because they would destroy the model.
 */
#include "runtime/config/checkpoint.h"
#include "runtime/config/config.h"
#include "runtime/config/plan.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { VERSION = 1, ORDER = 0x01020304 };
static const char magic[8] = "mvbckpt";

char *checkpoint_path(const struct config *c)
{
	const char *path = c->harness.save;
	size_t n = strlen(path);
	char hash[17];
	config_hash(c, hash);
	if (n == 0)
		return NULL;
	return path[n - 1] == '/' ? sentence("%s%s.ckpt", path, hash) : must(strdup(path));
}

void checkpoint_free(struct checkpoint *k)
{
	if (!k)
		return;
	free(k->state_bytes);
	free(k->model);
	free(k->state);
	free(k);
}

static size_t model_floats(const struct checkpoint_head *h)
{
	return (size_t)h->params + (size_t)h->buffers;
}

void checkpoint_model_hash(const struct checkpoint *k, char hash[HASH_ROOM])
{
	memset(hash, 0, HASH_ROOM);
	snprintf(hash, HASH_ROOM, "%016llx",
		 (unsigned long long)hash_of(HASH_START, k->model,
					     model_floats(&k->head) * sizeof *k->model));
}

/* ---- Reading --------------------------------------------------------------------- */

static bool is_text(const char *text, size_t room)
{
	return memchr(text, '\0', room) != NULL;
}

/* Are its numbers valid for a file of this many bytes? Counts are bounded by the bytes; their sums
 * can therefore not overflow. */
static bool head_is_sound(const struct checkpoint_head *h, int64_t bytes)
{
	return h->bytes == bytes && h->workers > 0 && h->workers <= WORKERS_MOST && h->params > 0 &&
	       h->params < bytes && h->buffers >= 0 && h->buffers < bytes && h->epoch >= 0 &&
	       h->epoch <= h->epochs && h->trained >= 0 && is_text(h->workload, NAME_ROOM) &&
	       is_text(h->strategy, NAME_ROOM) && is_text(h->config_hash, HASH_ROOM) &&
	       is_text(h->model, HASH_ROOM) && is_text(h->run, HASH_ROOM) && isfinite(h->elapsed) &&
	       isfinite(h->first_loss);
}

static char *damaged(const char *option, const char *path)
{
	return sentence("--%s=%s: this checkpoint is cut, or was changed since it was made: use "
			"another one, or remove it",
			option, path);
}

static char *open_file(const char *option, const char *path, FILE **f, struct checkpoint_head *h)
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC); /* does not wait for a pipe */
	*f = fd >= 0 ? fdopen(fd, "r") : NULL;
	if (!*f || fstat(fileno(*f), &st) != 0)
		return sentence("--%s=%s: the file cannot be read (%s)", option, path,
				strerror(errno));
	bool whole = S_ISREG(st.st_mode) && fread(h, sizeof *h, 1, *f) == 1;
	if (!whole || memcmp(h->magic, magic, sizeof magic) != 0)
		return sentence("--%s=%s: not a checkpoint: name another file", option, path);
	if (h->version != VERSION || h->order != ORDER)
		return sentence("--%s=%s: this checkpoint was made by another version of mvbench, "
				"or on another kind of machine: make a new one",
				option, path);
	return head_is_sound(h, st.st_size) ? NULL : damaged(option, path);
}

char *checkpoint_read_head(const char *option, const char *path, struct checkpoint_head *head)
{
	FILE *f = NULL;
	char *wrong = open_file(option, path, &f, head);
	if (f)
		fclose(f);
	return wrong;
}

/* The next bytes, on the heap; NULL: the file ends before. */
static void *read_part(FILE *f, size_t bytes, uint64_t *hash)
{
	void *x = must(malloc(bytes + 1));
	if (fread(x, 1, bytes, f) == bytes) {
		*hash = hash_of(*hash, x, bytes);
		return x;
	}
	free(x);
	return NULL;
}

/* Everything after the head. */
static bool read_rest(FILE *f, struct checkpoint *k)
{
	const struct checkpoint_head *h = &k->head;
	uint64_t hash = hash_of(HASH_START, h, sizeof *h), want = 0;
	size_t states = 0, workers = (size_t)h->workers;
	int64_t left = h->bytes - (int64_t)(sizeof *h + sizeof want);
	left -= (int64_t)(workers * sizeof *k->state_bytes + model_floats(h) * sizeof(float));
	if (left < 0 || !(k->state_bytes = read_part(f, workers * sizeof *k->state_bytes, &hash)))
		return false;
	for (size_t i = 0; i < workers; i++) {
		int64_t n = k->state_bytes[i];
		if (n < 0 || n > left || n % (int64_t)sizeof(float))
			return false;
		left -= n;
		states += (size_t)n;
	}
	k->model = read_part(f, model_floats(h) * sizeof(float), &hash);
	k->state = k->model ? read_part(f, states, &hash) : NULL;
	return left == 0 && k->state && fread(&want, sizeof want, 1, f) == 1 && want == hash;
}

static char *read_checkpoint(const char *option, const char *path, struct checkpoint **out)
{
	struct checkpoint *k = must(calloc(1, sizeof *k));
	FILE *f = NULL;
	char hash[HASH_ROOM], *wrong = open_file(option, path, &f, &k->head);
	if (!wrong && !read_rest(f, k))
		wrong = damaged(option, path);
	if (f)
		fclose(f);
	if (!wrong)
		checkpoint_model_hash(k, hash);
	if (!wrong && strcmp(hash, k->head.model) != 0)
		wrong = damaged(option, path);
	*out = wrong ? NULL : k;
	if (wrong)
		checkpoint_free(k);
	return wrong;
}

/* ---- The start of a run ---------------------------------------------------------- */

static bool same_layers(const struct checkpoint_head *h, const struct plan *p)
{
	return h->params == p->params && h->buffers == p->buffers && h->layout == p->layout;
}

static char *fits_model(const struct config *c, const struct plan *p, const struct checkpoint *k)
{
	const struct checkpoint_head *h = &k->head;
	const char *option = "init-from", *path = c->harness.init_from;
	if (strcmp(h->workload, c->run.workload) != 0)
		return sentence("--%s=%s: it has a model of --workload=%s, not of %s", option, path,
				h->workload, c->run.workload);
	if (!same_layers(h, p))
		return sentence("--%s=%s: its model has other layers, with %lld parameters, and "
				"this one %lld: give the options of --workload=%s that it was made "
				"with",
				option, path, (long long)h->params, (long long)p->params,
				h->workload);
	if (strcmp(h->model, c->harness.initial_model) != 0)
		return sentence("--%s=%s: its model is %s, but --initial-model=%s was given: give "
				"the file that has it, or leave --initial-model out",
				option, path, h->model, c->harness.initial_model);
	for (size_t i = 0; i < model_floats(h); i++)
		if (!isfinite(k->model[i]))
			return sentence("--%s=%s: its model has diverged, float %zu is %g: use an "
					"earlier one",
					option, path, i, (double)k->model[i]);
	return NULL;
}

/* Can the run of this configuration continue from, or overwrite, this file of --save? */
static char *fits_run(const struct config *c, const struct plan *p, const char *path,
		      const struct checkpoint_head *h)
{
	char hash[17];
	config_hash(c, hash);
	if (strcmp(h->config_hash, hash) != 0)
		return sentence("--save=%s: this file has a checkpoint of another configuration, "
				"%s, %s, %lld worker%s, after epoch %lld of %lld: name another "
				"file, or remove it",
				path, h->workload, h->strategy, (long long)h->workers,
				h->workers == 1 ? "" : "s", (long long)h->epoch,
				(long long)h->epochs);
	if (!h->ended && !same_layers(h, p))
		return sentence(
			"--save=%s: this checkpoint is of other data, or was made by another "
			"version of mvbench: remove the file to start again",
			path);
	if (!h->ended && (c->run.record || c->run.trace || c->run.sim_replay))
		return sentence("--save=%s: a run with --record, --trace or --sim.replay cannot "
				"continue from a checkpoint: remove the file to start again",
				path);
	return NULL;
}

/* Can a file be made there? Found before training, not at the first checkpoint. */
static char *checkpoint_check_folder(const char *save, const char *path)
{
	char *copy AUTOFREE = must(strdup(path)), *folder = dirname(copy);
	/* --save=FOLDER/ is made with its parents */
	while (save[strlen(save) - 1] == '/' && access(folder, F_OK) != 0 && errno == ENOENT)
		folder = dirname(folder);
	char *inside AUTOFREE = sentence("%s/.", folder); /* not of a file */
	if (access(inside, W_OK | X_OK) == 0)
		return NULL;
	return sentence("--save=%s: no file can be made in %s (%s); name another folder, or make "
			"it",
			save, folder, strerror(errno));
}

/* *resumed stays NULL if there is no file, or if its run has ended. */
static char *checkpoint_find_resumed(const struct config *c, const struct plan *p,
				     struct checkpoint **resumed)
{
	char *path AUTOFREE = checkpoint_path(c);
	struct checkpoint_head head;
	struct stat st;
	if (!path)
		return NULL;
	TRY(checkpoint_check_folder(c->harness.save, path));
	if (stat(path, &st) != 0 && errno == ENOENT)
		return NULL;
	char *wrong = checkpoint_read_head("save", path, &head);
	if (!wrong)
		wrong = fits_run(c, p, path, &head);
	return wrong || head.ended ? wrong : read_checkpoint("save", path, resumed);
}

char *checkpoint_find(const struct config *c, const struct plan *p, struct checkpoint **initial,
		      struct checkpoint **resumed)
{
	char *wrong = NULL;
	*initial = *resumed = NULL;
	if (*c->harness.init_from)
		wrong = read_checkpoint("init-from", c->harness.init_from, initial);
	if (*initial)
		wrong = fits_model(c, p, *initial);
	if (!wrong)
		wrong = checkpoint_find_resumed(c, p, resumed);
	if (wrong) {
		checkpoint_free(*initial);
		*initial = NULL;
	}
	return wrong;
}

/* ---- Writing --------------------------------------------------------------------- */

/* NULL, or a message: has another run taken this file since this run started? At that time there
 * was no file, or one of an ended run. */
static char *taken_since(const char *path, const struct checkpoint_head *own)
{
	struct checkpoint_head h;
	struct stat st;
	if (stat(path, &st) != 0 && errno == ENOENT)
		return NULL;
	TRY(checkpoint_read_head("save", path, &h));
	if (strcmp(h.run, own->run) == 0 ||
	    (h.ended && strcmp(h.config_hash, own->config_hash) == 0))
		return NULL;
	return sentence("--save=%s: another run, %s, %s, writes its checkpoints there too: give "
			"each run its own file",
			path, h.workload, h.strategy);
}

static void write_part(FILE *f, const void *x, size_t bytes, uint64_t *hash)
{
	fwrite(x, 1, bytes, f); /* output_close reports a failure */
	*hash = hash_of(*hash, x, bytes);
}

char *checkpoint_write(const char *path, struct checkpoint *k)
{
	struct checkpoint_head *h = &k->head;
	struct output o;
	size_t workers = (size_t)h->workers, states = 0;
	uint64_t hash = HASH_START;
	for (size_t i = 0; i < workers; i++)
		states += (size_t)k->state_bytes[i];
	memcpy(h->magic, magic, sizeof magic);
	h->version = VERSION;
	h->order = ORDER;
	h->bytes = (int64_t)(sizeof *h + workers * sizeof *k->state_bytes +
			     model_floats(h) * sizeof(float) + states + sizeof hash);
	checkpoint_model_hash(k, h->model);
	TRY(taken_since(path, h));
	TRY(output_open(&o, "--save=", path));
	write_part(o.f, h, sizeof *h, &hash);
	write_part(o.f, k->state_bytes, workers * sizeof *k->state_bytes, &hash);
	write_part(o.f, k->model, model_floats(h) * sizeof(float), &hash);
	write_part(o.f, k->state, states, &hash);
	fwrite(&hash, sizeof hash, 1, o.f);
	return output_close(&o, NULL);
}

char *checkpoint_mark_ended(const char *path)
{
	struct checkpoint *k = NULL;
	char *wrong = read_checkpoint("save", path, &k);
	if (!wrong) {
		k->head.ended = true;
		wrong = checkpoint_write(path, k);
	}
	checkpoint_free(k);
	return wrong;
}
