"""leak.py - makes, uses and frees COUNT tables, models, gradients and layers, and prints "done" if the memory of this
process has not grown by more than 1 MiB after the first tenth.

    mpirun -n 2 python3 leak.py [COUNT]        default: 10000
"""
import gc
import sys
from array import array

import mvbench
import mvbench_layers as nn


def resident():
    """KiB."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS:"))


count, before = int(sys.argv[1]) if len(sys.argv) > 1 else 10000, 0
mvbench.init()
x, y = array("f", bytes(400)), array("f", bytes(400))
t, kept, gradients = mvbench.Table(100), mvbench.Model([x, y]), mvbench.Gradients([x, y])
for i in range(1, count + 1):
    t.sync(x)
    t.get_start(y).wait()
    kept.sync()
    made = mvbench.Table(100, x, updater="sgd")
    made.add(x, lr=0.1)
    made.free()
    model = mvbench.Model([x, y])
    model.sync()
    if i % 2:  # the others are dropped
        model.free()
    gradients.ready(1)
    gradients.ready(0)
    gradients.wait()
    nn.MPInitialLinear(10, 10).forward(x)
    try:
        t.get(array("f", [1]))
    except mvbench.Error:
        pass
    if i == count // 10:
        gc.collect()
        before = resident()
gc.collect()
grown = resident() - before
if grown >= 1024:
    raise SystemExit(f"{grown} KiB more than after the first tenth")
if mvbench.is_master():
    print("done")
mvbench.shutdown()
