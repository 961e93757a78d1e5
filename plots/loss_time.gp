# Columns: seconds, median, low, high
eval layout_curves
eval spread(3, 4)
eval extremes(2); if (least > 0 && most > 5 * least) { set logscale y; set format y '%h' }
set ylabel 'Training loss'
eval extremes(1); unit = time_of(most); set xrange [0:most / unit * 1.02]
set xlabel sprintf('Training time [%s]', time_unit(most))
plot for [i = 1:bands * blocks] data index i - 1 using ($1 / unit):3:4 with filledcurves linetype look[i] notitle, \
     for [i = 1:blocks] data index i - 1 using ($1 / unit):2 with linespoints linetype look[i] \
	pointinterval stride title name[i]
