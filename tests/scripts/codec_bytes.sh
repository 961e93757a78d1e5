#!/bin/sh
# codec_bytes.sh BUILD-FOLDER: trains ten steps of two workers with each codec under each strategy that sends
# messages for one, over MPI. Prints a table of the bytes that both workers have sent, in a step on average. Fails if
# counted bytes are not those of the strategy's formula, up to the whole bytes of a message. Behind `make codec-bytes`.
set -eu
build=$(cd "$1" && pwd)
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM
export MVBENCH_HOME="$PWD" OMP_NUM_THREADS=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
steps=10
common="--workload=mlp --mlp.hidden=32 --batch=32 --train-rows=$((steps * 2 * 32)) --epochs=1 --device=cpu --deal=static --workers=2"

codecs=$("$build/mvbench" list codecs | sed -n 's/^  \([a-z][a-z0-9]*\) .*/\1/p')

# carrier NAME SERVERS OPTIONS...: the ranks start once, and train with one codec after the other
carrier() {
	name=$1 servers=$2
	shift 2
	words='' accepted=''
	for codec in $codecs; do
		one="$common --servers=$servers $* --codec=$codec"
		case $codec in none) one=$(echo "$one" | sed 's/ --codec.pull=true//') ;; esac
		# shellcheck disable=SC2086
		"$build/mvbench" run --dry-run $one --db="$work/none.db" >/dev/null 2>&1 || continue
		words="$words${words:+ + }$one" accepted="$accepted $codec"
	done
	# shellcheck disable=SC2086
	mpirun --quiet --oversubscribe --bind-to none -n $((2 + servers)) "$build/tests/tools/train" "$work/model" $words \
		>"$work/said" 2>&1 || { cat "$work/said" >&2 && exit 1; }
	# shellcheck disable=SC2086
	awk -v name="$name" -v list="$accepted" 'BEGIN { n = split(list, codec) }
		$1 == "epoch" && $2 == 1 { print name "|" codec[++i] "|" $4 "|" $6 }
		END { if (i != n) { print name ": " n " runs, and " i " results" >"/dev/stderr"; exit 1 } }' "$work/said" >>"$work/rows"
}

carrier allreduce 0 --strategy=allreduce
carrier 'allreduce, buckets' 0 --strategy=allreduce --allreduce.overlap=true --allreduce.bucket=1
carrier periodic 0 --strategy=periodic --sync-every=5
carrier 'periodic, outer' 0 --strategy=periodic --sync-every=5 --periodic.outer=nesterov
carrier easgd 1 --strategy=easgd --sync-every=5
carrier 'easgd, synchronous' 0 --strategy=easgd --easgd.form=synchronous --sync-every=5
carrier gossip 0 --strategy=gossip --sync-every=5
carrier asgd 1 --strategy=asgd --sync-every=5
carrier bsp 1 --strategy=bsp --sync-every=5
carrier ssp 1 --strategy=ssp --sync-every=5
carrier downpour 1 --strategy=downpour --sync-every=5
carrier 'asgd, pulls' 1 --strategy=asgd --sync-every=5 --codec.pull=true
carrier 'asgd, pulls by bf16' 1 --strategy=asgd --sync-every=5 --codec.pull=bf16

awk -F'|' -v steps="$steps" '
	!($1 in seen) { seen[$1] = 1; column[++columns] = $1 }
	!($2 in known) { known[$2] = 1; row[++rows] = $2 }
	{
		cells++
		at[$1, $2] = $3 / steps
		off = $3 > $4 ? $3 - $4 : $4 - $3
		if (off > worst) worst = off
		if (off > 1e-6 * $3 + 3) { print $1 ", " $2 ": " $3 " bytes, " $4 " by the formula"; wrong = 1 }
	}
	END {
		line = "| bytes of a step |"; rule = "|---|"
		for (c = 1; c <= columns; c++) { line = line " " column[c] " |"; rule = rule "--:|" }
		print line; print rule
		for (r = 1; r <= rows; r++) {
			line = "| " row[r] " |"
			for (c = 1; c <= columns; c++)
				line = line ((column[c], row[r]) in at ? sprintf(" %.0f |", at[column[c], row[r]]) : " refused |")
			print line
		}
		printf "\n%d combinations: counted and expected bytes of %d steps differ by at most %.0f.\n", cells, steps, worst
		exit wrong
	}' "$work/rows"
