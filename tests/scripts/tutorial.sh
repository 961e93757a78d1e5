#!/bin/sh
# tutorial.sh BUILD-FOLDER [PICTURES]: runs the commands of plots/TUTORIAL.md, unchanged and in order, from scratch
# in BUILD-FOLDER/tutorial, which keeps the figures. Copies them to PICTURES, the folder of the page's pictures.
# Fails if a command fails, if a figure is empty, if steps 9, 15 and 18 do not give the times that they state, which
# are the same on every machine, if the page's table lacks a step, if step 4 does not explain a word that its table
# prints, or if the exercises do not judge the commands of the page and right answers as they should. Behind
# `make tutorial`.
set -eu
build=$(cd "$1" && pwd)
pictures=${2:+$(mkdir -p "$2" && cd "$2" && pwd)}
cd "$(dirname "$0")/../.."

awk '/^\| \[[0-9]+\. /{ split($0, part, /[][]/); listed[part[2]] = 1 }
	/^## [0-9]+\. / && !(substr($0, 4) in listed) { print "the table of steps lacks " substr($0, 4); bad = 1 }
	END { exit bad }' plots/TUTORIAL.md >&2

rm -rf "$build/tutorial"
# The caller decides what is built, and where. Commands are between fences.
fence=$(printf '\140\140\140')
awk -v fence="$fence" 'index($0, fence) == 1 { inside = $0 == fence "sh"; next } inside' plots/TUTORIAL.md |
	sed -e '/^make$/d' -e "s|\$PWD/build|$build|; s|build/tutorial|$build/tutorial|g; s|\.\./\.\./plots|$PWD/plots|" \
		>"$build/tutorial.sh"
for python in python3 /usr/bin/python3; do # one with NumPy, for step 18
	if [ -z "${MVBENCH_PYTHON:-}" ] && "$python" -c 'import numpy' 2>/dev/null; then export MVBENCH_PYTHON="$python"; fi
done
sh -eu "$build/tutorial.sh"

# Seconds of an epoch with a slow worker; 0.2857 s is the time of three and a half workers. A server of bsp sleeps
# up to half a millisecond between two polls for messages from other hosts.
wrong=$(sqlite3 -batch -bail "$build/tutorial/mvbench.db" "
	WITH told (label, strategy, deal, low, high) AS (VALUES ('slow', 'allreduce', 'static', 0.5, 0.51),
		('slow', 'bsp', 'static', 0.5, 0.52), ('slow', 'asgd', 'static', 0.5, 0.51),
		('slow', 'bsp', 'dynamic', 0.333, 0.375), ('slow', 'asgd', 'dynamic', 0.2857, 0.305),
		('own', 'allreduce', 'static', 0.5, 0.51), ('own', 'periodic', 'static', 0.15, 0.16))
	SELECT format('label %s: %s, %s assignment: %s s per epoch', label, strategy, deal, ifnull(epoch_seconds, 'no'))
	FROM told LEFT JOIN (SELECT s.*, r.deal FROM run_summary AS s JOIN run AS r USING (id))
		USING (label, strategy, deal)
	WHERE epoch_seconds BETWEEN low AND high IS NOT 1;")
[ -z "$wrong" ] || { echo "$wrong" >&2; exit 1; }
rises=$(sqlite3 -batch -bail "$build/tutorial/mvbench.db" "
	SELECT 32 * max(iif(workers = 32, epoch_seconds, 0)) < 16 * max(iif(workers = 16, epoch_seconds, 0))
	FROM run_summary WHERE label = 'cluster' AND strategy = 'periodic'")
[ "$rises" = 1 ] || { echo "step 9: the efficiency does not rise from 16 to 32 workers" >&2; exit 1; }

# Seeds decide other differences on other processors: each outcome has to be explained.
step4=$(awk '/^## /{ on = /^## 4[.]/ } on' plots/TUTORIAL.md)
marks=$("$build/mvbench" table --db="$build/tutorial/mvbench.db" --label=interval --columns=test_accuracy_mark --format=csv)
for mark in $(printf '%s\n' "$marks" | tr -d '\r' | tail -n +2 | sort -u); do
	case $mark$step4 in
	control* | *"\"$mark\""*) ;;
	*) echo "step 4 does not explain \"$mark\", which its table prints" >&2; exit 1 ;;
	esac
done

# The exercises: none is tried before the commands of the page, all are after them, runs with other options change no
# result, and right answers solve all. A terminal of 80 columns has room for the table.
exercises() { sqlite3 -batch -bail "$@" "$build/tutorial/mvbench.db" <plots/tutorial/exercises.sql; }
wrong_exercises() { echo "exercises: $1" >&2; exercises >&2; exit 1; }
sweep() { (cd "$build/tutorial" && "$build/mvbench" sweep "$@" >>exercises.log); }
sweep4() { sweep interval.ini --strategy=periodic --sim.train=false --epochs=1 --seed=1 --label=exercise4 "$@"; }
[ "$(exercises | grep -c '|not tried$')" = 5 ] || wrong_exercises "some are judged that nobody tried"
grep -o "mvbench sweep [^$fence]*--label=exercise[^$fence]*" plots/TUTORIAL.md >"$build/exercises.sh"
(cd "$build/tutorial" && PATH="$build:$PATH" sh -eu "$build/exercises.sh" >exercises.log)
# that of exercise 2 may solve it: accuracies differ between machines
if [ "$(exercises | grep -c '^[3-9]|.*|not yet: ')" != 4 ] || exercises | grep '|not tried$'; then
	wrong_exercises "the commands of the page are not judged"
fi
judged=$(exercises)
sweep batch.ini --strategy=allreduce --workers=16 --label=exercise2 --lr=0.12 --epochs=8
sweep4 --sync-every=1 --sim.platform=infiniband_fattree
[ "$(exercises | head -n 5)" = "$judged" ] || wrong_exercises "runs with other options count"
[ "$(exercises | grep -c '|does not count: ')" = 2 ] || wrong_exercises "runs that do not count are not named"
sweep batch.ini --strategy=allreduce --workers=16 --label=exercise2 --lr=0.12
sweep share.ini --label=exercise3 --sim.platform=cluster --sim.rate=6gbit,6.5gbit
sweep4 --sync-every=23,24
sweep stale.ini --reduce=mean --sim.train=false --label=exercise5 --workers=31
sweep cluster.ini --strategy=periodic --workers=64 --label=exercise9 --sync-every=4,5
[ "$(exercises | grep -c '|solved: ')" = 5 ] || wrong_exercises "right answers do not solve all"
exercises | grep -q '|solved: X = 24 (9 %)$' || wrong_exercises "4 does not print its answer"
if exercises -table | awk 'length > 80' | grep .; then wrong_exercises "the table is wider than 80 columns"; fi
if grep -l 'Nothing to draw' "$build"/tutorial/*.svg >&2; then exit 1; fi
if [ -n "$pictures" ]; then cp "$build"/tutorial/*.svg "$pictures"; fi
