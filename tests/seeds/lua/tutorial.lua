-- tutorial.lua - the calls of Multiverso's two Torch tutorials (seeds 000 and 001), in their order:
-- start, a table, an initial model in each of their three ways, training that pushes and pulls, a
-- barrier every ten epochs, an action of the master only, and the end. tests/seeds/tutorial.c does
-- the same in C, and ends at the same parameters.
--
--     mpirun -n 2 luajit tutorial.lua [rounds]       rounds: all workers push in each round
--
-- Where the pages are wrong: they push +learningRate * gradient, which raises the loss; here it is
-- negative. Their barrier does not wait for pushes; here it does.
local mvbench = require 'mvbench'
local Tensor = require 'tensor'
local float = Tensor.float

local FEATURES, ROWS, EPOCHS = 8, 64, 200

-- Start, and some useful numbers. As on the page, they replace the functions of their names.
mvbench.init {sync = arg[1] == 'rounds'}
mvbench.num_workers = mvbench.num_workers()
mvbench.worker_id = mvbench.worker_id()
mvbench.is_master = mvbench.worker_id == 0

-- The model is linear, y = w x; the true one is w[i] = i - 3.
local model = {}
function model.getParameters() return Tensor.new(FEATURES), Tensor.new(FEATURES) end

local function make_data(uniform)
	local x, y = Tensor.new(ROWS, FEATURES), Tensor.new(ROWS)
	for r = 0, ROWS - 1 do
		for i = 0, FEATURES - 1 do
			local at = r * FEATURES + i
			x.memory[at] = uniform()
			y.memory[r] = y.memory[r] + float((i - 3) * x.memory[at])
		end
	end
	return x, y
end

-- The mean squared error; its gradient goes to gradParams.
local function loss_of(x, y, params, gradParams)
	local w, g, loss = params:data(), gradParams:zero():data(), 0
	for r = 0, ROWS - 1 do
		local row = x.memory + r * FEATURES
		local err = -y.memory[r]
		for i = 0, FEATURES - 1 do err = float(err + float(w[i] * row[i])) end
		for i = 0, FEATURES - 1 do g[i] = g[i] + float(2 * err * row[i]) / ROWS end
		loss = float(loss + float(err * err) / ROWS)
	end
	return loss
end

local function train(name, start)
	local params, gradParams = model.getParameters()
	local x, y = make_data(Tensor.uniform(mvbench.worker_id + 1))
	local uniform = Tensor.uniform(mvbench.worker_id + 1)
	for i = 0, FEATURES - 1 do params:data()[i] = uniform() end

	local tbh = start(params)
	mvbench.barrier() -- all have the initial model before any worker changes it
	local learningRate, loss, first = float(float(0.1) / mvbench.num_workers), nil, nil
	for epoch = 1, EPOCHS do
		loss = loss_of(x, y, params, gradParams)
		first = first or loss
		tbh:add(-learningRate * gradParams)
		if epoch % 10 == 0 then mvbench.barrier() end
		params:copy(tbh:get())
		if mvbench.is_master and (epoch == 1 or epoch % 50 == 0) then
			print(('%s, epoch %3d: loss %.6f'):format(name, epoch, loss))
		end
	end
	if mvbench.is_master then print(name .. ', parameters: ' .. params:text()) end
	tbh:free()
	return loss / first
end

local fell = {
	-- The table begins with the master's init_value.
	train("the table's model", function(params)
		local tbh = mvbench.ArrayTableHandler:new(params:size(1), params)
		mvbench.barrier()
		params:copy(tbh:get())
		return tbh
	end),
	-- Only the master pushes its model. In rounds every worker pushes: the others, zeros.
	train("the master's model", function(params)
		local tbh = mvbench.ArrayTableHandler:new(params:size(1))
		if mvbench.is_master then
			tbh:add(params)
			mvbench.barrier()
		else
			if arg[1] == 'rounds' then tbh:add(0 * params) end
			mvbench.barrier()
		end
		params:copy(tbh:get())
		return tbh
	end),
	-- Every worker contributes an equal share.
	train("everyone's model", function(params)
		local tbh = mvbench.ArrayTableHandler:new(params:size(1))
		tbh:add(params / mvbench.num_workers)
		mvbench.barrier()
		params:copy(tbh:get())
		return tbh
	end),
}
mvbench.shutdown()
for _, ratio in ipairs(fell) do assert(ratio < 1e-3, 'the loss fell to ' .. ratio .. ' of what it was') end
