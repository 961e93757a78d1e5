# shellcheck shell=sh
# measure.sh - shared by bench.sh and gpu_bench.sh. Before they source it, they set the build folder,
# the device, the number of runs of a figure, and a folder for temporary files.
: "${build:?}" "${device:?}" "${repeat:?}" "${work:?}"
mvbench=$build/mvbench

wanted() { case " ${ROWS:-all} " in *" all "* | *" $1 "*) return 0 ;; esac; return 1; }
# field NAME: its number in a JSON object on stdin
field() { sed -n "s/.*\"$1\": *\([0-9.eE+-]*\).*/\1/p"; }
# or_say COMMAND...: prints the command's stderr only if it fails
or_say() { "$@" 2>"$work/said" || { cat "$work/said" >&2 && return 1; }; }
ours_json() { or_say "$mvbench" run --format=json --db="$work/bench.db" --device="$device" "$@"; }
ours() { ours_json "$@" | field samples_per_second; }

# find_torch CONDITION: sets python to one whose PyTorch fulfils CONDITION, or to nothing
find_torch() {
	python=
	for p in python3 /usr/bin/python3; do
		[ -z "$python" ] && outside "$p" -c "import torch; assert $1" 2>/dev/null && python=$p
	done
	return 0
}
# A bundle's libraries are not for the machine's own programs.
outside() { LD_LIBRARY_PATH=${MVBENCH_OUTSIDE-${LD_LIBRARY_PATH-}} "$@"; }
# torch WORDS...: PyTorch's samples a second, 0 without PyTorch
torch() {
	if [ -n "$python" ]; then outside "$python" tests/scripts/torch_peer.py "$@" | field samples_per_second; else echo 0; fi
}

# for awk: median(x, n) sorts x; the mean of the middle two if n is even
# shellcheck disable=SC2016
median='function median(x, n,   i, j, t) {
	for (i = 2; i <= n; i++)
		for (j = i; j > 1 && x[j] < x[j-1]; j--) { t = x[j]; x[j] = x[j-1]; x[j-1] = t }
	return n % 2 ? x[(n + 1) / 2] : (x[n / 2] + x[n / 2 + 1]) / 2
}'
# stats FILE COLUMN-A COLUMN-B: median A, median B, median, smallest and largest of A / B
stats() {
	awk -v a="$2" -v b="$3" "$median"'
		{ n++; p[n] = $a; q[n] = $b; r[n] = $b > 0 ? $a / $b : 0 }
		END { m = median(r, n); printf "%.6g %.6g %.4g %.4g %.4g\n", median(p, n), median(q, n), m, r[1], r[n] }' "$1"
}

line='%-30s %6s %12s %12s %8s %17s %8s\n'
titles() { # title of the table, head of the other side's column
	printf '\n%s\n' "$1"
	# shellcheck disable=SC2059
	printf "$line" what batch mvbench "$2" ratio 'smallest..largest' wanted
}
# row WHAT BATCH WANTED FILE A B
row() {
	# shellcheck disable=SC2046
	set -- "$1" "$2" "$3" $(stats "$4" "$5" "$6")
	# shellcheck disable=SC2059
	printf "$line" "$1" "$2" "$(printf %.0f "$4")" "$(printf %.0f "$5")" "$6" "$7..$8" "$3"
}

# codecs BY FLOATS [DEVICE]: a codec's two passes, compared with a copy of the same number of bytes
# (tests/tools/code_speed.c).
codecs() {
	printf '\n%s\n' "$1: encoding and decoding $2 floats, and the least time for their memory traffic [us]"
	shift
	# shellcheck disable=SC2059
	printf "$line" what bytes mvbench floor ratio 'smallest..largest' wanted
	for _ in $(seq "$repeat"); do
		or_say "$build/tests/tools/code_speed" "$1" 20 ${2:+"$2"} >>"$work/codes"
	done
	cut -d' ' -f1 "$work/codes" | sort -u | while read -r codec; do
		sed -n "s/^$codec //p" "$work/codes" >"$work/code"
		case $codec in # 0.7 of the memory's bandwidth, or of the rate of products; 0.3 of it
		bf16 | int8 | sign | randomk | powersgd) want='<= 1.43' ;;
		topk) want='<= 3.33' ;;
		*) want='' ;;
		esac
		row "$codec" "$(cut -d' ' -f2 "$work/code" | head -1)" "$want" "$work/code" 4 6
	done
}

