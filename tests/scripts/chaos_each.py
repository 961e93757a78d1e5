#!/usr/bin/env python3
"""Fails each file operation of each command, one at a time.

Usage: chaos_each.py BUILD-FOLDER [--every=K] [--only=run,power,...] [--keep]

The commands are a run with --save, the same run resumed from its checkpoint, a sweep, an import, an upgrade of an
older database, an export and a report. tests/tools/inject.c counts their operations on files: open, write, fsync,
ftruncate, rename, unlink. Each n-th operation fails with EIO, and with ENOSPC, which lasts; and the process is
killed there, in the middle of a write. Then:

  power   after each operation that changes what a power loss would leave, that state of the files: what was synced;
          that with all names of files; that with the first half of the later writes; that with every second of them
  pairs   every two of the commands at the same time on one database, of this version and of an older one

After each the database must be sound, no earlier row changed, and the exit status 0 only if all is there. The same
command again must end well, and leave no file. The table counts faults by outcome:

  lost    an earlier row changed, or a result of a command that had reported success is gone
  silent  exit status 0, but something is missing
  stuck   the same command again fails
  left    a file or a process remains

--every=K: every K-th fault. BUILD-FOLDER/chaos_each keeps the folders of faults that did harm, with --keep.
Exit status: 0 no harm, 1 harm.
"""
import argparse
import itertools
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from errno import EIO, ENOSPC

HERE = os.path.dirname(os.path.abspath(__file__))
TIMEOUT_S = 60
RUN = ["--workload=softmax", "--strategy=serial", "--train-rows=200", "--db=r.db"]
COMMANDS = {  # words, base, whole runs afterwards, output file
    "run": (["run", *RUN, "--epochs=2", "--seed=7", "--save=c.ckpt"], "new", 3, "c.ckpt"),
    "resume": (["run", *RUN, "--epochs=3", "--seed=7", "--save=c.ckpt"], "killed", 3, "c.ckpt"),
    "sweep": (["sweep", "cells.ini", "--db=r.db", "--retry"], "new", 4, None),
    "import": (["import", "other.db", "--db=r.db"], "new", 4, None),
    "upgrade": (["table", "--db=r.db"], "old", 2, None),
    "export": (["export", "--db=r.db", "--table=epochs", "--out=out.csv"], "new", 2, "out.csv"),
    "report": (["report", "--db=r.db", "--out=out.html"], "new", 2, "out.html"),
}
work = build = None


def start(folder, words, **inject):
    env = dict(os.environ, TMPDIR=f"{work}/tmp", HOME=work, MVBENCH_UNBOUND="1", OMPI_ALLOW_RUN_AS_ROOT="1",
               OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    if inject:
        env.update(LD_PRELOAD=f"{build}/inject.so", INJECT_UNDER=folder, INJECT_STATE=f"{folder}.state",
                   **{f"INJECT_{name.upper()}": str(value) for name, value in inject.items()})
        with open(f"{folder}.state", "wb") as f:
            f.write(bytes(256))
    with open(f"{folder}.said", "ab") as said:
        return subprocess.Popen([f"{build}/mvbench", *words], cwd=folder, env=env, stdin=subprocess.DEVNULL,
                                stdout=said, stderr=said, start_new_session=True)


def of_folder(folder):
    """Processes whose working folder this is."""
    for p in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.readlink(f"/proc/{p}/cwd") == folder and open(f"/proc/{p}/stat").read().split(") ")[1][0] != "Z":
                yield int(p)
        except OSError:
            pass


def finish(process, folder):
    """Exit status; None: it, or a process that it started, did not end."""
    try:
        status = process.wait(TIMEOUT_S)
    except subprocess.TimeoutExpired:
        status = None
    until = time.monotonic() + 15
    while status is not None and any(of_folder(folder)) and time.monotonic() < until:
        time.sleep(0.02)
    for p in of_folder(folder):
        status = None
        os.kill(p, signal.SIGKILL)
    return status


def run(folder, words, **inject):
    return finish(start(folder, words, **inject), folder)


def state(folder):
    with open(f"{folder}.state", "rb") as f:
        got = f.read()
    return int.from_bytes(got[:4], "little"), got[8:].split(b"\0")[0].decode()


class Found:
    """What a folder has. The database is read from a copy, so that this changes nothing."""

    def __init__(self, folder):
        self.files = set(os.listdir(folder))
        self.tables, self.sound, self.whole, self.partial, self.version = {}, True, 0, 0, 0
        self.out = {}
        for name in self.files:
            if name.startswith(("out.", "c.ckpt")):
                with open(f"{folder}/{name}", "rb") as f:
                    self.out[name] = f.read()
        with tempfile.TemporaryDirectory(dir=work) as copy:
            for name in self.files & {"r.db", "r.db-wal", "r.db-journal"}:
                shutil.copy(f"{folder}/{name}", copy)
            db = sqlite3.connect(f"{copy}/r.db")
            try:
                self.read(db)
            except sqlite3.DatabaseError as e:
                self.sound, self.why = False, str(e)
            db.close()

    def read(self, db):
        self.sound = db.execute("PRAGMA integrity_check").fetchall() == [("ok",)] \
            and not db.execute("PRAGMA foreign_key_check").fetchall()
        self.version = db.execute("PRAGMA user_version").fetchone()[0]
        for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND "
                                  "name NOT LIKE 'sqlite%'").fetchall():
            rows = db.execute(f'SELECT * FROM "{name}"')
            self.tables[name] = [c[0] for c in rows.description], rows.fetchall()
        if "run" in self.tables:
            self.whole, self.partial = db.execute("""WITH r AS (SELECT epochs + 1 = (SELECT count(*) FROM epoch
                WHERE run_id = id) AS whole FROM run WHERE status = 'done')
                SELECT total(whole), total(NOT whole) FROM r""").fetchone()

    def rows(self, common):
        """All rows, of these columns of these tables."""
        return {(name, *(r[columns.index(c)] if c in columns else None for c in common[name]))
                for name, (columns, rows) in self.tables.items() if name in common for r in rows}


