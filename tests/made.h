/*
 * made.h - databases that a test makes by SQL of its own, in its folder (fixture.h).
 */
#ifndef MADE_H
#define MADE_H

char *in_folder(const char *name); /* its path, from the heap */
void new_database(const char *file);
void sql_in(const char *file, const char *text); /* statements; they must succeed */
/* The first column of the first row, as a number, and as text. */
double number_in(const char *file, const char *query);
void expect_in(const char *file, const char *query, const char *want);
void near(double x, double want, double within);

#endif
