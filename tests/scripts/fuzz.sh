#!/usr/bin/env bash
# fuzz.sh BUILD-FOLDER HARNESS SECONDS [READER ...]: gives all readers of foreign files (tests/fuzz), or these
# readers, malformed files for this time each, with / read-only. Behind `make fuzz`. An input that ends a reader
# is an error; BUILD-FOLDER/fuzz/found keeps it.
set -eu
build=$(cd "$1" && pwd)
harness=$(realpath "$2")
seconds=$3
shift 3
every='idx cifar own jobfile options baseline database page checkpoint code calibration table import report platform'
readers=${*:-$every}
out=$build/fuzz
cd "$(dirname "$0")/../.."
export MVBENCH_HOME=$PWD OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

seeds() {
	local d=$out/seeds
	rm -rf "$out"/seeds "$out"/found "$out"/*.db*
	: >"$out/log"
	mkdir -p "$out/found" "$out/scratch"
	for name in $every; do
		mkdir -p "$d/$name"
	done
	cp workloads/sweeps/*.ini "$d/jobfile"
	printf '%s\n' '[defaults]' 'zip = workers, lr' 'exclude = strategy=serial workers=2..3 lr=0.10,0.2' '[a]' \
		'strategy = serial, asgd' 'workers = 1..5 by 2' 'lr = 1e-3..1 log 3' 'batch = 16..64 log 3' >"$d/jobfile/lists"
	printf '%s\n' --workload=mlp --mlp.hidden=16,16 --strategy=periodic --periodic.outer_lr=0.5 --workers=4 \
		--lr=0.1 --lr-schedule=step:2:0.1 --speed=1:0.5 --leave=1:2s --split=dirichlet:0.5 >"$d/options/one"
	printf '%s\n' --platform=sim --sim.step-time=1ms --workers=1000 --strategy=asgd --servers=2 --sync-every=8 \
		--placement=2@0,2@1 --straggle=0.2 --record >"$d/options/two"
	for kind in '0\0\0\010\03\0\0\0\01\0\0\0\034\0\0\0\034 784' '1\0\0\010\01\0\0\0\01 1'; do
		{
			# shellcheck disable=SC2059
			printf "${kind% *}"
			head -c "${kind##* }" /dev/zero
		} >"$d/idx/${kind:0:1}"
		{ # the first byte selects the file
			head -c 1 "$d/idx/${kind:0:1}"
			tail -c +2 "$d/idx/${kind:0:1}" | gzip -c
		} >"$d/idx/${kind:0:1}.gz"
	done
	head -c 6146 /dev/zero >"$d/cifar/two"
	printf '\001u,v,label\n1,2,"a"\n3,4,b\n5,6,a\n7,8,b\n9,1,a\n' >"$d/own/table"
	python3 -c 'import io, sys, numpy as n
for mark, save in (b"\0", n.savez), (b"\3", n.savez_compressed):
    f = io.BytesIO()
    save(f, x=n.ones((5, 2), "f4"), y=n.arange(5))
    open("%s/%d" % (sys.argv[1], mark[0]), "wb").write(mark + f.getvalue())
f = io.BytesIO()
n.save(f, n.arange(5))
open(sys.argv[1] + "/array", "wb").write(b"\2" + f.getvalue())' "$d/own" || true # without NumPy: no arrays
	printf '7:1:2\n' >"$d/page/one"
	for k in {1..15}; do # a message of zeros for each codec: 101 floats
		# shellcheck disable=SC2059
		{ printf "\\$(printf %o "$k")d\0\0" && head -c 450 /dev/zero; } >"$d/code/$k"
	done
	for seed in 1 2 3; do
		"$build/mvbench" run --workload=softmax --epochs=1 --seed="$seed" --db="$out/seed.db" >>"$out/log" 2>&1
	done
	"$build/mvbench" run --workload=perceptron --epochs=1 --save="$d/checkpoint/one" --db="$out/other.db" >>"$out/log" 2>&1
	rm -f "$out"/other.db*
	cp sim/platforms/*.xml "$d/platform"
	"$build/mvbench" check --save=main --db="$out/seed.db" >>"$out/log"
	"$build/mvbench" check --against=main --export="$d/baseline/one" --db="$out/seed.db"
	sqlite3 "$out/seed.db" 'PRAGMA journal_mode = DELETE; VACUUM' >/dev/null
	cp "$out/seed.db" "$d/database/one"
	base
	"$build/mvbench" run --help=all | grep -o -- '--[a-z.-]*=*' | sort -u | sed 's/.*/"&"/' >"$out/words"
	printf '"%s"\n' 'zip = ' 'exclude = ' '..' ' by ' ' log ' >>"$out/words" # of job files
}

# The database that the inputs change: it has rows of every kind, and its tables accept any value.
base() {
	local run=("$build/mvbench" run --workload=perceptron --epochs=2 --workers=2 --db="$out/seed.db")
	{
		"${run[@]}" --strategy=asgd --record
		"${run[@]}" --strategy=bsp --platform=sim --sim.platform=ethernet_1g --sim.step-time=1ms --trace=1
		"${run[@]}" --strategy=allreduce --platform=sim --sim.platform=ethernet_1g --sim.step-time=1ms --target-loss=1
	} >>"$out/log" 2>&1
	sqlite3 "$out/seed.db" >>"$out/log" <tests/fuzz/base.sql
	mv "$out/seed.db" "$out/base.db"
	head -c 1 /dev/zero | tee "$out/seeds"/{calibration,table,import,report}/one >/dev/null
}

one() { # a reader, with / read-only
	local found=$out/found scratch=$out/scratch
	[ "$1" != platform ] || mount --rbind /tmp /tmp # SimGrid writes there
	mount --bind "$found" "$found"
	mount -t tmpfs tmpfs "$scratch"
	mkdir "$scratch/corpus"
	mount --rbind /dev /dev
	mount -o remount,bind,ro /dev
	mount -o remount,bind,ro /
	export TMPDIR=$scratch FUZZ=$1 ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1
	export FUZZ_BASE=$out/base.db FUZZ_PROGRAM=$build/mvbench
	[ "$1" != report ] || export PATH=/nowhere # hides gnuplot: figures are left out
	case $1 in
	table | import | report) set -- "$1" -close_fd_mask=2 -detect_leaks=0 ;; # commands print errors, and end
	calibration | database) set -- "$1" -detect_leaks=0 ;;
	esac
	"$harness" "${@:2}" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=4096 -max_len=600000 -dict="$out/words" \
		-artifact_prefix="$found/$1-" -print_final_stats=1 "$scratch/corpus" "$out/seeds/$1" >"$found/$1.log" 2>&1
}

if [ "${FUZZ_ONE:-}" ]; then
	one "$FUZZ_ONE"
	exit
fi
unshare -rm true || {
	echo 'fuzz: this machine refuses user namespaces, and a fuzzed reader may write anywhere without one' >&2
	exit 1
}
seeds
bad=0 all=0
for name in $readers; do
	FUZZ_ONE=$name unshare -rm "$0" "$build" "$harness" "$seconds" || bad=$((bad + 1))
	n=$(sed -n 's/^stat::number_of_executed_units: *//p' "$out/found/$name.log" || true)
	all=$((all + ${n:-0}))
	printf '%-10s %9d inputs  %s\n' "$name" "${n:-0}" "$(grep -m 1 -h 'ERROR\|SUMMARY' "$out/found/$name.log" || true)"
done
echo "fuzz: $all inputs, $bad readers failed"
[ "$bad" = 0 ]
