"""finished.py - Multiverso's test of arrays in rounds, where each worker makes another number of pushes: those that
have finished block no worker, and no push is lost.

    mpirun -n 4 python3 finished.py [TABLES SERVERS]       prints "done" on the last worker if all checks pass
"""
import sys
from array import array

import mvbench

words = sys.argv[1:]
mvbench.init(tables=words[0] if words else None, servers=int(words[1]) if words[1:] else 0)
if mvbench.is_server():
    mvbench.shutdown()
    sys.exit()
me, workers = mvbench.rank(), mvbench.size()
# The second has a shard on each worker where the workers keep the tables.
tables = [mvbench.Table(100, rounds=True), mvbench.Table(3000, rounds=True),
          mvbench.Matrix(10, 10, bounded=True, lead=2)]
ones = [array("f", [1]) * t.n for t in tables]
pushes = [10 * (k + 10) for k in range(workers)]
for i in range(pushes[me]):
    for t, one in zip(tables, ones):
        t.add(one)
    wanted = sum(min(p, i + 1) for p in pushes)
    for t in tables[:2]:
        seen = t.get().tolist()
        if seen != [wanted] * t.n:
            raise SystemExit(f"worker {me}: {seen[:2]} after round {i + 1}; expected {wanted}")
mvbench.shutdown()
if me == workers - 1:
    print("done")
