#!/usr/bin/env python3
"""Recomputes random runs of mvbench in float64.

Usage: oracle.py [--count=N] [--seed=N] [--mvbench=FILE] [--only=STRATEGY] [--few] [--keep]

Each run trains the workload net.c, which writes the rows, the learning rate and the parameters before
every gradient. This program takes from that only the first parameters, the data, and which rows each
worker had in each step; for asynchronous strategies also the recorded order of operations on the
table (table arrival). It computes the rest by the formulas of the papers and compares the following,
within the limits that tests/README.md lists:

  - the parameters of every worker before each of its steps
  - the test loss of every epoch, and the consensus distance of those that end with a barrier
  - the learning rate of every step, where mini-batches are assigned statically
  - the rows: each one once in an epoch, and with --split always on the same worker, as table shard has them

Exit status: 0 all agree, 1 a run differs or fails, 2 wrong options.
"""
import argparse
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile

import numpy as np

FEATURES, HIDDEN = 4, 6
TOLERANCE = 2e-4  # of float32 against float64 over a few dozen steps, relative to the largest value
OPTIMIZERS = ["sgd", "nesterov", "adagrad", "adamw", "lion", "muon", "lamb", "lars"]
COUPLED = {"sgd", "nesterov", "adagrad"}  # their weight decay is a part of the gradient
NORMALISES = {"adagrad", "adamw", "lion", "muon", "lamb", "lars"}
UPDATERS = ["add", "sgd", "momentum", "momentum_ema", "adagrad", "adagrad_shared", "dcasgd", "dcasgda", "adam",
            "staleness", "delayed_nesterov"]
CHANGES = {"add", "delayed_nesterov"}  # get the change of the parameters
ADDITIVE = {"add", "sgd", "adagrad", "staleness"}  # can be one-sided
KEEPS_MOMENTUM = {"momentum", "momentum_ema", "adam"}


class Differs(Exception):
    """The run and this program do not agree."""


# ---- Random numbers: splitmix64, as runtime/base/rng.c has it ----------------

WORD, STRATEGY_STREAM = 2**64 - 1, 11


def mixed(z):
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9 & WORD
    z = (z ^ z >> 27) * 0x94d049bb133111eb & WORD
    return z ^ z >> 31


def random_order(seed, index, n):
    """The numbers below n in a random order, which plug-ins draw from their stream `index`."""
    rng = mixed(mixed(seed + 0x9e3779b97f4a7c15 & WORD) ^ mixed(~(STRATEGY_STREAM << 56 | index) & WORD))
    order = []
    for i in range(n):
        rng = rng + 0x9e3779b97f4a7c15 & WORD
        j = mixed(rng) % (i + 1)
        order.append(i)
        order[i], order[j] = order[j], i
    return order


# ---- The model ---------------------------------------------------------------


def use_model(classes):
    """0 classes: regression, one output."""
    global SIZES, PARAMS, WEIGHTS
    outputs = classes or 1
    SIZES = [("W1", (HIDDEN, FEATURES)), ("b1", (HIDDEN,)), ("W2", (outputs, HIDDEN)), ("b2", (outputs,))]
    PARAMS = sum(int(np.prod(s)) for _, s in SIZES)
    WEIGHTS = np.concatenate([np.full(int(np.prod(s)), n[0] == "W") for n, s in SIZES])


def parts(w):
    at, out = 0, {}
    for name, shape in SIZES:
        n = int(np.prod(shape))
        out[name] = w[at:at + n].reshape(shape)
        at += n
    return out


def tensors():
    """Where each of them begins and ends."""
    ends = np.cumsum([int(np.prod(shape)) for _, shape in SIZES])
    return [slice(end - int(np.prod(shape)), end) for end, (_, shape) in zip(ends, SIZES)]


def loss_and_gradient(w, x, t):
    """Mean squared error, or cross entropy, of rows x[n x 4], t[n], and the SUM of their gradients."""
    p = parts(w)
    h = np.tanh(x @ p["W1"].T + p["b1"])
    z = h @ p["W2"].T + p["b2"]
    if len(p["b2"]) == 1:
        e = z[:, 0] - t
        loss, dz = np.mean(e * e), 2 * e[:, None]
    else:
        z = z - z.max(1, keepdims=True)
        log_p = z - np.log(np.exp(z).sum(1, keepdims=True))
        right = np.arange(z.shape[1]) == t[:, None]
        loss, dz = -np.mean(log_p[right]), np.exp(log_p) - right
    dh = (dz @ p["W2"]) * (1 - h * h)
    return loss, np.concatenate([(dh.T @ x).ravel(), dh.sum(0), (dz.T @ h).ravel(), dz.sum(0)])


# ---- Optimisers --------------------------------------------------------------


def clipped(g, most):
    length = np.linalg.norm(g)
    return g * (most / length) if most and length > most else g


def newton_schulz(x):
    x = x / max(np.linalg.norm(x), 1e-7)
    for _ in range(5):
        a = x @ x.T if x.shape[0] <= x.shape[1] else x.T @ x
        b = -4.7750 * a + 2.0315 * a @ a
        x = 3.4445 * x + (b @ x if x.shape[0] <= x.shape[1] else x @ b)
    return x


class Optimizer:
    """Steps of one vector; o: name, momentum, beta1, ...; decay by --weight-decay on `decayed` floats."""

    def __init__(self, o, decay=0.0, decayed=True, size=None):
        self.o, self.decay, self.decayed, self.size = o, decay, decayed, size or PARAMS
        self.forget()

    def forget(self):
        self.m = np.zeros((2, self.size))
        self.t = 0
        self.shares = self.steps = self.idle = 0  # since all workers' moments were equal

    def decay_of(self, w):
        return self.decay * w * self.decayed

    def adamw(self, g, w, lr):
        o, c = self.o, 1 - self.o["beta1"]**self.t
        self.m[0] = o["beta1"] * self.m[0] + (1 - o["beta1"]) * g
        self.m[1] = o["beta2"] * self.m[1] + (1 - o["beta2"]) * g * g
        root = np.sqrt(self.m[1] / (1 - o["beta2"]**self.t)) + o["eps"]
        return w - lr * (self.m[0] / c / root + self.decay_of(w))

    def lamb(self, g, w, lr):
        u, out = w - self.adamw(g, w, 1), w.copy()
        for at in tensors():
            a, b = np.linalg.norm(w[at]), np.linalg.norm(u[at])
            out[at] -= lr * (a / b if a and b else 1) * u[at]
        return out

    def lars(self, g, w, lr):
        d = self.decay * self.decayed * np.ones(PARAMS)
        for at in tensors():
            a, b = np.linalg.norm(w[at]), np.linalg.norm(g[at])
            over = b + d[at][0] * a
            by = self.o["trust"] * a / over if a and over else 1
            self.m[0][at] = self.o["momentum"] * self.m[0][at] + lr * by * (g[at] + d[at] * w[at])
        return w - self.m[0]

    def muon(self, g, w, lr):
        o, n = self.o, HIDDEN * FEATURES
        before = self.m.copy()
        rest = self.adamw(g, w, lr * o["rest"])
        self.m[:, :n] = before[:, :n]
        self.m[0][:n] = o["momentum"] * before[0][:n] + g[:n]
        x = newton_schulz((o["momentum"] * self.m[0][:n] + g[:n]).reshape(HIDDEN, FEATURES))
        step = np.sqrt(max(1, HIDDEN / FEATURES)) * x.ravel() + self.decay_of(w)[:n]
        return np.concatenate([w[:n] - lr * step, rest[n:]])

    def step(self, w, g, lr, momentum=None):
        """Gradients are clipped already; the coupled decay is added here."""
        o, name = self.o, self.o["name"]
        m = o["momentum"] if momentum is None else momentum
        self.t += 1
        if name == "adamw":
            return self.adamw(g, w, lr)
        if name in ("muon", "lamb", "lars"):
            return getattr(self, name)(g, w, lr)
        if name == "lion":
            u = o["beta1"] * self.m[0] + (1 - o["beta1"]) * g
            self.m[0] = o["beta2"] * self.m[0] + (1 - o["beta2"]) * g
            return w - lr * (np.sign(u) + self.decay_of(w))
        g = g + self.decay_of(w)
        if name == "adagrad":
            self.m[0] += g * g
            return w - lr * g / (np.sqrt(self.m[0]) + o["eps"])
        self.m[0] = m * self.m[0] + g
        return w - lr * (g + m * self.m[0] if name == "nesterov" else self.m[0])


# ---- The table ---------------------------------------------------------------


