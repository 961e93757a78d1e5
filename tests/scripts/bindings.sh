#!/bin/sh
# bindings.sh HEADER: prints each function of the header that the binding for LuaJIT or for Python cannot call, one
# in a line, and then exits with 1. LUA_PATH and LD_LIBRARY_PATH have to find the binding and the library.
set -eu
names=$(sed -n 's/^[a-z][^(]*[ *]\(mvb_[a-z_]*\)(.*/\1/p' "$1")
[ "$(echo "$names" | wc -l)" -gt 40 ] || { echo "bindings.sh: $1 declares only: $names" >&2; exit 2; }
# shellcheck disable=SC2086
luajit - $names <<'END'
local C, lacks = require 'mvbench'.C, false
for _, name in ipairs(arg) do
	if not pcall(function() return C[name] end) then
		lacks = true
		print('mvbench.lua lacks ' .. name)
	end
end
os.exit(lacks and 1 or 0)
END
