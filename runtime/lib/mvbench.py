"""libmvbench in Python: parameter tables, reductions, models and gradients of several processes.

Each process of `mpirun -n 4 python3 train.py` is a worker. PYTHON.md is the manual; libmvbench.h has the details.
Floats are float32 and contiguous: a NumPy array, a tensor of PyTorch in host memory, or array.array("f"). The library
works on their memory. Floats that are only read may be a list, which is copied. TypeError: other floats.
Collective functions are called by all workers, in the same order. Error: before init, after shutdown, other sizes.
"""
import gc
import math
import pathlib
import sqlite3
import sys
import weakref
from array import array
from ctypes import CDLL, RTLD_GLOBAL, byref, c_int64, c_size_t, c_void_p
from typing import Any, Dict, Optional, Sequence

import mvbench_abi as _abi

try:
    import numpy as _numpy
except ImportError:  # get() then returns array.array
    _numpy = None

def _load() -> CDLL:
    """The library of the wheel, or the one that the loader finds. Open MPI's plug-ins need its symbols."""
    wheels = pathlib.Path(__file__).resolve().parent / "mvbench.libs" / "libmvbench.so"
    library = CDLL(str(wheels) if wheels.exists() else "libmvbench.so.1", mode=RTLD_GLOBAL)
    for name, (result, arguments) in _abi.FUNCTIONS.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library

lib = _load()  # every function of libmvbench.h

class Error(RuntimeError):
    """A call that the library refused. str(error): its message; code, name: e.g. 2, "MVB_ERR_ARGUMENT"."""
    def __init__(self, code: int):
        super().__init__(lib.mvb_message().decode())
        self.code, self.name = code, lib.mvb_error_name(code).decode()

def _check(code: int) -> None:
    if code:
        raise Error(code)

# ---- Floats and options ------------------------------------------------------------------------
def _floats(x: Any, written: bool = True) -> tuple:
    """Address and number of x's floats, and what keeps them. TypeError: x is something else."""
    if hasattr(x, "data_ptr"):
        if x.device.type != "cpu":
            raise TypeError(f"the tensor is on {x.device}: copy it to host memory, with tensor.cpu()")
        if str(x.dtype) != "torch.float32" or not x.is_contiguous():
            raise TypeError(f"a tensor has to be contiguous float32; this one is {x.dtype}, strides {x.stride()}")
        return x.data_ptr(), x.numel(), x
    array_of = getattr(x, "__array_interface__", None)
    if array_of is not None:
        address, read_only = array_of["data"]
        if array_of["typestr"] != "<f4" or array_of["strides"] is not None or (written and read_only):
            raise TypeError(f"an array has to be contiguous float32, and writable if floats are returned; this one "
                            f"is {array_of['typestr']}, strides {array_of['strides']}, read-only {read_only}")
        return address, math.prod(array_of["shape"]), x
    if isinstance(x, (list, tuple)) and not written:
        x = array("f", x)
    if not isinstance(x, array) or x.typecode != "f":
        raise TypeError(f"{type(x).__name__} where floats should be: give a float32 array, a tensor of PyTorch, "
                        f"array.array('f'){'' if written else ', or a list of numbers'}")
    return (*x.buffer_info(), x)

def _new(*shape: int) -> Any:
    return _numpy.empty(shape, _numpy.float32) if _numpy else array("f", bytes(4 * math.prod(shape)))

def _whole(x: Any, what: str) -> int:
    if not hasattr(x, "__index__") or not 0 <= x.__index__() < 2**63:
        raise ValueError(f"{what} is {x!r}; it has to be a whole number from 0")
    return x.__index__()

def _one_of(words: Dict[str, int], what: str, word: Any) -> int:
    if word not in words:
        raise ValueError(f"{what} is {word!r}; it has to be one of {', '.join(words)}")
    return words[word]

def _struct(kind: type, values: Dict[str, Any], base: Sequence = ()) -> Any:
    s, known = kind(*base), dict(kind._fields_)
    for name, value in values.items():
        name = name.rstrip("_")  # lambda_
        if name not in known:
            raise TypeError(f"there is no option {name}; there are {', '.join(known)}")
        setattr(s, name, value.encode() if isinstance(value, str) else value)
    return s

def _push(by: Dict[str, float]) -> Any:
    return byref(_struct(_abi.mvb_push, by, _abi.PUSH)) if by else None

def _options(options: Dict[str, Any]) -> Any:
    words = {"master": _abi.MVB_MASTER, "average": _abi.MVB_AVERAGE, "total": _abi.MVB_TOTAL}
    initial = _one_of(words, "initial", options.get("initial", "master"))
    return byref(_struct(_abi.mvb_options, {**options, "initial": initial}))

