#!/bin/sh
# bundle_start.sh - bin/mvbench, bin/mpirun, bin/check, bin/gpu-test and bin/gpu-bench of a bundle (make
# bundle): they find the bundle's libraries, plug-ins and data in any folder, and the machine's CUDA.
set -eu
name=${0##*/}
home=$(cd "$(dirname "$(readlink -f "$0")")/.." && pwd)
outside_path=${MVBENCH_OUTSIDE-${LD_LIBRARY_PATH:-}} # the machine's own path
export LD_LIBRARY_PATH="$home/lib:$home/build${outside_path:+:$outside_path}"

# The kernels of oneDNN are compressed in the archive.
for packed in "$home"/lib/*.gz; do
	[ -e "$packed" ] || continue
	[ -w "$home/lib" ] || { echo "$name: cannot write to $home/lib, where $packed is unpacked at the first start: copy the bundle to a folder where you may write" >&2; exit 2; }
	unpacked=${packed%.gz}
	if gzip -dc "$packed" >"$unpacked.$$" && mv "$unpacked.$$" "$unpacked"; then
		rm -f "$packed"
	fi
	[ -e "$unpacked" ] || exit 2 # another process may have unpacked it
done

# missing FILE...: the libraries that the loader does not find
missing() {
	for f; do
		LD_TRACE_LOADED_OBJECTS=1 /lib64/ld-linux-x86-64.so.2 "$f" 2>/dev/null | sed -n 's/^[[:space:]]*\([^ ]*\) => not found.*/\1/p'
	done | sort -u
}
# places: other folders that may have CUDA's libraries
places() {
	printf '%s\n' /usr/local/cuda-*/lib64
	for p in python3 python; do
		"$p" -c 'import glob, sys
for d in sys.path: print(*glob.glob(d + "/nvidia/*/lib"), sep="\n")' 2>/dev/null && break
	done
}
add() { case ":$LD_LIBRARY_PATH:" in *":$1:"*) ;; *) LD_LIBRARY_PATH=$LD_LIBRARY_PATH:$1 ;; esac; }

case $(missing "$home/build/mvbench") in *libstdc++* | *libgcc_s*) add "$home/lib/gcc" ;; esac
lacks=$(missing "$home/build/mvbench" | xargs)
[ -z "$lacks" ] || { echo "$name: this machine lacks $lacks (it needs the glibc of Debian 12 or newer)" >&2; exit 2; }
for place in /usr/local/cuda/lib64 /usr/local/nvidia/lib64; do # the latter: the driver, in containers
	[ ! -d "$place" ] || add "$place"
done
cuda=$home/build/mvbench_cuda.so
if [ -z "${MVBENCH_CUDA:-}" ] && [ -e "$cuda" ] && [ -n "$(missing "$cuda")" ]; then
	for place in $(places); do
		for library in $(missing "$cuda"); do
			[ ! -e "$place/$library" ] || add "$place"
		done
	done
	lacks=$(missing "$cuda" | xargs)
	why="no GPU can be used: not found in LD_LIBRARY_PATH, /usr/local/cuda/lib64 or python3's nvidia packages: $lacks"
	case ${lacks:+$name} in
	gpu-*) echo "$name: $why" >&2 && exit 1 ;;
	?*) [ ! -e /dev/nvidiactl ] || echo "$name: $why" >&2 ;; # only on a machine with a GPU
	esac
fi

export MVBENCH_HOME="$home" MVBENCH_DATA="${MVBENCH_DATA:-$home/data/fashion-mnist}" MVBENCH_OUTSIDE="$outside_path"
export PATH="$home/mpi/bin:$PATH" OPAL_PREFIX="$home/mpi" OPAL_PKGLIBDIR="$home/lib/openmpi" OPAL_SYSCONFDIR="$home/mpi/etc"
export PMIX_PREFIX="$home/mpi" PMIX_PKGLIBDIR="$home/lib/pmix"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# Open MPI does not start without a remote shell, even for workers of this machine only.
command -v ssh >/dev/null || command -v rsh >/dev/null || export OMPI_MCA_plm="${OMPI_MCA_plm-^rsh}"

case $name in
mpirun) exec "$home/mpi/bin/mpirun" "$@" ;;
check) cd "$home/build" && exec ./check "$@" ;;
gpu-test) cd "$home/build" && export MVBENCH_GPU_TEST=1 && exec ./check "$@" ;;
gpu-bench) exec "$home/tests/scripts/gpu_bench.sh" build "$@" ;;
*) exec "$home/build/mvbench" "$@" ;;
esac
