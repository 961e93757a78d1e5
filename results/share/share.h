/*
 * share.h - shared by the files that export runs into folders, one run at a time (export.c).
 */
#ifndef SHARE_H
#define SHARE_H

#include "results/db/db.h"

/* Writes one run into the existing folder --out. row: of runs_sql in export.c; epochs, values: of
 * epochs_sql and values_sql, not stepped yet. NULL or a sentence. */
typedef char *export_function(const char *folder, struct store *s, struct sql *row,
			      struct sql *epochs, struct sql *values);
export_function tensorboard_run, mlflow_run;

/* The columns of a run's row. */
enum { RUN_ID, RUN_NAME, RUN_WORKLOAD, RUN_STATUS, RUN_STARTED, RUN_FINISHED, RUN_HOST, RUN_KEY };
/* The columns of an epoch: its number, its end [Unix time, s], and from EPOCH_FIGURES on named
 * figures. A figure that is NULL or not finite is not exported. */
enum { EPOCH_NUMBER, EPOCH_TIME, EPOCH_FIGURES };

/* The columns of values that the strategy reported, sorted by name. */
enum { VALUE_NAME, VALUE_EPOCH, VALUE_TIME, VALUE_VALUE };

/* Text as a file name: special characters become '-'. Heap. */
char *export_name(const char *text);
char *export_folder(const char *path); /* makes it and its parents */
/* TFRecord's checksum of some bytes: CRC-32C (Castagnoli), masked. */
uint32_t tfrecord_crc(const void *bytes, size_t n);

#endif