class Table:
    """W on the parameter server. by: lr, c (weight), momentum, rho, lambda, beta1, beta2, eps, square."""

    def __init__(self, w, updater, workers):
        self.w, self.updater = w.copy(), updater
        self.state, self.more = np.zeros(PARAMS), np.zeros(PARAMS)
        self.own = np.zeros((workers, PARAMS))
        self.pulled = np.tile(w, (workers, 1))
        self.seen, self.version, self.t = np.zeros(workers, int), 0, 0

    def pull(self, k):
        self.seen[k] = self.version
        self.pulled[k] = self.w
        return self.w.copy()

    def apply(self, k, g, by, lr, rho):
        m, u = by["momentum"], self.updater
        tau = self.version - self.seen[k]
        self.t += 1
        if u == "sgd":
            self.w = self.w - lr * g
        elif u in ("momentum", "momentum_ema"):
            self.state = m * self.state + (g if u == "momentum" else (1 - m) * g)
            self.w = self.w - lr * self.state
        elif u == "adagrad":
            self.own[k] += g * g
            self.w = self.w - rho / np.sqrt(self.own[k] + 1e-6) * g
        elif u == "adagrad_shared":
            self.state = self.state + g * g
            self.w = self.w - rho / np.sqrt(self.state + 1e-6) * g
        elif u == "dcasgd":
            self.w = self.w - lr * (g + by["lambda"] * g * g * (self.w - self.pulled[k]))
        elif u == "dcasgda":
            self.own[k] = by["square"] * self.own[k] + (1 - by["square"]) * g * g
            by_k = by["lambda"] / np.sqrt(self.own[k] + 1e-7)
            self.w = self.w - lr * (g + by_k * g * g * (self.w - self.pulled[k]))
        elif u == "adam":
            self.state = by["beta1"] * self.state + (1 - by["beta1"]) * g
            self.more = by["beta2"] * self.more + (1 - by["beta2"]) * g * g
            root = np.sqrt(self.more / (1 - by["beta2"]**self.t)) + by["eps"]
            self.w = self.w - lr * self.state / (1 - by["beta1"]**self.t) / root
        elif u == "staleness":
            self.w = self.w - lr / max(tau, 1) * g
        elif u == "delayed_nesterov":  # g: the change with its weight, or the sum of those of a round
            n, share, m = by["period"], by["spread"], by["outer-momentum"]
            self.more = self.more + g
            if self.t % n == 0:
                self.state, self.more, share = m * self.state + self.more, np.zeros(PARAMS), 1 - share * n + share
            self.w = self.w + by["outer-lr"] * (g + share * m * self.state)

    def push(self, k, g, by):
        """One push of an asynchronous table. g: a delta for add."""
        if self.updater == "add":
            self.w = self.w + by["c"] * g
        elif self.updater == "delayed_nesterov":
            self.apply(k, by["c"] * g, dict(by, period=len(self.seen)), 0, 0)
        else:
            c = 1 if self.updater == "staleness" else by["c"]
            self.apply(k, g, by, c * by["lr"], c * by["rho"])
        self.version += 1
        self.seen[k] += 1

    def round(self, pushes, mean=False, full=0):
        """All pushes of a round, (worker, g, by): a function of their set. mean: they come with the
        weight 1 and are divided by their rows, in units of the mean push's; each that is missing to a
        full round counts as one."""
        if mean:
            over = (sum(by["rows"] for _, _, by in pushes) or len(pushes)) + max(0, full - len(pushes))
            pushes = [(k, g, dict(by, c=by["c"] / over)) for k, g, by in pushes]
        if self.updater in ("add", "sgd", "dcasgd", "dcasgda", "staleness"):
            for _, g, by in pushes:
                c = by.get("part", 1) if self.updater == "staleness" else by["c"]
                self.w = self.w + (c * g if self.updater == "add" else -c * by["lr"] * g)
        elif self.updater == "adagrad":
            before, moved = self.w, 0
            for k, g, by in pushes:
                self.w = before
                self.apply(k, g, by, 0, by["share"] * by["c"] * by["rho"])
                moved = moved + self.w - before
            self.w = before + moved
        else:
            first = min(pushes, key=lambda p: p[0])[2]
            self.apply(0, sum(by["c"] * g for _, g, by in pushes), dict(first, period=1), first["lr"], first["rho"])


# ---- A run -------------------------------------------------------------------


