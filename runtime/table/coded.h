/*
 * coded.h - pushes of a table, and pulls, that travel as messages of the run's codec.
 */
#ifndef CODED_H
#define CODED_H

#include "runtime/comm/coding.h"
#include "runtime/table/table.h"

/* Of a table of n floats, as long as the model; NULL: its pushes and pulls are floats. */
struct pushes *pushes_new(const struct worker *w, size_t n, bool lengths);
void pushes_free(struct pushes *k); /* NULL is fine */
/* Of a push: sets its message; in is then what the table gets, unless a server decodes it. Both
 * are valid until the next. */
void pushes_encode(struct pushes *k, struct table_op *p);
/* An elastic move of param, of which both sides move by what is decoded. W is pulled into the room,
 * which then has the difference, and after the push what was decoded of it. */
float *pushes_room(struct pushes *k);
void pushes_differ(struct pushes *k, const float *param, float alpha);
void pushes_moved(struct pushes *k, float *param);
/* The message of server j, or with one part of all: its length and first word. Without a codec it
 * is the floats. */
size_t pushes_words(const struct pushes *k, enum table_way way, int j, size_t *first);
int64_t pushes_bytes(const struct pushes *k, enum table_way way); /* of all parts */
uint64_t pushes_common(const struct pushes *k);
/* Does this operation's pull travel as messages? Servers fill reply, and decode gives out its
 * floats; without servers, recode gives out what they would be. */
bool pushes_pull(const struct table *t, const struct table_op *p);
float *pushes_reply(struct pushes *k);
void pushes_decode(struct pushes *k, float *out);
void pushes_recode(struct pushes *k, float *out);
const struct tensor *pushes_tensors(struct pushes *k, int j, size_t *count); /* of part j */
/* As tables_keep. */
size_t pushes_keep(struct pushes *k, float *x, bool put);

#endif
