"""gradients.py - a network in PyTorch, trained by two workers with mvbench.Gradients and with DistributedDataParallel
over gloo: the same losses, and how fast each is.

    mpirun -n 2 python3 gradients.py [STEPS [BATCH [mlp|wide]]]

Default: 200 steps, batch 32 on each worker, mlp. mlp has 101,770 parameters, wide 6.3 million. Worker 0 prints
"gradients N samples/s, DDP M samples/s, losses differ by at most D". From 20 steps on the two alternate five times.
"""
import os
import sys
import time

import torch
import torch.distributed
import torch.nn.functional as F

import mvbench

words = sys.argv[1:] + ["200", "32", "mlp"][len(sys.argv) - 1:]
steps, batch = int(words[0]), int(words[1])
sizes, rate = {"mlp": ((784, 128, 10), 0.05), "wide": ((1024, 2048, 2048, 10), 0.002)}[words[2]]
mvbench.init()
rank, workers = mvbench.rank(), mvbench.size()
torch.set_num_threads(1)
port = torch.zeros(1)
if mvbench.is_master():
    import socket
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port[0] = s.getsockname()[1]  # at most 65535, exact as a float
mvbench.broadcast(port)
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(int(port[0])))
torch.distributed.init_process_group("gloo", rank=rank, world_size=workers)


def make(share):
    """The model, its forward function, and its optimiser; share: how its gradients are averaged."""
    torch.manual_seed(1)
    layers = [layer for pair in zip(sizes, sizes[1:]) for layer in (torch.nn.Linear(*pair), torch.nn.ReLU())]
    model = torch.nn.Sequential(*layers[:-1])
    return share(model), model, torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9)


random = torch.Generator().manual_seed(rank + 1)
data = [(torch.rand(batch, sizes[0], generator=random), torch.randint(10, (batch,), generator=random))
        for _ in range(8)]


def train(forward, model, sgd):
    """Seconds, and the loss of every step."""
    losses, start = [], time.perf_counter()
    for k in range(steps):
        x, label = data[k % len(data)]
        sgd.zero_grad(set_to_none=k % 2 == 1)  # both ways
        loss = F.cross_entropy(forward(x), label)
        loss.backward()
        sgd.step()
        losses.append(loss.detach())
    return time.perf_counter() - start, torch.stack(losses)


ddp = make(torch.nn.parallel.DistributedDataParallel)
shared, model, sgd = make(mvbench.Gradients)
seconds, losses = train(model, model, sgd)
ddp_seconds, ddp_losses = train(*ddp)
differ = (losses - ddp_losses).abs().max()
if not differ <= 1e-5 or (steps >= 200 and not losses[-1] < losses[0]):
    raise SystemExit(f"worker {rank}: losses {losses[0]:.4f} to {losses[-1]:.4f} differ by {differ:.2g} from DDP's")
samples = steps * batch * workers
# warm, alternating: the median of five
times = [(train(model, model, sgd)[0], train(*ddp)[0]) for _ in range(5)] if steps >= 20 else [(seconds, ddp_seconds)]
own, other = (sorted(t)[len(times) // 2] for t in zip(*times))
if mvbench.is_master():
    print(f"gradients {samples / own:.0f} samples/s, DDP {samples / other:.0f} samples/s, "
          f"losses differ by at most {differ:.2g}")
shared.free()
mvbench.shutdown()
