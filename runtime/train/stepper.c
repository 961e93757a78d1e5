/*
 * stepper.c - a second optimiser, which belongs to a strategy: its options, its moments, and the
 * count of its steps.
 */
#include "runtime/config/config.h"
#include "runtime/config/plugins.h"
#include "runtime/train/trainer.h"

#include <stdlib.h>
#include <string.h>

/* w: what this optimiser sees instead of the strategy's worker, with other vectors and options. */
struct stepper {
	struct worker w;
	struct loop loop;
	struct run run;
	void *opts;
	int64_t steps;
};

/* Reads one option of "NAME:option=value:...". */
static char *read_option(const char *said, const struct optimizer *o, void *opts, char *word)
{
	char *value = word;
	const char *name = o->plugin.name;
	strsep(&value, "=");
	const struct option *option = option_find(o->plugin.options, word);
	char *wrong AUTOFREE =
		!option ? option_unknown(name, word, o->plugin.options, "mvbench ")
		: value ? option_set(option, opts, name, value)
			: sentence("give a value, as in %s:%s=%s", name, word, option->def);
	return wrong ? sentence("%s: %s", said, wrong) : NULL;
}

/* Reads "NAME:option=value:...". The text is stored behind the options in *opts. */
static char *read_words(const char *said, const char *how, const struct optimizer **o, void **opts)
{
	char *name AUTOFREE = must(strndup(how, strcspn(how, ":")));
	*opts = NULL;
	*o = plugin_find(PART_OPTIMIZER, name);
	if (!*o) {
		const char *all[PLUGINS_MOST];
		char *list AUTOFREE = text_list(all, plugin_names(PART_OPTIMIZER, all), ", ");
		return sentence("%s: unknown optimizer %s; known: %s", said, name, list);
	}
	size_t size = (*o)->plugin.opts_size;
	*opts = must(calloc(1, size + strlen(how) + 1));
	option_default((*o)->plugin.options, *opts);
	char *rest = strcpy((char *)*opts + size, how);
	strsep(&rest, ":"); /* the name */
	while (rest)
		TRY(read_option(said, *o, *opts, strsep(&rest, ":")));
	return NULL;
}

char *stepper_refuse(const struct run *run, const char *option, const char *how, double momentum)
{
	const struct optimizer *o;
	void *opts AUTOFREE = NULL;
	char *said AUTOFREE = sentence("--%s=%s", option, how);
	struct run its = *run;
	TRY(read_words(said, how, &o, &opts));
	its.momentum = momentum;
	if (!o->refuse || (o->momentum && momentum == 0))
		return NULL;
	char *wrong AUTOFREE = o->refuse(&its, opts);
	return wrong ? sentence("%s: %s", said, wrong) : NULL;
}

struct stepper *stepper_new(struct worker *w, const char *how, double momentum, struct vec *x,
			    struct vec *g)
{
	struct stepper *s = must(calloc(1, sizeof *s));
	char *wrong = read_words("", how, &s->w.optimizer, &s->opts);
	CHECK(!wrong, "%s", wrong);
	const struct optimizer *o = s->w.optimizer;
	s->run = *w->run;
	s->run.momentum = momentum;
	s->run.weight_decay = s->run.clip = 0;
	s->w = (struct worker){.rank = w->rank,
			       .run = &s->run,
			       .optimizer = o,
			       .optimizer_opts = s->opts,
			       .param = x,
			       .grad = g,
			       .model = &s->loop.model,
			       .loop = &s->loop};
	s->loop.dev = w->loop->dev;
	for (int k = 0; k < o->moments(&s->run, s->opts); k++) {
		s->w.moment[k] = vec_new(w, vec_len(x));
		worker_keep_vec(w, s->w.moment[k]);
	}
	worker_keep(w, &s->steps, sizeof s->steps);
	const struct tensor row = {.rows = 1, .columns = vec_len(x)};
	bool whole = vec_len(x) == vec_len(w->param);
	model_tensors(&s->w, whole ? w->model->tensor : &row, whole ? w->model->tensors : 1);
	return s;
}

void stepper_step(struct stepper *s, double lr, double momentum, float scale)
{
	struct worker *w = &s->w;
	struct device *d = w->loop->dev;
	float unbias[MOMENTS_MOST];
	memcpy(unbias, d->unbias, sizeof unbias);
	for (int k = 0; k < MOMENTS_MOST; k++)
		d->unbias[k] = 1;
	s->run.momentum = momentum;
	w->lr = lr;
	s->steps++;
	if (w->optimizer->unbias)
		w->optimizer->unbias(s->opts, s->steps, d->unbias);
	for (size_t i = 0; i < w->loop->groups; i++)
		w->optimizer->step(w, &w->loop->group[i], scale, 0);
	memcpy(d->unbias, unbias, sizeof unbias);
}

const struct vec *stepper_moment(const struct stepper *s, int k)
{
	return s->w.moment[k];
}

void stepper_free(struct stepper *s)
{
	if (!s)
		return;
	model_forget(&s->w);
	free(s->opts);
	free(s);
}
