/*
 * mlp.c - the multilayer perceptron 784 -> 128 -> 10 with ReLU: 101,770 parameters. More hidden
 * layers of the same width cost 16,512 parameters each.
 */
#include "workloads/datasets.h"

struct mlp {
	int64_t hidden, depth;
};

#define OWNER struct mlp
static const struct option options[] = {
	OPTION(hidden, INT, "hidden", "128", "width of a hidden layer [units]", .min = 1,
	       .max = 65536),
	OPTION(depth, INT, "depth", "1", "how many hidden layers [layers]", .min = 1, .max = 100),
	{0},
};

static void mlp_init(struct worker *w, const struct data *sample)
{
	const struct mlp *o = w->model->opts;
	struct net *net = net_new(w, sample);
	for (int64_t i = 0; i < o->depth; i++) {
		net_linear(net, (size_t)o->hidden, INIT_HE);
		net_relu(net);
	}
	net_linear(net, sample->classes, INIT_HE);
	net_finish(net, LOSS_XENT);
}

static const struct setting recipe[] = {{"batch", "32"},           {"lr", "0.02"},
					{"lr-schedule", "cosine"}, {"momentum", "0.9"},
					{"epochs", "12"},          {NULL, NULL}};

const struct workload workload_mlp = {
	.plugin = {.name = "mlp",
		   .summary = "784-128-10 with ReLU on Fashion-MNIST",
		   .options = options,
		   .opts_size = sizeof(struct mlp)},
	.dataset = &dataset_fashion_mnist,
	.recipe = recipe,
	.init = mlp_init,
	NET_SLOTS,
};
