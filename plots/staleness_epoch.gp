# Columns: epoch, mean, maximum
eval layout_curves
eval extremes(1); pad = most > least ? 0.025 * (most - least) : 0.5
eval whole(most); set xrange [least - pad:most + pad]
set xlabel 'Epoch'
set ylabel 'Staleness of a push [pushes of others]'
eval extremes(3)
eval late_axis('y', 0)
if (most >= 1000) { set ylabel offset 1.2, 0 }
set key title 'Mean; thin: maximum' left font small textcolor rgb '#666666'
plot for [i = 1:blocks] data index i - 1 using 1:3 with lines linetype look[i] linewidth 0.7 notitle, \
     for [i = 1:blocks] data index i - 1 using 1:2 with linespoints linetype look[i] \
	pointinterval stride title name[i]
