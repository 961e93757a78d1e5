#!/bin/sh
# install.sh BUILD-FOLDER MODULE VERSION SONAME HEADER...: the recipe of make install. It installs the built programs
# below $DESTDIR$PREFIX. MODULE: the CUDA device, or "". HEADER: for users' plug-ins.
set -eu
cd "$(dirname "$0")/../.."
build=$(realpath "$1") module=$2 version=$3 soname=$4
shift 4
prefix=${PREFIX:?}
to=${DESTDIR:-}$prefix
case $to in /*) ;; *) to=$PWD/$to ;; esac
python=python3 # where Debian's python3 looks below PREFIX
[ "$prefix" = /usr ] || python=$(basename "$(realpath -e /usr/bin/python3 2>/dev/null || echo python3)")
python=$to/lib/$python/dist-packages share=$to/share/mvbench
put() { install -Dm 644 -t "$@"; } # FOLDER FILE...

install -Dt "$to/bin" "$build/mvbench" "$build/mvbench-sim"
[ -z "$module" ] || install -Dm 755 "$module" "$to/lib/mvbench/mvbench_cuda.so"
put "$share/plots" plots/*.sql plots/*.gp
put "$share/workloads/sweeps" workloads/sweeps/*.ini
put "$share/sim/platforms" sim/platforms/*.xml
put "$share/runtime/comm/mpi" runtime/comm/mpi/tcp.rules
put "$share/workloads/python" workloads/python/*.py
for header; do put "$share/$(dirname "$header")" "$header"; done

install -d "$to/share/man/man1" "$to/share/man/man3" "$to/share/bash-completion/completions"
"$build/mvbench" help --man >"$to/share/man/man1/mvbench.1"
"$build/mvbench" help --completion=bash >"$to/share/bash-completion/completions/mvbench"
runtime/lib/manual.sh runtime/lib/libmvbench.h >"$to/share/man/man3/libmvbench.3"
sed -n 's/^[a-z][^(]*[ *]\(mvb_[a-z_]*\)(.*/\1/p' runtime/lib/libmvbench.h | while read -r f; do
	echo '.so man3/libmvbench.3' >"$to/share/man/man3/$f.3"
done

put "$to/include" runtime/lib/libmvbench.h
put "$to/share/lua/5.1" runtime/lib/*.lua "$build/mvbench_abi.lua"
put "$to/share/lua/5.1/torchad_nn" runtime/lib/torchad_nn/*.lua
put "$python" runtime/lib/mvbench.py runtime/lib/mvbench_layers.py "$build/mvbench_abi.py"
(cd runtime/lib && find multiverso '(' -name '*.py' -o -name py.typed ')' -exec install -Dm 644 {} "$python/{}" ';')
put "$to/lib" "$build/libmvbench.a"
install -m 755 "$build/libmvbench.so" "$to/lib/$soname"
ln -sf "$soname" "$to/lib/libmvbench.so"
put "$to/lib/cmake/libmvbench" runtime/lib/libmvbench-config.cmake runtime/lib/libmvbench-config-version.cmake
install -d "$to/lib/pkgconfig"
cat >"$to/lib/pkgconfig/libmvbench.pc" <<END
prefix=$prefix
libdir=\${prefix}/lib
includedir=\${prefix}/include
Name: libmvbench
Description: synchronises the workers of a training loop
Version: $version
Cflags: -I\${includedir}
Libs: -L\${libdir} -lmvbench
Libs.private: $(mpicc --showme:link) -lpmix -lm -pthread
END
[ -n "${DESTDIR:-}" ] || ldconfig 2>/dev/null || true # lets the loader find it; needs root
