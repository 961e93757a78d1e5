"""A small convolutional net on Fashion-MNIST, with batch normalisation and dropout (PyTorch)."""
import gzip
import os

import numpy as np
import torch
from torch import nn

recipe = {"batch": 32, "lr": 0.05, "momentum": 0.9, "epochs": 2}


def idx(name, skip):
    folder = os.environ.get("MVBENCH_DATA") or "/usr/share/datasets/fashion-mnist"
    path = os.path.join(folder, name)
    opened = gzip.open(path + ".gz") if os.path.exists(path + ".gz") else open(path, "rb")
    with opened as f:
        return np.frombuffer(f.read(), np.uint8, offset=skip)


def data():
    sets = []
    for name in ("train", "t10k"):
        y = idx(name + "-labels-idx1-ubyte", 8).astype(np.int64)
        x = idx(name + "-images-idx3-ubyte", 16).reshape(len(y), 1, 28, 28).astype(np.float32)
        sets.append((x / 255, y))
    return sets[0], sets[1]


def model(width: int = 16, dropout: float = 0.1):
    return nn.Sequential(
        nn.Conv2d(1, width, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
        nn.Conv2d(width, 2 * width, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(2 * width), nn.ReLU(),
        nn.Flatten(), nn.Dropout(dropout), nn.Linear(2 * width * 49, 10))
