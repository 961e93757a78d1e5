"""Logistic regression of points in two clouds, with NumPy only."""
import numpy as np

recipe = {"batch": 20, "lr": 0.5, "epochs": 3}


def data(rows: int = 1000, width: int = 8):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(rows + 200, width)).astype(np.float32)
    y = (x.sum(1) + 0.3 * rng.normal(size=len(x)) > 0).astype(np.int64)
    return (x[:rows], y[:rows]), (x[rows:], y[rows:])


def params(width: int = 8):
    return {"weight": np.zeros((width, 1), np.float32), "bias": np.zeros(1, np.float32)}


def forward(p, batch):
    x, y = batch
    z = x @ p["weight"][:, 0] + p["bias"]
    loss = np.mean(np.logaddexp(0, z) - y * z)
    return x, y, z, loss, int(np.sum((z > 0) == y))


def gradient(p, batch):
    x, y, z, loss, correct = forward(p, batch)
    d = (1 / (1 + np.exp(-z)) - y) / len(y)
    return loss, {"weight": (x.T @ d)[:, None], "bias": d.sum(keepdims=True)}, correct


def loss(p, batch):
    *_, value, correct = forward(p, batch)
    return value, correct
