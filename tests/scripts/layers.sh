#!/bin/sh
# layers.sh BUILD-FOLDER [SOURCES]: checks the layers: which module may call which. It reads the symbols of the
# object files (nm), which neither a header nor a stray extern can bypass. It also checks which folder may use
# which library, what headers declare and include, and that plug-ins have no mutable state, because simulated
# workers share one process. No files call each other in a circle. Prints the layers, lowest first, with the number
# of uses of each module below.
set -u
build=$(cd "${1:-build}" && pwd) || exit 1
cd "${2:-$(dirname "$0")/../..}" || exit 1

# One layer in each line, lowest first; modules of one layer do not call each other. A module is a folder with
# those of its subfolders that have no line of their own.
floors='runtime/base
runtime/world
runtime/watch
sim/model
runtime/device
runtime/comm
runtime/table
runtime/lib runtime/config
runtime/cli
runtime/train runtime/launch
workloads
strategies
results/db
results/run
results/ask results/gate results/share
plots
sim
main'
# Lists of pointers, defined above their users: plug-ins and commands.
registries='strategies optimizers codecs workloads commands topic_sources'
# Library (a pattern of its symbols), and the files that may use it.
libraries='sqlite3_ results/db/
MPI_|PMPI_|ompi_ runtime/comm/mpi/|sim/world/
PMIx_ runtime/lib/rendezvous
cuda[A-Z]|cublas|cudnn|nccl runtime/device/cuda/
dnnl_ runtime/device/cpu/
sg_|simgrid_|smpi_|SMPI_|XML_ sim/world/
ini_parse results/run/jobfile
EVP_ runtime/base/sha256
gz[a-z]+$|inflate|crc32_ workloads/'

