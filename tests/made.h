/*
 * made.h - databases that a test makes with its own SQL, in its folder (fixture.h), and the text
 * below each of their tables.
 */
#ifndef MADE_H
#define MADE_H

#include <sqlite3.h>

char *in_folder(const char *name); /* its path, from the heap */
void new_database(const char *file);
void sql_in(const char *file, const char *text); /* runs statements; they must succeed */
/* The first column of the first row, as a number; or all rows must be this text (made_rows). */
double number_in(const char *file, const char *query);
void expect_in(const char *file, const char *query, const char *want);
/* The same in one connection, which the caller closes. made_open makes a missing file. */
sqlite3 *made_open(const char *file);
sqlite3 *made_again(const char *file); /* opens an existing file */
void made_sql(sqlite3 *db, const char *text);
void made_format(sqlite3 *db, const char *format, ...); /* of sqlite3_mprintf */
double made_number(sqlite3 *db, const char *query);     /* NaN: NULL, or no row */
void made_expect(sqlite3 *db, const char *query, const char *want);
/* The rows of a query, from the heap: "," between cells, ";" between rows, "null" for NULL. */
char *made_rows(sqlite3 *db, const char *query);
void near(double x, double want, double within);
void ck_near(const char *what, double x, double want, double within); /* with a message */

/* SQL that adds a run at a rate of 0.1, in tables of any version. The values are those of status,
 * config_hash, workload, strategy, workers, seed, epochs, batch, sync_every, platform,
 * target_accuracy, and of more columns (", label"). They may end in a FROM. */
#define INSERT_RUN(more, values) \
	"INSERT INTO run (servers, barrier_every, lr, lr_schedule, momentum, weight_decay, " \
	"reduce, lr_scale, device, threads, straggle, status, config_hash, workload, strategy, " \
	"workers, seed, epochs, batch, sync_every, platform, target_accuracy" more ") SELECT 0, " \
	"1, 0.1, 'constant', 0, 0, 'mean', 'none', 'cpu', 1, 0, " values

/* The text that `mvbench table` prints below rows that it compares. */
#define MARKS(control) \
	"\n(low..high): the 95 % interval of the median. Fewer than six values have none: these " \
	"are their least and greatest, with the probability that the median lies between them.\n" \
	"\nversus " control ": the mean difference and its interval; all intervals of a column " \
	"hold together in 95 % of cases.\n" \
	"  better, worse: by more than chance (5 % over all rows of a workload);\n" \
	"  equal: surely within 0.3 points of accuracy, 1 % of loss, 5 % of seconds;\n" \
	"  undecided: none of these; with the number of seeds that would probably decide;\n" \
	"  exact: the times of both sides have no spread\n"

#endif
