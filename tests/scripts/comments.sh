#!/bin/sh
# comments.sh [SOURCES]: checks that each .c, .h, .cu or .sql file that a comment of a .c, .h, .cu or .cc names
# exists: a name alone in any folder, a path from the comment's folder or from the top; NAME and * match any name.
# Prints each missing one as FILE:LINE: there is no file WORD, and then exits with 1. Ignores a path whose first
# folder is none of ours: it belongs to another program.
set -eu
cd "${1:-$(dirname "$0")/../..}"

find . \( -path './build*' -o -path './.git' \) -prune -o -print | sed 's|^\./||' | sort | awk '
{
	path[$0] = 1; n = split($0, step, "/"); base[step[n]] = 1
	for (i = 1; i < n; i++) folder[step[i]] = 1
	if (step[n] ~ /[.](c|h|cu|cc)$/) source[++sources] = $0
}
function exists(p, set, q) {
	if (p in set) return 1
	if (p !~ /[*]|NAME/) return 0
	gsub(/[.]/, "[.]", p); gsub(/[*]+|NAME/, "[^/]*", p)
	for (q in set) if (q ~ "^" p "$") return 1
	return 0
}
function see(text, w, here) {
	while (match(text, /[A-Za-z0-9_*.\/-]*[A-Za-z0-9_*][.](c|h|cu|sql)([^A-Za-z0-9_]|$)/)) {
		w = substr(text, RSTART, RLENGTH); text = substr(text, RSTART + RLENGTH)
		sub(/[^a-z]$/, "", w); sub(/^[.\/]+/, "", w)
		if (w !~ /\//) { if (exists(w, base)) continue }
		else {
			here = file; if (!sub(/[^\/]*$/, "", here)) here = ""
			if (!(substr(w, 1, index(w, "/") - 1) in folder) || exists(w, path) || exists(here w, path)) continue
		}
		printf "%s:%d: there is no file %s\n", file, at, w; bad = 1
	}
}
END {
	for (i = 1; i <= sources; i++) {
		file = source[i]; at = 0; inside = 0
		while ((getline line < file) > 0) {
			at++
			for (;;) { # strings and characters in code are not comments
				if (inside) {
					end = index(line, "*/")
					see(end ? substr(line, 1, end - 1) : line)
					if (!end) break
					inside = 0; line = substr(line, end + 2)
				}
				if (!match(line, /"([^"\\]|\\.)*"|\047([^\047\\]|\\.)+\047|\/[*]|\/\//)) break
				opened = substr(line, RSTART, 2); line = substr(line, RSTART + RLENGTH)
				if (opened == "//") { see(line); break }
				if (opened == "/*") inside = 1
			}
		}
		close(file)
	}
	exit bad
}'
