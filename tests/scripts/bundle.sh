#!/bin/sh
# bundle.sh BUILD-FOLDER BUNDLE-FOLDER: packs the built programs, and everything that they need at run
# time, into one folder (and BUNDLE-FOLDER.tar.gz). The folder runs from any path on another x86-64 Linux
# whose glibc is at least as new as this one's. Not in it: glibc, the NVIDIA driver and CUDA's libraries,
# which bin/mvbench searches for, gnuplot, and the simulator. Fails if a library is missing in it, or the
# licence of a file of another project, or if the archive, which is what is copied, is larger than MIB_MOST.
set -eu
cd "$(dirname "$0")/../.."
build=$1 bundle=$2
MIB_MOST=58 # one transfer takes 64, with the tree
# Libraries of glibc, which belong to the loader; of the driver and of CUDA.
outside='^(ld-linux|lib(c|m|mvec|dl|rt|pthread|resolv|util|anl)\.so|lib(cuda|cudart|cublas|cublasLt|cudnn[a-z_]*|nccl|nvrtc[a-z-]*|nvJitLink)\.so)'
# Plug-ins that Debian's settings of Open MPI switch off (fabrics with libraries of their own), OpenSHMEM.
unused='_(ofi|ucx|uct|openib|usnic|psm|psm2|portals4|buddy|ptmalloc)\.so$|/mca_(atomic|memheap|scoll|spml|sshmem)_'

path_of() { ompi_info --parsable --path "$1" | sed "s/^path:$1://"; }
# needed FILE...: the libraries that they load, as "NAME PATH"; PATH is "not" if it is not found
needed() { for f; do LD_LIBRARY_PATH=${libraries:-} ldd "$f" 2>/dev/null || true; done | awk '$2 == "=>" { print $1, $3 }' | sort -u; }
program() { install -D "$1" "$bundle/$2" && strip --strip-unneeded "$bundle/$2"; }
# foreign FILE...: notes that these are of other projects, whose licences have to be in the bundle
foreign() { readlink -f -- "$@" >>"$bundle/licences/files"; }

rm -rf "$bundle" "$bundle.tar.gz"
mkdir -p "$bundle/bin" "$bundle/build/tests/tools" "$bundle/build/tests/model/faults" "$bundle/build/tests/lib" "$bundle/build/tests/seeds" "$bundle/lib/gcc" "$bundle/lib/openmpi" "$bundle/lib/pmix" \
	"$bundle/mpi/bin" "$bundle/mpi/share" "$bundle/licences" "$bundle/data" "$bundle/workloads" "$bundle/tests/scripts"

# The program, its tests, and the files that both read.
for f in mvbench check mvbench_cuda.so libmvbench.so; do
	[ ! -e "$build/$f" ] || program "$build/$f" "build/$f"
done
[ ! -e "$build/libmvbench.so" ] || ln -s libmvbench.so "$bundle/build/libmvbench.so.1"
for f in "$build"/tests/tools/* "$build"/tests/lib/* "$build"/tests/seeds/* \
	"$build"/tests/model/* "$build"/tests/model/faults/*; do
	case $f in */sim_*) continue ;; esac # SimGrid and its libraries are half as large as all other files
	if [ -f "$f" ] && [ -x "$f" ]; then program "$f" "build/${f#"$build/"}"; fi
