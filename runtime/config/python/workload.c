/*
 * workload.c - a workload whose model and data are in a Python file. It is described by its
 * description (driver.py), and computes by requests to one Python process for each of this program:
 * all simulated workers share that process.
 *
 * param, grad and buffer of a worker are in memory that both processes map. On a device with memory
 * of its own they are copied for each gradient.
 *
 * The data stay in Python. What the program sees of a row is its number, in four bytes, so that it
 * can reorder rows, and its class.
 */
#include "runtime/config/dataset.h"
#include "runtime/config/plugins.h"
#include "runtime/config/python/python.h"
#include "runtime/config/config.h"
#include "runtime/device/device.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Vectors begin at different places of a page, see runtime/device/cpu/memory.c. */
enum { STRIDE = 1088 / sizeof(float) };

/* One file, its process, and what it said of its model and data. */
struct file {
	struct workload workload;
	struct dataset dataset;
	char *description, *source, *text; /* path; hash; what rows point into */
	struct python *python;             /* NULL: not started */
	char *configured;                  /* the last request to make model and data; NULL: none */
	size_t rows[2], classes;
	bool by_class; /* a row has one class */
	bool uncounted;
	char content[DATA_HASH_ROOM];
	struct tensor *tensor;
	size_t *layer; /* [layers + 1] */
	double *flops; /* [layers + 1], as in struct layout; NULL: not known */
	size_t tensors, layers, params, buffers;
};

/* Files stay until the process ends. */
static struct file **files;
static size_t nfiles;

/* The options of a workload in Python begin with the hash of its source. */
struct options {
	const char *source;
};

static struct file *file_of(const void *opts)
{
	const struct options *o = opts;
	size_t i = 0;
	while (i < nfiles && strcmp(files[i]->source, o->source) != 0)
		i++;
	CHECK(i < nfiles, "no Python file with source %s", o->source);
	return files[i];
}

/* ---- Its description ---- */

/* The next word of a line; "" at its end. */
static char *word(char **line)
{
	char *w = strsep(line, "\t");
	return w ? w : "";
}

static enum option_type type_of(const char *name)
{
	static const char *const names[] = {
		[OPT_INT] = "int",       [OPT_REAL] = "real",     [OPT_BOOL] = "bool",
		[OPT_STRING] = "string", [OPT_CHOICE] = "choice", [OPT_SIZE] = NULL};
	size_t i = 0;
	while (names[i] && strcmp(names[i], name) != 0)
		i++;
	CHECK(names[i], "an option of type %s", name);
	return (enum option_type)i;
}

static void add_option(struct file *f, struct option **options, size_t *n, char *line)
{
	struct option o = {.name = word(&line), .offset = f->workload.plugin.opts_size};
	o.type = type_of(word(&line));
	o.def = word(&line);
	o.choices = word(&line);
	o.help = word(&line);
	f->workload.plugin.opts_size += sizeof(int64_t);
	APPEND(*options, *n, o);
}

static const struct workload slots;

static void read_description(struct file *f)
{
	struct option *options = NULL;
	struct setting *recipe = NULL;
	size_t n = 0, settings = 0;
	struct plugin *p = &f->workload.plugin;
	p->opts_size = sizeof(struct options);
	APPEND(options, n, plugin_source(f->source, 0));
	for (char *rest = f->text, *line; (line = strsep(&rest, "\n")) && *line;) {
		const char *what = word(&line);
		if (strcmp(what, "name") == 0)
			p->name = line;
		else if (strcmp(what, "summary") == 0)
			p->summary = line;
		else if (strcmp(what, "option") == 0)
			add_option(f, &options, &n, line);
		else if (strcmp(what, "recipe") == 0)
			APPEND(recipe, settings,
			       (struct setting){.name = word(&line), .value = line});
	}
	APPEND(options, n, (struct option){.name = NULL});
	APPEND(recipe, settings, (struct setting){NULL, NULL});
	p->options = options;
	f->workload.recipe = recipe;
}

char *python_load(const char *description, const char *source, struct workload **out)
{
	struct file *f = must(calloc(1, sizeof *f));
	f->workload = slots;
	f->dataset = *slots.dataset;
	f->workload.dataset = &f->dataset;
	f->description = must(strdup(description));
	f->source = must(strdup(source));
	if (!(f->text = text_read(description)))
		return sentence("%s: %s", description, strerror(errno));
	read_description(f);
	f->dataset.name = f->workload.plugin.name;
	f->dataset.summary = f->workload.plugin.summary;
	if (!f->workload.plugin.name || !f->workload.plugin.summary)
		return sentence("%s is no description of a workload", description);
	APPEND(files, nfiles, f);
	*out = &f->workload;
	return NULL;
}

