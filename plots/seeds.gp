# Columns: a run's value; median, low, high of all runs; is_loss, number
eval extremes(5); loss = most > 0
array median[blocks]
do for [i = 1:blocks] { eval number(i, 2); median[i] = number }
eval extremes(1); pad = most > least ? 0.04 * (most - least) : 0.5; bottom = least - pad; top = most + pad
if (!loss) { top = min(top, 100); bottom = max(bottom, 0) }
bar_height = 24
eval layout_bars
set xrange [bottom:top]; eval few_tics(bottom, top)
if (loss) { set xlabel 'Test loss after the last epoch' } \
else { set xlabel 'Test accuracy after the last epoch [%]' }
do for [i = 1:blocks] {
	set label sprintf(loss ? '%.4g' : '%.2f', median[i]) at graph 1, first i left offset character 0.6, 0 textcolor rgb ink
}
eval legend_note('Dots: runs; lines: median' . (interval eq '' ? '' : ', ' . interval))
# Equal values are next to each other.
aside(k) = thick * 0.09 * (int(k) % 3 - 1)
plot for [i = 1:blocks] data index i - 1 using 3:(i + 0.22 * thick):($4 - $3):(0) every ::1::1 with vectors nohead \
	linecolor rgb ink linewidth 1.6 dashtype 1, \
     for [i = 1:blocks] data index i - 1 using 2:(i + 0.08 * thick):(0):(0.28 * thick) every ::1::1 with vectors nohead \
	linecolor rgb ink linewidth 1.6 dashtype 1, \
     for [i = 1:blocks] data index i - 1 using 1:(i - 0.14 * thick + aside($6)) with points pointtype point_of(look[i]) \
	pointsize 0.55 linecolor rgb '#60' . colour_of(look[i])[2:*]
