#!/bin/bash
# 0_prepare.sh [FOLDER]: runs on the machine that builds. Packs everything that a bare machine with a GPU
# needs, the bundle and these scripts, into FOLDER (default: .gpu in the project's root, which git then
# ignores). Tree and folder together must stay below MIB_MOST, the limit of one transfer. If they are
# larger, the test programs that use no GPU are left out.
set -eu
MIB_MOST=${MIB_MOST:-63}
cd "$(dirname "$0")/../.."
folder=${1:-.gpu}
exclude=$(git rev-parse --git-path info/exclude)
mkdir -p "$(dirname "$exclude")"
grep -qx "/$folder/" "$exclude" 2>/dev/null || echo "/$folder/" >>"$exclude"
make -j"$(nproc)" bundle
rm -rf "$folder"
mkdir -p "$folder"
cp build/bundle.tar.gz tests/gpu_day/*.sh tests/gpu_day/*.py "$folder"
git describe --always --dirty --abbrev=12 --exclude '*' >"$folder/commit"

mib() { # size of the tree and the folder together
	local tree carried
	tree=$(git ls-files -z | xargs -0 du -cb | tail -1 | cut -f1)
	carried=$(du -sb "$folder" | cut -f1)
	echo $(((tree + carried) >> 20))
}
if [ "$(mib)" -ge "$MIB_MOST" ]; then
	mkdir "$folder/b"
	tar xzf "$folder/bundle.tar.gz" -C "$folder/b"
	rm -rf "$folder/b/bundle/build/tests/seeds" "$folder/b/bundle/build/tests/lib"
	tar -C "$folder/b" -czf "$folder/bundle.tar.gz" bundle
	rm -rf "$folder/b"
fi
[ -e build/bundle/build/mvbench_cuda.so ] || { echo "0_prepare.sh: the bundle has no mvbench_cuda.so: install nvcc, cuDNN and NCCL, and run this again" >&2; exit 1; }
echo "$folder: $(du -sm --apparent-size "$folder" | cut -f1) MiB; with the tree $(mib) of $MIB_MOST"
[ "$(mib)" -lt "$MIB_MOST" ] || { echo "0_prepare.sh: too large for one transfer" >&2; exit 1; }
