/*
 * layout.c - which layers of a model a fragment has, and its vectors. Layers stay whole, and
 * fragments are as equal as they can be, because the largest is what a step sends at most.
 *
 * - strides: from the largest layer to the smallest, each layer goes to the fragment that has the
 *   fewest floats. Equal blocks of a net are so dealt out in turn, as Streaming DiLoCo's strides
 *   deal blocks of a transformer. If that leaves a fragment with more than 1.1 shares, it exchanges
 *   layers with others as long as this helps.
 * - neighbours: the cuts between layers that make the largest fragment smallest.
 */
#include "strategies/fragment.h"

#include <stdlib.h>
#include <string.h>

static const double even = 1.1; /* of a share: then strides stay as they were dealt */

static size_t floats_of(const struct model *m, size_t i)
{
	return m->layer[i + 1] - m->layer[i];
}

/* The largest layer that is in no fragment; of equal ones the first. */
static size_t next_layer(const struct model *m, size_t n, const size_t *of)
{
	size_t best = m->layers;
	for (size_t i = 0; i < m->layers; i++)
		if (of[i] == n && (best == m->layers || floats_of(m, i) > floats_of(m, best)))
			best = i;
	return best;
}

static size_t extreme(const size_t *has, size_t n, bool largest)
{
	size_t best = 0;
	for (size_t k = 1; k < n; k++)
		if (largest ? has[k] > has[best] : has[k] < has[best])
			best = k;
	return best;
}

/* Layer i of the largest fragment moves to another one, in exchange for layer j of it, or for none:
 * the exchange after which the larger of the two is smallest. False: none makes it smaller. */
static bool layout_exchange(const struct model *m, size_t n, size_t *of, size_t *has)
{
	size_t from = extreme(has, n, true), least = has[from], out = 0, to = 0, in = m->layers;
	for (size_t i = 0; i < m->layers; i++)
		for (size_t j = 0; of[i] == from && j < m->layers + n; j++) {
			bool moves = j >= m->layers; /* to fragment j - layers, for none */
			size_t other = moves ? j - m->layers : of[j];
			size_t more = floats_of(m, i), less = moves ? 0 : floats_of(m, j);
			if (other == from || less >= more)
				continue;
			size_t here = has[from] - more + less, there = has[other] + more - less;
			size_t larger = here > there ? here : there;
			if (larger >= least)
				continue;
			least = larger;
			out = i;
			in = moves ? m->layers : j;
			to = other;
		}
	if (least == has[from])
		return false;
	size_t moved = floats_of(m, out) - (in < m->layers ? floats_of(m, in) : 0);
	of[out] = to;
	if (in < m->layers)
		of[in] = from;
	has[from] -= moved;
	has[to] += moved;
	return true;
}

static void deal(const struct model *m, size_t n, size_t *of)
{
	size_t *has = calloc(n, sizeof *has);
	CHECK(has, "no memory for %zu fragments", n);
	for (size_t i = 0; i < m->layers; i++)
		of[i] = n;
	for (size_t i; (i = next_layer(m, n, of)) < m->layers;) {
		of[i] = extreme(has, n, false);
		has[of[i]] += floats_of(m, i);
	}
	double share = (double)m->layer[m->layers] / (double)n;
	while ((double)has[extreme(has, n, true)] > even * share && layout_exchange(m, n, of, has))
		;
	free(has);
}

/* Cuts the layers into fragments of at most `most` floats, and at least n. Returns their number. */
static size_t cut_at(const struct model *m, size_t most, size_t n, size_t *of)
{
	size_t k = 0, first = 0;
	for (size_t i = 0; i < m->layers; i++) {
		bool full = m->layer[i + 1] - m->layer[first] > most;
		if (i > first && (full || m->layers - i + k + 1 <= n)) {
			first = i;
			k++;
		}
		of[i] = k;
	}
	return k + 1;
}

void fragment_layout(const struct model *m, bool strides, size_t n, size_t *of)
{
	size_t low = 0, high = m->layer[m->layers];
	if (strides) {
		deal(m, n, of);
		return;
	}
	while (low < high) {
		size_t most = low + (high - low) / 2;
		if (cut_at(m, most, n, of) > n)
			low = most + 1;
		else
			high = most;
	}
	cut_at(m, high, n, of);
}

/* Finds the ranges of its layers that are neighbours. Returns the number of floats. */
static size_t lay_out(struct fragment *f, const struct model *m, const size_t *of, size_t k)
{
	size_t floats = 0;
	for (size_t i = 0, end; i < m->layers; i = end + (end == i)) {
		for (end = i; end < m->layers && of[end] == k; end++)
			;
		size_t length = m->layer[end] - m->layer[i];
		if (length)
			f->slice[f->slices++] =
				(struct fragment_slice){.first = m->layer[i], .length = length};
		floats += length;
	}
	return floats;
}

/* Its layers are whole tensors, which are laid out in change as in the model. */
static struct comm *coded_for(const struct fragment *f, struct worker *w)
{
	const struct model *m = w->model;
	struct tensor *tensor = calloc(m->tensors + 1, sizeof *tensor);
	size_t count = 0;
	CHECK(tensor, "no memory for %zu tensors", m->tensors);
	for (size_t i = 0, at = 0; i < f->slices; at += f->slice[i++].length)
		for (size_t k = 0; k < m->tensors; k++) {
			size_t first = m->tensor[k].first, begin = f->slice[i].first;
			if (first < begin || first >= begin + f->slice[i].length)
				continue;
			tensor[count] = m->tensor[k];
			tensor[count++].first = at + first - begin;
		}
	struct comm *coded = worker_coded(w, f->change, tensor, count);
	free(tensor);
	return coded;
}

void fragment_cut(struct fragment *f, struct worker *w, const struct stream_opts *o, size_t k)
{
	size_t *of = calloc(w->model->layers, sizeof *of);
	f->slice = calloc(w->model->layers, sizeof *f->slice);
	CHECK(f->slice && of, "no memory for %zu layers", w->model->layers);
	fragment_layout(w->model, strcmp(o->layout, "strides") == 0, (size_t)o->fragments, of);
	size_t floats = lay_out(f, w->model, of, k);
	free(of);
	f->change = vec_new(w, floats);
	f->averaged = vec_new(w, floats);
	for (size_t i = 0, at = 0; i < f->slices; at += f->slice[i++].length) {
		struct fragment_slice *s = &f->slice[i];
		s->param = vec_slice(w->param, s->first, s->length);
		s->change = vec_slice(f->change, at, s->length);
		s->averaged = vec_slice(f->averaged, at, s->length);
	}
	worker_keep_vec(w, f->change);
	f->coded = coded_for(f, w);
}
