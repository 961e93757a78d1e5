# Columns: interval, median, low, high, is_loss
eval lead_for(3, 4)
eval layout_curves
eval spread(3, 4)
eval quality_axis
set ylabel offset 1.2, 0
eval extremes(1)
set logscale x 2
set xrange [least / 1.12:most * 1.12]
set xlabel 'Mini-batches between synchronisations'
# Shifts lines sideways: points with the same coordinates are next to each other.
step = blocks > 1 ? min(0.03, 0.16 / (blocks - 1)) : 0
aside(x, i) = x * 2 ** (1.5 * step * (i - (blocks + 1) / 2.0))
plot for [i = 1:bars * blocks] data index i - 1 using (aside($1, i)):2:3:4 with yerrorbars linetype look[i] \
	pointtype -1 dashtype 1 notitle, \
     for [i = 1:blocks] data index i - 1 using (aside($1, i)):2 with linespoints linetype look[i] title name[i]
