"""binding.py - every function of mvbench.py, and every mistake that it has to refuse with a message.

    mpirun -n 2 python3 binding.py [numpy|array|torch [TABLES SERVERS]]

The second word says which floats it uses. Prints "done" on worker 0 if all checks pass.
"""
import gc
import math
import sys
from array import array

import mvbench

kind = sys.argv[1] if len(sys.argv) > 1 else "array"
if kind == "numpy":
    import numpy
elif kind == "torch":
    import torch


def floats(*values):
    if kind == "numpy":
        return numpy.array(values, numpy.float32)
    return torch.tensor(values, dtype=torch.float32) if kind == "torch" else array("f", values)


def expect(x, *wanted):
    """All of the floats x, or a number."""
    x = [x] if isinstance(x, (int, float, bool)) else x.reshape(-1).tolist() if hasattr(x, "reshape") else x.tolist()
    if x != list(wanted):
        raise AssertionError(f"{x}; expected {list(wanted)}")


def refused(words, f, *arguments, kind=mvbench.Error, **named):
    try:
        f(*arguments, **named)
    except kind as error:
        if words in str(error) and "\n" not in str(error):
            return error
        raise AssertionError(f"'{error}'; expected '{words}'") from error
    raise AssertionError(f"no error; expected '{words}'")


# Before init.
error = refused("mvb_array_new before mvb_init", mvbench.Table, 3)
assert (error.code, error.name) == (1, "MVB_ERR_STATE")
refused("mvb_barrier before mvb_init", mvbench.barrier)
refused("'attic'", mvbench.init, tables="attic")
expect(mvbench.size(), -1)

words = sys.argv[2:]
mvbench.init(tables=words[0] if words else None, servers=int(words[1]) if words[1:] else 0)
if mvbench.is_server():
    mvbench.shutdown()
    sys.exit()
me, workers = mvbench.rank(), mvbench.size()
expect(mvbench.is_master(), me == 0)
assert (words[0] if words else "tables: ") in mvbench.backend()

# Tables.
t = mvbench.Table(3, floats(1, 2, 3 + 100 * me))
ones, out = floats(1, 1, 1), floats(0, 0, 0)
t.add(ones)
t.add([1, 1, 1])
mvbench.barrier()
assert t.get(out) is out
expect(out, *(1 + 2 * workers, 2 + 2 * workers, 3 + 2 * workers))
expect(t.get(), *out.tolist())
mvbench.barrier()
out[0] += 1
t.sync(out)
mvbench.barrier()
out = t.get_start().wait()
expect(out, 1 + 3 * workers, 2 + 2 * workers, 3 + 2 * workers)
mvbench.barrier()
started = [t.add_start(ones), t.add_start([1, 1, 1])]
for s in started:
    s.wait()
mvbench.barrier()
out = t.sync_start(out).wait()
expect(out, 1 + 5 * workers, 2 + 4 * workers, 3 + 4 * workers)
mvbench.barrier()
assert t.version() == 6 * workers and t.staleness() >= 0 and mvbench.Table(2).staleness() == -1
centre = mvbench.Table(1, floats(2))
expect(centre.elastic(floats(4), 0.5 if me == 0 else 0), 3 if me == 0 else 4)
mvbench.barrier()
expect(centre.get(), 3)
sgd = mvbench.Table(2, updater="sgd")
sgd.add([1, -1], lr=0.5)
mvbench.barrier()
expect(sgd.get(), -0.5 * workers, 0.5 * workers)

# Rows.
m = mvbench.Matrix(4, 3, floats(*range(12)))
m.add([1, 2, 3, 4, 5, 6], rows=[0, 2])
m.add([0] * 12)
m.add([], rows=[])
mvbench.barrier()
expect(m.get(rows=[2, 1]), *(6 + 4 * workers, 7 + 5 * workers, 8 + 6 * workers, 3, 4, 5))
expect(m.get(rows=(3,)), 9, 10, 11)
mvbench.barrier()

# Replaced: the whole table, then a row.
if words[:1] == ["onesided"]:
    refused("not on a table that is onesided", m.set, [0] * 12)
else:
    if me == 0:
        m.set([7] * 12)
        m.set([1, 2, 3], rows=[2])
    mvbench.barrier()
    expect(m.get(), 7, 7, 7, 7, 7, 7, 1, 2, 3, 7, 7, 7)
