#!/bin/sh
# demo.sh BUILD-FOLDER: the demonstration behind `make demo`: sweep, table, plots, report.
set -eu
cd "$(dirname "$0")/../.."
mvbench=$1/mvbench
db=$1/demo.db
out=$1/demo
command -v gnuplot >/dev/null || { # before minutes of training
	echo 'gnuplot, which draws the figures, is missing: make deps installs it' >&2
	exit 1
}

"$mvbench" sweep workloads/sweeps/demo.ini --db="$db"
echo
"$mvbench" table --db="$db"
echo
"$mvbench" plot --db="$db" --out="$out"
"$mvbench" report --db="$db" --out="$out/report.html" --title="mvbench: the demonstration"
echo
echo "The results are in $db, the plots in $out/."
echo "All of them are on one page: file://$(cd "$out" && pwd)/report.html"
echo "Next: the tutorial, an afternoon in nineteen steps: file://$(pwd)/plots/TUTORIAL.md"
echo "      $mvbench table --db=$db --runs      $mvbench run --help      $mvbench list"
