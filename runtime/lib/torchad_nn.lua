-- torchad_nn.lua - TorchAD-NN's layers under its own name; LUA.md has what differs.
return require 'mvbench_layers'