refused("2 floats for a table of 3", t.set, [1, 2])
refused("row 4 of a table", m.set, [1, 2, 3], rows=[4])

# Reductions, shared variables, models, gradients.
x = floats(me, 1)
assert mvbench.all_reduce(x) is x
expect(x, workers * (workers - 1) / 2, workers)
expect(mvbench.all_reduce(floats(me), "mean"), (workers - 1) / 2)
expect(mvbench.all_reduce_start(floats(me)).wait(), workers * (workers - 1) / 2)
expect(mvbench.all_reduce_start(floats(me), scale=2).wait(), workers * (workers - 1))
refused("is not MVB_SUM or MVB_MEAN", mvbench.all_reduce_start, floats(me), "max")
if workers > 1:
    differs = mvbench.all_reduce_start(floats(*[1] * (1 + (me == 0))))
    fine = mvbench.all_reduce_start(floats(me))
    refused("n is 2 on one worker, but 1 on another", differs.wait)
    expect(fine.wait(), workers * (workers - 1) / 2)
expect(mvbench.broadcast(floats(me), root=workers - 1), workers - 1)
expect(mvbench.all_reduce(floats(me), scale=0.5), workers * (workers - 1) / 4)
for op, wanted in ("min", 2), ("max", workers + 1), ("product", math.factorial(workers + 1)):
    expect(mvbench.all_reduce(floats(me + 2), op), wanted)
every = list(range(workers))
for code, name, most in ("f", "float32", 0.5), ("d", "float64", 0.1), ("i", "int32", 2**30), ("q", "int64", 2**60):
    def numbers(*values):
        if kind == "numpy":
            return numpy.array(values, name)
        return torch.tensor(values, dtype=getattr(torch, name)) if kind == "torch" else array(code, values)
    first = numbers(most).tolist()[0]
    expect(mvbench.all_reduce(numbers(me, 1)), sum(every), workers)
    expect(mvbench.all_reduce(numbers(most if me else -1, 1), "min"), -1, 1)
    expect(mvbench.broadcast(numbers(7 if me else most)), first)
    expect(mvbench.gather(numbers(me, most), numbers(*[0] * 2 * workers)), *(v for k in every for v in (k, first)))
    gathered = mvbench.gather(numbers(me), None if me else numbers(*every[::-1]), root=0)
    me or expect(gathered, *every)
    expect(mvbench.reduce_scatter(numbers(*(me + k for k in every for _ in "ab"))), *[sum(every) + workers * me] * 2)
    if workers > 1:  # round a ring
        if me:
            expect(mvbench.receive(numbers(0, 0), me - 1), me - 1, first)
        mvbench.send(numbers(me, most), (me + 1) % workers)
        me or expect(mvbench.receive(numbers(0, 0), workers - 1), workers - 1, first)
if kind == "torch":  # through float32
    for short in torch.float16, torch.bfloat16:
        half = torch.tensor([[me, 9], [1, 9]], dtype=short)[:, 0]  # every second element of its memory
        assert mvbench.all_reduce(half, "mean") is half and half.dtype is short
        expect(half, (workers - 1) / 2, 1)
        mvbench.all_reduce_list([half, torch.ones(1)], scale=2)
        expect(half, workers * (workers - 1), 2 * workers)
        expect(mvbench.broadcast(torch.tensor([me + 3.], dtype=short)), 3)
    refused("on meta", mvbench.all_reduce, torch.zeros(3, device="meta", dtype=short), kind=TypeError)
a, b = floats(me), floats(me, me)
mvbench.all_reduce_list([a, b], "mean")
expect(b, (workers - 1) / 2, (workers - 1) / 2)
shared = mvbench.Shared(floats(5 + me))
expect(shared.value, 5)
shared.value[0] += 1
mvbench.sync_all()
mvbench.barrier()
shared.sync()
expect(shared.value, 5 + workers)
model = mvbench.Model([a, b], initial="total")
a[0] += 1
model.sync()
mvbench.barrier()
model.pull()
expect(a, workers * (workers - 1) / 2 + workers)
if kind == "torch":  # it would go on with the parameters that the module had
    net = torch.nn.Linear(2, 1)
    replaced = mvbench.Model(net)
    replaced.sync()
    net.weight = torch.nn.Parameter(torch.ones(1, 2))
    for f in replaced.sync, replaced.pull:
        refused("have been replaced", f, kind=RuntimeError)
    net.double()
    refused("contiguous float32", replaced.sync, kind=TypeError)
