#!/bin/bash
# 1_smoke.sh: lists the machine, trains with each precision, with graphs and without, checks that workers
# can map each other's memory, and runs the test suites that use a GPU, side by side.
# shellcheck source=tests/gpu_day/env.sh
. "$(dirname "$0")/env.sh"
page 'The first GPU: what works'
say machine
{
	nvidia-smi
	nvidia-smi -q | grep -E 'Driver Version|CUDA Version|Persistence|Compute Mode|MIG Mode|Product Name' | sort -u
	uname -a; env -u OMP_NUM_THREADS nproc; free -g | head -2; df -h /dev/shm /tmp | cat
	cat /proc/sys/kernel/yama/ptrace_scope 2>/dev/null
	ls -d /usr/local/cuda*; find /usr/local/cuda/lib64/ -maxdepth 1 -regextype posix-extended -regex '.*/lib(cudnn|nccl|cublas|nvrtc|cudart)[^/]*so\.[0-9]+' 2>/dev/null
	for c in ncu compute-sanitizer nvcc nvidia-cuda-mps-control sqlite3 mpirun; do echo "$c: $(command -v $c)"; done
	python3 -c 'import torch; print("torch", torch.__version__, "cudnn", torch.backends.cudnn.version(), "nccl", torch.cuda.nccl.version())'
} 2>&1 | tee "$L/machine.txt"
say 'probe, cold then warm'
timed 130 mvbench list devices
timed 90 mvbench list devices | tail -3 | keep 'Devices that mvbench finds:'
save
one() { # LIMIT [seconds] OPTIONS...
	timed "$1" mvbench run --epochs=1 --lr=0.01 --device=cuda --db=/tmp/smoke.db "${@:2}" 2>&1 | tee -a "$L/runs.txt" | tail -4
}
say 'one worker'
for w in mlp lenet resnet; do
	for p in float32 tf32 bf16; do
		MVBENCH_CUDA_VERBOSE=1 timed 100 mvbench run --workload=$w --strategy=serial --batch=128 --epochs=1 --lr=0.01 --momentum=0.9 --device=cuda --precision=$p --db=/tmp/smoke.db 2>&1 | tee -a "$L/choices.txt" | tail -4
	done
done
MVBENCH_CUDA_GRAPHS=0 one 60 --workload=resnet --strategy=serial --batch=128 --momentum=0.9 --precision=tf32 --label=without_graphs
say 'memory of a context'
one 60 --workload=mlp --strategy=serial --epochs=30 --label=context &
while kill -0 $! 2>/dev/null; do
	nvidia-smi --query-compute-apps=used_memory --format=csv,noheader
	sleep 0.2
done | sort -n | tail -1 | keep 'GPU memory of a worker that trains an MLP, with libraries and data:'
save
say 'two workers on one GPU'
for how in --strategy=allreduce '--strategy=allreduce --transport=staged' '--strategy=allreduce --allreduce.overlap=true --allreduce.bucket=256KiB' --strategy=asgd '--strategy=asgd --table-home=shared' --strategy=bsp '--strategy=periodic --sync-every=8'; do
	# shellcheck disable=SC2086
	one 100 --workload=lenet --workers=2 --batch=64 --precision=tf32 $how
done
summary /tmp/smoke.db | keep 'One epoch of one worker, of one without graphs, and of two workers:'
save
say suites
suites 120 transport gpu devices cuda images workloads | keep 'The suites that use a GPU:'
said() { cat "$L"/*.txt "$L"/*.log | grep -c -- "$1"; }
{
	echo "no convolution, not even padded              $(said 'cuDNN has no')"
	echo "padded convolutions, of those tried          $(grep -c 'x[48] to .*algorithm' "$L/choices.txt") of $(grep -c 'to .*algorithm' "$L/choices.txt") lines: see choices.txt"
	echo "tf32 or bf16 computed in float32             $(said 'products_are_rounded')"
	echo "beta = 1 into the gradient of data           $(said 'dx added\|conv, data')"
	echo "calls that cannot be captured                $(said 'launched one by one')"
	echo "memory that other workers cannot map         $(said 'cannot map')"
	echo "seconds of the first run of ResNet-32        $(sed -n 's/^## rc [0-9]*, \([0-9]*\) s: .*workload=resnet.*/\1/p' "$L/choices.txt" | head -1)"
} | keep 'Cases that were unknown, and how often each failed:'
