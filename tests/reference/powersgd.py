#!/usr/bin/env python3
"""The sum of what PowerSGD of rank 2 decodes of 12 matrices with feedback: powersgd.py FILE ROWS COLUMNS SKIP [torch]

FILE has the first Q^T. Matrix k is sin(i (i + k)) for its floats i; SKIP floats follow it. Computed by NumPy in float64
from algorithm 1 of arXiv 1905.13727, or with `torch` by PyTorch's powerSGD_hook under DistributedDataParallel.
"""
import sys
import tempfile

import numpy as np

RANK, MESSAGES = 2, 12


def numpys(q, given):
    kept = sums = 0
    for m in given:
        m = m + kept
        p = np.linalg.qr(m @ q)[0]
        q = m.T @ p
        kept = m - p @ q.T
        sums = sums + p @ q.T
    return sums


def torchs(q, given):
    import torch
    from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as hook

    class Weights(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = torch.nn.Parameter(torch.zeros(given[0].shape))

        def forward(self, gradient):
            return (self.w * gradient).sum()

    with tempfile.TemporaryDirectory() as folder:
        torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/ranks", rank=0, world_size=1)
        net = torch.nn.parallel.DistributedDataParallel(Weights())
        state = hook.PowerSGDState(None, matrix_approximation_rank=RANK, start_powerSGD_iter=2)
        net.register_comm_hook(state, hook.powerSGD_hook)
        state.p_memory_dict[0] = torch.zeros(given[0].shape[0] * RANK)
        state.q_memory_dict[0] = torch.tensor(q, dtype=torch.float32).flatten()
        sums = torch.zeros(given[0].shape)
        for k, m in enumerate([given[0]] * 2 + given):  # the hook sends the first two whole
            net.zero_grad()
            net(torch.tensor(m, dtype=torch.float32)).backward()
            if k >= 2:
                sums += net.module.w.grad
        torch.distributed.destroy_process_group()
    return sums.numpy()


def main():
    rows, columns, skip = map(int, sys.argv[2:5])
    q = np.loadtxt(sys.argv[1]).reshape(RANK, columns).T
    i = np.arange(rows * columns + skip)
    given = [np.sin((i * (i + k)).astype(np.float32)).astype(float)[: rows * columns] for k in range(MESSAGES)]
    sums = (torchs if "torch" in sys.argv else numpys)(q, [m.reshape(rows, columns) for m in given])
    print("\n".join("%.9g" % v for v in sums.ravel()))


main()
