#!/bin/sh
# gate.sh BUILD-FOLDER [bugs] [same] [fresh]: tests `mvbench check` with real runs on real data.
#   1. Planted bugs: programs built from a copy of the tree with one wrong line each, compared with a baseline
#      of the unchanged program. The check must fail for each of them.
#   2. Unchanged code, REPEAT (100) times; at most three in a hundred checks may fail. Once with the same seeds,
#      asgd and two workers, whose runs differ each time; once with fresh seeds, which were never run.
# Behind `make gate-proof`; takes a quarter of an hour. OUT=FOLDER: where programs and runs go.
set -eu
build=$(cd "$1" && pwd)
shift
[ $# -gt 0 ] || set -- bugs same fresh
cd "$(dirname "$0")/../.."
out=${OUT:-$build/gate}
repeat=${REPEAT:-100}
mvbench=$build/mvbench
bad=0

rm -rf "$out"
mkdir -p "$out"
cat >"$out/cells.ini" <<'INI'
[defaults]
workload = softmax
epochs = 2
batch = 100
seed = 1..5
# below and above the best learning rate: an error of the rate is seen in either direction
[low]
strategy = serial
lr = 0.05
[high]
strategy = serial
lr = 0.4
[allreduce]
strategy = allreduce
workers = 2
lr = 0.4
[local]
strategy = periodic
workers = 2
sync-every = 4
lr = 0.2
[asgd]
strategy = asgd
workers = 2
lr = 0.05
INI

# plant NAME FILE SED: builds a program with this edit of this file.
plant() {
	rm -rf "$out/src"
	mkdir -p "$out/src" "$out/$1"
	cp -a Makefile main.c mvbench.h runtime strategies workloads results plots sim tests "$out/src"
	# unchanged files are not compiled again
	(cd "$build" && find main.o deps runtime strategies workloads sim results plots -type f ! -name '*.d' \
		-exec cp -a --parents -t "$out/$1" {} +)
	sed -i "$3" "$out/src/$2"
	if cmp -s "$2" "$out/src/$2"; then
		echo "gate.sh: $2 does not contain the line to change" >&2
		exit 1
	fi
	touch "$out/src/$2"
	make -s -C "$out/src" B="$out/$1" MODULE= COMMIT=unknown "$out/$1/mvbench" >"$out/$1.log" 2>&1 || {
		cat "$out/$1.log" >&2
		exit 1
	}
}

# spoiled NAME WHAT FILE SED: the check must fail because of the program's figures.
spoiled() {
	plant "$1" "$3" "$4"
	status=0
	"$out/$1/mvbench" check --against=main --db="$out/bugs.db" >"$out/$1.txt" 2>"$out/$1.err" || status=$?
	echo "$2: $(grep -m 1 " of baseline " "$out/$1.txt")"
	grep -E '^(WORSE|DIVERGED|FAILED|better) ' "$out/$1.txt" | sed 's/^/  /' || true
	if [ $status -ne 1 ] || ! grep -qE '^(WORSE|DIVERGED)' "$out/$1.txt"; then
		echo "  NOT CAUGHT (exit status $status)"
		tail -n 3 "$out/$1.err"
		bad=1
	fi
}

bugs() {
	"$mvbench" sweep "$out/cells.ini" --db="$out/bugs.db" >"$out/sweep.log" 2>&1
	"$mvbench" check --save=main --db="$out/bugs.db"
	"$mvbench" check --against=main --db="$out/bugs.db" --rerun=always 2>/dev/null | tail -n 1 | sed 's/^/none: /'
	spoiled sum 'allreduce adds where it should average' strategies/allreduce.c \
		's/local_step(w, w->weight)/local_step(w, 1)/'
	spoiled models 'periodic adds models where it should average' strategies/periodic.c \
		's/comm_allreduce(w->data_group, w->param, COMM_MEAN)/comm_allreduce(w->data_group, w->param, COMM_SUM)/'
	spoiled up 'learning rate 20 % too high' runtime/config/schedule.c \
		's/double lr = run->lr/double lr = 1.2 * run->lr/'
	spoiled down 'learning rate 20 % too low' runtime/config/schedule.c \
		's/double lr = run->lr/double lr = 0.8 * run->lr/'
}

# again same|fresh: repeats the check, each time against the runs of the check before.
again() {
	db=$out/$1.db
	failed=0
	smallest=1
	for i in $(seq "$repeat"); do
		seeds="--seeds=$((100 * i + 1))..$((100 * i + 5))"
		[ "$1" = fresh ] || seeds=--rerun=always
		status=0
		"$mvbench" check --against=main --db="$db" "$seeds" >"$out/again.txt" 2>"$out/again.err" || status=$?
		[ $status -le 1 ] || {
			cat "$out/again.err" >&2
			exit 1
		}
		failed=$((failed + status))
		[ $status -eq 0 ] || cat "$out/again.txt"
		smallest=$(sqlite3 "$db" "SELECT min($smallest, min(p_holm)) FROM gate_test WHERE name = 'main'")
		made=$(sqlite3 "$db" 'SELECT group_concat(run_id) FROM checked') # --replace deletes this list
		"$mvbench" check --save=main --replace --db="$db" --where="id IN ($made)" >"$out/again.txt"
	done
	echo "  $failed of $repeat failed (smallest corrected p: $smallest)"
	[ $((100 * failed)) -le $((3 * repeat)) ] || bad=1
}

# prepare NAME TEXT: saves a baseline of one epoch of these cells.
prepare() {
	{
		printf '[defaults]\nworkload = softmax\nepochs = 1\nbatch = 100\nseed = 1..5\n'
		printf '%b' "$2"
	} >"$out/$1.ini"
	"$mvbench" sweep "$out/$1.ini" --db="$out/$1.db" >"$out/sweep.log" 2>&1
	"$mvbench" check --save=main --db="$out/$1.db"
}

for part in "$@"; do
	case $part in
	bugs)
		echo "planted bugs"
		bugs
		;;
	same)
		echo "unchanged code, the same seeds again: asgd with two workers"
		prepare same '[asgd]\nstrategy = asgd\nworkers = 2\nlr = 0.05,0.4\n'
		again same
		;;
	fresh)
		echo "unchanged code, fresh seeds"
		prepare fresh '[serial]\nstrategy = serial\nlr = 0.05,0.4\n'
		again fresh
		;;
	*)
		echo "gate.sh: $part: unknown part; give bugs, same or fresh" >&2
		exit 2
		;;
	esac
done
exit $bad
