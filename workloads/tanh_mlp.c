/*
 * tanh_mlp.c - TorchAD-NN's model-parallel network, 1024 -> 2048 -> 10 with tanh: 2,119,690
 * parameters. Its inputs are images padded to 32 x 32. Two linear layers with only a tanh between:
 * split over workers, the pair costs one allreduce forward.
 */
#include "workloads/layers.h"
#include "runtime/config/config.h"

extern const struct dataset dataset_fashion_mnist_32;

struct tanh_mlp {
	int64_t hidden;
};

static const struct option options[] = {
	{"hidden", OPT_INT, offsetof(struct tanh_mlp, hidden), "2048", 1, 65536,
	 .help = "width of the hidden layer [units]"},
	{NULL},
};

static void tanh_mlp_init(struct worker *w, const struct data *sample)
{
	const struct tanh_mlp *o = w->workload_opts;
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
