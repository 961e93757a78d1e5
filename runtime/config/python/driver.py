"""driver.py - runs in the user's Python, for a workload in a Python file. The program contains this text.

driver.py describe OUT PATH...     reads the file (the first PATH; the others are files next to it that it imports), and
                                   writes its description: name, options, recipe, and the text of the files
driver.py export OUT PATH          writes the sets of data() to an archive of NumPy, for a model of mvbench
driver.py serve DESCRIPTION PARENT computes for the process PARENT: waits for its requests in memory that both share
                                   (file 3), with a region of parameters and gradients for each worker (file 4)

process.c has the other side of the memory's layout. A request is answered after a spin of some microseconds, or after a
sleep on a futex.
"""
import ctypes
import hashlib
import importlib.abc
import importlib.util
import inspect
import json
import linecache
import mmap
import os
import platform
import signal
import struct
import sys
import sysconfig
import time
import traceback
import typing

FILE, REGIONS = 3, 4  # open files
TEXT, TEXT_ROOM, INDEX = 128, 65536 - 128, 65536  # where the text, and the numbers of rows, begin [bytes]
SPINS = 400  # looks at the request before it sleeps: some 20 us
CONFIGURE, ATTACH, TARGETS, GRADIENT, EVALUATE, STATISTICS, LAYER_TIMES = range(7)
SAID_MOST = 700  # the most characters of a message
METRICS_MOST = 12  # strategies report values, too, and there are 16 in all
HASHED = 16  # rows of a set that gives them one by one
UNCOUNTED = -1  # in place of a number of correct answers: the run then has no accuracy


class Refused(Exception):
    """A sentence about the user's file."""


# ---- The file, and what it imports from its folder ----


STANDARD = tuple(os.path.join(sysconfig.get_path(name), "") for name in ("stdlib", "platstdlib"))


def is_own(file, folder):
    """Is it the user's? An interpreter and its packages may be in the folder of the user's file, too."""
    installed = "site-packages" in file or "dist-packages" in file or file.startswith(STANDARD)
    return file.startswith(os.path.join(folder, "")) and not installed


