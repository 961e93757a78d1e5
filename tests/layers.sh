#!/bin/sh
# Who may include whom, and no mutable state in plug-ins (simulated workers share one process).
# layers.sh BUILD-FOLDER: its objects are looked at too.
set -u
cd "$(dirname "$0")/.." || exit 1
build=${1:-build}
bad=0

# may FILES-PATTERN ALLOWED-REGEX: every include in those files must match.
may() {
	for f in $1; do
		[ -e "$f" ] || continue
		lines=$(grep -nE '^#include' "$f" | grep -vE "$2")
		if [ -n "$lines" ]; then
			echo "$lines" | sed "s|^|$f:|; s|\$|   <- not allowed in $(dirname "$f")/|"
			bad=1
		fi
	done
}

libc='<(stdbool|stddef|stdint|string|stdlib|math|limits|float)\.h>'
may 'strategies/*.c' "\"../mvbench.h\"|$libc"
for f in workloads/*.c; do
	# a dataset reads files, and may say why it could not; the layers share a header
	if [ "${f#workloads/layers}" != "$f" ]; then
		may "$f" "\"net.h\"|$libc"
	elif grep -q 'struct dataset dataset_' "$f"; then
		may "$f" "\"../mvbench.h\"|$libc|<(stdio|errno|stdarg|zlib)\.h>"
	else
		may "$f" "\"../mvbench.h\"|$libc"
	fi
done
may 'workloads/net.h' '"../mvbench.h"'
posix='<[a-z_-]+[0-9]?\.h>|<(sys|linux)/[a-z]+\.h>'
may 'runtime/*.c' "\"(platform|table|table_mail|library|libmvbench|cpu|cuda|kernels|transport)\.h\"|$posix|<oneapi/dnnl/dnnl.h>"
may 'runtime/platform.h' "\"(../mvbench|draw)\.h\"|<stdio\.h>"
may 'runtime/draw.h' '<(stdbool|stddef|stdint)\.h>'
may 'runtime/cuda.h' '"platform.h"'
may 'runtime/kernels.h' '"draw.h"|<cuda_runtime_api\.h>'
may 'runtime/kernels.cu' '"(kernels|fake_cuda)\.h"|<cuda_bf16\.h>'
may 'runtime/table.h' '"platform.h"'
may 'runtime/table_mail.h' '"table.h"'
may 'runtime/library.h' '"(libmvbench|table)\.h"|<pthread\.h>'
may 'runtime/libmvbench.h' '<(stdbool|stddef|stdint)\.h>'
may 'tests/seed_*.c' "<libmvbench\.h>|$libc|<(stdio|zlib)\.h>"
may 'tests/lib_*.c' "<(libmvbench|mpi)\.h>|$libc|<(stdio|pthread)\.h>"
may 'mvbench.h' '<(stdbool|stddef|stdint)\.h>'
may 'results/*.c' "\"(results|database|gate|export)\.h\"|$posix"
may 'plots/*.c' "\"(plot|report|../results/(results|database))\.h\"|$posix"
may 'plots/plot.h' '"../results/database.h"'
may 'plots/report.h' '"plot.h"'
for f in sim/*.c; do
	case $f in # the two commands read and write results
	sim/calibrate.c | sim/validate.c) may "$f" "\"(sim|../results/results)\.h\"|$posix" ;;
	sim/world.c) may "$f" "\"sim\.h\"|$posix|<(simgrid|smpi|xbt)/[a-z]+\.h>" ;;
	*) may "$f" "\"sim\.h\"|$posix" ;;
	esac
done
may 'sim/sim.h' '"../runtime/table.h"'
may 'mvbench.c' "\"results/results.h\"|$libc|<stdio\.h>"

# one library each: only its file includes it
only() {
	others=$(grep -lE "^#include <$1>" runtime/*.c strategies/*.c workloads/*.c results/*.c plots/*.c sim/*.c mvbench.c 2>/dev/null |
		grep -vE "$2")
	[ -z "$others" ] || { echo "$others" | sed "s#\$# includes $1   <- only $2 may#"; bad=1; }
}
only 'mpi(-ext)?\.h' '^runtime/mpi\.c$'
only 'pmix.*' '^runtime/rendezvous\.c$'
only 'oneapi/.*' '^runtime/cpu(_image)?\.c$'
only 'cud(a|nn).*' '^runtime/cuda(_image)?\.c$'
only '(cublas.*|nccl\.h)' '^runtime/cuda\.c$'
only 'sqlite3\.h' '^(results/(store|query|table|replay|recorded|import|export.*)\.c|plots/.*\.c)$'
only '(simgrid|smpi|xbt)/.*' '^sim/world\.c$'
only 'ini\.h' '^results/jobfile\.c$'
only 'zlib\.h' '^workloads/.*\.c$'

for o in "$build"/strategies/*.o "$build"/workloads/*.o; do
	[ -e "$o" ] || continue
	state=$(size -A "$o" | awk '$1 ~ /^\.(data|bss)(\.[^r]|$)/ && $1 !~ /\.rel\.ro/ && $2 > 0 { print $1, $2 }')
	[ -z "$state" ] || { echo "$o: $state bytes of mutable state   <- plug-ins have none"; bad=1; }
done
# the library of other people's programs drags nothing of ours along
more=$(readelf -d "$build/libmvbench.so" 2>/dev/null | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p' |
	grep -vE '^(libmpi|libpmix|libm|libc|libpthread|libasan|libubsan|ld-linux.*)\.so')
[ -z "$more" ] || { echo "libmvbench.so needs $more"; bad=1; }
[ $bad = 0 ] && echo "layers: ok"
exit $bad
