#!/bin/sh
# container.sh [build]: checks runtime/launch/clusters/Containerfile: its instructions, the shell code of its RUN lines,
# its Debian packages and its targets of the Makefile. build: podman or docker then builds the image, which must
# simulate a run; without an engine that works, it says so and fails.
set -eu
cd "$(dirname "$0")/../.."
file=runtime/launch/clusters/Containerfile
fail() {
	echo "$file: $*" >&2
	exit 1
}

# One instruction a line, without comments.
joined=$(sed -e '/^#/d' -e ':a' -e '/\\$/N; s/\\\n//; ta' "$file")
unknown=$(printf '%s\n' "$joined" | grep -vE '^(FROM|ARG|RUN|COPY|WORKDIR|ENTRYPOINT|CMD) ' || true)
[ -z "$unknown" ] || fail "unknown instruction: $unknown"
[ "$(printf '%s\n' "$joined" | grep -c '^FROM debian:12$')" = 1 ] || fail "it is not based on debian:12 alone"
printf '%s\n' "$joined" | sed -n 's/^RUN //p' | sh -n || fail "sh cannot read its RUN lines"
for package in $(printf '%s\n' "$joined" | sed -n 's/^RUN .*--no-install-recommends \([a-z0-9 .+-]*\).*/\1/p'); do
	apt-cache show "$package" >/dev/null 2>&1 || fail "Debian has no package $package"
done
for target in $(printf '%s\n' "$joined" | grep -oE '(^|&& )make [^&]*' | sed 's/^.*make //; s/ARCH=[^ ]*//g'); do
	make -n ARCH= "$target" >/dev/null || fail "the Makefile has no target $target"
done
command=$(printf '%s\n' "$joined" | sed -n 's/^CMD \["mvbench", "\(.*\)"\]$/\1/p')
[ "$command" = --help ] || fail "CMD is not mvbench --help"
[ "${1:-}" = build ] || exit 0

for engine in podman docker; do
	"$engine" info >/dev/null 2>&1 || continue
	"$engine" build -f "$file" -t mvbench-test .
	"$engine" run --rm --shm-size=1g mvbench-test mvbench run --workload=softmax --strategy=allreduce --workers=4 \
		--epochs=1 --platform=sim --sim.platform=ethernet_10g --sim.step-time=1ms
	exit 0
done
fail "neither podman nor docker works here: the image was not built"
