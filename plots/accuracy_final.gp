# Columns: median, low, high, is_loss
eval extremes(4); loss = most > 0
eval extremes(3); top = loss ? most * 1.02 : 100
array median[blocks]
array high_end[blocks]
do for [i = 1:blocks] {
	stats data index i - 1 using 1 nooutput; median[i] = STATS_max
	stats data index i - 1 using 3 nooutput; high_end[i] = STATS_max
}
eval layout_bars
set xrange [0:top]
if (loss) { set xlabel 'Test loss after the last epoch' } \
else { set xlabel 'Test accuracy after the last epoch [%]' }
do for [i = 1:blocks] {
	set label digits(median[i]) at first high_end[i], first i left offset character 0.8, 0 \
		textcolor rgb ink
}
if (interval ne '') { eval legend_note('Median; ' . interval) }
set style fill solid 0.45 border rgb ink
plot for [i = 1:blocks] data index i - 1 using (0):(i):(0):1:(i - bar_half):(i + bar_half) \
	with boxxyerror linecolor rgb '#0072B2' linewidth 0.6 dashtype 1, \
     for [i = 1:blocks] data index i - 1 using 1:(i):2:3 with xerrorbars linecolor rgb ink linewidth 1 \
	dashtype 1 pointtype -1
