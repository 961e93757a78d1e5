#!/bin/bash
# 3_profile.sh [PRECISION...]: measures each kernel of one step, in tf32 without arguments, and PyTorch's convolutions,
# and prints the algorithms that were chosen.
# shellcheck source=tests/gpu_day/env.sh
. "$(dirname "$0")/env.sh"
page 'One GPU: the time of a step of ResNet-32'
work=$(mktemp -d)
cifar 256 1 128
one="run --workload=resnet --strategy=serial --batch=128 --epochs=1 --lr=1e-3 --momentum=0.9 --device=cuda --data-dir=$work/cifar --db=/tmp/profile.db"
export MVBENCH_CUDA_CACHE=$work/choices
say 'chosen algorithms'
for p in float32 tf32 bf16; do
	# shellcheck disable=SC2086
	MVBENCH_CUDA_VERBOSE=1 CUDNN_LOGLEVEL_DBG=3 CUDNN_LOGDEST_DBG=$work/cudnn-$p-%i.log \
		timed 60 mvbench $one --precision=$p 2>&1 | grep -E '^mvbench: .*algorithm' | cut -f3-
	cat "$work"/cudnn-$p-*.log 2>/dev/null | gzip | head -c 4000000 >"$L/cudnn-$p.log.gz"
done | keep 'The algorithms, and their times when they were tried:'
save
# ncu needs about 0.2 s for each kernel. In tf32 the first step begins after 214 kernels.
kernels() { # PRECISION
	# shellcheck disable=SC2086
	MVBENCH_CUDA_GRAPHS=0 timed 150 ncu --target-processes all --launch-skip 200 --launch-count 480 --kill yes --clock-control none \
		--cache-control none --metrics gpu__time_duration.sum --print-kernel-base demangled --csv --page raw --log-file "$L/ncu-$1.csv" \
		mvbench $one --precision="$1" 2>&1 | tail -2
	timed 30 python3 "$here/kernels.py" "$L/ncu-$1.csv" 2>&1 | keep "The kernels of a step in $1, by time:"
	save
}
say 'each kernel of a step'
for p in "${@:-tf32}"; do kernels "$p"; done
say "PyTorch's convolutions of the same shapes"
timed 90 python3 "$here/conv_bench.py" 2>&1 | keep "PyTorch's convolutions of the same shapes [us]:"
save
rm -rf "$work"
