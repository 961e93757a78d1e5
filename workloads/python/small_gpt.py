"""A small causal transformer of bytes, on the licences in Debian or any text (PyTorch)."""
import glob

import numpy as np
import torch
from torch import nn

recipe = {"batch": 16, "optimizer": "adamw", "lr": 0.003, "epochs": 1, "clip": 1.0}


def data(text: str = "/usr/share/common-licenses/*", context: int = 64):
    files = sorted({f.read() for f in (open(p, "rb") for p in glob.glob(text))})
    tokens = np.frombuffer(b"".join(files), np.uint8).astype(np.int64)
    n = (len(tokens) - 1) // context
    x, y = (tokens[k : k + n * context].reshape(n, context) for k in (0, 1))
    cut = n * 19 // 20
    return (x[:cut], y[:cut]), (x[cut:], y[cut:])


class GPT(nn.Module):
    def __init__(self, layers, width, heads, context):
        super().__init__()
        self.token, self.place = nn.Embedding(256, width), nn.Embedding(context, width)
        block = nn.TransformerEncoderLayer(width, heads, 4 * width, 0.0, "gelu", batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(block, layers, nn.LayerNorm(width), enable_nested_tensor=False)
        self.out = nn.Linear(width, 256, bias=False)
        self.out.weight = self.token.weight  # tied
        for p in self.parameters():
            nn.init.normal_(p, std=0.02) if p.dim() > 1 else None

    def forward(self, x):
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        places = torch.arange(x.shape[1])
        return self.out(self.blocks(self.token(x) + self.place(places), mask=mask))


def model(layers: int = 2, width: int = 64, heads: int = 4, context: int = 64):
    return GPT(layers, width, heads, context)
