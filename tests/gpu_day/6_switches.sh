#!/bin/bash
# 6_switches.sh: measures the effect of each switch of the CUDA device. Runs with and without it alternate.
# A switch that makes a run faster should become the default.
# shellcheck source=tests/gpu_day/env.sh
. "$(dirname "$0")/env.sh"
page 'One GPU: ResNet-32 with each switch'
work=$(mktemp -d)
cifar 10000 5 10000
for round in 1 2; do
	say "round $round"
	for precision in tf32 bf16; do
		for switch in none MVBENCH_CUDA_BRANCH=0 MVBENCH_CUDA_OWN=0 MVBENCH_CUDA_PAD=0 MVBENCH_CUDA_TOGETHER=0 MVBENCH_CUDA_EARLY=0; do
			(
				[ "$switch" = none ] || export "${switch?}"
				timed 45 mvbench run --workload=resnet --strategy=serial --batch=128 --epochs=3 --seed=1 --device=cuda --precision=$precision --data-dir="$work/cifar" --label="$switch" --db=/tmp/switches.db 2>&1 | tail -1
			)
		done
	done
	python3 - /tmp/switches.db <<'P' | keep "Seconds of an epoch, by precision and switch, after round $round:"
import sqlite3, sys
for r in sqlite3.connect(sys.argv[1]).execute("""SELECT run.precision, run.label, min(e.seconds), count(*) FROM run JOIN epoch AS e
    ON e.run_id = run.id WHERE e.epoch > 1 GROUP BY 1, 2 ORDER BY 1, 3"""):
    print("%-8s %-32s %.4f s, the smallest of %d" % r)
P
	save
done
rm -rf "$work"
