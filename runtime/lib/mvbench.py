"""libmvbench in Python: parameter tables, reductions, models and gradients of several processes.

Each process of `mpirun -n 4 python3 train.py` is a worker. PYTHON.md is the manual; libmvbench.h has the details.
Floats are float32 and contiguous: a NumPy array, a tensor of PyTorch in host memory, or array.array("f"). The library
works on their memory. Floats that are only read may be a list, which is copied. TypeError: other floats.
Collective functions are called by all workers, in the same order. Error: before init, after shutdown, other sizes.
"""
import contextlib
import gc
import math
import pathlib
import sqlite3
import sys
import weakref
from array import array
from ctypes import CDLL, RTLD_GLOBAL, byref, c_int64, c_size_t, c_void_p
from threading import get_ident
from typing import Any, Dict, Iterator, Optional, Sequence

import mvbench_abi as _abi

__all__ = ["Error", "init", "shutdown", "barrier", "rank", "size", "is_master", "is_server", "backend", "Table",
           "Matrix", "Shared", "sync_all", "Model", "Started", "all_reduce", "all_reduce_start", "all_reduce_list",
           "broadcast", "gather", "reduce_scatter", "send", "receive", "Gradients", "results", "lib"]

try:
    import numpy as _numpy
except ImportError:  # get() then returns array.array
    _numpy = None

def _load() -> CDLL:
    """The library of the wheel or the build folder, or the one that the loader finds. Open MPI's plug-ins need its
    symbols."""
    places = (pathlib.Path(__file__).resolve().parent / "mvbench.libs" / "libmvbench.so",
              pathlib.Path(_abi.__file__).resolve().parent / "libmvbench.so")
    try:
        library = CDLL(str(next(filter(pathlib.Path.exists, places), "libmvbench.so.1")), mode=RTLD_GLOBAL)
    except OSError as error:
        mpi = any(name in str(error) for name in ("libmpi", "libpmix"))
        raise ImportError(f"{error}{'; install Open MPI: apt-get install openmpi-bin' if mpi else ''}") from None
    for name, (result, arguments) in _abi.FUNCTIONS.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library

lib = _load()  # every function of libmvbench.h
__version__ = lib.mvb_version().decode()

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
    # NumPy's and PyTorch's booleans have an __index__, too: a mask would be rows 0 and 1
    flag = type(x) is not int and (isinstance(x, bool) or "bool" in str(getattr(x, "dtype", "")))
    if flag or not hasattr(x, "__index__") or not 0 <= x.__index__() < 2**63:
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
_home = get_ident()  # the thread of init()

