-- speed.lua - an add and a get of a whole table by mvbench.lua, and by a loop in C, which alternate in one
-- run. Worker 0 prints the medians of both [ns], as means over the workers. bench.sh builds LOOP of speed.c.
--
--     mpirun -n 2 luajit speed.lua LOOP FLOATS COUNT BLOCKS        COUNT: operations between two barriers
local ffi = require 'ffi'
local mvbench = require 'mvbench'
ffi.cdef [[
double speed_now(void);
double speed_loop(struct mvb_table *t, const float *in, float *out, size_t n, int count);
]]
local loop = ffi.load(arg[1])
local n, count, blocks = tonumber(arg[2]), tonumber(arg[3]), tonumber(arg[4])
mvbench.init()
local t = mvbench.ArrayTableHandler:new(n)
local delta, out = ffi.new('float[?]', n, 1), ffi.new('float[?]', n)

local function in_lua()
	local start = loop.speed_now()
	for _ = 1, count do
		t:add(delta)
		t:get(out)
	end
	return (loop.speed_now() - start) / count
end

local own, c = {}, {}
for block = 1, blocks + 2 do
	mvbench.barrier()
	local mine = in_lua()
	mvbench.barrier()
	local theirs = loop.speed_loop(t.pointer, delta, out, n, count)
	if block > 2 then own[#own + 1], c[#c + 1] = mine, theirs end -- the first two warm up
end
table.sort(own)
table.sort(c)
local medians = mvbench.allReduce({own[math.ceil(blocks / 2)] * 1e9, c[math.ceil(blocks / 2)] * 1e9}, 'mean')
if mvbench.is_master then print(('%.0f %.0f'):format(medians[1], medians[2])) end
mvbench.shutdown()
