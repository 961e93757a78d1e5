#!/usr/bin/env python3
"""torch_ddp.py FILE STEPS WORKERS LR: trains the PyTorch model of a Python workload with DistributedDataParallel (gloo).

Each step takes the whole training set, in equal parts; SGD with momentum 0.9. Prints the loss on the test set.
"""
import importlib.util
import os
import socket
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def worker(rank, path, steps, workers, lr, port):
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    spec = importlib.util.spec_from_file_location("workload", path)
    file = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(file)
    (x, y), (test_x, test_y) = file.data()
    torch.manual_seed(1)
    model = file.model()
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=workers)
    parallel = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    loss = torch.nn.functional.cross_entropy
    first, end = (len(x) * k // workers for k in (rank, rank + 1))
    for _ in range(steps):
        optimizer.zero_grad()
        loss(parallel(x[first:end]), y[first:end]).backward()
        optimizer.step()
    if rank == 0:
        with torch.no_grad():
            print("%.9g" % loss(model(test_x), test_y).item())
    dist.destroy_process_group()


if __name__ == "__main__":
    path, steps, workers, lr = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        free = s.getsockname()[1]
    mp.spawn(worker, (path, steps, workers, lr, free), workers)
