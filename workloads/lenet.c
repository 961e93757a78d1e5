/*
 * lenet.c - a convolutional net after LeNet-5 (LeCun, Bottou, Bengio, Haffner 1998), in the form of
 * TensorFlow's tutorial: two convolutions of 5 x 5, each with ReLU and a max pool, and two linear
 * layers. On images of 28 x 28:
 *
 *     conv 5x5 32   28 x 28 x 32       832 parameters    1.3 Mflop an image, forward
 *     pool 2        14 x 14 x 32
 *     conv 5x5 64   14 x 14 x 64    51,264              20.1
 *     pool 2         7 x  7 x 64
 *     linear        128            401,536               0.8
 *     linear        10               1,290               0.0
 *
 * 454,922 parameters; a step costs three times its forward pass, except in the lowest layer.
 */
#include "workloads/datasets.h"

struct lenet {
	double dropout;
};

#define OWNER struct lenet
static const struct option options[] = {
	OPTION(dropout, REAL, "dropout", "0",
	       "dropout probability of the hidden linear layer [fraction]", .max = 0.95),
	{0},
};

static void lenet_init(struct worker *w, const struct data *sample)
{
	static const struct window five = {.size = 5, .stride = 1, .pad = 2},
				   pool = {.size = 2, .stride = 2};
	const struct lenet *o = w->model->opts;
	struct net *net = net_new(w, sample);
	if (sample->image.height == 0)
		user_error("lenet: the rows of this data set are not images; give arrays of 3 or "
			   "4 dimensions, or a workload such as mlp");
	if (sample->image.height < 4 || sample->image.width < 4)
		user_error("lenet: images of %zu x %zu are too small for two pools of 2 x 2; give "
			   "a set of larger images, as arrays of 3 or 4 dimensions",
			   sample->image.height, sample->image.width);
	for (size_t out = 32; out <= 64; out *= 2) {
		net_conv(net, out, five, true, INIT_HE);
		net_relu(net);
		net_max_pool(net, pool);
	}
	net_linear(net, 128, INIT_HE);
	net_relu(net);
	if (o->dropout > 0)
		net_dropout(net, o->dropout);
	net_linear(net, sample->classes, INIT_HE);
	net_finish(net, LOSS_XENT);
}

static const struct setting recipe[] = {{"batch", "64"},           {"lr", "0.02"},
					{"lr-schedule", "cosine"}, {"momentum", "0.9"},
					{"epochs", "8"},           {NULL, NULL}};

const struct workload workload_lenet = {
	.plugin = {.name = "lenet",
		   .summary = "two convolutions and two linear layers on Fashion-MNIST",
		   .options = options,
		   .opts_size = sizeof(struct lenet)},
	.dataset = &dataset_fashion_mnist,
	.recipe = recipe,
	.init = lenet_init,
	NET_SLOTS,
};
