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

return {
	MPInitialReshape = function(n) return new('MVB_INITIAL_RESHAPE', n, n) end,
	MPInitialLinear = function(n, m) return new('MVB_INITIAL_LINEAR', n, m, true) end,
	MPBaseReshape = function(n) return new('MVB_BASE_RESHAPE', n, n) end,
	MPBaseLinear = function(n, m) return new('MVB_BASE_LINEAR', n, m, true) end,
	MPTanh = function(n) return new('MVB_TANH', n, n) end,
}
