#!/bin/bash
# 9_sanitize.sh: runs NVIDIA's sanitizer on the kernels.
# shellcheck source=tests/gpu_day/env.sh
. "$(dirname "$0")/env.sh"
page 'One GPU: the sanitizer'
for tool in memcheck racecheck; do
	MVBENCH_CUDA_GRAPHS=0 CK_FORK=no CK_RUN_SUITE=cuda timed 90 compute-sanitizer --tool $tool --target-processes all gpu-test >"$L/$tool.txt" 2>&1
	tail -5 "$L/$tool.txt" | keep "compute-sanitizer --tool $tool, of suite cuda:"
done
