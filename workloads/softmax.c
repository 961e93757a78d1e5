/*
 * softmax.c - multinomial logistic regression, 784 -> 10 from zero: 7,850 parameters. The recipe is
 * Theano's tutorial, which Multiverso's examples train. A convex problem: every strategy that
 * converges finds the same optimum.
 */
#include "workloads/datasets.h"

static void softmax_init(struct worker *w, const struct data *sample)
{
	struct net *net = net_new(w, sample);
	net_linear(net, sample->classes, INIT_ZERO);
	net_finish(net, LOSS_XENT);
}

static const struct setting recipe[] = {
	{"batch", "600"}, {"lr", "0.13"}, {"momentum", "0"}, {"epochs", "100"}, {NULL, NULL}};

const struct workload workload_softmax = {
	.plugin = {.name = "softmax",
		   .summary = "784-10 logistic regression on Fashion-MNIST (Multiverso's example)"},
	.dataset = &dataset_fashion_mnist,
	.recipe = recipe,
	.init = softmax_init,
	NET_SLOTS,
};