class Case:
    def __init__(self, name, base=None):
        words, own_base, self.runs, self.output = COMMANDS[name]
        self.name, self.words, self.base = name, words, base or own_base
        folder = self.copy("clean")
        self.before = Found(folder)
        with open(f"{folder}.log", "w"):
            pass
        status = run(folder, self.words, log=f"{folder}.log")
        self.operations = state(folder)[0]
        self.clean, self.log = Found(folder), f"{folder}.log"
        self.common = {t: sorted(set(c) & set(self.clean.tables[t][0])) for t, (c, _) in self.before.tables.items()
                       if t in self.clean.tables and t != "run_kept"}  # views fill it again
        self.earlier = self.before.rows(self.common) & self.clean.rows(self.common)
        if status != 0 or not self.all_there(self.clean):
            sys.exit(f"{name} fails without a fault:\n" + open(f"{folder}.said").read())

    def copy(self, as_name):
        folder = f"{work}/{self.name}-{self.base}-{as_name}"
        shutil.copytree(f"{work}/{self.base}", folder)
        return folder

    def all_there(self, found):
        if found.partial or found.whole < self.runs or found.version != self.clean.version:
            return False
        got, clean = found.out.get(self.output, b""), self.clean.out.get(self.output, b"")
        return got == clean if self.name == "export" else got[-6:] == clean[-6:] if self.name == "report" \
            else bool(got) == bool(clean)

    def kept(self, found):
        return found.sound and not found.partial and self.earlier <= found.rows(self.common)

    def again(self, folder, other=None):
        """The harm that is there when the command has run again, perhaps after another one of a pair."""
        for name in os.listdir(folder):  # of a process that was killed long ago
            if name.endswith(".part"):
                os.utime(f"{folder}/{name}", (1, 1))
        status = run(folder, self.words)
        found = Found(folder)
        if not self.kept(found):
            return "lost"
        if status != 0 or not (other or self.all_there(found)):
            return "stuck"
        if "r.db-journal" in found.files:  # SQLite: not valid, so readers ignore it, and the next writer removes it
            run(folder, ["relabel", "1", "--label=", "--db=r.db"])
            found = Found(folder)
        return "left" if found.files - self.clean.files - (other.clean.files if other else set()) else None

    def fault(self, n, fault):
        folder = self.copy(f"{n}-{fault}")
        status = run(folder, self.words, at=n, fault=fault)
        what, found = state(folder)[1], Found(folder)
        harm = "left" if status is None else None
        if not self.kept(found):
            harm = "lost"
        elif status == 0 and not self.all_there(found):
            harm = "silent"
        elif fault and "unlink" not in what and any(f.endswith(".part") for f in found.files):
            harm = harm or "left"
        harm = harm or self.again(folder)
        name = {0: "kill", EIO: "EIO", ENOSPC: "ENOSPC"}[fault]
        return folder, f"{self.name} {name}", status == 0, harm, f"operation {n} of {self.operations}: {what}"

    def image(self, k, kind, files, last):
        folder = f"{work}/{self.name}-{self.base}-image{k}-{kind}"
        shutil.copytree(f"{work}/{self.base}", folder)
        for name in os.listdir(folder):
            os.unlink(f"{folder}/{name}")
        for name, content in files.items():
            with open(f"{folder}/{name}", "wb") as f:
                f.write(content)
        found = Found(folder)
        harm = None if self.kept(found) and (not last or self.all_there(found)) else "lost"
        harm = harm or self.again(folder)
        return folder, f"{self.name} power", False, harm, f"image of log line {k}, {kind}"


