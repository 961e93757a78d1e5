#!/bin/sh
# deps.sh BUILD-FOLDER SUDO PACKAGE...: installs the Debian packages that are missing. SUDO: the command that gets
# root's rights, or "".
set -eu
build=$1 sudo=$2
shift 2
missing=$(for p; do dpkg -s "$p" 2>/dev/null | grep -q '^Status: .* installed' || printf '%s ' "$p"; done)
[ -n "$missing" ] || exit 0
if [ -n "$sudo" ] && ! command -v "${sudo%% *}" >/dev/null; then
	echo "packages are missing; type as root: apt-get install --no-install-recommends $missing" >&2
	exit 1
fi
echo "installing (a minute or more; $build/apt.log has the details) $missing"
failed() {
	tail -5 "$build/apt.log"
	exit 1
}
# shellcheck disable=SC2086
$sudo apt-get update -qq || failed
# shellcheck disable=SC2086
DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq --no-install-recommends $missing >"$build/apt.log" 2>&1 &
apt=$!
while sleep 2 && kill -0 $apt 2>/dev/null; do printf .; done
echo
wait $apt || failed
