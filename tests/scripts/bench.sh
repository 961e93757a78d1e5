#!/bin/sh
# bench.sh BUILD-FOLDER: measures the speed of training, compared with PyTorch on this machine if it is
# installed (Debian: python3-torch). Each figure is the median of REPEAT runs, which alternate between the
# two sides. The spread of the ratio is its smallest and largest value. ROWS="perceptron mlp": only these rows.
set -eu
cd "$(dirname "$0")/../.."
build=$1
device=cpu
repeat=${REPEAT:-5}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM
export OMP_NUM_THREADS=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

. tests/scripts/measure.sh
find_torch True
if [ -n "$python" ]; then
	# Debian's PyTorch uses the BLAS that the alternatives select; the reference BLAS is slow.
	blas=$(readlink -f /usr/lib/x86_64-linux-gnu/libblas.so.3 || true)
	echo "PyTorch $("$python" -c 'import torch; print(torch.__version__)'), system BLAS $blas"
	case $blas in */blas/*) echo "That is the reference BLAS: install libopenblas0-pthread for a fair comparison." ;; esac
else
	echo "PyTorch is not installed (Debian: python3-torch libopenblas0-pthread): its columns are empty."
fi

one() { # workload batch epochs wanted torch-steps options...
	wanted "$1" || return 0
	workload=$1 batch=$2 epochs=$3 want=$4 steps=$5
	model=$workload$(echo "$*" | sed -n 's/.*--resnet.depth=\([0-9]*\).*/\1/p')
	shift 5
	: >"$work/$model-$batch"
	for _ in $(seq "$repeat"); do
		echo "$(ours --workload="$workload" --strategy=serial --batch="$batch" --epochs="$epochs" --lr=1e-4 --momentum=0.9 "$@")" \
			"$(torch --model="$model" --batch="$batch" --steps="$steps" --repeat=3)" >>"$work/$model-$batch"
	done
	row "$model" "$batch" "$want" "$work/$model-$batch" 1 2
}

titles "One worker, one thread: samples a second, forward + backward + SGD with momentum" PyTorch
one perceptron 1 30 '>= 250' 1500
one softmax 32 10 '>= 5' 1000
one mlp 32 5 '>= 2.5' 600
one mlp 128 5 '>= 1.5' 300
one tanh_mlp 128 1 '>= 1.0' 30
if wanted lenet || wanted lenet-two; then noise_mnist "$work/mnist" 12800 64; fi
if wanted resnet; then noise_cifar "$work/cifar" 1280 1 128; fi
one lenet 64 1 '>= 1.1' 30 --data-dir="$work/mnist"
one resnet 128 1 '>= 1.1' 3 --resnet.depth=32 --data-dir="$work/cifar"

gpt() { # wanted name torch-words...
	wanted "$2" || return 0
	f=$work/$2 want=$1 name=$2
	shift 2
	: >"$f"
	for _ in $(seq "$repeat"); do
		echo "$(ours --workload=gpt --strategy=serial --epochs=2 --train-rows=720)" \
			"$(torch --model=gpt --batch=12 --optimizer=adamw --steps=60 --repeat=2 "$@")" >>"$f"
	done
	row "$name" 12 "$want" "$f" 1 2
}

# forward + backward + AdamW, on sequences of 64 bytes
gpt '>= 1.5' gpt
gpt '>= 1.1' gpt-compiled --compile

# A model in a Python file, compared with a plain loop of PyTorch, or with DistributedDataParallel.
python_file() { # workers strategy wanted
	wanted python || return 0
	f=$work/python-$1
	: >"$f"
	for _ in $(seq "$repeat"); do
		echo "$(ours --workload=workloads/python/small_cnn.py --python="$python" --strategy="$2" --workers="$1" --batch=32 \
			--train-rows=$((12800 * $1)) --epochs=2 --threads=1)" \
			"$(outside "$python" tests/reference/torch_ddp.py workloads/python/small_cnn.py 400 "$1" 0.05 32 | field samples_per_second)" >>"$f"
	done
	row "small_cnn.py, $2" 32 "$3" "$f" 1 2
}
if [ -n "$python" ]; then
	python_file 1 serial '>= 0.97'
	python_file 2 allreduce '>= 1.0'