class File:
    def __init__(self, content=b""):
        self.synced, self.later = bytes(content), []


def apply(content, changes):
    content = bytearray(content)
    for _, offset, data in changes:
        if data is None:
            content = content[:offset].ljust(offset, b"\0")
        else:
            content = content.ljust(offset, b"\0")
            content[offset:offset + len(data)] = data
    return bytes(content)


def images(case):
    """The states that a power loss can leave: (log line, kind, {name: content}, the last?)."""
    now = {name: File(open(f"{work}/{case.base}/{name}", "rb").read()) for name in os.listdir(f"{work}/{case.base}")}
    durable, seen = dict(now), set()
    with open(case.log, "rb") as f:
        lines = []
        while line := f.readline():
            kind, offset, length, path, to = line.decode()[:-1].split(" ")
            lines.append((kind, int(offset), f.read(int(length)), os.path.basename(path), os.path.basename(to)))
    for k, (kind, offset, data, name, to) in enumerate(lines + [("end", 0, b"", "", "")]):
        if name.endswith("-shm"):
            continue
        if kind in ("fsync", "rename", "unlink", "end"):  # before it, most is not yet synced
            later = sorted(c for f in now.values() for c in f.later)
            half, second = later[:len(later) // 2], later[::2]
            for how, names, some in (("synced", durable, []), ("names", now, []), ("half", now, half),
                                     ("second", now, second)):
                made = {n: apply(f.synced, [c for c in f.later if c in some]) for n, f in names.items()}
                key = hash(tuple(sorted(made.items())))
                if key not in seen or (kind == "end" and how == "synced"):
                    seen.add(key)
                    yield k, how, made, kind == "end" and how == "synced"
        if kind == "create":
            now.setdefault(name, File())
        elif kind == "truncate":
            now.setdefault(name, File()).later.append((k, 0, None))
        elif kind == "write" and name in now:
            now[name].later.append((k, offset, data))
        elif kind == "ftruncate" and name in now:
            now[name].later.append((k, offset, None))
        elif kind == "fsync" and name in now:
            f = now[name]
            f.synced, f.later = apply(f.synced, f.later), []
            if f not in durable.values():
                durable[name] = f
        elif kind == "fsync":  # the folder
            durable = dict(now)
        elif kind == "rename" and name in now:
            now[to] = now.pop(name)
        elif kind == "unlink":
            now.pop(name, None)


def pair(a, b):
    folder = a.copy(f"with-{b.name}")
    both = [start(folder, c.words) for c in (a, b)]
    status = [finish(p, folder) for p in both]
    found, harm = Found(folder), None
    if not found.sound or found.partial or not a.earlier <= found.rows(a.common):
        harm = "lost"
    for c, s in zip((a, b), status):
        if not harm and s == 0 and c.output and not found.out.get(c.output):
            harm = "silent"
        harm = harm or ("left" if s is None else None)
    added = sum(c.runs - c.before.whole for c, s in zip((a, b), status) if s == 0)
    if not harm and a is not b and found.whole < a.before.whole + added:
        harm = "silent"
    harm = harm or a.again(folder, b) or b.again(folder, a)
    return folder, f"pairs {a.base}", status == [0, 0], harm, f"{a.name} ({status[0]}) and {b.name} ({status[1]})"


def make_bases(resume):
    for name in ("tmp", "new", "old"):
        os.mkdir(f"{work}/{name}")
    new, other = f"{work}/new", f"{work}/new/other.db"
    with open(f"{new}/cells.ini", "w") as f:
        f.write("[defaults]\nworkload = softmax\ntrain-rows = 200\nepochs = 1\nstrategy = serial\n[cells]\nseed = 8..9\n")
    for seed in "1", "2":
        run(new, ["run", *RUN, "--epochs=1", f"--seed={seed}"])
        run(new, ["run", *RUN, "--epochs=1", f"--seed={seed}5", f"--db={other}"])
    for name in "out.csv", "out.html":
        with open(f"{new}/{name}", "w") as f:
            f.write("the old file\n")
    shutil.copytree(new, f"{work}/old", dirs_exist_ok=True)
    db = sqlite3.connect(f"{work}/old/r.db")  # back to the oldest schema that is upgraded
    for kind, name in list(db.execute("SELECT type, name FROM sqlite_master WHERE type IN ('view', 'trigger')")):
        db.execute(f"DROP {kind} {name}")
    db.executescript("PRAGMA user_version = 16; PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()
    words, before = COMMANDS["resume"][0], set(os.listdir(new))
    for n in itertools.count(20, 5) if resume else ():  # killed between its second checkpoint and its end
        shutil.copytree(new, f"{work}/killed")
        run(f"{work}/killed", words, at=n, fault=0)
        found = Found(f"{work}/killed")
        if found.whole > 2:
            sys.exit("no kill left a checkpoint of a run that had not ended")
        if "c.ckpt" in found.files and any(r[:2] == (3, 2) for r in found.tables.get("epoch", ([], []))[1]):
            for name in found.files - before - {"c.ckpt", "r.db-wal"}:
                os.unlink(f"{work}/killed/{name}")
            break
        shutil.rmtree(f"{work}/killed")


def campaign(every, only, keep):
    wanted = [n for n in COMMANDS if not only or n in only or "power" in only or "pairs" in only]
    make_bases("resume" in wanted)
    cases = {n: Case(n) for n in wanted}
    trials = []
    for n, c in cases.items():
        if not only or n in only:
            trials += [(c.fault, k, f) for f in (EIO, ENOSPC, 0) for k in range(1, c.operations + 1)]
        if not only or "power" in only:
            trials += [(c.image, *i) for i in images(c)]
    trials = trials[::every]
    print("operations on files: " + ", ".join(f"{n} {c.operations}" for n, c in cases.items()), flush=True)
    if not only or "pairs" in only:
        for base in "new", "old":
            same = [Case(n, base) if cases[n].base != base else cases[n] for n in COMMANDS if n != "resume"]
            trials += [(pair, a, b) for a, b in itertools.combinations_with_replacement(same, 2)]
    counts, harmed = {}, 0
    columns = ("faults", "reported", "unharmed", "lost", "silent", "stuck", "left")
    with ThreadPoolExecutor(int(os.environ.get("LANES", "2"))) as lanes:
        for folder, row, fine, harm, what in lanes.map(lambda t: t[0](*t[1:]), trials):
            count = counts.setdefault(row, dict.fromkeys(columns, 0))
            count["faults"] += 1
            count["unharmed" if fine else "reported"] += 1
            if harm:
                count[harm] += 1
                harmed += 1
                with open(folder + ".said", "a+", errors="replace") as f:
                    f.seek(0)
                    said = ["", *(line for line in f.read().split("\n") if line.startswith("mvbench: "))][-1]
                print(f"{harm}: {row}, {what.replace(folder + '/', '')}: {said}", flush=True)
                if keep:
                    for end in "", ".said":
                        subprocess.run(["cp", "-r", folder + end, f"{build}/chaos_each"], check=False)
            shutil.rmtree(folder)
            for end in ".said", ".state":
                if os.path.exists(folder + end):
                    os.unlink(folder + end)
    counts["all"] = {c: sum(r[c] for r in counts.values()) for c in columns}
    print(f"{'':16}" + "".join(f"{c:>10}" for c in columns))
    for row, count in counts.items():
        print(f"{row:16}" + "".join(f"{count[c]:10}" for c in columns))
    print(f"chaos-each: {len(trials)} faults, {harmed} did harm")
    return harmed > 0


def main():
    global work, build
    parser = argparse.ArgumentParser(usage=__doc__.split("Usage: ")[1].split("\n\n")[0])
    parser.add_argument("build")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--only", type=lambda s: s.split(",") if s else [])
    parser.add_argument("--keep", action="store_true")
    args = parser.parse_args()
    build = os.path.realpath(args.build)
    if "CHAOS_EACH" not in os.environ:  # in a mount namespace where all but this folder is read-only
        shutil.rmtree(f"{build}/chaos_each", ignore_errors=True)
        os.mkdir(f"{build}/chaos_each")
        with tempfile.TemporaryDirectory(prefix="mvbench-each-", dir="/tmp") as work:
            again = [sys.executable, *sys.argv]
            kept = f"{build}/chaos_each"
            mounts = f'for f in {work} {kept}; do mount --bind $f $f; done; mount -t tmpfs tmpfs /dev/shm; ' \
                     f'mount -o remount,bind,ro /; exec "$@"'
            if subprocess.run(["unshare", "-rm", "true"], stderr=subprocess.DEVNULL, check=False).returncode == 0:
                again = ["unshare", "-rm", "sh", "-ec", mounts, "-", *again]
            else:
                print("no user namespaces here: other files are not protected")
            return subprocess.run(again, env=dict(os.environ, CHAOS_EACH=work), check=False).returncode
    work = os.environ["CHAOS_EACH"]
    return campaign(args.every, args.only, args.keep)


if __name__ == "__main__":
    sys.exit(main())
