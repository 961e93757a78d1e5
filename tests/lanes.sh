#!/bin/sh
# lanes.sh BUILD-FOLDER LANES: every test; with several lanes in as many processes, side by side, as
# tests wait more than they compute. What each says comes at its end.
set -u
cd "$1" || exit 1
export CK_VERBOSITY="${CK_VERBOSITY:-normal}"
[ "$2" -gt 1 ] || exec ./check
lane=0 bad=0 all=
while [ "$lane" -lt "$2" ]; do
	MVBENCH_TEST_LANE=$lane/$2 ./check >"lane-$lane.log" 2>&1 &
	all="$all $!"
	lane=$((lane + 1))
done
lane=0
for pid in $all; do
	wait "$pid" || bad=1
	cat "lane-$lane.log"
	lane=$((lane + 1))
done
exit $bad
