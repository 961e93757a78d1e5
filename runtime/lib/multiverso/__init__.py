"""Multiverso's Python package, over mvbench: import multiverso as mv. PYTHON.md has what differs.

Data may be anything that NumPy turns into float32, and tensors of PyTorch. get() returns arrays of NumPy.
"""
from typing import Any

import numpy as np

import mvbench

__all__ = ["init", "shutdown", "barrier", "workers_num", "worker_id", "server_id", "is_master_worker",
           "ArrayTableHandler", "MatrixTableHandler"]

_rounds = False


def init(sync: bool = False, **setup: Any) -> None:
    """Starts, collectively. sync: all tables have rounds. setup: as for mvbench.init."""
    global _rounds
    mvbench.init(**setup)
    _rounds = bool(sync)


shutdown, barrier = mvbench.shutdown, mvbench.barrier
workers_num, worker_id, is_master_worker = mvbench.size, mvbench.rank, mvbench.is_master


def server_id() -> int:
    """The number of the server in this process; -1: none. Without servers each worker is one."""
    if mvbench.is_server():
        return mvbench.lib.mvb_rank() - mvbench.size()
    return mvbench.rank() if mvbench.lib.mvb_num_servers() == 0 else -1


def _array(data: Any, shape: tuple, what: str) -> np.ndarray:
    """A float32 copy. ValueError: the shape is not this one, nor flat."""
    if hasattr(data, "detach"):
        data = data.detach().cpu()
        data = (data.float() if data.dtype.is_floating_point else data).numpy()
    x = np.array(data, np.float32, order="C")
    if x.shape != shape and x.shape != (int(np.prod(shape)),):
        raise ValueError(f"{what} has the shape {x.shape}; it has to be {shape}")
    return x


def _rows(row_ids: Any, rows: int) -> list:
    """Row numbers. A list of booleans is a mask of all rows."""
    ids = np.asarray(row_ids.cpu() if hasattr(row_ids, "cpu") else row_ids).reshape(-1)
    if ids.dtype == bool:
        if len(ids) != rows:
            raise ValueError(f"row_ids: a mask of {len(ids)} rows for a table of {rows}")
        ids = ids.nonzero()[0]
    if len(ids) and ids.dtype.kind not in "iu":
        raise ValueError(f"row_ids are {ids.dtype}; they have to be whole numbers or booleans")
    return ids.tolist()


class ArrayTableHandler:
    """size floats that the workers share. init_value: worker 0's counts; None: zeros. Collective."""

    def __init__(self, size: int, init_value: Any = None):
        value = None if init_value is None else _array(init_value, (int(size),), "init_value")
        self._table = mvbench.Table(size, value, rounds=_rounds)

    def get(self) -> np.ndarray:
        """The newest values."""
        return self._table.get()

    def add(self, data: Any, sync: bool = False) -> None:
        """Adds data [size]. Every add waits until it is done, whatever sync is."""
        self._table.add(_array(data, self._table.shape, "data"))


class MatrixTableHandler:
    """num_row x num_col floats; init_value as for an array. Collective."""

    def __init__(self, num_row: int, num_col: int, init_value: Any = None):
        value = None if init_value is None else _array(init_value, (int(num_row), int(num_col)), "init_value")
        self._table = mvbench.Matrix(num_row, num_col, value, rounds=_rounds)

    def get(self, row_ids: Any = None) -> np.ndarray:
        """All rows, or those listed: [rows x num_col]."""
        return self._table.get() if row_ids is None else self._table.get(rows=_rows(row_ids, self._table.shape[0]))

    def add(self, data: Any, row_ids: Any = None, sync: bool = False) -> None:
        """Adds data to all rows, or to those listed; waits as an array's add."""
        rows, columns = self._table.shape
        listed = None if row_ids is None else _rows(row_ids, rows)
        self._table.add(_array(data, (rows if listed is None else len(listed), columns), "data"), rows=listed)