def init(servers: int = 0, tables: Optional[str] = None, file: Optional[str] = None, rank: int = 0,
         size: int = 0, timeout_s: float = 0) -> None:
    """Starts, collectively. mpirun or srun set rank and size; without them, a shared file.

    servers: processes that only keep tables. On a server it returns when the workers have shut down:
    `if mvbench.is_server(): mvbench.shutdown(); sys.exit()`. tables: "shared", "onesided", "servers".
    file, rank, size, timeout_s [s]: for processes of one machine that are started one by one.
    Errors: Error; after one it may be called again. Source: Multiverso's MV_Init.
    """
    global _home
    _check(lib.mvb_init(byref(_struct(_abi.mvb_setup, locals()))))
    _home = get_ident()

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
    def __init__(self, x: Any, written: bool, start: Any, scale: Optional[float] = None):
        self._x, self._ticket, self._scale = x, c_int64(), scale
        address, n, self._kept = _floats(x, written)
        _check(start(address, n, byref(self._ticket)))
        _under_way[self._ticket.value] = self

    def wait(self) -> Any:
        """Waits, and returns the floats. Error: already waited for; in rounds, an incomplete round; of a reduction,
        workers whose calls differ."""
        _under_way.pop(self._ticket.value, None)
        _check(lib.mvb_wait(self._ticket))
        _times(self._x, self._scale)
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
        self._fit(values)
        address, n, kept = (None, self.n, None) if values is None else _floats(values)
        if n != self.n:
            raise ValueError(f"values: {n} floats for a table of {self.n}")
        self._own(make, lib.mvb_table_free, *self.shape, address, _options(options))

    def _fit(self, x: Any, rows: Optional[int] = None) -> Any:
        """x. ValueError: a matrix of as many floats, but of another shape. Flat floats fit."""
        shape, wanted = tuple(getattr(x, "shape", ())), (self.shape[0] if rows is None else rows, *self.shape[1:])
        if len(shape) > 1 < len(wanted) and shape != wanted:
            raise ValueError(f"floats of the shape {shape} where {wanted} should be")
        return x

    def _on(self, function: Any, x: Any, *more: Any, rows: Any = None, written: bool = True) -> Any:
        row = [] if rows is None else [_whole(r, "a row number") for r in rows]
        address, n, kept = _floats(self._fit(x, None if rows is None else len(row)), written)
        listed = () if rows is None else ((c_int64 * len(row))(*row), len(row))
        _check(function(self._pointer, *listed, address, n, *more))
        return x

    def add(self, values: Any, **by: float) -> None:
        """Pushes values [n]. by: lr, momentum, rho, lambda_, for updaters that take gradients.
        Error: another n, or a wrong number in by."""
        self._on(lib.mvb_table_add, values, _push(by), written=False)

    def set(self, values: Any) -> None:
        """W = values [n]; another worker's push to a float comes before it or after it. Error: n; a table with rounds,
        or onesided. Source: TorchMPI's rules copy and zero."""
        self._on(lib.mvb_table_set, values, written=False)

    def get(self, out: Any = None) -> Any:
        """Pulls W into out [n] (default: a new array), and returns it. Error: n."""
        return self._on(lib.mvb_table_get, _new(*self.shape) if out is None else out)

    def sync(self, param: Any) -> Any:
        """Pushes what has changed in param [n] since this worker's last pull, and pulls into it. Error: n, updater."""
        return self._on(lib.mvb_table_sync, param)

    def elastic(self, param: Any, alpha: float) -> Any:
        """d = alpha (param - W); W += d; param -= d. Error: n, updater, alpha not from 0 to 1, rounds. Source: Zhang et
        al., NIPS 2015."""
        return self._on(lib.mvb_table_elastic, param, alpha)

    def _number(self, function: Any) -> int:
        number = c_int64()
        _check(function(self._pointer, byref(number)))
        return number.value

    def version(self) -> int:
        """Pushes of all workers so far."""
        return self._number(lib.mvb_table_version)

    def staleness(self) -> int:
        """Other workers' pushes that this worker's last push had not seen; 0 in rounds; -1: it has not pushed."""
        return self._number(lib.mvb_table_staleness)

    def add_start(self, values: Any, **by: float) -> Started:
        """Starts add(); values must not change until wait()."""
        return Started(self._fit(values), False,
                       lambda x, n, t: lib.mvb_table_add_start(self._pointer, x, n, _push(by), t))

    def get_start(self, out: Any = None) -> Started:
        """Starts get(); wait() returns the floats."""
        out = _new(*self.shape) if out is None else self._fit(out)
        return Started(out, True, lambda x, n, t: lib.mvb_table_get_start(self._pointer, x, n, t))

    def sync_start(self, param: Any) -> Started:
        """Starts sync(); param belongs to the library until wait()."""
        return Started(self._fit(param), True, lambda x, n, t: lib.mvb_table_sync_start(self._pointer, x, n, t))

