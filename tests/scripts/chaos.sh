#!/usr/bin/env bash
# chaos.sh BUILD-FOLDER [COUNT [SEED]]: disturbs sweeps at random times. Each trial runs CELLS=4 cells, drawn
# from all placements of tables, real and simulated. It disturbs them once: it kills or stops one of their
# processes, fills the disk, or starts a second sweep of the same cells. Or the sweep runs in a lab (mvbench
# lab), and one of the hosts is turned off, or loses its link: for longer than --stall-timeout, or for a
# shorter time, in which case no run may fail. Then the sweep is repeated until it is done. After that all
# cells must be there, no finished row lost or partial, none running, the database sound, and no process or
# file left. The table at the end counts trials by disturbance and target: "unharmed": the disturbed sweep
# finished every cell; "mended": the next sweep made the missing cells; "wrong": a check failed. Behind `make
# chaos`. LANES: trials side by side; ONLY: these disturbances; MVBENCH_TEST_UNTIL: no trial begins after this
# time [s since 1970]. BUILD-FOLDER/chaos keeps the trials that went wrong.
set -u
build=$(cd "$1" && pwd)
count=${2:-1000}
seed=${3:-$(date +%s)}
lanes=${LANES:-2}
cells=${CELLS:-4}
out=$build/chaos
mvbench=$build/mvbench

# A mount namespace of its own, for full disks, and for a /dev/shm that has only files of the trials. Other files
# are read-only in it.
if [ -z "${CHAOS_INSIDE:-}" ]; then
	if unshare -rm true 2>/dev/null; then
		CHAOS_INSIDE=mounts exec unshare -rm "$0" "$build" "$count" "$seed"
	fi
	export CHAOS_INSIDE=bare
	echo 'no user namespaces here: full disks and leaks of /dev/shm are not tested'
fi
rm -rf "$out"
mkdir -p "$out"
if [ "$CHAOS_INSIDE" = mounts ]; then
	for writable in /tmp "$out"; do
		mount --rbind "$writable" "$writable"
	done
	mount -t tmpfs tmpfs /dev/shm
	mount -o remount,bind,ro /
fi
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 MVBENCH_UNBOUND=1

homes=('strategy = serial' 'strategy = allreduce
workers = 2' 'strategy = asgd
workers = 2
table-home = shared' 'strategy = asgd
workers = 2
table-home = onesided' 'strategy = asgd
workers = 2
servers = 1' 'strategy = bsp
workers = 2
bsp.backup = 1' 'strategy = easgd
workers = 2
sync-every = 4' 'strategy = gossip
workers = 3' 'strategy = periodic
workers = 2
sync-every = 8' 'strategy = asgd
workers = 4
platform = sim
sim.platform = ethernet_1g
sim.step-time = 1ms' 'strategy = allreduce
workers = 8
platform = sim
sim.platform = ethernet_1g
sim.step-time = 1ms' 'strategy = ssp
workers = 2
servers = 1')
# On the hosts of a lab, which share no memory.
apart=('strategy = serial' 'strategy = allreduce
workers = 2' 'strategy = asgd
workers = 2' 'strategy = asgd
workers = 2
table-home = onesided' 'strategy = bsp
workers = 2' 'strategy = ssp
workers = 2
servers = 1' 'strategy = periodic
workers = 2
sync-every = 8' 'strategy = gossip
workers = 3' 'strategy = asgd
workers = 4
platform = sim
sim.platform = ethernet_1g
sim.step-time = 1ms')
disturbances=(KILL KILL KILL SEGV ABRT TERM INT HUP STOP STOP-CONT twice)
[ "$CHAOS_INSIDE" != mounts ] || disturbances+=(full)
if said=$("$mvbench" lab run 2 --probe=false -- true 2>&1); then
	disturbances+=(cut cut-heal off)
else
	echo "cut links are not tested: $said"
fi
[ -z "${ONLY:-}" ] || read -ra disturbances <<<"$ONLY"

q() { sqlite3 -cmd '.timeout 5000' "$db" "$1"; }
# All processes of this trial: their command lines contain its database.
mine() {
	local p
	for p in $(pgrep -f -- "$db"); do
		[ "$(cat "/proc/$p/comm" 2>/dev/null)" = timeout ] || echo "$p"
	done
}
role() {
	case $(tr '\0' ' ' <"/proc/$1/cmdline" 2>/dev/null) in
	*mpirun*) echo mpirun ;;
	*mvbench-sim*) echo simulator ;;
	*' lab run '*) echo lab ;;
	*' sweep '*) echo sweep ;;
	*) echo rank ;;
	esac
}
sweep() { # [options]; at most a minute
	# a shell's background commands ignore SIGINT
	env --default-signal=INT timeout -k 5 60 "${lab[@]}" "$mvbench" sweep "$dir/cells.ini" --db="$db" "$@" </dev/null >>"$dir/log" 2>&1
}
wrong() { echo "$*" >>"$dir/wrong"; }
# Runs mvbench lab inside the trial's lab. Only processes in the lab see its folder.
to_lab() { # pid in it, words
	nsenter -t "$1" -m "$mvbench" lab "${@:2}" >>"$dir/log" 2>&1
}

