"""words.py - Multiverso's Python package: what its own tests assert, written again, and what its pages call.

    mpirun -n 4 python3 words.py [sync]             sync: tables have rounds

Prints "done" on worker 0 if all checks pass.
"""
import sys

import numpy as np

import multiverso as mv
from multiverso.theano_ext import sharedvar
from multiverso.theano_ext.lasagne_ext import param_manager


def expect(x, wanted, what):
    if not (x.shape == np.shape(wanted) and (x == wanted).all()):
        raise AssertionError(f"worker {mv.worker_id()}: {what} is {x}; expected {wanted}")


def refused(words, f, *arguments, kind=ValueError, **named):
    try:
        f(*arguments, **named)
    except kind as error:
        assert words in str(error), f"'{error}'; expected '{words}'"
        return
    raise AssertionError(f"no error; expected '{words}'")


mv.init(sync="sync" in sys.argv)
me, workers = mv.worker_id(), mv.workers_num()
assert mv.is_master_worker() == (me == 0) and mv.server_id() == me

# An array: every worker adds 1 .. n twice in each turn.
n = 10000
table = mv.ArrayTableHandler(n)
mv.barrier()
for turn in range(10):
    table.add(range(1, n + 1))
    table.add(range(1, n + 1), sync=True)
    mv.barrier()
    expect(table.get(), np.arange(1, n + 1, dtype=np.float32) * (turn + 1) * 2 * workers, "the array")
    mv.barrier()

# A matrix: all rows, then some.
rows, columns = 11, 10
whole, ids = np.arange(rows * columns, dtype=np.float32).reshape(rows, columns), [0, 1, 5, 10]
matrix = mv.MatrixTableHandler(rows, columns, init_value=whole if me == 0 else whole + 7)
mv.barrier()
wanted = whole.copy()
for turn in range(20):
    matrix.add(whole.tolist(), sync=True)
    matrix.add(whole[ids], ids)
    mv.barrier()
    wanted += whole * workers
    wanted[ids] += whole[ids] * workers
    expect(matrix.get(), wanted, "the matrix")
    expect(matrix.get(ids), wanted[ids], "its rows")
    mv.barrier()

# Shared variables.
W = sharedvar.mv_shared(value=np.full((784, 10), 5 + me, np.float32), name="W", borrow=True)
b = sharedvar.mv_shared(value=np.zeros(10), name="b")
assert W.name == "W" and b.get_value().dtype == np.float64
expect(W.get_value(), np.full((784, 10), 5), "W at the start")
for turn in range(1, 21):
    W.set_value(W.get_value() + me + 1)
    b.set_value(b.get_value() + 1)
    W.mv_sync() if turn % 2 else sharedvar.sync_all_mv_shared_vars()
sharedvar.sync_all_mv_shared_vars()
mv.barrier()
sharedvar.sync_all_mv_shared_vars()
expect(W.get_value(), np.full((784, 10), 5 + 20 * workers * (workers + 1) / 2), "W")
expect(b.get_value(borrow=True), np.full(10, 20. * workers), "b")


# The parameters of a network.
class Manager(param_manager.MVModelParamManager):
    def get_all_param_values(self):
        return self.model

    def set_all_param_values(self, params):
        self.model = params


shapes = [(6, 5), (5,), (), (5, 3)]
manager = Manager([np.full(s, i + 100 * me) for i, s in enumerate(shapes)], mv.is_master_worker())
for turn in range(5):
    manager.model = [p + me + 1 for p in manager.model]
    manager.update_all_param()
mv.barrier()
manager.sync_all_param()
for i, p in enumerate(manager.model):
    expect(p, np.full(shapes[i], i + 5. * workers * (workers + 1) / 2), f"parameter {i}")

# What NumPy turns into floats, and what is refused.
small = mv.MatrixTableHandler(3, 2, init_value=range(6))
for data, ids in (([[1, 1]], [1]), (np.ones((4, 1), int)[::2].T, np.array([1])), (np.float64([1, 1]), (1,)),
                  (np.ones((1, 2)), [False, True, False])):
    small.add(data, row_ids=ids)
mv.barrier()
expect(small.get(1), [[2 + 4 * workers, 3 + 4 * workers]], "row 1")
expect(small.get([True, False, True]), [[0, 1], [4, 5]], "the mask")
refused("a mask of 2 rows for a table of 3", small.get, [True, False])
refused("they have to be whole numbers", small.get, [0.5])
refused("row_ids are <U1", small.get, "1")
refused("data has the shape (2, 3); it has to be (3, 2)", small.add, np.ones((2, 3)))
refused("data has the shape (3,); it has to be (1, 2)", small.add, [1, 2, 3], [0])
refused("init_value has the shape (5,)", mv.MatrixTableHandler, 3, 2, init_value=range(5))
refused("could not convert", small.add, ["a"])
refused("row 3 of a table", small.get, [3], kind=RuntimeError)

if "torch" in sys.argv:
    import torch
    net = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2)).double()
    kept = param_manager.MVNetParamManager(net, mv.is_master_worker())
    with torch.no_grad():
        net[0].weight.fill_(me)
    kept.update_all_param()
    shared = sharedvar.mv_shared(value=torch.ones(2, dtype=torch.float64))
    shared.set_value(shared.get_value() + 1)
    shared.mv_sync()
    mv.barrier()
    shared.mv_sync()
    expect(shared.get_value().numpy(), [1. + workers] * 2, "the tensor")
    small.add(torch.ones(4, 3)[:2].t()[:3].double(), sync=True)
mv.barrier()
mv.shutdown()
if me == 0:
    print("done")
