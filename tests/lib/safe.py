"""safe.py - mvbench.Gradients in the cases where averaging goes wrong without a word. Where DistributedDataParallel
over gloo works, parameters and buffers have to end as DDP's.

    mpirun -n 2 python3 safe.py             prints "done" on worker 0 if all checks pass
"""
import contextlib
import copy
import io
import os
import socket
import threading

import torch
import torch.distributed
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

import mvbench

mvbench.init()
me, workers = mvbench.rank(), mvbench.size()
torch.set_num_threads(1)
port = torch.zeros(1, dtype=torch.int64)
if me == 0:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port[0] = s.getsockname()[1]
mvbench.broadcast(port)
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(int(port)))
torch.distributed.init_process_group("gloo", rank=me, world_size=workers)
mean_rank = (workers - 1) / 2


def net(seed=None, **kind):
    """Other values on each worker, unless there is a seed."""
    torch.manual_seed(me + 1 if seed is None else seed)
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 3)).to(**kind)


random = torch.Generator().manual_seed(me + 10)
data = [torch.rand(5, 6, generator=random) for _ in range(8)]


def train(forward, model, steps=6, accumulate=1, guard=None, dtype=None, clear=True, backward=torch.Tensor.backward,
          device=None):
    sgd = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for k in range(steps):
        sgd.zero_grad(set_to_none=clear)
        for part in range(accumulate):
            with guard() if guard and part < accumulate - 1 else contextlib.nullcontext():
                backward((forward(data[k % 8].to(device=device, dtype=dtype))**2).sum())
        sgd.step()


def state(model):
    return [t.detach().cpu().double().reshape(-1) for t in model.state_dict().values()]


def same(a, b, most, what):
    differ = max(float((x - y).abs().max()) for x, y in zip(state(a), state(b)))
    if not differ <= most:
        raise SystemExit(f"worker {me}: {what} differs by {differ:g}")


def equal_everywhere(model, what):
    flat = torch.cat(state(model))
    low, high = (mvbench.all_reduce(flat.clone(), op) for op in ("min", "max"))
    if not torch.equal(low, high):
        raise SystemExit(f"worker {me}: {what} differs over the workers by {(high - low).max():g}")


def pair(make, what, most=1e-6, options=None, ddp=None, dtype=torch.float32, device=None, **how):
    """The same training with Gradients and with DDP."""
    model = make()
    other = copy.deepcopy(model)
    shared = mvbench.Gradients(model, **(options or {}))
    train(model, model, guard=shared.no_sync, dtype=dtype, device=device, **how)
    wrapped = DistributedDataParallel(other, **(ddp or {}))
    train(wrapped, other, guard=wrapped.no_sync, dtype=dtype, device=device, **how)
    with torch.no_grad():  # DDP's buffers get worker 0's before the next step
        wrapped(data[0].to(device, dtype)), model(data[0].to(device, dtype))
    same(model, other, most, what)
    shared.free()


def refused(words, kind, f):
    try:
        f()
    except kind as error:
        if words in str(error):
            return
        raise SystemExit(f"worker {me}: '{error}'; expected '{words}'") from error
    raise SystemExit(f"worker {me}: no error; expected '{words}'")


# Other draws on each worker, the buffers of batch normalisation, accumulation, types, zero_grad both ways.
pair(net, "the model")
pair(net, "the model with zeroed gradients", clear=False)
pair(net, "accumulation", accumulate=3)
pair(lambda: net(dtype=torch.float64), "a model of float64", most=1e-14, dtype=torch.float64)
modern = hasattr(torch.Tensor, "register_post_accumulate_grad_hook")  # 2.1, with which the rest of this came
if modern:  # gloo has bfloat16
    pair(lambda: net(dtype=torch.bfloat16), "a model of bfloat16", most=0.1, dtype=torch.bfloat16)
if torch.cuda.is_available():  # through pinned memory of the host
    pair(lambda: net(device="cuda"), "a model on a GPU", most=1e-5, device="cuda")
    pair(lambda: net(device="cuda", dtype=torch.bfloat16), "a model of bfloat16 on a GPU", most=0.1, device="cuda",
         dtype=torch.bfloat16)
    assert mvbench.all_reduce(torch.full((2,), me + 1., device="cuda")).tolist() == [workers * (workers + 1) / 2] * 2
    assert mvbench.broadcast(torch.tensor([me + 3], device="cuda")).item() == 3


def elsewhere(loss):
    t = threading.Thread(target=loss.backward)
    t.start()
    t.join()


pair(net, "backward() on another thread", backward=elsewhere)


class Branches(nn.Module):
    """Worker 0 uses only the first branch, the others both; no worker uses the third."""
    def __init__(self, all_alike=False):
        super().__init__()
        self.a, self.b, self.c, self.alike = nn.Linear(6, 3), nn.Linear(6, 3), nn.Linear(6, 3), all_alike

    def forward(self, x):
        return self.a(x) + (self.b(x) if me or self.alike else 0)


pair(Branches, "a model with unused parameters", options={"unused": True}, ddp={"find_unused_parameters": True})
model = Branches()
shared = mvbench.Gradients(model)
refused("were not made ready", mvbench.Error, lambda: model(data[0]).sum().backward())
shared.free()

