/*
 * dataset.h - a data set as a configuration has it: the hash of its content, the rows of each model
 * (--split), and those held out (--validation).
 */
#ifndef DATASET_H
#define DATASET_H

#include "runtime/config/settings.h"

#include <string.h>

struct data;
struct dataset;
struct workload;
enum { DATA_HASH_ROOM = 17 };
void data_hash(const struct data *train, const struct data *test, char hash[DATA_HASH_ROOM]);
/* The hash of what the set loads; "" = its data cannot change, or cannot be loaded. It begins with
 * DATA_OF_SEED if the data depend on --seed, and is then that of seed 1. Valid while the process
 * knows fewer sets: copy it. */
#define DATA_OF_SEED 's'
const char *data_hash_find(const struct run *run, const struct dataset *set);
/* --split (split.c). own: each model has its own rows, the same in every epoch; alpha: of the
 * Dirichlet distribution that skews their labels, 0 = uniform; by_class: it gives the models'
 * shares of each class, not the classes' shares of each model. */
struct data_split {
	bool own, by_class;
	double alpha;
};
struct data_split data_split_of(const struct run *run);
char *data_split_check(const struct option *o, const char *text); /* NULL, or a message */
/* NULL, or a message: can --validation be held out of `rows` rows if `models` models train? */
char *validation_check(const struct run *run, size_t rows, int64_t models);
/* Reduces both parts to the rows that the workload uses. NULL, or a message. */
char *data_cut(const struct workload *w, const void *opts, struct data *train, struct data *test);
/* Moves the validation rows from the training set to held, which points into the same memory; other
 * rows may move. If there are only shapes it changes only lengths. */
void validation_split(const struct run *run, struct data *train, struct data *held);

/* Does --sim.platform name a file of the user's own? Its hash; false and errno: it cannot be read.
 */
static inline bool platform_is_file(const char *name)
{
	return strchr(name, '/') || strstr(name, ".xml");
}
bool platform_hash(const char *file, char hash[DATA_HASH_ROOM]);
/* The value of this variable for c's platform, heap: the simulator has accepted it, and simulations
 * need not try it first. */
#define PLATFORM_TRIED "MVBENCH_PLATFORM_TRIED"
char *platform_tried(const struct config *c);

#endif
