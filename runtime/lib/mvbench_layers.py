"""TorchAD-NN's layers, which are split over the workers. Every worker sees the whole mini-batch and holds a part of
the parameters; libmvbench.h has the formulas.

    MPInitialReshape(n), MPInitialLinear(inputs, outputs), MPBaseReshape(n), MPBaseLinear(inputs, outputs), MPTanh(n)

The sizes are those of the whole layer. Floats are as for mvbench.py.
"""
from ctypes import byref
from typing import Any, Optional

import mvbench_abi as _abi
from mvbench import _check, _floats, _new, _whole, lib


class Layer:
    """part.inputs, part.outputs: columns that this worker has of x and y. w [part.outputs x part.inputs], b, dw, db: its
    parameters and their gradients, zeros until scatter() and backward(). Only linear layers have them."""

    def __init__(self, form: int, inputs: int, outputs: int, linear: bool = False):
        self._layer = _abi.mvb_linear(form, _whole(inputs, "inputs"), _whole(outputs, "outputs"))
        self.part = _abi.mvb_linear_part()
        bias = _new(1)
        self._layer.b = _floats(bias)[0] if linear else None
        _check(lib.mvb_linear_part(byref(self._layer), byref(self.part)))
        self.w = self.b = self.dw = self.db = None
        if linear:
            shape = (self.part.outputs, self.part.inputs)
            self.w, self.dw, self.b, self.db = _new(*shape), _new(*shape), _new(shape[0]), _new(shape[0])
            for name in ("w", "b", "dw", "db"):
                x = getattr(self, name)
                if hasattr(x, "fill"):  # a NumPy array
                    x.fill(0)
                setattr(self._layer, name, _floats(x)[0])
        self.rows = 0

    def forward(self, x: Any, rows: Optional[int] = None) -> Any:
        """y [rows x part.outputs] of x [rows x part.inputs]. rows: only needed if this worker has no columns of x.
        Collective for MPBaseLinear."""
        address, n, kept = _floats(x)
        self.rows = n // max(self.part.inputs, 1) if rows is None else rows
        self._same("x", n, self.part.inputs)
        y = _new(self.rows, self.part.outputs)
        _check(lib.mvb_linear_forward(byref(self._layer), address, self.rows, _floats(y)[0]))
        return y

    def backward(self, x: Any, dy: Any, first: bool = False) -> Any:
        """dx [rows x part.inputs], from forward's x and dy [rows x part.outputs]; sets dw and db. first: no dx is
        needed. Collective for MPInitialLinear and MPBaseReshape, unless first."""
        address, n, kept = _floats(x)
        dy_address, m, dy_kept = _floats(dy)
        self._same("x", n, self.part.inputs)
        self._same("dy", m, self.part.outputs)
        dx = None if first else _new(self.rows, self.part.inputs)
        dx_address = None if first else _floats(dx)[0]
        _check(lib.mvb_linear_backward(byref(self._layer), address, dy_address, self.rows, dx_address))
        return dx

    def _same(self, what: str, n: int, columns: int) -> None:
        if n != self.rows * columns:
            raise ValueError(f"{what}: {n} floats for {self.rows} rows of {columns} columns")

    def gather(self) -> tuple:
        """For saving: w [outputs x inputs] and b [outputs] of the whole layer, on all workers. Collective."""
        w, b = _new(self._layer.outputs, self._layer.inputs), _new(self._layer.outputs)
        _check(lib.mvb_linear_gather(byref(self._layer), _floats(w)[0], _floats(b)[0]))
        return w, b

    def scatter(self, w: Any, b: Any) -> None:
        """The own parameters = their part of the whole layer's w [outputs x inputs] and b [outputs]."""
        address, n, kept = _floats(w)
        b_address, m, b_kept = _floats(b)
        if n != self._layer.inputs * self._layer.outputs or m != self._layer.outputs:
            raise ValueError(f"{n} and {m} floats for {self._layer.inputs} inputs, {self._layer.outputs} outputs")
        _check(lib.mvb_linear_scatter(byref(self._layer), address, b_address))


def MPInitialReshape(n: int) -> Layer:
    """Whole x [rows x n] to whole y: the same."""
    return Layer(_abi.MVB_INITIAL_RESHAPE, n, n)


def MPInitialLinear(inputs: int, outputs: int) -> Layer:
    """Whole x to own outputs."""
    return Layer(_abi.MVB_INITIAL_LINEAR, inputs, outputs, linear=True)


def MPBaseReshape(n: int) -> Layer:
    """Whole x [rows x n] to own columns."""
    return Layer(_abi.MVB_BASE_RESHAPE, n, n)


def MPBaseLinear(inputs: int, outputs: int) -> Layer:
    """Own inputs to whole y."""
    return Layer(_abi.MVB_BASE_LINEAR, inputs, outputs, linear=True)


def MPTanh(n: int) -> Layer:
    """Own columns of n to own columns."""
    return Layer(_abi.MVB_TANH, n, n)
