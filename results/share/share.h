/*
 * share.h - what the folders that other programs read are made from (export.c): a run at a time.
 */
#ifndef SHARE_H
#define SHARE_H

#include "results/db/db.h"

/* Writes one run into the folder that --out names, which is there. row: of export.c's runs_sql;
 * epochs, values: of its epochs_sql and values_sql, not stepped yet. NULL or a sentence. */
typedef char *export_function(const char *folder, struct store *s, struct sql *row,
			      struct sql *epochs, struct sql *values);
export_function tensorboard_run, mlflow_run;

/* The columns of a run's row. */
enum { RUN_ID, RUN_NAME, RUN_WORKLOAD, RUN_STATUS, RUN_STARTED, RUN_FINISHED, RUN_HOST, RUN_KEY };
/* Of an epoch: its number, when it ended [Unix time, s], and from EPOCH_FIGURES on the figures,
 * with their names; one that is not there, or not finite, is not exported. */
enum { EPOCH_NUMBER, EPOCH_TIME, EPOCH_FIGURES };

/* Of what the strategy said of epochs, name by name. */
enum { VALUE_NAME, VALUE_EPOCH, VALUE_TIME, VALUE_VALUE };

/* Text as a file's name: what may mean something there becomes '-'. Heap. */
char *export_name(const char *text);
char *export_folder(const char *path); /* makes it, and those above it */
/* TFRecord's checksum of some bytes: CRC-32C (Castagnoli), masked. */
uint32_t tfrecord_crc(const void *bytes, size_t n);

#endif
