#!/bin/bash
# 8_strategies.sh: every strategy with four and eight workers on one GPU under MPS, next to one worker; and the rows
# of Multiverso's experiment.
# shellcheck source=tests/gpu_day/env.sh
. "$(dirname "$0")/env.sh"
page 'One GPU under MPS: every strategy, four and eight workers'
work=$(mktemp -d)
cifar 10000 5 10000
resnet="run --workload=resnet --batch=128 --lr=0.02 --momentum=0.9 --device=cuda --precision=tf32 --data-dir=$work/cifar"
mps_start || exit 1
say "Multiverso's rows"
# shellcheck disable=SC2086
for how in '--strategy=serial --workers=1' '--strategy=asgd --workers=1' '--strategy=asgd --workers=4' '--strategy=asgd --workers=4 --sync-every=3'; do
	timed 30 mvbench $resnet --epochs=3 --db=/tmp/rows.db $how 2>&1 | tail -1
done
summary /tmp/rows.db | keep "The rows of Multiverso's experiment, ResNet-32 on 50,000 images of noise:"
save
say 'every strategy'
for n in 4 8; do
	for how in allreduce 'allreduce --allreduce.overlap=true --allreduce.bucket=512KiB' asgd bsp ssp 'periodic --sync-every=8' 'downpour --sync-every=8' 'easgd --sync-every=8' gossip adpsgd sparta; do
		# shellcheck disable=SC2086
		timed 25 mvbench $resnet --workers=$n --epochs=1 --db=/tmp/all.db --strategy=$how 2>&1 | tail -1
	done
done
summary /tmp/all.db | grep -v '^     ' | keep 'Each strategy, one epoch of 50,000 images; samples a second of all workers:'
cp /tmp/all.db "$L"
rm -rf "$work"
