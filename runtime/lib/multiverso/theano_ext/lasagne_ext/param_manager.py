"""The manager of a network of Lasagne; a module of PyTorch is fine, too."""
from typing import Any

from multiverso.theano_ext.param_manager import MVModelParamManager, MVTorchParamManager


class LasagneParamManager(MVModelParamManager):
    """network: Lasagne's last layer."""

    def get_all_param_values(self) -> list:
        import lasagne
        return lasagne.layers.get_all_param_values(self.model)

    def set_all_param_values(self, params: list) -> None:
        import lasagne
        lasagne.layers.set_all_param_values(self.model, params)


def MVNetParamManager(network: Any, is_master: Any = None) -> MVModelParamManager:
    """The page's name. All workers start with worker 0's parameters, whoever is_master is. Collective."""
    return (MVTorchParamManager if hasattr(network, "state_dict") else LasagneParamManager)(network, is_master)
