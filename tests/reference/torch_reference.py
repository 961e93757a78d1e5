#!/usr/bin/env python3
"""Writes small nets with PyTorch's loss, gradients, and parameters after three steps: torch.inc has
nets of linear layers, torch_images.inc nets for images.

Inputs and parameters are the numbers that `drawn` in tests/fixture.c computes. Gradients are computed
in float64 and rounded once; otherwise the reference itself would be a source of error. The steps are
torch.optim.SGD (lr 0.1, momentum 0.9, weight decay 0.01) on the same mini-batch.
tests/unit/check_workloads.c and tests/unit/check_images.c include the files.

  torch_reference.py > torch.inc       needs torch (Debian: python3-torch)
  torch_reference.py images > torch_images.inc
"""
import re, sys
import torch, torch.nn as nn, torch.nn.functional as F

CASES = [  # name, rows, features, layers, mse
    ("softmax", 7, 12, "5", False),
    ("mlp", 9, 10, "7r4", False),
    ("tanh_mlp", 6, 11, "9t3", False),
    ("perceptron", 1, 10, "13r1", True),
    ("deep", 5, 6, "8t7r5t3", False),
    ("perceptron_batch", 33, 10, "17r1", True),
]


X, TARGET, PARAM = 0, 1 << 16, 2 << 16  # where the numbers of each begin


def drawn(first, *shape):
    """As in tests/fixture.c: exact in float32, from -1 to 1."""
    h = torch.arange(first + 1, first + 1 + torch.Size(shape).numel()) * 2654435761 % 2**32
    h = (h ^ h >> 15) * 2246822519 % 2**32
    return (((h ^ h >> 13) >> 12) - 2**19).double().view(shape) / 2**19


def targets(rows, outputs):
    return ((drawn(TARGET, rows) + 1) / 2 * outputs).long()


class Params(list):
    """Parameters in the order of mvbench's vector, from -0.5 to 0.5."""

    def add(self, *shape):
        before = sum(p.numel() for p in self)
        self.append((drawn(PARAM + before, *shape) / 2).requires_grad_())


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


# Words: C4,3,1,2 convolution to 4 channels, window 3, stride 1, pad 2; c the same without a bias;
# n batch normalisation; r ReLU; t tanh; m2,2,0 max pool; a average pool of the whole image; [ and ]
# fork and join; 5 linear.
IMAGE_CASES = [  # name, rows, (height, width, channels), layers
    ("conv", 5, (7, 6, 2), "C4,3,1,1 r m2,2,0 C3,3,2,1 r 3"),
    ("stride", 4, (9, 7, 1), "c3,5,2,1 t C2,1,1,0 m3,2,1 6 r 4"),
    ("norm", 6, (5, 5, 3), "c4,3,1,1 n r c3,3,1,0 n a 4"),
    ("residual", 6, (6, 6, 2), "c3,3,1,1 n r [ c3,3,1,1 n r c3,3,1,1 n ] r [ c6,3,2,1 n r c6,3,1,1 n ] r a 5"),
    ("bare join", 5, (5, 5, 2), "[ c2,3,1,1 n ] [ C3,3,2,1 r c5,1,1,0 n ] C2,3,1,1 4"),
]
EPSILON, ALPHA = 1e-4, 0.1


