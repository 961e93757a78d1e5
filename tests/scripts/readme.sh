#!/usr/bin/env bash
# readme.sh BUILD-FOLDER: checks that every command, option, make target, file, function and variable exists that a
# README.md (or plots/TUTORIAL.md, plots/SHAPES.md, strategies/PLUGINS.md, .github/*.md) names in code or links to.
# Prints each missing one as FILE:LINE: WORD, and then exits with 1. It runs only `mvbench help --man`, which has all
# names. At the end it checks the options in tests/gpu_day/*.sh, and runs comments.sh: the files that comments of the
# sources name have to exist too.
#
# Names, in `spans`, fenced blocks and links:
#   mvbench run       a command, and --options after it as that command takes them; sweep files, figures
#   --easgd.beta      elsewhere: an option of any command; --*.rho and --sim.* need at least one match
#   key = value       in a job file (block `ini`, or a here-document into FILE.ini): an option of run, zip or exclude
#   make demo         a target of the Makefile
#   strategies/, net.h   a path from the document's folder or from the top, or the name of some file; NAME
#                     and * match any name. A document may also name files that its own commands make.
#   one_step()        a function, of the file that is named before it on the line, or of any file
#   MVBENCH_DATA      a variable that a source file contains
# A span has to end on its line; otherwise the rest of the document cannot be read.
# Blocks `c` and `python` are separate programs; only a plug-in's name and options are read there.
set -euo pipefail
[ $# = 1 ] || { echo "usage: readme.sh BUILD-FOLDER" >&2; exit 2; }
build=$(cd "$1" && pwd)
cd "$(dirname "$0")/../.."

# Options of other programs that the documents name.
others='--oversubscribe --cflags --libs --mpi --ntasks-per-node --few'
documents=(plots/TUTORIAL.md plots/SHAPES.md strategies/PLUGINS.md .github/*.md)
while read -r file; do documents+=("${file#./}"); done < <(find . \( -path './build*' -o -path './.git' \) -prune -o -name README.md -print | sort)

bad=0
for file in "${documents[@]}"; do # a code formatter may remove the # of a heading
	[[ $(head -n 1 "$file") == '# '* ]] || { echo "$file:1: no heading"; bad=1; }
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$build/mvbench" help --man >"$work/man"
{
	find . \( -path './build*' -o -path './.git' \) -prune -o -print
	find "$build" -maxdepth 3 -type f -perm -u+x ! -name '*.o' -printf './build/%P\n'
	find "$build" -maxdepth 1 -name 'libmvbench.*' -printf './build/%P\n'
} | sed 's|^\./||' >"$work/tree"
sed -n 's/^\([a-z][a-z-]*\):.*/\1/p' Makefile tests/Makefile | sort -u >"$work/targets"
# Files that make targets leave in the build folder.
sed -n 's/.*\$\(1\|build\|(B)\)\/\([A-Za-z0-9_.-]*\).*/build\/\2/p' tests/scripts/*.sh Makefile tests/Makefile >>"$work/tree"

cat >"$work/check.awk" <<'AWK'
function say(what) { printf "%s:%d: %s\n", FILENAME, at, what; bad = 1 }
function roff(s) { gsub(/\\-/, "-", s); gsub(/"/, "", s); return s }
# ---- The names that exist ----
part == "man" && /^\.SH / { section = roff(substr($0, 5)); owner = section == "THE EXPERIMENT" ? "run" : ""; next }
part == "man" && /^\.SS / {
	name = roff(substr($0, 5)); kind[section, name] = 1
	owner = section == "COMMANDS" ? name : "run"
	if (section == "COMMANDS") command[name] = 1
	next
}
part == "man" && /^It takes options of mvbench run too/ { takes_run[owner] = 1 }
part == "man" && /^\.B / {
	name = roff(substr($0, 4)); sub(/=.*/, "", name)
	if (name ~ /^--/) { option[owner, name] = 1; any[name] = 1 }
	else { sub(/^sim:/, "", name); kind[section, name] = 1 }
}
part == "man" { next }
part == "targets" { target[$1] = 1; next }
part == "tree" {
	path[$0] = 1; n = split($0, step, "/"); base[step[n]] = 1
	for (p = $0; sub(/\/[^\/]*$/, "", p);) path[p] = 1
	next
}
# ---- One word ----
function is_option(who, name, o, head, tail) {
	if (index(" " others " ", " " name " ") || name == "--help") return 1
	if (name ~ /[*]|NAME|STRATEGY/) {
		head = name; sub(/([*]|NAME|STRATEGY).*/, "", head)
		tail = name; sub(/.*([*]|NAME|STRATEGY)/, "", tail)
		for (o in any) if (index(o, head) == 1 && substr(o, length(o) - length(tail) + 1) == tail) return 1
		return 0
	}
	head = name; sub(/^--/, "", head); tail = head; sub(/[.].*/, "", head); sub(/^[^.]*[.]/, "", tail)
	if (head in own_name && tail in own_option) return 1
	if (who == "") return name in any
	return (who, name) in option || ((who in takes_run || who == "sweep") && ("run", name) in option)
}
function exists(p, q, flat) {
	sub(/\/+$/, "", p)
	while (sub(/^\.\//, "", p));
	if (p == "" || p in path || p in made) return 1
	flat = p !~ /\//
	if (flat && p in base) return 1
	if (p ~ /[*]|NAME|FOLDER|FILE|RUN/) {
		gsub(/[.]/, "[.]", p); gsub(/[*]+|NAME|FOLDER|FILE|RUN/, "[^/]*", p)
		for (q in path) if (q ~ "^" p "$") return 1
		if (flat) for (q in base) if (q ~ "^" p "$") return 1
	}
	return 0
}
function is_there(p, up, here) {
	here = FILENAME; if (!sub(/\/[^\/]*$/, "", here)) here = "."
	up = p
	while (sub(/^\.\.\//, "", up)) if (!sub(/\/[^\/]*$/, "", here)) here = "."
	return exists(here == "." ? up : here "/" up) || (up == p && exists(p))
}
function see_path(p) {
	sub(/[.]+$/, "", p)
	if (p ~ /^[\/~-]|[$]|[.][.][.]|^[0-9.]+$/ || p == "") return
	if (p !~ /^(strategies|workloads|sim|runtime|results|plots|tests|build)\// && \
	    p !~ /^[.A-Za-z0-9_*\/-]+[.](c|h|cu|cc|md|sql|gp|ini|sh|svg|py|def|xml|css|js|inc)$/ && p !~ /^[a-z_]+\/$/) return
	if (!is_there(p)) say("there is no file " p)
}
function see_name(what, section, name) {
	if (name ~ /^[a-z0-9_]+$/ && !((section, name) in kind)) say("there is no " what " " name)
}
# ---- A piece of code ----
function see_code(text, s, n, i, piece, bare) {
	for (s = text; match(s, /(out|export|save)=[A-Za-z0-9_.\/-]+|>[A-Za-z0-9_.\/-]+/); s = substr(s, RSTART + RLENGTH)) {
		i = substr(s, RSTART, RLENGTH); sub(/^.*[=>]/, "", i); made[i] = 1
	}
	n = split(text, piece, /&&|[|][|]|[;|] |[;|]$| -- /)
	for (i = 1; i <= n; i++) see_piece(piece[i])
	bare = text; sub(/(^|[ \t])#.*/, "", bare)
	n = split(bare, piece, /&&|[|][|]|[;|] |[;|]$/)
	for (i = 1; i <= n; i++) see_make(piece[i])
	for (s = text; match(s, /MVBENCH_[A-Z_]+/); s = substr(s, RSTART + RLENGTH))
		print "env\t" FILENAME ":" at "\t" substr(s, RSTART, RLENGTH) >lookups
	see_tokens(text)
}
function see_piece(text, who, s, w) {
	who = ""
	if (match(text, /(^|[ \t\/(])mvbench +[a-z][a-z_]*/)) {
		who = substr(text, RSTART, RLENGTH); sub(/.*mvbench +/, "", who)
		if (!(who in command)) { say("there is no command mvbench " who); who = "" }
	}
	for (s = text; match(s, /(^|[^-A-Za-z0-9_])--[a-z*NS][A-Za-z0-9_.*-]*/); s = substr(s, RSTART + RLENGTH)) {
		w = substr(s, RSTART, RLENGTH); sub(/^[^-]*/, "", w); sub(/[.-]+$/, "", w)
		if (!is_option(who, w)) say(who == "" ? "there is no option " w : "mvbench " who " has no option " w)
	}
	if (who == "run" && text ~ /--workers=([2-9]|[1-9][0-9])/ && text !~ /--strategy=/)
		say("serial, the default strategy, refuses several workers")
	if (match(text, /--strategy=[a-z_]+/)) see_name("strategy", "STRATEGIES", substr(text, RSTART + 11, RLENGTH - 11))
	if (match(text, /--workload=[a-z_]+/)) see_name("workload", "WORKLOADS", substr(text, RSTART + 11, RLENGTH - 11))
	if (match(text, /--sim[.]platform=[a-z0-9_]+/)) {
		w = substr(text, RSTART + 15, RLENGTH - 15)
		if (w != "local" && w != "hosts") see_name("platform", "SIMULATED PLATFORMS", w)
	}
	if (who == "plot" && match(text, /mvbench plot +[a-z_]+/)) {
		w = substr(text, RSTART, RLENGTH); sub(/.* /, "", w)
		if (!(("plots/" w ".gp") in path) && !((w ".gp") in made)) say("there is no figure " w)
	}
	if (who == "sweep" && match(text, /mvbench sweep +[A-Za-z0-9_.\/]+/)) {
		w = substr(text, RSTART, RLENGTH); sub(/.* /, "", w); s = w; sub(/[.]ini$/, "", s)
		if (w !~ /NAME|FILE/ && !(("workloads/sweeps/" s ".ini") in path) && !(w in made) && !is_there(w))
			say("there is no job file " w)
	}
}
function see_make(s, n, i, word) {
	while (sub(/^[ \t]*[A-Z_]+=[^ ]* +/, "", s));
	if (s ~ /^[ \t]*make( |$)/) {
		n = split(s, word, /[ \t]+/)
		for (i = word[1] == "" ? 3 : 2; i <= n; i++)
			if (word[i] ~ /^[a-z][a-z-]*$/ && !(word[i] in target)) say("there is no target make " word[i])
	}
}
function see_tokens(text, s, p, f) {
	gsub(/--(db|out|export|import|hostfile|data-dir|figures|program)=[^ ]*/, " ", text)
	f = ""
	for (s = text; match(s, /[A-Za-z0-9_.*\/~$-]+([(][)])?/); s = substr(s, RSTART + RLENGTH)) {
		p = substr(s, RSTART, RLENGTH)
		if (p ~ /^[a-z_][a-z0-9_]*[(][)]$/) print "function\t" FILENAME ":" at "\t" p "\t" f >lookups
		else if (p !~ /[(]/ && substr(s, RSTART - 1, 1) != "=") { see_path(p); if (p ~ /[.](c|cu|h)$/) f = p }
		else if (p !~ /[(]/ && p ~ /\//) see_path(p)
	}
}
function see_key(text) {
	if (text !~ /^[a-z][a-z._-]* *=/) return
	sub(/ *=.*/, "", text)
	if (text == "zip" || text == "exclude") return
	if (!is_option("run", "--" text)) say("no option has the key " text)
}
function see_arguments(line, name) {
	for (; line ~ /^def / && match(line, /[a-z_]+: [a-z]+ =/); line = substr(line, 5)) {
		line = substr(line, RSTART); name = line; sub(/:.*/, "", name); own_option[name] = 1
	}
}
# ---- A document ----
FNR == 1 { fence = ""; heredoc = ""; held = ""; split("", made) }
/^```/ && fence == "" { fence = substr($0, 4); if (fence == "") fence = "text"; next }
/^```/ { fence = ""; next }
fence == "c" { # if the first comment names a file: the file, and its plug-in's options
	if (match($0, /^\/\* [a-z_]+[.]c - /)) made[substr($0, 4, RLENGTH - 6)] = 1
	if (match($0, /OPTION\([a-z_]+, [A-Z]+, "[a-z-]+"/)) {
		name = substr($0, RSTART, RLENGTH - 1); sub(/.*"/, "", name); own_option[name] = 1
	}
	if (match($0, /[.]name = "[a-z_]+"/)) own_name[substr($0, RSTART + 9, RLENGTH - 10)] = 1
	next
}
fence == "python" { # the same: a comment with the file's name, and arguments of functions with their types
	if (match($0, /^# [a-z_]+[.]py - /)) {
		name = substr($0, 3, RLENGTH - 5); made[name] = 1; sub(/[.]py$/, "", name); own_name[name] = 1
	}
	see_arguments($0)
	next
}
fence == "ini" { # the same: a comment with the file's name
	at = FNR; see_key($0)
	if ($0 ~ /^; [a-z_]+[.]ini$/) made[substr($0, 3)] = 1
	next
}
heredoc != "" {
	at = FNR
	if ($0 == heredoc) heredoc = ""
	else if (into ~ /[.]ini$/) see_key($0)
	else if (into ~ /[.]py$/) { name = into; sub(/[.]py$/, "", name); own_name[name] = 1; see_arguments($0) }
	next
}
fence != "" {
	if (held == "") at = FNR
	line = held $0; held = ""
	if (sub(/\\$/, "", line)) { held = line; next }
	if (match(line, /<<'?[A-Z]+'?/)) {
		heredoc = substr(line, RSTART + 2, RLENGTH - 2); gsub(/'/, "", heredoc)
		into = line; sub(/.*>/, "", into); sub(/ .*/, "", into)
		if (match(line, />[^ ]+/)) { into = substr(line, RSTART + 1, RLENGTH - 1); made[into] = 1; sub(/.*\//, "", into); made[into] = 1 }
		next
	}
	see_code(line)
	next
}
{
	at = FNR
	for (line = $0; match(line, /\]\([^) ]+\)/); line = substr(line, RSTART + RLENGTH)) {
		link = substr(line, RSTART + 2, RLENGTH - 3); sub(/#.*/, "", link)
		if (link != "" && link !~ /^(https?|mailto):/ && !is_there(link)) say("the target of link " link " does not exist")
	}
	n = split($0, span, "`")
	if (n > 0 && n % 2 == 0) say("a code span does not end on its line")
	for (k = 2; k <= n; k += 2) see_code(span[k])
}
END { exit bad }
AWK

awk -v others="$others" -v lookups="$work/lookups" -f "$work/check.awk" part=man "$work/man" part=targets "$work/targets" \
	part=tree "$work/tree" part=document "${documents[@]}" || bad=1
# Names that only the sources have.
sort -u "$work/lookups" 2>/dev/null >"$work/wanted" || true
while IFS=$'\t' read -r what where word file; do
	word=${word%()}
	if [ "$what" = env ]; then
		grep -rqwF "$word" --include='*.[ch]' --include='*.sh' --include=Makefile --exclude=readme.sh \
			Makefile runtime workloads results sim tests || { echo "$where: no source reads $word"; bad=1; }
	else
		made="" # LOSS(mse, ...) makes vec_mse()
		case $word in vec_*) made="|^LOSS\\(${word#vec_}," ;; esac
		grep -qE "\<$word\($made" mvbench.h "${file:-/dev/null}" 2>/dev/null && [ -n "$file" ] ||
			{ [ -z "$file" ] && grep -rqE "\<$word\(" --include='*.[ch]' mvbench.h runtime strategies workloads results plots sim main.c; } ||
			{ echo "$where: there is no function $word()${file:+ in $file}"; bad=1; }
	fi
done <"$work/wanted"
# Options of the scripts for a GPU, which no test runs as a whole: of mvbench, or of the other programs that they start.
{
	sed -n 's/\\-/-/g; s/^\.B "*\(--[a-z][a-z0-9_.-]*\).*/\1/p' "$work/man"
	printf '%s\n' --abbrev --gpt --model --query-compute-apps --query-gpu --repeat --strip-components
} >"$work/options"
grep -noE -- '--[a-z][a-z0-9_.-]*=' tests/gpu_day/*.sh | sed 's/=$//' | awk -F: '
	FILENAME != "-" { known[$0] = 1; next }
	!($3 in known) { print $1 ":" $2 ": there is no option " $3; bad = 1 }
	END { exit bad }' "$work/options" - || bad=1
tests/scripts/comments.sh || bad=1
[ $bad = 1 ] || echo "readme: ok, ${#documents[@]} documents"
exit $bad
