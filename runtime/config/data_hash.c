/*
 * data_hash.c - the content of files as a part of a run's identity: of a data set (--data-hash) and
 * of a platform (--sim.platform-hash). The hash of a data set is that of the rows and targets that
 * it loads. Data of packages, and generated data, are known by their names and have none; texts of
 * the machine, files of --data-dir and the data sets of plug-ins can change.
 *
 * The process that reads a configuration loads the set once for all its configurations, a plug-in's
 * with two seeds: data that depend on the seed have the hash of seed 1, and are not compared later.
 * Rank 0 hashes what it has loaded, and compares; the other ranks compare with rank 0. For the
 * images of Fashion-MNIST loading takes 0.3 s, and hashing 40 ms.
 */
#include "runtime/config/config.h"
#include "runtime/config/dataset.h"
#include "workloads/net.h"

#include <stdlib.h>
#include <string.h>

static struct known {
	const struct dataset *set;
	char *folder, hash[DATA_HASH_ROOM];
} * known;
static size_t n_known;

static void add_part(struct sha256 *s, const struct data *d)
{
	const uint64_t shape[] = {d->n, d->features, d->classes, data_targets(d)};
	sha256_add(s, shape, sizeof shape);
	if (d->bytes)
		sha256_add(s, d->bytes, d->n * d->features);
	if (d->floats)
		sha256_add(s, d->floats, d->n * d->features * sizeof *d->floats);
	if (d->target)
		sha256_add(s, d->target, d->n * data_targets(d) * sizeof *d->target);
}

void data_hash(const struct data *train, const struct data *test, char hash[DATA_HASH_ROOM])
{
	struct sha256 s;
	char hex[SHA256_ROOM];
	sha256_begin(&s);
	add_part(&s, train);
	add_part(&s, test);
	sha256_end(&s, hex);
	snprintf(hash, DATA_HASH_ROOM, "%.16s", hex);
}

bool platform_hash(const char *file, char hash[DATA_HASH_ROOM])
{
	struct sha256 s;
	char hex[SHA256_ROOM];
	sha256_begin(&s);
	bool good = sha256_file(&s, file);
	sha256_end(&s, hex);
	snprintf(hash, DATA_HASH_ROOM, "%.16s", hex);
	return good;
}

char *platform_tried(const struct config *c)
{
	return sentence("%s %s", c->run.sim_platform, c->harness.sim_platform_hash);
}

static bool is_built_in(const struct dataset *set)
{
	size_t i = 0;
	while (workloads[i] && workloads[i]->dataset != set)
		i++;
	return workloads[i] != NULL;
}

static void hash_of_seed(const struct run *run, const struct dataset *set, int64_t seed,
			 char hash[DATA_HASH_ROOM])
{
	struct run any = *run;
	struct data train = {0}, test = {0};
	any.seed = seed;
	char *wrong AUTOFREE = set->load(&any, &train, &test); /* the plan reports it */
	if (!wrong)
		data_hash(&train, &test, hash);
	set->unload(&train, &test);
}

const char *data_hash_find(const struct run *run, const struct dataset *set)
{
	if (set->identity)
		return set->identity(run);
	if (is_built_in(set) && !set->of_machine && !*run->data_dir)
		return "";
	for (size_t i = 0; i < n_known; i++)
		if (known[i].set == set && strcmp(known[i].folder, run->data_dir) == 0)
			return known[i].hash;
	struct known now = {.set = set, .folder = must(strdup(run->data_dir))};
	char other[DATA_HASH_ROOM] = "";
	hash_of_seed(run, set, 1, now.hash);
	if (!is_built_in(set) || set->of_seed) /* others read their files whatever the seed is */
		hash_of_seed(run, set, 2, other);
	if (*other && strcmp(now.hash, other) != 0)
		*now.hash = DATA_OF_SEED;
	APPEND(known, n_known, now);
	return known[n_known - 1].hash;
}
