#!/bin/sh
# lanes.sh BUILD-FOLDER LANES: runs every test, in LANES processes side by side, because tests wait
# more than they compute. Each process takes the next suite that no other process has taken. Suites
# that measure times run alone, after all others. WITHOUT="SUITE ...": suites to leave out.
# A test that fails is run again, alone, at most twice. If it passes both times it is flaky: it is
# named and counts as passed. Otherwise it has failed. More than three flaky tests fail, and more
# than twelve failures are not run again. The last line is the sum, in the form of Check's own.
set -u
cd "$1" || exit 1
export CK_VERBOSITY="${CK_VERBOSITY:-normal}"
[ -z "${CK_RUN_SUITE:-}" ] || exec ./check
# The interpreter that python3 starts: a shim, as of pyenv, takes longer than most programs of the tests.
python=$(python3 -c 'import sys; print(sys.executable)' 2>/dev/null) || python=
[ -z "$python" ] || PATH=$(dirname "$python"):$PATH
rm -rf lanes lane-*.log again.log
alone=wires
mkdir lanes lanes/$alone
for suite in ${WITHOUT:-}; do
	mkdir -p "lanes/$suite" && echo "$suite: left out"
done
lane=0 errors=0 all=
while [ "$lane" -lt "$2" ]; do
	: >"lane-$lane.log"
	MVBENCH_TEST_LANE=$PWD/lanes ./check >"lane-$lane.log" 2>&1 &
	all="$all $!"
	lane=$((lane + 1))
done
# Progress: each suite that has ended, and each failure at once. suites.txt has the seconds of each suite in an earlier
# run, or on another machine. The time left is about the seconds of the suites that have not ended, shared by the
# lanes. A slower machine takes longer: they are multiplied by how much longer the ended suites took here.
[ -s suites.txt ] || cp "$MVBENCH_HOME/tests/suites.txt" suites.txt 2>/dev/null || : >suites.txt
suites=$(sed -n '/ suites\[\]/,/;/p' "$MVBENCH_HOME/tests/check_main.c" | grep -o '"[a-z]*"' | wc -l)
tail -q -n +1 -f lane-*.log | grep --line-buffered -E '^[^ ]+\.c:[0-9]+:[FE]:|^[a-z]+: [0-9]+ s$' | {
	ended=0 spent=0 known=0
	left=$(awk -v without=" ${WITHOUT:-} " '!index(without, " " $1 " ") { s += $2 }
		END { print s + 0 }' suites.txt)
	while read -r line; do
		case $line in
		*.c:*) echo "$line" ;;
		*)
			ended=$((ended + 1))
			before=$(awk -v suite="${line%%:*}" '$1 == suite { s = $2 } END { print s + 0 }' suites.txt)
			took=${line##*: }
			left=$((left - before)) known=$((known + before)) spent=$((spent + ${took% s}))
			[ "$known" -gt 0 ] && [ "$left" -gt 0 ] &&
				line="$line; about $(((left * spent / known + $2 - 1) / $2)) s left"
			echo "$ended/$suites suites, $line"
			;;
		esac
	done
} &
progress=$!
for pid in $all; do wait "$pid"; done
case " ${WITHOUT:-} " in
*" $alone "*) ;;
*)
	rmdir lanes/$alone
	MVBENCH_TEST_LANE=$PWD/lanes ./check >lane-alone.log 2>&1
	;;
esac
sleep 1.1 # tail reads every second
pkill -P $$ -x tail
wait "$progress"
sed -n 's/^\([a-z]*\): \([0-9]*\) s$/\1 \2/p' lane-*.log |
	awk '{ s[$1] = $2 } END { for (k in s) print k, s[k] }' suites.txt - >suites.new && mv suites.new suites.txt
for log in lane-*.log; do
	cat "$log"
	# The log's last line. Without it the process ended before it had run all its suites.
	grep -q '^skipped [0-9]*$' "$log" ||
		{ echo "failed: $log ended too early" && errors=$((errors + 1)); }
done
# A failure is FILE:LINE:F|E:CASE:TEST:INDEX: and its message.
awk '/^Running suite\(s\): / { suite = $3 }
	/^[^ ]+\.c:[0-9]+:[FE]:/ { n = split($0, f, ":"); if (n > 5) print suite, f[5], f[6] }' lane-*.log >failed
again=$(wc -l <failed) failed=0 flaky=0
summaries=$(cat lane-*.log | sed -n 's/^[0-9]*%: Checks: \([0-9]*\), Failures: \([0-9]*\), Errors: \([0-9]*\)$/\1 \2 \3/p' |
	awk '{ n += $1; f += $2 + $3 } END { print n + 0, f + 0 }')
checks=${summaries% *}
if [ "$again" != "${summaries#* }" ]; then
	echo "failed: the summaries count ${summaries#* } failures, the logs show $again" && errors=$((errors + 1))
fi
if [ "$again" -gt 12 ]; then
	echo "$again tests failed: too many for flaky tests; they are not run again"
	failed=$again
else
	while read -r suite test index; do
		passed=0
		for try in 1 2; do
			echo "again, alone ($try): $suite/$test:$index" >>again.log
			CK_RUN_SUITE=$suite MVBENCH_TEST_ONLY=$test:$index ./check >again.out 2>&1 </dev/null &&
				grep -q '^100%: Checks: 1, Failures: 0, Errors: 0$' again.out && passed=$try
			cat again.out >>again.log
			[ "$passed" = "$try" ] || break
		done
		if [ "$passed" = 2 ]; then
			flaky=$((flaky + 1))
			echo "flaky: $suite/$test:$index failed once, then passed twice alone"
		else
			failed=$((failed + 1))
			echo "failed: $suite/$test:$index failed again, alone, at try $try"
		fi
	done <failed
fi
[ ! -s again.log ] || cat again.log
cat lane-*.log | grep -E '^[^ ]+\.c:[0-9]+:[FE]:' # repeated for readers of the end only
if [ "$flaky" -gt 3 ]; then
	echo "failed: $flaky flaky tests; at most three are accepted"
	failed=$((failed + flaky))
fi
[ "$checks" -gt 0 ] || { echo "failed: no test has run" && errors=$((errors + 1)); }
cat lane-*.log | awk '$1 == "skipped" && NF == 2 { s += $2 } /^left out [0-9]+$/ { l += $3 }
	END { printf "skipped %d\nleft out %d (tests/select.c)\n", s, l }'
echo "flaky tests: $flaky"
awk -v n="$checks" -v failed="$failed" -v errors="$errors" 'BEGIN {
	bad = failed + errors
	printf "%d%%: Checks: %d, Failures: %d, Errors: %d\n", (n > bad ? 100 * (n - bad) / n : 0), n, failed, errors
	exit bad > 0 }'
