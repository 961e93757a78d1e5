#!/bin/sh
# bindings.sh HEADER: prints each function of the header that the binding for LuaJIT or for Python cannot call, one
# in a line, and then exits with 1. LUA_PATH, PYTHONPATH and LD_LIBRARY_PATH have to find bindings and library.
set -eu
names=$(sed -n 's/^[a-z][^(]*[ *]\(mvb_[a-z_]*\)(.*/\1/p' "$1")
[ "$(echo "$names" | wc -l)" -gt 40 ] || { echo "bindings.sh: $1 declares only: $names" >&2; exit 2; }
status=0
# shellcheck disable=SC2086
luajit - $names <<'END' || status=1
local C, lacks = require 'mvbench'.C, false
for _, name in ipairs(arg) do
	if not pcall(function() return C[name] end) then
		lacks = true
		print('mvbench.lua lacks ' .. name)
	end
end
os.exit(lacks and 1 or 0)
END
# shellcheck disable=SC2086
python3 - $names <<'END' || status=1
import sys
import mvbench
lacks = [name for name in sys.argv[1:] if getattr(getattr(mvbench.lib, name, None), "argtypes", None) is None]
for name in lacks:
    print("mvbench.py lacks " + name)
sys.exit(len(lacks) > 0)
END
exit $status
