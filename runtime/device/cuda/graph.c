/*
 * graph.c - captures training steps as CUDA graphs.
 *
 * A training step is some hundred short kernels; launching them one by one takes longer than
 * running them. Therefore a body runs twice: first normally, which allocates and chooses everything
 * that is made lazily; then while the stream is captured as a CUDA graph. Each later step launches
 * this graph. The learning rate and the key of random numbers change from step to step; they are in
 * device memory (struct device_state), written before each launch. Counted for ResNet-32: 229
 * operations in the graph, 4 to 6 more if it is padded or in bf16. With a batch of 128 they read
 * and write 2.65 GB of activations in float32, half of that in bf16.
 *
 * With MVBENCH_CUDA_GRAPHS=0, or if a library makes a call that cannot be captured, each step calls
 * the body.
 */
#include "runtime/device/cuda/cuda.h"

#include <cuda_runtime_api.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

struct recorded_graph {
	size_t key;
	bool ran;             /* the body has made all that is made lazily */
	cudaGraphExec_t exec; /* NULL: not captured yet */
};

static struct recorded_graph *graph_of(struct cuda *c, size_t key)
{
	for (size_t i = 0; i < c->graphs; i++)
		if (c->graph[i].key == key)
			return &c->graph[i];
	APPEND(c->graph, c->graphs, (struct recorded_graph){.key = key});
	return &c->graph[c->graphs - 1];
}

static void run(struct device *d, void (*body)(void *ctx), void *ctx)
{
	body(ctx);
	cuda_join(d);
	cuda_conv_settle(d);
}

/* NULL: a call in the body cannot be captured; from now on no body is. */
static cudaGraphExec_t capture(struct device *d, void (*body)(void *ctx), void *ctx)
{
	struct cuda *c = cuda_of(d);
	cudaGraph_t graph = NULL;
	cudaGraphExec_t exec = NULL;
	TRY_CUDA(d, cudaStreamBeginCapture(c->stream, cudaStreamCaptureModeThreadLocal));
	c->capturing = c->captured = true;
	run(d, body, ctx);
	TRY_CUDA(d, cudaStreamEndCapture(c->stream, &graph));
	if (!c->uncaptured)
		TRY_CUDA(d, cudaGraphInstantiateWithFlags(&exec, graph, 0));
	c->capturing = false;
	if (graph)
		TRY_CUDA(d, cudaGraphDestroy(graph));
	if (!c->uncaptured)
		return exec;
	cudaGetLastError(); /* a persistent error returns at the next call, and ends the run */
	cuda_writes(d);     /* the copies of weights that the body asked for were not made */
	fprintf(stderr,
		"mvbench: steps cannot be captured as a graph: kernels are launched one by one, "
		"which is slower: %s\n",
		c->uncaptured);
	c->without_graphs = true;
	return NULL;
}

void cuda_graph(struct device *d, size_t key, void (*body)(void *ctx), void *ctx)
{
	struct cuda *c = cuda_of(d);
	struct recorded_graph *g = graph_of(c, key);
	cuda_set_step(d);
	cuda_writes(d);
	c->body = key + 1;
	d->in_graph = true;
	c->switched = false;
	if (g->ran && !g->exec && !c->without_graphs)
		g->exec = capture(d, body, ctx);
	if (!g->exec)
		run(d, body, ctx);
	d->in_graph = false;
	g->ran |= !c->switched; /* otherwise it must run again before it is captured */
	if (g->exec)
		TRY_CUDA(d, cudaGraphLaunch(g->exec, c->stream));
}

/* Writes the turn to host memory when chain and branch have reached this place. A CUDA event would
 * not do: until the graph records it again, it may show the record of the launch before. */
void cuda_event_record(struct device *d, size_t i)
{
	struct cuda *c = cuda_of(d);
	CHECK(i < EVENTS, "an event past the %dth", EVENTS);
	const bool in_branch = cuda_branch_enter(d);
	cuda_conv_settle(d);
	cuda_mark(d, &c->event[i]);
	if (in_branch)
		cuda_branch_leave(d, NULL, 0, NULL, 0);
}

void cuda_event_wait(struct device *d, size_t i)
{
	struct cuda *c = cuda_of(d);
	CHECK(i < EVENTS, "an event past the %dth", EVENTS);
	while (__atomic_load_n(&c->event[i], __ATOMIC_ACQUIRE) != c->turn) {
		cudaError_t status = cudaStreamQuery(c->stream);
		bool there = __atomic_load_n(&c->event[i], __ATOMIC_ACQUIRE) == c->turn;
		if (status == cudaErrorNotReady)
			cudaGetLastError(); /* clears the status, which CUDA keeps like an error */
		else
			TRY_CUDA(d, status);
		CHECK(status == cudaErrorNotReady || there, "event %zu was never recorded", i);
		sched_yield();
	}
}

void cuda_graphs_close(struct device *d)
{
	struct cuda *c = cuda_of(d);
	for (size_t i = 0; i < c->graphs; i++)
		if (c->graph[i].exec)
			TRY_CUDA(d, cudaGraphExecDestroy(c->graph[i].exec));
	free(c->graph);
	free(c->uncaptured);
}