class Run:
    """What the run wrote: step[k] lists model k's steps; and its options c. N: number of models."""

    def __init__(self, c, folder):
        group = c.get("group", 1)  # workers that share a model
        self.c, self.N = c, c["workers"] // group
        self.data, self.test = self.read_data(folder)
        self.step = [self.joined([self.read_steps(f"{folder}/{k * group + i}") for i in range(group)])
                     for k in range(self.N)]
        self.steps = -(-len(self.data[1]) // (c["batch"] * c["accumulate"] * self.N))
        if c["global_batch"]:
            self.steps = -(-len(self.data[1]) // c["global_batch"])
        first = [s[0] for s in self.step if s and s[0]["step"] == 1]
        self.start = min(first, key=lambda s: s["epoch"])["param"]  # others may have idled for an epoch
        self.average, self.averaged = np.zeros(PARAMS), 0
        self.loss, self.consensus, self.marked = {}, {}, {}
        self.worst, self.where = 0.0, ""

    @staticmethod
    def joined(parts):
        """The steps of workers that share a model, each of which has some of the parameters."""
        for steps in zip(*parts):
            for s in steps[1:]:
                if list(s["rows"]) != list(steps[0]["rows"]):
                    raise Differs("workers that share a model have different rows")
                mine = steps[0]["param"]
                both = ~np.isnan(s["param"]) & ~np.isnan(mine)
                if np.any(s["param"][both] != mine[both]):
                    raise Differs("workers that share a tensor have different values")
                steps[0]["param"] = np.where(np.isnan(mine), s["param"], mine)
        return parts[0]

    @staticmethod
    def read_data(folder):
        name = next(f for f in sorted(os.listdir(folder)) if f.startswith("data."))
        raw, at, out = open(f"{folder}/{name}", "rb").read(), 0, []
        for _ in range(2):
            n = int(np.frombuffer(raw, np.int64, 1, at)[0])
            x = np.frombuffer(raw, np.float32, n * FEATURES, at + 8).reshape(n, FEATURES)
            t = np.frombuffer(raw, np.float32, n, at + 8 + x.nbytes)
            at += 8 + x.nbytes + t.nbytes
            out.append((x.astype(float), t.astype(float)))
        return out

    @staticmethod
    def read_steps(name):
        if not os.path.exists(name):
            return []
        raw, at, out = open(name, "rb").read(), 0, []
        while at < len(raw):
            _, step, epoch, rows = (int(v) for v in np.frombuffer(raw, np.int64, 4, at))
            lr = float(np.frombuffer(raw, np.float64, 1, at + 32)[0])
            index = np.frombuffer(raw, np.int64, rows, at + 40)
            param = np.frombuffer(raw, np.float32, PARAMS, at + 40 + 8 * rows).astype(float)
            at += 40 + 8 * rows + 4 * PARAMS
            if out and out[-1]["step"] == step:  # another mini-batch of --accumulate
                if np.any(np.nan_to_num(param) != np.nan_to_num(out[-1]["param"])):
                    raise Differs(f"the parameters change inside step {step}")
                out[-1]["rows"] = np.concatenate([out[-1]["rows"], index])
                continue
            out.append({"step": step, "epoch": epoch, "lr": lr, "rows": index, "param": param})
        return out

    def at(self, k, step):
        """Worker k's entry of this step, or None: it had no rows."""
        if not hasattr(self, "index"):
            self.index = [{s["step"]: s for s in steps} for steps in self.step]
        return self.index[k].get(step)

    def differs(self, what, mine, theirs, scale):
        off = float(np.max(np.abs(np.asarray(mine) - theirs)) / max(scale, 1e-30))
        if not off <= self.worst:
            self.worst, self.where = off, what
        if not off <= TOLERANCE:
            raise Differs(f"{what}: relative difference {off:.2g}")

    def check(self, k, s, w):
        if self.c.get("late_step"):  # the log has the parameters of before the last step
            return
        self.differs(f"parameters of worker {k} before its step {s['step']}", w, s["param"],
                     np.max(np.abs(s["param"])))

    def agrees(self, s, w):
        return np.max(np.abs(w - s["param"])) <= TOLERANCE * np.max(np.abs(s["param"]))

    def gradient(self, s, w, over):
        """Sum of the rows' gradients, divided by `over`, times what net.c multiplies them by."""
        g = loss_and_gradient(w, self.data[0][s["rows"]], self.data[1][s["rows"]])[1]
        return g * (self.c["scale"] / over)

    def own_gradient(self, k, step, w):
        """Synchronous strategies: 0 without rows; every row of the step has the same weight."""
        s = self.at(k, step)
        over = sum(len(o["rows"]) for o in self.of_step(step)) / self.N
        if s is None:
            return np.zeros(PARAMS)
        self.check(k, s, w)
        return self.gradient(s, w, over)

    def of_step(self, step):
        return [s for s in (self.at(k, step) for k in range(self.N)) if s]

    def share(self, k, step):
        return self.N / len(self.of_step(step)) if self.at(k, step) else 0.0

    def lr(self, step):
        return self.of_step(step)[0]["lr"]

    def is_barrier(self, epoch):
        every = self.c["barrier_every"]
        return epoch == self.c["epochs"] or (every > 0 and epoch % every == 0)

    def mark(self, step, k, w):
        """Model k before a synchronisation, which is its last one of the epoch if it is in the last X steps."""
        epoch = (step - 1) // self.steps + 1
        if step - 1 + self.c["sync_every"] >= min(epoch * self.steps, steps_of_run(self)):
            self.marked[epoch, k] = w.copy()

    def mark_all(self, step, models):
        for k, w in enumerate(models):
            self.mark(step, k, w)

    def evaluate(self, epoch, w, models=()):
        """models: those of all workers at the end, if they can differ."""
        self.loss[epoch] = loss_and_gradient(w, *self.test)[0]
        apart = [self.marked.get((epoch, k), x) for k, x in enumerate(models)] if self.N > 1 else []
        square = np.mean([np.sum((x - np.mean(apart, 0))**2) for x in apart]) if apart else 0.0
        self.consensus[epoch] = np.sqrt(square) if self.is_barrier(epoch) else None

    def forget_consensus(self, epoch):
        """With dynamic assignment: the log does not have how far the epoch was at a mark."""
        if self.c["deal"] == "dynamic":
            del self.consensus[epoch]

    def check_rows(self, shards, ordered):
        """shards: (worker, class, rows) of table shard."""
        c, target, n = self.c, self.data[1], len(self.data[1])
        if "backup" not in c and (c["split"] == "shuffled" or c["deal"] == "static"):
            for epoch in range(1, c["epochs"] + 1):
                had = [s["rows"] for steps in self.step for s in steps if s["epoch"] == epoch]
                had = sorted(np.concatenate(had).tolist())
                whole = epoch <= c["length"]  # the last epoch of a budget may be shorter
                if had != (list(range(n)) if whole else sorted(set(had))):
                    raise Differs(f"epoch {epoch} has not each row once")
        if c["split"] == "shuffled":
            return
        own = [set(np.concatenate([s["rows"] for s in steps]).tolist() if steps else []) for steps in self.step]
        if sum(map(len, own)) != len(set.union(*own)):
            raise Differs("a row was on two workers")
        if ordered or c["deal"] == "dynamic" or c["length"] < 1:
            return
        counted = {}
        for k, rows in enumerate(own):
            for row in rows:
                key = k * c.get("group", 1), int(target[row]) if c["classes"] else -1
                counted[key] = counted.get(key, 0) + 1
        if counted != {(worker, label): rows for worker, label, rows in shards if rows}:
            raise Differs(f"table shard differs from the workers' rows: {counted}, {shards}")

    def add_to_average(self, w):
        """--ema: the weights of the models of all steps so far add up to 1."""
        d = self.c["ema"]
        self.average, self.averaged = d * self.average + w, d * self.averaged + 1
        return self.average / self.averaged

    def optimizer(self):
        c = self.c
        return Optimizer(c["optimizer"], c["weight_decay"], WEIGHTS if c["decay"] == "weights" else True)

    def moves(self, k, step):
        """Does this worker make a step of its own? A linear step by a gradient of 0 counts."""
        return self.at(k, step) is not None or self.c["optimizer"]["name"] not in NORMALISES

    def local(self, k, step, w, opt):
        g = clipped(self.own_gradient(k, step, w), self.c["clip"])
        opt.shares, opt.steps = opt.shares + self.share(k, step), opt.steps + 1
        if self.moves(k, step):
            return opt.step(w, g, self.lr(step))
        opt.idle += 1
        return w

    def met(self, opts, together=True):
        state = self.c["state"]
        for o in opts:
            if state == "reset":
                o.forget()
        if state == "average" and together:
            age = opts[0].t + opts[0].idle
            mean = np.mean([self.moments(o, age) for o in opts], 0)
            for o in opts:
                o.m, o.t = mean.copy(), age
                o.shares = o.steps = o.idle = 0

    def moments(self, opt, age):
        """With their weight in a mean over the workers, as if the bias of Adam's were that of this age."""
        o, m = opt.o, opt.m.copy()
        if o["name"] not in NORMALISES or not opt.steps:
            return m
        if o["name"] in ("adamw", "lamb", "muon") and opt.t:
            m[0] *= (1 - o["beta1"]**age) / (1 - o["beta1"]**opt.t)
            m[1] *= (1 - o["beta2"]**age) / (1 - o["beta2"]**opt.t)
        return m * (opt.shares / opt.steps)


def weight(c):
    return 1.0 if c["reduce"] == "sum" else c.get("group", 1) / c["workers"]


def steps_of_run(r):
    """--epochs, --steps, or the steps that have --tokens rows: each epoch's rows are cut into equal steps."""
    c, n, steps = r.c, len(r.data[1]), 0
    if not c["tokens"]:
        return c["steps"] or c["epochs"] * r.steps
    while steps // r.steps * n + steps % r.steps * n // r.steps < c["tokens"]:
        steps += 1
    return steps


def each_step(r):
    steps = steps_of_run(r)
    for step in range(1, steps + 1):
        yield (step - 1) // r.steps + 1, step, step % r.steps == 0 or step == steps


# ---- Strategies: compute each step of the run, and the model of each epoch -------


def adasum(g):
    """The last ones join the first, of which a power of 2 are left; these combine in pairs."""
    half = 2**(len(g).bit_length() - 1)
    g = [adasum_of(x, g[half + i]) if half + i < len(g) else x for i, x in enumerate(g[:half])]
    while len(g) > 1:
        g = [adasum_of(a, b) for a, b in zip(g[::2], g[1::2])]
    return g[0]


def adasum_of(x, y):
    out = np.zeros(PARAMS)
    for at in tensors():
        a, b = x[at], y[at]
        aa, bb, ab = a @ a, b @ b, a @ b
        out[at] = (1 - (ab / aa / 2 if aa else 0)) * a + (1 - (ab / bb / 2 if bb else 0)) * b
    return out


def largest(x, n):
    """What codec topk sends of x: its n largest floats."""
    out, at = np.zeros(len(x)), np.argsort(-np.abs(x), kind="stable")[:n]
    out[at] = x[at]
    return out


def allreduce(r):
    w, opt, kept = r.start.copy(), r.optimizer(), np.zeros((r.N, PARAMS))
    for epoch, step, last in each_step(r):
        g = [r.own_gradient(k, step, w) for k in range(r.N)]
        if r.c.get("topk") and r.N > 1:
            given = g + kept
            g = [largest(x, int(np.ceil(r.c["topk"] * PARAMS))) for x in given]
            kept = r.c["feedback"] * (given - g)
        g = adasum(g) if r.c["strategy"] == "adasum" else weight(r.c) * sum(g)
        w = opt.step(w, clipped(g, r.c["clip"]), r.lr(step))
        average = r.add_to_average(w)
        if last:
            r.evaluate(epoch, average if r.c["ema"] else w)


def gossip_mixing(r, t):
    """The matrix of round t: who averages with whom."""
    n, kind, A = r.N, r.c["schedule"], np.eye(r.N)
    bits, order = (n - 1).bit_length(), random_order(r.c["seed"], t, n)
    if kind == "complete":
        return np.full((n, n), 1 / n)
    for i in range(n):
        if kind == "hypercube":
            heard = {i ^ (1 << (t % bits))}
        elif kind == "ring":
            turn = (t + 1) % (n if n % 2 else 2)
            place = ((i - turn) % n) ^ 1
            heard = {(place + turn) % n} if place < n else set()
        elif kind == "pairs":
            place = order.index(i) ^ 1
            heard = {order[place]} if place < n else set()
        elif kind == "neighbours":
            heard = {(i - 1) % n, (i + 1) % n}
        elif kind == "one_peer":
            heard = {(i - 2**(t % bits)) % n}
        elif kind == "exponential":
            heard = {(i - 2**k) % n for k in range(bits)}
        else:
            rows = max(d for d in range(1, n + 1) if n % d == 0 and d * d <= n)
            columns, (y, x) = n // rows, divmod(i, n // rows)
            heard = {y * columns + (x + d) % columns for d in (-1, 1)}
            heard |= {(y + d) % rows * columns + x for d in (-1, 1)}
        for j in heard - {i}:
            A[i, j] = 1
    return A / A.sum(1, keepdims=True)


def gossip(r):
    X, w = r.c["sync_every"], [r.start.copy() for _ in range(r.N)]
    opts, own, u = [r.optimizer() for _ in range(r.N)], [x.copy() for x in w], np.zeros((r.N, PARAMS))

    def outer():
        for k in range(r.N):
            u[k] = r.c["outer_momentum"] * u[k] + r.c["outer_lr"] * (w[k] - own[k])
            own[k] = own[k] + u[k]
            w[k] = own[k].copy()

    for epoch, step, last in each_step(r):
        mixes, before = step % X == 0 and r.N > 1, r.c["order"] == "before"
        A = gossip_mixing(r, step // X - 1) if mixes else np.eye(r.N)
        mixed = lambda: [sum(A[i, j] * w[j] for j in range(r.N)) for i in range(r.N)]
        met = [opts[i] for i in range(r.N) if mixes and A[i, i] < 1]
        if mixes and before:
            r.mark_all(step, w)
            g = [clipped(r.own_gradient(k, step, w[k]), r.c["clip"]) for k in range(r.N)]
            old, w = w, mixed()
            outer()
            r.met(met, together=False)
            for k in range(r.N):
                if r.moves(k, step):
                    coupled = opts[k].o["name"] in COUPLED
                    extra = opts[k].decay_of(old[k]) - opts[k].decay_of(w[k]) if coupled else 0
                    w[k] = opts[k].step(w[k], g[k] + extra, r.lr(step))
        else:
            w = [r.local(k, step, w[k], opts[k]) for k in range(r.N)]
            if step % X == 0:
                r.mark_all(step, w)
                w = mixed()
                outer()
                r.met(met, together=False)
        if last:
            r.evaluate(epoch, np.mean(w, 0), w)


def sparta(r):
    w, opts, X = [r.start.copy() for _ in range(r.N)], [r.optimizer() for _ in range(r.N)], r.c["sync_every"]
    columns = min(int(np.floor(1 / r.c["share"] + 0.5)), PARAMS)
    whole = PARAMS // columns * columns
    parts_of_model = [np.arange(k, whole, columns) for k in range(columns)]
    parts_of_model += [np.arange(whole, PARAMS)] if whole < PARAMS else []
    n = len(parts_of_model)
    shares, averaged = np.zeros(r.N), [(np.zeros(r.N), 0)] * n

    def mean_of(i, step):
        """Part i: models weigh by the steps since its last averaging in which their workers had rows."""
        before, since = averaged[i]
        counts = r.c["optimizer"]["name"] in NORMALISES and step > since
        x = (shares - before) / (step - since) if counts else np.ones(r.N)
        return sum(x[k] * w[k][parts_of_model[i]] for k in range(r.N)) / r.N

    for epoch, step, last in each_step(r):
        w = [r.local(k, step, w[k], opts[k]).copy() for k in range(r.N)]
        shares = shares + [r.share(k, step) for k in range(r.N)]
        if step % X == 0 and r.N > 1:
            r.mark_all(step, w)
            t = step // X - 1
            i = random_order(r.c["seed"], t // n, n)[t % n]
            mean = mean_of(i, step)
            for x in w:
                x[parts_of_model[i]] = mean
            averaged[i] = shares, step
        if last:
            model = np.zeros(PARAMS)
            for i, part in enumerate(parts_of_model):
                model[part] = mean_of(i, step)
            r.evaluate(epoch, model, w)


def easgd_together(r):
    X, alpha, centre = r.c["sync_every"], r.c["beta"] / r.N, r.start.copy()
    w, opts = [r.start.copy() for _ in range(r.N)], [r.optimizer() for _ in range(r.N)]
    for epoch, step, last in each_step(r):
        meets, g = step % X == 0, []
        if not meets or r.c["order"] == "after":
            w = [r.local(k, step, w[k], opts[k]) for k in range(r.N)]
        else:
            # the coupled decay, too, is of the model before the exchange
            g = [clipped(r.own_gradient(k, step, w[k]), r.c["clip"]) for k in range(r.N)]
            before = w
        if meets:
            r.mark_all(step, w)
            d = [x - centre for x in w]
            w = [x - alpha * y for x, y in zip(w, d)]
            centre = centre + alpha * sum(d)
            r.met(opts)
        for k in range(r.N):
            if g and r.moves(k, step):
                coupled = opts[k].o["name"] in COUPLED
                extra = opts[k].decay_of(before[k]) - opts[k].decay_of(w[k]) if coupled else 0
                w[k] = opts[k].step(w[k], g[k] + extra, r.lr(step))
        if last:
            r.evaluate(epoch, centre, w)


def interval(c, epoch):
    if c["schedule"] == "fixed" or c["epochs"] == 1:
        return c["sync_every"]
    over = (epoch - 1) / (c["epochs"] - 1)
    return int(np.floor(c["sync_every"]**(1 - over if c["schedule"] == "down" else over) + 0.5))


class Fragment:
    """A part of the model that periodic averages by itself: W, what its outer optimiser keeps, its round."""

    def __init__(self, r, part):
        self.r, self.part, self.W = r, part, r.start[part].copy()
        self.u, self.shares, self.steps = np.zeros(len(self.W)), np.zeros(r.N), 0.0
        o = r.c["outer_optimizer"]  # None: none, or one with mu, whose step is linear
        self.outer = Optimizer(o, size=len(part)) if o else None
        self.sent = self.taken = 0  # the steps in which a round last began, and ended
        self.first_lr = self.last_lr = 0.0
        # (d, its momentum) of the sums on their way, in rounds; with a delay of a round none comes first
        self.coming = [None] if r.c["delay"] == r.c["sync_every"] else []
        # eager: each worker's own W and u, and what it sent in the last round
        self.Ws, self.us, self.old = (np.tile(x, (r.N, 1)) for x in (self.W, self.u, self.u))

    def stepped(self, step):
        if step == self.sent + 1:
            self.first_lr = self.r.lr(step)
        self.shares += [self.r.share(k, step) for k in range(self.r.N)]
        self.steps += 1

    def weights(self):
        """The workers' weights in a round that begins now, relative to 1 / N."""
        c, N = self.r.c, self.r.N
        total = N if c["reduce"] == "sum" else 1
        counts = c["optimizer"]["name"] in NORMALISES and self.steps > 0
        return total * (self.shares / self.steps if counts else np.ones(N)) / N

    def begins(self, step):
        self.last_lr, self.sent, self.shares[:], self.steps = self.first_lr, step, 0, 0

    def momentum(self):
        """Of the outer step of a round that begins now."""
        changes = self.r.c["outer"] == "momentum" and self.last_lr > 0
        return self.r.c["outer_momentum"] * (self.first_lr / self.last_lr if changes else 1)

    def linear_step(self, W, u, d, mu):
        """W and u after a step of an outer optimiser that is linear in d."""
        c = self.r.c
        if c["outer"] == "none":
            return W - d, u
        u = mu * u + d
        return W - c["outer_lr"] * (mu * u + d if c["outer"] == "nesterov" else u), u

    def change(self, w):
        return sum(x * (self.W - w[k][self.part]) for k, x in enumerate(self.weights()))

    def preview(self, w):
        """W after a round now, unless its outer step is not linear."""
        return self.W if self.outer else self.linear_step(self.W, self.u, self.change(w), self.momentum())[0]

    def eager(self, w, step):
        """A round of eager updates: the own change, and those that the others sent in the last round."""
        mix, weights, sent = self.r.c["mix"], self.weights(), self.old.sum(0)
        for k, x in enumerate(w):
            fresh = weights[k] * (self.Ws[k] - x[self.part])
            d = sent - self.old[k] + fresh
            self.Ws[k], self.us[k] = self.linear_step(self.Ws[k], self.us[k], d, self.momentum())
            self.old[k] = fresh
            x[self.part] = mix * x[self.part] + (1 - mix) * self.Ws[k]
        self.W = self.Ws.mean(0)
        self.begins(step)

    def send(self, w, step):
        self.coming.append((self.change(w), self.momentum()))
        self.begins(step)

    def take(self, w, step):
        """The oldest sum arrives."""
        mix, sum_of_round = self.r.c["mix"], self.coming.pop(0)
        if sum_of_round and self.outer:
            self.W = self.outer.step(self.W, sum_of_round[0], self.r.c["outer_lr"])
        elif sum_of_round:
            self.W, self.u = self.linear_step(self.W, self.u, *sum_of_round)
        for x in w:
            x[self.part] = mix * x[self.part] + (1 - mix) * self.W
        self.taken = step
        self.shares, self.steps = mix * self.shares, mix * self.steps  # so much of them is left


def layers():
    """The floats of each layer, as a fragment has them."""
    first = HIDDEN * FEATURES + HIDDEN
    return [np.arange(first), np.arange(first, PARAMS)]


def periodic(r):
    c, N, X, F = r.c, r.N, r.c["sync_every"], r.c["fragments"]
    w, opts = [r.start.copy() for _ in range(N)], [r.optimizer() for _ in range(N)]
    fragments = [Fragment(r, part) for part in (layers() if F > 1 else [np.arange(PARAMS)])]
    streams = F > 1 or c["delay"] > 0 or c["mix"] > 0
    shares = np.zeros(N)  # since the models of a group were last averaged
    for epoch, step, last in each_step(r):
        if step <= c["start"]:
            g = weight(c) * sum(r.own_gradient(k, step, w[k]) for k in range(N))
            w = [opts[k].step(w[k], clipped(g, c["clip"]), r.lr(step)) for k in range(N)]
            for f in fragments:
                f.sent = step
                if step == c["start"]:
                    f.W = w[0][f.part].copy()
                    f.Ws[:] = f.W
            model = w[0]
        else:
            w = [r.local(k, step, w[k], opts[k]).copy() for k in range(N)]
            for f in fragments:
                f.stepped(step)
            shares += [r.share(k, step) for k in range(N)]
            due = [step % X == k * X // F for k in range(F)]
            if c["schedule"] != "fixed":
                due = [step - fragments[0].sent >= interval(c, epoch)]
            if c["team"] > 1 and step % c["team_every"] == 0 and not due[0]:
                r.mark_all(step, w)
                for first in range(0, N, c["team"]):
                    team = range(first, first + c["team"])
                    counts = c["optimizer"]["name"] in NORMALISES and shares[team].sum() > 0
                    mean = np.average([w[k] for k in team], axis=0, weights=shares[team] if counts else None)
                    for k in team:
                        w[k] = mean.copy()
                shares[:] = 0
                r.met(opts)
            model = fragments[0].preview(w)
            for f, now in zip(fragments, due):
                if N == 1 and c["outer"] == "none" and not streams:
                    continue
                if now:
                    r.mark_all(step, w)
                if c["eager"]:
                    if now:
                        f.eager(w, step)
                    continue
                if now:  # before the sum of another round arrives
                    f.send(w, step)
                arrives = now if c["delay"] == X else f.coming and step >= f.sent + c["delay"]
                if arrives:
                    f.take(w, step)
                    r.met(opts)
            if not streams and fragments[0].taken == step:
                shares[:] = 0
        if streams or (fragments[0].outer and step > c["start"]):
            model = np.concatenate([f.W for f in fragments])
        if last:
            r.evaluate(epoch, model, w)


class Exchange:
    """A worker of asgd, bsp, ssp or downpour: its steps between two pushes."""

    def __init__(self, r, k):
        self.r, self.k, self.w = r, k, r.start.copy()
        self.opt, self.updater = r.optimizer(), r.c["updater"]
        self.pulled, self.sum = self.w.copy(), np.zeros(PARAMS)
        self.shares = self.count = self.rows = 0

    def step(self, g, lr, moves, share, rows=0):
        """g: the step's gradient, not clipped."""
        self.shares, self.count, self.rows = self.shares + share, self.count + 1, self.rows + rows
        self.lr = lr
        g = clipped(g, self.r.c["clip"])
        before = self.w
        if self.updater in CHANGES:
            if moves:
                self.w = self.opt.step(self.w, g, lr)
            self.sum = self.sum + self.w - before
            return
        momentum = 0.0 if self.updater in KEEPS_MOMENTUM else self.r.c["optimizer"]["momentum"]
        g = g + self.opt.decay_of(before)
        self.opt.m[0] = momentum * self.opt.m[0] + g
        self.w = before - lr * self.opt.m[0]
        self.sum = self.sum + self.opt.m[0]

    def push(self):
        """What it pushes, and the numbers that go with it."""
        c, uneven = self.r.c, self.r.c["optimizer"]["name"] in NORMALISES and self.updater in CHANGES
        share = self.shares / self.count if self.count else 1.0
        by = dict(c["by"], c=weight(c) * (share if uneven else 1), lr=self.lr, share=share,
                  momentum=c["optimizer"]["momentum"])
        by["rows"] = share if uneven or self.updater == "adagrad" else self.rows / max(self.count, 1)
        out, self.sum, self.shares, self.count, self.rows = self.sum, np.zeros(PARAMS), 0, 0, 0
        return out, by

    def met(self):
        if self.r.c["state"] == "reset":
            self.opt.forget()


def bsp(r):
    X, table = r.c["sync_every"], Table(r.start, r.c["updater"], r.N)
    workers = [Exchange(r, k) for k in range(r.N)]
    for epoch, step, last in each_step(r):
        for k, x in enumerate(workers):
            x.step(r.own_gradient(k, step, x.w), r.lr(step), r.moves(k, step), r.share(k, step))
        at_end = [x.w for x in workers]
        if step % X == 0:
            r.mark_all(step, at_end)
        if step % X == 0 or (last and r.is_barrier(epoch)):
            table.round([(k, *x.push()) for k, x in enumerate(workers)])
            for x in workers:
                x.w = table.w.copy()
            if r.c["state"] == "average":
                r.met([x.opt for x in workers])
            for x in workers:
                x.met()
        if last:
            r.evaluate(epoch, table.w, at_end)


def steps_of(r, k, epoch):
    """Numbers of worker k's steps in an epoch, with what it logged; None: a step without rows."""
    if r.c["deal"] == "dynamic":
        yield from ((s["step"], s) for s in r.step[k] if s["epoch"] == epoch)
        return
    for e, step, _ in each_step(r):
        if e == epoch:
            yield step, r.at(k, step)


def backup(r, arrivals):
    """bsp with backup workers: the record says which pushes a round dropped, and when it ended. Of a
    quorum no push is dropped, and its weight is also that of its steps."""
    c, X, table, pushes = r.c, r.c["sync_every"], Table(r.start, r.c["updater"], r.N), []
    mean = c["reduce"] == "mean" and c["updater"] != "staleness"
    over, at_end, kind = {}, {}, [""]

    def exchange(x, counted):
        """A push and its pull; counted: the optimiser after the last push that counted."""
        part = x.count / X if c["late"] == "join" else 1
        g, by = x.push()
        by = dict(by, c=part * by["c"], rows=part * by["rows"], part=part)
        yield "push"
        if kind[0] == "drop" and c["updater"] not in KEEPS_MOMENTUM:
            x.opt.m, x.opt.t = counted[0].copy(), counted[1]
        elif kind[0] != "drop":
            pushes.append((x.k, g, dict(by, c=by["c"] * r.N) if mean else by))
        counted[:] = [x.opt.m.copy(), x.opt.t]
        yield "pull"
        x.w = table.w.copy()
        x.met()

    def worker(k):
        x, counted = Exchange(r, k), [np.zeros((2, PARAMS)), 0]
        yield "pull"
        x.w = table.w.copy()
        for epoch in range(1, c["epochs"] + 1):
            outstanding = False
            for step, s in steps_of(r, k, epoch):
                if outstanding and s is not None and not r.agrees(s, x.w):
                    yield from exchange(x, counted)  # the epoch's rest; rows of a dropped push came back
                if s is not None:
                    r.check(k, s, x.w)
                g = r.gradient(s, x.w, c["batch"]) if s else np.zeros(PARAMS)
                share = r.share(k, step) if c["deal"] == "static" else 1.0
                lr = s["lr"] if s else r.lr(step)
                moves = s is not None or c["optimizer"]["name"] not in NORMALISES
                x.step(g, lr, moves, share, len(s["rows"]) / c["batch"] if s else 0)
                outstanding = step % X != 0
                if not outstanding:
                    r.mark(step, k, x.w)
                    yield from exchange(x, counted)
            at_end[epoch, k] = x.w
            if outstanding:
                yield from exchange(x, counted)
            over[epoch] = over.get(epoch, 0) + 1
            if over[epoch] == r.N:
                r.evaluate(epoch, table.w, [at_end[epoch, i] for i in range(r.N)])
                r.forget_consensus(epoch)
            if epoch < c["epochs"]:
                yield "pull"
                x.w = table.w.copy()

    at = [worker(k) for k in range(r.N)]
    wants = [next(g, None) for g in at]
    for k, kind[0] in arrivals:
        if kind[0] == "round":
            table.round(pushes, mean, 0 if c["late"] == "join" else r.N - c["backup"])
            pushes.clear()
            continue
        if wants[k] != ("pull" if kind[0] == "pull" else "push"):
            raise Differs(f"worker {k} makes a {kind[0]} where {wants[k]} is expected")
        wants[k] = next(at[k], None)
    if any(w is not None for w in wants):
        raise Differs(f"operations are missing: {wants}")


def asynchronous(r, arrivals):
    """Each worker is a generator that stops before its operations; the recorded order resumes them."""
    c = r.c
    updater = "add" if c["strategy"] == "easgd" else c["updater"]
    table = Table(r.start, updater, r.N)
    X = c["sync_every"]
    F = c.get("send") or X
    over, at_end = {}, {}  # epoch: workers that have ended it; their models
    later = [False]

    def elastic(x):
        d = c["beta"] / r.N * (x.w - table.w)
        table.w = table.w + d
        x.w = x.w - d
        table.pull(x.k)
        x.met()

    def exchange(x):
        """Stops before its operations: with a codec a pull, and a push of what the codec leaves."""
        if not c.get("topk"):
            yield "elastic"
            elastic(x)
            return
        yield "pull"
        d = c["beta"] / r.N * (x.w - table.pull(x.k))
        yield "push"
        d = largest(d, int(np.ceil(c["topk"] * PARAMS)))
        table.push(x.k, d, {"c": 1})
        x.w = x.w - d
        x.met()

    def push(x, pulls):
        g, by = x.push()
        table.push(x.k, g, by)
        if pulls:
            x.w = table.pull(x.k)
            x.met()

    def worker(k):
        x, apart, outstanding = Exchange(r, k), F != X, False
        yield "pull"
        x.w = table.pull(k)
        for epoch in range(1, c["epochs"] + 1):
            for step, s in steps_of(r, k, epoch):
                pulls = step % X == 0
                if s is None:
                    x.lr = lr_of(c, (step - 1) / r.steps)
                else:
                    r.check(k, s, x.w)
                    g = r.gradient(s, x.w, len(s["rows"]))
                if c["strategy"] == "easgd" and s is None:
                    if pulls:
                        r.mark(step, k, x.w)
                        yield from exchange(x)
                    continue
                if c["strategy"] == "easgd":
                    g = clipped(g, c["clip"])
                    if not pulls or c["order"] == "after":
                        x.w = x.opt.step(x.w, g, s["lr"])
                        if pulls:
                            r.mark(step, k, x.w)
                            yield from exchange(x)
                        continue
                    before = x.w
                    r.mark(step, k, x.w)
                    yield from exchange(x)
                    coupled = x.opt.o["name"] in COUPLED
                    extra = x.opt.decay_of(before) - x.opt.decay_of(x.w) if coupled else 0
                    x.w = x.opt.step(x.w, g + extra, s["lr"])
                    continue
                if s is not None:
                    x.step(g, s["lr"], True, 1.0)
                    outstanding = True
                if pulls:
                    r.mark(step, k, x.w)
                if (step % F if apart else step % X) == 0 and outstanding:
                    yield "push"
                    waits = later[0]
                    push(x, not (apart or waits))
                    outstanding = False
                    if waits:
                        yield "pull"
                        x.w = table.pull(k)
                        x.met()
                if pulls and apart:
                    yield "pull"
                    x.w = table.pull(k)
                    x.met()
            if r.is_barrier(epoch):
                at_end[epoch, k] = x.w
                if outstanding and c["strategy"] != "easgd":
                    yield "push"
                    waits = later[0]
                    push(x, not (apart or waits))
                    outstanding = False
                    if waits:
                        yield "pull"
                        x.w = table.pull(k)
                        x.met()
                over[epoch] = over.get(epoch, 0) + 1
                if over[epoch] == r.N:
                    r.evaluate(epoch, table.w, [at_end[epoch, i] for i in range(r.N)])
                    r.forget_consensus(epoch)
                if epoch < c["epochs"] and c["strategy"] != "easgd":
                    yield "pull"
                    x.w = table.pull(k)

    at = [worker(k) for k in range(r.N)]
    wants = [next(g, None) for g in at]
    for k, kind in arrivals:
        later[0] = kind == "push" and F == X  # the bound makes the worker wait between the two
        ok = {"push": ("push", "sync"), "pull": ("pull",), "elastic": ("elastic",)}
        if wants[k] is None or kind not in ok[wants[k]]:
            raise Differs(f"worker {k} makes a {kind} where {wants[k]} is expected")
        wants[k] = next(at[k], None)
    if any(w is not None for w in wants):
        raise Differs(f"operations are missing: {wants}")


def adpsgd(r):
    """Averaging in pairs changes no sum of models. Their mean after an epoch is therefore the first model plus the
    mean of all steps, in any order. A worker's next model is known if it has not averaged in between. Push-sum's mean
    is not known: each step counts with the weight that its worker had."""
    c, X, mean = r.c, r.c["sync_every"] if r.N > 1 else WORD, r.start.copy()
    opts, last = [r.optimizer() for _ in range(r.N)], [(0, 0, None)] * r.N
    for epoch in range(1, c["epochs"] + 1):
        for k in range(r.N):
            for s in (s for s in r.step[k] if s["epoch"] == epoch):
                step, w, (before, at, after) = s["step"], s["param"], last[k]
                if at == epoch and (step - 1) // X == (before - 1) // X:
                    r.check(k, s, after)
                if step // X > before // X:
                    r.met([opts[k]], together=False)
                after = opts[k].step(w, clipped(r.gradient(s, w, len(s["rows"])), c["clip"]), s["lr"])
                mean = mean + (after - w) / r.N
                last[k] = step, epoch, after
        if r.is_barrier(epoch) and (c["form"] == "average" or r.N == 1):
            r.evaluate(epoch, mean)
            del r.consensus[epoch]


SYNCHRONOUS = {"serial": allreduce, "allreduce": allreduce, "adasum": allreduce, "model_parallel": allreduce,
               "hybrid": allreduce, "periodic": periodic, "gossip": gossip, "sparta": sparta, "adpsgd": adpsgd,
               "bsp": bsp}
STRATEGIES = ["serial", "allreduce", "adasum", "model_parallel", "hybrid", "periodic", "gossip", "sparta", "adpsgd", "bsp",
              "easgd", "asgd", "downpour", "ssp"]


# ---- Random configurations ---------------------------------------------------


def draw_optimizer(rnd, updater, few):
    names = [o for o in OPTIMIZERS if o in NORMALISES or not few]
    name = rnd.choice(names) if updater is None or updater in CHANGES else "sgd"
    o = {"name": name, "momentum": 0.0, "eps": {"adagrad": 1e-10, "lamb": 1e-6}.get(name, 1e-8)}
    words = [f"--optimizer={name}"]
    if name == "lars":
        o["trust"] = rnd.choice([0.001, 0.1])
        words.append(f"--lars.trust={o['trust']}")
    if name in ("sgd", "nesterov", "lars") and updater != "adam":
        o["momentum"] = rnd.choice([0.5, 0.9] if name == "nesterov" else [0.0, 0.5, 0.9])
        words.append(f"--momentum={o['momentum']}")
    if name in ("adamw", "lion", "lamb"):
        o["beta1"], o["beta2"] = rnd.choice([0.9, 0.8]), rnd.choice([0.99, 0.95, 0.9 if name == "lion" else 0.999999])
        words += [f"--{name}.beta1={o['beta1']}", f"--{name}.beta2={o['beta2']}"]
    if name == "muon":
        o.update(momentum=0.95, rest=rnd.choice([0.05, 0.5]), beta1=0.9, beta2=0.999)
        words.append(f"--muon.rest={o['rest']}")
    return o, words


OUTER = {"adamw": {"beta1": 0.8, "beta2": 0.95, "eps": 1e-4}, "adagrad": {"eps": 1e-3},
         "lion": {"beta1": 0.9, "beta2": 0.9}, "muon": {"rest": 0.5, "eps": 1e-4}}


def draw_outer(rnd, c, words):
    """The outer optimiser of periodic. One that normalises needs changes of models that do not cancel out."""
    plain = c["optimizer"]["name"] in ("sgd", "nesterov")
    c["outer"] = how = rnd.choice(["none", "none", "momentum", "sgd", "nesterov"] + list(OUTER) * plain)
    c["outer_lr"], c["outer_momentum"] = rnd.choice([0.7, 1.0]), rnd.choice([0.3, 0.9])
    c["outer_optimizer"] = None
    if how in OUTER:
        c["outer_lr"], c["outer_optimizer"] = 0.01, {"name": how, "momentum": 0.95, "beta1": 0.9, "beta2": 0.999}
        c["outer_optimizer"].update(OUTER[how])
        how += "".join(f":{n}={v}" for n, v in OUTER[how].items())
    elif how != "none":
        words.append(f"--periodic.outer-momentum={c['outer_momentum']}")
    words += [f"--periodic.outer={how}"] + [f"--periodic.outer-lr={c['outer_lr']}"] * (how != "none")


def draw_rounds(rnd, c, words, few):
    """Fragments, a delay and a mix, or groups, of periodic."""
    c.update(fragments=1, delay=0, mix=0.0, eager=False, team=0, team_every=1)
    kind = rnd.choice([""] * (not few) + ["streams", "groups"])
    if kind == "streams" and c["schedule"] == "fixed" and c.get("state", "keep") == "keep":
        c["fragments"], c["mix"] = rnd.choice([1, 2 - (c["outer"] == "muon")]), rnd.choice([0.0, 0.5])
        c["eager"] = not c["outer_optimizer"] and rnd.random() < 0.4
        c["delay"] = c["sync_every"] if c["eager"] else rnd.randint(0, c["sync_every"])
        words += [f"--periodic.fragments={c['fragments']}", f"--periodic.mix={c['mix']}",
                  f"--periodic.delay={c['delay']}", f"--periodic.eager={str(c['eager']).lower()}",
                  f"--periodic.layout={rnd.choice(['strides', 'neighbours'])}"]
    if kind == "groups" and c["workers"] % 2 == 0 and c.get("state") != "average":
        c["team"], c["team_every"] = 2, rnd.randint(1, 3)
        words += [f"--periodic.group={c['team']}", f"--periodic.group-every={c['team_every']}"]


def draw_end(rnd, c, words, rows, ordered, few):
    """Accumulation, an average of models, and another end of the run."""
    c.update(steps=0, tokens=0, accumulate=1, ema=0)
    if not ordered and not few and rnd.random() < 0.3:
        c["accumulate"] = rnd.choice([2, 3])
        words.append(f"--accumulate={c['accumulate']}")
    if c["strategy"] in ("serial", "allreduce", "adasum", "model_parallel", "hybrid") and rnd.random() < 0.3:
        c["ema"] = rnd.choice([0.5, 0.9, 1])
        words.append(f"--ema={c['ema']}")
    end = "" if ordered or few else rnd.choice(["", "", "steps", "tokens"])
    if end:
        c[end] = rnd.randint(1, 20 if end == "steps" else 3 * rows)
        words.append(f"--{end}={c[end]}")
    else:
        words.append(f"--epochs={c['epochs']}")


def draw_schedule(rnd, epochs):
    shape = rnd.choice(["constant", "constant", "step", "cosine", "cosine:0.2"])
    warmup = rnd.choice([0, 0, 1, 1.5])
    if shape == "step":
        shape = "step:1:x0.5"
    return (f"warmup:{warmup}+{shape}" if warmup else shape)


def lr_of(c, t):
    """The learning rate after t epochs."""
    models = c["workers"] // c.get("group", 1)
    lr = c["lr"] * {"none": 1, "linear": models, "sqrt": models**0.5}[c["lr_scale"]]
    warmup, text = 0.0, c["lr_schedule"]
    if text.startswith("warmup:"):
        head, text = text.split("+")
        warmup = float(head.split(":")[1])
    if text.startswith("step") and t >= 1:
        lr *= 0.5
    if text.startswith("cosine") and t > warmup:
        floor = float(text.split(":")[1]) if ":" in text else 0.0
        way = min(1, (t - warmup) / (c["length"] - warmup)) if c["length"] > warmup else 1
        lr *= floor + (1 - floor) * (1 + np.cos(np.pi * way)) / 2
    return lr * (0.1 + 0.9 * t / warmup) if t < warmup else lr


def draw(rnd, only, few):
    s = rnd.choice([only] if only else STRATEGIES)
    N = 1 if s == "serial" else rnd.choice([4, 4, 5] if few else [1, 2, 2, 3, 4, 5])
    c = {"strategy": s, "workers": N, "updater": "add", "state": "keep", "by": {}, "seed": rnd.randint(1, 10**6),
         "deal": "static", "classes": rnd.choice([0, 0, 3]), "scale": 1.0}
    words, tables = [], s in ("bsp", "asgd", "ssp", "downpour")
    if tables:
        u = c["updater"] = rnd.choice(UPDATERS)
        by = c["by"] = {"rho": rnd.choice([0.01, 0.05]), "lambda": rnd.choice([0.1, 0.5]), "square": 0.9,
                        "beta1": rnd.choice([0.9, 0.5]), "beta2": rnd.choice([0.99, 0.999999]), "eps": 1e-8,
                        "outer-lr": rnd.choice([0.3, 0.7]), "outer-momentum": rnd.choice([0.5, 0.9]),
                        "spread": rnd.choice([0, 0.1])}
        words += [f"--{s}.updater={u}"] + [f"--{s}.{n}={v}" for n, v in by.items()]
    if s in ("model_parallel", "hybrid"):
        c["group"] = N if s == "model_parallel" else rnd.choice([g for g in (1, 2, 3, 4, 5) if N % g == 0])
    c["optimizer"], more = draw_optimizer(rnd, c["updater"] if tables else None, few)
    if c.get("group", 1) > 1 and c["optimizer"]["name"] in ("muon", "lamb", "lars"):
        c["optimizer"], more = {"name": "sgd", "momentum": 0.9}, ["--optimizer=sgd", "--momentum=0.9"]
    normalises = c["optimizer"]["name"] in NORMALISES or c["updater"] == "adam"
    words += more
    c["epochs"], c["sync_every"] = rnd.randint(1, 4) + 6 * few, rnd.choice([2, 3, 5] if few else [1, 1, 2, 3, 5])
    c["barrier_every"] = rnd.choice([0, 1, 1, 2])
    c["batch"], c["global_batch"] = 1 if few else rnd.choice([1, 1, 2, 3, 5]), 0
    rows = rnd.choice([N + 1, 9, 11] if few else [N, N + 1, 2 * N + 1, 9, 11, 23, 40])
    if not few and rnd.random() < 0.3 and s not in ("asgd", "ssp", "downpour", "easgd", "adpsgd"):
        c["global_batch"] = rnd.randint(N, 3 * N)
    c["lr"] = rnd.choice([0.002, 0.01]) if normalises else rnd.choice([0.01, 0.05])
    c["lr_schedule"], c["lr_scale"] = draw_schedule(rnd, c["epochs"]), rnd.choice(["none", "none", "linear", "sqrt"])
    c["clip"] = rnd.choice([0, 0, 0.5])
    c["weight_decay"], c["decay"] = rnd.choice([0, 0.01, 0.1]), rnd.choice(["all", "weights"])
    if s == "adpsgd" and c["optimizer"]["name"] not in COUPLED:  # by a model that the log does not have
        c["weight_decay"] = 0
    averages = s in ("gossip", "sparta", "serial", "easgd", "adpsgd")
    c["reduce"] = "mean" if averages else rnd.choice(["mean", "mean", "sum"])
    kept = c["optimizer"]["name"] not in ("sgd", "lars") or c["optimizer"]["momentum"] > 0
    if kept and (s in ("periodic", "gossip", "easgd", "adpsgd") or (tables and c["updater"] in CHANGES)):
        c["state"] = rnd.choice(["keep", "keep", "reset"] + (["average"] if s == "periodic" else []))
    how = rnd.choice(["", "codec", "overlap", "overlap", "hierarchical"]) if s == "allreduce" else ""
    if how == "overlap":
        c["late_step"] = rnd.random() < 0.5
        words += [f"--allreduce.overlap={'next' if c['late_step'] else 'true'}", "--allreduce.bucket=16"]
    elif how == "hierarchical":
        words.append("--allreduce.hierarchical")
    elif how:
        c["topk"], c["feedback"] = rnd.choice([0.03, 0.2, 0.5]), rnd.random() < 0.7
        words += ["--codec=topk", f"--topk.share={c['topk']}", f"--codec.feedback={str(c['feedback']).lower()}"]
    splits = ["shuffled"] * 3 + ["fixed"] + ["dirichlet:0.3", "dirichlet_classes:0.3"] * (c["classes"] > 0)
    c["split"] = rnd.choice(splits)
    if s == "hybrid":
        words.append(f"--hybrid.group={c['group']}")
    if s == "periodic":
        c["start"], c["schedule"] = rnd.choice([0, 0, 2, 5]), rnd.choice(["fixed", "fixed"] + ["down", "up"] * (not few))
        words += [f"--periodic.start={c['start']}", f"--periodic.schedule={c['schedule']}"]
        draw_outer(rnd, c, words)
        draw_rounds(rnd, c, words, few)
    if s == "sparta":
        c["share"] = rnd.choice([1, 0.5, 0.3, 0.1, 0.02])
        words.append(f"--sparta.share={c['share']}")
    if s == "gossip":
        c["schedule"] = rnd.choice(["ring", "pairs", "neighbours", "torus", "one_peer", "exponential", "complete"]
                                   + ["hypercube"] * (N & (N - 1) == 0))
        c["order"] = rnd.choice(["after", "before"])
        c["outer_lr"], c["outer_momentum"] = rnd.choice([(1.0, 0.0), (0.7, 0.5)])
        words += [f"--gossip.schedule={c['schedule']}", f"--gossip.order={c['order']}",
                  f"--gossip.outer-lr={c['outer_lr']}", f"--gossip.outer-momentum={c['outer_momentum']}"]
    if s == "easgd":
        c["beta"], c["order"] = rnd.choice([0.3, 0.9]), rnd.choice(["after", "together"])
        c["form"] = rnd.choice(["synchronous", "asynchronous"])
        words += [f"--easgd.beta={c['beta']}", f"--easgd.order={c['order']}", f"--easgd.form={c['form']}"]
        continuous = c["optimizer"]["name"] in ("sgd", "nesterov")  # of others many floats make equal steps: ties
        if c["form"] == "asynchronous" and N > 1 and continuous and rnd.random() < 0.6:
            c["topk"] = rnd.choice([0.03, 0.2, 0.5])
            words += ["--codec=topk", f"--topk.share={c['topk']}"]
    if s == "adpsgd":
        c["form"] = rnd.choice(["average", "average", "average", "push"])
        words += [f"--adpsgd.graph={rnd.choice(['complete', 'neighbours', 'torus', 'exponential'])}",
                  f"--adpsgd.form={c['form']}"]
    if s == "ssp":
        words.append(f"--ssp.bound={rnd.choice([1, 2, 50])}")
    if s == "downpour":
        c["send"] = rnd.choice([0, 1, 2, 4])
        words.append(f"--downpour.send={c['send']}")
    if s == "bsp" and N > 1 and rnd.random() < 0.5:
        c["backup"] = rnd.randint(1, N - 1)
        c["late"] = rnd.choice(["drop", "join"])
        words += [f"--bsp.backup={c['backup']}", f"--bsp.late={c['late']}"]
        words += [f"--bsp.grace={rnd.choice(['0s', '1ms', '100ms'])}"] if c["late"] == "join" else []
        c["global_batch"], c["barrier_every"] = 0, 1
    ordered = s in ("asgd", "ssp", "downpour") or (s == "easgd" and c["form"] == "asynchronous") or "backup" in c
    sim = ordered or rnd.random() < 0.3
    if sim:
        words += ["--platform=sim", "--sim.platform=ethernet_10g", "--sim.step-time=1ms"]
        words += ["--straggle=0.5"] if ordered or s == "adpsgd" else []
    if ordered or s == "adpsgd":
        c["deal"] = rnd.choice(["dynamic", "dynamic", "static"])
        words += ["--record"] * ordered + [f"--deal={c['deal']}"]
    if ordered or s in ("bsp", "adpsgd"):
        homes = ["--table-home=shared"] * 2
        if "backup" not in c:  # the record of a server does not say when rounds end
            homes += ["--servers=1"]
        if not ordered and (c["updater"] in ADDITIVE or s == "adpsgd"):  # one-sided pushes have no order to record
            homes += ["--table-home=onesided"]
        home = rnd.choice(homes)
        words.append(home)
        words += ["--sim.platform=gpu8_nvlink"] if sim and "shared" in home else []
    words += [f"--{n.replace('_', '-')}={c[n]}" for n in
              ("strategy", "workers", "sync_every", "barrier_every", "lr", "lr_schedule", "lr_scale", "clip",
               "weight_decay", "decay", "reduce", "state", "split", "seed")]
    draw_end(rnd, c, words, rows, ordered, few)
    if c["clip"] and how != "overlap" and c["accumulate"] == 1:  # net.c multiplies when sums of layers have begun
        c["scale"] = rnd.choice([1.0, 1e18, 1e20, 1e30])
    words += [f"--train-rows={rows}", f"--oracle.scale={c['scale']:g}"]
    words.append(f"--global-batch={c['global_batch']}" if c["global_batch"] else f"--batch={c['batch']}")
    return c, words, ordered


# ---- One comparison ----------------------------------------------------------


def compare(c, folder, ordered):
    use_model(c["classes"])
    r = Run(c, folder)
    c["length"] = c["epochs"] if ordered else steps_of_run(r) / r.steps
    c["epochs"] = int(np.ceil(c["length"]))
    db = sqlite3.connect(f"{folder}/oracle.db")
    if ordered:
        by_record = backup if "backup" in c else asynchronous
        by_record(r, db.execute("SELECT worker, kind FROM arrival WHERE table_id = 0 AND shard = 0 "
                                "ORDER BY seq").fetchall())
    elif c["strategy"] == "easgd":
        easgd_together(r)
    else:
        SYNCHRONOUS[c["strategy"]](r)
    for k in range(r.N if not ordered and c["deal"] == "static" else 0):
        for s in r.step[k]:
            t = (s["step"] - 1) / r.steps
            r.differs(f"learning rate of step {s['step']}", lr_of(c, t), s["lr"], s["lr"] or c["lr"])
    for epoch, loss, distance in db.execute("SELECT epoch, test_loss, consensus FROM epoch WHERE epoch > 0"):
        if epoch in r.loss:
            r.differs(f"test loss of epoch {epoch}", r.loss[epoch], loss, abs(loss))
        mine = r.consensus.get(epoch, distance)
        if (mine is None) != (distance is None):
            raise Differs(f"consensus of epoch {epoch}: {mine}, recorded {distance}")
        if mine is not None:  # a difference of models, whose errors are those of their parameters
            r.differs(f"consensus of epoch {epoch}", mine, distance, distance + 0.01 * np.linalg.norm(r.start))
    r.check_rows(db.execute("SELECT worker, class, rows FROM shard").fetchall(), ordered)
    db.close()
    return r.worst


def main():
    p = argparse.ArgumentParser(description="Recomputes random runs of mvbench in float64.")
    p.add_argument("--count", type=int, default=200)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--mvbench", default="mvbench")
    p.add_argument("--only", choices=STRATEGIES)
    p.add_argument("--few", action="store_true", help="only steps with fewer rows than workers, where that matters")
    p.add_argument("--keep", action="store_true", help="keep the folders of runs that differ")
    a = p.parse_args()
    net, wrong, diverged, worst = os.path.join(os.path.dirname(os.path.abspath(__file__)), "net.c"), 0, 0, 0.0
    for i in range(a.seed, a.seed + a.count):
        before = wrong
        c, words, ordered = draw(random.Random(i), a.only, a.few)
        folder = tempfile.mkdtemp(prefix="oracle.")
        command = [a.mvbench, "run", f"--workload={net}", f"--db={folder}/oracle.db"] + words
        env = dict(os.environ, ORACLE_LOG=folder, ORACLE_CLASSES=str(c["classes"]))
        done = subprocess.run(command, env=env, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False)
        try:
            if done.returncode == 3:
                diverged += 1
                continue
            if done.returncode:
                raise Differs(f"exit status {done.returncode}: {done.stdout[-500:]}")
            worst = max(worst, compare(c, folder, ordered))
        except Differs as e:
            wrong += 1
            print(f"oracle: seed {i}: {e}\n  mvbench run --workload=net.c {' '.join(words)}", flush=True)
            if a.keep:
                print(f"  {folder}")
        finally:
            if not (a.keep and wrong > before):
                shutil.rmtree(folder)
    print(f"oracle: {a.count} runs, {wrong} differ, {diverged} diverged; largest relative difference of the others "
          f"{worst:.1e}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
