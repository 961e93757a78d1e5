-- tensor.lua - the few methods of Torch's tensors that the pages call, on FFI floats. Every result
-- is rounded to float32, as in C, so that programs end at the same bits.
local ffi = require 'ffi'
local Tensor = {}
Tensor.__index = Tensor

-- rows x columns zeros, or a vector of rows; memory: a part of another tensor.
function Tensor.new(rows, columns, memory, whole)
	local n = rows * (columns or 1)
	return setmetatable({rows = rows, columns = columns or 1, n = n, whole = whole,
		memory = memory or ffi.new('float[?]', n)}, Tensor)
end

function Tensor:data() return ffi.cast('float *', self.memory) end
function Tensor:nElement() return self.n end
function Tensor:isContiguous() return true end
function Tensor:size(dimension) return dimension == 2 and self.columns or self.rows end

-- Rows first .. first + rows - 1, counted from 1, of the same memory.
function Tensor:narrow(dimension, first, rows)
	assert(dimension == 1)
	return Tensor.new(rows, self.columns, self.memory + (first - 1) * self.columns, self)
end

function Tensor:copy(from) -- from a tensor or float[n]
	local x = getmetatable(from) == Tensor and from.memory or from
	for i = 0, self.n - 1 do self.memory[i] = x[i] end
	return self
end

function Tensor:zero()
	ffi.fill(self.memory, 4 * self.n)
	return self
end

-- self = self + factor * x
function Tensor:add(factor, x)
	local part = ffi.new 'float[1]'
	for i = 0, self.n - 1 do
		part[0] = factor * x.memory[i]
		self.memory[i] = self.memory[i] + part[0]
	end
	return self
end

function Tensor.__mul(a, b) -- a number and a tensor
	local factor, x = a, b
	if type(b) == 'number' then factor, x = b, a end
	local y = Tensor.new(x.rows, x.columns)
	for i = 0, x.n - 1 do y.memory[i] = factor * x.memory[i] end
	return y
end

function Tensor.__div(x, number)
	local y = Tensor.new(x.rows, x.columns)
	for i = 0, x.n - 1 do y.memory[i] = x.memory[i] / number end
	return y
end

-- The values as text that reads back to the same bits.
function Tensor:text()
	local words = {}
	for i = 0, self.n - 1 do words[i + 1] = ('%.9g'):format(self.memory[i]) end
	return table.concat(words, ' ')
end

-- ---- What the programs share ---------------------------------------------------------------------

local rounded = ffi.new 'float[1]'
function Tensor.float(x) -- rounds to float32
	rounded[0] = x
	return rounded[0]
end

-- Numbers in [-1, 1), the same as in the C programs.
function Tensor.uniform(seed)
	return function()
		seed = (seed * 1664525 + 1013904223) % 2 ^ 32
		return math.floor(seed / 256) / 2 ^ 23 - 1
	end
end

return Tensor
