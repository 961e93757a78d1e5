#!/bin/sh
# shapes.sh BUILD-FOLDER [SHAPE ...]: simulates the teaching recipes workloads/sweeps/shapeN_*.ini from
# scratch, and prints for each shape whether the runs show it (shapes.sql). Fails if one is not shown.
# Behind `make shapes`; plots/SHAPES.md explains the shapes. OUT=FOLDER: where runs and figures go.
# 16 to 18 run only when they are named: they are not shown, as the page says.
set -eu
build=$(cd "$1" && pwd)
shift
cd "$(dirname "$0")/../.."
[ $# -gt 0 ] || set -- 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 19 20 21
out=${OUT:-$build/shapes}
db=$out/shapes.db

mkdir -p "$out"
rm -f "$db" "$db-wal" "$db-shm"
failed=0
left=$*
trap 'echo "interrupted: make shapes SHAPES=\"$left\" goes on" >&2; exit 130' INT TERM

# Simulated times do not depend on the machine's load. A run that diverges (3) is a valid result. A terminal gets the
# sweep's bar.
simulate() {
	file=$(echo workloads/sweeps/shape"$1"_*.ini)
	errors=$out/sweep.err
	[ ! -t 2 ] || errors=/dev/stderr
	"$build/mvbench" sweep "$file" --db="$db" --jobs="$(nproc)" >"$out/sweep.log" 2>"$errors" ||
		[ $? -eq 3 ] || {
		cat "$out/sweep.log" >&2
		[ -t 2 ] || cat "$errors" >&2
		exit 1
	}
}

# The output of shapes.sql, and of one more query on its tables.
ask() { { cat tests/scripts/shapes.sql && echo "$1"; } | sqlite3 -batch -bail -separator ' | ' "$db"; }

check() {
	line=$(ask '' | grep "^$1 | ") || line="$1 | "
	case $line in
	"$1 | 1 | "*) word='shown' ;;
	*) word='NOT SHOWN' failed=1 ;;
	esac
	echo "shape $1 $word: ${line#* | * | } [$2 s]"
}

# draw SHAPE FIGURE [CONDITION [WHICH]]
draw() {
	"$build/mvbench" plot "$2" --db="$db" --where="label = 'shape$1'${3:+ AND $3}" \
		--out="$out/shape$1${4:+_$4}.svg" >/dev/null
	if grep -q 'Nothing to draw' "$out/shape$1${4:+_$4}.svg"; then
		echo "shape $1: nothing to draw in $2" >&2
		failed=1
	fi
}

for shape; do
	since=$(date +%s)
	[ ! -t 2 ] || echo "shape $shape of $*: simulates ..." >&2
	simulate "$shape"
	check "$shape" $(($(date +%s) - since))
	case $shape in
	1) draw 1 accuracy_time ;;
	2) draw 2 staleness ;;
	3) draw 3 accuracy_final ;;
	4) draw 4 accuracy_final "deal = 'static'" ;;
	5)
		draw 5 accuracy_interval 'lr = 0.0125'
		draw 5 accuracy_final "id IN ($(ask 'SELECT group_concat(id) FROM tuned;' | tail -n 1))" tuned
		;;
	6) draw 6 accuracy_interval ;;
	7) draw 7 loss_time ;;
	8) draw 8 loss_time ;;
	9) draw 9 comm_split "sim_platform = 'ethernet_1g' AND sim_step_time = '15ms'" ;;
	10) draw 10 speedup ;;
	11) draw 11 loss_time 'lr = 0.05' ;;
	12) draw 12 accuracy_bytes "sim_platform = 'cluster'" ;;
	13 | 14 | 15) draw "$shape" accuracy_bytes ;;
	16 | 17 | 18 | 19 | 20 | 21) draw "$shape" loss_time ;;
	esac
	left=${left#* }
done
echo "The runs are in $db, the figures beside it."
exit $failed