class ImageNet:
    """Images are [B, C, H, W], as in PyTorch; parameters are laid out as in mvbench."""

    def __init__(self, image, layers):
        self.words, self.params, self.running = layers.split(), Params(), []
        h, w, c = image
        for word in self.words:
            if word[0] in "cC":
                out, size, stride, pad = map(int, word[1:].split(","))
                self.params.add(out, size, size, c)
                if word[0] == "C":
                    self.params.add(out)
                h, w, c = (h + 2 * pad - size) // stride + 1, (w + 2 * pad - size) // stride + 1, out
            elif word == "n":
                self.params.add(c), self.params.add(c)
                self.running.append([torch.zeros(c), torch.ones(c)])
            elif word[0] == "m":
                size, stride, pad = map(int, word[1:].split(","))
                h, w = (h + 2 * pad - size) // stride + 1, (w + 2 * pad - size) // stride + 1
            elif word == "a":
                h = w = 1
            elif word.isdigit():
                self.params.add(int(word), h * w * c), self.params.add(int(word))
                h, w, c = 1, 1, int(word)
        self.outputs = c

    def norm(self, x, running, gamma, beta, training):
        mean, var = (None, None) if training else running
        if training:
            with torch.no_grad():
                running[0] += ALPHA * (x.mean((0, 2, 3)) - running[0])
                running[1] += ALPHA * (x.var((0, 2, 3), unbiased=False) - running[1])
        return F.batch_norm(x, mean, var, gamma, beta, training, 0, EPSILON)

    def __call__(self, x, training=True):
        params, running, fork = iter(self.params), iter(self.running), None
        for word in self.words:
            if word[0] in "cC":
                out, size, stride, pad = map(int, word[1:].split(","))
                weight = next(params).permute(0, 3, 1, 2)
                x = F.conv2d(x, weight, next(params) if word[0] == "C" else None, stride, pad)
            elif word == "n":
                x = self.norm(x, next(running), next(params), next(params), training)
            elif word == "r":
                x = F.relu(x)
            elif word == "t":
                x = torch.tanh(x)
            elif word[0] == "m":
                x = F.max_pool2d(x, *map(int, word[1:].split(",")))
            elif word == "a":
                x = x.mean((2, 3), keepdim=True)
            elif word == "[":
                fork = x
            elif word == "]":
                more = x.shape[1] - fork.shape[1]
                stride = -(-fork.shape[2] // x.shape[2])
                x = x + F.pad(fork[:, :, ::stride, ::stride], (0, 0, 0, 0, more // 2, more - more // 2))
            else:
                x = F.linear(x.permute(0, 2, 3, 1).flatten(1), next(params), next(params))[:, :, None, None]
        return x[:, :, 0, 0]


def images():
    for name, rows, image, layers in IMAGE_CASES:
        net = ImageNet(image, layers)
        x, target = drawn(X, rows, *image), targets(rows, net.outputs)

        def loss(training=True):
            return F.cross_entropy(net(x.permute(0, 3, 1, 2), training), target)

        value = loss()
        value.backward()
        grad = flat(p.grad for p in net.params)
        opt = torch.optim.SGD(net.params, lr=0.1, momentum=0.9, weight_decay=0.01)
        for _ in range(3):
            opt.zero_grad()
            loss().backward()
            opt.step()
        running = flat(v for r in net.running for v in r) if net.running else torch.zeros(0)
        h, w, c = image
        print(f'{{.name = "{name}", .layers = "{layers}", .rows = {rows}, .image = {{{h}, {w}, {c}}},\n'
              f' .outputs = {net.outputs}, .loss = {value.item()!r}, .evaluated = {loss(False).item()!r},\n'
              f' .params = {len(grad)}, .buffers = {len(running)},')
        floats("grad", grad)
        floats("after", flat(net.params))
        floats("running", running)
        print("},")


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


def linear():
    for name, rows, features, layers, mse in CASES:
        model, outputs = build(features, layers)
        params, at = list(model.parameters()), PARAM
        with torch.no_grad():
            for p in params:
                p.copy_(drawn(at, *p.shape) / 2)
                at += p.numel()
        x = drawn(X, rows, features)
        target = drawn(TARGET, rows, 1) if mse else targets(rows, outputs)

        def loss():
            return F.mse_loss(model(x), target) if mse else F.cross_entropy(model(x), target)

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
              f' .params = {len(grad)},')
        floats("grad", grad)
        floats("after", flat(params))
        print("},")


torch.set_default_dtype(torch.float64)
print("/* Written by torch_reference.py with PyTorch " + torch.__version__ + ". */")
images() if sys.argv[1:] == ["images"] else linear()
