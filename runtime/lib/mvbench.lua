-- mvbench.lua - libmvbench in LuaJIT, under the names of the pages of Multiverso, flashlight and
-- TorchAD-NN. LUA.md is the manual; libmvbench.h says what each function does, and when it fails.
-- Floats are an FFI float[n], a tensor (anything with data(), nElement() and isContiguous(), as
-- Torch's), or a Lua table of numbers. Lua tables, and tensors that are not contiguous floats, are
-- copied; results go back.
local ffi = require 'ffi'
local abi = require 'mvbench_abi'
ffi.cdef(abi.cdef)
local found, C = pcall(ffi.load, 'mvbench', true) -- true: the plug-ins of Open MPI need its symbols
if not found then
	local mpi = C:find 'libmpi' or C:find 'libpmix'
	error(C .. (mpi and '; install Open MPI: apt-get install openmpi-bin' or ''), 2)
end
local M = {C = C, ad = {}} -- C: every function of the header, as M.check(M.C.mvb_wait(ticket))

-- ---- Errors and arguments ------------------------------------------------------------------

-- Raises an error at the line that called the library.
local function fail(text)
	local level = 2
	while true do
		local at = debug.getinfo(level, 'S')
		local name = at and at.source:match '[/@]([_a-z]*)%.lua$'
		if not name or not (name:find '^mvbench' or name == 'torchmpi') then break end
		level = level + 1
	end
	error(text, level)
end

local function check(code)
	if code ~= 0 then fail(ffi.string(C.mvb_message())) end
end

local function ensure(holds, text, ...)
	if not holds then fail(text:format(...)) end
	return holds
end

local function index(x, name) return x[name] end
local function has(x, name)
	local ok, value = pcall(index, x, name)
	return ok and value
end

-- The length of an FFI float[n]; false for other C data. Remembered, because it is slow to find.
local lengths = setmetatable({}, {__mode = 'k'})
local function array_length(x)
	local n = lengths[x]
	if n == nil then
		n = tostring(ffi.typeof(x)):find '^ctype<float [%[(]' and ffi.sizeof(x) / 4 or false
		lengths[x] = n
	end
	return n
end

-- The last copies of tensors, which a call of the library may still read: it takes four at most.
local converted, turn = {}, 0

-- The address of x, its number of floats, and whether it is a copy: true, or the tensor that is.
local function floats(x)
	local n = type(x) == 'cdata' and array_length(x)
	if n then return x, n, false end
	if has(x, 'nElement') then
		local y = x
		local function is_float()
			local p = y:data()
			return y:nElement() == 0 or
				type(p) == 'cdata' and (ffi.istype('float *', p) or array_length(p))
		end
		if not is_float() and has(y, 'float') then y = y:float() end
		if has(y, 'isContiguous') and not y:isContiguous() then
			ensure(has(y, 'contiguous'), 'the tensor is not contiguous')
			y = y:contiguous()
		end
		ensure(is_float(), 'the tensor has no floats in host memory: its data() is %s',
			tostring(y:data()))
		if y == x then return y:data(), y:nElement(), false end
		turn = turn % 4 + 1
		converted[turn] = y
		return y:data(), y:nElement(), y
	end
	ensure(type(x) == 'table', '%s where float[n], a tensor or a table of numbers should be',
		tostring(x))
	local copy = ffi.new('float[?]', #x)
	for i = 1, #x do
		ensure(type(x[i]) == 'number', 'element %d of the table is no number', i)
		copy[i - 1] = x[i]
	end
	return copy, #x, true
end
M.check, M.floats = check, floats

-- Floats that the library has written to: a Lua table, or a tensor that was copied, gets them back.
local function put_back(x, p, n, copied)
	if copied and copied ~= true then return x:copy(copied) end
	for i = 1, copied and n or 0 do x[i] = p[i - 1] end
	return x
end

M.put_back = put_back

local function whole(x, what)
	local n = tonumber(x)
	local fine = n and n == math.floor(n) and n >= 0 and n <= 2 ^ 53
	return ensure(fine and n, '%s is %s; it has to be a whole number from 0', what, tostring(x))
end

local function merged(a, b)
	local all = {}
	for _, t in ipairs {a or {}, b or {}} do
		ensure(type(t) == 'table', '%s where a table of options should be', tostring(t))
		for name, value in pairs(t) do all[name] = value end
	end
	return all
end

-- A struct of libmvbench.h with these fields.
local function struct(kind, from, base)
	local s = ffi.new(kind, base or {})
	for name, value in pairs(merged(from)) do
		ensure(type(name) == 'string' and ffi.offsetof(kind, name), 'there is no option %s',
			tostring(name))
		s[name] = value
	end
	return s
end

-- {lr=, momentum=, rho=, lambda=}; nil: the library's defaults.
local function push_of(by) return by and struct('struct mvb_push', by, abi.push) end

-- The tensors of a list, or of anything with parameters(). kept: the library keeps their addresses.
local function list_of(x, kept)
	if has(x, 'parameters') then x = x:parameters() end
	ensure(type(x) == 'table', '%s where a list of tensors should be', tostring(x))
	local list = {at = ffi.new('float *[?]', #x), n = ffi.new('size_t[?]', #x)}
	for i = 1, #x do
		local p, n, copied = floats(x[i])
		ensure(not (copied and kept),
			'tensor %d would be a copy: use float[n], or a contiguous tensor of floats', i)
		list[i], list.at[i - 1], list.n[i - 1] = {x[i], p, n, copied}, p, n
	end
	return list
end

-- ---- Start and end ---------------------------------------------------------------------------

local defaults = {} -- of tables, from init
local live, owner = {}, setmetatable({}, {__mode = 'v'}) -- by number; owner: the Lua object
local created, count, enough = 0, 0, 64

-- init(), init(sync) or init{sync=, updater=, servers=, tables=, file=, rank=, size=, timeout_s=}.
-- On a server it returns when the workers have shut down.
function M.init(o)
	o = type(o) ~= 'boolean' and merged(o) or {sync = o}
	local options = {updater = o.updater, rounds = o.sync}
	o.sync, o.updater = nil, nil
	check(C.mvb_init(struct('struct mvb_setup', o)))
	defaults, M.is_master = options, C.mvb_is_master()
end

function M.shutdown()
	check(C.mvb_shutdown())
	live, count = {}, 0
end
function M.barrier() check(C.mvb_barrier()) end
for _, name in ipairs {'num_workers', 'worker_id', 'num_servers', 'is_server', 'rank', 'size'} do
	M[name] = function() return C['mvb_' .. name]() end
end
M.getWorldRank, M.getWorldSize = M.worker_id, M.num_workers
function M.backend() return ffi.string(C.mvb_backend()) end

-- The number of the server in this process; -1: none. Without servers each worker is one.
function M.server_id()
	if C.mvb_is_server() then return C.mvb_rank() - C.mvb_num_workers() end
	return C.mvb_num_servers() == 0 and C.mvb_worker_id() or -1
end

-- ---- What the library makes --------------------------------------------------------------------

-- Freeing is collective, but workers collect garbage at different times. The collector therefore
-- frees nothing. When `enough` objects are live, which happens on all workers at the same call, the
-- workers find out which objects are garbage on all of them, and free these.
local function free_garbage()
	collectgarbage()
	local ids = {}
	for id in pairs(live) do ids[#ids + 1] = id end
	table.sort(ids)
	local garbage = ffi.new('float[?]', #ids)
	for i, id in ipairs(ids) do garbage[i - 1] = owner[id] == nil and 1 or 0 end
	check(C.mvb_allreduce(garbage, #ids, 'MVB_SUM'))
	for i, id in ipairs(ids) do
		if garbage[i - 1] == C.mvb_num_workers() then
			check(live[id].free(live[id].pointer))
			live[id], count = nil, count - 1
		end
	end
	enough = count + 64
end

-- Collective: makes an object of the library. kept: what it uses until it is freed.
local function own(class, self, kept, make, free, ...)
	if count >= enough then free_garbage() end
	local out = ffi.new('struct ' .. class.kind .. ' *[1]')
	check(make(out, ...))
	created, count = created + 1, count + 1
	live[created], owner[created] = {pointer = out[0], free = free, kept = kept}, self
	self.id, self.pointer = created, out[0]
	return setmetatable(self, class)
end
local function pointer(self) return ensure(self.pointer, 'this %s has been freed', self.kind) end

-- Collective. After an error of a push that was under way the object is freed, too.
local function free(self)
	local mine = live[self.id]
	local code = mine and self.pointer and mine.free(self.pointer) or 0
	if mine and self.pointer and code ~= C.MVB_ERR_DIFFERS then
		live[self.id], self.pointer, count = nil, nil, count - 1
	end
	check(code)
end

local function class(kind, parent)
	local c = setmetatable({kind = kind, free = free}, parent)
	c.__index = c
	return c
end

-- The floats of x. A matrix of other columns than the table's may have as many; it is refused.
local function floats_for(self, x)
	if self.columns and has(x, 'dim') and has(x, 'size') and x:dim() == 2 then
		local columns = x:size(2)
		ensure(columns == self.columns, '%d columns where %d should be', columns, self.columns)
	end
	return floats(x)
end

-- Calls f([pointer,] floats, n, ...), which writes to the floats of x; returns x.
local function fill(x, f, self, ...)
	local p, n, copied
	if self then p, n, copied = floats_for(self, x) else p, n, copied = floats(x) end
	if self then check(f(pointer(self), p, n, ...)) else check(f(p, n, ...)) end
	return put_back(x, p, n, copied)
end

-- ---- Tables ------------------------------------------------------------------------------------

-- What get() returns: a Torch tensor if Torch is loaded, else float[n]. A program may replace it.
function M.tensor(rows, columns)
	local torch = package.loaded.torch
	if torch then return torch.FloatTensor(rows, columns) end
	return ffi.new('float[?]', rows * (columns or 1))
end

local Table = class 'mvb_table'
local Array, Matrix = class('mvb_table', Table), class('mvb_table', Table)
M.ArrayTableHandler, M.MatrixTableHandler = Array, Matrix

local function table_new(class, values, o, rows, columns)
	o = merged(defaults, o)
	o.initial = o.initial and 'MVB_' .. tostring(o.initial):upper()
	local p, n, copied
	local self = {n = rows * (columns or 1), rows = rows, columns = columns}
	if values ~= nil then p, n, copied = floats_for(self, values) end
	ensure(not n or n == self.n, 'init_value: %s floats for a table of %d', n, self.n)
	own(class, self, nil, function(out, options)
		if columns then return C.mvb_matrix_new(out, rows, columns, p, options) end
		return C.mvb_array_new(out, rows, p, options)
	end, C.mvb_table_free, struct('struct mvb_options', o))
	put_back(values, p, n, copied)
	return self
end

-- ArrayTableHandler:new(size[, init_value[, options]]): options are {updater=, rounds=, backup=,
-- bounded=, lead=, initial='master'|'average'|'total'}.
function Array:new(size, init_value, o)
	return table_new(Array, init_value, o, whole(size, 'size'))
end

-- MatrixTableHandler:new(rows, columns[, init_value[, options]])
function Matrix:new(rows, columns, init_value, o)
	return table_new(Matrix, init_value, o, whole(rows, 'rows'), whole(columns, 'columns'))
end

-- add(delta[, sync[, by]]). sync is Multiverso's: here every add waits.
function Table:add(delta, _, by)
	local p, n = floats_for(self, delta)
	check(C.mvb_table_add(pointer(self), p, n, push_of(by)))
end

-- Row numbers count from 0: int64_t[n] of the FFI, a Lua table, or one number.
local function rows_of(ids)
	if type(ids) == 'cdata' and tostring(ffi.typeof(ids)):find '^ctype<int64_t [%[(]' then
		return ids, ffi.sizeof(ids) / 8
	end
	ids = type(ids) == 'table' and ids or {ids}
	local rows = ffi.new('int64_t[?]', #ids)
	for i = 1, #ids do rows[i - 1] = whole(ids[i], 'a row number') end
	return rows, #ids
end

-- W = values; with row_ids, these rows.
function Table:set(values, row_ids)
	local p, n = floats_for(self, values)
	if row_ids == nil then return check(C.mvb_table_set(pointer(self), p, n)) end
	local row, rows = rows_of(row_ids)
	check(C.mvb_table_set_rows(pointer(self), row, rows, p, n))
end

function Table:get(out)
	return fill(out or M.tensor(self.rows, self.columns), C.mvb_table_get, self)
end
function Table:sync(param) return fill(param, C.mvb_table_sync, self) end
local function number(self, f)
	local n = ffi.new 'int64_t[1]'
	check(f(pointer(self), n))
	return tonumber(n[0])
end
-- Pushes of all workers so far; those of others that this worker's last push had not seen.
function Table:version() return number(self, C.mvb_table_version) end
function Table:staleness() return number(self, C.mvb_table_staleness) end
function Table:elastic(param, alpha) return fill(param, C.mvb_table_elastic, self, alpha) end

-- add(delta[, row_ids[, sync][, by]]). sync is Multiverso's, as for an array.
function Matrix:add(delta, row_ids, sync, by)
	by = by or type(sync) ~= 'boolean' and sync or nil
	if row_ids == nil then return Table.add(self, delta, nil, by) end
	local row, rows = rows_of(row_ids)
	local p, n = floats_for(self, delta)
	check(C.mvb_table_add_rows(pointer(self), row, rows, p, n, push_of(by)))
end

-- get([row_ids[, out]])
function Matrix:get(row_ids, out)
	if row_ids == nil then return Table.get(self, out) end
	local row, rows = rows_of(row_ids)
	out = out or M.tensor(rows, self.columns)
	local p, n, copied = floats_for(self, out)
	check(C.mvb_table_get_rows(pointer(self), row, rows, p, n))
	return put_back(out, p, n, copied)
end

-- ---- Reductions and models ---------------------------------------------------------------------

-- how: nil or 'sum', 'mean', 'min', 'max', 'product', or a number, by which the sum is multiplied.
local ops = {sum = C.MVB_SUM, mean = C.MVB_MEAN, min = C.MVB_MIN, max = C.MVB_MAX,
	product = C.MVB_PRODUCT}
local function op_of(how)
	if type(how) == 'number' then return C.MVB_SUM, how end
	return ensure(ops[how or 'sum'], 'op is %s; it has to be sum, mean, min, max, product or a number',
		tostring(how))
end

local function reduced(x, p, n, copied, scale)
	for i = 0, scale and n - 1 or -1 do p[i] = scale * p[i] end
	return put_back(x, p, n, copied)
end

-- x = the reduction of all workers' x; returns x. async: x may be used after syncDistributed().
local under_way = {}
function M.allReduce(x, how, async)
	local op, scale = op_of(how)
	local p, n, copied = floats(x)
	if async then
		local ticket = ffi.new 'int64_t[1]'
		check(C.mvb_allreduce_start(p, n, op, ticket))
		under_way[#under_way + 1] = {ticket[0], x, p, n, copied, scale}
		return x
	end
	check(C.mvb_allreduce(p, n, op))
	return reduced(x, p, n, copied, scale)
end

function M.syncDistributed()
	while under_way[1] do -- after an error, a later call waits for the rest
		local r = table.remove(under_way, 1)
		check(C.mvb_wait(r[1]))
		reduced(r[2], r[3], r[4], r[5], r[6])
	end
end

-- list: of tensors, or anything with parameters(). Without async it is one reduction, whatever
-- flashlight's last argument, contiguous, is.
function M.allReduceMultiple(list, how, async)
	local op, scale = op_of(how)
	list = list_of(list)
	if async then
		for _, tensor in ipairs(list) do M.allReduce(tensor[1], how, true) end
		return
	end
	check(C.mvb_allreduce_list(list.at, list.n, #list, op))
	for _, t in ipairs(list) do reduced(t[1], t[2], t[3], t[4], scale) end
end
function M.allReduceParameters(model) M.allReduceMultiple(model, 'mean') end

-- From now on each model:backward() ends with gradients that are scale times their sum over the workers;
-- nil: their mean.
function M.distributeModuleGrads(model, scale)
	local backward = model.backward
	local function reduce(...)
		local _, gradients = model:parameters()
		M.allReduceMultiple(gradients, scale or 'mean')
		return ...
	end
	function model.backward(...) return reduce(backward(...)) end
end

-- x = the x of worker root, by default of worker 0.
function M.broadcast(x, root) return fill(x, C.mvb_broadcast, nil, root or 0) end

-- Model:new(list[, options]): all tensors of the list as one table.
local Model = class 'mvb_model'
M.Model = Model
function Model:new(list, o)
	list, o = list_of(list, true), struct('struct mvb_options', merged(defaults, o))
	return own(Model, {}, list, C.mvb_model_new, C.mvb_model_free, list.at, list.n, #list, o)
end
function Model:sync() check(C.mvb_model_sync(pointer(self))) end
function Model:pull() check(C.mvb_model_pull(pointer(self))) end

-- ---- TorchAD-NN --------------------------------------------------------------------------------

-- Every worker's parameters and gradients = their mean over the workers. Collective.
function M.ad.synchronizeModel(model)
	local parameters, gradients = model:parameters()
	local all = {}
	for _, list in ipairs {parameters, gradients or {}} do
		for _, tensor in ipairs(list) do all[#all + 1] = tensor end
	end
	M.allReduceMultiple(all, 'mean')
	model.mvbench_due = nil
end

-- This worker's share of the rows: data, labels, number. Shares differ by one row at most. After
-- every `batch` calls of model:backward() the parameters are averaged: at the end of the next
-- updateParameters(), or else before the next forward(). nn.StochasticGradient calls
-- accUpdateGradParameters() instead of both: they are averaged at its end. batch -1: never. mpi and mpinn:
-- unused.
function M.ad.parallelize(data, labels, model, size, _, _, batch)
	if C.mvb_num_workers() < 0 then M.init() end
	size, batch = whole(size, 'size'), batch or 1
	local id, workers, calls = C.mvb_worker_id(), C.mvb_num_workers(), 0
	local first, last = math.floor(size * id / workers), math.floor(size * (id + 1) / workers)
	local function share(x)
		if has(x, 'narrow') then return x:narrow(1, first + 1, last - first) end
		local part = {}
		for i = first + 1, last do part[i - first] = x[i] end
		return part
	end
	local function synchronize(...)
		if model.mvbench_due then M.allReduceParameters(model) end
		model.mvbench_due = nil
		return ...
	end
	local function wrap(name, before, after)
		local original = model[name]
		model[name] = original and function(...) before() return after(original(...)) end
	end
	local function same(...) return ... end
	local function count_call()
		calls = calls + 1
		model.mvbench_due = model.mvbench_due or calls % batch == 0
	end
	if batch > 0 then
		wrap('backward', count_call, same)
		wrap('forward', synchronize, same)
		wrap('updateParameters', same, synchronize)
		wrap('accUpdateGradParameters', count_call, synchronize)
	end
	return share(data), share(labels), last - first
end

return M
