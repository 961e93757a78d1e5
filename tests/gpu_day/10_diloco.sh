#!/bin/bash
# 10_diloco.sh: shape 16 with a larger model: the losses of averages and of DiLoCo against the interval, of four workers
# under MPS at equal steps. Two settings of DiLoCo have less momentum, as controls. No part of the text is read twice.
export STEPS=${STEPS:-1200}
# shellcheck source=tests/gpu_day/env.sh
. "$(dirname "$0")/env.sh"
page "One GPU: a gpt of six layers, DiLoCo and averages, four workers, $STEPS steps"
python_text 12000000
mps_start || say 'in turns'
every() { # X LABEL OPTIONS...
	on_text "X = $1, $2" --batch=8 --workers=4 --strategy=periodic --sync-every="$1" "${@:3}"
}
diloco() { # X RATE MOMENTUM
	every "$1" "DiLoCo, rate $2, momentum $3" --periodic.outer=nesterov --periodic.outer-lr="$2" --periodic.outer-momentum="$3"
}
say 'the ends first: what the time limit leaves out is in the middle'
on_text 'sums of each step' --batch=8 --workers=4 --strategy=allreduce
for x in 80 5; do
	every $x averages
	diloco $x 0.7 0.9
	diloco $x 0.4 0.9
done
losses | keep 'Losses of a byte after equal steps, the controls left out:'
save
diloco 80 0.7 0.5
diloco 80 1 0.5
every 20 averages
diloco 20 0.7 0.9
diloco 20 0.4 0.9
losses | keep 'Losses of a byte after equal steps:'
