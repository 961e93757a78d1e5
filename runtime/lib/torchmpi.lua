-- torchmpi.lua - the calls of TorchMPI that TorchAD-NN's page uses, on mvbench.lua.
local mvbench = require 'mvbench'
local M = {rank = mvbench.worker_id, size = mvbench.num_workers, barrier = mvbench.barrier,
	stop = mvbench.shutdown, allreduceTensor = mvbench.allReduce}

-- Tensors are in host memory, whatever the argument, use of a GPU, is.
function M.start() mvbench.init() end
function M.broadcastTensor(root, x) return mvbench.broadcast(x, root) end

return M
