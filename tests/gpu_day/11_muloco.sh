#!/bin/bash
# 11_muloco.sh: shape 18 with a larger model: the losses of DiLoCo with adamw and with Muon inside, of one worker and of
# eight under MPS, at equal rows a step. Each has the best of three learning rates. No part of the text is read twice.
export STEPS=${STEPS:-500}
# shellcheck source=tests/gpu_day/env.sh
. "$(dirname "$0")/env.sh"
page "One GPU: a gpt of six layers, adamw and Muon inside DiLoCo, one worker and eight, $STEPS steps"
python_text 12000000
mps_start || say 'in turns'
shape() { # OPTIMIZER RATE
	local n
	for n in 8 1; do
		on_text "$1, rate $2, workers $n" --global-batch=48 --workers=$n --strategy=periodic --sync-every=20 --periodic.outer=nesterov \
			--periodic.outer-lr=0.7 --periodic.outer-momentum=0.9 --optimizer="$1" --lr="$2"
	done
}
say 'the middle rates first: what the time limit leaves out are others'
for rates in '3e-3 1e-2' '1e-3 3e-3' '1e-2 3e-2'; do
	shape adamw "${rates% *}"
	shape muon "${rates#* }"
	losses | keep "Losses of a byte after equal steps, up to rates $rates of adamw and Muon:"
	save
done
