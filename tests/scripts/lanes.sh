#!/bin/sh
# lanes.sh BUILD-FOLDER LANES: every test; with several lanes in as many processes, side by side, as
# tests wait more than they compute. Each takes the next suite that no other has taken. What it says
# comes at its end, and the sum of all summaries last.
set -u
cd "$1" || exit 1
export CK_VERBOSITY="${CK_VERBOSITY:-normal}"
[ "$2" -gt 1 ] || exec ./check
rm -rf lanes lane-*.log
mkdir lanes
lane=0 bad=0 all=
while [ "$lane" -lt "$2" ]; do
	MVBENCH_TEST_LANE=$PWD/lanes ./check >"lane-$lane.log" 2>&1 &
	all="$all $!"
	lane=$((lane + 1))
done
lane=0
for pid in $all; do
	wait "$pid" || bad=1
	cat "lane-$lane.log"
	lane=$((lane + 1))
done
cat lane-*.log | grep -E '^[^ ]+\.c:[0-9]+:[FE]:' # again, where whoever reads only the end sees them
cat lane-*.log | sed -n 's/^skipped \([0-9]*\)$/\1/p' | awk '{ n += $1 } END { printf "skipped %d\n", n }'
cat lane-*.log | sed -n 's/^[0-9]*%: Checks: \([0-9]*\), Failures: \([0-9]*\), Errors: \([0-9]*\)$/\1 \2 \3/p' |
	awk '{ n += $1; f += $2; e += $3 }
	END { printf "%d%%: Checks: %d, Failures: %d, Errors: %d\n", n ? 100 * (n - f - e) / n : 0, n, f, e }'
exit $bad
