#!/bin/sh
# reproduce_measured.sh FILE.csv: a job file with a cell for each row of diloco_measured.csv (github.com/Adnan082/
# diloco-measured, Apache-2.0): four machines with one GPU each, 30,846,720 parameters, links shaped by a token
# bucket. Known of a cell, and given: its step time (compute_s / timed steps) and its number of steps, of which the
# first warmup_steps do not count. Of the network:
#   sim.rate      0.9926 of the nominal rate: what iperf3 reached before each run (frames of 9,001 bytes)
#   sim.connect   opening NCCL's connections in the first sum: its excess over the others in the runs in which it
#                 is in the warm-up (H = 1 and 8, 1 and 5 Gbit/s), so that no timed value is used. Medians: 0.374 s
#                 of DiLoCo (12 runs), 0.65 s of LocalSGD (4 runs)
# Rows without a rate (unshaped links) are left out: their rate is not known.
set -eu
cat <<END
[defaults]
label = measured
workload = gpt
gpt.layers = 6
gpt.heads = 16
gpt.width = 256
gpt.context = 32
gpt.vocabulary = 101951
workers = 4
batch = 1
epochs = 1
platform = sim
sim.platform = cluster
sim.train = false
END
awk -F, 'NR > 1 && $2 != "" {
	printf "[%s %s %s]\n", $1, $2, $3
	printf "sim.rate = %.10gbit\nsync-every = %d\ntrain-rows = %d\ntrace = %d\n", 0.9926e6 * $2, $3, 4 * $5, $5
	printf "sim.step-time = %.6fms\n", 1000 * $7 / ($5 - $6)
	if ($1 == "ddp")
		printf "strategy = allreduce\nallreduce.overlap = true\nallreduce.bucket = 25MiB\n"
	else
		printf "strategy = periodic\nsim.connect = %s\n", $1 == "diloco" ? "374ms" : "650ms"
	if ($1 == "diloco")
		printf "periodic.outer = nesterov\nperiodic.outer-lr = 0.7\nperiodic.outer-momentum = 0.9\n"
}' "$1"
