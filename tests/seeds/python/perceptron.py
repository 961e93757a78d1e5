"""perceptron.py - flashlight's distributed perceptron (seed 003): 10 -> 100 -> 1 with ReLU on y = sum x^3 + sin(2 pi
u), squared error, batches of one, lr 1e-4, momentum 0.9, 10,000 samples over all workers; the gradients are averaged
in every step. tests/seeds/perceptron.c does the same in C.

    mpirun -n 2 python3 perceptron.py [EPOCHS [torch]]        default: 5 epochs, with NumPy

flashlight publishes, for 2 workers: 20.2124 5.28266 2.91948 2.50887 2.25293. Different on purpose: all workers start
with worker 0's model, not with the mean of different ones, which is smaller.
"""
import sys

import numpy as np

import mvbench

IN, HIDDEN, SAMPLES, LR, MOMENTUM = 10, 100, 10000, 1e-4, 0.9


def make_data(random, samples):
    x = random.random((samples, IN), np.float32) + 1
    y = (x**3).sum(axis=1) + np.sin(2 * np.pi * random.random(samples, np.float32))
    return x, y.astype(np.float32)


def draw(random):
    shapes = (HIDDEN, IN), (HIDDEN,), (HIDDEN,), (1,)
    return [random.uniform(-1, 1, s).astype(np.float32) / np.float32(np.sqrt(n))
            for s, n in zip(shapes, (IN, IN, HIDDEN, HIDDEN))]


class NumpyModel:
    """The step in NumPy: each gradient is made ready as soon as it is complete, from the last to the first."""
    def __init__(self, params):
        self.params, self.moments = params, [np.zeros_like(p) for p in params]
        self.grads = [np.zeros_like(p) for p in params]
        self.shared = mvbench.Gradients(self.grads)

    def step(self, x, y):
        w1, b1, w2, b2 = self.params
        h = np.maximum(w1 @ x + b1, 0)
        error = w2 @ h + b2[0] - y
        into_hidden = np.where(h > 0, 2 * error * w2, 0)
        for i, g in (3, 2 * error), (2, 2 * error * h), (1, into_hidden), (0, np.outer(into_hidden, x)):
            self.grads[i][...] = g
            self.shared.ready(i)
        self.shared.wait()
        for p, v, g in zip(self.params, self.moments, self.grads):
            v *= MOMENTUM
            v += g
            p -= np.float32(LR) * v
        return error * error


class TorchModel:
    """The same in PyTorch: backward() averages the gradients."""
    def __init__(self, params):
        import torch
        torch.set_num_threads(1)
        self.torch = torch
        self.net = torch.nn.Sequential(torch.nn.Linear(IN, HIDDEN), torch.nn.ReLU(), torch.nn.Linear(HIDDEN, 1))
        for p, value in zip(self.net.parameters(), params):
            p.data.copy_(torch.from_numpy(value).view_as(p))
        self.shared = mvbench.Gradients(self.net)
        self.sgd = torch.optim.SGD(self.net.parameters(), lr=LR, momentum=MOMENTUM)

    def step(self, x, y):
        self.sgd.zero_grad()
        loss = (self.net(self.torch.from_numpy(x))[0] - float(y))**2
        loss.backward()
        self.sgd.step()
        return loss.item()


epochs = int(sys.argv[1]) if len(sys.argv) > 1 else 5
mvbench.init()
random = np.random.default_rng(mvbench.rank() + 1)
x, y = make_data(random, SAMPLES // mvbench.size())
params = draw(random)
for p in params:
    mvbench.broadcast(p)
model = (TorchModel if "torch" in sys.argv[2:] else NumpyModel)(params)
for epoch in range(1, epochs + 1):
    mse = np.array([sum(model.step(x[r], y[r]) for r in range(len(x))) / len(x)], np.float32)
    mvbench.all_reduce(mse, "mean")
    if mvbench.is_master():
        print(f"Epoch: {epoch} Mean Squared Error: {mse[0]:g}")
model.shared.free()
mvbench.shutdown()
if not (mse[0] < 40 if epochs < 5 else 0.5 < mse[0] < 6):
    raise SystemExit(f"mean squared error {mse[0]}; expected 0.5 to 6 after five epochs")
