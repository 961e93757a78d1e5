#!/bin/bash
# 2_speed.sh: compares ResNet-32 with PyTorch of the same precision, measures codecs, and tables on one GPU in
# turns and under MPS, and repeats one run three times.
# shellcheck source=tests/gpu_day/env.sh
. "$(dirname "$0")/env.sh"
page 'One GPU: ResNet-32 and tables'
say 'ResNet-32 and PyTorch'
REPEAT=2 ROWS=resnet PRECISIONS='tf32 bf16' timed 300 gpu-bench 2>&1 | keep 'gpu-bench with REPEAT=2 ROWS=resnet PRECISIONS="tf32 bf16":'
save
say 'codecs: encoding and decoding'
REPEAT=3 ROWS=codecs timed 60 gpu-bench 2>&1 | keep 'gpu-bench with REPEAT=3 ROWS=codecs:'
save
say 'tables on one GPU: a context for each rank, then MPS'
REPEAT=1 ROWS=tables timed 150 gpu-bench 2>&1 | keep 'gpu-bench with REPEAT=1 ROWS=tables:'
save
say 'the same run three times: are models and times equal?'
work=$(mktemp -d)
cifar 10000 5 10000
for time in 1 2 3; do
	timed 60 mvbench run --workload=resnet --strategy=serial --batch=128 --epochs=2 --seed=1 --device=cuda --precision=tf32 --data-dir="$work/cifar" --label="time $time" --db=/tmp/equal.db 2>&1 | tail -1
done
summary /tmp/equal.db | keep 'One run three times:'
rm -rf "$work"