class Matrix(Table):
    """rows x columns floats, row-major; values [rows x columns], options and errors as for Table. Collective.

    Floats may be flat. ValueError: an array of NumPy or a tensor of another shape."""
    def __init__(self, rows: int, columns: int, values: Any = None, **options: Any):
        self.shape = (_whole(rows, "rows"), _whole(columns, "columns"))
        self._make(lib.mvb_matrix_new, values, options)

    def add(self, values: Any, rows: Optional[Sequence[int]] = None, **by: float) -> None:
        """Pushes values [rows x columns]; with rows, row numbers from 0: [len(rows) x columns]. Error: sizes."""
        if rows is None:
            return super().add(values, **by)
        self._on(lib.mvb_table_add_rows, values, _push(by), rows=rows, written=False)

    def set(self, values: Any, rows: Optional[Sequence[int]] = None) -> None:
        """W, or its listed rows, = values; sizes as for add. Error: as for Table."""
        if rows is None:
            return super().set(values)
        self._on(lib.mvb_table_set_rows, values, rows=rows, written=False)

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
        self._module, self._places = parameters if hasattr(parameters, "parameters") else None, [k[0] for k in kept]
        self._own(lib.mvb_model_new, lib.mvb_model_free, *tensors, _options(options), kept=kept)

    def _in_place(self) -> None:
        if self._module is not None and [_floats(p)[0] for p in self._module.parameters()] != self._places:
            raise RuntimeError("parameters of the module have been replaced, added or moved: make a new Model")

    def sync(self) -> None:
        """Pushes what has changed since the last call, and pulls: update_all_param. RuntimeError: the module has other
        parameters now. Error: an incomplete round."""
        self._in_place()
        _check(lib.mvb_model_sync(self._pointer))

    def pull(self) -> None:
        """tensors = W. RuntimeError: as for sync(). Error: the model was freed."""
        self._in_place()
        _check(lib.mvb_model_pull(self._pointer))

# ---- Reductions -------------------------------------------------------------------------------------
_OPS = {"sum": _abi.MVB_SUM, "mean": _abi.MVB_MEAN, "min": _abi.MVB_MIN, "max": _abi.MVB_MAX,
        "product": _abi.MVB_PRODUCT}
_TYPES = {"f": _abi.MVB_FLOAT, "d": _abi.MVB_DOUBLE, "i": _abi.MVB_INT32, "q": _abi.MVB_INT64}

def _op(op: str) -> int:
    return _one_of(_OPS, "op", op)

def _numbers(x: Any) -> tuple:
    """Address, number, size [bytes] and type ("f", "d", "i", "q") of x's numbers. TypeError: x is something else."""
    if hasattr(x, "data_ptr"):
        kind = {"torch.float32": "f", "torch.float64": "d", "torch.int32": "i", "torch.int64": "q"}.get(str(x.dtype))
        if x.device.type == "cpu" and kind and x.is_contiguous():
            return x.data_ptr(), x.numel(), x.element_size(), kind
        raise TypeError(f"a tensor has to be contiguous in host memory, of float32, float64, int32 or int64; this one "
                        f"is {x.dtype} on {x.device}, strides {x.stride()}")
    array_of = getattr(x, "__array_interface__", None)
    if array_of is not None:
        kind = {"<f4": "f", "<f8": "d", "<i4": "i", "<i8": "q"}.get(array_of["typestr"])
        address, read_only = array_of["data"]
        if kind and array_of["strides"] is None and not read_only:
            return address, math.prod(array_of["shape"]), int(array_of["typestr"][2]), kind
        raise TypeError(f"an array has to be contiguous and writable, of float32, float64, int32 or int64; this one is "
                        f"{array_of['typestr']}, strides {array_of['strides']}, read-only {read_only}")
    kind = {"l": "q"}.get(x.typecode, x.typecode) if isinstance(x, array) else ""
    if kind not in tuple(_TYPES):
        raise TypeError(f"{type(x).__name__} where numbers should be: give an array of NumPy, a tensor of PyTorch or "
                        "array.array")
    return (*x.buffer_info(), x.itemsize, kind)

def _times(x: Any, scale: Optional[float]) -> None:
    if scale is not None and isinstance(x, array):
        x[:] = array(x.typecode, (v * scale for v in x))
    elif scale is not None:
        x = x.detach() if hasattr(x, "detach") else x
        x *= scale

def _host(x: Any) -> Any:
    """x; of a tensor of float16 or bfloat16, or on a GPU: a copy in host memory, with float32 for these two."""
    half = str(getattr(x, "dtype", "")) in ("torch.float16", "torch.bfloat16")
    if not hasattr(x, "data_ptr") or x.device.type == "meta" or (x.device.type == "cpu" and not half):
        return x
    return (x.detach().float() if half else x.detach()).cpu().contiguous()

