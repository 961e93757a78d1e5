# Columns: epoch, median, low, high, is_loss
eval layout_curves
eval spread(3, 4)
eval quality_axis
eval extremes(1); pad = most > least ? 0.025 * (most - least) : 0.5
eval whole(most); set xrange [least - pad:most + pad]
set xlabel 'Epoch'
plot for [i = 1:bands * blocks] data index i - 1 using 1:3:4 with filledcurves linetype look[i] notitle, \
     for [i = 1:blocks] data index i - 1 using 1:2 with linespoints linetype look[i] \
	pointinterval stride title name[i]
