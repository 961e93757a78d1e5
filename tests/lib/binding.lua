-- binding.lua - every function of mvbench.lua, and every mistake that it has to refuse with a message.
-- Prints "done" on worker 0 if all checks pass.
--
--     mpirun -n 2 luajit binding.lua [TABLES SERVERS]
local ffi = require 'ffi'
local mvbench = require 'mvbench'
local Tensor = require 'tensor'

local function expect(value, wanted)
	if value ~= wanted then
		error(('%s; expected %s'):format(tostring(value), tostring(wanted)), 2)
	end
end

-- f(...) has to fail with a message that has these words, and is one line.
local function refused(words, f, ...)
	local ok, message = pcall(f, ...)
	if ok or not tostring(message):find(words, 1, true) or tostring(message):find '\n' then
		error(('"%s"; expected an error with "%s"'):format(tostring(message), words), 2)
	end
end

local Array, Matrix, Model = mvbench.ArrayTableHandler, mvbench.MatrixTableHandler, mvbench.Model
local NAN = 0 / 0

-- Before init.
refused('mvb_array_new before mvb_init', Array.new, Array, 3)
refused('mvb_barrier before mvb_init', mvbench.barrier)
refused('mvb_allreduce before mvb_init', mvbench.allReduce, {1})
expect(mvbench.num_workers(), -1)
refused('there is no option sinc', mvbench.init, {sinc = true})
refused('\'attic\'', mvbench.init, {tables = 'attic'})

mvbench.init {tables = arg[1], servers = tonumber(arg[2])}
if mvbench.is_server() then
	mvbench.shutdown()
	os.exit(0)
end
local id, workers = mvbench.worker_id(), mvbench.num_workers()
expect(mvbench.is_master, id == 0)
expect(mvbench.getWorldRank(), id)
expect(mvbench.getWorldSize(), workers)
expect(mvbench.server_id(), arg[2] and -1 or id)
assert(mvbench.backend():find(arg[1] or 'tables: '))

-- Tables, with each kind of floats.
local n = 5
local start = {1, 2, 3, 4, 5}
local t = Array:new(n, id == 0 and start or nil)
local ones, twos = ffi.new('float[5]', 1, 1, 1, 1, 1), Tensor.new(n)
for i = 0, n - 1 do twos.memory[i] = 2 end
t:add(ones)
t:add(twos)
t:add {3, 3, 3, 3, 3}
mvbench.barrier()
local out = ffi.new('float[5]')
expect(t:get(out), out)
expect(out[4], 5 + 6 * workers)
expect(t:get()[0], 1 + 6 * workers)
expect(t:get(Tensor.new(n)):data()[1], 2 + 6 * workers)
expect(t:get({0, 0, 0, 0, 0})[5], 5 + 6 * workers)
mvbench.barrier()
t:sync(out)
out[0] = out[0] + 1
t:sync(out)
mvbench.barrier()
expect(t:get()[0], 1 + 7 * workers)
mvbench.barrier()
local pushes = t:version()
expect(pushes, 5 * workers)
expect(t:staleness() >= 0, true)
mvbench.barrier()
t:elastic(out, 0)
local sgd = Array:new(2, nil, {updater = 'sgd'})
sgd:add({1, -1}, true, {lr = 0.5})
mvbench.barrier()
expect(sgd:get()[1], 0.5 * workers)

-- Rows, which count from 0.
local m = Matrix:new(4, 3)
m:add({1, 2, 3, 4, 5, 6}, {0, 2})
m:add({7, 7, 7}, 3)
m:add({}, {}, true)
m:add({0, 0, 0}, {1}, true, {lr = 1})
m:add(ffi.new('float[12]'))
mvbench.barrier()
expect(m:get(2)[1], 5 * workers)
expect(m:get({3, 0})[3], 1 * workers)
expect(m:get(ffi.new('int64_t[1]', 3))[2], 7 * workers)
expect(m:get()[8], 6 * workers)