fi
if [ -n "$python" ] && wanted python; then
	cat >"$work/empty.py" <<-'END'
		import numpy as np
		zero = np.zeros(101770, np.float32)
		def params(): return zero.copy()
		def data():
		    a = lambda n: (np.zeros((n, 1), np.float32), np.zeros(n, np.float32))
		    return a(32000), a(32)
		def gradient(p, batch): return 1.0, zero
	END
	for _ in $(seq "$repeat"); do
		ours --workload="$work/empty.py" --python="$python" --strategy=serial --batch=32 --epochs=5 --lr=1e-9
	done | awk "$median"'{ x[NR] = 32e6 / $1 } END { printf "a gradient of 0, 101770 parameters, and SGD: %.4g us a step, wanted <= 150\n", median(x, NR) }'
fi

# An optimiser's pass over memory, compared with a copy or a triad of the same number of bytes, alternating
# in one run (tests/tools/step_speed.c). The ratio is the median of REPEAT such runs.
if wanted adamw || wanted sgd; then
	printf '\n%s\n' "One thread: an optimiser's pass over 464154 parameters, and the least time for its memory traffic [us]"
	# shellcheck disable=SC2059
	printf "$line" what bytes mvbench floor ratio 'smallest..largest' wanted
	for _ in $(seq "$repeat"); do
		or_say "$build/tests/tools/step_speed" 464154 300 >>"$work/steps"
	done
	cut -d' ' -f1 "$work/steps" | sort -u | while read -r rule; do
		sed -n "s/^$rule //p" "$work/steps" >"$work/step"
		bytes=$(cut -d' ' -f2 "$work/step" | head -1)
		row "$rule" "$((bytes / 464154))" "$([ "$rule" != adamw ] || echo '<= 1.3')" "$work/step" 4 6
	done
fi

! wanted codecs || codecs 'One thread' 8388608

two() { # batch strategy wanted sync-every every-of-torch
	wanted "mlp-$2" || return 0
	f=$work/two-$1-$2
	: >"$f"
	for _ in $(seq "$repeat"); do
		echo "$(ours --workload=mlp --strategy="$2" --workers=2 --batch="$1" --epochs=5 --lr=0.01 --momentum=0.9 --sync-every="$4")" \
			"$(torch --model=mlp --batch="$1" --workers=2 --steps=300 --repeat=3 --every="$5")" \
			"$(mpirun --quiet --bind-to core -n 2 "$build/tests/tools/bare" --workload=mlp --strategy=allreduce --workers=2 \
				--device=cpu --batch="$1" --epochs=1 --lr=0.01 --momentum=0.9 2>/dev/null)" \
			"$(ours --workload=mlp --strategy=serial --batch="$1" --epochs=5 --lr=0.01 --momentum=0.9)" \
			"$(mpirun --quiet --bind-to core -n 2 "$build/tests/tools/allreduce" 101770 3000 2>/dev/null | cut -d' ' -f1)" >>"$f"
	done
	row "mlp, 2 workers, $2 X=$4" "$1" "$3" "$f" 1 2
	[ "$2" = allreduce ] || return 0
	# the same two workers in a bare loop of a step and MPI_Allreduce
	row "  against bare step + MPI" "$1" '>= 0.95' "$f" 1 3
	# and the sum of two separate figures: the step of a single worker, and MPI_Allreduce of a warm buffer
	awk -v b="$1" '{ print $1, 2 * b / (b / $4 + $5 * 1e-6) }' "$f" >"$f-sum"
	row "  against separate step plus MPI" "$1" '' "$f-sum" 1 2
}

titles "Two workers: samples a second, both together" PyTorch
two 32 allreduce '>= 8' 1 0
two 128 allreduce '>= 4' 1 0
two 32 periodic '>= 4' 8 8
if wanted allreduce; then
	mpirun --quiet --bind-to core -n 2 "$build/tests/tools/allreduce" 101770 3000 2>/dev/null |
		awk '{ printf "raw MPI_Allreduce of 101770 floats, 2 workers: median %s us, 99th percentile %s us\n", $1, $2 }'
fi