/* ---- Its model and data ---- */

static void write_options(FILE *out, const struct file *f, const void *opts)
{
	fputs("{", out);
	for (const struct option *o = f->workload.plugin.options + 1; o->name; o++) {
		fprintf(out, "%s\"%s\": ", o == f->workload.plugin.options + 1 ? "" : ", ",
			o->name);
		option_json(out, o, opts);
	}
	fputs("}", out);
}

static char *request_of(const struct file *f, const void *opts, int64_t seed, int64_t threads)
{
	struct text t;
	FILE *out = text_open(&t);
	fputs("{\"options\": ", out);
	write_options(out, f, opts);
	fprintf(out, ", \"seed\": %lld, \"threads\": %lld}", (long long)seed, (long long)threads);
	return text_close(&t);
}

/* Adjacent tensors with the same number are one layer. */
static void add_tensor(struct file *f, char *line)
{
	struct tensor t = {.first = f->params};
	t.rows = strtoull(word(&line), NULL, 10);
	t.columns = strtoull(word(&line), NULL, 10);
	t.spared = *word(&line) == '1';
	size_t layer = strtoull(word(&line), NULL, 10);
	t.hidden = *word(&line) == '1';
	f->params += t.rows * t.columns;
	APPEND(f->tensor, f->tensors, t);
	while (f->layers <= layer) {
		f->layer = must(realloc(f->layer, (f->layers + 2) * sizeof *f->layer));
		f->layer[f->layers++] = t.first;
	}
	f->layer[f->layers] = f->params;
}

static void read_shapes(struct file *f, const char *said)
{
	char *text AUTOFREE = must(strdup(said)), *rest = text, *line;
	f->tensors = f->layers = f->params = f->buffers = 0;
	free(f->flops);
	f->flops = NULL;
	while ((line = strsep(&rest, "\n"))) {
		const char *what = word(&line);
		if (strcmp(what, "rows") == 0) {
			f->rows[0] = strtoull(word(&line), NULL, 10);
			f->rows[1] = strtoull(word(&line), NULL, 10);
		} else if (strcmp(what, "classes") == 0) {
			f->classes = strtoull(word(&line), NULL, 10);
			f->by_class = *word(&line) == '1';
			f->uncounted = *word(&line) == '0';
		} else if (strcmp(what, "content") == 0) {
			snprintf(f->content, sizeof f->content, "%s", word(&line));
		} else if (strcmp(what, "buffers") == 0) {
			f->buffers = strtoull(word(&line), NULL, 10);
		} else if (strcmp(what, "tensor") == 0) {
			add_tensor(f, line);
		} else if (strcmp(what, "flops") == 0) {
			f->flops = must(calloc(f->layers + 1, sizeof *f->flops));
			for (size_t i = 0; i <= f->layers; i++)
				f->flops[i] = strtod(word(&line), NULL);
		}
	}
}

/* Python makes the model and the data of this run, unless it has them. NULL, or a message. */
static char *python_configure(struct file *f, const struct run *run, int64_t seed)
{
	char *wrong = NULL,
	     *request AUTOFREE = request_of(f, run->workload_opts, seed, run->threads);
	if (f->configured && strcmp(f->configured, request) == 0)
		return NULL;
	if (!f->python)
		f->python = python_start(f->description, &wrong);
	if (wrong)
		return wrong;
	free(f->configured);
	f->configured = NULL;
	python_say(f->python, request, strlen(request));
	wrong = python_ask(f->python, &(struct python_request){.command = CONFIGURE});
	if (wrong) {
		char *all = sentence("--workload=%s: %s", f->workload.plugin.name, wrong);
		free(wrong);
		return all;
	}
	read_shapes(f, python_said(f->python));
	f->configured = must(strdup(request));
	return NULL;
}

static char *python_probe(const struct run *run, struct data *train, struct data *test)
{
	struct file *f = file_of(run->workload_opts);
	TRY(python_configure(f, run, run->seed));
	const struct data shape = {.features = sizeof(int32_t),
				   .classes = f->classes,
				   .uncounted = f->uncounted,
				   .value_size = 1,
				   .targets = f->by_class || !f->classes ? 0 : 1};
	*train = *test = shape;
	train->n = f->rows[0];
	test->n = f->rows[1];
	return NULL;
}

