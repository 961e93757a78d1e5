/*
 * made.h - databases that a test makes with its own SQL, in its folder (fixture.h), and the text
 * below each of their tables.
 */
#ifndef MADE_H
#define MADE_H

char *in_folder(const char *name); /* its path, from the heap */
void new_database(const char *file);
void sql_in(const char *file, const char *text); /* runs statements; they must succeed */
/* The first column of the first row, as a number; or it must equal this text. */
double number_in(const char *file, const char *query);
void expect_in(const char *file, const char *query, const char *want);
void near(double x, double want, double within);

/* The text that `mvbench table` prints below rows that it compares. */
#define MARKS(control) \
	"\nversus " control ": the mean difference and its interval.\n" \
	"  better, worse: by more than chance (5 % over all rows of a workload, Holm);\n" \
	"  equal: surely within 0.3 points of accuracy, 1 % of loss, 5 % of seconds;\n" \
	"  undecided: none of these; with the number of seeds that would probably decide\n"

#endif
