-- sequential.lua - TorchAD-NN's page with nn.Sequential: its four lines, the same net of
-- mvbench_layers, and the calls of nn.StochasticGradient. What it needs of torch and nn is here,
-- written again.
--
--     mpirun -n 2 luajit sequential.lua          prints "done" on worker 0 if all checks pass
local ffi = require 'ffi'
local Tensor = require 'tensor'

-- ---- Torch: tensors with any values at first, and classes -----------------------------------------

function Tensor:dim() return self.vector and 1 or 2 end
function Tensor:size(i)
	local sizes = {self.rows, not self.vector and self.columns}
	return i and sizes[i] or sizes
end
function Tensor:resize(rows, columns)
	if type(rows) == 'table' then rows, columns = rows[1], rows[2] or nil end
	assert(rows * (columns or 1) == self.n)
	self.rows, self.columns, self.vector = rows, columns or 1, not columns
	return self
end
function Tensor:type() return self end
function Tensor:uniform(low, high)
	for i = 0, self.n - 1 do self.memory[i] = low + (high - low) * math.random() end
	return self
end

local torch, nn = {}, {}
function torch.FloatTensor(rows, columns)
	local x = Tensor.new(rows, columns)
	x.vector = not columns
	for i = 0, x.n - 1 do x.memory[i] = 0 / 0 end
	return x
end
function torch.class(name, parent)
	local class = setmetatable({}, {__index = parent and nn[parent:sub(4)], __call = function(c, ...)
		local object = setmetatable({}, {__index = c})
		object:__init(...)
		return object
	end})
	nn[name:sub(4)] = class
	return class, parent and nn[parent:sub(4)]
end

local Module = torch.class 'nn.Module'
function Module:__init() end
function Module:forward(x) return self:updateOutput(x) end
function Module:backward(x, dy)
	local dx = self:updateGradInput(x, dy)
	self:accGradParameters(x, dy, 1)
	return dx
end
function Module:write(file)
	for name, value in pairs(self) do file[name] = value end
end
Module.read = function(self, file) Module.write(file, self) end
function Module:accUpdateGradParameters(x, dy, lr)
	local w, b = self.gradWeight, self.gradBias
	self.gradWeight, self.gradBias = self.weight, self.bias
	self:accGradParameters(x, dy, -lr)
	self.gradWeight, self.gradBias = w, b
end

local Sequential = torch.class('nn.Sequential', 'nn.Module')
function Sequential:__init() self.modules = {} end
function Sequential:add(module) self.modules[#self.modules + 1] = module end
function Sequential:updateOutput(x)
	for _, m in ipairs(self.modules) do x = m:updateOutput(x) end
	self.output = x
	return x
end
function Sequential:each_backward(name, x, dy, lr)
	for i = #self.modules, 1, -1 do
		local m = self.modules[i]
		m[name](m, i > 1 and self.modules[i - 1].output or x, dy, lr)
		dy = m.gradInput
	end
	return dy
end
function Sequential:updateGradInput(x, dy) return self:each_backward('updateGradInput', x, dy) end
function Sequential:backward(x, dy) return self:each_backward('backward', x, dy) end
function Sequential:accUpdateGradParameters(x, dy, lr)
	return self:each_backward('accUpdateGradParameters', x, dy, lr)
end

-- ---- The page ---------------------------------------------------------------------------------------

package.preload.torch = function() return torch end
package.preload.nn = function() return nn end
require 'torch'
require 'nn'
local layers = require 'torchad_nn'
local mpi = require 'torchmpi'
mpi.start(true)
math.randomseed(mpi.rank() + 1) -- other draws on each worker

local IN, HIDDEN, OUT, ROWS, LR = 12, 9, 5, 3, 0.1
local model = nn.Sequential()
model:add(nn.MPInitialReshape(IN))
model:add(nn.MPInitialLinear(IN, HIDDEN))
model:add(nn.MPTanh())
model:add(nn.MPBaseLinear(HIDDEN, OUT))

local function near(a, b, what)
	assert(a.n == b.n, what)
	for i = 0, a.n - 1 do
		local x, y = a.memory[i], b.memory[i]
		if not (math.abs(x - y) < 1e-5) then error(('%s %d: %g; expected %g'):format(what, i, x, y), 2) end
	end
end

-- The same net, layer by layer.
local net = {layers.MPInitialReshape(IN), layers.MPInitialLinear(IN, HIDDEN), layers.MPTanh(HIDDEN),
	layers.MPBaseLinear(HIDDEN, OUT)}
for _, i in ipairs {2, 4} do
	near(net[i].w, torch.FloatTensor(net[i].w.n):zero(), 'parameters before scatter')
	net[i]:scatter(model.modules[i].layer:gather())
	assert(math.abs(net[i].w.memory[0]) > 0)
end
local mvbench = require 'mvbench'
local x = mvbench.broadcast(torch.FloatTensor(ROWS, IN):uniform(-1, 1))
local dy = mvbench.broadcast(torch.FloatTensor(ROWS, OUT):uniform(-1, 1))

local function whole_step()
	local inputs = {x}
	for i, layer in ipairs(net) do inputs[i + 1] = layer:forward(inputs[i]) end
	local back = dy
	for i = #net, 1, -1 do back = net[i]:backward(inputs[i], back) end
	return inputs[#inputs], back
end

local y, dx = whole_step()
near(model:forward(x), y, 'y')
near(model:backward(x, dy), dx, 'dx')
near(model.modules[2].gradWeight, net[2].dw, 'gradWeight')
near(model.modules[4].gradBias, net[4].db, 'gradBias')
model:backward(x, dy) -- gradients add up
near(model.modules[4].gradWeight, net[4].dw * 2, 'gradWeight after two passes')

-- Parameters move, as by getParameters(); then a step as nn.StochasticGradient makes it.
for _, i in ipairs {2, 4} do
	local m = model.modules[i]
	m.weight = torch.FloatTensor(m.weight.rows, m.weight.columns):copy(m.weight)
end
model:forward(x)
model:updateGradInput(x, dy)
model:accUpdateGradParameters(x, dy, LR)
for _, i in ipairs {2, 4} do net[i]:updateParameters(LR) end
y = whole_step()
near(model:forward(x), y, 'y after a step')
near(model.modules[2].weight, net[2].w, 'weight after a step')

-- One sample, without a batch; a layer that cuts, and finds its size.
local one = torch.FloatTensor(IN):copy(x)
near(model:forward(one), torch.FloatTensor(OUT):copy(y), 'y of one sample')
assert(model.output:dim() == 1)
local cut = nn.MPBaseReshape()
cut:forward(x)
near(cut:updateGradInput(x, cut.output), x, 'all parts')

-- Saved and loaded: Torch writes no FFI data.
local file, loaded = {}, setmetatable({}, getmetatable(model.modules[2]))
model.modules[2]:write(file)
for name, value in pairs(file) do assert(type(value) ~= 'cdata' and name ~= 'layer', name) end
loaded:read(file)
near(loaded:forward(x), model.modules[2]:forward(x), 'y of a loaded layer')

mpi.stop()
if mvbench.is_master then print 'done' end
