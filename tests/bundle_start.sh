#!/bin/sh
# bin/mvbench, bin/mpirun, bin/check, bin/gpu-test and bin/gpu-bench of a bundle (make bundle): they
# find the bundle's libraries, plug-ins and data wherever it lies, and the machine's CUDA.
set -eu
name=${0##*/}
home=$(cd "$(dirname "$(readlink -f "$0")")/.." && pwd)
outside_path=${LD_LIBRARY_PATH:-}
export LD_LIBRARY_PATH="$home/lib:$home/build${outside_path:+:$outside_path}"

# The kernels of oneDNN travel compressed.
for packed in "$home"/lib/*.gz; do
	[ -e "$packed" ] || continue
	[ -w "$home/lib" ] || { echo "$name: cannot write to $home/lib, where $packed is unpacked at the first start: copy the bundle to where you may write" >&2; exit 2; }
	unpacked=${packed%.gz}
	if gzip -dc "$packed" >"$unpacked.$$" && mv "$unpacked.$$" "$unpacked"; then
		rm -f "$packed"
	fi
	[ -e "$unpacked" ] || exit 2 # another start may have been faster
done

# missing FILE...: the libraries that they need and the loader does not find
missing() {
	for f; do
		/lib64/ld-linux-x86-64.so.2 --list "$f" 2>/dev/null | sed -n 's/^[[:space:]]*\([^ ]*\) => not found.*/\1/p'
	done | sort -u
}
# places: where CUDA's libraries may be
places() {
	printf '%s\n' /usr/local/cuda/lib64 /usr/local/cuda-*/lib64 /usr/local/nvidia/lib64
	for p in python3 python; do
		"$p" -c 'import glob, sys
for d in sys.path: print(*glob.glob(d + "/nvidia/*/lib"), sep="\n")' 2>/dev/null && break
	done
}
add() { case ":$LD_LIBRARY_PATH:" in *":$1:"*) ;; *) LD_LIBRARY_PATH=$LD_LIBRARY_PATH:$1 ;; esac; }

case $(missing "$home/build/mvbench") in *libstdc++* | *libgcc_s*) add "$home/lib/gcc" ;; esac
lacks=$(missing "$home/build/mvbench" | xargs)
[ -z "$lacks" ] || { echo "$name: this machine lacks $lacks (it needs the glibc of Debian 12 or newer)" >&2; exit 2; }
cuda=$home/build/mvbench_cuda.so
if [ -e "$cuda" ] && [ -n "$(missing "$cuda")" ]; then
	for place in $(places); do
		for library in $(missing "$cuda"); do
			[ ! -e "$place/$library" ] || add "$place"
		done
	done
	lacks=$(missing "$cuda" | xargs)
	# Said where there is a GPU, or one was asked for.
	case $name in gpu-*) wanted=yes ;; *) [ ! -e /dev/nvidiactl ] || wanted=yes ;; esac
	[ -z "$lacks" ] || [ -z "${wanted:-}" ] ||
		echo "$name: no GPU can be used: not found in LD_LIBRARY_PATH, /usr/local/cuda/lib64 or python3's nvidia packages: $lacks" >&2
fi

export MVBENCH_HOME="$home" MVBENCH_DATA="${MVBENCH_DATA:-$home/data/fashion-mnist}" MVBENCH_OUTSIDE="$outside_path"
export PATH="$home/mpi/bin:$PATH" OPAL_PREFIX="$home/mpi" OPAL_PKGLIBDIR="$home/lib/openmpi" OPAL_SYSCONFDIR="$home/mpi/etc"
export PMIX_PREFIX="$home/mpi" PMIX_PKGLIBDIR="$home/lib/pmix"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# Open MPI refuses to start where it finds no remote shell, even for workers of this machine alone.
command -v ssh >/dev/null || command -v rsh >/dev/null || export OMPI_MCA_plm="${OMPI_MCA_plm-^rsh}"

case $name in
mpirun) exec "$home/mpi/bin/mpirun" "$@" ;;
check) cd "$home/build" && exec ./check "$@" ;;
gpu-test) cd "$home/build" && exec "$home/tests/gpu_test.sh" . "$@" ;;
gpu-bench) exec "$home/tests/gpu_bench.sh" build "$@" ;;
*) exec "$home/build/mvbench" "$@" ;;
esac
