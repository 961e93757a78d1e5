#!/bin/sh
# names.sh [SOURCES]: no static function of more than ten lines has the name of another function. Shorter ones may share
# a name, since a reader sees them whole. Prints the file, the line and the name of each function that has to be renamed.
set -eu
cd "${1:-$(dirname "$0")/../..}"
# shellcheck disable=SC2016
find . -path ./tests -prune -o -path './build*' -prune -o -name '*.c' -print -o -name '*.cu' -print | sed 's,^\./,,' | sort | xargs awk '
FNR == 1 { head = "" }
/^{$/ {
	gsub(/__attribute__\(\([^)]*\)\)|__launch_bounds__\([^)]*\)/, "", head)
	name = match(head, /[A-Za-z_0-9]+ *\(/) ? substr(head, RSTART, RLENGTH - 1) : ""
	sub(/ *$/, "", name)
	start = FNR
	is_static = head ~ /^static/ && head !~ /__global__/ # a kernel has the name of the loop on the CPU
	next
}
/^}/ {
	if (name != "") {
		if (name in at && at[name] != FILENAME) shared[name] = 1
		at[name] = FILENAME
		if (is_static && FNR - start - 1 > 10) {
			longs++
			where[longs] = FILENAME ":" start; called[longs] = name
		}
	}
	name = head = ""
	next
}
/^(#|\/\*|\/\/| \*|$)/ { head = ""; next }
/^[A-Za-z_]/ && head == "" { head = $0; next }
head != "" { head = head " " $0 }
END {
	for (i = 1; i <= longs; i++)
		if (called[i] in shared) { print where[i] ": " called[i] ": another file has a function of this name"; bad = 1 }
	exit bad
}'
