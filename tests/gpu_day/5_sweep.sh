#!/bin/bash
# 5_sweep.sh: a short version of Multiverso's experiment, with one, two and four workers and one seed. The
# logs contain the database.
# shellcheck source=tests/gpu_day/env.sh
. "$(dirname "$0")/env.sh"
page "One GPU: Multiverso's experiment, short"
REPEAT=1 ROWS=sweep OUT=$L timed "$LIMIT" gpu-bench --seed=1 --precision=tf32 2>&1 | tee "$L/sweep.txt" | tail -40 | keep 'gpu-bench --seed=1 --precision=tf32 with REPEAT=1 ROWS=sweep:'
