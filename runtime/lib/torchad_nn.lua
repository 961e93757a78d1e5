-- torchad_nn.lua - TorchAD-NN's layers under its own name; LUA.md has what differs. Where Torch's nn
-- is installed, they are in nn, too: nn.MPInitialLinear(inputs, outputs).
local layers = require 'mvbench_layers'
if pcall(require, 'nn') then layers.add_to_nn(require 'torch') end
return layers
