#!/bin/sh
# licences.sh BUILD-FOLDER [PAGE]: compares the libraries that the built programs are linked with to the table of
# .github/LICENSES.md, or of PAGE. Fails if a program needs a library that has no row for this program, or if the licence of a
# needed library is missing or is the GPL without an exception. Reads only what a program itself needs, not what its
# libraries need.
set -eu
[ $# = 1 ] || [ $# = 2 ] || { echo "usage: licences.sh BUILD-FOLDER [PAGE]" >&2; exit 2; }
build=$(cd "$1" && pwd)
cd "$(dirname "$0")/../.."
page=${2:-.github/LICENSES.md}

for program in mvbench mvbench-sim libmvbench.so mvbench_cuda.so; do
	if [ -e "$build/$program" ]; then
		printf '%s\n' "$program"
		LC_ALL=C readelf -d "$build/$program" | sed -n "s/.*(NEEDED).*\[\(.*\)\]\$/$program \1/p"
	elif [ "$program" != mvbench_cuda.so ]; then # which is built only where nvcc is
		echo "licences.sh: $build/$program is missing: run make first" >&2
		printf 'missing\n'
	fi
done | awk -v page="$page" '
function fail(text) { print "licences.sh: " text >"/dev/stderr"; bad = 1 }
BEGIN { FS = "|" }
# The table: library | project | licence | linked with | from
FILENAME == page {
	if (!/^\| `/) next
	gsub(/`/, ""); gsub(/[ ]*\|[ ]*/, "|")
	n = split($2, names, /, */)
	for (i = 1; i <= n; i++) { licence[names[i]] = $4; with[names[i]] = ", " $5 ","; row[names[i]] = FNR }
	next
}
$0 == "missing" { bad = 1; next }
{
	n = split($0, word, " ")
	program = word[1]
	if (n == 1) { programs++; needs[program] = 0; next }
	needs[program]++
	name = word[2]; sub(/\.so.*/, ".so", name); sub(/^ld-linux.*/, "ld-linux.so", name)
	if (!(name in licence)) { fail(word[2] ", which " program " is linked with, has no row in " page ": add it"); next }
	if (with[name] !~ /^, all,$/ && !index(with[name], ", " program ","))
		fail(page ":" row[name] ": " program " is linked with " name " too: name it there")
	seen[name] = 1
}
END {
	for (program in needs)
		if (!needs[program]) fail("readelf finds no library that " program " needs")
	for (name in seen) {
		terms = licence[name]; libraries++
		if (terms == "") fail(page ":" row[name] ": " name " has no licence")
		without = terms; gsub(/LGPL/, "", without)
		if (without ~ /GPL/ && without !~ /WITH [A-Za-z0-9.-]*exception/)
			fail(page ":" row[name] ": " name " is under " terms ", without an exception: mvbench cannot be linked with it")
	}
	if (!bad) printf "licences: ok, %d libraries of %d programs\n", libraries, programs
	exit bad
}' "$page" -
