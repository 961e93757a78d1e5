/*
 * perceptron.c - flashlight's perceptron (its tutorial on distributed training): 10 -> 100 -> 1
 * with ReLU, mean squared error, 1,201 parameters. One row a step: it measures the cost of a step
 * with almost no computation.
 */
#include "workloads/datasets.h"

static void perceptron_init(struct worker *w, const struct data *sample)
{
	struct net *net = net_new(w, sample);
	net_linear(net, 100, INIT_UNIFORM);
	net_relu(net);
	net_linear(net, 1, INIT_UNIFORM);
	net_finish(net, LOSS_MSE);
}

static const struct setting recipe[] = {
	{"batch", "1"}, {"lr", "1e-4"}, {"momentum", "0.9"}, {"epochs", "100"}, {NULL, NULL}};

const struct workload workload_perceptron = {
	.plugin = {.name = "perceptron",
		   .summary = "10-100-1 with ReLU on a sum of cubes (flashlight's tutorial)"},
	.dataset = &dataset_cubes,
	.recipe = recipe,
	.init = perceptron_init,
	NET_SLOTS,
};