-- Replaced: the whole matrix, then a row.
mvbench.barrier()
if arg[1] == 'onesided' then
	refused('not on a table that is onesided', m.set, m, ffi.new 'float[12]')
else
	if id == 0 then
		m:set(ffi.new('float[12]', 7))
		m:set({1, 2, 3}, 2)
	end
	mvbench.barrier()
	expect(m:get()[0], 7)
	expect(m:get()[8], 3)
	expect(m:get()[11], 7)
end
refused('row 4 of a table', m.set, m, {1, 2, 3}, {4})

-- Reductions and models.
local x = ffi.new('float[2]', id, 1)
expect(mvbench.allReduce(x), x)
expect(x[1], workers)
expect(mvbench.allReduce({id}, 'mean')[1], (workers - 1) / 2)
local list = {{id, id}, x}
mvbench.allReduceMultiple(list)
expect(list[1][2], workers * (workers - 1) / 2)
expect(mvbench.broadcast({id}, workers - 1)[1], workers - 1)
local module = {parameters = function() return {twos} end}
twos.memory[0] = id
mvbench.allReduceParameters(module)
expect(twos.memory[0], (workers - 1) / 2)
expect(mvbench.allReduce({id + 2}, 'min')[1], 2)
expect(mvbench.allReduce({id + 2}, 'max')[1], workers + 1)
expect(mvbench.allReduce({id}, 0.5)[1], workers * (workers - 1) / 4)
local late, more = ffi.new('float[2]', id, 1), {id}
mvbench.allReduceMultiple({late, more}, 1 / workers, true, true)
mvbench.syncDistributed()
expect(late[0], (workers - 1) / 2)
expect(more[1], (workers - 1) / 2)
if workers > 1 then -- after an error, the other sums are still there
	local fine = {id}
	mvbench.allReduce(id == 0 and {1} or {1, 1}, 'sum', true)
	mvbench.allReduce(fine, 'sum', true)
	refused('n is 2 on one worker, but 1 on another', mvbench.syncDistributed)
	mvbench.syncDistributed()
	expect(fine[1], workers * (workers - 1) / 2)
end
expect(require 'multiverso', mvbench)
expect(require 'torchad_nn.datamodule', mvbench.ad)
expect(require('torchmpi').rank(), id)

-- TorchMPI: collectives of tensors, and the rules of its parameter server.
local mpi = require 'torchmpi'
local reduced = id == workers - 1 and workers * (workers + 1) / 2 or id + 1
expect(mpi.reduceTensor(workers - 1, {id + 1})[1], reduced)
expect(mpi.allgatherTensor({id, 7}, ffi.new('float[?]', 2 * workers))[2 * workers - 2], workers - 1)
expect(mpi.sendreceiveTensor({id + 3}, 0, workers - 1)[1], id == workers - 1 and 3 or id + 3)
refused('3 floats for ' .. workers .. ' times 2', mpi.allgatherTensor, {1, 2}, {1, 2, 3})
local ps = mpi.parameterserver.init(ffi.new('float[2]', id + 4, 4))
mpi.parameterserver.send(ps, {1, 0}, 'add')
mvbench.barrier()
expect(mpi.parameterserver.receive(ps, {0, 0})[1], 4 + workers)
mvbench.barrier()
if arg[1] ~= 'onesided' then
	mpi.parameterserver.send(ps, {8, 9}, id == 0 and 'copy' or 'none')
	mvbench.barrier()
	expect(mpi.parameterserver.receive(ps, {0, 0})[2], 9)
	mvbench.barrier()
	mpi.parameterserver.send(ps, {8, 9}, 'zero')
	mvbench.barrier()
	expect(mpi.parameterserver.receive(ps, {0, 0})[1], 0)
