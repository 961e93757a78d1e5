"""Writes torch_optimizers.inc: parameters after steps of PyTorch's optimisers, from the same
parameters and gradients as in tests/run/check_optimizers.c. python3 torch_optimizers.py >torch_optimizers.inc"""
import torch

N, STEPS, KEPT = 24, 100, (1, 2, 3, 10, 30, 100)


def made(i, t):
    """The same float32 as in the C test, from -1 to 1."""
    return torch.tensor((i * 7919 + t * 104729 + 12345) % 2001 - 1000, dtype=torch.float32) / 1000


def params():
    return torch.stack([made(i, 0) for i in range(N)])


CASES = {
    "sgd": (lambda p: torch.optim.SGD(p, lr=0.05, weight_decay=0.1), 0),
    "momentum": (lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, weight_decay=0.1), 0),
    "nesterov": (
        lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, weight_decay=0.1, nesterov=True), 0),
    "adamw": (lambda p: torch.optim.AdamW(p, lr=0.05, betas=(0.9, 0.95), weight_decay=0.1), 0),
    "adagrad": (lambda p: torch.optim.Adagrad(p, lr=0.05, weight_decay=0.1), 0),
    "clipped": (lambda p: torch.optim.AdamW(p, lr=0.05, betas=(0.9, 0.95), weight_decay=0.1), 1.5),
}

print(f"/* Written by torch_optimizers.py with PyTorch {torch.__version__.split('+')[0]}. */")
for name, (make, clip) in CASES.items():
    p = torch.nn.Parameter(params())
    optimizer = make([p])
    for t in range(1, STEPS + 1):
        p.grad = torch.stack([made(i, t) for i in range(N)])
        if clip:
            torch.nn.utils.clip_grad_norm_([p], clip)
        optimizer.step()
        if t in KEPT:
            floats = [float.hex(float(x)).replace("0000000p", "p") + "f" for x in p.detach()]
            print(f'{{.name = "{name}", .step = {t}, .param = {{')
            for i in range(0, N, 4):
                print(", ".join(floats[i : i + 4]) + ",")
            print("}},")