done
mkdir "$bundle/plots"
cp plots/*.sql plots/*.gp "$bundle/plots"
cp -r workloads/sweeps "$bundle/workloads"
sed -n 's/^CONTRACT := //p' Makefile | tr ' ' '\n' | while read -r f; do # for plug-ins
	install -Dm 644 "$f" "$bundle/$f"
done
cp -r tests/reference "$bundle/tests"
# The bindings and their test programs, for interpreters of the other machine.
for f in runtime/lib/libmvbench.h runtime/lib/*.lua runtime/lib/torchad_nn/*.lua runtime/lib/*.py pyproject.toml \
	runtime/lib/multiverso/*.py runtime/lib/multiverso/*/*.py runtime/lib/multiverso/*/*/*.py \
	tests/scripts/bindings.sh tests/lib/*.lua tests/lib/*.py tests/seeds/lua/* tests/seeds/python/*; do
	install -D "$f" "$bundle/$f"
done
cp "$build"/mvbench_abi.* "$bundle/build"
cp tests/scripts/torch_peer.py tests/scripts/gpu_bench.sh tests/scripts/measure.sh "$bundle/tests/scripts"
cp -r /usr/share/datasets/fashion-mnist "$bundle/data"
foreign /usr/share/datasets/fashion-mnist "$(pkg-config --variable=libdir check)/libcheck.a" # which is in build/check
install tests/scripts/bundle_start.sh "$bundle/bin/mvbench"
for name in mpirun check gpu-test gpu-bench; do
	ln -s mvbench "$bundle/bin/$name"
done

cp README.md LICENSE "$bundle"
[ -e "$bundle/build/mvbench_cuda.so" ] || echo "bundle.sh: no GPU support: $build/mvbench_cuda.so is missing" >&2

# Open MPI, its plug-ins and those of PMIx, its texts and settings.
for f in mpirun orted; do
	program "$(path_of bindir)/$f" "mpi/bin/$f"
	foreign "$(path_of bindir)/$f"
done
for f in "$(path_of pkglibdir)"/*.so; do
	echo "$f" | grep -qE "$unused" || { cp "$f" "$bundle/lib/openmpi"; foreign "$f"; }
done
pmix=$(pkg-config --variable=prefix pmix)
cp "$pmix"/lib/pmix/*.so "$bundle/lib/pmix"
foreign "$pmix"/lib/pmix/*.so "$pmix/share/pmix" "$(path_of pkgdatadir)" "$(path_of sysconfdir)"
cp -r "$pmix/share/pmix" "$bundle/mpi/share"
cp -rL "$(path_of pkgdatadir)" "$bundle/mpi/share/openmpi"
cp -rL "$(path_of sysconfdir)" "$bundle/mpi/etc"

# The libraries. GCC's are in a folder of their own, because newer ones on the other machine are better.
everything() { find "$bundle/build" "$bundle/mpi/bin" "$bundle/lib" -type f \( -perm -u+x -o -name '*.so*' \) ! -name '*.gz'; }
# shellcheck disable=SC2046
needed $(everything) | grep -vE "$outside" | while read -r name path; do
	[ "$path" != not ] || { echo "bundle.sh: library $name is missing" >&2; exit 1; }
	case $name in
	libmvbench*) continue ;;
	libstdc++* | libgcc_s*) cp -L "$path" "$bundle/lib/gcc/$name" ;;
	*) cp -L "$path" "$bundle/lib/$name" ;;
	esac
	foreign "$path"
done

# Is a library loaded from outside the bundle?
libraries=$(cd "$bundle" && echo "$PWD/lib:$PWD/lib/gcc:$PWD/build")
# shellcheck disable=SC2046
outer=$(needed $(everything) | grep -vE "$outside" | grep -vF "$(cd "$bundle" && pwd)/" || true)
[ -z "$outer" ] || { echo "bundle.sh: not in the bundle: $outer" >&2; exit 1; }

# The licences: the copyright file of each Debian package that a file is from, and the common texts that these name.
# dpkg knows some files by their names before /usr was merged.
sort -u -o "$bundle/licences/files" "$bundle/licences/files"
owners=$(sed 'p; s|^/usr||' "$bundle/licences/files" | xargs dpkg -S 2>/dev/null |
	sed -n '/^diversion/!s|^\([^:,]*\)[^/]*: /|\1 /|p')
while read -r f; do
	package=$(echo "$owners" | awk -v f="$f" '$2 == f || "/usr" $2 == f { print $1; exit }')
	if [ -z "$package" ]; then
		echo "bundle.sh: $f is of no Debian package, so its licence is not known: install the package of it" >&2
		exit 1
	elif [ ! -r "/usr/share/doc/$package/copyright" ]; then
		echo "bundle.sh: /usr/share/doc/$package/copyright is missing, the licence of $f: install package $package again" >&2
		exit 1
	fi
	cp -L "/usr/share/doc/$package/copyright" "$bundle/licences/$package"
done <"$bundle/licences/files"
rm "$bundle/licences/files"
mkdir "$bundle/licences/common-licenses"
grep -rhoE '/usr/share/common-licenses/[A-Za-z0-9.+-]*[A-Za-z0-9]' "$bundle/licences" | sort -u | while read -r f; do
	[ ! -e "$f" ] || cp -L "$f" "$bundle/licences/common-licenses"
done
# Code of CUDA's headers is compiled into the module.
if [ -e "$bundle/build/mvbench_cuda.so" ]; then
	for f in /usr/local/cuda/EULA.txt /usr/local/cuda/dist-info/nvidia_cuda_nvcc-*/licenses/License.txt; do
		[ ! -e "$f" ] || cp "$f" "$bundle/licences/CUDA-EULA"
	done
fi

# oneDNN is half of the bundle, mostly kernels that compress well. bin/mvbench unpacks it.
gzip -9 "$bundle"/lib/libdnnl.so.*
tar -C "$(dirname "$bundle")" -czf "$bundle.tar.gz" "$(basename "$bundle")"
mib=$(du -sm --apparent-size "$bundle" | cut -f1) packed=$(du -sm --apparent-size "$bundle.tar.gz" | cut -f1)
echo "$bundle: $mib MiB, $(find "$bundle" -type f | wc -l) files; $bundle.tar.gz: $(du -m --apparent-size "$bundle.tar.gz" | cut -f1) MiB"
[ "$packed" -lt "$MIB_MOST" ] || { echo "bundle.sh: the archive must be below $MIB_MOST MiB" >&2; exit 1; }
