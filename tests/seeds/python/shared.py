"""shared.py - the calls of Multiverso's Python page (seed 002): shared variables that are synchronised one by one
and all together, and a manager for the parameters of a model.

    mpirun -n 4 python3 shared.py [torch]           arrays of NumPy, or tensors of PyTorch

Different on purpose: the page initialises a variable on one process, with zeros on the others. Here every worker
gets the master's values. Prints one line if all values are as expected.
"""
import sys

import mvbench

if "torch" in sys.argv:
    import torch

    def full(shape, value):
        return torch.full(shape, float(value))
else:
    import numpy as np

    def full(shape, value):
        return np.full(shape, value, np.float32)


def expect(array, value, what):
    if not bool((array == value).all()):
        raise SystemExit(f"worker {mvbench.rank()}: {what} is {array}; expected {value}")


mvbench.init()
me, workers = mvbench.rank(), mvbench.size()

# Two shared variables. Worker k changes W by k + 1, and b by 1.
W = mvbench.Shared(full((784, 10), 5 + me))
b = mvbench.Shared(full((10,), 0))
expect(W.value, 5, "W at the start")
W.value += me + 1
W.sync()
b.value += 1
mvbench.sync_all()
mvbench.barrier()
mvbench.sync_all()
expect(W.value, 5 + workers * (workers + 1) / 2, "W")
expect(b.value, workers, "b")

# The parameters of a model as one table.
layers = [full(shape, i + 100 * me) for i, shape in enumerate([(6, 5), (5,), (5, 3), (3,)])]
model = mvbench.Model(layers)
for i, layer in enumerate(layers):
    expect(layer, i, f"layer {i} at the start")
for step in range(20):  # "training"
    for layer in layers:
        layer += me + 1
    model.sync()
mvbench.barrier()
model.pull()
for i, layer in enumerate(layers):
    expect(layer, i + 20 * workers * (workers + 1) / 2, f"layer {i}")

if mvbench.is_master():
    print(f"2 shared variables, {len(layers)} layers, {workers} workers: all as expected")
mvbench.shutdown()
