# Columns: median, low, high, is_loss
eval extremes(4); loss = most > 0
eval extremes(2); bottom = least
eval extremes(3); top = most
pad = top > bottom ? 0.06 * (top - bottom) : 0.5; bottom = bottom - pad; top = top + pad
if (!loss) { top = min(top, 100); bottom = max(bottom, 0) }
array median[blocks]
do for [i = 1:blocks] { eval number(i, 1); median[i] = number }
eval layout_bars
set xrange [bottom:top]; eval few_tics(bottom, top)
if (loss) { set xlabel 'Test loss after the last epoch' } \
else { set xlabel 'Test accuracy after the last epoch [%]' }
do for [i = 1:blocks] {
	set label sprintf(loss ? '%.4g' : '%.2f', median[i]) at graph 1, first i left offset character 0.6, 0 \
		textcolor rgb ink
}
if (interval ne '') { eval legend_note('Median; ' . interval) }
plot for [i = 1:blocks] data index i - 1 using 1:(i):2:3 with xerrorbars linecolor rgb colour_of(look[i]) \
	linewidth 1.2 dashtype 1 pointtype point_of(look[i]) pointsize 0.9