def _give_back(x: Any, host: Any) -> Any:
    if host is not x:
        x.detach().copy_(host)
    return x

def all_reduce(x: Any, op: str = "sum", scale: Optional[float] = None) -> Any:
    """x = the sum, "mean", "min", "max" or "product" of all workers' x, times scale; returns x. x: float32, float64,
    int32 or int64; tensors also of float16 and bfloat16, through float32, and on a GPU, through host memory.
    Collective. Error: lengths, types. Source: flashlight."""
    host = _host(x)
    address, n, _, kind = _numbers(host)
    _check(lib.mvb_allreduce_type(address, n, _TYPES[kind], _op(op)))
    _times(host, scale)
    return _give_back(x, host)

def all_reduce_start(x: Any, op: str = "sum", scale: Optional[float] = None) -> Started:
    """Starts all_reduce() of float32, "sum" or "mean"; x belongs to the library until wait(). Collective. Error: op."""
    return Started(x, True, lambda address, n, t: lib.mvb_allreduce_start(address, n, _op(op), t), scale)

def all_reduce_list(tensors: Any, op: str = "sum", scale: Optional[float] = None) -> None:
    """All tensors of a list, or of a module with parameters(), in one reduction: float32, and what all_reduce() turns
    into it. Collective."""
    given = list(tensors.parameters() if hasattr(tensors, "parameters") else tensors)
    at, n, count, kept = _list([_host(t) for t in given])
    _check(lib.mvb_allreduce_list(at, n, count, _op(op)))
    for x, (_, _, host) in zip(given, kept):
        _times(host, scale)
        _give_back(x, host)

