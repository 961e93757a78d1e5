/*
 * resnet.c - the residual nets for small images of He, Zhang, Ren and Sun (arXiv 1512.03385,
 * section 4.2), as Multiverso's experiment trains them: 6 n + 2 layers,
 *
 *     conv 3x3 16, norm, ReLU
 *     three stages of n blocks with 16, 32 and 64 channels, the 2nd and 3rd at half the size:
 *         y = ReLU(x' + norm(conv 3x3(ReLU(norm(conv 3x3(x))))));  x' = x, or option A
 *     mean of each channel, linear to the classes
 *
 * Convolutions have no bias. Parameters of depth 32 (n = 5) on 3 channels: 464 + 23,360 + 88,192 +
 * 351,488 + 650 = 464,154. 68.9 M multiply-adds an image forward, three times that a step. The
 * weight decay of the recipe reaches all parameters, unless --decay says otherwise; in Multiverso's
 * it leaves out beta and the last bias.
 */
#include "workloads/datasets.h"

#include <stdlib.h>

struct resnet {
	const char *depth;
	bool augment;
};

#define OWNER struct resnet
static const struct option options[] = {
	OPTION(depth, CHOICE, "depth", "32",
	       "number of layers: 6 n + 2 for n blocks in each stage [layers]",
	       .choices = "20|32|44|56|110"),
	OPTION(augment, BOOL, "augment", "true",
	       "move training images by up to 4 pixels each way, and mirror half of them"),
	{0},
};

static void three_by_three(struct net *net, size_t channels, size_t stride)
{
	struct window win = {.size = 3, .stride = stride, .pad = 1};
	net_conv(net, channels, win, false, INIT_HE);
	net_batch_norm(net);
}

static void block(struct net *net, size_t channels, size_t stride)
{
	net_fork(net);
	three_by_three(net, channels, stride);
	net_relu(net);
	three_by_three(net, channels, 1);
	net_join(net);
	net_relu(net);
}

static void resnet_init(struct worker *w, const struct data *sample)
{
	const struct resnet *o = w->model->opts;
	size_t n = (strtoul(o->depth, NULL, 10) - 2) / 6;
	if (sample->image.height == 0)
		user_error("resnet: the rows of this data set are not images; give arrays of 3 or "
			   "4 dimensions, or a workload such as mlp");
	if (sample->image.height < 4 || sample->image.width < 4)
		user_error("resnet: images of %zu x %zu are too small, as two of its stages begin "
			   "with half the size; give a set of larger images, as arrays of 3 or 4 "
			   "dimensions",
			   sample->image.height, sample->image.width);
	if (sample->image.height != sample->image.width)
		user_error("resnet: images of %zu x %zu are not square, and its last layer "
			   "averages squares; crop or pad them",
			   sample->image.height, sample->image.width);
	struct net *net = net_new(w, sample);
	net_center(net);
	if (o->augment)
		net_augment(net, 4);
	three_by_three(net, 16, 1);
	net_relu(net);
	for (size_t channels = 16; channels <= 64; channels *= 2)
		for (size_t i = 0; i < n; i++)
			block(net, channels, i == 0 && channels > 16 ? 2 : 1);
	net_average_pool(net);
	net_linear(net, sample->classes, INIT_HE);
	net_finish(net, LOSS_XENT);
}

static const struct setting recipe[] = {{"batch", "128"},
					{"lr", "0.1"},
					{"lr-schedule", "step:41:61:x0.1"},
					{"momentum", "0.9"},
					{"weight-decay", "2e-4"},
					{"epochs", "82"},
					{NULL, NULL}};

const struct workload workload_resnet = {
	.plugin = {.name = "resnet",
		   .summary = "residual nets of 20 to 110 layers on CIFAR-10 or padded "
			      "Fashion-MNIST (Multiverso's experiment)",
		   .options = options,
		   .opts_size = sizeof(struct resnet)},
	.dataset = &dataset_cifar10_or_fashion,
	.recipe = recipe,
	.init = resnet_init,
	NET_SLOTS,
};