# Images of noise, the same every time; only the time that they take matters. Bytes are never 0, because
# not every awk can print 0.
noise() { # bytes seed
	LC_ALL=C awk -v n="$1" -v seed="$2" 'BEGIN { srand(seed); while (n-- > 0) printf "%c", 1 + int(255 * rand()) }'
}
repeated() { # FILE bytes
	while cat "$1"; do :; done 2>/dev/null | head -c "$2"
}
# noise_cifar FOLDER ROWS FILES TEST-ROWS: in CIFAR-10's binary format: a label and 3 x 32 x 32 pixels
noise_cifar() {
	mkdir -p "$1"
	for label in 1 2 3 4 5 6 7; do
		# shellcheck disable=SC2059
		printf "\\00$label"
		noise 3072 "$label"
	done >"$work/rows"
	for i in $(seq "$3"); do
		repeated "$work/rows" $(($2 * 3073)) >"$1/data_batch_$i.bin"
	done
	repeated "$work/rows" $(($4 * 3073)) >"$1/test_batch.bin"
}
# noise_mnist FOLDER ROWS TEST-ROWS: in MNIST's format
noise_mnist() {
	mkdir -p "$1"
	noise 784000 1 >"$work/rows"
	printf '\1\2\3\4\5\6\7' >"$work/labels"
	for part in "train $2" "t10k $3"; do
		rows=${part#* } part=${part% *}
		n=$(printf '\\0\\0\\%o\\%o' $((rows / 256)) $((rows % 256)))
		# shellcheck disable=SC2059
		{ printf "\\0\\0\\10\\3$n\\0\\0\\0\\34\\0\\0\\0\\34"; repeated "$work/rows" $((rows * 784)); } >"$1/$part-images-idx3-ubyte"
		# shellcheck disable=SC2059
		{ printf "\\0\\0\\10\\1$n"; repeated "$work/labels" "$rows"; } >"$1/$part-labels-idx1-ubyte"
	done
}

# The parameter server: every worker adds to a table and gets all of it, compared with MPI_Allreduce of the
# same number of floats, alternating in one run [ms]. ratio: of the medians; slowest/fastest: of the workers'
# medians.
tables_head() {
	printf '\n%s [ms]\n' "$1"
	printf '%9s %6s %-9s %9s %9s %9s %9s %9s %7s %15s %9s\n' floats ranks home 'add+get' p99 sync allreduce p99 ratio slowest/fastest wanted
}
tables() { # floats ranks passes wanted options...
	wanted tables || return 0
	floats=$1 ranks=$2 passes=$3 want=$4
	shift 4
	bind='--bind-to core:overload-allowed'
	[ "$ranks" -le "$(nproc)" ] || bind='--bind-to none --mca mpi_yield_when_idle 1'
	: >"$work/tables"
	for _ in $(seq "$repeat"); do
		# shellcheck disable=SC2086
		or_say mpirun --quiet --oversubscribe $bind -n "$ranks" "$build/tests/tools/table_speed" "$floats" "$passes" "$@" >>"$work/tables" || return 0
	done
	awk -v want="$want" "$median"'
		{ n++; floats = $2; ranks = $4; home = $6; add[n] = $8; add99[n] = $9; even[n] = $11 / $13; sync[n] = $15; all[n] = $22; all99[n] = $23; ratio[n] = $22 > 0 ? $8 / $22 : 0 }
		END { printf "%9d %6d %-9s %9.4f %9.4f %9.4f %9.4f %9.4f %7.3g %15.3g %9s\n", floats, ranks, home, median(add, n), median(add99, n),
			median(sync, n), median(all, n), median(all99, n), median(ratio, n), median(even, n), want }' "$work/tables"
}
