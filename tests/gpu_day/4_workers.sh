#!/bin/bash
# 4_workers.sh: several workers on one GPU, in turns and under MPS.
# shellcheck source=tests/gpu_day/env.sh
. "$(dirname "$0")/env.sh"
page 'One GPU, one worker and four'
work=$(mktemp -d)
cifar 10000 5 10000
cells() { # DB CAPTION
	local how
	for how in '--strategy=serial --workers=1' '--strategy=allreduce --workers=4' '--strategy=allreduce --workers=4 --transport=staged' \
		'--strategy=allreduce --workers=4 --allreduce.overlap=true --allreduce.bucket=512KiB' \
		'--strategy=asgd --workers=4' '--strategy=asgd --workers=4 --sync-every=3' '--strategy=periodic --workers=4 --sync-every=8'; do
		# shellcheck disable=SC2086
		timed 45 mvbench run --workload=resnet --batch=128 --epochs=2 --lr=0.02 --momentum=0.9 --device=cuda --precision=tf32 --data-dir="$work/cifar" --db="$1" $how 2>&1 | tail -1
	done
	summary "$1" | keep "$2"
	save
}
say 'bound to a core, with the helper threads of CUDA, and not bound'
for unbound in '' 1; do
	(
		[ -z "$unbound" ] || export MVBENCH_UNBOUND=1
		timed 45 mvbench run --workload=resnet --batch=128 --epochs=2 --lr=0.02 --momentum=0.9 --device=cuda --precision=tf32 --data-dir="$work/cifar" --db=/tmp/bound.db --strategy=allreduce --workers=2 --label="unbound=$unbound" 2>&1 | tail -1
	)
done
summary /tmp/bound.db | keep 'Two workers, each bound to a core, and not bound:'
say 'in turns: a context for each worker'
cells /tmp/turns.db 'In turns, each worker with a context of its own:'
say MPS
mps_start && cells /tmp/mps.db 'Under MPS:'
cp /tmp/turns.db /tmp/mps.db "$L" 2>/dev/null
rm -rf "$work"