# Not kept, on a copy, replaced parameters, another type.
model = net()
mvbench.Gradients(model)
ema = copy.deepcopy(model)
torch.save(model, io.BytesIO())
ema(data[0]).sum().backward()  # of this worker alone: the copy has no hooks
train(model, model)
equal_everywhere(model, "a model whose Gradients are not kept")
if modern:
    model.load_state_dict(net(seed=5).state_dict(), assign=True)
else:
    model[0].weight = nn.Parameter(net(seed=5)[0].weight.detach())
train(model, model)
equal_everywhere(model, "a model with replaced parameters")
model.double()
train(model, model, dtype=torch.float64)
equal_everywhere(model, "a model that has become float64")
torch.manual_seed(me)
model[0] = nn.Linear(6, 8, dtype=torch.float64)
train(model, model, dtype=torch.float64)
equal_everywhere(model, "a model with a replaced layer")
model.append(nn.Linear(3, 2, dtype=torch.float64))
train(model, model, dtype=torch.float64)
equal_everywhere(model, "a model with one more layer")
model[0].register_parameter("gain", nn.Parameter(torch.full((8,), me + 1., dtype=torch.float64)))
handle = model[0].register_forward_hook(lambda m, i, y: y * m.gain)
train(model, model, dtype=torch.float64)
equal_everywhere(model, "a model with one more parameter")
handle.remove()
refused("has Gradients already", ValueError, lambda: mvbench.Gradients(model))
model = net()
mvbench.Gradients(model, initial=False, buffers=False)
differs = torch.cat(state(model))
if workers > 1:
    assert mvbench.all_reduce(differs.clone(), "max").ne(mvbench.all_reduce(differs.clone(), "min")).any()

# Other scales; a list of parameters.
w = nn.Parameter(torch.zeros(3))
for scale, wanted in ((1, mean_rank * workers), (0.5, mean_rank * workers / 2), (None, mean_rank)):
    shared = mvbench.Gradients([w], scale=scale)
    w.grad = None
    (w * me).sum().backward()
    assert w.grad.tolist() == [wanted] * 3, (scale, w.grad)
    shared.free()


# backward() that raises, on all workers and on one; then training goes on as if nothing had happened.
class Fails(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, now):
        ctx.now = now
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        if ctx.now:
            raise ArithmeticError("bad batch")
        return g, None


for who in range(workers), [workers - 1]:
    model = net(seed=3)
    other = copy.deepcopy(model)
    wrapped, shared = DistributedDataParallel(other), mvbench.Gradients(model)
    bad = [True]
    handle = model[1].register_forward_hook(lambda m, i, y: Fails.apply(y, bad[0] and me in who))
    refused("bad batch" if me in who else "worker", Exception, lambda: model(data[0]).sum().backward())
    handle.remove()
    bad[0] = False
    for m in model, other:
        m.load_state_dict(net(seed=4).state_dict())
    train(model, model, steps=3)
    train(wrapped, other, steps=3)
    with torch.no_grad():
        model(data[0]), wrapped(data[0])
    same(model, other, 1e-6, "a model after an exception")
    shared.free()

# What is refused, with a reason.
table = nn.Embedding(4, 2, sparse=True)
shared = mvbench.Gradients(table)
refused("sparse gradient", TypeError, lambda: table(torch.tensor([1])).sum().backward())
shared.free()
model = net(seed=1)
shared = mvbench.Gradients(model)
refused("create_graph", TypeError, lambda: model(data[0]).pow(2).sum().backward(create_graph=True))
shared.free()
refused("has no shape yet", TypeError, lambda: mvbench.Gradients(nn.LazyLinear(3)))
refused("complex64", TypeError, lambda: mvbench.Gradients([nn.Parameter(torch.zeros(2, dtype=torch.complex64))]))

# Checkpoints of activations in both forms; the last part to be differentiated is inside of one.
for reentrant in (False, True) if modern else (False,):
    class Checked(nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = nn.ModuleList([nn.Sequential(nn.Linear(6, 6), nn.Tanh()) for _ in range(3)])

        def forward(self, x):
            x = x.clone().requires_grad_()  # reentrant ones need it
            for part in self.parts:
                x = checkpoint(part, x, use_reentrant=reentrant)
            return x
    pair(Checked, f"checkpoints, reentrant {reentrant}")

# Channels last, and a compiled model.
conv = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16, 2))
conv.to(memory_format=torch.channels_last)
shared = mvbench.Gradients(conv)
conv(torch.rand(2, 3, 4, 4) + me).sum().backward()
assert conv[0].weight.grad.stride() == conv[0].weight.stride()
grads = torch.cat([p.grad.reshape(-1) for p in conv.parameters()])
assert torch.equal(mvbench.all_reduce(grads.clone(), "min"), mvbench.all_reduce(grads.clone(), "max"))
shared.free()
if modern:
    model = net()
    shared = mvbench.Gradients(model)
    train(torch.compile(model, backend="eager"), model, steps=2)
    equal_everywhere(model, "a compiled model")
    shared.free()

# A child that this process forks is no worker.
child = os.fork()
if child == 0:
    try:
        mvbench.all_reduce(torch.ones(1))
    except mvbench.Error as error:
        os._exit(17 if "in a forked child" in str(error) and error.name == "MVB_ERR_STATE" else 1)
    os._exit(1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 17
loader = torch.utils.data.DataLoader(data, batch_size=2, num_workers=2)
assert len(list(loader)) == 4
assert mvbench.all_reduce(torch.ones(1)).item() == workers

torch.distributed.destroy_process_group()
mvbench.shutdown()
if me == 0:
    print("done")
