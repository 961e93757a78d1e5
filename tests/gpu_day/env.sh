# shellcheck shell=bash
# env.sh - sourced by the numbered scripts, which run on the machine with the GPU. Without a GPU the script
# is skipped: it says so, and ends with status 77. Otherwise env.sh unpacks the bundle (once on each
# machine) to BUNDLE, keeps the driver initialised, saves the logs, which are in LOGS, and writes the page
# to publish, OUT/NAME.md (OUT: gpu_day in the current folder).
set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
name=$(basename "$0" .sh)
LIMIT=${LIMIT:-195} # of a script [seconds]; later commands are left out, and counted

if ! gpus=$(nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>/dev/null) || [ -z "$gpus" ]; then
	echo "$name: skipped: no GPU: nvidia-smi is missing, or lists none; run this on a machine with a GPU" >&2
	exit 77
fi
BUNDLE=${BUNDLE:-/tmp/bundle} LOGS=${LOGS:-/tmp/logs}
if [ ! -x "$BUNDLE/bin/mvbench" ]; then
	[ -e "$here/bundle.tar.gz" ] || { echo "$name: $here/bundle.tar.gz is missing: 0_prepare.sh makes it, on the machine that builds" >&2; exit 1; }
	mkdir -p "$BUNDLE"
	tar xzf "$here/bundle.tar.gz" --strip-components=1 -C "$BUNDLE"
fi
OUT=${OUT:-$PWD/gpu_day}
L=$LOGS/$name
rm -rf "$L"
mkdir -p "$OUT" "$L"
: >"$L/left_out"
export PATH=$BUNDLE/bin:$PATH OMP_NUM_THREADS=1 CK_TIMEOUT_MULTIPLIER=15
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

# A permanent client: without it, and without persistence mode, every process would initialise the GPU again.
nvidia-smi dmon -s puc -d 2 >"$L/dmon.txt" 2>&1 &
keeper=$!
mps=
finish() {
	mps_stop
	kill "$keeper" 2>/dev/null
	printf '\n%d s, of at most %d; commands left out: %d\n' "$SECONDS" "$LIMIT" "$(wc -l <"$L/left_out")" | tee -a "$OUT/$name.md"
	save
}
trap finish EXIT

# At most 8 files of 16 MiB are copied back: one archive for each script, and its page.
save() { tar czf "$OUT/$name.tgz" -C "$LOGS" "$name"; }
say() { printf '\n=== %s (%ss)\n' "$1" "$SECONDS"; }
# timed SECONDS COMMAND...: runs it with this time limit; prints its status and time
timed() {
	local limit=$1 since=$SECONDS rc left=$((LIMIT - SECONDS))
	shift
	[ "$left" -gt 5 ] || { echo "## left out, the time limit is reached: $*" | cut -c1-150 | tee -a "$L/left_out" >&2; return 124; }
	timeout -k 5 $((limit < left ? limit : left)) "$@"
	rc=$?
	echo "## rc $rc, $((SECONDS - since)) s: $*" | cut -c1-150 >&2
	return $rc
}

# page TITLE: begins OUT/NAME.md; keep CAPTION: adds its stdin to the page, and prints it
page() {
	{
		printf '# %s\n\n%s, mvbench %s. By tests/gpu_day/%s.sh, after 0_prepare.sh.\n' "$1" \
			"$(echo "$gpus" | sort | uniq -c | sed 's/^ *\([0-9]*\) /\1 x /' | paste -sd ';')" \
			"$(cat "$here/commit" 2>/dev/null || echo unknown)" "$name"
	} >"$OUT/$name.md"
}
keep() {
	printf '\n%s\n\n' "$1" >>"$OUT/$name.md"
	tee "$L/kept" # a block of code, indented
	sed 's/^/    /' "$L/kept" >>"$OUT/$name.md"
}

