#!/bin/sh
# deb.sh BUILD-FOLDER OUT-FOLDER: packs the built programs into OUT-FOLDER/mvbench_VERSION_ARCH.deb. It depends on
# the packages that dpkg-shlibdeps finds, and on the programs that mvbench starts. CUDA's libraries are
# not Debian packages: the GPU module, if it was built, finds them or reports which are missing.
set -eu
cd "$(dirname "$0")/../.."
build=$1 out=$2
version=$(sed -n 's/.*MVB_VERSION "\([^"]*\)".*/\1/p' runtime/lib/libmvbench.h)
arch=$(dpkg --print-architecture)
command -v dpkg-shlibdeps >/dev/null || {
	echo "deb.sh: dpkg-shlibdeps is missing: apt-get install dpkg-dev" >&2
	exit 1
}
mkdir -p "$out"
work=$(mktemp -d "$out/deb-XXXXXX")
trap 'rm -rf "$work"' EXIT
root=$PWD/$work/root
case $work in /*) root=$work/root ;; esac

env -u MAKEFLAGS -u MFLAGS make -s B="$build" PREFIX=/usr DESTDIR="$root" install >/dev/null
find "$root" -name '*.so*' -type f -exec strip --strip-unneeded {} + -o -path '*/bin/*' -type f -exec strip {} +
gzip -9n "$root/usr/share/man/man1/mvbench.1"
install -Dm 644 -t "$root/usr/share/doc/mvbench" README.md CHANGELOG.md strategies/PLUGINS.md
gzip -9n "$root/usr/share/doc/mvbench/CHANGELOG.md"
{
	printf 'Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\nUpstream-Name: mvbench\n'
	printf 'Comment: The libraries of other projects are not in this package: apt installs those that it needs.\n\n'
	printf 'Files: *\nCopyright: %s\nLicense: Expat\n' "$(sed -n 's/^Copyright (c) //p' LICENSE)" # Debian's name of it
	sed '1,/^Copyright/d' LICENSE | sed '1d; s/^$/./; s/^/ /'
} >"$root/usr/share/doc/mvbench/copyright"

mkdir -p "$work/debian" "$root/DEBIAN"
printf 'Source: mvbench\n\nPackage: mvbench\nArchitecture: any\n' >"$work/debian/control"
libraries=$(cd "$work" && dpkg-shlibdeps -O -eroot/usr/bin/mvbench -eroot/usr/bin/mvbench-sim \
	-eroot/usr/lib/libmvbench.so.1 | sed 's/^shlibs:Depends=//')
cat >"$root/DEBIAN/control" <<END
Package: mvbench
Version: $version
Architecture: $arch
Section: science
Priority: optional
Maintainer: The developers of mvbench <mvbench@localhost>
Installed-Size: $(du -sk "$root/usr" | cut -f1)
Depends: $libraries, openmpi-bin, gnuplot-nox | gnuplot-qt | gnuplot-x11, fonts-dejavu-core, procps
Recommends: dataset-fashion-mnist
Suggests: gcc, libc6-dev, luajit, python3, iproute2, libopenmpi-dev, slurm-client
Description: synchronisation strategies of distributed SGD, compared
 Trains the same models on the same data under synchronous allreduce, parameter
 servers, local SGD and their relatives, on Open MPI, on GPUs, or on a simulated
 cluster; keeps accuracy and time of every epoch in SQLite and draws them. With
 the library libmvbench for training loops of one's own.
END
echo activate-noawait ldconfig >"$root/DEBIAN/triggers"
(cd "$root" && find usr -type f -exec md5sum {} +) >"$root/DEBIAN/md5sums"
deb=$out/mvbench_${version}_$arch.deb
dpkg-deb --root-owner-group -Zxz --build "$root" "$deb" >/dev/null
echo "$deb: $(du -k "$deb" | cut -f1) KiB"
