-- torchmpi.lua - the calls of TorchMPI that TorchAD-NN's page uses, its other collectives of tensors,
-- and its parameter server, on mvbench.lua. Ranks count from 0.
local ffi = require 'ffi'
local mvbench = require 'mvbench'
local C = mvbench.C -- Multiverso's page puts numbers in the place of worker_id and num_workers
local M = {rank = function() return C.mvb_worker_id() end,
	size = function() return C.mvb_num_workers() end, barrier = mvbench.barrier,
	stop = mvbench.shutdown, allreduceTensor = mvbench.allReduce}

-- Tensors are in host memory, whatever the argument, use of a GPU, is.
function M.start() mvbench.init() end
function M.broadcastTensor(root, x) return mvbench.broadcast(x, root) end

-- The sum on worker root; x is unchanged on the others.
function M.reduceTensor(root, x)
	local p, n, copied = mvbench.floats(x)
	local sum = ffi.new('float[?]', n)
	ffi.copy(sum, p, 4 * n)
	mvbench.allReduce(sum)
	if M.rank() ~= root then return x end
	ffi.copy(p, sum, 4 * n)
	return mvbench.put_back(x, p, n, copied)
end

-- x of worker `source` goes to worker `destination`; other workers do nothing.
function M.sendreceiveTensor(x, source, destination)
	local p, n, copied = mvbench.floats(x)
	local me = M.rank()
	if source == destination or me ~= source and me ~= destination then return x end
	if me == source then
		mvbench.check(C.mvb_send(p, 4 * n, destination))
		return x
	end
	mvbench.check(C.mvb_receive(p, 4 * n, source))
	return mvbench.put_back(x, p, n, copied)
end

-- out [size() x n] = all workers' x [n], in order.
function M.allgatherTensor(x, out)
	local p, n = mvbench.floats(x)
	local q, m, copied = mvbench.floats(out)
	if m ~= n * M.size() then
		error(('allgatherTensor: %d floats for %d times %d'):format(m, M.size(), n), 2)
	end
	mvbench.check(C.mvb_gather(p, 4 * n, q, -1))
	return mvbench.put_back(out, q, m, copied)
end

-- init(x): a parameter server that starts as worker 0's x. send(server, x, rule): 'add', 'copy',
-- 'zero', or 'none'. Each call waits until it is done; syncHandle is for programs that have it.
M.parameterserver = {
	init = function(x)
		local _, n = mvbench.floats(x)
		return mvbench.ArrayTableHandler:new(n, x)
	end,
	send = function(server, x, rule)
		if rule == 'add' then server:add(x)
		elseif rule == 'copy' then server:set(x)
		elseif rule == 'zero' then server:set(ffi.new('float[?]', server.n))
		elseif rule ~= 'none' then error(('the rule is %s'):format(tostring(rule)), 2) end
	end,
	receive = function(server, x) return server:get(x) end,
	free = function(server) server:free() end,
	syncHandle = function() end,
}
M.syncHandle = M.parameterserver.syncHandle

return M
