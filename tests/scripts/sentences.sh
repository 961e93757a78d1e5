#!/bin/sh
# sentences.sh [FILE...]: counts the words of each sentence of the pages. Fails when a sentence has more
# than 30 words, or when more than one in twenty has more than 25. Prints each of these with its line.
# A code span is one word. Code blocks and headings do not count; a list item and a cell of a table
# begin a sentence.
set -eu
cd "$(dirname "$0")/../.."
[ $# -gt 0 ] || {
	# shellcheck disable=SC2046
	set -- $(git ls-files '*README.md' plots/TUTORIAL.md plots/SHAPES.md strategies/PLUGINS.md runtime/lib/*.md CHANGELOG.md '.github/*.md' | sort -u)
}
awk '
function sentence(text, n, words, i, w) {
	n = split(text, words, /[ \t]+/)
	w = 0
	for (i = 1; i <= n; i++)
		if (words[i] ~ /[A-Za-z0-9`]/)
			w++
	if (w < 4) # a label, not a sentence
		return
	all++
	if (w > 25) {
		long++
		printf "%s:%d: %d words: %.70s...\n", FILENAME, line, w, text
	}
	if (w > 30)
		longest++
}
function flush(n, parts, i) {
	gsub(/`[^`]*`/, "`code`", text)
	gsub(/\]\([^)]*\)/, "]", text)
	gsub(/(e\.g|i\.e|et al|vs)\./, "abbreviation", text)
	n = split(text, parts, /[.!?]["*)_]*([ \t]+|$)/)
	for (i = 1; i <= n; i++)
		sentence(parts[i])
	text = ""
}
FNR == 1 { if (NR > 1) flush(); code = 0 }
/^[ \t]*```/ { flush(); code = !code; next }
code { next }
/^#/ || /^[ \t]*$/ || /^[ \t]*\|[-:| ]*$/ { flush(); next }
/^[ \t]*\|/ {
	flush()
	line = FNR
	gsub(/`[^`]*`/, "`code`")
	k = split($0, cells, "|")
	for (c = 1; c <= k; c++) {
		text = cells[c]
		flush()
	}
	next
}
/^[ \t]*([-*+]|[0-9]+\.)[ \t]/ { flush(); sub(/^[ \t]*([-*+]|[0-9]+\.)[ \t]/, "") }
{ if (text == "") line = FNR; text = text " " $0 }
END {
	flush()
	printf "%d sentences, %d with more than 25 words, %d with more than 30\n", all, long, longest
	exit longest > 0 || long * 20 > all
}' "$@"