objects=$(find "$build/runtime" "$build/strategies" "$build/workloads" "$build/results" "$build/plots" \
	"$build/sim" "$build/main.o" -name '*.o' | sort | while read -r o; do
	f=${o#"$build/"} # skip an object whose source was deleted
	[ ! -e "${f%.o}.c" ] && [ ! -e "${f%.o}.cu" ] || echo "$o"
done)
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
# shellcheck disable=SC2086
nm -A -P $objects >"$work/symbols"
find mvbench.h main.c runtime strategies workloads results plots sim -name '*.[ch]' | sort >"$work/files"
contract() { # the identifiers in these headers, without comments
	sed 's,/\*.*\*/,,' "$@" | sed '/\/\*/,/\*\//d' | grep -oE '[A-Za-z_][A-Za-z0-9_]*' | sort -u
}
both='mvbench.h runtime/base/common.h runtime/base/rng.h workloads/linear.h strategies/optimizers/optimizer.h strategies/codecs/codec.h'
# shellcheck disable=SC2086
contract $both strategies/*.h strategies/*/*.h >"$work/strategies"
# shellcheck disable=SC2086
contract $both workloads/*.h >"$work/workloads"

awk -v floors="$floors" -v registries="$registries" -v libraries="$libraries" -v build="$build/" -v work="$work" '
function is_contract(f) { # its functions are defined in lower layers
	return f ~ /^(mvbench|workloads\/(net|linear)|strategies\/optimizers\/optimizer|strategies\/codecs\/codec|runtime\/config\/(run|option_row|plugin))[.]h$/
}
function room(path,   r) { # the module of a file in the source tree
	if (path == "main.c" || path == "main.o") return "main"
	for (r = path; sub("/[^/]*$", "", r);) if (r in floor) return r
	return ""
}
function bad(text) { print text; wrong = 1 }
# by: the file that uses the symbol; to: the file that defines it; how: " calls "
function check(by, symbol, to, how,   a, b) {
	a = room(by); b = room(to)
	if (a == b || symbol in registry) return
	if (floor[b] < floor[a]) { takes[a, b]++; return }
	bad(by how symbol " of " to "   <- " a " is not above " b)
}
BEGIN {
	# these have the fields of all core options; other headers have settings.h
	fields = "^(runtime/config/(config|run)|results/run/cells)[.]h$"
	n = split(floors, line, "\n")
	for (i = 1; i <= n; i++) { k = split(line[i], names, " "); for (j = 1; j <= k; j++) floor[names[j]] = i }
	k = split(registries, names, " ")
	for (i = 1; i <= k; i++) registry[names[i]] = 1
	libs = split(libraries, line2, "\n")
	for (i = 1; i <= libs; i++) { split(line2[i], names, " "); pattern[i] = "^(" names[1] ")"; allowed[i] = "^(" names[2] ")" }
	while ((getline l < (work "/strategies")) > 0) known["strategies", l] = 1
	while ((getline l < (work "/workloads")) > 0) known["workloads", l] = 1
}
{
	sub(":$", "", $1); file = substr($1, length(build) + 1)
	# other files do not link to the stand-ins of the simulator and of the GPU module
	stands_in = file ~ /^sim\/world\/|^runtime\/device\/cuda\//
	if ($3 == "U") { used[++uses] = $2; user[uses] = file }
	else if ($3 ~ /^[TDBRVC]$/ && !stands_in) { home[$2] = file; defined[room(file)]++ }
}
END {
	for (i = 1; i <= uses; i++) {
		s = used[i]; f = user[i]; r = room(f)
		for (k = 1; k <= libs; k++)
			if (s ~ pattern[k] && f !~ allowed[k]) bad(f " uses " s "   <- only " substr(allowed[k], 2) " may")
		if (!(s in home)) continue
		if (f !~ /^runtime\/device\/cuda\//) check(f, s, home[s], " calls ")
		if (f != home[s] && !(s in registry) && f !~ /^sim\/world\/|^runtime\/device\/cuda\//)
			print f, home[s] >(work "/edges")
		if ((r == "strategies" || r == "workloads") && room(home[s]) != r && !((r, s) in known))
			bad(f " calls " s "   <- it is not in the contract of " r)
	}
	while ((getline f < (work "/files")) > 0) {
		own = room(f); text = 0
		while ((getline l < f) > 0) {
			if (l ~ /^[ \t]*#[ \t]*include[ \t]*"/) {
				split(l, part, "\""); to = part[2]
				if (f ~ /[.]h$/ && to ~ fields && f !~ fields)
					bad(f " includes " to "   <- a new option compiles its users again: only a .c may")
				if (own == "" || is_contract(to) || to ~ /^fake_cuda|run_options.def$/) continue
				r = room(to)
				if (r == "") bad(f " includes " to "   <- include it by its path from the top")
				else if (r != own && floor[r] >= floor[own]) bad(f " includes " to "   <- " own " is not above " r)
				continue
			}
			if (f !~ /\.h$/ || own == "" || is_contract(f)) continue
			if (l ~ /^[ \t]*\/\*/) text = 1
			if (!text && l !~ /^\t/ && match(l, /[a-z_0-9]+\(/)) {
				s = substr(l, RSTART, RLENGTH - 1)
				if (l !~ /#define|static inline/ && s in home && room(home[s]) != own)
					bad(f " declares " s "   <- " home[s] " defines it")
			}
			if (l ~ /\*\//) text = 0
		}
		close(f)
	}
	n = split(floors, line, "\n")
	for (i = 1; i <= n; i++) {
		k = split(line[i], names, " ")
		for (j = 1; j <= k; j++) {
			out = ""
			for (q = i - 1; q >= 1; q--) {
				m = split(line[q], below, " ")
				for (p = 1; p <= m; p++) if ((names[j], below[p]) in takes) out = out " " below[p] ":" takes[names[j], below[p]]
			}
			if (!defined[names[j]]) bad("there are no objects of " names[j])
			printf "%2d %-15s defines %3d, takes%s\n", i, names[j], defined[names[j]], out == "" ? " nothing" : out
		}
	}
	exit wrong
}' "$work/symbols" || bad=1

# Files that call each other, over however many others. tsort says "tsort: FILE" for each file of a loop.
sort -u "$work/edges" | tsort 2>&1 >/dev/null | awk '
	/: input contains a loop:$/ { if (n++) print ""; printf "a circle of files:"; next }
	{ printf " %s", $NF }
	END { if (n) print ""; exit n > 0 }' || bad=1

for o in "$build"/strategies/*.o "$build"/workloads/*.o; do
	state=$(size -A "$o" | awk '$1 ~ /^\.(data|bss)(\.[^r]|$)/ && $1 !~ /\.rel\.ro/ && $2 > 0 { print $1, $2 }')
	[ -z "$state" ] || { echo "$o: $state bytes of mutable state   <- a plug-in must have none"; bad=1; }
done
# the library for users' programs needs no libraries of mvbench's own
more=$(readelf -d "$build/libmvbench.so" 2>/dev/null | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p' |
	grep -vE '^(libmpi|libpmix|libm|libc|libpthread|libasan|libubsan|ld-linux.*)\.so')
[ -z "$more" ] || { echo "libmvbench.so needs $more   <- it may need only MPI, PMIx and libc"; bad=1; }
[ "${bad:-0}" = 0 ] && echo "layers: ok"
exit "${bad:-0}"
