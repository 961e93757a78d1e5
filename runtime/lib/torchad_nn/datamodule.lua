-- torchad_nn/datamodule.lua - TorchAD-NN's data parallelism: parallelize and synchronizeModel of
-- mvbench.lua.
return require 'mvbench'.ad