# A sum on one machine, compared with a copy of as many floats in the cache, alternating in one run.
sums() { # floats ranks wanted
	wanted sums || return 0
	bind='--bind-to core:overload-allowed'
	[ "$2" -le "$(nproc)" ] || bind='--bind-to none'
	: >"$work/sums"
	for _ in $(seq "$repeat"); do
		# shellcheck disable=SC2086
		or_say mpirun --quiet --oversubscribe $bind -n "$2" "$build/tests/tools/sum_speed" "$1" 500 >>"$work/sums" || return 0
	done
	row "$1 floats, $2 ranks" '' "$3" "$work/sums" 2 6
	row '  against MPI_Allreduce' '' '' "$work/sums" 2 4
}
if wanted sums; then
	titles 'A sum over the ranks of one machine, and a cached copy of as many floats [us]' floor
fi
sums 464154 2 '<= 2.5'
want=
[ "$(nproc)" -lt 4 ] || want='<= 2.5'
sums 464154 4 "$want"
sums 1000 2 ''

# Two workers beside three busy loops, compared with the same two alone. They share two cores with three others:
# 5 / 2 times as long is fair.
if wanted busy; then
	titles 'Two workers alone, and beside three busy loops: samples a second' 'beside'
	alone='--workload=mlp --workers=2 --batch=32 --epochs=3 --lr=0.01 --momentum=0.9'
	for strategy in allreduce asgd; do
		: >"$work/busy"
		for _ in $(seq "$repeat"); do
			# shellcheck disable=SC2086
			quiet=$(ours --strategy="$strategy" $alone)
			loops=
			for _ in 1 2 3; do
				sh -c 'while :; do :; done' &
				loops="$loops $!"
			done
			# shellcheck disable=SC2086
			echo "$quiet $(ours --strategy="$strategy" $alone)" >>"$work/busy"
			# shellcheck disable=SC2086
			kill $loops
		done
		want=
		[ "$(nproc)" -ne 2 ] || want='<= 3'
		row "mlp, 2 workers, $strategy" 32 "$want" "$work/busy" 1 2
	done
fi

# Workers on hosts of a lab, whose steps take 10 ms, with and without overlap [us a step]. The floor is the longer
# one of the step and the bytes of its sum at the rate of the links.
overlap() { # hosts Mbit/s
	wanted overlap || return 0
	for kind in true next; do
		: >"$work/overlap"
		for _ in $(seq "$repeat"); do
			for o in false "$kind"; do
				or_say "$mvbench" lab run "$1" --rate="$2mbit" --probe=false -- "$mvbench" run --format=json \
					--db="$work/bench.db" --workload=mlp --strategy=allreduce --workers="$1" --batch=32 \
					--train-rows=$((3200 * $1)) --epochs=3 --lr=0.01 --step-time=10ms --allreduce.overlap="$o" |
					field samples_per_second >"$work/overlap-$o" || return 0
			done
			awk -v n="$1" -v mbit="$2" -v a="$(cat "$work/overlap-$kind")" -v b="$(cat "$work/overlap-false")" 'BEGIN {
				wire = 2 * (n - 1) / n * 32 * 101770 / mbit
				print 32e6 * n / a, 32e6 * n / b, wire > 1e4 ? wire : 1e4 }' >>"$work/overlap"
		done
		row "$1 hosts, $2 Mbit/s, $kind" 32 '<= 1.05' "$work/overlap" 1 2
		row '  against the longer of two' 32 '<= 1.2' "$work/overlap" 1 3
	done
}
if wanted overlap; then
	titles 'mlp between hosts, with and without overlap, and compute or wire [us a step]' 'without'
fi
for hosts in 2 3 4; do
	overlap "$hosts" 100
	overlap "$hosts" 1000
done

# A push with its pull between two hosts of a lab without rates, and the same floats there and back by ranks that
# spin [us].
far() { # floats passes
	wanted far || return 0
	: >"$work/far"
	for _ in $(seq "$repeat"); do
		for tool in "table_speed $1 $2 --servers=1" "exchange $1 $2"; do
			# shellcheck disable=SC2086
			or_say "$mvbench" lab run 2 --probe=false -- mpirun --quiet --map-by node -n 2 "$build/tests/tools/"$tool >"$work/far-${tool%% *}" || return 0
		done
		awk '{ print 1e3 * $8, 1e3 * spin }' spin="$(cat "$work/far-exchange")" "$work/far-table_speed" >>"$work/far"
	done
	row "$1 floats, a server on a host" '' '<= 1.2' "$work/far" 1 2
}
if wanted far; then
	titles 'A push with its pull between two hosts [us], and the same floats by ranks that spin' spinning