# The sweep in the lab; it waits for it to have begun.
first_of_lab() {
	local i p
	for i in {1..50}; do
		for p in $(mine); do
			[ "$(role "$p")" != sweep ] || { echo "$p" && return; }
		done
		sleep 0.1
	done
	return 1
}

disturb() { # what
	local pids pid
	sleep "0.$(printf %03d $((RANDOM % 1000)))"
	[ $((RANDOM % 2)) = 0 ] || sleep "0.$(printf %03d $((RANDOM % 1000)))"
	mapfile -t pids < <(mine)
	[ ${#pids[@]} -gt 0 ] || return 0
	pid=${pids[RANDOM % ${#pids[@]}]}
	case $1 in
	twice) sweep --retry & wait $! ;;
	cut*)
		pid=$(first_of_lab) || return 0
		victim='link'
		to_lab "$pid" cut lab2 || return 0 # the sweep is over
		if [ "$1" = cut ]; then sleep 12; else sleep "$((RANDOM % 3)).$((RANDOM % 10))"; fi
		to_lab "$pid" heal lab2
		;;
	off)
		pid=$(first_of_lab) || return 0
		victim=host
		to_lab "$pid" off lab2
		;;
	full) head -c 40m /dev/zero >"$dir/disk/fill" 2>/dev/null && wrong "the disk is not full" ;;
	STOP)
		victim=$(role "$pid")
		kill -STOP "$pid" 2>/dev/null
		[ "$victim" != sweep ] || { sleep 1; kill -CONT "$pid" 2>/dev/null; }
		;;
	STOP-CONT)
		victim=$(role "$pid")
		kill -STOP "$pid" 2>/dev/null
		sleep 0.5
		kill -CONT "$pid" 2>/dev/null
		;;
	*)
		victim=$(role "$pid")
		kill -s "$1" "$pid" 2>/dev/null
		;;
	esac
}