def _list(x: Any) -> tuple:
    """Addresses, lengths and number of the tensors of a list, or of a module with parameters(); what keeps them."""
    tensors = [_floats(t) for t in (x.parameters() if hasattr(x, "parameters") else x)]
    at, n = (c_void_p * len(tensors))(*(t[0] for t in tensors)), (c_size_t * len(tensors))(*(t[1] for t in tensors))
    return at, n, len(tensors), tensors

# ---- Start and end ------------------------------------------------------------------------------
def init(servers: int = 0, tables: Optional[str] = None, file: Optional[str] = None, rank: int = 0,
         size: int = 0, timeout_s: float = 0) -> None:
    """Starts, collectively. mpirun or srun set rank and size; without them, a shared file.

    servers: processes that only keep tables. On a server it returns when the workers have shut down:
    `if mvbench.is_server(): mvbench.shutdown(); sys.exit()`. tables: "shared", "onesided", "servers".
    file, rank, size, timeout_s [s]: for processes of one machine that are started one by one.
    Errors: Error; after one it may be called again. Source: Multiverso's MV_Init.
    """
    _check(lib.mvb_init(byref(_struct(_abi.mvb_setup, locals()))))

def shutdown() -> None:
    """Ends, collectively: applies every push, and frees what is left. Error: not started."""
    try:
        _check(lib.mvb_shutdown())
    finally:  # after an incomplete round everything is freed, too
        if lib.mvb_size() < 0:
            _live.clear()

def barrier() -> None:
    """Collective. Returns when all workers have called it and all pushes are applied. Error: an incomplete round."""
    _check(lib.mvb_barrier())

def rank() -> int:
    """This worker's number, from 0; -1: a server, or not started."""
    return lib.mvb_worker_id()

def size() -> int:
    """Number of workers; -1: not started."""
    return lib.mvb_num_workers()

def is_master() -> bool:
    """Is this worker 0, which prints and validates?"""
    return lib.mvb_is_master()

def is_server() -> bool:
    """Does this process only keep tables?"""
    return lib.mvb_is_server()

def backend() -> str:
    """E.g. "Open MPI v4.1.4, tables: shared"; "not started"."""
    return lib.mvb_backend().decode()

# ---- What the library makes ----------------------------------------------------------------------
_live: Dict[int, tuple] = {}  # by number, the same on all workers: pointer, function that frees it
_owner: "weakref.WeakValueDictionary[int, _Object]" = weakref.WeakValueDictionary()
_made, _enough = 0, 64

def _free_garbage() -> None:
    """Freeing is collective, but workers drop objects at different times. Dropping one therefore frees nothing.
    When `_enough` are live, which happens on all workers at the same call, the workers find out which ones are
    dropped on all of them, and free these."""
    global _enough
    gc.collect()
    ids = sorted(_live)
    dropped = array("f", (id not in _owner for id in ids))
    all_reduce(dropped)
    for id, workers in zip(ids, dropped):
        if workers == size():
            pointer, free = _live.pop(id)[:2]
            _check(free(pointer))
    _enough = len(_live) + 64

class _Object:
    def _own(self, make: Any, free: Any, *arguments: Any, kept: Any = None) -> None:
        """Collective: makes it. kept: what the library uses until it is freed."""
        global _made
        if len(_live) >= _enough:
            _free_garbage()
        out = c_void_p()
        _check(make(byref(out), *arguments))
        _made += 1
        _live[_made], _owner[_made] = (out.value, free, kept), self
        self._id, self._pointer = _made, out.value

    def free(self) -> None:
        """Collective. A second time it does nothing. Error: a push that was under way failed (it is freed), or
        other workers called another function (it is not)."""
        if self._id in _live:
            code = _live[self._id][1](self._pointer)
            if code != _abi.MVB_ERR_DIFFERS:
                del _live[self._id]
                self._pointer = None
            _check(code)

_under_way: "Dict[int, Started]" = {}

class Started:
    """An operation that goes on: wait() has to follow, once. Its floats are kept until then."""
    def __init__(self, x: Any, written: bool, start: Any):
        self._x, self._ticket = x, c_int64()
        address, n, self._kept = _floats(x, written)
        _check(start(address, n, byref(self._ticket)))
        _under_way[self._ticket.value] = self

    def wait(self) -> Any:
        """Waits, and returns the floats. Error: already waited for; in rounds, an incomplete round."""
        _under_way.pop(self._ticket.value, None)
        _check(lib.mvb_wait(self._ticket))
        return self._x

