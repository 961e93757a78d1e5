"""Multiverso's shared variables: a value of its own on each worker, which mv_sync() brings together.

They are Theano's where it is installed. Otherwise they hold an array of NumPy, or a tensor of PyTorch.
"""
from typing import Any

import numpy as np

import mvbench
from multiverso import ArrayTableHandler, _array

try:
    import theano as _theano
except ImportError:
    _theano = None

_created: list = []


class _Value:
    """Theano's get_value and set_value."""

    def __init__(self, value: Any, name: Any = None, borrow: bool = False):
        self.name = name
        self._value = value if borrow or hasattr(value, "detach") else np.array(value)

    def get_value(self, borrow: bool = False) -> Any:
        if hasattr(self._value, "detach"):
            return self._value.detach() if borrow else self._value.detach().clone()
        return self._value if borrow else np.array(self._value)

    def set_value(self, value: Any, borrow: bool = False) -> None:
        if hasattr(self._value, "detach"):
            import torch
            with torch.no_grad():
                self._value.copy_(torch.as_tensor(value))
        else:
            self._value = value if borrow and isinstance(value, np.ndarray) else np.array(value)


class MVSharedVariable:
    """Everything else is the variable's own. svobj: has get_value and set_value. All workers get worker 0's value.
    Collective."""

    def __init__(self, svobj: Any):
        self._svobj = svobj
        first = self._flat()
        self._table = ArrayTableHandler(len(first), first)
        self._set(self._table.get())
        _created.append(self)

    def _flat(self) -> np.ndarray:
        value = self._svobj.get_value(borrow=False)
        return _array(value, tuple(value.shape), "value").reshape(-1)

    def _set(self, values: np.ndarray) -> None:
        value = self._svobj.get_value(borrow=True)
        self._last = values
        new = values.reshape(tuple(value.shape))
        self._svobj.set_value(new if hasattr(value, "detach") else new.astype(value.dtype), borrow=False)

    def is_live(self) -> bool:
        return self._table._table._id in mvbench._live

    def mv_sync(self) -> None:
        """Adds what has changed since the last call, and takes the newest value."""
        self._table.add(self._flat() - self._last)
        self._set(self._table.get())

    def __getattr__(self, name: str) -> Any:
        if name == "_svobj":
            raise AttributeError(name)
        return getattr(self._svobj, name)


def mv_shared(value: Any, name: Any = None, borrow: bool = False, **options: Any) -> MVSharedVariable:
    """A shared variable; arguments as theano.shared. Collective."""
    make = _theano.shared if _theano is not None and not hasattr(value, "detach") else _Value
    return MVSharedVariable(make(value=value, name=name, borrow=borrow, **options))


def sync_all_mv_shared_vars() -> None:
    """mv_sync() of every variable of mv_shared since init(), in the order of creation."""
    _created[:] = [v for v in _created if v.is_live()]
    for variable in _created:
        variable.mv_sync()
