"""Writes torch_gpt.inc: PyTorch's loss and gradients of a small model of workload gpt, for the same
parameters and bytes as in tests/unit/check_workloads.c.
python3 torch_gpt.py >torch_gpt.inc"""
import torch
import torch.nn.functional as F

LAYERS, HEADS, WIDTH, CONTEXT, ROWS, KEPT = 2, 2, 8, 5, 3, 37


def made(i):
    return torch.tensor((i * 7919 + 12345) % 2001 - 1000, dtype=torch.float32) / 2500


def byte(i):
    return (i * 151 + 7) % 256


at = 0


def param(*shape):
    global at
    n = torch.Size(shape).numel()
    p = torch.stack([made(at + i) for i in range(n)]).view(shape).requires_grad_()
    at += n
    return p


D = WIDTH
table, place = param(256, D), param(CONTEXT, D)
blocks = [
    [param(D), param(D), param(3 * D, D), param(3 * D), param(D, D), param(D),
     param(D), param(D), param(4 * D, D), param(4 * D), param(D, 4 * D), param(D)]
    for _ in range(LAYERS)
]
last = [param(D), param(D)]
text = torch.tensor([byte(i) for i in range(ROWS * CONTEXT + 1)])
x = table[text[:-1].view(ROWS, CONTEXT)] + place
for g1, b1, wqkv, bqkv, wo, bo, g2, b2, w1, bias1, w2, bias2 in blocks:
    h = F.layer_norm(x, (D,), g1, b1) @ wqkv.T + bqkv
    q, k, v = h.view(ROWS, CONTEXT, HEADS, 3, D // HEADS).permute(3, 0, 2, 1, 4)
    y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    x = x + y.transpose(1, 2).reshape(ROWS, CONTEXT, D) @ wo.T + bo
    x = x + F.gelu(F.layer_norm(x, (D,), g2, b2) @ w1.T + bias1) @ w2.T + bias2
logits = F.layer_norm(x, (D,), *last) @ table.T
logits.retain_grad()
loss = F.cross_entropy(logits.view(-1, 256), text[1:])
loss.backward()
grads = torch.cat([p.grad.flatten() for p in [table, place] + sum(blocks, []) + last])


def floats(name, values):
    words = [float.hex(float(v)).replace("0000000p", "p") + "f" for v in values]
    print(f"static const float {name}[] = {{")
    for i in range(0, len(words), 4):
        print(", ".join(words[i : i + 4]) + ",")
    print("};")


print(f"/* Written by torch_gpt.py with PyTorch {torch.__version__.split('+')[0]}. */")
print(f"static const double torch_gpt_loss = {loss.item()!r};")
floats("torch_gpt_scores", logits.grad.flatten()[::KEPT])
floats("torch_gpt_grad", grads[::KEPT])
