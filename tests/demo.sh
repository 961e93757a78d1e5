#!/bin/sh
# demo.sh BUILD-FOLDER: the demonstration behind `make demo`: sweep, table, plots.
set -eu
cd "$(dirname "$0")/.."
mvbench=$1/mvbench
db=$1/demo.db
out=$1/demo

"$mvbench" sweep workloads/sweeps/demo.ini --db="$db"
echo
"$mvbench" table --db="$db"
echo
"$mvbench" plot --db="$db" --out="$out"
echo
echo "The results are in $db, the plots in $out/."
echo "Next: $mvbench table --db=$db --runs      $mvbench run --help      $mvbench list"
