#!/usr/bin/env python3
"""local_rules.py RULE INTERVAL LR DECAY: steps of one of three rules, in float64, with NumPy.

The file mine.py has data(), params() and step(params, x, y), which returns loss and gradient. Each worker of the
run has written the numbers of its rows, a line a step, to rows.PID; the last 60 lines count, because a run begins
with a step that it does not keep. Prints the test loss after every 10 steps.

  allreduce  Adam with decoupled weight decay (Loshchilov and Hutter, arXiv 1711.05101) of the mean gradient
  fedavg     federated averaging (McMahan et al., arXiv 1602.05629): each worker steps alone, and every INTERVAL
             steps all take the mean of their parameters
  diloco     DiLoCo (Douillard et al., arXiv 2311.08105), algorithm 1: the same, but the difference to the mean is the
             gradient of Nesterov's momentum, with rate 0.7 and momentum 0.9
  dilocox    DiLoCoX (Qi et al., arXiv 2506.21263): the same, with the difference of the round before; in the first
             round it is 0
"""
import glob
import sys

import numpy as np
import mine

rule, interval, lr, decay = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4])
(_, x, y), (_, test_x, test_y) = mine.data()
x, test_x = x.astype(float), test_x.astype(float)
rows = [np.loadtxt(path, int)[-60:] for path in sorted(glob.glob("rows.*"))]


class AdamW:
    def __init__(self, p):
        self.m = {k: np.zeros(v.shape) for k, v in p.items()}
        self.v = {k: np.zeros(v.shape) for k, v in p.items()}
        self.t = 0

    def step(self, p, g):
        self.t += 1
        for k in p:
            self.m[k] = 0.9 * self.m[k] + 0.1 * g[k]
            self.v[k] = 0.999 * self.v[k] + 0.001 * g[k] ** 2
            mean, square = self.m[k] / (1 - 0.9**self.t), self.v[k] / (1 - 0.999**self.t)
            spared = p[k].ndim < 2  # mvbench's default for AdamW
            p[k] = p[k] - lr * decay * (not spared) * p[k] - lr * mean / (np.sqrt(square) + 1e-8)


def mean_of(models):
    return {k: sum(p[k] for p in models) / len(models) for k in models[0]}


first = {k: v.astype(float) for k, v in mine.params().items()}
models = [dict(first) for _ in rows]
inner = [AdamW(first) for _ in rows]
outer, momentum, late = dict(first), *({k: 0 * v for k, v in first.items()} for _ in range(2))
for t in range(len(rows[0])):
    grads = [mine.step(p, x[r[t]], y[r[t]])[1] for p, r in zip(models, rows)]
    if rule == "allreduce":
        grads = [mean_of(grads)] * len(rows)
    for p, g, o in zip(models, grads, inner):
        o.step(p, g)
    if rule != "allreduce" and (t + 1) % interval == 0:
        mean = mean_of(models)
        if rule in ("diloco", "dilocox"):
            change = {k: outer[k] - mean[k] for k in mean}
            if rule == "dilocox":
                change, late = late, change
            momentum = {k: 0.9 * momentum[k] + change[k] for k in mean}
            mean = outer = {k: outer[k] - 0.7 * (0.9 * momentum[k] + change[k]) for k in mean}
        models = [dict(mean) for _ in models]
    if (t + 1) % 10 == 0:
        print("%.12g" % mine.step(mean_of(models), test_x, test_y)[0])