/* Rows first, first + 1, ... */
static void number_rows(struct data *d, size_t first)
{
	uint8_t *bytes = must(malloc(d->n * sizeof(int32_t)));
	for (size_t i = 0; i < d->n; i++) {
		const int32_t row = (int32_t)(first + i);
		memcpy(bytes + i * sizeof row, &row, sizeof row);
	}
	d->bytes = bytes;
	d->target = must(calloc(d->n, sizeof *d->target));
}

static char *python_rows(const struct run *run, struct data *train, struct data *test)
{
	struct file *f = file_of(run->workload_opts);
	TRY(python_probe(run, train, test));
	if (train->n + test->n > INT32_MAX)
		return sentence("--workload=%s: its sets have more than %d rows together",
				f->workload.plugin.name, INT32_MAX);
	number_rows(train, 0);
	number_rows(test, train->n);
	if (!f->by_class)
		return NULL;
	int64_t at;
	size_t bytes = (train->n + test->n) * sizeof(float);
	float *target = python_map(f->python, bytes, &at);
	char *wrong = python_ask(f->python, &(struct python_request){.command = TARGETS, .at = at});
	memcpy((float *)(uintptr_t)train->target, target, train->n * sizeof(float));
	memcpy((float *)(uintptr_t)test->target, target + train->n, test->n * sizeof(float));
	python_unmap(target, bytes);
	return wrong;
}

static void python_unload(struct data *train, struct data *test)
{
	struct data *const part[] = {train, test};
	for (int i = 0; i < 2; i++) {
		free((void *)(uintptr_t)part[i]->bytes);
		free((void *)(uintptr_t)part[i]->target);
		*part[i] = (struct data){0};
	}
}

/* Data that depend on the seed have the hash of seed 1. */
static const char *python_identity(const struct run *run)
{
	struct file *f = file_of(run->workload_opts);
	char *wrong AUTOFREE = python_configure(f, run, run->seed); /* the plan reports it */
	if (!wrong && *f->content == DATA_OF_SEED && run->seed != 1)
		wrong = python_configure(f, run, 1);
	return wrong ? "" : f->content;
}

/* ---- Its slots ---- */

struct state {
	struct file *file;
	float *region; /* NULL: a simulation of time alone, or not attached */
	size_t bytes;
	float *param, *grad, *buffer; /* in the region */
	bool shared;                  /* w's vectors are these */
	size_t layer;                 /* the next that becomes final */
};

static struct state *state_of(const struct worker *w)
{
	return w->model->state;
}

/* A failed request ends all ranks: status 1. */
static void ask(const struct worker *w, struct python_request *r)
{
	struct file *f = state_of(w)->file;
	r->slot = w->rank;
	char *wrong = python_ask(f->python, r);
	if (wrong)
		failure("--workload=%s: %s", f->workload.plugin.name, wrong);
}

static void attach(struct worker *w)
{
	struct state *s = state_of(w);
	const struct file *f = s->file;
	size_t at[] = {0, f->params + STRIDE, 2 * (f->params + STRIDE)};
	s->bytes = (at[2] + f->buffers + 1) * sizeof(float);
	const int64_t offset[] = {(int64_t)s->bytes, 0, (int64_t)(at[1] * sizeof(float)),
				  (int64_t)(at[2] * sizeof(float))};
	struct python_request r = {.command = ATTACH, .rows = (int64_t)f->params};
	s->region = python_map(f->python, s->bytes, &r.at);
	s->param = s->region;
	s->grad = s->region + at[1];
	s->buffer = s->region + at[2];
	python_say(f->python, offset, sizeof offset);
	ask(w, &r);
}

/* Copies between this worker's vectors and the region, if they are apart. */
static void bring(struct worker *w)
{
	struct state *s = state_of(w);
	if (s->shared)
		return;
	vec_get(w->param, s->param);
	if (w->model->buffer)
		vec_get(w->model->buffer, s->buffer);
}

static void take(struct worker *w, bool gradient)
{
	struct state *s = state_of(w);
	if (s->shared)
		return;
	if (gradient)
		vec_put(w->grad, s->grad);
	if (w->model->buffer)
		vec_put(w->model->buffer, s->buffer);
}

static bool has_floats(struct worker *w)
{
	struct vec *one = vec_new(w, 1);
	bool has = vec_has_data(one);
	w->loop->dev->bytes -= sizeof(float);
	vec_free(one);
	return has;
}

