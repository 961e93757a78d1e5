/*
 * together.c - collectives of simulated ranks off the clock. The ranks share their memory; the last
 * one to call does the work for all. This avoids messages, of which a run of N workers would send
 * some hundred times N before its first step.
 */
#include "runtime/comm/mpi/link.h"

#include <stdlib.h>
#include <string.h>

bool are_together(const struct link *l)
{
	return l->sums && world_is_off_clock();
}

static void rendezvous(struct link *l, void *x, void (*all)(void **x, int ranks, const void *how),
		       const void *how)
{
	world_sums->rendezvous(l->sums, l->rank, x, all, how);
}

void together_barrier(struct link *l)
{
	rendezvous(l, NULL, NULL, NULL);
}

struct broadcast {
	int root;
	size_t bytes;
};

static void broadcast(void **x, int ranks, const void *how)
{
	const struct broadcast *b = how;
	for (int i = 0; i < ranks; i++)
		if (x[i] != x[b->root])
			memcpy(x[i], x[b->root], b->bytes);
}

void together_broadcast(struct link *l, int root, void *x, size_t bytes)
{
	rendezvous(l, x, broadcast, &(struct broadcast){root, bytes});
}

struct reduction {
	size_t n;
	enum link_reduce how;
};

static void together_combine(void **x, int ranks, const void *how)
{
	const struct reduction *r = how;
	double *sum = x[0];
	struct least *least = x[0];
	for (int k = 1; k < ranks; k++) {
		const double *y = x[k];
		const struct least *z = x[k];
		for (size_t i = 0; i < r->n; i++)
			if (r->how == REDUCE_LEAST)
				least[i] = is_less(z[i], least[i]) ? z[i] : least[i];
			else if (r->how == REDUCE_SUM)
				sum[i] += y[i];
			else if (r->how == REDUCE_MAX ? y[i] > sum[i] : y[i] < sum[i])
				sum[i] = y[i];
	}
	size_t bytes = r->how == REDUCE_LEAST ? sizeof *least : sizeof *sum;
	broadcast(x, ranks, &(struct broadcast){0, r->n * bytes});
}

void together_reduce(struct link *l, void *x, int n, enum link_reduce how)
{
	rendezvous(l, x, together_combine, &(struct reduction){(size_t)n, how});
}

/* A rank's input, and where the result goes. */
struct part {
	const char *mine;
	size_t bytes;
	char *all; /* NULL: this rank needs no result */
};

static void gather(void **x, int ranks, const void *how)
{
	struct part **part = (struct part **)x;
	(void)how;
	for (int i = 0; i < ranks; i++) {
		char *at = part[i]->all;
		for (int k = 0; at && k < ranks; at += part[k++]->bytes)
			memcpy(at, part[k]->mine, part[k]->bytes);
	}
}

void together_gather(struct link *l, const void *mine, size_t bytes, void *all)
{
	rendezvous(l, &(struct part){.mine = mine, .bytes = bytes, .all = all}, gather, NULL);
}

/* ---- Parts of a link ---- */

struct choice {
	int color, number; /* number: rank in MPI_COMM_WORLD */
	struct link part;  /* rank, size and sums of the new link */
	MPI_Group group;   /* MPI_GROUP_NULL: one rank, or all */
};

static void split(void **x, int ranks, const void *how)
{
	struct choice **s = (struct choice **)x;
	MPI_Group world = *(const MPI_Group *)how;
	int *number AUTOFREE = must(calloc((size_t)ranks, sizeof *number));
	int *rank AUTOFREE = must(calloc((size_t)ranks, sizeof *rank));
	for (int i = 0; i < ranks; i++) {
		int size = 0;
		if (s[i]->part.size)
			continue;
		for (int k = i; k < ranks; k++)
			if (s[k]->color == s[i]->color) {
				s[k]->part.rank = size;
				number[size] = s[k]->number;
				rank[size++] = k;
			}
		struct sums *sums = size > 1 ? world_sums->make(size) : NULL;
		MPI_Group group = MPI_GROUP_NULL;
		if (size > 1 && size < ranks)
			MPI_Group_incl(world, size, number, &group);
		for (int k = 0; k < size; k++) {
			s[rank[k]]->part.size = size;
			s[rank[k]]->part.sums = sums;
			s[rank[k]]->group = group;
		}
	}
}

struct link *together_split(struct link *l, int color)
{
	struct choice s = {.color = color, .part.comm = MPI_COMM_NULL};
	struct link *part = must(calloc(1, sizeof *part));
	MPI_Group world;
	MPI_Comm_rank(MPI_COMM_WORLD, &s.number);
	MPI_Comm_group(MPI_COMM_WORLD, &world);
	rendezvous(l, &s, split, &world);
	*part = s.part;
	part->borrowed = s.part.size == l->size;
	if (part->borrowed)
		part->comm = l->comm;
	else if (s.group != MPI_GROUP_NULL)
		MPI_Comm_create(l->comm, s.group, &part->comm);
	together_barrier(l); /* all ranks have used the group */
	if (s.group != MPI_GROUP_NULL && part->rank == 0)
		MPI_Group_free(&s.group);
	return part;
}