end
-- After the first lines of Multiverso's page, which put numbers in the place of functions.
local kept = {mvbench.num_workers, mvbench.worker_id}
mvbench.num_workers, mvbench.worker_id = mvbench.num_workers(), mvbench.worker_id()
package.loaded.torchmpi = nil
expect(require('torchmpi').rank() + require('torchmpi').size(), id + workers)
expect(require('torchmpi').reduceTensor(0, {1})[1], id == 0 and workers or 1)
expect(mpi.sendreceiveTensor({id + 3}, 0, workers - 1)[1], id == workers - 1 and 3 or id + 3)
mvbench.num_workers, mvbench.worker_id = kept[1], kept[2]
refused('the rule is sub', mpi.parameterserver.send, ps, {1, 2}, 'sub')
mpi.parameterserver.free(ps)

-- A tensor of doubles, every second element of its memory: it is copied, and gets results back.
local Doubles = {}
Doubles.__index = Doubles
function Doubles:data() return ffi.cast('double *', self.memory) end
function Doubles:nElement() return 3 end
function Doubles:isContiguous() return false end
function Doubles:float()
	local y = Tensor.new(3)
	for i = 0, 2 do y.memory[i] = self.memory[2 * i] end
	return y
end
function Doubles:copy(from)
	for i = 0, 2 do self.memory[2 * i] = from.memory[i] end
	return self
end
local doubles = setmetatable({memory = ffi.new('double[6]', 1, 9, 2, 9, id, 9)}, Doubles)
expect(mvbench.allReduce(doubles), doubles)
expect(doubles.memory[4], workers * (workers - 1) / 2)
expect(doubles.memory[5], 9)
expect(doubles.memory[2], 2 * workers)
refused('tensor 1 would be a copy', Model.new, Model, {doubles})

local model = Model:new(module)
twos.memory[0] = twos.memory[0] + 1
model:sync()
mvbench.barrier()
model:pull()
expect(twos.memory[0], (workers - 1) / 2 + workers)
expect(mvbench.C.mvb_table_version(t.pointer, ffi.new 'int64_t[1]'), 0)

