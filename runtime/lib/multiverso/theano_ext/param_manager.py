"""Managers of the parameters of a model: one table for all of them."""
from typing import Any

import numpy as np

from multiverso import ArrayTableHandler, _array


class MVModelParamManager:
    """Parameters of any model: a class of yours has get_all_param_values() and set_all_param_values(list of arrays).
    All workers get worker 0's values. Collective."""

    def __init__(self, model: Any, is_master: Any = None):  # Multiverso's page gives is_master; it is worker 0
        self.model = model
        values = [np.asarray(v) for v in self.get_all_param_values()]
        self.shapes, self.dtypes = [v.shape for v in values], [v.dtype for v in values]
        first = self._flat()
        self.tbh = ArrayTableHandler(len(first), first)
        self._set(self.tbh.get())

    def get_all_param_values(self) -> list:
        raise NotImplementedError("get_all_param_values returns the list of parameters")

    def set_all_param_values(self, params: list) -> None:
        raise NotImplementedError("set_all_param_values gives the model new parameters")

    def _flat(self) -> np.ndarray:
        return np.concatenate([_array(v, tuple(v.shape), "parameter").reshape(-1)
                               for v in map(np.asarray, self.get_all_param_values())])

    def _set(self, flat: np.ndarray) -> None:
        self.all_param_list = flat
        parts = np.split(flat, np.cumsum([int(np.prod(s)) for s in self.shapes])[:-1])
        self.set_all_param_values([p.reshape(s).astype(t) for p, s, t in zip(parts, self.shapes, self.dtypes)])

    def sync_all_param(self) -> None:
        """Adds what has changed since the last call, and takes the newest parameters."""
        self.tbh.add(self._flat() - self.all_param_list)
        self._set(self.tbh.get())

    update_all_param = sync_all_param  # the page's name


class MVTorchParamManager(MVModelParamManager):
    """The parameters and buffers of a module of PyTorch that are floats."""

    def _tensors(self) -> list:
        return [t for t in self.model.state_dict().values() if t.is_floating_point()]

    def get_all_param_values(self) -> list:
        return [t.detach().cpu().float().numpy() for t in self._tensors()]

    def set_all_param_values(self, params: list) -> None:
        import torch
        with torch.no_grad():
            for t, value in zip(self._tensors(), params):
                t.copy_(torch.from_numpy(value))
