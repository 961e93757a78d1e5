"""logistic.py - the example of Multiverso's Python page (seed 002): logistic regression 784 -> 10 from zeros, lr
0.13, batches of 600, shared after every batch, a barrier after every epoch. tests/seeds/logistic.c does the same.

    mpirun -n 4 python3 logistic.py [EPOCHS [torch]]        default: 5, arrays of NumPy; or tensors of PyTorch

Different on purpose: the data are Fashion-MNIST. Without them: exit status 77.
"""
import gzip
import math
import sys

import numpy as np

import mvbench

FOLDER = "/usr/share/datasets/fashion-mnist/"
BATCH, LR = 600, 0.13


def floats(array):
    return torch.from_numpy(array) if torch else array


def read(part):
    with gzip.open(f"{FOLDER}{part}-images-idx3-ubyte.gz") as f:
        images = np.frombuffer(f.read(), np.uint8, offset=16).reshape(-1, 784).astype(np.float32) / 255
    with gzip.open(f"{FOLDER}{part}-labels-idx1-ubyte.gz") as f:
        return floats(images), floats(np.frombuffer(f.read(), np.uint8, offset=8).astype(np.int64))


def predict(x, W, b):
    p = math.e ** (x @ W + b)
    return p / p.sum(1)[:, None]


epochs = int(sys.argv[1]) if len(sys.argv) > 1 else 5
torch = None
if "torch" in sys.argv:
    import torch
try:
    (images, labels), (test_images, test_labels) = read("train"), read("t10k")
except FileNotFoundError as error:
    print(f"no Fashion-MNIST: {error}")
    sys.exit(77)
mvbench.init()
W, b = (mvbench.Shared(floats(np.zeros(shape, np.float32))) for shape in ((784, 10), 10))
for epoch in range(1, epochs + 1):
    for first in range(BATCH * mvbench.rank(), len(images), BATCH * mvbench.size()):
        x, label = images[first:first + BATCH], labels[first:first + BATCH]
        error = predict(x, W.value, b.value)
        error[range(len(label)), label] -= 1
        W.value -= LR / BATCH * (x.T @ error)
        b.value -= LR / BATCH * error.sum(0)
        mvbench.sync_all()
    mvbench.barrier()
    W.get(W.value)
    b.get(b.value)
    accuracy = int((predict(test_images, W.value, b.value).argmax(1) == test_labels).sum()) / len(test_labels)
    if mvbench.is_master():
        print(f"Epoch: {epoch} Test accuracy: {accuracy:.4f}")
    mvbench.barrier()  # no worker pushes before all have read
mvbench.shutdown()
if accuracy < 0.6:
    raise SystemExit(f"test accuracy {accuracy:.4f}; expected more than 0.6")
