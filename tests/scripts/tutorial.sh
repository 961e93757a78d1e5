#!/bin/sh
# tutorial.sh BUILD-FOLDER [PICTURES]: runs the commands of plots/TUTORIAL.md, unchanged and in order, from scratch
# in BUILD-FOLDER/tutorial, which keeps the figures. Copies them to PICTURES, the folder of the page's pictures.
# Fails if a command fails, if a figure is empty, or if step 15 does not give the times that it states, which are
# the same on every machine. Behind `make tutorial`.
set -eu
build=$(cd "$1" && pwd)
pictures=${2:+$(mkdir -p "$2" && cd "$2" && pwd)}
cd "$(dirname "$0")/../.."

rm -rf "$build/tutorial"
# The caller decides what is built, and where. Commands are between fences.
fence=$(printf '\140\140\140')
awk -v fence="$fence" 'index($0, fence) == 1 { inside = $0 == fence "sh"; next } inside' plots/TUTORIAL.md |
	sed -e '/^make$/d' -e "s|\$PWD/build|$build|; s|build/tutorial|$build/tutorial|g" >"$build/tutorial.sh"
sh -eu "$build/tutorial.sh"

# Seconds of an epoch with a slow worker; 0.2857 s is the time of three and a half workers. A server of bsp sleeps
# up to half a millisecond between two polls for messages from other hosts.
wrong=$(sqlite3 -batch -bail "$build/tutorial/mvbench.db" "
	WITH told (strategy, deal, low, high) AS (VALUES ('allreduce', 'static', 0.5, 0.51),
		('bsp', 'static', 0.5, 0.52), ('asgd', 'static', 0.5, 0.51),
		('bsp', 'dynamic', 0.333, 0.375), ('asgd', 'dynamic', 0.2857, 0.305))
	SELECT format('step 15: %s, %s assignment: %s s per epoch', strategy, deal, ifnull(epoch_seconds, 'no'))
	FROM told LEFT JOIN (SELECT s.*, r.deal FROM run_summary AS s JOIN run AS r USING (id)
		WHERE s.label = 'slow') USING (strategy, deal)
	WHERE epoch_seconds BETWEEN low AND high IS NOT 1;")
[ -z "$wrong" ] || { echo "$wrong" >&2; exit 1; }
if grep -l 'Nothing to draw' "$build"/tutorial/*.svg >&2; then exit 1; fi
if [ -n "$pictures" ]; then cp "$build"/tutorial/*.svg "$pictures"; fi
