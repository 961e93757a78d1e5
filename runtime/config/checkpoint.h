/*
 * checkpoint.h - files of --save (checkpoint.c): whole, or not there.
 */
#ifndef CHECKPOINT_H
#define CHECKPOINT_H

#include "runtime/config/settings.h"

enum { HASH_ROOM = 24, NAME_ROOM = 64 };
/* The layout in the file; texts are padded with zeros. */
struct checkpoint_head {
	char magic[8];
	uint32_t version, order;        /* order: of bytes */
	int64_t bytes;                  /* of the file */
	int64_t workers, epochs, epoch; /* epoch: the last one before this checkpoint */
	int64_t params, buffers;        /* floats of the whole model */
	uint64_t layout;                /* of its layers, as in struct plan */
	char workload[NAME_ROOM], strategy[NAME_ROOM];
	char config_hash[HASH_ROOM], model[HASH_ROOM]; /* model: hash of its floats */
	char run[HASH_ROOM];                           /* name of the run, in all its checkpoints */
	double elapsed, first_loss;                    /* see struct trainer */
	int64_t trained;
	int64_t ended; /* its run has ended: no state to continue from */
};
/* A model, and the state of each worker. */
struct checkpoint {
	struct checkpoint_head head;
	int64_t *state_bytes; /* [workers], multiples of a float's */
	float *model;         /* [params + buffers], the evaluated model */
	char *state;          /* the workers' states, one after the other */
};
/* The path of --save's file: heap; NULL: no --save. */
char *checkpoint_path(const struct config *c);
/* Reads the head of a checkpoint file, which `option` names: NULL, or a message. */
char *checkpoint_read_head(const char *option, const char *path, struct checkpoint_head *head);
/* Reads the checkpoints to start with (*initial) and to continue from (*resumed); NULL: none. p has
 * the model's layout. NULL, or a message. */
char *checkpoint_find(const struct config *c, const struct plan *p, struct checkpoint **initial,
		      struct checkpoint **resumed);
/* Completes the head and writes the file. NULL, or a message. */
char *checkpoint_write(const char *path, struct checkpoint *k);
char *checkpoint_mark_ended(const char *path); /* reads and writes it: its run has ended */
void checkpoint_free(struct checkpoint *k);    /* NULL is fine */
void checkpoint_model_hash(const struct checkpoint *k, char hash[HASH_ROOM]);

#endif