gradients = mvbench.Gradients([a, b])
for step in range(3):
    a[0], b[0], b[1] = me, 1, step
    gradients.ready(1)
    gradients.ready(0)
    gradients.wait()
    expect(a, (workers - 1) / 2)
    expect(b, 1, step)

# Layers: TorchAD-NN's net, compared with the whole net.
if kind == "numpy":
    import mvbench_layers as nn
    random = numpy.random.default_rng(1)
    w1, b1, w2, b2, inputs, dy = (random.uniform(-1, 1, shape).astype(numpy.float32)
                                  for shape in ((5, 6), 5, (3, 5), 3, (4, 6), (4, 3)))
    net = nn.MPInitialReshape(6), nn.MPInitialLinear(6, 5), nn.MPTanh(5), nn.MPBaseLinear(5, 3)
    net[1].scatter(w1, b1)
    net[3].scatter(w2, b2)
    xs = [inputs]
    for layer in net:
        xs.append(layer.forward(xs[-1], rows=4))
    back = dy
    for layer, x in zip(reversed(net), reversed(xs[:-1])):
        back = layer.backward(x, back)
    hidden = numpy.tanh(inputs.astype(float) @ w1.T + b1)
    into_hidden = (dy @ w2) * (1 - hidden**2)
    own = slice(net[1].part.first, net[1].part.first + net[1].part.held)
    for is_, whole in ((xs[-1], hidden @ w2.T + b2), (back, into_hidden @ w1), (net[1].dw, (into_hidden.T @ inputs)[own]),
                       (net[3].dw, (dy.T @ hidden)[:, own]), (net[1].db, into_hidden.sum(axis=0)[own]),
                       (net[3].db, dy.sum(axis=0)), (net[1].gather()[0], w1), (net[3].gather()[1], b2)):
        assert is_.shape == whole.shape and numpy.abs(is_ - whole).max(initial=0) < 1e-5, (is_, whole)
    cut = nn.MPBaseReshape(6)
    assert (cut.backward(inputs, cut.forward(inputs)) == inputs).all()
    refused("5 floats for 0 rows of 6 columns", cut.forward, floats(*range(5)), kind=ValueError)
    refused("a layer of 0 inputs and 0 outputs", nn.MPTanh, 0)
    refused("1 and 5 floats for 6 inputs, 5 outputs", net[1].scatter, floats(1), b1, kind=ValueError)
    refused("this form has no parameters", cut.gather)

# Mistakes that concern only the caller.
for bad in (None, 5, "text", [1, "a", 3], {1}, object()):
    refused("", t.add, bad, kind=TypeError)
refused("NoneType where floats should be", t.add, None, kind=TypeError)
refused("list where floats should be", t.get, [1, 2, 3], kind=TypeError)
refused("array where floats should be", t.add, array("d", [1, 2, 3]), kind=TypeError)
refused("mvb_table_add: 2 floats for a table of 3", t.add, [1, 2])
refused("4 floats for a table of 3", t.get, floats(1, 2, 3, 4))
refused("nan, momentum 0", t.add, ones, lr=math.nan)
refused("there is no option speed", t.add, ones, speed=1, kind=TypeError)
for bad in (-1, 0.5, math.nan, "x", None):
    refused("it has to be a whole number from 0", mvbench.Table, bad, kind=ValueError)
    refused("it has to be a whole number from 0", m.get, rows=[bad], kind=ValueError)
