-- mvbench_layers.lua - TorchAD-NN's layers, which are split over the workers, in LuaJIT. Every worker
-- sees the whole mini-batch and holds a part of the parameters; libmvbench.h has the formulas.
--
--     MPInitialReshape(n)  MPInitialLinear(inputs, outputs)  MPBaseReshape(n)
--     MPBaseLinear(inputs, outputs)  MPTanh(n)        sizes of the whole layer
--
-- Methods, with the names of Torch's modules: forward(x), backward(x, dy), parameters(),
-- updateParameters(lr). x [rows x columns]: as for mvbench.lua; results are mvbench.tensor(...).
local ffi = require 'ffi'
local mvbench = require 'mvbench'
local C, check, floats = mvbench.C, mvbench.check, mvbench.floats

local Layer = {}
Layer.__index = Layer

-- The parameters are zeros until scatter().
local function new(form, inputs, outputs, is_linear)
	local part, bias = ffi.new 'struct mvb_linear_part', ffi.new 'float[1]'
	local l = ffi.new('struct mvb_linear', {form = form, inputs = inputs, outputs = outputs})
	l.b = is_linear and bias or nil
	check(C.mvb_linear_part(l, part))
	local self = setmetatable({l = l, part = part}, Layer)
	for name, n in pairs(is_linear and {w = part.w, b = part.b, dw = part.w, db = part.b} or {}) do
		self[name] = mvbench.tensor(tonumber(n))
		l[name] = floats(self[name])
		ffi.fill(l[name], 4 * tonumber(n)) -- Torch's new tensors have any values
	end
	return self
end

local function rows_of(n, columns, what)
	local rows = columns > 0 and n / columns or 0
	if rows ~= math.floor(rows) or (columns == 0 and n > 0) then
		error(('%s: %d floats are no rows of %d columns'):format(what, n, columns), 4)
	end
	return rows
end

-- y [rows x part.outputs]. rows: only needed if this worker has no columns of x.
function Layer:forward(x, rows)
	local p, n = floats(x)
	rows = rows or rows_of(n, tonumber(self.part.inputs), 'x')
	local y = mvbench.tensor(rows, tonumber(self.part.outputs))
	check(C.mvb_linear_forward(self.l, p, rows, (floats(y))))
	self.rows = rows
	return y
end

-- dx [rows x part.inputs]; dw and db of the layer are overwritten. first: dx is not needed.
function Layer:backward(x, dy, first)
	local p, n = floats(x)
	local q, m = floats(dy)
	local inputs, outputs = tonumber(self.part.inputs), tonumber(self.part.outputs)
	if n ~= self.rows * inputs or m ~= self.rows * outputs then
		error(('backward: x has %d floats and dy %d; forward had %d rows of %d and %d'):format(n, m,
			self.rows, inputs, outputs), 2)
	end
	local dx = not first and mvbench.tensor(self.rows, inputs) or nil
	check(C.mvb_linear_backward(self.l, p, q, self.rows, dx and (floats(dx))))
	return dx
end

function Layer:parameters()
	return {self.w, self.b}, {self.dw, self.db}
end

function Layer:updateParameters(lr)
	for _, name in ipairs(self.w and {'w', 'b'} or {}) do
		local p, n = floats(self[name])
		local g = floats(self['d' .. name])
		for i = 0, n - 1 do p[i] = p[i] - lr * g[i] end
	end
end

-- For saving: w [outputs x inputs] and b [outputs] of the whole layer, on all workers. Collective.
function Layer:gather()
	local inputs, outputs = tonumber(self.l.inputs), tonumber(self.l.outputs)
	local w, b = mvbench.tensor(outputs, inputs), mvbench.tensor(outputs)
	check(C.mvb_linear_gather(self.l, (floats(w)), (floats(b))))
	return w, b
end

-- The own parameters = their part of the whole layer's.
function Layer:scatter(w, b)
	local p, n = floats(w)
	local q, m = floats(b)
	local inputs, outputs = tonumber(self.l.inputs), tonumber(self.l.outputs)
	if n ~= inputs * outputs or m ~= outputs then
		error(('scatter: %d and %d floats for a layer of %d inputs and %d outputs'):format(n, m,
			inputs, outputs), 2)
	end
	check(C.mvb_linear_scatter(self.l, p, q))
end

