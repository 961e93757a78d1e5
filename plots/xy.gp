# Columns: x (or the number of its word), median, low, high; is x a word, are points joined, log; then text:
# x, labels of the axes, name of the interval
eval number(1, 5); categories = number > 0
eval number(1, 6); how = number > 0 && !categories ? 'linespoints' : 'points'
eval first_of(7, 1); logs = text
eval first_of(9, 1); x_label = text
eval first_of(10, 1); y_label = text
eval first_of(11, 1); interval = text
eval extremes(1); first = least; last = most
eval extremes(2); low_median = least
eval extremes(3); bottom = least
eval extremes(4); top = most
# By default an axis is logarithmic if its values are positive and cover more than a decade.
is_log(axis, from, to) = from > 0 && (strstrt(logs, axis) > 0 || (logs eq 'auto' && to > 12 * from))
x_log = !categories && is_log('x', first, last)
y_log = is_log('y', bottom, top)
if (categories) {
	array word_at[int(last)]
	longest = 0
	do for [k = 1:int(last)] {
		stats data using ($1 == k ? (text = strcol(8), 1) : NaN) nooutput
		word_at[k] = text; longest = max(longest, strlen(text))
	}
	slanted = longest * letter * last > 380
	if (slanted) { foot = foot + 0.5 * letter * longest }
}
eval lead_for(3, 4); lead = max(84, lead)
eval layout_curves
eval spread(3, 4)
set xlabel x_label noenhanced; set ylabel y_label noenhanced offset 1.2, 0
if (categories) {
	unset xtics; set xrange [0.5:last + 0.5]
	if (slanted) { set xlabel offset 0, -0.28 * longest }
	do for [k = 1:int(last)] {
		if (slanted) {
			set label word_at[k] at first k, graph 0 right rotate by 30 offset 0, -0.7 noenhanced textcolor rgb ink
		} else {
			set label word_at[k] at first k, graph 0 center offset 0, -0.9 noenhanced textcolor rgb ink
		}
	}
}
if (x_log) { set logscale x; set format x number_format; set xrange [first / 1.15:last * 1.15]; eval decades('x', first, last) }
if (!x_log && !categories) { pad = last > first ? 0.03 * (last - first) : 0.5; set xrange [first - pad:last + pad] }
if (y_log) { set logscale y; set format y number_format; set yrange [bottom / 1.1:top * 1.1]; eval decades('y', bottom, top) } \
else { pad = top > bottom ? 0.05 * (top - bottom) : 0.5; set yrange [bottom - pad:top + pad] }
# Shifts lines sideways: points with the same coordinates are next to each other.
step = blocks > 1 && (categories || how ne 'points') ? min(0.03, 0.16 / (blocks - 1)) : 0
wide_step = categories ? 4 * step : step * (last - first) / 12
aside(x, i) = x_log ? x * 2 ** (1.5 * step * (i - (blocks + 1) / 2.0)) : x + wide_step * (i - (blocks + 1) / 2.0)
plot for [i = 1:bars * blocks] data index i - 1 using (aside($1, i)):2:3:4 with yerrorbars linetype look[i] \
	pointtype -1 dashtype 1 notitle, \
     for [i = 1:blocks] data index i - 1 using (aside($1, i)):2 with @how linetype look[i] title name[i]