refused("row 4 of a table with rows 0 to 3", m.get, rows=[4])
refused("it has to be a whole number from 0", m.get, rows=[True, False], kind=ValueError)
refused("whole numbers have no MVB_MEAN", mvbench.all_reduce, array("i", [1]), "mean")
refused("list where numbers should be", mvbench.all_reduce, [1], kind=TypeError)
refused("out: 1 numbers of type d", mvbench.gather, floats(1), array("d", [1]), kind=ValueError)
refused("it has to be another one", mvbench.send, floats(1), me)
assert mvbench.__version__.count(".") == 2
refused("3 floats for 2 rows of 3 columns", m.add, [1, 2, 3], rows=[0, 1])
refused("values: 2 floats for a table of 3", mvbench.Table, 3, floats(1, 2), kind=ValueError)
refused("op is 'worst'", mvbench.all_reduce, x, "worst", kind=ValueError)
refused("initial is 'worst'", mvbench.Table, 3, initial="worst", kind=ValueError)
refused("there is no option colour", mvbench.Table, 3, colour="red", kind=TypeError)
refused("tensor 2; they are 0 to 1", gradients.ready, 2)
if kind == "numpy":
    for bad in (numpy.zeros(3), numpy.zeros(6, numpy.float32)[::2], numpy.zeros(3, ">f4")):
        refused("an array has to be contiguous float32", t.add, bad, kind=TypeError)
    for bad in numpy.zeros((3, 4), numpy.float32), numpy.zeros((1, 12), numpy.float32):  # 12 floats, as the table
        for f in m.add, m.sync, m.get_start, m.add_start, m.sync_start, lambda x: mvbench.Matrix(4, 3, x):
            refused("(4, 3) should be", f, bad, kind=ValueError)
        refused("(4, 3) should be", m.get, out=bad, kind=ValueError)
    for mask in numpy.array([True, False, True, False]), [numpy.True_]:
        for f in m.get, lambda rows: m.add([1, 2, 3] * len(rows), rows):
            refused("it has to be a whole number from 0", f, rows=mask, kind=ValueError)
    refused("(3, 2) where (2, 3) should be", m.add, numpy.zeros((3, 2), numpy.float32), [0, 1], kind=ValueError)
    fixed = numpy.zeros(3, numpy.float32)
    fixed.flags.writeable = False
    t.add(fixed)
    refused("read-only True", t.get, fixed, kind=TypeError)
if kind == "torch":
    for bad in (torch.zeros(3, dtype=torch.float64), torch.zeros(6)[::2]):
        refused("a tensor has to be contiguous float32", t.add, bad, kind=TypeError)
    refused("(3, 4) where (4, 3) should be", m.add, torch.zeros(3, 4), kind=ValueError)
    refused("it has to be a whole number from 0", m.get, rows=torch.tensor([True, False]), kind=ValueError)
    refused("the tensor is on meta", t.add, torch.zeros(3, device="meta"), kind=TypeError)
    for words, bad in (("is torch.float32 on meta", {"device": "meta"}), ("complex64", {"dtype": torch.complex64})):
        refused(words, mvbench.Gradients, [torch.zeros(3, requires_grad=True, **bad)], kind=TypeError)

# Mistakes that concern all workers.
refused("no updater is called 'magic'", mvbench.Table, 3, updater="magic")
refused("needs at least one", mvbench.Table, 0)
if workers > 1:
    refused("rows is 3 on worker 0, but 4 on worker 1", mvbench.Table, 3 + min(me, 1))
    if me < 2:
        refused("8 bytes" if me else "4 bytes", [mvbench.send, mvbench.receive][me], floats(*[1] * (1 + me)), 1 - me)
    refused("n is 1 on worker 0, but 2 on worker 1", mvbench.all_reduce, floats(*[1] * (1 + min(me, 1))))
    refused("tensor 0 and 0 more were not made ready", gradients.ready(1) or gradients.wait)

# Twice as many objects as there may be, which workers drop at different times; some are in use.
kept = []
for i in range(512):
    garbage = mvbench.Table(3) if i % 2 else mvbench.Model([floats(i, i)])
    kept.append(garbage)
    if i % 7 == me % 7:
        kept.clear()
    if i == 300:
        garbage.free()
expect(t.get(), *out.tolist())

# Freed objects, and the end.
t.free()
t.free()
gradients.free()
refused("NULL is no table", t.add, ones)
mvbench.shutdown()
refused("mvb_table_get after mvb_shutdown", m.get)
refused("mvb_barrier after mvb_shutdown", mvbench.barrier)
refused("mvb_init after mvb_shutdown", mvbench.init)
m.free()
gc.collect()
if me == 0:
    print("done")
