#!/usr/bin/env python3
"""Writes torch.inc: small nets with PyTorch's loss, gradients, and parameters after three steps.

Each case has fixed inputs and parameters; gradients are computed in float64 and rounded once, so that
the reference is not itself a source of error. The steps are torch.optim.SGD (lr 0.1, momentum 0.9,
weight decay 0.01) on the same mini-batch. tests/check_workloads.c includes the file.

  torch_reference.py > torch.inc       needs torch (Debian: python3-torch)
"""
import re
import torch, torch.nn as nn, torch.nn.functional as F

CASES = [  # name, rows, features, layers, mse
    ("softmax", 7, 12, "5", False),
    ("mlp", 9, 10, "7r4", False),
    ("tanh_mlp", 6, 11, "9t3", False),
    ("perceptron", 1, 10, "13r1", True),
    ("deep", 5, 6, "8t7r5t3", False),
    ("perceptron_batch", 33, 10, "17r1", True),
]


def build(features, layers):
    stack, digits = [], ""
    for c in layers + ".":
        if c.isdigit():
            digits += c
            continue
        stack.append(nn.Linear(features, int(digits)))
        features, digits = int(digits), ""
        if c != ".":
            stack.append({"r": nn.ReLU, "t": nn.Tanh}[c]())
    return nn.Sequential(*stack), features


def flat(tensors):
    return torch.cat([t.detach().flatten() for t in tensors])


def floats(field, values):
    words = [re.sub("0+p", "p", float(v.float()).hex()) + "f" for v in values]
    lines, line = [], ""
    for word in words:
        if len(line) + len(word) > 96:
            lines.append(line.rstrip())
            line = ""
        line += word + ", "
    print(f".{field} = (const float[]){{\n" + "\n".join(lines + [line.rstrip()]) + "},")


def main():
    torch.manual_seed(1)
    torch.set_default_dtype(torch.float64)
    print("/* Written by torch_reference.py with PyTorch " + torch.__version__ + ". */")
    for name, rows, features, layers, mse in CASES:
        model, outputs = build(features, layers)
        params = list(model.parameters())
        with torch.no_grad():  # inputs and parameters are floats exactly
            for p in params:
                p.copy_((p * 2).float().double())
        x = torch.randn(rows, features).float().double()
        target = torch.randn(rows, 1).float().double() if mse else torch.randint(outputs, (rows,))

        def loss():
            return F.mse_loss(model(x), target) if mse else F.cross_entropy(model(x), target)

        before = flat(params)
        value = loss()
        value.backward()
        grad = flat(p.grad for p in params)
        opt = torch.optim.SGD(params, lr=0.1, momentum=0.9, weight_decay=0.01)
        for _ in range(3):
            opt.zero_grad()
            loss().backward()
            opt.step()
        print(f'{{.name = "{name}", .layers = "{layers}", .rows = {rows}, .features = {features},\n'
              f' .outputs = {outputs}, .mse = {"true" if mse else "false"}, .loss = {value.item()!r},'
              f' .params = {len(before)},')
        floats("x", x.flatten())
        floats("target", target.flatten())
        floats("param", before)
        floats("grad", grad)
        floats("after", flat(params))
        print("},")


main()
