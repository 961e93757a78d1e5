"""speed.py - an add and a get of a whole table by mvbench.py, and by a loop in C, which alternate in one run.
Worker 0 prints the medians of both [ns], as means over the workers. bench.sh builds LOOP of speed.c.

    mpirun -n 2 python3 speed.py LOOP FLOATS COUNT BLOCKS        COUNT: operations between two barriers
"""
import statistics
import sys
import time
from array import array
from ctypes import CDLL, c_double, c_int, c_size_t, c_void_p

import mvbench

n, count, blocks = (int(w) for w in sys.argv[2:5])
loop = CDLL(sys.argv[1]).speed_loop
loop.restype, loop.argtypes = c_double, [c_void_p, c_void_p, c_void_p, c_size_t, c_int]
mvbench.init()
t = mvbench.Table(n)
delta, out = array("f", bytes(4 * n)), array("f", bytes(4 * n))
try:
    import numpy
    delta, out = numpy.frombuffer(delta, numpy.float32), numpy.frombuffer(out, numpy.float32)
except ImportError:
    pass
address = mvbench._floats(delta)[0], mvbench._floats(out)[0]


def in_python():
    start = time.perf_counter()
    for _ in range(count):
        t.add(delta)
        t.get(out)
    return (time.perf_counter() - start) / count


own, c = [], []
for block in range(blocks + 2):
    mvbench.barrier()
    mine = in_python()
    mvbench.barrier()
    theirs = loop(t._pointer, *address, n, count)
    if block >= 2:  # the first two warm up
        own.append(mine)
        c.append(theirs)
medians = mvbench.all_reduce(array("f", [1e9 * statistics.median(own), 1e9 * statistics.median(c)]), "mean")
if mvbench.is_master():
    print("%.0f %.0f" % tuple(medians))
mvbench.shutdown()