trial() {
	dir=$out/$1 victim=-
	RANDOM=$((seed + $1))
	mkdir -p "$dir/disk" "$dir/tmp" || exit 1
	export TMPDIR=$dir/tmp
	local what=${disturbances[RANDOM % ${#disturbances[@]}]} done_before lost i left first home lab=()
	home=("${homes[@]}")
	local stall=9s
	[ "$what" != cut-heal ] || stall=30s # so that load alone does not end a run
	case $what in cut* | off) lab=("$mvbench" lab run 2 --probe=false --) home=("${apart[@]}") ;; esac
	[ "$CHAOS_INSIDE" != mounts ] || mount -t tmpfs -o size=32m tmpfs "$dir/disk"
	db=$dir/disk/chaos-$1.db
	{
		printf '[defaults]\nworkload = perceptron\nepochs = 2\nbatch = 100\nstall-timeout = %s\n' "$stall"
		for ((i = 1; i <= cells; i++)); do
			printf '[c%d]\n%s\nseed = %d\n' "$i" "${home[RANDOM % ${#home[@]}]}" "$i"
			[ ${#lab[@]} = 0 ] || echo 'step-time = 20ms' # slow enough to lose its link during training
		done
	} >"$dir/cells.ini"
	sweep &
	first=$!
	disturb "$what"
	wait "$first"
	first=$?
	wait
	# A run that trains survives that; mpirun stops trying to reach a host after three seconds.
	[ "$what" != cut-heal ] || [ "$(q "SELECT count(*) FROM run WHERE status = 'failed' AND
		reason NOT LIKE 'mpirun could not start the workers%'")" = 0 ] || wrong 'a run failed in a short cut'
	if [ "$what" = full ]; then
		rm -f "$dir/disk/fill"
	fi
	done_before=$(q "SELECT group_concat(id) FROM run WHERE status = 'done'" 2>/dev/null)
	for i in 1 2 3 4 5; do
		sweep --retry && break
		sleep 1 # a process without its parent may still be running
	done
	[ "$(q 'PRAGMA integrity_check')" = ok ] || wrong 'the database is damaged'
	[ -z "$(q 'PRAGMA foreign_key_check')" ] || wrong 'rows without a run'
	[ "$(q "SELECT count(*) FROM run WHERE status IN ('running', 'pending')")" = 0 ] ||
		wrong "rows still running: $(q "SELECT id, status FROM run WHERE status IN ('running', 'pending')")"
	[ "$(q "SELECT count(DISTINCT config_hash) FROM run WHERE status = 'done'")" = "$cells" ] || wrong 'cells are missing'
	[ "$(q "SELECT count(*) FROM run AS r WHERE status = 'done' AND epochs + 1 <>
		(SELECT count(*) FROM epoch WHERE run_id = r.id)")" = 0 ] || wrong 'a finished run is partial'
	lost=$(q "SELECT count(*) FROM run WHERE id IN (${done_before:-0}) AND status <> 'done'")
	[ "$(q "SELECT count(*) FROM run WHERE id IN (${done_before:-0})")" = \
		"$(tr , '\n' <<<"$done_before" | grep -c .)" ] || wrong 'a finished run is gone'
	[ "$lost" = 0 ] || wrong 'a finished run is no longer finished'
	for i in {1..30}; do
		left=$(mine)
		[ -n "$left" ] || break
		sleep 0.5
	done
	for i in $left; do
		wrong "left: $(role "$i") $i, $(tr '\0' ' ' <"/proc/$i/cmdline" 2>/dev/null | cut -c 1-60)"
		kill -9 "$i"
	done
	# If a watcher was killed, the next run removes its folders.
	if [ -n "$(ls -A "$dir/tmp")" ]; then
		sleep 3
		sweep --resume=false --seed=9 --db="$dir/disk/other.db"
		rm -f "$dir"/disk/other.db*
	fi
	left=$(cd "$dir/tmp" && find . -mindepth 1 | head -n 3 | tr '\n' ' ')
	[ -z "$left" ] || wrong "left in TMPDIR: $left"
	"$mvbench" table --db="$db" >>"$dir/log" 2>&1 || wrong 'table fails'
	left=$(find "$dir/disk" -type f ! -name "chaos-$1.db" | tr '\n' ' ')
	[ -z "$left" ] || wrong "left beside the database: $left"
	local end=mended
	[ "$first" != 0 ] || end=unharmed
	[ ! -e "$dir/wrong" ] || end=wrong
	echo "$what $victim $end" >"$dir/verdict"
	[ "$CHAOS_INSIDE" != mounts ] || cp "$dir/disk"/*.db "$dir" 2>/dev/null
	[ "$CHAOS_INSIDE" != mounts ] || umount -l "$dir/disk"
	if [ -e "$dir/wrong" ]; then
		sed "s|^|trial $1 (seed $seed), $what, $victim: |" "$dir/wrong"
	else
		cp "$dir/verdict" "$out/verdict-$1"
		rm -rf "$dir"
	fi
}

lane=0
while [ "$lane" -lt "$lanes" ]; do
	for ((n = lane + 1; n <= count; n += lanes)); do
		[ "$(date +%s)" -lt "${MVBENCH_TEST_UNTIL:-9999999999}" ] || break
		: >"$out/begun-$n"
		trial "$n"
	done 2>>"$out/stderr" &
	lane=$((lane + 1))
done
wait
if [ "$CHAOS_INSIDE" = mounts ]; then
	TMPDIR=$out "$mvbench" run --workload=perceptron --workers=2 --strategy=allreduce --epochs=1 --db="$out/last.db" >"$out/log" 2>&1
	left=$(find /dev/shm -mindepth 1 | sed 's/.*\///' | tr '\n' ' ')
	[ -z "$left" ] || echo "left in /dev/shm: $left" | tee "$out/shm"
fi
cat "$out"/verdict-* "$out"/*/verdict 2>/dev/null | sort | awk '
	{ n[$1 " " $2 " " $3]++ }
	!(($1 " " $2) in seen) { seen[$1 " " $2]; row[++rows] = $1 " " $2 }
	END {
		printf "%-10s %-10s %9s %9s %9s\n", "what", "target", "unharmed", "mended", "wrong"
		for (i = 1; i <= rows; i++) {
			split(row[i], part, " ")
			printf "%-10s %-10s %9d %9d %9d\n", part[1], part[2], n[row[i] " unharmed"],
				n[row[i] " mended"], n[row[i] " wrong"]
		}
	}'
bad=$(cat "$out"/*/verdict 2>/dev/null | grep -c wrong)
begun=$(find "$out" -name 'begun-*' | wc -l)
[ "$(cat "$out"/verdict-* "$out"/*/verdict 2>/dev/null | grep -c .)" = "$begun" ] || {
	echo 'not all trials ended'
	bad=$((bad + 1))
}
[ "$begun" = "$count" ] || echo "$((count - begun)) trials left out: the time limit is reached"
echo "chaos: $begun trials (seed $seed), $bad failed"
[ "$bad" = 0 ] && [ ! -s "$out/shm" ]
