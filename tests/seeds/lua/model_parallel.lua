-- model_parallel.lua - the calls of TorchAD-NN's page (seed 004) for model parallelism: 1024 -> 2048 -> 10
-- with tanh between, whose linear layers are split over the workers. tests/seeds/model_parallel.c does
-- the same in C, and ends at the same parameters.
--
--     mpirun -n 2 luajit model_parallel.lua
--
-- Where the page is wrong: it counts the bias once for each worker. Different on purpose: MPTanh takes the
-- number of the hidden units, and a program loads its own first parameters (scatter).
local mvbench = require 'mvbench'
local nn = require 'mvbench_layers'
local Tensor = require 'tensor'

local IN, HIDDEN, OUT, BATCH, STEPS = 1024, 2048, 10, 8, 5

-- The value of parameter i of a tensor, in [-1, 1), as in the C program.
local function drawn(tensor, i)
	local h = (i * 2654435761ULL + tensor * 40503ULL) % 4294967296ULL
	local function mix(shift, factor)
		h = bit.bxor(h, bit.rshift(h, shift)) * factor % 4294967296ULL
	end
	mix(15, 2246822519ULL)
	mix(13, 3266489917ULL)
	h = bit.rshift(bit.bxor(h, bit.rshift(h, 16)), 8)
	return tonumber(h) / 2 ^ 23 - 1
end

local function filled(rows, columns, value)
	local x = Tensor.new(rows, columns)
	for r = 0, rows - 1 do
		for c = 0, columns - 1 do x.memory[r * columns + c] = value(r, c) end
	end
	return x
end

-- As Torch's nn.Sequential.
local Sequential = {}
Sequential.__index = Sequential
function Sequential:add(layer) self[#self + 1] = layer end
function Sequential:forward(x)
	for _, layer in ipairs(self) do
		layer.x = x
		x = layer:forward(x)
	end
	return x
end
function Sequential:backward(dy)
	-- not through the reshape, because the data need no gradient
	for i = #self, 2, -1 do dy = self[i]:backward(self[i].x, dy, i == 2) end
end
function Sequential:updateParameters(lr)
	for _, layer in ipairs(self) do layer:updateParameters(lr) end
end

-- Turns y into the gradient of the mean cross entropy; returns the loss.
local function loss_of(y)
	local loss = 0
	for r = 0, BATCH - 1 do
		local sum, p = 0, y + r * OUT
		for o = 0, OUT - 1 do
			p[o] = math.exp(p[o])
			sum = sum + p[o]
		end
		loss = loss - math.log(p[r % OUT] / sum) / BATCH
		for o = 0, OUT - 1 do p[o] = (p[o] / sum - (o == r % OUT and 1 or 0)) / BATCH end
	end
	return loss
end

mvbench.init()
local model = setmetatable({}, Sequential)
model:add(nn.MPInitialReshape(IN))
model:add(nn.MPInitialLinear(IN, HIDDEN))
model:add(nn.MPTanh(HIDDEN))
model:add(nn.MPBaseLinear(HIDDEN, OUT))
model[2]:scatter(filled(HIDDEN, IN, function(j, i) return drawn(1, j * IN + i) / 32 end),
	Tensor.new(HIDDEN))
model[4]:scatter(filled(OUT, HIDDEN, function(o, j) return drawn(2, j * OUT + o) / 45 end),
	Tensor.new(OUT))

local x, first, loss = filled(BATCH, IN, function(r, i) return drawn(3, r * IN + i) end), nil, nil
for _ = 1, STEPS do
	local y = model:forward(x)
	loss = loss_of(y)
	first = first or loss
	model:backward(y)
	model:updateParameters(Tensor.float(0.1))
end
local function squares(x, n)
	local sum = 0
	for i = 0, n - 1 do sum = sum + x[i] ^ 2 end
	return sum
end
local w1, w2 = model[2]:gather(), model[4]:gather()
local _, b = model[4]:gather()
if mvbench.is_master then
	print(('loss %.4f, %.4f after %d steps'):format(first, loss, STEPS))
	print(('parameters: %.9g %.9g '):format(squares(w1, HIDDEN * IN), squares(w2, OUT * HIDDEN))
		.. Tensor.new(OUT):copy(b):text())
end
assert(loss < 0.5 * first, 'the loss has to fall to half')
mvbench.shutdown()