fi
far 1000 500
far 101770 200
far 464154 100

# What a server of another host uses without work: the CPU time that a run of 6 s takes more than one of 1 s.
idle() { # steps of 0.1 s; prints its CPU time and its time [s]
	run="$mvbench run --db=$work/bench.db --workload=softmax --strategy=asgd --workers=1 --servers=1 --sync-every=1000000"
	run="$run --barrier-every=0 --batch=32 --train-rows=$((32 * $1)) --epochs=1 --lr=0.01 --step-time=100ms"
	# shellcheck disable=SC2086
	or_say "$mvbench" lab run 2 --probe=false -- mpirun --quiet -n 1 --host lab1 $run : \
		-n 1 --host lab2 bash -c "exec 2>&1; TIMEFORMAT='served %U %S %R'; time $run" |
		awk '/^served / { print $2 + $3, $4 }'
}
if wanted far; then
	: >"$work/idle"
	for _ in $(seq "$repeat"); do
		echo "$(idle 10) $(idle 60)" | awk 'NF == 4 { print 1e3 * ($3 - $1), 1e3 * ($4 - $2) }' >>"$work/idle"
	done
	titles 'A server without work on another host: its CPU time, and the time [ms]' 'time'
	[ ! -s "$work/idle" ] || row 'idle server' '' '<= 0.05' "$work/idle" 1 2
fi

if wanted tables; then
	tables_head 'Parameter server: add to a whole table and get it, compared with MPI_Allreduce of as many floats'
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

# The bindings: an add and a get of a whole table, alternating with the same by a loop in C, in one run of two
# workers [ns]; and PyTorch with mvbench.Gradients, alternating with DistributedDataParallel.
bound() { # COMMAND...: runs two workers of a program that uses a binding
	env LUA_PATH="$PWD/runtime/lib/?.lua;$path/?.lua" PYTHONPATH="$PWD/runtime/lib:$path:${PYTHONPATH:-}" \
		LD_LIBRARY_PATH="$path:${LD_LIBRARY_PATH:-}" mpirun --quiet --bind-to core:overload-allowed -n 2 "$@"
}
binding() { # what interpreter program floats wanted count blocks
	command -v "$2" >/dev/null || { echo "$2 is not installed" && return 0; }
	: >"$work/binding"
	for _ in $(seq "$repeat"); do
		or_say bound "$2" "tests/lib/$3" "$work/loop.so" "$4" "$6" "$7" >>"$work/binding" || return 0
	done
	row "$1, $4 floats" '' "$5" "$work/binding" 1 2
}
gradients() { # network steps wanted
	[ -n "$python" ] || return 0
	for _ in $(seq "$repeat"); do
		or_say bound "$python" tests/lib/gradients.py "$2" 32 "$1" |
			sed -n 's/^gradients \([0-9]*\) .* DDP \([0-9]*\) .*/\1 \2/p' >>"$work/gradients-$1"
	done
	row "$1, mvbench.Gradients" 32 "$3" "$work/gradients-$1" 1 2
}
if wanted bindings; then
	path=$(cd "$build" && pwd)
	${CC:-cc} -O2 -shared -fPIC -Dmain=speed_main -Iruntime/lib tests/lib/speed.c -o "$work/loop.so" -L"$path" -lmvbench
	titles 'Two workers: the bindings, add + get of a table [ns], and the same calls in C' 'C'
	binding LuaJIT luajit speed.lua 464154 '<= 1.05' 5 100
	binding LuaJIT luajit speed.lua 10 '<= 2' 1000 100
	numpy=/usr/bin/python3
	"$numpy" -c 'import numpy' 2>/dev/null || numpy=python3
	binding Python "$numpy" speed.py 464154 '<= 1.1' 5 100
	binding Python "$numpy" speed.py 10 '' 1000 100
	titles 'Two workers: gradients of PyTorch networks, samples a second' DDP
	gradients mlp 200 '>= 2'
	gradients wide 20 '>= 1'
fi