def broadcast(x: Any, root: int = 0) -> Any:
    """x = worker root's x, of all_reduce's types; returns x. Collective. Error: no worker root, lengths."""
    host = _host(x)
    address, n, width, _ = _numbers(host)
    _check(lib.mvb_broadcast(address, n * width // 4, root))
    return _give_back(x, host)

def gather(x: Any, out: Any, root: int = -1) -> Any:
    """out [size() * n] = all workers' x [n], in order; returns out. root: only this worker gets it, and out may be None
    on the others. Collective. ValueError: out's length. Error: no worker root, lengths."""
    address, n, width, kind = _numbers(x)
    to, m, _, out_kind = (None, n * size(), width, kind) if out is None else _numbers(out)
    if (m, out_kind) != (n * size(), kind):
        raise ValueError(f"out: {m} numbers of type {out_kind} for {size()} times {n} of type {kind}")
    _check(lib.mvb_gather(address, n * width, to, root))
    return out

def reduce_scatter(x: Any, op: str = "sum") -> Any:
    """This worker's part of the reduced x [size() * n]: numbers n * rank() and on, n of them. x is overwritten with all
    of them. Collective. ValueError: the length is no multiple of size()."""
    n = _numbers(x)[1]
    if n % size():
        raise ValueError(f"{n} numbers for {size()} workers")
    all_reduce(x, op)
    flat = x.reshape(-1) if hasattr(x, "reshape") else x
    return flat[n // size() * rank():][:n // size()]

def send(x: Any, to: int) -> None:
    """Sends x to another worker, which calls receive(); each waits for the other. Error: no such worker, lengths."""
    address, n, width, _ = _numbers(x)
    _check(lib.mvb_send(address, n * width, to))

def receive(x: Any, source: int) -> Any:
    """x = what worker `source` sends; returns x."""
    address, n, width, _ = _numbers(x)
    _check(lib.mvb_receive(address, n * width, source))
    return x

# ---- Gradients --------------------------------------------------------------------------------------
def _nothing() -> None:
    pass

class _Kept:
    """What a module or parameter keeps of its Gradients. Copies of the module get nothing."""
    def __init__(self, call: Any = _nothing, owner: Any = None):
        self._call, self.owner = call, owner
    def __call__(self, *_: Any) -> None:
        self._call()
    def __deepcopy__(self, memo: Any) -> "_Kept":
        return _Kept()
    def __reduce__(self) -> tuple:
        return _Kept, ()

class _Accumulated:
    """Before PyTorch 2.1: register_post_accumulate_grad_hook of a parameter."""
    def __init__(self, p: Any, call: Any):
        with sys.modules["torch"].enable_grad():
            self._node = p.expand_as(p).grad_fn.next_functions[0][0]  # adds to p.grad; lives while it is kept
        self._handle = self._node.register_hook(lambda *_: call(p))
    def remove(self) -> None:
        self._handle.remove()

def _on_this_thread(function: Any) -> Any:
    """Autograd calls hooks on threads of its own; the caller's waits meanwhile."""
    def call(*arguments: Any) -> Any:
        if get_ident() == _home:
            return function(*arguments)
        _check(lib.mvb_thread(True))
        try:
            return function(*arguments)
        finally:
            lib.mvb_thread(False)
    return call

def _masters(tensors: Sequence) -> None:
    """The tensors, of any types and devices, become worker 0's. Collective."""
    if not tensors:
        return
    torch = sys.modules["torch"]
    with torch.no_grad():
        host = [t.detach().cpu().contiguous() for t in tensors]
        parts = [h.reshape(-1).view(torch.uint8) for h in host]
        n = sum(p.numel() for p in parts)
        flat = torch.cat([*parts, torch.zeros(-n % 4, dtype=torch.uint8)])
        broadcast(flat.view(torch.int32))
        for t, h, part in zip(tensors, host, flat[:n].split([p.numel() for p in parts])) if rank() else ():
            t.copy_(part.clone().view(h.dtype).view(h.shape))

class Gradients(_Object):
    """Averages gradients over the workers while they are computed, in buckets of at least bucket_bytes (0: 1 MiB).

    A module of PyTorch, or a list of its parameters: hooks reduce each gradient when backward() leaves it, and at the
    end of backward() every p.grad is the mean, or scale times the sum. They live as long as the module. Parameters and
    buffers start as worker 0's (initial=False: unchanged); buffers of floats are worker 0's again after each
    backward() (buffers=False: not). backward() has to reach all parameters, otherwise Error on all workers;
    unused=True: a parameter that it does not reach counts as zero, and stays as it is if no worker reaches it. A step
    whose backward() raises is dropped when the module is called again, or by reset(); workers that completed it get an
    Error. Replaced and added parameters and layers are noticed when the module is called. float64 is reduced at the end
    of backward(), float16 and bfloat16 as float32, tensors on a GPU through host memory.
    A list of other floats: call ready(i) for each of them in every step, then wait().
    Collective. TypeError: complex, sparse or lazy parameters. Source: flashlight's distributeModuleGrads.
    """
    def __init__(self, module: Any, bucket_bytes: int = 0, *, initial: bool = True, buffers: bool = True,
                 unused: bool = False, scale: Optional[float] = None):
        self._module = module if hasattr(module, "parameters") else None
        tensors = list(module.parameters() if self._module is not None else module)
        self._bucket_bytes, self._initial = _whole(bucket_bytes, "bucket_bytes"), initial
        self._unused, self._scale, self._hooks, self._begun = unused, scale, [], False
        self._torch = sys.modules["torch"] if any(getattr(t, "requires_grad", False) for t in tensors) else None
        if not self._torch:
            *tensors, kept = _list(tensors)
            return self._own(lib.mvb_grads_new, lib.mvb_grads_free, *tensors, self._bucket_bytes, kept=kept)
        self._given, self._buffers, self._sync = tensors, buffers and self._module is not None, True
        self._queue = self._torch.autograd.Variable._execution_engine.queue_callback
        self._set_up()

    def _set_up(self) -> None:
        """Collective: makes the set, the places of its gradients and the hooks."""
        torch, module = self._torch, self._module
        given = list(module.parameters()) if module is not None else self._given
        self._params = params = [p for p in given if p.requires_grad]
        floats = [i for i, p in enumerate(params) if p.dtype != torch.float64]
        for i, p in enumerate(params):
            if torch.nn.parameter.is_lazy(p):
                raise TypeError("a parameter has no shape yet: call the module once, then make Gradients")
            if p.dtype not in (torch.float32, torch.float64, torch.float16, torch.bfloat16) or p.device.type == "meta":
                raise TypeError(f"parameter {i} is {p.dtype} on {p.device}: gradients are of float16, bfloat16, "
                                "float32 or float64, in memory")
            old = getattr(p, "_mvbench", None)
            if old is not None and old.owner is not None and old.owner is not self:
                if old.owner._id in _live:
                    raise ValueError(f"parameter {i} has Gradients already: free() them first")
                old.owner._forget()
        pinned = any(p.is_cuda for p in params)
        self._flags = torch.zeros(len(params) if self._unused or not floats else 0)
        self._views, self._flats = [None] * len(params), []
        for dtype in torch.float32, torch.float64:
            mine = [i for i, p in enumerate(params) if (p.dtype == torch.float64) == (dtype == torch.float64)]
            flat = torch.zeros(sum(params[i].numel() for i in mine), dtype=dtype, pin_memory=pinned)
            self._flats.append(flat)
            for i, part in zip(mine, flat.split([params[i].numel() for i in mine])):
                strides = torch.empty_like(params[i], device="meta").stride()  # dense, as the parameter if it is
                self._views[i] = part.as_strided(params[i].shape, strides)
        # p.grad is the view itself, or a copy goes there and back
        self._direct = [not p.is_cuda and p.dtype == v.dtype for p, v in zip(params, self._views)]
        self._all_direct = all(self._direct)
        self._number = {i: n for n, i in enumerate(floats, len(self._flags) > 0)}
        tensors = [self._flags] * (len(self._flags) > 0) + [self._views[i].detach() for i in floats]
        sent = [(t.data_ptr(), t.numel()) for t in tensors]
        at, n = (c_void_p * len(sent))(*(s[0] for s in sent)), (c_size_t * len(sent))(*(s[1] for s in sent))
        self._own(lib.mvb_grads_new, lib.mvb_grads_free, at, n, len(sent), self._bucket_bytes,
                  kept=(self._flats, tensors))
        self._ready, self._left, self._queued, self._nested = [False] * len(params), len(params), False, False
        self._places = [(m._parameters, name, p, p.requires_grad, p.dtype, p.device) for m in module.modules()
                        for name, p in m._parameters.items() if p is not None] if module is not None else []
        self._parts = [(m._modules, list(m._modules.values()), m._parameters, len(m._parameters))
                       for m in module.modules()] if module is not None else []
        me = weakref.ref(self)
        for i, p in enumerate(params):
            p._mvbench = _Kept(owner=self)
            after = getattr(p, "register_post_accumulate_grad_hook", lambda call, p=p: _Accumulated(p, call))
            self._hooks.append(after(lambda p, i=i: me()._leave(i, p)))
        if module is not None:
            compiles = hasattr(getattr(torch, "compiler", None), "is_compiling")
            self._hooks.append(module.register_forward_pre_hook(_Kept(self._before if compiles else self._begin, self)))
        if self._initial:
            _masters([*given, *(module.buffers() if module is not None else ())])

    def _before(self) -> None:
        """Before each forward pass of the module."""
        if not self._torch.compiler.is_compiling():
            self._begin()

    def _begin(self) -> None:
        if self._id not in _live:
            return
        if self._begun:
            nested = self._nested
            self.reset()
            if nested:
                raise RuntimeError("the gradients of the last backward() were not averaged: it did not reach all "
                                   "parameters, or it raised an exception in a checkpoint")
        if (any(list(parts.values()) != before or len(own) != n for parts, before, own, n in self._parts) or
                any(owner.get(name) is not p or p.requires_grad is not learned or p.dtype is not dtype
                    or p.device != device for owner, name, p, learned, dtype, device in self._places)):
            self.free()
            self._set_up()

    @_on_this_thread
    def _leave(self, i: int, p: Any) -> None:
        """backward() has added to p.grad."""
        if not self._sync:
            return
        grad, view = p.grad, self._views[i]
        if grad.layout != self._torch.strided:
            raise TypeError(f"parameter {i} has a sparse gradient: Gradients needs dense ones; sparse=False makes them")
        if grad.requires_grad:
            raise TypeError("Gradients allows no backward(create_graph=True): use torch.autograd.grad, or no_sync()")
        if self._ready[i]:
            raise RuntimeError("the last backward() raised an exception: call reset() on all workers, and zero_grad()")
        if grad is not view:  # zero_grad() has dropped it, or it has another type
            view.copy_(grad)
            if self._direct[i]:
                p.grad = view
        if not self._queued:
            self._queued = self._begun = True
            self._queue(self._end)
        self._ready[i] = True
        self._left -= 1
        if i in self._number:
            _check(lib.mvb_grads_ready(self._pointer, self._number[i]))

    @_on_this_thread
    def _end(self) -> None:
        """At the end of backward()."""
        self._queued = False
        absent = [i for i, ready in enumerate(self._ready) if not ready] if self._left else []
        node = getattr(self._torch._C, "_current_autograd_node", None)  # new in 2.1
        if absent and node and node() is not None:
            self._nested = True  # of a checkpoint; the outer backward() goes on
            return
        self._flags.fill_(1)
        for i in absent if self._unused else ():
            grad, view = self._params[i].grad, self._views[i]
            self._flags[i] = grad is not None
            if grad is None:
                view.zero_()
            elif grad is not view:
                view.copy_(grad)
            if i in self._number:
                _check(lib.mvb_grads_ready(self._pointer, self._number[i]))
        if len(self._flags):
            _check(lib.mvb_grads_ready(self._pointer, 0))
        lost = [i for i in absent if not self._unused and i not in self._number]
        self._wait(lost)
        for i, p in enumerate(self._params if absent or not self._all_direct else ()):
            if i in absent and not self._flags[i]:
                continue  # no worker has it
            if self._direct[i]:
                p.grad = self._views[i]
            elif p.grad is None:
                p.grad = self._views[i].to(p.device, p.dtype)
            else:
                p.grad.copy_(self._views[i])
        if self._buffers:  # which have changed is not known: since PyTorch 2.15 batch norm leaves their _version
            _masters([b for b in self._module.buffers() if b.is_floating_point()])

    def _wait(self, lost: list) -> None:
        doubles = self._flats[1]
        try:
            _check(lib.mvb_grads_wait(self._pointer))
        except Error as error:
            if error.code != _abi.MVB_ERR_DIFFERS:
                self._over()
            raise
        self._over()
        if len(doubles):
            here = array("f", [len(lost)])
            if all_reduce(here, "max")[0]:
                raise RuntimeError(f"backward() did not reach {here[0]:g} parameters of float64 on some worker")
            all_reduce(doubles, "mean")
        if self._scale is not None:
            for flat in self._flats:
                flat.mul_(self._scale * size())

    def _over(self) -> None:
        self._begun = self._nested = self._queued = False
        if self._torch:
            self._ready, self._left = [False] * len(self._params), len(self._params)

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """`with gradients.no_sync():` backward() adds to this worker's p.grad. The next one outside reduces the sum."""
        before, self._sync = self._sync, False
        try:
            yield
        finally:
            self._sync = before

    def reset(self) -> None:
        """Collective: drops the step that has begun, and its gradients. Error: workers called another function."""
        code = lib.mvb_grads_wait(self._pointer)
        if code not in (0, _abi.MVB_ERR_ARGUMENT, _abi.MVB_ERR_PEER):
            _check(code)
        self._over()
        for flat in self._flats if self._torch else ():
            flat.zero_()

    def ready(self, i: int) -> None:
        """Tensor i is complete, and belongs to the library until wait()."""
        _check(lib.mvb_grads_ready(self._pointer, _whole(i, "tensor")))

    def wait(self) -> None:
        """Collective. Returns when every tensor holds the mean over the workers."""
        _check(lib.mvb_grads_wait(self._pointer))

    def _forget(self) -> None:
        for hook in self._hooks:
            hook.remove()
        for p in getattr(self, "_params", ()):
            p.__dict__.pop("_mvbench", None)
        self._hooks = []

    def free(self) -> None:
        """Collective; also removes the hooks."""
        self._forget()
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
