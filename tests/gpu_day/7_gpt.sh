#!/bin/bash
# 7_gpt.sh: compares GPT-2 of 124 M parameters in bf16 with PyTorch: torch.compile and fused attention, batches of
# BATCH sequences of 1,024 bytes. The runs alternate. Then it measures each kernel of a smaller model's step.
export BATCH=${BATCH:-32} STEPS=${STEPS:-20} VOCABULARY=${VOCABULARY:-50304}
# shellcheck source=tests/gpu_day/env.sh
. "$(dirname "$0")/env.sh"
page 'One GPU: GPT-2 of 124 M parameters in bf16'
text=/tmp/gpt.txt
find /usr/lib/python3* /opt/torch -name '*.py' -size +8k 2>/dev/null | sort | head -2000 | xargs cat | head -c $(((STEPS * BATCH + 8 * BATCH) * 1024 * 5 / 4)) >$text
gpt="--workload=gpt --gpt.layers=12 --gpt.heads=12 --gpt.width=768 --gpt.context=1024 --gpt.vocabulary=$VOCABULARY --data-dir=$text"
ours() { # LIMIT LABEL OPTIONS...: a line of its tokens a second
	# shellcheck disable=SC2086
	timed "$1" mvbench run $gpt --strategy=serial --batch="$BATCH" --epochs=3 --train-rows=$((STEPS * BATCH)) --optimizer=adamw --clip=1 --lr=6e-4 \
		--device=cuda --precision=bf16 --seed=1 --label="$2" --db=/tmp/gpt.db --format=json "${@:3}" 2>"$L/$2.err" | tee -a "$L/runs.json" | tr -d '\n' |
		sed "s/^.*\"samples_per_second\": \([0-9.]*\).*/$2 \1/; t; s/.*/$2 failed: no result/"
	echo
	tail -3 "$L/$2.err" >&2
}
peer() { # LABEL WORDS...
	echo "$1 $(timed 110 python3 "$BUNDLE/tests/scripts/torch_peer.py" --model=gpt --gpt=12,12,768,1024,"$VOCABULARY" --batch="$BATCH" --device=cuda \
		--precision=bf16 --optimizer=adamw --steps="$STEPS" --repeat=2 "${@:2}" 2>"$L/$1.err" | tee -a "$L/peer.json" | sed -n 's/.*"samples_per_second": \([0-9]*\).*/\1/p')"
	tail -2 "$L/$1.err" >&2
}
say 'tokens a second'
{
	MVBENCH_CUDA_VERBOSE=1 ours 60 mvbench
	peer pytorch_compile --compile
	ours 40 mvbench
	[ -z "${EAGER:-}" ] || peer pytorch_eager
} | tee "$L/speeds.txt"
python3 - "$L/speeds.txt" <<'P' | keep "Tokens a second, $BATCH sequences of 1,024 a step; share of 989 TFLOP/s (dense bf16 by the data sheet), by 6 N + 12 layers T D flops a token:"
import sys
n = 12 * (12 * 768**2 + 13 * 768) + (int(__import__("os").environ.get("VOCABULARY", 50304)) + 1024 + 2) * 768
flops = 6 * n + 12 * 12 * 1024 * 768
for line in open(sys.argv[1]):
    w = line.split()
    try:
        tokens = float(w[1]) * 1024
        print(f"{w[0]:20s} {tokens:12.0f} tokens/s {1e3 * 1024 / tokens:8.3f} ms a sequence {100 * tokens * flops / 989e12:6.1f} %")
    except (IndexError, ValueError):
        print(line.strip())
P
summary /tmp/gpt.db | keep 'The runs:'
save
say suites
# shellcheck disable=SC2086
suites 80 ${SUITES-cuda gpt devices} >"$L/suites.txt" &
say 'each kernel of a step of two layers'
# shellcheck disable=SC2086
MVBENCH_CUDA_GRAPHS=0 timed 90 ncu --target-processes all --launch-skip 60 --launch-count "${LAUNCHES:-240}" --kill yes --clock-control none --cache-control none \
	--metrics gpu__time_duration.sum --print-kernel-base demangled --csv --page raw --log-file "$L/ncu.csv" \
	mvbench run $gpt --gpt.layers=2 --strategy=serial --batch="$BATCH" --epochs=1 --train-rows=$((8 * BATCH)) --optimizer=adamw --clip=1 \
	--device=cuda --precision=bf16 --db=/tmp/profile.db 2>&1 | tail -2
timed 30 python3 "$here/kernels.py" "$L/ncu.csv" 2>&1 | keep 'The kernels of a step of two layers, by time:'
wait $!
keep 'The suites of its kernels:' <"$L/suites.txt"
