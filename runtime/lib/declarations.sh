#!/bin/sh
# declarations.sh HEADER lua|py: prints the constants, types and functions of libmvbench.h as a module for the
# bindings. mvbench_abi.lua has the text for LuaJIT's ffi.cdef; mvbench_abi.py has ctypes classes and a table of
# functions. Both have the values of MVB_PUSH_DEFAULT. The compiler removes comments and directives.
set -eu
header=$1 language=$2
plain() { grep -v '^#include' "$header" | ${CC:-cc} -E -P - | sed '/^#/d'; }
push=$({ cat "$header" && echo MVB_PUSH_DEFAULT; } | grep -v '^#include' | ${CC:-cc} -E -P - |
	tail -n 1 | tr -d '{}f')

case $language in
lua)
	echo '-- Made from libmvbench.h by declarations.sh.'
	echo "return {push = {$push}, cdef = [["
	plain
	echo ']]}'
	;;
py)
	echo '"""Constants, types and functions of libmvbench.h, made by declarations.sh."""'
	echo 'from ctypes import Structure, c_bool, c_char_p, c_double, c_float, c_int, c_int64, c_size_t, c_void_p'
	plain | tr '\n\t' '  ' | awk -v RS=';' -v push="$push" '
	# The ctypes name of a C type. Pointers are addresses, except text.
	function type(c) {
		gsub(/const|struct [a-z_]+/, "", c); gsub(/enum [a-z_]+/, "int", c); gsub(/ /, "", c)
		if (c == "char*") return "c_char_p"
		if (c ~ /\*/) return "c_void_p"
		if (c == "int64_t") return "c_int64"
		if (c ~ /^(bool|double|float|int|size_t)$/) return "c_" c
		print "declarations.sh: no type of ctypes for " c >"/dev/stderr"
		failed = 1
	}
	# "const float *values": the type, and the name in `name`
	function split_name(c) {
		match(c, /[a-z_A-Z0-9]+ *$/)
		name = substr(c, RSTART); sub(/ *$/, "", name)
		return substr(c, 1, RSTART - 1)
	}
	function constants(body, n, i, value, word, part) {
		n = split(body, part, ",")
		for (i = 1; i <= n; i++) {
			if (part[i] !~ /[A-Z]/) continue
			if (split(part[i], word, "=") == 2) value = word[2] + 0
			gsub(/ /, "", word[1])
			print word[1] " = " value++
		}
	}
	function fields(body, kind, n, i, part, times) { # one declaration: int rank, size; or int more[4]
		if (match(body, /[[][0-9]+[]] *$/)) times = " * " (substr(body, RSTART + 1) + 0)
		sub(/[[].*/, "", body)
		n = split(body, part, ",")
		kind = split_name(part[1])
		for (i = 1; i <= n; i++) {
			split_name(part[i])
			struct = struct sprintf("        (\"%s\", %s%s),\n", name, type(kind), times)
		}
	}
	/enum [a-z_]+ *[{]/ { sub(/.*[{]/, ""); sub(/[}].*/, ""); constants($0); next }
	/struct [a-z_]+ *[{]/ {
		head = $0; sub(/ *[{].*/, "", head); sub(/.*struct /, "", head); sub(/.*[{]/, "")
		struct = "\n\nclass " head "(Structure):\n    _fields_ = [\n"
	}
	/^ *[}] *$/ { print struct "    ]"; struct = ""; next }
	struct { fields($0); next }
	/[(]/ {
		match($0, /[(]/)
		head = substr($0, 1, RSTART - 1); list = substr($0, RSTART + 1); sub(/[)].*/, "", list)
		result = type(split_name(head)); function_name = name; arguments = ""
		n = list == "void" ? 0 : split(list, part, ",")
		for (i = 1; i <= n; i++)
			arguments = arguments (i > 1 ? ", " : "") type(split_name(part[i]))
		table = table sprintf("    \"%s\": (%s, [%s]),\n", function_name, result, arguments)
	}
	END { printf "PUSH = (" push ")\n\n\nFUNCTIONS = {  # name: (type of the result, types of the arguments)\n%s}\n", table; exit failed }'
	;;
*)
	echo 'usage: declarations.sh HEADER lua|py' >&2
	exit 2
	;;
esac