static void python_init(struct worker *w, const struct data *sample)
{
	struct state *s = state_of(w);
	struct file *f = s->file = file_of(w->model->opts);
	bool floats = has_floats(w);
	(void)sample;
	char *wrong = python_configure(f, w->run, w->run->seed);
	if (wrong)
		user_error("%s", wrong);
	if (floats)
		attach(w);
	s->shared = floats && w->loop->dev->ops->host;
	model_layout(w,
		     &(struct layout){.params = f->params,
				      .layers = f->layers,
				      .layer = f->layer,
				      .buffers = f->buffers,
				      .flops = f->flops,
				      .host = s->shared ? (float *[]){s->param, s->grad, s->buffer}
							: NULL});
	model_tensors(w, f->tensor, f->tensors);
	if (floats && !s->shared) {
		vec_put(w->param, s->param);
		take(w, false);
	}
}

static void python_fini(struct worker *w)
{
	struct state *s = state_of(w);
	if (s->region)
		python_unmap(s->region, s->bytes);
	s->region = NULL;
}

static void python_rows_of(struct worker *w, const struct data *set, const int32_t *index,
			   size_t rows)
{
	int32_t *out = python_index(state_of(w)->file->python);
	CHECK(rows <= PYTHON_ROWS, "%zu rows at once", rows);
	for (size_t i = 0; i < rows; i++)
		memcpy(&out[i], set->bytes + (size_t)index[i] * sizeof *out, sizeof *out);
}

static void python_nothing(struct worker *w)
{
	(void)w; /* rows are taken with the gradient */
}

static void python_ready(void *ctx)
{
	struct worker *w = ctx;
	w->loop->layer_ready(w, --state_of(w)->layer);
}

static void python_gradient(struct worker *w)
{
	struct state *s = state_of(w);
	s->layer = w->model->layers;
	if (s->region) {
		bool early = s->shared && !world_is_virtual && w->loop->wants_layers(w);
		double rows = (double)w->rows;
		struct python_request r = {.command = GRADIENT,
					   .rows = (int64_t)w->rows,
					   .key = w->loop->dev->key,
					   .share = w->mean_rows > 0 ? rows / w->mean_rows : 1,
					   .trial = w->step == 0, /* the warm-up */
					   .ready = early ? python_ready : NULL,
					   .ctx = w};
		bring(w);
		python_rows_of(w, w->train, w->index, w->rows);
		ask(w, &r);
		take(w, true);
		worker_tally(w, r.loss, r.count, r.correct);
	}
	while (s->layer > 0)
		python_ready(w);
}

static void forward(struct worker *w, enum python_command command, const struct data *set,
		    const int32_t *index, size_t rows)
{
	struct python_request r = {.command = command, .rows = (int64_t)rows};
	if (!state_of(w)->region)
		return;
	bring(w);
	python_rows_of(w, set, index, rows);
	ask(w, &r);
	take(w, false);
	worker_tally(w, r.loss, r.count, r.correct);
}

static void python_evaluate(struct worker *w, const struct data *set, const int32_t *index,
			    size_t rows)
{
	forward(w, EVALUATE, set, index, rows);
	if (!state_of(w)->region)
		return;
	char *said AUTOFREE = must(strdup(python_said(state_of(w)->file->python)));
	for (char *rest = said, *line; (line = strsep(&rest, "\n")) && *line;) {
		const char *name = word(&line);
		double sum = strtod(word(&line), NULL);
		w->loop->metric(w, name, sum, strtod(word(&line), NULL));
	}
}

static void python_statistics(struct worker *w, const int32_t *index, size_t rows)
{
	forward(w, STATISTICS, w->train, index, rows);
}

/* Gradients that are copied to a device are final at the end only. */
static bool python_layer_times(struct worker *w, double *s)
{
	const size_t layers = w->model->layers;
	forward(w, LAYER_TIMES, w->train, w->index, w->rows);
	if (!state_of(w)->region)
		return false;
	char *said AUTOFREE = must(strdup(python_said(state_of(w)->file->python))), *rest = said;
	for (size_t i = 0; i <= layers; i++)
		s[i] = strtod(word(&rest), NULL);
	for (size_t i = 0; i < layers && !state_of(w)->shared; i++) {
		s[layers] += s[i];
		s[i] = 0;
	}
	return *said;
}

static const struct dataset dataset = {.probe = python_probe,
				       .load = python_rows,
				       .unload = python_unload,
				       .identity = python_identity};
static const struct workload slots = {
	.dataset = &dataset,
	.state_size = sizeof(struct state),
	.host = true,
	.init = python_init,
	.load = python_nothing,
	.gradient = python_gradient,
	.evaluate = python_evaluate,
	.statistics = python_statistics,
	.layer_times = python_layer_times,
	.fini = python_fini,
};
