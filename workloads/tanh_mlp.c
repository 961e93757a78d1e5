/*
 * tanh_mlp.c - TorchAD-NN's model-parallel network, 1024 -> 2048 -> 10 with tanh: 2,119,690
 * parameters. Its inputs are images padded to 32 x 32. It has two linear layers with only a tanh
 * between: split over workers, the pair costs one allreduce forward.
 */
#include "workloads/datasets.h"

struct tanh_mlp {
	int64_t hidden;
};

#define OWNER struct tanh_mlp
static const struct option options[] = {
	OPTION(hidden, INT, "hidden", "2048", "width of the hidden layer [units]", .min = 1,
	       .max = 65536),
	{0},
};

static void tanh_mlp_init(struct worker *w, const struct data *sample)
{
	const struct tanh_mlp *o = w->model->opts;
	struct net *net = net_new(w, sample);
	net_linear(net, (size_t)o->hidden, INIT_UNIFORM);
	net_tanh(net);
	net_linear(net, sample->classes, INIT_UNIFORM);
	net_finish(net, LOSS_XENT);
}

static const struct setting recipe[] = {{"batch", "128"},          {"lr", "0.1"},
					{"lr-schedule", "cosine"}, {"momentum", "0.9"},
					{"epochs", "12"},          {NULL, NULL}};

const struct workload workload_tanh_mlp = {
	.plugin = {.name = "tanh_mlp",
		   .summary =
			   "1024-2048-10 with tanh on padded Fashion-MNIST (TorchAD-NN's network)",
		   .options = options,
		   .opts_size = sizeof(struct tanh_mlp)},
	.dataset = &dataset_fashion_mnist_32,
	.recipe = recipe,
	.init = tanh_mlp_init,
	NET_SLOTS,
};
