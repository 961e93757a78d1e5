#!/bin/sh
# tutorial.sh BUILD-FOLDER: runs the commands of plots/TUTORIAL.md, in order and as they stand there, from
# scratch in BUILD-FOLDER/tutorial, and keeps their figures in plots/tutorial. Behind `make tutorial`.
set -eu
build=$(cd "$1" && pwd)
cd "$(dirname "$0")/../.."
pictures=$PWD/plots/tutorial

rm -rf "$build/tutorial"
# What is built, and where, is the caller's choice. Commands are between fences.
fence=$(printf '\140\140\140')
awk -v fence="$fence" 'index($0, fence) == 1 { inside = $0 == fence "sh"; next } inside' plots/TUTORIAL.md |
	sed -e '/^make$/d' -e "s|\$PWD/build|$build|; s|build/tutorial|$build/tutorial|g" >"$build/tutorial.sh"
sh -eu "$build/tutorial.sh"
mkdir -p "$pictures"
cp "$build"/tutorial/*.svg "$pictures"
