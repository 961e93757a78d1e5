/*
 * keys.c - a table of values by key, as Multiverso's KVTable: a matrix, each row of which is the
 * place of one key.
 *
 *   row   claims | the key in 4 parts of 16 bits, each + 1 | value
 *
 * A key's place is the first row, from its hash on, that has the key or no claim. The worker whose
 * claim makes the sum 1 has the place, and adds the key. The others wait until all its parts are
 * there: they are never 0. No key loses its place, so adds and reads of floats are enough, in every
 * placement.
 *
 * Cost of a call: a read of one row for each key, all at once; a read for each further place that a
 * key tries; an add of all values at once. A new key takes two adds more.
 */
#include "runtime/lib/library.h"

#include <stdlib.h>
#include <string.h>

enum { CLAIMS, PARTS, KEY_PARTS = 4, VALUE = PARTS + KEY_PARTS, COLUMNS };
static const nsec rest_ns = 20000; /* until the key of another worker's claim is read again */

static void key_parts(int64_t key, float part[KEY_PARTS])
{
	for (int i = 0; i < KEY_PARTS; i++)
		part[i] = (float)(((uint64_t)key >> 16 * i & 0xffff) + 1);
}

static int64_t place_after(const struct mvb_table *t, int64_t key, size_t tries)
{
	const size_t places = t->core->rules.rows;
	return (int64_t)((hash_of(HASH_START, &key, sizeof key) % places + tries) % places);
}

/* Tries to get the place for the key; row: what it has now. */
static int claim_place(struct mvb_table *t, int64_t key, int64_t place, float row[COLUMNS])
{
	float mine[COLUMNS] = {[CLAIMS] = 1};
	TRY(lib_add_get_row(t, place, mine, COLUMNS, row));
	if (row[CLAIMS] != 1)
		return MVB_OK;
	mine[CLAIMS] = 0;
	key_parts(key, mine + PARTS);
	TRY(mvb_table_add_row(t, place, mine, COLUMNS, NULL));
	memcpy(row, mine, sizeof mine);
	row[CLAIMS] = 1;
	return MVB_OK;
}

static bool has_key(const float row[COLUMNS])
{
	for (int i = PARTS; i < VALUE; i++)
		if (row[i] == 0)
			return false;
	return true;
}

/* Until the place has a key, or it is free and the key is not to be added. */
static int settle_place(struct mvb_table *t, int64_t key, bool adds, int64_t place,
			float row[COLUMNS])
{
	while (!has_key(row) && (adds || row[CLAIMS] != 0)) {
		if (row[CLAIMS] == 0) {
			TRY(claim_place(t, key, place, row));
			continue;
		}
		world_rest("another worker's key", rest_ns);
		TRY(mvb_table_get_row(t, place, row, COLUMNS));
	}
	return MVB_OK;
}

/* *place: on entry the key's first; -1 = the key has none. row: what the place has. */
static int find_place(struct mvb_table *t, int64_t key, bool adds, int64_t *place,
		      float row[COLUMNS])
{
	float part[KEY_PARTS];
	key_parts(key, part);
	for (size_t tries = 1; tries <= t->core->rules.rows; tries++) {
		TRY(settle_place(t, key, adds, *place, row));
		if (!has_key(row))
			break;
		if (memcmp(row + PARTS, part, sizeof part) == 0)
			return MVB_OK;
		*place = place_after(t, key, tries);
		TRY(mvb_table_get_row(t, *place, row, COLUMNS));
	}
	*place = -1;
	return MVB_OK;
}

/* The places of n keys, and what they have [n x COLUMNS]. */
static int find_places(struct mvb_table *t, const int64_t *key, size_t n, bool adds, int64_t *place,
		       float *row)
{
	for (size_t i = 0; i < n; i++)
		place[i] = place_after(t, key[i], 0);
	TRY(mvb_table_get_rows(t, place, n, row, n * COLUMNS));
	for (size_t i = 0; i < n; i++)
		TRY(find_place(t, key[i], adds, &place[i], row + i * COLUMNS));
	return MVB_OK;
}

/* place, row: memory for n keys; the caller frees it. */
static int open_keys(const char *function, const struct mvb_table *t, const int64_t *key, size_t n,
		     const void *values, int64_t **place, float **row)
{
	const size_t most = SIZE_MAX / sizeof(float) / COLUMNS - 1;
	TRY(lib_ready_with(function, TABLE, t));
	if (!t->keys)
		return lib_fail(MVB_ERR_ARGUMENT, "%s: the table is not of mvb_kv_new", function);
	if (n && !key)
		return lib_fail(MVB_ERR_ARGUMENT, "%s: NULL where keys should be", function);
	TRY(lib_check_floats(function, "values", values, n));
	*place = n < most ? malloc((n + 1) * sizeof **place) : NULL;
	*row = *place ? malloc((n + 1) * COLUMNS * sizeof **row) : NULL;
	return *row ? MVB_OK : lib_no_memory(function, n);
}

int mvb_kv_new(struct mvb_table **t, size_t places)
{
	TRY(mvb_matrix_new(t, places, COLUMNS, NULL, NULL));
	(*t)->keys = true;
	return MVB_OK;
}

int mvb_kv_get(struct mvb_table *t, const int64_t *key, size_t n, float *values)
{
	int64_t *place AUTOFREE = NULL;
	float *row AUTOFREE = NULL;
	TRY(open_keys(__func__, t, key, n, values, &place, &row));
	TRY(find_places(t, key, n, false, place, row));
	for (size_t i = 0; i < n; i++)
		values[i] = place[i] < 0 ? 0 : row[i * COLUMNS + VALUE];
	return MVB_OK;
}

int mvb_kv_add(struct mvb_table *t, const int64_t *key, size_t n, const float *values)
{
	int64_t *place AUTOFREE = NULL;
	float *row AUTOFREE = NULL;
	TRY(open_keys(__func__, t, key, n, values, &place, &row));
	TRY(find_places(t, key, n, true, place, row));
	for (size_t i = 0; i < n; i++)
		if (place[i] < 0)
			return lib_fail(MVB_ERR_LIMIT,
					"%s: all %zu places have other keys than %lld", __func__,
					t->core->rules.rows, (long long)key[i]);
	memset(row, 0, n * COLUMNS * sizeof *row);
	for (size_t i = 0; i < n; i++)
		row[i * COLUMNS + VALUE] = values[i];
	return mvb_table_add_rows(t, place, n, row, n * COLUMNS, NULL);
}
