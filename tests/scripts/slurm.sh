#!/bin/sh
# slurm.sh BUILD-FOLDER: tests mvbench under a real Slurm, a controller and two nodes, on two virtual hosts of
# this machine (mvbench lab). Runs as root, because Slurm's daemons do. Installs the daemons if they are missing.
# Behind `make slurm-test`.
set -eu
build=$(cd "$1" && pwd)
mvbench=$build/mvbench
out=${OUT:-$build/slurm}

if [ "${2:-}" = inside ]; then
	# --- on lab1; lab2 is the other host ------------------------------------------------------------
	cd "$out"
	cat >slurm.conf <<CONF
ClusterName=lab
SlurmctldHost=lab1
AuthType=auth/munge
AuthInfo=socket=$out/munge.socket
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation=$out/state
SlurmdSpoolDir=$out/spool-%n
TmpFS=$out/tmp
SlurmctldPidFile=$out/slurmctld.pid
SlurmdPidFile=$out/slurmd-%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
MpiDefault=none
ReturnToService=2
SchedulerParameters=sched_interval=1
NodeName=lab1 NodeAddr=lab1 CPUs=2 State=UNKNOWN
NodeName=lab2 NodeAddr=lab2 CPUs=2 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES State=UP OverSubscribe=YES
CONF
	export SLURM_CONF="$out/slurm.conf"
	mkdir -p state spool-lab1 spool-lab2 tmp
	dd if=/dev/urandom of=munge.key bs=1024 count=1 status=none
	chmod 400 munge.key
	munged --foreground --force --key-file="$out/munge.key" --socket="$out/munge.socket" --pid-file="$out/munge.pid" \
		--log-file="$out/munge.log" --seed-file="$out/munge.seed" >munged.out 2>&1 &
	sleep 1
	slurmctld -D -f "$SLURM_CONF" >slurmctld.out 2>&1 &
	slurmd -D -f "$SLURM_CONF" -N lab1 >slurmd-lab1.out 2>&1 &
	# hosts share files, and PMIx needs a folder of its own on each
	"$mvbench" lab exec lab2 -- sh -c "mount -t tmpfs none $out/tmp && exec slurmd -D -f $SLURM_CONF -N lab2" \
		>slurmd-lab2.out 2>&1 &
	for _ in $(seq 60); do
		[ "$(sinfo -h -t idle -o %D)" = 2 ] && break
		sleep 0.5
	done
	sinfo
	bad=0
	expect() { # NAME WORDS: the output in $out/said must contain WORDS
		if grep -q -- "$2" said; then
			echo "ok: $1"
		else
			echo "NOT ok: $1: \"$2\" is not in:"
			sed 's/^/	/' said
			bad=1
		fi
	}
	two_ranks() { # PMI
		srun --mpi="$1" -N2 -n2 "$mvbench" run --workload=softmax --batch=100 --epochs=2 --workers=2 \
			--strategy=allreduce --db="$out/run.db"
	}

	two_ranks none >said 2>&1 || true
	expect 'srun without PMI is refused, and the message names the option' 'give srun --mpi=pmix'
	two_ranks pmix >said 2>&1 || true
	sqlite3 run.db "SELECT status, hosts, launcher LIKE 'srun, Slurm job %' FROM run" >>said 2>&1 || true
	expect 'srun --mpi=pmix' 'done|lab1,lab2|1'

	cat >cells.ini <<'INI'
[defaults]
workload = softmax
batch = 100
epochs = 1
workers = 2
seed = 1..2
[cells]
strategy = allreduce, asgd, periodic
INI
	"$mvbench" submit cells.ini --array=2 --nodes=2 --db=all.db --dry-run >said 2>&1 || true
	expect 'submit --dry-run prints the script' '#SBATCH --array=1-2'
	"$mvbench" submit cells.ini --array=2 --nodes=2 --db=all.db >said 2>&1 || true
	expect 'submit' '6 cells in 2 parts'
	for _ in $(seq 240); do
		[ -z "$(squeue -h)" ] && break
		sleep 0.5
	done
	cat cells-*.out >said 2>&1
	sqlite3 all.db "SELECT count(*), count(DISTINCT config_hash), min(status), max(status), group_concat(DISTINCT hosts),
		min(launcher LIKE '%Slurm job %'), min(strategy <> 'asgd' OR servers = 2) FROM run" >>said 2>&1 || true
	expect 'all cells are in one database' '^6|6|done|done|lab1,lab2|1|1$'
	rm -f cells-*.out
	"$mvbench" submit cells.ini --array=2 --nodes=2 --db=all.db >said 2>&1 || true
	for _ in $(seq 120); do
		[ -z "$(squeue -h)" ] && break
		sleep 0.5
	done
	{
		sqlite3 all.db "SELECT count(*) FROM run"
		grep -c 'finished cells were not run again' cells-*_*.out
	} 2>&1 | tr '\n' ' ' >said || true
	expect 'submitted again, finished cells are not run again' '^6 cells-[0-9]*_1.out:1 cells-[0-9]*_2.out:1'
	exit "$bad"
fi

if [ "$(id -u)" != 0 ]; then
	echo "slurm.sh: Slurm's daemons need root: sudo make slurm-test" >&2
	exit 2
fi
missing=
for p in slurmctld slurmd slurm-client munge sqlite3; do
	dpkg -s "$p" 2>/dev/null | grep -q '^Status: .* installed' || missing="$missing $p"
done
if [ -n "$missing" ]; then
	apt-get update -qq
	# shellcheck disable=SC2086
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
fi
rm -rf "$out"
mkdir -p "$out"
chmod 755 "$out"
"$mvbench" lab run 2 --probe=false -- "$0" "$build" inside