# The median of three epochs, because one epoch of a hundred steps can be slow by chance.
lenet_two() { # strategy wanted
	wanted lenet-two || return 0
	: >"$work/lenet-$1"
	for _ in $(seq "$repeat"); do
		echo "$(ours --workload=lenet --strategy="$1" --workers=2 --batch=64 --epochs=3 --lr=1e-4 --momentum=0.9 --data-dir="$work/mnist")" \
			"$(ours --workload=lenet --strategy=serial --batch=64 --epochs=3 --lr=1e-4 --momentum=0.9 --data-dir="$work/mnist")" >>"$work/lenet-$1"
	done
	row "lenet, 2 workers, $1" 64 "$2" "$work/lenet-$1" 1 2
}

titles "Two workers against one: samples a second, both together" 'one worker'
lenet_two allreduce '>= 1.9'
lenet_two asgd '>= 1.9'

# Noise only slows a run down, and an overhead of 1 % is far below the noise. Therefore the strategies and
# serial run in turn, many times, and the fastest run of each is compared.
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

titles "A strategy on one worker against serial: samples a second" serial
overheads

# The commands that read results, on a large database: the median of REPEAT calls; slow commands run once.
# tests/tools/bigdb.c makes the database. DATABASE_RUNS=3000 makes a smaller one, with bounds for its table and report.
database() {
	wanted database || return 0
	db=$work/big.db
	said() { printf '%-50s %12s %12s\n' "$1" "$2" "$3"; }
	took() { # what wanted times command...
		what=$1 want=$2 times=$3
		shift 3
		: >"$work/took"
		for _ in $(seq "$times"); do
			from=$(date +%s%N)
			"$mvbench" "$@" --db="$db" >"$work/printed" 2>"$work/said" || [ $? = 1 ] || { cat "$work/said" >&2; return 0; }
			echo "$((($(date +%s%N) - from) / 1000))e-6" >>"$work/took"
		done
		said "$what" "$(sort -g "$work/took" | sed -n "$(((times + 1) / 2))p" | xargs printf '%.3g s')" "$want"
	}
	runs=${DATABASE_RUNS:-10000} all='' page='< 10'
	[ "$runs" -gt 3000 ] || { all='< 0.5' page='< 3'; }
	printf '\nA database of %s runs of 100 epochs\n' "$runs"
	said what mvbench wanted
	"$build/tests/tools/bigdb" "$db" "$runs"
	said 'file' "$(($(stat -c %s "$db") / 1000000)) MB" '< 200'
	took "table --where=\"workload='mlp' AND lr=0.05\"" '< 0.2' "$repeat" table --where="workload='mlp' AND lr=0.05"
	took 'table --label' '< 0.2' "$repeat" table --label='sweep 3'
	took 'table' "$all" "$repeat" table
	took 'check --save' '' 1 check --save=base
	# as if saved long ago, from another database, so that check compares the same runs with it
	sqlite3 "$db" "UPDATE baseline SET made = '2000-01-01T00:00:00Z', run_id = NULL"
	took 'check --against, nothing run' '< 1' "$repeat" check --against=base --rerun=never
	compared=$(sed -n 's/.* \([0-9]*\) runs compared, 0 made now$/\1/p' "$work/printed")
	[ "${compared:-0}" -eq "$(sqlite3 "$db" 'SELECT count(*) FROM baseline')" ] || {
		echo "bench.sh: only ${compared:-0} runs of the baseline were compared" >&2
		exit 1
	}
	said '  runs compared' "$compared" ''
	took 'report' "$page" 1 report --out="$work/report.html"
	for figure in $("$mvbench" plot --list | sed -n 's/^\([a-z_]*\) .*/\1/p'); do
		took "plot $figure" '' 1 plot "$figure" --out="$work/plots"
	done
}
database

# The cost of the default timeline, in pairs of runs; the order alternates.
traced() { # workload strategy workers
	wanted trace || return 0
	f=$work/trace-$1-$2
	: >"$f"
	for i in $(seq $((2 * repeat))); do
		for steps in $((i % 2 * 64)) $(((i + 1) % 2 * 64)); do
			ours --workload="$1" --strategy="$2" --workers="$3" --batch=32 --epochs=9 --lr=0.01 --trace="$steps" >"$work/trace-$steps"
		done
		paste -d' ' "$work/trace-64" "$work/trace-0" >>"$f"
	done
	row "$1, $3 workers, $2" 32 '>= 0.99' "$f" 1 2
}

titles "A run that records the timeline of 64 steps per epoch: samples a second" 'no timeline'
traced mlp allreduce 2
traced mlp asgd 2
traced softmax serial 1
