/*
 * window.c - memory of every rank that all ranks access without its owner's help. Concurrent access
 * uses accumulate operations only, which MPI keeps atomic and in order; with MPI_NO_OP they read.
 * Its simulated counterpart is sim/world/window.c.
 */
#include "runtime/comm/mpi/link.h"

#include <stdlib.h>
#include <string.h>

struct link_window {
	MPI_Win at;  /* MPI_WIN_NULL: one worker alone, in plain memory */
	char *own;   /* counters, then floats */
	size_t head; /* of the counters [bytes] */
	MPI_Request counters_read;
};

static void begin_access(MPI_Win at)
{
	int *model, known;
	MPI_Win_get_attr(at, MPI_WIN_MODEL, &model, &known);
	CHECK(known && *model == MPI_WIN_UNIFIED, "windows are not in plain memory here");
	MPI_Win_lock_all(MPI_MODE_NOCHECK, at);
}

struct link_window *link_window_new(struct link *l, size_t floats, size_t counters, float **own)
{
	struct link_window *w = must(calloc(1, sizeof *w));
	w->at = MPI_WIN_NULL;
	w->head = (counters * sizeof(int64_t) + SHARED_ALIGN - 1) & ~(size_t)(SHARED_ALIGN - 1);
	size_t bytes = w->head + (floats + 1) * sizeof(float);
	if (l->comm == MPI_COMM_NULL) {
		w->own = must(calloc(1, bytes));
	} else {
		MPI_Comm_set_errhandler(l->comm, MPI_ERRORS_RETURN);
		link_memory_check(l,
				  MPI_Win_allocate((MPI_Aint)bytes, 1, MPI_INFO_NULL, l->comm,
						   &w->own, &w->at),
				  bytes);
		begin_access(w->at);
		memset(w->own, 0, bytes);
		MPI_Win_sync(w->at);
		MPI_Barrier(l->comm);
	}
	*own = (float *)(void *)(w->own + w->head);
	return w;
}

void link_window_free(struct link_window *w)
{
	if (w->at == MPI_WIN_NULL)
		free(w->own);
	else
		MPI_Win_unlock_all(w->at);
	if (w->at != MPI_WIN_NULL)
		MPI_Win_free(&w->at);
	free(w);
}

void link_window_sync(struct link_window *w)
{
	if (w->at != MPI_WIN_NULL)
		MPI_Win_sync(w->at);
}

void link_window_reach(struct link_window *w, int rank, size_t first, const float *x, float *old,
		       size_t n)
{
	size_t at = w->head + first * sizeof(float);
	float *own = (float *)(void *)(w->own + at);
	int k = count(n);
	if (w->at != MPI_WIN_NULL && old)
		MPI_Get_accumulate(x, x ? k : 0, MPI_FLOAT, old, k, MPI_FLOAT, rank, (MPI_Aint)at,
				   k, MPI_FLOAT, x ? MPI_SUM : MPI_NO_OP, w->at);
	else if (w->at != MPI_WIN_NULL)
		MPI_Accumulate(x, k, MPI_FLOAT, rank, (MPI_Aint)at, k, MPI_FLOAT, MPI_SUM, w->at);
	else if (old)
		memcpy(old, own, n * sizeof *old);
	for (size_t i = 0; w->at == MPI_WIN_NULL && x && i < n; i++)
		own[i] += x[i];
}

void link_window_count(struct link_window *w, size_t counter, const int64_t *by, int64_t *before)
{
	size_t at = counter * sizeof(int64_t);
	if (w->at != MPI_WIN_NULL) {
		MPI_Fetch_and_op(by, before, MPI_INT64_T, 0, (MPI_Aint)at, MPI_SUM, w->at);
	} else {
		int64_t *own = (int64_t *)(void *)(w->own + at);
		*before = *own;
		*own += *by;
	}
}

void link_window_read_counters(struct link_window *w, int64_t *x, size_t n)
{
	int k = count(n);
	if (w->at != MPI_WIN_NULL)
		MPI_Rget_accumulate(NULL, 0, MPI_INT64_T, x, k, MPI_INT64_T, 0, 0, k, MPI_INT64_T,
				    MPI_NO_OP, w->at, &w->counters_read);
	else
		memcpy(x, w->own, n * sizeof *x);
}

bool link_window_ready(struct link_window *w)
{
	enum { TURNS = 8 }; /* each probe moves a part of a message */
	int done = true, none;
	if (w->at == MPI_WIN_NULL)
		return true;
	/* Reading own memory completes at once and gives MPI no time; the probes serve others. */
	for (int i = 0; i < TURNS; i++)
		MPI_Iprobe(0, 0, MPI_COMM_SELF, &none, MPI_STATUS_IGNORE);
	MPI_Test(&w->counters_read, &done, MPI_STATUS_IGNORE);
	return done;
}

void link_window_flush(struct link_window *w, int rank)
{
	world_enter("one-sided access", rank);
	if (w->at == MPI_WIN_NULL)
		return;
	if (rank >= 0)
		MPI_Win_flush(rank, w->at);
	else
		MPI_Win_flush_all(w->at);
}
