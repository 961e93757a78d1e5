# Columns: epoch, median, low, high, is_loss
eval layout_curves
eval spread(3, 4)
eval quality_axis
eval extremes(1); set xrange [least - 0.02 * (most - least + 1):most + 0.02 * (most - least + 1)]
set xlabel 'Epoch'
plot for [i = 1:blocks] data index i - 1 using 1:3:4 with filledcurves linetype i notitle, \
     for [i = 1:blocks] data index i - 1 using 1:2 with linespoints linetype i \
	pointinterval stride title name[i]