-- A data set in Lua tables: this worker's share.
local share, labels, rows = mvbench.ad.parallelize({1, 2, 3, 4}, {1, 2, 3, 4}, module, 4, nil, nil, -1)
expect(#share, rows)
expect(#labels, rows)
expect(mvbench.allReduce({rows})[1], 4)

-- Layers: TorchAD-NN's net, compared with the whole net in double precision.
local nn = require 'mvbench_layers'
local IN, HIDDEN, OUT, ROWS, seed = 6, 5, 3, 4, 1
local function drawn(count)
	local v = ffi.new('float[?]', count)
	for i = 0, count - 1 do
		seed = (seed * 1664525 + 1013904223) % 2 ^ 32
		v[i] = seed / 2 ^ 31 - 1
	end
	return v
end
local w1, b1, w2, b2 = drawn(HIDDEN * IN), drawn(HIDDEN), drawn(OUT * HIDDEN), drawn(OUT)
local input, dy = drawn(ROWS * IN), drawn(ROWS * OUT)
local net = {nn.MPInitialReshape(IN), nn.MPInitialLinear(IN, HIDDEN), nn.MPTanh(HIDDEN),
	nn.MPBaseLinear(HIDDEN, OUT)}
net[2]:scatter(w1, b1)
net[4]:scatter(w2, b2)
local xs = {input}
for i, layer in ipairs(net) do xs[i + 1] = layer:forward(xs[i], ROWS) end
local back = dy
for i = #net, 1, -1 do back = net[i]:backward(xs[i], back) end
local function near(x, wanted)
	if not (math.abs(x - wanted) < 1e-5) then error(x .. '; expected ' .. wanted, 2) end
end
for r = 0, ROWS - 1 do
	local h, dx = {}, {}
	for j = 0, HIDDEN - 1 do
		h[j] = b1[j]
		for i = 0, IN - 1 do h[j] = h[j] + input[r * IN + i] * w1[j * IN + i] end
		h[j] = math.tanh(h[j])
		local dh = 0
		for o = 0, OUT - 1 do dh = dh + dy[r * OUT + o] * w2[o * HIDDEN + j] end
		for i = 0, IN - 1 do dx[i] = (dx[i] or 0) + dh * (1 - h[j] * h[j]) * w1[j * IN + i] end
	end
	for o = 0, OUT - 1 do
		local y = b2[o]
		for j = 0, HIDDEN - 1 do y = y + h[j] * w2[o * HIDDEN + j] end
		near(xs[5][r * OUT + o], y)
	end
	for i = 0, IN - 1 do near(back[r * IN + i], dx[i]) end
end
local gathered_w, gathered_b = net[2]:gather()
for i = 0, HIDDEN * IN - 1 do expect(gathered_w[i], w1[i]) end
for i = 0, HIDDEN - 1 do expect(gathered_b[i], b1[i]) end
local cut = nn.MPBaseReshape(IN)
local parts = cut:forward(input)
for i, v in ipairs {cut:backward(input, parts)} do near(v[i], input[i]) end
-- Tensors of doubles: the copy of one is kept while the other is copied.
local function doubled(values, n)
	local x = {memory = ffi.new('double[?]', n)}
	for i = 0, n - 1 do x.memory[i] = values[i] end
	function x:data() return ffi.cast('double *', self.memory) end
	function x:nElement() return n end
	function x:float()
		collectgarbage()
		local y = Tensor.new(n)
		for i = 0, n - 1 do y.memory[i] = self.memory[i] end
		return y
	end
	return x
end
for _ = 1, 20 do
	local n = ROWS * tonumber(net[2].part.outputs)
	net[2]:backward(doubled(input, ROWS * IN), doubled(xs[3], n), true)
end
local dw = ffi.new('float[?]', tonumber(net[2].part.w), 0)
for i = 0, tonumber(net[2].part.w) - 1 do dw[i] = net[2].dw[i] end
net[2]:backward(input, xs[3], true)
for i = 0, tonumber(net[2].part.w) - 1 do expect(dw[i], net[2].dw[i]) end
refused('x: 7 floats are no rows of 6 columns', cut.forward, cut, ffi.new('float[7]'))
refused('a layer of 0 inputs and 0 outputs', nn.MPTanh, 0)
refused('scatter: 1 and 5 floats', net[2].scatter, net[2], {1}, b1)
refused('this form has no parameters', cut.gather, cut)

-- Mistakes that concern only the caller.
for _, bad in ipairs {false, 5, 'x', ffi.new('int[5]'), ffi.new('double[5]'), print} do
	refused('where float[n], a tensor or a table of numbers should be', t.add, t, bad)
end
refused('nil where float[n]', t.add, t, nil)
refused('4 floats for a table of 5', t.add, t, {1, 2, 3, 4})
refused('6 floats for a table of 5', t.get, t, ffi.new('float[6]'))
refused('element 2 of the table is no number', t.add, t, {1, 'a', 3, 4, 5})
local apart = setmetatable({isContiguous = function() return false end}, {__index = twos})
refused('the tensor is not contiguous', t.add, t, apart)
local simple = {data = function() return ones end, nElement = function() return 5 end}
t:get(out)
mvbench.barrier()
t:add(simple)
mvbench.barrier()
expect(t:get()[0], out[0] + workers)
mvbench.barrier()
local elsewhere = setmetatable({data = function() return ffi.new('double[5]') end,
	float = function(x) return x end}, {__index = twos})
refused('the tensor has no floats in host memory', t.add, t, elsewhere)
refused('nan, momentum 0', t.add, t, ones, nil, {lr = NAN})
refused('there is no option speed', t.add, t, ones, nil, {speed = 1})
refused('7 where a table of options should be', t.add, t, ones, nil, 7)
refused('nan is not from 0 to 1', t.elastic, t, ones, NAN)
for _, bad in ipairs {-1, 0.5, NAN, 1 / 0, 'x'} do
	refused('it has to be a whole number from 0', Array.new, Array, bad)
	refused('it has to be a whole number from 0', m.get, m, {bad})
end
refused('size is nil', Array.new, Array)
refused('row 4 of a table with rows 0 to 3', m.get, m, 4)
refused('3 floats for 2 rows of 3 columns', m.add, m, {1, 2, 3}, {0, 1})
local other = Tensor.new(3, 4) -- as many floats as the table's 4 x 3
function other:dim() return 2 end
refused('4 columns where 3 should be', m.add, m, other)
refused('4 columns where 3 should be', m.get, m, nil, other)
refused('4 columns where 3 should be', Matrix.new, Matrix, 4, 3, other)
refused('init_value: 2 floats for a table of 3', Array.new, Array, 3, {1, 2})
refused('op is worst', mvbench.allReduce, {1}, 'worst')
refused('where a list of tensors should be', Model.new, Model, 5)
refused('tensor 1 would be a copy', Model.new, Model, {{1, 2}})

-- Errors name the line of the program.
for _, f in ipairs {function() t:add({1}); end, function() m:get({-1}); end,
	function() mpi.reduceTensor(0, 5); end,
	function() Array:new(3, {1}); end, function() t:add(ones, nil, {speed = 1}); end} do
	local _, message = pcall(f)
	assert(message:find('binding.lua:' .. debug.getinfo(f, 'S').linedefined .. ':', 1, true), message)
end

-- TorchAD-NN: parameters and gradients become means, also by the calls of nn.StochasticGradient.
local p, g = ffi.new('float[1]', id), ffi.new('float[1]', 2 * id)
local trained = {parameters = function() return {p}, {g} end}
mvbench.ad.synchronizeModel(trained)
expect(p[0], (workers - 1) / 2)
expect(g[0], workers - 1)

-- flashlight's gradients.
for _, scale in ipairs {1 / workers, 0.5, false} do
	local net = {parameters = trained.parameters, backward = function(_, x)
		g[0] = x + id
		return 'dx'
	end}
	mvbench.distributeModuleGrads(net, scale or nil)
	expect(net:backward(4), 'dx')
	assert(math.abs(g[0] - (4 * workers + workers * (workers - 1) / 2) * (scale or 1 / workers)) < 1e-5, g[0])
end

function trained:accUpdateGradParameters() p[0] = p[0] + id end
mvbench.ad.parallelize({1, 2, 3, 4}, {1, 2, 3, 4}, trained, 4, nil, nil, 2)
trained:accUpdateGradParameters()
expect(p[0], (workers - 1) / 2 + id)
trained:accUpdateGradParameters()
expect(p[0], 3 * (workers - 1) / 2)

-- Mistakes that concern all workers.
refused('no updater is called \'magic\'', Array.new, Array, 3, nil, {updater = 'magic'})
refused('needs at least one', Array.new, Array, 0)
if workers > 1 then
	refused('rows is 3 on worker 0, but 4 on worker 1', Array.new, Array, 3 + math.min(id, 1))
	refused('n is 1 on worker 0, but 2 on worker 1', mvbench.allReduce, id == 0 and {1} or {1, 2})
	refused('', id == 0 and mvbench.barrier or mvbench.allReduce, {1})
end

-- Twice as many tables as there may be, which workers collect at different times; one is in use.
for i = 1, 512 do
	local garbage = i % 2 == 0 and Array:new(3) or Model:new {ffi.new('float[2]', i, i)}
	if id == i % workers then collectgarbage() end
	if i == 300 then garbage:free() end
end
expect(t:get()[0], 1 + 8 * workers)

-- Freed objects, and the end.
t:free()
t:free()
model:free()
refused('this mvb_table has been freed', t.add, t, ones)
refused('this mvb_model has been freed', model.sync, model)
mvbench.shutdown()
refused('mvb_table_get_rows after mvb_shutdown', m.get, m, 1)
refused('mvb_barrier after mvb_shutdown', mvbench.barrier)
refused('mvb_init after mvb_shutdown', mvbench.init)
m:free()
if id == 0 then print 'done' end