local M = {
	MPInitialReshape = function(n) return new('MVB_INITIAL_RESHAPE', n, n) end,
	MPInitialLinear = function(n, m) return new('MVB_INITIAL_LINEAR', n, m, true) end,
	MPBaseReshape = function(n) return new('MVB_BASE_RESHAPE', n, n) end,
	MPBaseLinear = function(n, m) return new('MVB_BASE_LINEAR', n, m, true) end,
	MPTanh = function(n) return new('MVB_TANH', n, n) end,
}

-- ---- Modules of Torch's nn -----------------------------------------------------------------------

-- The layer works on the module's parameters, which getParameters() moves.
local function use_parameters(self)
	for name, tensor in pairs {w = self.weight, b = self.bias} do
		local p, _, copied = floats(tensor)
		if copied then error('split layers have parameters of floats: call model:float()', 4) end
		self.layer[name], self.layer.l[name] = tensor, p
	end
end

local function define(torch, name, make)
	local Module, parent = torch.class('nn.' .. name, 'nn.Module')
	local reshapes = name:find 'Reshape'

	function Module:__init(inputs, outputs)
		parent.__init(self)
		self.size, self.outputs, self.layer = inputs, outputs, inputs and make(inputs, outputs)
		if not outputs then return end
		local rows, columns = tonumber(self.layer.part.outputs), tonumber(self.layer.part.inputs)
		self.weight, self.bias = self.layer.w:resize(rows, columns), self.layer.b
		self.layer.dw:resize(rows, columns)
		self.gradWeight = mvbench.tensor(rows, columns):zero()
		self.gradBias = mvbench.tensor(rows):zero()
		self:reset()
	end

	-- As nn.Linear's: the parts of one layer, whose parameters worker 0 draws. Collective.
	function Module:reset(stdv)
		if not self.weight then return end
		local outputs, most = tonumber(self.layer.l.outputs), stdv and stdv * math.sqrt(3)
			or 1 / math.sqrt(self.size)
		local w = mvbench.broadcast(mvbench.tensor(outputs, self.size):uniform(-most, most))
		local b = mvbench.broadcast(mvbench.tensor(outputs):uniform(-most, most))
		use_parameters(self)
		self.layer:scatter(w, b)
	end

	-- For torch.save and clone(): this worker's part, to be loaded by as many workers.
	function Module:write(file)
		local layer = self.layer
		self.layer, self.done = nil, nil
		parent.write(self, file)
		self.layer = layer
	end
	function Module:read(file)
		parent.read(self, file)
		self.layer = self.size and make(self.size, self.outputs)
	end

	function Module:updateOutput(input)
		local n, dim = input:nElement(), input:dim()
		local rows = n / input:size(dim)
		if reshapes then rows = self.size and n / self.size or dim > 1 and input:size(1) or 1 end
		if not self.layer then
			self.size = reshapes and n / rows or mvbench.allReduce({n / rows})[1]
			self.layer = make(self.size)
		end
		use_parameters(self)
		self.done = nil
		local y = self.layer:forward(input, rows)
		if rows == 1 and (dim == 1 or input:size(1) > 1) then -- no batch
			y:resize(tonumber(self.layer.part.outputs))
		end
		self.output = y:type(input:type())
		return self.output
	end

	function Module:updateGradInput(input, gradOutput)
		use_parameters(self)
		local dx = self.layer:backward(input, gradOutput)
		self.done = gradOutput -- the gradients of the parameters are there, too
		self.gradInput = dx:resize(input:size()):type(input:type())
		return self.gradInput
	end

	function Module:accGradParameters(input, gradOutput, scale)
		if not self.weight then return end
		use_parameters(self)
		if self.done ~= gradOutput then self.layer:backward(input, gradOutput, true) end
		self.gradWeight:add(scale or 1, self.layer.dw)
		self.gradBias:add(scale or 1, self.layer.db)
	end
end

-- Adds the layers to Torch's nn, for nn.Sequential. MPTanh() and MPBaseReshape() without a size
-- find it when they are first used. Linear layers draw their parameters: making one is collective.
function M.add_to_nn(torch)
	for _, name in ipairs {'InitialReshape', 'InitialLinear', 'BaseReshape', 'BaseLinear', 'Tanh'} do
		define(torch, 'MP' .. name, M['MP' .. name])
	end
end

return M
