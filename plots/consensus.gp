# Columns: epoch, median, low, high
eval layout_curves
interval = of_times # the distances, too, are of finished runs only
eval spread(3, 4)
eval extremes(1); pad = most > least ? 0.025 * (most - least) : 0.5
eval whole(most); set xrange [least - pad:most + pad]
set xlabel 'Epoch'
eval extremes(2); if (least > 0 && most > 5 * least) { set logscale y; set format y '%h' }
set ylabel 'Consensus distance'
plot for [i = 1:bands * blocks] data index i - 1 using 1:3:4 with filledcurves linetype look[i] notitle, \
     for [i = 1:blocks] data index i - 1 using 1:2 with linespoints linetype look[i] \
	pointinterval stride title name[i]
