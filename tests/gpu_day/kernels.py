#!/usr/bin/env python3
"""kernels.py NCU.csv: the kernels of the last whole training step (from a set_step to the next), by time."""
import collections, csv, re, sys

rows, scale = [], 1e-3
with open(sys.argv[1], newline="") as f:
    lines = [l for l in f if not l.startswith("==")]
head = None
for r in csv.reader(lines):
    if head is None:
        if "Kernel Name" in r:
            head = r
            name, dur = r.index("Kernel Name"), next(i for i, h in enumerate(r) if h.startswith("gpu__time_duration"))
        continue
    try:
        rows.append((r[name], float(r[dur].replace(",", ""))))
    except (ValueError, IndexError):
        unit = r[dur] if len(r) > dur else "?"  # the row of units
        scale = {"nsecond": 1e-3, "ns": 1e-3, "usecond": 1, "us": 1, "msecond": 1e3, "ms": 1e3}.get(unit, 1)
steps, cur = [], []
for k, t in rows:
    if "set_step" in k:
        steps.append(cur)
        cur = []
    cur.append((k, t))
steps.append(cur)
whole = [s for s in steps if any(re.search(r"\bsgd|stepping", k) for k, _ in s)]
if not whole:
    sys.exit(f"{len(rows)} kernels, no step among them")
last = whole[-1]
end = max(i for i, (k, _) in enumerate(last) if re.search(r"\bsgd|stepping", k)) + 1
last = last[:end]
total = sum(t for _, t in last) * scale
print(f"{len(last)} kernels in a step, {total:.0f} us in them; steps seen {len(whole)}")
moved = [t * scale for k, t in last if re.search("nchwToNhwc|nhwcToNchw", k)]
if moved:
    print(f"{sum(moved):.0f} us of them, in {len(moved)} kernels, change the order of channels for cuDNN")
by = collections.defaultdict(list)
for k, t in last:
    short = re.sub(r"\(anonymous namespace\)::|<unnamed>::|^void ", "", k)
    by[re.sub(r"\(.*", "", short)[:110]].append(t * scale)
for k, ts in sorted(by.items(), key=lambda x: -sum(x[1]))[:45]:
    print(f"{sum(ts):9.1f} us {100 * sum(ts) / total:5.1f} % {len(ts):4d} x {sum(ts) / len(ts):7.2f}  {k}")
