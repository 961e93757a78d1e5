/*
 * data.c - what workers of one process share and do not change: the data set, the order of an
 * epoch, and the shards. A real worker does not share its process.
 */
#include "runtime/config/config.h"
#include "runtime/train/trainer.h"

#include <stdlib.h>

static struct {
	const struct dataset *set;
	struct data train, validation, test;
	struct shards *shards; /* NULL: not made yet */
	int users;
} data;

/* The orders of an even and an odd epoch: simulated workers may be in two epochs at once. */
static struct order {
	int32_t *row; /* [n] */
	size_t n;
	int64_t seed, epoch;
	const struct shards *of; /* shards that it is sorted by */
} orders[2];

/* wanted: --data-hash; "" = any. */
static char *check_content(const struct worker *w, const char *wanted)
{
	const struct dataset *set = w->model->workload->dataset;
	char hash[DATA_HASH_ROOM] = "";
	if (*wanted && *wanted != DATA_OF_SEED && set->identity)
		snprintf(hash, sizeof hash, "%s", set->identity(w->run));
	else if (*wanted && *wanted != DATA_OF_SEED)
		data_hash(&data.train, &data.test, hash);
	return strcmp(hash, wanted) == 0 || *wanted == DATA_OF_SEED
		       ? NULL
		       : sentence("--data-hash=%s: the hash of the data is now %s; start again, or "
				  "give the data that the run needs",
				  wanted, hash);
}

char *data_open(struct trainer *r)
{
	const struct worker *w = &r->w;
	const struct dataset *set = w->model->workload->dataset;
	char *wrong = NULL;
	CHECK(data.users == 0 || data.set == set, "two data sets, %s and %s, in one process",
	      data.set->name, set->name);
	if (data.users == 0 && has_floats(w->run)) {
		wrong = set->load(w->run, &data.train, &data.test);
		if (!wrong && (world_is_virtual || w->rank == 0)) /* others compare with rank 0 */
			wrong = check_content(w, r->config->harness.data_hash);
		if (!wrong)
			wrong = data_cut(w->model->workload, w->model->opts, &data.train,
					 &data.test);
		if (wrong) {
			set->unload(&data.train, &data.test);
			return wrong;
		}
		validation_split(w->run, &data.train, &data.validation);
	} else if (data.users == 0) {
		data.train = r->plan->train;
		data.validation = r->plan->validation;
		data.test = r->plan->test;
	}
	data.set = set;
	data.users++;
	r->train = data.train;
	r->validation = data.validation;
	r->test = data.test;
	return NULL;
}

void data_close(const struct run *run)
{
	if (--data.users > 0)
		return;
	if (has_floats(run))
		data.set->unload(&data.train, &data.test);
	shards_free(data.shards);
	data.shards = NULL;
	for (int i = 0; i < 2; i++) {
		free(orders[i].row);
		orders[i].row = NULL;
	}
}

/* Selection sampling (Knuth, The Art of Computer Programming 2, 3.4.2, algorithm S). */
struct rows data_sample(size_t n, size_t most)
{
	struct rows rows = {.index = must(malloc((smaller(n, most) + 1) * sizeof(int32_t)))};
	uint64_t rng = rng_seed(0, RNG_SAMPLE, 0);
	for (size_t i = 0; i < n && rows.n < most; i++)
		if ((double)(n - i) * rng_uniform(&rng) < (double)(most - rows.n))
			rows.index[rows.n++] = (int32_t)i;
	return rows;
}

const int32_t *data_order(size_t n, int64_t seed, int64_t epoch, struct shards *s)
{
	struct order *o = &orders[epoch % 2];
	if (o->row && o->n == n && o->seed == seed && o->epoch == epoch && o->of == s)
		return o->row;
	bool first = !o->row || o->n != n;
	for (int i = 0; i < 2 && first; i++) /* both: nothing is allocated inside a segment */
		orders[i] = (struct order){.row = must(realloc(orders[i].row, n * sizeof *o->row)),
					   .n = n};
	rows_shuffle(o->row, n, rng_seed(seed, RNG_ORDER, epoch));
	if (s)
		shards_sort(s, o->row);
	o->seed = seed;
	o->of = s;
	o->epoch = epoch;
	return o->row;
}

struct shards *data_shards(const struct data *train, const struct run *run, const size_t *rows,
			   size_t models)
{
	struct data_split split = data_split_of(run);
	if (!data.shards)
		data.shards = shards_new(train, &split, run->seed, rows, models);
	return data.shards;
}
