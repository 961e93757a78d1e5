#!/bin/sh
# manual.sh HEADER: prints the manual page libmvbench(3) in roff, made of the header's comments and declarations.
set -eu
version=$(sed -n 's/.*MVB_VERSION "\([^"]*\)".*/\1/p' "$1")
printf '.TH LIBMVBENCH 3 "" "mvbench %s" "mvbench manual"\n.SH NAME\n' "$version"
printf 'libmvbench \\- synchronises the workers of your own training loop\n.SH SYNOPSIS\n.nf\n'
# shellcheck disable=SC2016 # the page shows the user this command
printf '#include <libmvbench.h>\n\ncc program.c $(pkg\\-config \\-\\-cflags \\-\\-libs libmvbench)\n.fi\n.SH DESCRIPTION\n'
expand "$1" | awk '
function paragraph() { # once
	if (!open) print ".PP"
	open = 1
}
function code(on) {
	if (on == in_code) return
	if (in_code) print ".fi"
	paragraph()
	if (on) print ".nf"
	open = on ? 0 : open
	in_code = on
}
function line(text) {
	gsub(/\\/, "\\e", text); gsub(/-/, "\\-", text)
	print (text ~ /^[.\047]/ ? "\\&" : "") text
	open = 0
}
BEGIN { open = 1 }
NR == 2 { next } # libmvbench.h - its summary
/^#(ifndef|define LIBMVBENCH|include|ifdef|endif|pragma)/ || /^(extern "C"|[}]$)/ { next }
/^\/\* ---- / {
	code(0); gsub(/^\/\* -+ |:.*| -+ \*\/$/, ""); print ".SH " toupper($0)
	open = 1
	next
}
/^\/\*/ && !in_comment { code(0); in_comment = 1; sub(/^\/\* ?/, "") }
in_comment {
	ends = sub(/ ?\*\/$/, "")
	sub(/^ \* ?/, "")
	indented = /^(    |  [a-zA-Z])/
	if (/^ *$/) { code(0); paragraph() }
	else if (indented != in_code) code(indented)
	if (/[^ ]/) line($0)
	if (ends) in_comment = 0
	next
}
/^$/ { next }
{ code(1); line($0) }
END { code(0) }
'
