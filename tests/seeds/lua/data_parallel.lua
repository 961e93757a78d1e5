-- data_parallel.lua - the calls of TorchAD-NN's page (seed 004) for data parallelism: parallelize()
-- divides the rows among the workers, and the models are averaged after every k batches; with -1
-- the program itself calls synchronizeModel(). tests/seeds/data_parallel.c does the same in C, and
-- ends at the same parameters. The model is 2 -> 32 -> 3 with tanh between, on the arms of a spiral.
--
--     mpirun -n 2 luajit data_parallel.lua
--
-- Where the page is wrong: it drops the rows that the workers cannot share equally; here all are
-- used. It averages before the update of the last batch; here after it.
local ffi = require 'ffi'
local mvbench = require 'mvbench'
local Tensor = require 'tensor'
ffi.cdef 'float tanhf(float); float expf(float); float cosf(float); float sinf(float);'
local f, tanh, exp = Tensor.float, ffi.C.tanhf, ffi.C.expf

local IN, HIDDEN, OUT, SIZE, BATCH, EPOCHS = 2, 32, 3, 1001, 10, 150

local function make_data(size)
	local data, labels, uniform = Tensor.new(size, IN), Tensor.new(size), Tensor.uniform(1)
	for r = 0, size - 1 do
		local along = f(0.5 + 0.5 * uniform())
		labels.memory[r] = r % OUT
		local angle = f(f(f(2.1) * labels.memory[r]) + f(f(2.5) * along))
		angle = f(angle + f(f(0.1) * uniform()))
		data.memory[r * IN] = f(2 * along) * ffi.C.cosf(angle)
		data.memory[r * IN + 1] = f(2 * along) * ffi.C.sinf(angle)
	end
	return data, labels
end

-- ---- A model with the methods of Torch's modules ---------------------------------------------------

local Model = {}
Model.__index = Model

function Model.new()
	local self, uniform = setmetatable({params = {}, grads = {}}, Model), Tensor.uniform(7)
	for i, n in ipairs {HIDDEN * IN, HIDDEN, OUT * HIDDEN, OUT} do
		self.params[i], self.grads[i] = Tensor.new(n), Tensor.new(n)
	end
	for i = 0, HIDDEN * IN - 1 do self.params[1].memory[i] = uniform() end
	for i = 0, OUT * HIDDEN - 1 do self.params[3].memory[i] = f(0.2) * uniform() end
	return self
end

function Model:parameters() return self.params, self.grads end

-- Probabilities [rows x OUT].
function Model:forward(x)
	local w1, b1, w2, b2 = self.params[1].memory, self.params[2].memory, self.params[3].memory,
		self.params[4].memory
	local hidden, output = Tensor.new(x:size(1), HIDDEN), Tensor.new(x:size(1), OUT)
	for r = 0, x:size(1) - 1 do
		local x, h, p, sum = x.memory + r * IN, hidden.memory + r * HIDDEN, output.memory + r * OUT, 0
		for j = 0, HIDDEN - 1 do
			h[j] = tanh(f(f(b1[j] + f(w1[j * IN] * x[0])) + f(w1[j * IN + 1] * x[1])))
		end
		for o = 0, OUT - 1 do
			p[o] = b2[o]
			for j = 0, HIDDEN - 1 do p[o] = p[o] + f(w2[o * HIDDEN + j] * h[j]) end
			p[o] = exp(p[o])
			sum = f(sum + p[o])
		end
		for o = 0, OUT - 1 do p[o] = p[o] / sum end
	end
	self.hidden, self.output = hidden, output
	return output
end

-- Adds to the gradients of the cross entropy.
function Model:backward(x, labels)
	local g, w2 = self.grads, self.params[3].memory
	local dw1, db1, dw2, db2 = g[1].memory, g[2].memory, g[3].memory, g[4].memory
	for r = 0, x:size(1) - 1 do
		local x, h, p = x.memory + r * IN, self.hidden.memory + r * HIDDEN, self.output.memory + r * OUT
		p[labels.memory[r]] = p[labels.memory[r]] - 1
		for j = 0, HIDDEN - 1 do
			local dh = 0
			for o = 0, OUT - 1 do
				dw2[o * HIDDEN + j] = dw2[o * HIDDEN + j] + f(p[o] * h[j])
				dh = f(dh + f(p[o] * w2[o * HIDDEN + j]))
			end
			dh = f(dh * f(1 - f(h[j] * h[j])))
			dw1[j * IN] = dw1[j * IN] + f(dh * x[0])
			dw1[j * IN + 1] = dw1[j * IN + 1] + f(dh * x[1])
			db1[j] = db1[j] + dh
		end
		for o = 0, OUT - 1 do db2[o] = db2[o] + p[o] end
	end
end

function Model:zeroGradParameters()
	for _, g in ipairs(self.grads) do g:zero() end
end

function Model:updateParameters(learningRate)
	for i, p in ipairs(self.params) do p:add(-learningRate, self.grads[i]) end
end

-- ---- The training ----------------------------------------------------------------------------------

local function accuracy(model, data, labels)
	local p, correct = model:forward(data).memory, 0
	for r = 0, SIZE - 1 do
		local at = r * OUT
		local best = p[at + 1] > p[at] and 1 or 0
		best = p[at + 2] > p[at + best] and 2 or best
		correct = correct + (best == labels.memory[r] and 1 or 0)
	end
	return correct / SIZE
end

local function train(every)
	local model, whole, all_labels = Model.new(), make_data(SIZE)
	local data, labels, size = mvbench.ad.parallelize(whole, all_labels, model, SIZE, nil, nil, every)
	-- the same number of batches on each worker, so that all synchronise equally often
	local batches = math.floor(math.floor(SIZE / mvbench.num_workers()) / BATCH)
	for _ = 1, EPOCHS do
		for b = 0, batches - 1 do
			local first = math.floor(size * b / batches)
			local n = math.floor(size * (b + 1) / batches) - first
			local x, y = data:narrow(1, first + 1, n), labels:narrow(1, first + 1, n)
			model:zeroGradParameters()
			model:forward(x)
			model:backward(x, y)
			model:updateParameters(f(0.5 / n))
		end
		if every < 0 then mvbench.ad.synchronizeModel(model) end
	end
	mvbench.ad.synchronizeModel(model)
	local score = accuracy(model, whole, all_labels)
	if mvbench.worker_id() == 0 then
		print(('synchronised %s: accuracy %.3f'):format(every < 0 and 'by hand, once an epoch' or
			'every ' .. every .. (every == 1 and ' batch' or ' batches'), score))
		for _, p in ipairs(model:parameters()) do print('parameters: ' .. p:text()) end
	end
	assert(score > 0.95, 'the accuracy has to be above 0.95')
end

for _, every in ipairs {1, 4, -1} do train(every) end
mvbench.shutdown()
