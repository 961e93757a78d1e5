/*
 * results.h - the store: one SQLite file that holds every run, and how people ask it.
 * Only rank 0 of a run, and the commands, open it.
 */
#ifndef RESULTS_H
#define RESULTS_H

#include "../runtime/platform.h"

struct store;

enum store_mode { STORE_READ, STORE_WRITE }; /* WRITE makes the file when there is none */

/* NULL or a sentence: missing (READ), read-only, newer schema, locked, not a database, disk full.
 * Older schemas migrate (WRITE). WRITE marks `running` rows of dead processes as failed. */
char *store_open(struct store **out, const char *path, enum store_mode mode);
void store_close(struct store *s); /* NULL is fine */
/* NULL or a sentence: could store_open(WRITE) succeed? Writes nothing, makes no file. */
char *store_check(const char *path);

/* The sink that writes runs into s; one run at a time. */
struct sink store_sink(struct store *s);

/* The newest run of this cell: its status and reason into the buffers ("" = none).
 * Returns its id, 0 for none. */
int64_t store_cell(struct store *s, const char *config_hash, char status[16], char reason[256]);
/* Makes a `pending` row for a cell; store_sink's begin takes the oldest pending row of its hash over. */
char *store_pend(struct store *s, const struct config *c);
/* Marks a run that is still `running` as failed (its process is gone or never began). */
char *store_fail(struct store *s, int64_t id, const char *reason);

enum format { FORMAT_TEXT, FORMAT_MARKDOWN, FORMAT_CSV, FORMAT_JSON };
/* text: NULL or one of the names; false when unknown. */
bool format_find(const char *text, enum format *out);

/* Runs one SELECT with `count` text parameters (?1, ?2, ...) and prints the rows: an aligned table,
 * markdown, RFC 4180 CSV, or one JSON object a row. NULL or a sentence. rows may be NULL. */
char *query_print(struct store *s, FILE *f, enum format format, const char *sql,
		  const char *const *param, size_t count, int64_t *rows);
/* One JSON object a run, as `run --format=json` promises (DESIGN). */
char *query_run_json(struct store *s, FILE *f, int64_t id);

/* ---- Commands: mvbench.c lists them. Each gets the words after its name. ------------------------- */

int command_run(int argc, char **argv);
int command_sweep(int argc, char **argv);
int command_list(int argc, char **argv);
int command_table(int argc, char **argv);
int command_plot(int argc, char **argv);

/* A folder of the installation (plots, workloads/sweeps): beside the program's build folder, or
 * under ../share/mvbench. Heap; NULL when it is not there. */
char *installed_path(const char *name);

#endif
