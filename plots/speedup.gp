# Columns: workers, speed-up, low, high, more workers than cores
widest = max(widest, 22); extra = 2
eval layout_curves
interval = of_times
eval spread(3, 4)
eval find_crowded(5)
eval extremes(4); top = most
eval extremes(2); low = least
eval extremes(1); top = max(most, top)
set xlabel 'Workers'
set ylabel 'Speed-up over serial'
logarithmic = most > 12
if (logarithmic) {
	set logscale xy 2
	set xrange [0.9:most * 1.12]
	set yrange [min(0.9, low * 0.9):top * 1.12]
} else {
	set xtics 1
	set xrange [0.8:most + 0.2]
	set yrange [0:top * 1.04]
}
# Shifts lines sideways: points with the same coordinates are next to each other.
step = blocks > 1 ? min(0.03, 0.16 / (blocks - 1)) : 0
aside(x, i) = logarithmic ? x * 2 ** (1.5 * step * (i - (blocks + 1) / 2.0)) \
			  : x + step * (i - (blocks + 1) / 2.0)
plot sample [1:most] '+' using 1:1 with lines linewidth 1.2 linecolor rgb '#888888' dashtype 2 \
	title 'ideal', \
     for [i = 1:bars * blocks] data index i - 1 using (aside($1, i)):2:3:4 with yerrorbars linetype look[i] \
	pointtype -1 dashtype 1 notitle, \
     for [i = 1:blocks] data index i - 1 using (aside($1, i)):2 with linespoints linetype look[i] title name[i], \
     for [k = 1:words(crowded)] data index at(crowded, k) - 1 using (aside($1, at(crowded, k))):($5 > 0 ? $2 : NaN) \
	@ring notitle, \
     keyentry @ring title crowded eq '' ? '' : 'more workers than cores'