# ---- Tables ---------------------------------------------------------------------------------------
class Table(_Object):
    """n floats W on the parameter server. Options, equal on all workers: updater ("add", "sgd", "momentum",
    "adagrad", "adam", ...), rounds, backup, bounded, lead [pushes], initial ("master", "average", "total").

    values [n]: this worker's initial values, overwritten with those that W starts with; None: zeros.
    Collective. ValueError: sizes. Error: options, other workers' sizes, memory. Source: ArrayTableHandler.
    """
    def __init__(self, n: int, values: Any = None, **options: Any):
        self.shape = (_whole(n, "n"),)
        self._make(lib.mvb_array_new, values, options)

    def _make(self, make: Any, values: Any, options: Dict[str, Any]) -> None:
        self.n = math.prod(self.shape)
        address, n, kept = (None, self.n, None) if values is None else _floats(values)
        if n != self.n:
            raise ValueError(f"values: {n} floats for a table of {self.n}")
        self._own(make, lib.mvb_table_free, *self.shape, address, _options(options))

    def _on(self, function: Any, x: Any, *more: Any, rows: Any = None, written: bool = True) -> Any:
        address, n, kept = _floats(x, written)
        row = [] if rows is None else [_whole(r, "a row number") for r in rows]
        listed = () if rows is None else ((c_int64 * len(row))(*row), len(row))
        _check(function(self._pointer, *listed, address, n, *more))
        return x

    def add(self, values: Any, **by: float) -> None:
        """Pushes values [n]. by: lr, momentum, rho, lambda_, for updaters that take gradients. Error: another n, or a wrong number in by."""
        self._on(lib.mvb_table_add, values, _push(by), written=False)

    def get(self, out: Any = None) -> Any:
        """Pulls W into out [n] (default: a new array), and returns it. Error: n."""
        return self._on(lib.mvb_table_get, _new(*self.shape) if out is None else out)

    def sync(self, param: Any) -> Any:
        """Pushes what has changed in param [n] since this worker's last pull, and pulls into it. Error: n, updater."""
        return self._on(lib.mvb_table_sync, param)

    def add_start(self, values: Any, **by: float) -> Started:
        """Starts add(); values must not change until wait()."""
        return Started(values, False, lambda x, n, t: lib.mvb_table_add_start(self._pointer, x, n, _push(by), t))

    def get_start(self, out: Any = None) -> Started:
        """Starts get(); wait() returns the floats."""
        out = _new(*self.shape) if out is None else out
        return Started(out, True, lambda x, n, t: lib.mvb_table_get_start(self._pointer, x, n, t))

    def sync_start(self, param: Any) -> Started:
        """Starts sync(); param belongs to the library until wait()."""
        return Started(param, True, lambda x, n, t: lib.mvb_table_sync_start(self._pointer, x, n, t))

class Matrix(Table):
    """rows x columns floats, row-major; values [rows x columns], options and errors as for Table. Collective."""
    def __init__(self, rows: int, columns: int, values: Any = None, **options: Any):
        self.shape = (_whole(rows, "rows"), _whole(columns, "columns"))
        self._make(lib.mvb_matrix_new, values, options)

    def add(self, values: Any, rows: Optional[Sequence[int]] = None, **by: float) -> None:
        """Pushes values [rows x columns]; with rows, row numbers from 0: [len(rows) x columns]. Error: sizes."""
        if rows is None:
            return super().add(values, **by)
        self._on(lib.mvb_table_add_rows, values, _push(by), rows=rows, written=False)

    def get(self, rows: Optional[Sequence[int]] = None, out: Any = None) -> Any:
        """Pulls all rows, or those listed; out and result: [rows x columns] or [len(rows) x columns]. Error: sizes."""
        if rows is None:
            return super().get(out)
        out = _new(len(rows), self.shape[1]) if out is None else out
        return self._on(lib.mvb_table_get_rows, out, rows=rows)

class Shared(Table):
    """An array and its table. sync() pushes its change and pulls. Source: Multiverso's mv_shared."""
    def __init__(self, value: Any, **options: Any):
        self.value = value
        super().__init__(_floats(value)[1], value, **options)

    def sync(self, param: Any = None) -> Any:  # of value, or of another array of its shape
        return super().sync(self.value if param is None else param)

def sync_all() -> None:
    """Syncs all Shared variables, in the order of their creation."""
    for variable in [_owner[id] for id in sorted(_live) if isinstance(_owner.get(id), Shared)]:
        variable.sync()

class Model(_Object):
    """The tensors of a list, or of a module with parameters(), as one table. They keep their places in memory, and
    get the values that the table starts with. Options, errors as for Table. Source: Multiverso's MVNetParamManager."""
    def __init__(self, parameters: Any, **options: Any):
        *tensors, kept = _list(parameters)
        self._own(lib.mvb_model_new, lib.mvb_model_free, *tensors, _options(options), kept=kept)

    def sync(self) -> None:
        """Pushes what has changed since the last call, and pulls: update_all_param. Error: an incomplete round."""
        _check(lib.mvb_model_sync(self._pointer))

    def pull(self) -> None:
        """tensors = W. Error: the model was freed."""
        _check(lib.mvb_model_pull(self._pointer))

