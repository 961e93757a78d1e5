#!/bin/sh
# reproduce.sh BUILD-FOLDER: simulates Multiverso's table. Behind `make reproduce`. Fails if a
# prediction is off by more than 7 %.
set -eu
build=$(cd "$1" && pwd)
cd "$(dirname "$0")/../.."
db=$build/reproduce.db

rm -f "$db" "$db-wal" "$db-shm"
"$build/mvbench" sweep multiverso_sim --db="$db" >"$build/reproduce.log" 2>&1 || {
	cat "$build/reproduce.log" >&2
	exit 1
}
table=$(sqlite3 -batch -bail "$db" <tests/scripts/reproduce.sql)
echo "Seconds of an epoch of ResNet-32 on CIFAR-10, four GeForce GTX TITAN X"
echo
echo "$table" | sed '$d'
echo
sqlite3 -batch "$db" "SELECT format('Simulated: %d epochs of each in %.2f s. The runs are in %s.',
	min(epochs_done), sum(wall_s), '$db') FROM run_summary"
[ "$(echo "$table" | tail -n 1)" = 0.0 ]
