#!/bin/sh
# gpu_bench.sh BUILD-FOLDER [options of the sweep]: measures the speed of training on a GPU, compared with
# PyTorch, if it is installed, of the same precision on the same card. It also runs the short sweep of
# Multiverso's experiment with one, two and four workers on the GPU. Each figure is the median of REPEAT (2)
# runs, which alternate between all sides. The spread of a ratio is its smallest and largest value.
# ROWS="resnet codecs tables sweep" and PRECISIONS="tf32 bf16" select some. Tables are measured without MPS, and with
# it if its daemon can be started, which changes no setting of the card. (With MPS processes use a GPU at the
# same time, without it in turns.) OUT=FOLDER: keeps the sweep's database and plots. Fails without a GPU.
set -eu
case ${OUT:-} in '' | /*) ;; *) OUT=$PWD/$OUT ;; esac
cd "$(dirname "$0")/../.."
build=$1
shift
device=cuda
repeat=${REPEAT:-2} precisions=${PRECISIONS:-float32 tf32 bf16}
work=$(mktemp -d)
export OMP_NUM_THREADS=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
. tests/scripts/measure.sh

mps=
# Starts an own daemon, unless there is one. False: impossible.
mps_start() {
	[ -z "${CUDA_MPS_PIPE_DIRECTORY:-}" ] && command -v nvidia-cuda-mps-control >/dev/null || return 1
	export CUDA_MPS_PIPE_DIRECTORY="$work/mps" CUDA_MPS_LOG_DIRECTORY="$work/mps-log"
	mkdir -p "$work/mps" "$work/mps-log"
	nvidia-cuda-mps-control -d && mps=ours
}
mps_stop() {
	[ -z "$mps" ] || echo quit | nvidia-cuda-mps-control
	[ -z "$mps" ] || unset CUDA_MPS_PIPE_DIRECTORY CUDA_MPS_LOG_DIRECTORY
	mps=
}
trap 'mps_stop; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

# fact NAME: a fact about the GPU from mvbench list
fact() { "$mvbench" list devices --format=json | sed -n "s/.*\"name\": \"cuda\"[^}]*\"$1\": \"\\([^\"]*\\)\".*/\\1/p"; }
why=$(fact 'not usable')
[ -z "$why" ] || { echo "no GPU to measure on: $why" >&2; exit 1; }
echo "$(fact gpus), $(fact version)"
find_torch 'torch.cuda.is_available()'
if [ -n "$python" ]; then
	echo "PyTorch $(outside "$python" -c 'import torch; print(torch.__version__)'): channels last, of equal precision"
else
	echo "PyTorch with CUDA is not installed: its columns are empty."
fi

resnet() {
	wanted resnet || return 0
	noise_cifar "$work/cifar" 10000 5 10000
	for _ in $(seq "$repeat"); do
		for precision in $precisions; do
			peer="--model=resnet32 --batch=128 --device=cuda --precision=$precision --steps=391 --repeat=3"
			# shellcheck disable=SC2086
			eager=$(torch $peer) graphs=$(torch $peer --graphs) compiled=$(torch $peer --compile=max-autotune)
			json=$(ours_json --workload=resnet --resnet.depth=32 --data-dir="$work/cifar" --precision="$precision" \
				--strategy=serial --batch=128 --epochs=3 --lr=1e-3 --momentum=0.9)
			echo "$(echo "$json" | field samples_per_second) $(echo "$json" | field epoch_seconds) $eager $graphs 1 $compiled" >>"$work/resnet-$precision"
		done
	done
	titles "ResNet-32 on 50,000 images of 3 x 32 x 32 (noise): samples a second" PyTorch
	for precision in $precisions; do
		case $precision in float32) ratio='' seconds='' ;; *) ratio='>= 1.15' seconds='<= 1.0' ;; esac
		row "resnet32 $precision" 128 '' "$work/resnet-$precision" 1 3
		row "  against CUDA graphs" 128 "$ratio" "$work/resnet-$precision" 1 4
		row "  against torch.compile" 128 '' "$work/resnet-$precision" 1 6
		# shellcheck disable=SC2046
		printf '%-30s %6d %12.3f %12s %8s %17s %8s\n' "  seconds of an epoch" 128 $(stats "$work/resnet-$precision" 2 5 | cut -d' ' -f1) '' '' '' "$seconds"
	done
}
resnet

! wanted codecs || codecs GPU 33554432 cuda

gpu_tables() { # how the ranks share the GPU, the bound for four
	wanted tables || return 0
	tables_head "Parameter server in the memory of one GPU ($1): add to a whole table and get it, compared with MPI_Allreduce on the host"
	tables 464154 1 500 '' gpu
	tables 464154 2 500 '' gpu
	tables 464154 4 500 "$2" gpu
}
gpu_tables "$([ -z "${CUDA_MPS_PIPE_DIRECTORY:-}" ] && echo ranks in turns || echo under MPS)" ''
tables 464154 4 300 '' shared
if wanted tables && mps_start; then
	gpu_tables 'under MPS' '<= 0.1 ms'
	mps_stop
fi

sweep() {
	wanted sweep || return 0
	db=$work/multiverso_short.db
	printf '\n%s\n' "Multiverso's experiment, short, on one GPU with one, two and four workers"
	sed 's/^workers = 4$/workers = 2, 4/' workloads/sweeps/multiverso_short.ini >"$work/multiverso_short.ini"
	"$mvbench" sweep "$work/multiverso_short.ini" --device=cuda --db="$db" "$@"
	"$mvbench" table --db="$db"
	[ -n "${OUT:-}" ] || return 0
	mkdir -p "$OUT"
	cp "$db" "$OUT"
	if command -v gnuplot >/dev/null; then
		"$mvbench" plot --db="$db" --out="$OUT"
	else
		echo "gnuplot is not installed here: draw on another machine with mvbench plot --db=$OUT/multiverso_short.db"
	fi
}
sweep "$@"