class Folder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports from texts of files: a later change of a file changes no run."""

    def __init__(self, files):
        self.files = dict(files)
        self.path = files[0][0]
        self.folder = os.path.dirname(self.path)
        self.name = os.path.basename(self.path)[:-3].replace(".", "_")  # a dot would name a package
        for path, text in files:
            linecache.cache[path] = (len(text), None, text.splitlines(True), path)

    def find_spec(self, name, path=None, target=None):
        base = os.path.join(self.folder, *name.split("."))
        first = self.path if name == self.name else base + ".py"
        for file, package in ((first, False), (base + "/__init__.py", True)):
            if file in self.files:
                spec = importlib.util.spec_from_loader(name, self, origin=file, is_package=package)
                spec.has_location = True
                if package:
                    spec.submodule_search_locations = [base]
                return spec
        return None

    def exec_module(self, module):
        path = module.__spec__.origin
        exec(compile(self.files[path], path, "exec"), module.__dict__)

    def load(self, sees_all=True):
        sys.path[0] = self.folder  # data files and extension modules next to the file
        sys.meta_path.insert(0, self)
        module = importlib.import_module(self.name)
        for other in list(sys.modules.values()) if sees_all else ():
            file = getattr(other, "__file__", None)
            if file and file.endswith(".py") and file not in self.files and is_own(file, self.folder):
                raise Refused(f"{file} is imported in a way that mvbench does not see: write its import on a line "
                              "of its own")
        return module


def last_lines(error, folder):
    """The end of the traceback, without the frames of this file."""
    if isinstance(error, Refused):
        return str(error)
    raised = None if isinstance(error, SyntaxError) else error.__traceback__  # it names its line itself
    frames = [f for f in traceback.extract_tb(raised) if f.filename != __file__ and
              not f.filename.startswith("<frozen")]
    own = [f for f in frames if is_own(f.filename, folder)][-2:]
    kept = own + [f for f in frames[-1:] if f not in own]
    where = "".join(traceback.format_list(kept))
    what = "".join(traceback.format_exception_only(type(error), error)).strip()
    text = (where + what).strip()
    if len(text) > SAID_MOST:
        text = text[: SAID_MOST - len(what[-300:]) - 20] + " ...\n" + what[-300:]
    if isinstance(error, ModuleNotFoundError) and error.name in ("torch", "numpy"):
        text += (f"\n{sys.executable} has no {error.name}: install it there ({sys.executable} -m pip install "
                 f"{error.name}), or give an interpreter that has it with --python=PATH")
    return text


# ---- Options: annotated keyword arguments of model(), params() and data() ----

TYPES = {int: "int", float: "real", bool: "bool", str: "string"}
GIVEN = ("seed", "rng")  # arguments that mvbench gives


def options_of(module, names):
    found = {}
    for name in names:
        function = getattr(module, name, None)
        if function is None:
            continue
        hints = typing.get_type_hints(function)
        for p in inspect.signature(function).parameters.values():
            if p.name in GIVEN or p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
                continue
            if p.default is p.empty:
                raise Refused(f"{name}({p.name}): give the argument a default, so that it is an option")
            kind = hints.get(p.name, type(p.default))
            choices = ""
            if typing.get_origin(kind) is typing.Literal:
                choices = "|".join(map(str, typing.get_args(kind)))
                kind = str
            if kind not in TYPES:
                raise Refused(f"{name}({p.name}): annotate it as int, float, bool, str or Literal of texts")
            value = p.default
            text = str(value).lower() if kind is bool else repr(float(value)) if kind is float else str(value)
            row = ("choice" if choices else TYPES[kind], text, choices)
            if found.setdefault(p.name, (row, name))[0] != row:
                raise Refused(f"{name}({p.name}): another function has this argument with another type or default")
    return found


def valued(module, name, options, **given):
    """Calls a function of the file with those of the options, and of what mvbench gives, that it takes."""
    function = getattr(module, name)
    takes = inspect.signature(function).parameters
    return function(**{k: v for k, v in (options | given).items() if k in takes})


def one_line(text, what):
    text = str(text)
    if any(c in text for c in "\t\n\r"):
        raise Refused(f"{what}: {text!r} has a tab or a newline")
    return text


def lines_of(module, folder, options):
    """Of its description: name, options and recipe."""
    small = "abcdefghijklmnopqrstuvwxyz0123456789_"
    name = getattr(module, "name", None) or "".join(c if c in small else "_" for c in folder.name.lower())
    if not set(str(name)) <= set(small):
        raise Refused(f"name = {name!r}: give small letters, digits and _")
    summary = (inspect.getdoc(module) or f"the model of {os.path.basename(folder.path)}").splitlines()[0]
    lines = [f"name\t{name}", "summary\t" + one_line(summary, "its first line")]
    for key, ((kind, text, choices), owner) in options.items():
        what = {"int": "whole number", "real": "number", "bool": "true/false"}.get(kind, "text")
        lines.append(f"option\t{key}\t{kind}\t{one_line(text, key)}\t{choices}\targument of {owner}() [{what}]")
    for key, value in getattr(module, "recipe", {}).items():
        value = str(value).lower() if isinstance(value, bool) else str(value)
        lines.append(f"recipe\t{key.replace('_', '-')}\t" + one_line(value, key))
    return lines


def describe(out, paths):
    files = []
    for path in paths:
        with open(path, encoding="utf-8") as f:
            files.append([path, f.read()])
    folder = Folder(files)
    try:
        module = folder.load()
        numbers = hasattr(module, "gradient")
        if not numbers and not hasattr(module, "model"):
            raise Refused("it has neither model(), which returns a torch.nn.Module, nor params() and gradient()")
        if numbers and hasattr(module, "accuracy"):
            raise Refused("accuracy() belongs to a model(): let gradient() and loss() return the number of correct "
                          "answers, too")
        if numbers and not hasattr(module, "params"):
            raise Refused("it has gradient(), but no params(), which returns the first parameters")
        if not hasattr(module, "data"):
            raise Refused("it has no data(), which returns the training and the test set")
        most = getattr(module, "eval_batch", 1)
        if not isinstance(most, int) or most < 1:
            raise Refused(f"eval_batch = {most!r}: give the most rows of a batch in evaluations, such as 32")
        lines = lines_of(module, folder, options_of(module, ("params" if numbers else "model", "data")))
    except BaseException as error:  # SystemExit, too
        print(last_lines(error, folder.folder))
        sys.exit(1)
    lines.append("files\t" + json.dumps(files))
    with open(out, "w", encoding="utf-8") as f:
        f.write("\n".join(lines) + "\n")


def export(out, path):
    with open(path, encoding="utf-8") as f:
        folder = Folder([[os.path.abspath(path), f.read()]])
    try:
        import numpy
        module = folder.load(False)  # the rows are compared, not the text
        if not hasattr(module, "data"):
            raise Refused("it has no data(), which returns the training and the test set")
        seed_all(1)
        sets = valued(module, "data", {}, seed=1)
        if not isinstance(sets, (tuple, list)) or [len(s) if isinstance(s, (tuple, list)) else 0 for s in sets] != [2, 2]:
            raise Refused("data(): return (rows, labels) of the training set and of the test set")
        arrays = [numpy.asarray(a) for s in sets for a in s]
        with open(out, "wb") as f:
            numpy.savez(f, **dict(zip(("x_train", "y_train", "x_test", "y_test"), arrays)))
    except BaseException as error:  # SystemExit, too
        print(last_lines(error, folder.folder))
        sys.exit(1)


def layout_of(module, parameters):
    """Of each (name, shape, layer): its shape; does --decay=weights spare it; its layer; is it a matrix inside the model.

    no_decay has parts of names of parameters that are spared, besides those with fewer than two dimensions.
    """
    parts = getattr(module, "no_decay", ())
    parts = (parts,) if isinstance(parts, str) else tuple(parts)
    for part in parts:
        if not any(part in name for name, _, _ in parameters):
            raise Refused(f"no_decay: no parameter has {part!r} in its name: {', '.join(n for n, _, _ in parameters)}")
    matrices = [name for name, shape, _ in parameters if len(shape) > 1]
    return [(shape, len(shape) < 2 or any(part in name for part in parts), layer, name in matrices[1:-1])
            for name, shape, layer in parameters]


def metrics_of(module, model, batch, rows, test):
    """Sums over the rows of what metrics() says of a batch of the test set, by name."""
    if not test or not hasattr(module, "metrics"):
        return {}
    said = module.metrics(model, batch)
    if not isinstance(said, dict) or len(said) > METRICS_MOST:
        raise Refused(f"metrics(): return a dictionary of at most {METRICS_MOST} numbers by name")
    for name in said:
        if not isinstance(name, str) or not name.isprintable() or not 0 < len(name.encode()) < 32:
            raise Refused(f"metrics(): {name!r} is no name of 1 to 31 characters")
    return {name: float(value) * rows for name, value in said.items()}


def seed_all(seed):
    """The generators that a file may use without naming one."""
    if "torch" in sys.modules:
        sys.modules["torch"].default_generator.manual_seed(seed % 2**63)
    if "random" in sys.modules:
        sys.modules["random"].seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed % 2**32)


# ---- Data: rows 0 to n - 1 are the training set, the others the test set ----


def length(part):
    if isinstance(part, dict):
        return length(next(iter(part.values())))
    return len(part[0]) if isinstance(part, tuple) else len(part)  # a list: of rows


def arrays_of(part):
    return list(part.values()) if isinstance(part, dict) else list(part) if isinstance(part, (tuple, list)) else [part]


def is_array(x):
    return hasattr(x, "shape") and hasattr(x, "dtype")


def arrays_in(batch):
    """All arrays of a batch, at any depth; None: it has something else."""
    if is_array(batch):
        return [batch]
    parts = list(batch.values()) if isinstance(batch, dict) else batch
    if not isinstance(parts, (tuple, list)):
        return None
    found = [arrays_in(part) for part in parts]
    return None if any(f is None for f in found) else [a for f in found for a in f]


class Data:
    def __init__(self, module, options, seed):
        self.by_seed = "seed" in inspect.signature(module.data).parameters
        seed_all(seed if self.by_seed else 1)  # the same sets in all runs, unless data() takes the seed
        self.options = options
        train_test = valued(module, "data", options, seed=seed)
        if not isinstance(train_test, (tuple, list)) or len(train_test) != 2:
            raise Refused("data(): return two sets: the training set and the test set")
        self.collate = getattr(module, "collate", None)
        self.parts = [self.part(x, k) for k, x in enumerate(train_test)]
        self.n = [length(p) for p in self.parts]
        if min(self.n) < 1:
            raise Refused("data(): both sets need at least one row")

    def part(self, x, k):
        """Arrays, or a data set that gives its rows one by one."""
        arrays = arrays_of(x)
        if arrays and all(map(is_array, arrays)):
            if len({len(a) for a in arrays}) > 1:
                raise Refused(f"data(): arrays of the {('training', 'test')[k]} set have {[len(a) for a in arrays]} rows")
            kept = [self.array(a) for a in arrays]
            return dict(zip(x, kept)) if isinstance(x, dict) else tuple(kept) if isinstance(x, (tuple, list)) else kept[0]
        if hasattr(x, "__getitem__") and hasattr(x, "__len__"):
            return x
        loader = "; give the data set of the DataLoader" if hasattr(x, "dataset") else ""
        raise Refused("data(): a set is an array, a tuple or a dictionary of arrays, or an object with a length "
                      f"whose rows are taken by number{loader}")

    def batch(self, rows, index):
        """rows: their numbers, in ascending sets; index: the same as an index of arrays."""
        test = int(rows[0]) >= self.n[0]
        part, first = self.parts[test], self.n[0] if test else 0
        if first:
            index = index - first
        if isinstance(part, dict):
            return {k: v[index] for k, v in part.items()}
        if isinstance(part, tuple):
            return tuple(v[index] for v in part)
        if is_array(part):
            return part[index]
        rows = [part[int(i) - first] for i in rows]
        return self.collate(rows) if self.collate else self.collated(rows)

    def targets(self):
        """Whole-number targets of both sets, as NumPy arrays; None: rows have none."""
        found = []
        for part in self.parts:
            last = arrays_of(part)[-1] if isinstance(part, (tuple, dict)) else None
            if not is_array(last):
                return None
            last = self.as_numpy(last)
            if last.dtype.kind not in "iu" or last.min() < 0:
                return None
            found.append(last)
        return found

    def add(self, h, arrays):
        for a in arrays:
            a = self.as_numpy(a)
            h.update(f"{a.dtype} {a.shape} ".encode())
            h.update(memoryview(a if a.flags.c_contiguous else a.copy()).cast("B"))

    def some_rows(self, k):
        """The hash of a set that gives its rows one by one: of their number and of some of them. None: they have none."""
        first, n, h = k * self.n[0], self.n[k], hashlib.sha256()
        try:
            for i in sorted({j * (n - 1) // (HASHED - 1) for j in range(HASHED)}):
                seed_all(i)
                self.add(h, arrays_in(self.batch([first + i], first + i)))
        except Exception:  # something else than arrays of numbers; what the user's code raises is said when it is used
            return None
        return f"{n} {h.hexdigest()}".encode()

    def content(self):
        """The hash of all arrays, and of some of the rows that are given one by one; "": these would not repeat."""
        h = hashlib.sha256()
        for k, part in enumerate(self.parts):
            if isinstance(part, (tuple, dict)) or is_array(part):
                self.add(h, arrays_of(part))
                continue
            rows = self.some_rows(k)
            if rows is None or rows != self.some_rows(k):
                return ""
            h.update(rows)
        return h.hexdigest()[:16]


# ---- Models ----


class Numbers:
    """A file with NumPy only: params(), gradient(params, batch)."""

    def __init__(self, module, options, seed, threads, data):
        import numpy
        self.np, self.module = numpy, module
        class Rows(Data):
            array = staticmethod(numpy.ascontiguousarray)
            as_numpy = staticmethod(numpy.asarray)
            @staticmethod
            def collated(rows):
                first = rows[0]
                if isinstance(first, (tuple, list)):
                    return tuple(numpy.stack([numpy.asarray(r[i]) for r in rows]) for i in range(len(first)))
                return numpy.stack([numpy.asarray(r) for r in rows])
        self.data = data or Rows(module, options, seed)
        seed_all(seed)
        first = valued(module, "params", options, seed=seed, rng=numpy.random.default_rng(seed))
        self.names = list(first) if isinstance(first, dict) else None
        self.single = is_array(first)
        self.first = [numpy.asarray(a) for a in (first.values() if self.names else [first] if self.single else first)]
        for name, a in zip(self.names or range(len(self.first)), self.first):
            if a.dtype != numpy.float32:
                raise Refused(f"params(): {name} is {a.dtype}, and mvbench trains float32: use .astype(numpy.float32)")
        if not self.first:
            raise Refused("params(): there are no parameters")
        self.rng = [f for f in ("gradient",) if "rng" in inspect.signature(module.gradient).parameters]
        self.regions = {}

    def tensors(self):
        names = self.names or range(len(self.first))
        return layout_of(self.module, [(str(name), a.shape, i) for i, (name, a) in enumerate(zip(names, self.first))])

    buffers = 0

    def flops(self):
        return None

    def split(self, flat):
        at, out = 0, []
        for a in self.first:
            out.append(flat[at:at + a.size].reshape(a.shape))
            at += a.size
        return out

    def structured(self, arrays):
        return dict(zip(self.names, arrays)) if self.names else arrays[0] if self.single else arrays

    def attach(self, slot, memory, offset, n):
        param = self.np.frombuffer(memory, self.np.float32, n, offset[0])
        grad = self.np.frombuffer(memory, self.np.float32, n, offset[1])
        view = self.split(param)
        for v, a in zip(view, self.first):
            v[...] = a
        self.regions[slot] = (self.structured(view), self.split(grad))

    def rows(self, index):
        return index, index

    def index(self, memory):
        return self.np.frombuffer(memory, self.np.int32)

    def step(self, params, batch, key):
        """The mean loss, its gradient and the number of correct answers."""
        more = {"rng": self.np.random.default_rng(key)} if self.rng else {}
        said = self.module.gradient(params, batch, **more)
        if not isinstance(said, tuple) or len(said) not in (2, 3):
            raise Refused("gradient(): return the mean loss and its gradient, or also the number of correct answers")
        return said if len(said) == 3 else (*said, UNCOUNTED)

    def gradient(self, slot, index, key, rows_share, ready, trial):
        params, grads = self.regions[slot]
        seed_all(key)
        loss, grad, correct = self.step(params, self.data.batch(*self.rows(index)), key)
        grad = [grad[k] for k in self.names] if self.names else [grad] if self.single else grad
        if len(grad) != len(grads):
            raise Refused(f"gradient(): {len(grad)} gradients of {len(grads)} parameters")
        for into, g in zip(grads, grad):
            if self.np.shape(g) != into.shape:
                raise Refused(f"gradient(): a gradient of shape {self.np.shape(g)} of a parameter of shape {into.shape}")
            self.np.multiply(g, rows_share, out=into, casting="same_kind")
        return float(loss) * len(index), len(index), int(correct)

    def layer_times(self, slot, index):
        """Seconds of the backward pass of each layer, and of the forward pass: here all gradients come at its end."""
        began = time.perf_counter()
        result = self.gradient(slot, index, 0, 1, None, True)
        return [0] * len(self.first) + [time.perf_counter() - began], result

    def answers(self, params, batch):
        """The mean loss, and the number of correct answers."""
        if hasattr(self.module, "loss"):
            said = self.module.loss(params, batch)
            return said if isinstance(said, tuple) else (said, UNCOUNTED)
        return self.step(params, batch, 0)[::2]

    def counts(self):
        """Does the file count correct answers? Asks with one row: a copy, as a gradient may write to its parameters."""
        seed_all(0)
        batch = self.data.batch(*self.rows(self.np.zeros(1, self.np.int32)))
        return self.answers(self.structured([a.copy() for a in self.first]), batch)[1] != UNCOUNTED

    def evaluate(self, slot, index, test):
        seed_all(0)
        params, batch, n = self.regions[slot][0], self.data.batch(*self.rows(index)), len(index)
        loss, correct = self.answers(params, batch)
        return float(loss) * n, n, int(correct), metrics_of(self.module, params, batch, n, test)


class Torch:
    """A file with model(), which returns a torch.nn.Module."""

    def __init__(self, module, options, seed, threads, data):
        import torch
        self.torch, self.module = torch, module
        torch.set_num_threads(threads)
        torch.set_flush_denormal(True)
        class Rows(Data):
            @staticmethod
            def array(a):
                a = torch.as_tensor(a).detach().contiguous()
                return a.to(torch.float32) if a.dtype == torch.float64 else a.to(
                    torch.int64) if a.dtype in (torch.int32, torch.int16, torch.int8) else a
            @staticmethod
            def as_numpy(a):
                return a.numpy()
            @staticmethod
            def collated(rows):
                return torch.utils.data.default_collate(rows)
        self.data = data or Rows(module, options, seed)
        seed_all(seed)
        self.model = valued(module, "model", options, seed=seed)
        if not isinstance(self.model, torch.nn.Module):
            raise Refused(f"model(): return a torch.nn.Module, not {type(self.model).__name__}")
        self.check()
        self.named = [(n, p) for n, p in self.model.named_parameters() if p.requires_grad]
        if not self.named:
            raise Refused("model(): no parameter is trained (requires_grad is False in all)")
        places = [(m, n) for m in self.model.modules() for n, b in m._buffers.items() if b is not None]
        self.places = [(m, n) for m, n in places if m._buffers[n].dtype == torch.float32]
        self.others = [p for p in places if p not in self.places]  # each worker keeps its own
        self.first = [p.detach().clone() for _, p in self.named]
        self.first_buffers = [m._buffers[n].detach().clone() for m, n in self.places]
        self.first_others = [m._buffers[n].detach().clone() for m, n in self.others]
        self.buffers = sum(b.numel() for b in self.first_buffers)
        self.norms = [m for m in self.model.modules() if isinstance(m, torch.nn.modules.batchnorm._BatchNorm)]
        self.layer_of = []  # of each parameter: those of one module are one layer
        self.owners = owners = []
        for name, _ in self.named:
            owner = name.rpartition(".")[0]
            if not owners or owners[-1] != owner:
                owners.append(owner)
            self.layer_of.append(len(owners) - 1)
        self.own_loss = getattr(module, "loss", None)
        self.own_accuracy = getattr(module, "accuracy", None)
        self.regions, self.own, self.slot, self.ready, self.left, self.finals = {}, {}, None, None, None, None
        if hasattr(torch.Tensor, "register_post_accumulate_grad_hook"):
            for i, (_, p) in enumerate(self.named):
                p.register_post_accumulate_grad_hook(lambda _, i=i: self.final(i))

    def check(self):
        torch = self.torch
        for name, p in self.model.named_parameters():
            if p.requires_grad and p.dtype != torch.float32:
                raise Refused(f"model(): {name} is {str(p.dtype)[6:]}, and mvbench trains float32: call .float(), or "
                              "compute in another type with torch.autocast")
            if p.device.type != "cpu":
                raise Refused(f"model(): {name} is on {p.device}, and mvbench trains a Python model on the CPU")
        for name, m in self.model.named_modules():
            if isinstance(m, torch.nn.modules.batchnorm._BatchNorm) and m.momentum is None:
                raise Refused(f"model(): the momentum of {name} is None, and its count of steps would differ between "
                              "processes: give a number, such as momentum=0.1")
            if getattr(m, "sparse", False) and isinstance(m, (torch.nn.Embedding, torch.nn.EmbeddingBag)):
                raise Refused(f"model(): {name or type(m).__name__} has sparse gradients, and mvbench sends dense ones: use sparse=False")

    def first_rows(self, rows):
        index = self.torch.arange(rows, dtype=self.torch.int64)
        return self.data.batch(index, index)

    def counts(self):
        """Are correct answers counted? By accuracy(), or by the default loss of whole-number targets."""
        if self.own_loss or self.own_accuracy:
            return bool(self.own_accuracy)
        seed_all(0)
        return not self.inputs(self.first_rows(1))[1].dtype.is_floating_point

    def flops(self):
        """Of a row in the backward pass of each layer, and in the forward pass; None: this PyTorch cannot count them.

        A layer's backward pass has two products for each one of its forward pass.
        """
        try:
            from torch.utils.flop_counter import FlopCounterMode
        except ImportError:
            return None
        rows, root = min(8, self.data.n[0]), type(self.model).__name__
        self.mode(False)
        with FlopCounterMode(display=False) as counter:  # with gradients: without, some layers compute as a whole
            self.losses(self.first_rows(rows), rows)
        count = {name: sum(of.values()) / rows for name, of in counter.get_flop_counts().items()}
        whole = [count.get(f"{root}.{owner}" if owner else root, 0) for owner in self.owners]
        if not any(whole):
            return None  # it has operations that are not counted, such as products of elements
        own = []
        for owner, flops in zip(self.owners, whole):
            below = owner + "." if owner else ""
            inner = [o for o in self.owners if o != owner and o.startswith(below)]
            outer = [o for o in inner if not any(o.startswith(i + ".") for i in inner)]
            own.append(flops - sum(whole[self.owners.index(o)] for o in outer))
        return [2 * f for f in own] + [count.get("Global", 0)]

    def tensors(self):
        return layout_of(self.module, [(n, tuple(p.shape), k) for (n, p), k in zip(self.named, self.layer_of)])

    def views(self, flat, like):
        at, out = 0, []
        for t in like:
            out.append(flat[at:at + t.numel()].view(t.shape))
            at += t.numel()
        return out

    def attach(self, slot, memory, offset, n):
        new = lambda k, count: self.torch.frombuffer(memory, dtype=self.torch.float32, count=count, offset=offset[k])
        param, grad = new(0, n), new(1, n)
        views = self.views(param, self.first)
        buffers = self.views(new(2, self.buffers), self.first_buffers) if self.buffers else []
        for v, a in zip(views + buffers, self.first + self.first_buffers):
            v.copy_(a)
        self.leave()
        self.regions[slot] = (views, self.views(grad, self.first), buffers, grad)
        self.own[slot] = [b.clone() for b in self.first_others]

    def leave(self):
        """The model is no worker's: it keeps the worker's buffers that are not in the region."""
        if self.slot is not None:
            self.own[self.slot] = [m._buffers[n] for m, n in self.others]
        self.slot = None

    def copies(self):
        """Of the buffers that are not in the region, for put() after what is no part of the training."""
        return [m._buffers[n].clone() for m, n in self.others]

    def put(self, others):
        for (m, n), b in zip(self.others, others):
            m._buffers[n] = b

    def take(self, slot):
        """The model's parameters, gradients and buffers are those of this worker."""
        views, grads, buffers, flat = self.regions[slot]
        if self.slot != slot:
            self.leave()
            for (_, p), v, g in zip(self.named, views, grads):
                p.data = v
                p.grad = g
            for (m, n), b in zip(self.places, buffers):
                m._buffers[n] = b
            self.put(self.own[slot])
            self.slot = slot
        return grads, buffers, flat

    def keep_buffers(self, buffers):
        """A module may have put other tensors in place of its buffers."""
        for (m, n), b in zip(self.places, buffers):
            if m._buffers[n] is not b:
                b.copy_(m._buffers[n].detach())
                m._buffers[n] = b

    def index(self, memory):
        return memory

    def batch(self, index):
        index = self.torch.frombuffer(index, dtype=self.torch.int32).to(self.torch.int64)
        return self.data.batch(index, index)

    def inputs(self, batch):
        if isinstance(batch, dict) or not isinstance(batch, (tuple, list)) or len(batch) < 2:
            raise Refused("a batch is not (inputs ..., target): define loss(model, batch)")
        return batch[:-1], batch[-1]

    def losses(self, batch, rows, predicts=False):
        """The mean loss, its weight in rows, and the number of correct answers, if it predicts and they are known."""
        torch, f = self.torch, self.torch.nn.functional
        correct, count = UNCOUNTED, rows
        if self.own_loss:
            loss = self.own_loss(self.model, batch)
            if loss.dim():
                raise Refused("loss(): return the mean loss, a tensor without dimensions")
            return loss, count, correct
        inputs, y = self.inputs(batch)
        out = self.model(*inputs)
        if not isinstance(out, torch.Tensor):
            raise Refused(f"the model returns {type(out).__name__}, not a tensor: define loss(model, batch)")
        if y.dtype.is_floating_point:
            if out.numel() != y.numel():
                raise Refused(f"the model gives {tuple(out.shape)}, and the targets are {tuple(y.shape)}: define "
                              "loss(model, batch)")
            return f.mse_loss(out, y.reshape(out.shape)), count, correct
        y = y.to(torch.int64)
        if out.dim() > 2 and out.shape[:-1] == y.shape:  # sequences
            out, y = out.flatten(0, -2), y.flatten()
        if out.dim() < 2 or out.shape[1] < 2:
            raise Refused(f"the model gives {tuple(out.shape)}, and targets of whole numbers are classes: give an "
                          "output for each class, or define loss(model, batch)")
        loss = f.cross_entropy(out, y)
        count = y.numel()
        if predicts and not self.own_accuracy:
            correct = int((out.detach().argmax(1) == y).sum())
        return loss, count, correct

    def correct(self, batch, count):
        """By accuracy(), which is called in evaluations only: a step takes no time for it."""
        fraction = float(self.own_accuracy(self.model, batch))
        if not 0 <= fraction <= 1:
            raise Refused(f"accuracy(): return the fraction of correct answers, from 0 to 1, not {fraction:g}")
        return round(fraction * count)

    def keep_gradient(self, i):
        """Something may have put another tensor in place of a gradient."""
        (name, p), g = self.named[i], self.regions[self.slot][1][i]
        if p.grad is g:
            return
        if p.grad is None or p.grad.is_sparse:
            raise Refused(f"the gradient of {name} is sparse, or was removed")
        g.copy_(p.grad)
        p.grad = g

    def final(self, i):
        """Autograd has added the last part of this gradient; of several, if checkpoints are reentrant."""
        if self.ready:
            if i in self.finals:
                raise Refused(f"the gradient of {self.named[i][0]} comes in several parts, as with a reentrant checkpoint, "
                              "and the first one may have been sent: use use_reentrant=False, or no overlap")
            self.finals.add(i)
            self.keep_gradient(i)
            self.left[self.layer_of[i]] -= 1
            while self.next >= 0 and self.left[self.next] == 0:
                self.next -= 1
                self.ready()

    def mode(self, training):
        if self.model.training != training:  # setting it anew takes time in each module
            self.model.train(training)

    def gradient(self, slot, index, key, rows_share, ready, trial):
        grads, buffers, flat = self.take(slot)
        others = self.copies() if trial else ()
        flat.zero_()
        seed_all(key)
        self.mode(True)
        self.ready = ready
        if ready:
            self.finals = set()
            self.left = [0] * (self.layer_of[-1] + 1)
            for layer in self.layer_of:
                self.left[layer] += 1
            self.next = self.layer_of[-1]
        loss, count, correct = self.losses(self.batch(index), len(index) // 4, True)
        self.predicted = time.perf_counter()
        (loss if rows_share == 1 else loss * rows_share).backward()
        self.ready = None
        for i in range(len(grads)):
            self.keep_gradient(i)
        self.keep_buffers(buffers)
        self.put(others)
        return loss.item() * count, count, correct

    def layer_times(self, slot, index):
        """Seconds of the backward pass of each layer, and of the forward pass; []: its gradients come in several parts.

        A layer's time ends when its gradient may be sent.
        """
        at, began = [], time.perf_counter()
        try:
            result = self.gradient(slot, index, 0, 1, lambda: at.append(time.perf_counter()), True)
        except Refused:
            return [], (0.0, 0, 0)
        at = [self.predicted] + at + [time.perf_counter()] * (self.layer_of[-1] + 1 - len(at))
        backward = [end - begin for begin, end in zip(at, at[1:])]  # from the last layer
        return backward[::-1] + [self.predicted - began], result

    def evaluate(self, slot, index, test):
        _, buffers, _ = self.take(slot)
        seed_all(0)
        self.mode(False)
        batch, rows = self.batch(index), len(index) // 4
        with self.torch.no_grad():
            loss, count, correct = self.losses(batch, rows, True)
            if self.own_accuracy:
                correct = self.correct(batch, count)
            metrics = metrics_of(self.module, self.model, batch, rows, test)
        self.keep_buffers(buffers)
        return loss.item() * count, count, correct, metrics

    def statistics(self, slot, index):
        _, buffers, _ = self.take(slot)
        seed_all(0)
        self.mode(True)
        kept, others = [m.momentum for m in self.norms], self.copies()
        for m in self.norms:
            m.momentum = 1.0
        try:
            with self.torch.no_grad():
                loss, count, correct = self.losses(self.batch(index), len(index) // 4)
        finally:
            for m, momentum in zip(self.norms, kept):
                m.momentum = momentum
        self.keep_buffers(buffers)
        self.put(others)
        return loss.item() * count, count, correct


# ---- Serving ----


class Server:
    def __init__(self, description, parent):
        with open(description, encoding="utf-8") as f:
            rows = [line.split("\t", 1) for line in f.read().splitlines()]
        self.folder = Folder(json.loads(dict(rows[-1:])["files"]))
        self.memory = mmap.mmap(FILE, os.fstat(FILE).st_size)
        self.word = memoryview(self.memory).cast("I")
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        self.parent, self.module, self.computes, self.regions = parent, None, None, []
        libc = ctypes.CDLL(None)
        libc.prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG: ends with its parent
        number = {"x86_64": 202, "aarch64": 98}.get(platform.machine(), 98)

        class Time(ctypes.Structure):
            _fields_ = [("s", ctypes.c_long), ("ns", ctypes.c_long)]

        second = Time(1, 0)
        libc.syscall.argtypes = [ctypes.c_long, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint, ctypes.c_void_p,
                                 ctypes.c_void_p, ctypes.c_int]
        self.sleep = lambda seen: libc.syscall(number, self.address, 0, seen, ctypes.byref(second), None, 0)
        self.wake = lambda: libc.syscall(number, self.address + 8, 1, 1, None, None, 0)

    def event(self):
        self.word[2] = (self.word[2] + 1) & 0xffffffff
        self.wake()

    def ready(self):
        self.word[5] += 1
        self.event()

    def serve(self):
        word, done = self.word, 0
        while True:
            spins = SPINS
            while word[0] == done:
                spins -= 1
                if spins < 0:
                    self.sleep(done)
                    if os.getppid() != self.parent:
                        return
            try:
                self.answer(word[3])
                word[4] = 0
            except BaseException as error:
                self.say(last_lines(error, self.folder.folder))
                word[4] = 1
            done = word[0]
            word[1] = done
            self.event()

    def say(self, text):
        text = text.encode()[:TEXT_ROOM - 1]
        self.memory[TEXT:TEXT + len(text)] = text
        struct.pack_into("q", self.memory, 96, len(text))

    def said(self):
        return bytes(self.memory[TEXT:TEXT + struct.unpack_from("q", self.memory, 96)[0]]).decode()

    def answer(self, command):
        slot, at, rows, key, share = struct.unpack_from("qqqQd", self.memory, 32)
        if command == CONFIGURE:
            self.configure(json.loads(self.said()))
        elif command == ATTACH:
            self.attach(slot, at, rows)
        elif command == TARGETS:
            self.targets(at)
        else:
            index = self.index(0, rows)
            if command == GRADIENT:
                ready = self.ready if self.word[6] else None
                result = self.computes.gradient(slot, index, key, share, ready, bool(self.word[7]))
            elif command == EVALUATE:
                result = self.evaluate(slot, rows)
            elif command == LAYER_TIMES:
                times, result = self.computes.layer_times(slot, index)
                self.say("\t".join(f"{t:.6g}" for t in times))
            else:
                result = self.computes.statistics(slot, index)
            struct.pack_into("dqq", self.memory, 72, *result)

    def index(self, first, end):
        return self.computes.index(memoryview(self.memory)[INDEX + 4 * first:INDEX + 4 * end])

    def evaluate(self, slot, rows):
        """Says lines of a metric, its sum and its number of rows."""
        most = getattr(self.module, "eval_batch", rows)
        test = struct.unpack_from("i", self.memory, INDEX)[0] >= self.computes.data.n[0]
        result, sums = [0.0, 0, 0], {}
        for first in range(0, rows, most):
            end = min(first + most, rows)
            *part, metrics = self.computes.evaluate(slot, self.index(first, end), test)
            result = [a + b for a, b in zip(result, part)]
            for name, value in metrics.items():
                total, n = sums.get(name, (0.0, 0))
                if value == value:  # a batch may have no value
                    sums[name] = total + value, n + end - first
        self.say("\n".join(f"{name}\t{total!r}\t{n}" for name, (total, n) in sums.items()))
        return result

    def configure(self, c):
        for name in ("OMP", "OPENBLAS", "MKL"):  # read when NumPy is imported
            os.environ[name + "_NUM_THREADS"] = str(c["threads"])
        self.module = self.module or self.folder.load()
        kind = Numbers if hasattr(self.module, "gradient") else Torch
        before = self.computes.data if self.computes else None
        kept = before if before and before.options == c["options"] and not before.by_seed else None
        self.computes = kind(self.module, c["options"], c["seed"], c["threads"], kept)
        data = self.computes.data
        targets = data.targets()
        counted = int(self.computes.counts())
        classes = 1 + max(int(t.max()) for t in targets) if targets else counted
        one = bool(targets) and all(t.ndim == 1 for t in targets)
        self.classes = targets if one else None
        content = data.content()
        lines = [f"rows\t{data.n[0]}\t{data.n[1]}", f"classes\t{classes}\t{int(one)}\t{counted}",
                 f"content\t{'s' + content[1:] if data.by_seed and content else content}",
                 f"buffers\t{self.computes.buffers}"]
        tensors = self.computes.tensors()
        for shape, spared, layer, hidden in tensors:
            size = 1
            for n in shape:
                size *= n
            rows = shape[0] if len(shape) > 1 else 1
            lines.append(f"tensor\t{rows}\t{size // rows if rows else 0}\t{int(spared)}\t{layer}\t{int(hidden)}")
        flops = self.computes.flops()
        if flops:
            lines.append("flops\t" + "\t".join(map(str, flops)))
        text = "\n".join(lines)
        if len(text) >= TEXT_ROOM:
            raise Refused(f"{len(tensors)} parameters are more than mvbench has room for")
        self.say(text)

    def attach(self, slot, at, n):
        """The worker's region has parameters, gradients and buffers at these offsets."""
        size, *offset = struct.unpack_from("qqqq", self.memory, TEXT)
        self.computes.attach(slot, mmap.mmap(REGIONS, size, offset=at), offset, n)

    def targets(self, at):
        import numpy
        memory = mmap.mmap(REGIONS, 4 * sum(self.computes.data.n), offset=at)
        first = 0
        for t in self.classes:
            numpy.frombuffer(memory, numpy.float32, len(t), 4 * first)[:] = t
            first += len(t)


def main():
    mode, arguments = sys.argv[1], sys.argv[2:]
    if mode == "describe":
        describe(arguments[0], arguments[1:])
        return
    if mode == "export":
        export(*arguments)
        return
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # for mvbench, which ends this process
    os.dup2(2, 1)
    parent = int(arguments[1])
    Server(arguments[0], parent).serve()


main()
