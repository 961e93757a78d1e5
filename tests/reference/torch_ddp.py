#!/usr/bin/env python3
"""torch_ddp.py FILE STEPS WORKERS LR [BATCH]: trains the PyTorch model of a Python workload with
DistributedDataParallel (gloo), or in a plain loop if WORKERS is 1. SGD with momentum 0.9.

Without BATCH each step takes the whole training set, in equal parts, and the program prints the loss on the test set.
With BATCH each worker takes so many random rows a step. The program prints the samples a second of all workers
together, over STEPS steps after a tenth as many.
"""
import importlib.util
import os
import socket
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def worker(rank, path, steps, workers, lr, batch, port):
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    spec = importlib.util.spec_from_file_location("workload", path)
    file = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(file)
    (x, y), (test_x, test_y) = (map(torch.as_tensor, part) for part in file.data())
    torch.manual_seed(1)
    model = parallel = file.model()
    if workers > 1:
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
        dist.init_process_group("gloo", rank=rank, world_size=workers)
        parallel = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    loss = torch.nn.functional.cross_entropy
    first, end = (len(x) * k // workers for k in (rank, rank + 1))
    rows = slice(first, end)
    for step in range(-(steps // 10) if batch else 0, steps):
        if step == 0:
            began = time.perf_counter()
        if batch:
            rows = torch.randint(first, end, (batch,))
        optimizer.zero_grad()
        loss(parallel(x[rows]), y[rows]).backward()
        optimizer.step()
    if rank == 0 and batch:
        print('{"samples_per_second": %.6g}' % (workers * batch * steps / (time.perf_counter() - began)))
    elif rank == 0:
        with torch.no_grad():
            print("%.9g" % loss(model(test_x), test_y).item())
    if workers > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    path, steps, workers, lr = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
    batch = int(sys.argv[5]) if len(sys.argv) > 5 else 0
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        free = s.getsockname()[1]
    words = (path, steps, workers, lr, batch, free)
    worker(0, *words) if workers == 1 else mp.spawn(worker, words, workers)
