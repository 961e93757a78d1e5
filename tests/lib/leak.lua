-- leak.lua - makes, uses and frees COUNT tables, models and layers, and prints "done" if the memory of this
-- process has not grown by more than 1 MiB after the first tenth.
--
--     mpirun -n 2 luajit leak.lua [COUNT]        default: 10000
local ffi = require 'ffi'
local mvbench = require 'mvbench'
local nn = require 'mvbench_layers'

local function resident() -- [KiB]
	for line in io.lines '/proc/self/status' do
		local kib = line:match '^VmRSS:%s*(%d+)'
		if kib then return tonumber(kib) end
	end
end

local count, before = tonumber(arg[1] or 10000), nil
mvbench.init()
local x, y = ffi.new('float[100]'), ffi.new('float[100]')
local t, kept = mvbench.ArrayTableHandler:new(100), mvbench.Model:new {x, y}
for i = 1, count do
	t:sync(x)
	t:add(y)
	kept:sync()
	local made = mvbench.ArrayTableHandler:new(100, x, {updater = 'sgd'})
	made:add(x, nil, {lr = 0.1})
	made:free()
	local model = mvbench.Model:new {x, y}
	model:sync()
	if i % 2 == 0 then model:free() end -- the others are garbage
	nn.MPInitialLinear(10, 10):forward(x)
	mvbench.allReduceMultiple {x, {1, 2}}
	if i == count / 10 then
		collectgarbage()
		before = resident()
	end
end
collectgarbage()
local grown = resident() - before
assert(grown < 1024, grown .. ' KiB more than after the first tenth')
if mvbench.is_master then print 'done' end
mvbench.shutdown()
