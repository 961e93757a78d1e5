#!/bin/sh
# reproduce.sh BUILD-FOLDER: simulates three published tables and compares. Behind `make reproduce`. Fails if
# an error is above the bound of its table (reproduce*.sql).
set -eu
build=$(cd "$1" && pwd)
cd "$(dirname "$0")/../.."
db=$build/reproduce.db failed=0

sweep() {
	"$build/mvbench" sweep "$1" --db="$db" --jobs="$(nproc)" >"$build/reproduce.log" 2>&1 || {
		cat "$build/reproduce.log" >&2
		exit 1
	}
}
# The query's table without its last line, which counts the values that miss their bound.
compare() { # TITLE SQL
	table=$(sqlite3 -batch -bail "$db" <"tests/scripts/$2")
	printf '%s\n\n' "$1"
	echo "$table" | sed '$d'
	echo
	[ "$(echo "$table" | tail -n 1)" = 0.0 ] || failed=1
}

rm -f "$db" "$db-wal" "$db-shm"
sweep multiverso_sim
compare 'Seconds of an epoch of ResNet-32 on CIFAR-10, four GeForce GTX TITAN X' reproduce.sql

tests/scripts/reproduce_measured.sh tests/reference/diloco_measured.csv >"$build/diloco_measured.ini"
sweep "$build/diloco_measured.ini"
sqlite3 -batch "$db" "DROP TABLE IF EXISTS measured" '.mode csv' '.import tests/reference/diloco_measured.csv measured'
compare 'Utilisation of four machines with one L40S each, links shaped to a rate (diloco-measured)' reproduce_measured.sql

sweep streaming_sim
compare 'Rate [Gbit/s] for a utilisation, 1 billion parameters (Streaming DiLoCo, table 4)' reproduce_streaming.sql

sqlite3 -batch "$db" "SELECT format('Simulated: %d runs in %.1f s. They are in %s.', count(*), sum(wall_s), '$db')
	FROM run_summary"
exit $failed