# suites SECONDS NAME...: runs test suites side by side, with this time limit, and prints their results
suites() {
	local limit=$1 s pids=
	shift
	for s; do
		(CK_RUN_SUITE=$s timed "$limit" gpu-test >"$L/suite-$s.log" 2>&1; echo "$s rc $?" >>"$L/suite-$s.log") &
		pids="$pids $!"
	done
	# shellcheck disable=SC2086
	wait $pids
	for s; do
		echo "--- $s"
		grep -E '^[0-9]+%|:[FE]:| rc ' "$L/suite-$s.log" | cut -c1-400 | tail -12
	done
}

# cifar ROWS FILES TEST-ROWS: noise in CIFAR-10's format, in $work/cifar
cifar() {
	(
		export build=$BUNDLE/build device=cuda repeat=1
		# shellcheck source=tests/scripts/measure.sh
		. "$BUNDLE/tests/scripts/measure.sh"
		noise_cifar "$work/cifar" "$@"
	)
}

# python_text BYTES: a text of the machine's Python files, in a fixed random order: its end, which is for tests, is like
# the rest. on_text LABEL OPTIONS...: trains a gpt of six layers on it. losses: a line for each of these runs.
python_text() {
	find /usr/lib/python3* /opt/torch -name '*.py' -size +8k 2>/dev/null | sort | shuf --random-source <(yes) | xargs cat 2>/dev/null | head -c "$1" >"$LOGS/text"
}
on_text() {
	# shellcheck disable=SC2086
	timed 60 mvbench run --label="$1" --workload=gpt ${SIZE:---gpt.layers=6 --gpt.heads=6 --gpt.width=384 --gpt.context=256} --data-dir="$LOGS/text" --steps="$STEPS" --seed=1 \
		--device=cuda --precision="${PRECISION:-bf16}" --db="$L/runs.db" "${@:2}" 2>&1 | tail -2
}
losses() {
	[ -e "$L/runs.db" ] || return 0
	python3 - "$L/runs.db" <<'P'
import sqlite3, sys
print("%-38s %9s %9s %9s" % ("", "test", "training", "seconds"))
for label, status, *x in sqlite3.connect(sys.argv[1]).execute("""SELECT label, status, test_loss, train_loss, seconds_total
    FROM run_summary ORDER BY label"""):
    print("%-38s" % label, *("%9.4f" % v if v is not None else "%9s" % "" for v in x), "" if status == "done" else status)
P
}

# Starts an own daemon, which changes no setting of the card. False: impossible.
mps_start() {
	command -v nvidia-cuda-mps-control >/dev/null || { echo 'MPS is not installed here'; return 1; }
	export CUDA_MPS_PIPE_DIRECTORY=/tmp/mps CUDA_MPS_LOG_DIRECTORY=/tmp/mps-log
	mkdir -p /tmp/mps /tmp/mps-log
	nvidia-cuda-mps-control -d && mps=ours
}
mps_stop() {
	[ -n "$mps" ] || return 0
	echo quit | nvidia-cuda-mps-control
	cp /tmp/mps-log/* "$L" 2>/dev/null
	unset CUDA_MPS_PIPE_DIRECTORY CUDA_MPS_LOG_DIRECTORY
	mps=
}

# summary DB: prints its runs and epochs
summary() {
	python3 - "$1" <<'P'
import sqlite3, sys
c = sqlite3.connect(sys.argv[1])
print("run | status | configuration | precision | transport | tables | s an epoch | samples/s | model | ranks")
for r in c.execute("""SELECT id, status, workload || ' ' || config, precision, transport, table_home, round(epoch_seconds, 4),
    round(samples_per_second), substr(model_hash, 1, 8), reason FROM run_summary ORDER BY id"""):
    ranks = c.execute("SELECT substr(libraries, instr(libraries, ';') + 2) FROM rank WHERE run_id = ? LIMIT 1", (r[0],)).fetchone()
    print(*["" if x is None else x for x in r[:9]], ranks[0] if ranks else "", r[9] or "", sep=" | ")
    for e in c.execute("""SELECT epoch, round(seconds, 4), round(compute_s, 4), round(comm_s, 4), round(wait_s, 4),
        round(train_loss, 5), round(test_loss, 5), test_accuracy, staleness_mean FROM epoch WHERE run_id = ? ORDER BY epoch""", (r[0],)):
        print("     epoch", *e)
P
}
