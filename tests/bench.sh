#!/bin/sh
# bench.sh BUILD-FOLDER: how fast the training is, beside PyTorch on this machine if it is installed
# (Debian: python3-torch). Each figure is the median of REPEAT runs, the two sides taken in turn, and
# the spread of the ratio is its smallest and largest. ROWS="perceptron mlp" picks some of the rows.
set -eu
cd "$(dirname "$0")/.."
build=$1
mvbench=$build/mvbench
repeat=${REPEAT:-5}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM
export OMP_NUM_THREADS=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

python=
for p in python3 /usr/bin/python3; do
	[ -z "$python" ] && "$p" -c 'import torch' 2>/dev/null && python=$p
done
if [ -n "$python" ]; then
	# Debian's PyTorch takes the matrix library that the alternatives name; the reference one is slow.
	blas=$(readlink -f /usr/lib/x86_64-linux-gnu/libblas.so.3 || true)
	echo "PyTorch $("$python" -c 'import torch; print(torch.__version__)'), system BLAS $blas"
	case $blas in */blas/*) echo "That is the reference BLAS: install libopenblas0-pthread for a fair comparison." ;; esac
else
	echo "PyTorch is not installed (Debian: python3-torch libopenblas0-pthread): its columns stay empty."
fi

wanted() { case " ${ROWS:-all} " in *" all "* | *" $1 "*) return 0 ;; esac; return 1; }
# field NAME: its number in a JSON object on stdin
field() { sed -n "s/.*\"$1\": *\([0-9.eE+-]*\).*/\1/p"; }
ours() { "$mvbench" run --format=json --db="$work/bench.db" "$@" 2>/dev/null | field samples_per_second; }
torch() { if [ -n "$python" ]; then "$python" tests/torch_peer.py "$@" | field samples_per_second; else echo 0; fi; }
# stats FILE COLUMN-A COLUMN-B: median A, median B, median, smallest and largest of A / B
stats() {
	awk -v a="$2" -v b="$3" '
		function sorted(x, n,   i, j, t) { for (i = 2; i <= n; i++) for (j = i; j > 1 && x[j] < x[j-1]; j--) { t = x[j]; x[j] = x[j-1]; x[j-1] = t } }
		function median(x, n) { sorted(x, n); return n % 2 ? x[(n + 1) / 2] : (x[n / 2] + x[n / 2 + 1]) / 2 }
		{ n++; p[n] = $a; q[n] = $b; r[n] = $b > 0 ? $a / $b : 0 }
		END { m = median(r, n); printf "%.6g %.6g %.4g %.4g %.4g\n", median(p, n), median(q, n), m, r[1], r[n] }' "$1"
}

line='%-30s %6s %12s %12s %8s %17s %8s\n'
head() {
	printf '\n%s\n' "$1"
	# shellcheck disable=SC2059
	printf "$line" what batch mvbench "$2" ratio 'smallest..largest' wanted
}
# row WHAT BATCH WANTED FILE A B
row() {
	# shellcheck disable=SC2046
	set -- "$1" "$2" "$3" $(stats "$4" "$5" "$6")
	# shellcheck disable=SC2059
	printf "$line" "$1" "$2" "$(printf %.0f "$4")" "$(printf %.0f "$5")" "$6" "$7..$8" "$3"
}

one() { # workload batch epochs wanted torch-steps
	wanted "$1" || return 0
	: >"$work/$1-$2"
	for _ in $(seq "$repeat"); do
		echo "$(ours --workload="$1" --strategy=serial --batch="$2" --epochs="$3" --lr=1e-4 --momentum=0.9)" \
			"$(torch --model="$1" --batch="$2" --steps="$5" --repeat=3)" >>"$work/$1-$2"
	done
	row "$1" "$2" "$4" "$work/$1-$2" 1 2
}

head "One worker, one thread: samples a second, forward + backward + SGD with momentum" PyTorch
one perceptron 1 30 '>= 250' 1500
one softmax 32 10 '>= 5' 1000
one mlp 32 5 '>= 2.5' 600
one mlp 128 5 '>= 1.5' 300
one tanh_mlp 128 1 '>= 1.0' 30

