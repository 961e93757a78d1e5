#!/usr/bin/env bash
# nightly.sh BUILD-FOLDER: the checks that .ci/run leaves out. Ends at the first step that fails.
set -euo pipefail
cd "$(dirname "$0")/../.."
build=$1
step() { printf '\n=== %s (%ss)\n' "$1" "$SECONDS"; }
first() { # NAME COMMAND...: a first run with mvbench from another folder
	env -i HOME="$HOME" PATH="$PATH" "${@:2}" run --workload=softmax --strategy=periodic --workers=2 --epochs=1 \
		--device=cpu --db="$build/$1.db"
	rm -rf "$build/$1.db"*
}

step 'make test'
make B="$build" test

step 'memory of the bindings'
build_path=$(cd "$build" && pwd)
for program in 'luajit tests/lib/leak.lua' 'python3 tests/lib/leak.py'; do
	# shellcheck disable=SC2086
	LUA_PATH="$PWD/runtime/lib/?.lua;$build_path/?.lua" PYTHONPATH="$PWD/runtime/lib:$build_path" \
		LD_LIBRARY_PATH=$build_path timeout 300 mpirun --oversubscribe -n 2 $program 10000
done

step 'PyTorch of Debian' # 1.13, the oldest that works
dpkg -s python3-torch >/dev/null 2>&1 || { apt-get update -qq && apt-get install -y -qq --no-install-recommends python3-torch; } >/dev/null
mkdir -p "$build/debian" && ln -sf /usr/bin/python3 "$build/debian/python3"
for suite in python bindings codecs; do
	(cd "$build" && PATH="$PWD/debian:$PATH" CK_RUN_SUITE=$suite ./check) | tee "$build/torch.log"
	if grep -qE 'no module (torch, numpy|numpy, torch|torch)$' "$build/torch.log"; then exit 1; fi # skipped
done

step 'oracle'
make B="$build" oracle COUNT=200

step 'published tables'
make B="$build" reproduce

step 'chaos'
make B="$build" chaos COUNT=100
make B="$build" chaos-each EVERY=9

step 'sanitize'
WITHOUT='lab wires' make sanitize # suite wires measures times

step 'tsan'
make tsan

step 'clang'
command -v clang >/dev/null || { apt-get update -qq && apt-get install -y -qq --no-install-recommends clang; } >/dev/null
make clang

step 'bundle' # of this build: make bundle builds for other processors
tests/scripts/bundle.sh "$build" "$build/bundle"
rm -rf "$build/moved" && mv "$build/bundle" "$build/moved" # a bundle runs from any folder
first moved "$build/moved/bin/mvbench"
rm -rf "$build/moved" "$build/bundle.tar.gz"

step 'deb'
tests/scripts/deb.sh "$build" "$build"
dpkg-deb -x "$build"/mvbench_*.deb "$build/unpacked"
first unpacked "$build/unpacked/usr/bin/mvbench"
grep -q '^License: Expat' "$build/unpacked/usr/share/doc/mvbench/copyright"
rm -rf "$build/unpacked" "$build"/mvbench_*.deb

step 'wheel' # for any x86-64; make test installs one of this machine's build
make B="$build" wheel
python3 -m zipfile -e "$build"/mvbench-*-py3-none-*.whl "$build/wheel"
(cd "$build/wheel" && env -u LD_LIBRARY_PATH -u PYTHONPATH python3 -c 'import mvbench; mvbench.init()
t = mvbench.Table(2); t.add([1, 2])
assert list(t.get()) == [1, 2] and "/wheel/" in mvbench.__file__, mvbench.__file__')
rm -rf "$build/wheel" "$build/plain" "$build"/mvbench-*-py3-none-*.whl

step 'container'
if podman info >/dev/null 2>&1 || docker info >/dev/null 2>&1; then
	make container
else
	echo 'left out: neither podman nor docker works here'
fi

step 'done'
