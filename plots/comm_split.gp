# Columns: compute, comm, wait, other [s]
stats data using ($1 + $2 + $3 + $4) nooutput; most = STATS_max
unit = time_of(most)
array total[blocks]
do for [i = 1:blocks] {
	stats data index i - 1 using ($1 + $2 + $3 + $4) nooutput; total[i] = STATS_max
}
eval layout_bars
set xrange [0:most / unit]; eval few_tics(0, most / unit)
set xlabel sprintf('Mean time of an epoch [%s]', time_unit(most))
do for [i = 1:blocks] {
	set label time_text(total[i], most) at first total[i] / unit, first i left offset character 0.6, 0 \
		textcolor rgb ink
}
# Greys, because colours are those of strategies; edges separate small parts.
array color[4] = ['#4D4D4D', '#A6A6A6', '#D9D9D9', '#FFFFFF']
array part[4] = ['compute', 'communication', 'waiting', 'other']
do for [k = 1:4] {
	eval legend_box(k, color[k], part[k])
}
from(k) = (k > 1 ? $1 : 0) + (k > 2 ? $2 : 0) + (k > 3 ? $3 : 0)
set style fill solid 1 border rgb ink
plot for [k = 1:4] for [i = 1:blocks] data index i - 1 \
	using (0):(i):(from(k) / unit):((from(k) + column(k)) / unit):(i - bar_half):(i + bar_half) \
	with boxxyerror linecolor rgb color[k] linewidth 0.6 dashtype 1