two() { # batch strategy wanted sync-every every-of-torch
	wanted "mlp-$2" || return 0
	f=$work/two-$1-$2
	: >"$f"
	for _ in $(seq "$repeat"); do
		echo "$(ours --workload=mlp --strategy="$2" --workers=2 --batch="$1" --epochs=5 --lr=0.01 --momentum=0.9 --sync-every="$4")" \
			"$(torch --model=mlp --batch="$1" --workers=2 --steps=300 --repeat=3 --every="$5")" \
			"$(mpirun --quiet --bind-to core -n 2 "$build/tests/tool_bare" --workload=mlp --strategy=allreduce --workers=2 \
				--batch="$1" --epochs=1 --lr=0.01 --momentum=0.9 2>/dev/null)" \
			"$(ours --workload=mlp --strategy=serial --batch="$1" --epochs=5 --lr=0.01 --momentum=0.9)" \
			"$(mpirun --quiet --bind-to core -n 2 "$build/tests/tool_allreduce" 101770 3000 2>/dev/null | cut -d' ' -f1)" >>"$f"
	done
	row "mlp, 2 workers, $2 X=$4" "$1" "$3" "$f" 1 2
	[ "$2" = allreduce ] || return 0
	# the same two workers in a bare loop of their step and MPI_Allreduce
	row "  against bare step + MPI" "$1" '>= 0.95' "$f" 1 3
	# and the sum of two figures taken apart: a lone worker's step, and MPI_Allreduce of a warm buffer
	awk -v b="$1" '{ print $1, 2 * b / (b / $4 + $5 * 1e-6) }' "$f" >"$f-sum"
	row "  against step plus MPI, apart" "$1" '' "$f-sum" 1 2
}

head "Two workers: samples a second, both together" PyTorch
two 32 allreduce '>= 8' 1 0
two 128 allreduce '>= 4' 1 0
two 32 periodic '>= 4' 8 8
if wanted allreduce; then
	mpirun --quiet --bind-to core -n 2 "$build/tests/tool_allreduce" 101770 3000 2>/dev/null |
		awk '{ printf "raw MPI_Allreduce of 101770 floats, 2 workers: median %s us, 99th percentile %s us\n", $1, $2 }'
fi

# The parameter server: everybody adds to a table and gets all of it, beside MPI_Allreduce of as many
# floats, in turns in one run [ms]. Ratios are of medians; of the workers' medians, slowest/fastest.
tables() { # floats ranks passes wanted options...
	wanted tables || return 0
	floats=$1 ranks=$2 passes=$3 want=$4
	shift 4
	bind='--bind-to core:overload-allowed'
	[ "$ranks" -le "$(nproc)" ] || bind='--bind-to none --mca mpi_yield_when_idle 1'
	: >"$work/tables"
	for _ in $(seq "$repeat"); do
		# shellcheck disable=SC2086
		mpirun --quiet --oversubscribe $bind -n "$ranks" "$build/tests/tool_table_speed" "$floats" "$passes" "$@" 2>/dev/null >>"$work/tables"
	done
	awk -v want="$want" '
		function median(x, n,   i, j, t) { for (i = 2; i <= n; i++) for (j = i; j > 1 && x[j] < x[j-1]; j--) { t = x[j]; x[j] = x[j-1]; x[j-1] = t } return x[int((n + 1) / 2)] }
		{ n++; floats = $2; ranks = $4; home = $6; add[n] = $8; add99[n] = $9; even[n] = $11 / $13; sync[n] = $15; all[n] = $22; all99[n] = $23; ratio[n] = $22 > 0 ? $8 / $22 : 0 }
		END { printf "%9d %6d %-9s %9.4f %9.4f %9.4f %9.4f %9.4f %7.3g %15.3g %8s\n", floats, ranks, home, median(add, n), median(add99, n),
			median(sync, n), median(all, n), median(all99, n), median(ratio, n), median(even, n), want }' "$work/tables"
}

if wanted tables; then
	printf '\nParameter server: add to a whole table and get it, beside MPI_Allreduce of as many floats [ms]\n'
	printf '%9s %6s %-9s %9s %9s %9s %9s %9s %7s %15s %8s\n' floats ranks home 'add+get' p99 sync allreduce p99 ratio slowest/fastest wanted
fi
tables 10000 1 2000 ''
tables 464154 1 500 ''
tables 5000000 1 60 ''
tables 10000 2 2000 '<= 1'
tables 464154 2 500 '<= 1'
tables 5000000 2 60 '<= 1'
tables 10000 4 1000 ''
tables 464154 4 300 '<= 1'
tables 5000000 4 40 ''
tables 464154 2 500 '' onesided
tables 464154 3 500 '' --servers=1

# Noise only ever slows a run down, and an overhead of a hundredth is far below it: so the strategies
# and serial run in turn, many times, and the fastest of each are compared.
overheads() {
	wanted overhead || return 0
	strategies=$("$mvbench" list strategies --format=json | grep -o '"name": "[a-z_]*", "summary"' | cut -d'"' -f4 | grep -vx serial)
	for _ in $(seq $((4 * repeat))); do
		for s in serial $strategies; do
			ours --workload=mlp --strategy="$s" --batch=128 --epochs=3 --lr=0.01 --momentum=0.9 >>"$work/over-$s"
		done
	done
	best() { sort -g "$work/over-$1" | tail -1; }
	for s in $strategies; do
		awk -v what="mlp, 1 worker, $s" -v a="$(best "$s")" -v b="$(best serial)" -v n=$((4 * repeat)) \
			'BEGIN { printf "%-30s %6d %12.0f %12.0f %8.4g %17s %8s\n", what, 128, a, b, a / b, "best of " n, ">= 0.99" }'
	done
}

head "A strategy on one worker against serial: samples a second" serial
overheads