# ---- Reductions and gradients -----------------------------------------------------------------------
def _op(op: str) -> int:
    return _one_of({"sum": _abi.MVB_SUM, "mean": _abi.MVB_MEAN}, "op", op)

def all_reduce(x: Any, op: str = "sum") -> Any:
    """x = the sum (or "mean") of all workers' x; returns x. Collective. Error: lengths. Source: flashlight."""
    address, n, kept = _floats(x)
    _check(lib.mvb_allreduce(address, n, _op(op)))
    return x

def all_reduce_start(x: Any, op: str = "sum") -> Started:
    """Starts all_reduce(); x belongs to the library until wait(). Collective."""
    return Started(x, True, lambda address, n, t: lib.mvb_allreduce_start(address, n, _op(op), t))

def all_reduce_list(tensors: Any, op: str = "sum") -> None:
    """All tensors of a list, or of a module with parameters(), in one reduction. Collective."""
    at, n, count, kept = _list(tensors)
    _check(lib.mvb_allreduce_list(at, n, count, _op(op)))

def broadcast(x: Any, root: int = 0) -> Any:
    """x = worker root's x; returns x. Collective. Error: no worker root, lengths."""
    address, n, kept = _floats(x)
    _check(lib.mvb_broadcast(address, n, root))
    return x

class Gradients(_Object):
    """Averages gradients over the workers while they are computed, in buckets of at least bucket_bytes (0: 1 MiB).

    A module of PyTorch, or its parameters: hooks reduce each gradient when backward() leaves it, and at the end of
    backward() every p.grad is the mean. backward() has to reach all parameters; otherwise Error on all workers.
    A list of other floats: call ready(i) for each of them in every step, then wait().
    Collective. Source: flashlight's distributeModuleGrads.
    """
    def __init__(self, module: Any, bucket_bytes: int = 0):
        tensors = list(module.parameters() if hasattr(module, "parameters") else module)
        self._hooks, self._running = [], False
        learned = [t for t in tensors if getattr(t, "requires_grad", False)]
        tensors = self._hook(learned) if learned else tensors
        *tensors, kept = _list(tensors)
        self._own(lib.mvb_grads_new, lib.mvb_grads_free, *tensors, _whole(bucket_bytes, "bucket_bytes"), kept=kept)

    def _hook(self, parameters: list) -> list:
        torch, me, views = sys.modules["torch"], weakref.ref(self), []
        flat = torch.zeros(sum(_floats(p)[1] for p in parameters))
        for i, p in enumerate(parameters):
            views.append(flat[sum(v.numel() for v in views):][:p.numel()].view(p.shape))

            def hook(*_: Any, i: int = i, p: Any = p, view: Any = views[-1]) -> None:
                if p.grad.data_ptr() != view.data_ptr():  # zero_grad() has dropped it
                    view.copy_(p.grad)
                    p.grad = view
                if me():
                    me()._leave(i)
            node = p.expand_as(p).grad_fn.next_functions[0][0]  # adds to p.grad
            self._hooks.append((node, node.register_hook(hook)))
        self._queue = torch.autograd.Variable._execution_engine.queue_callback
        return views

    def _leave(self, i: int) -> None:
        if not self._running:  # the first gradient of this step
            self._running = True
            self._queue(self.wait)
        self.ready(i)

    def ready(self, i: int) -> None:
        """Tensor i is complete, and belongs to the library until wait()."""
        _check(lib.mvb_grads_ready(self._pointer, _whole(i, "tensor")))

    def wait(self) -> None:
        """Collective. Returns when every tensor holds the mean over the workers."""
        self._running = False
        _check(lib.mvb_grads_wait(self._pointer))

    def free(self) -> None:  # also removes the hooks
        for _, hook in self._hooks:
            hook.remove()
        self._hooks = []
        super().free()

# ---- Results of mvbench ---------------------------------------------------------------------------
def results(database: str, query: str, parameters: Sequence = ()) -> Any:
    """The rows of an SQL query on a database of mvbench, which is only read: a pandas.DataFrame if pandas is
    installed, otherwise a list of dictionaries. sqlite3.Error: no such file, or a wrong query."""
    connection = sqlite3.connect(pathlib.Path(database).absolute().as_uri() + "?mode=ro", uri=True)
    try:
        rows = connection.execute(query, parameters)
        names, rows = [column[0] for column in rows.description], rows.fetchall()
    finally:
        connection.close()
    try:
        import pandas
    except ImportError:
        return [dict(zip(names, row)) for row in rows]
    return pandas.DataFrame(rows, columns=names)
