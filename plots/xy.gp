# Columns: x (or the number of its word), median, low, high; is x a word, are points joined, log; then text:
# x, labels of the axes, name of the interval
eval number(1, 5); categories = number > 0
eval number(1, 6); joined = number > 0 && !categories
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
log_x = !categories && is_log('x', first, last)
log_y = is_log('y', bottom, top)
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
	set xlabel offset 0, slanted ? -0.28 * longest : -1.1
	do for [k = 1:int(last)] {
		if (slanted) {
			set label word_at[k] at first k, graph 0 right rotate by 30 offset 0, -0.7 noenhanced textcolor rgb ink
		} else {
			set label word_at[k] at first k, graph 0 center offset 0, -0.9 noenhanced textcolor rgb ink
		}
	}
}
if (log_x) { set logscale x; set format x number_format; set xrange [first / 1.15:last * 1.15]; eval decades('x', first, last) }
if (!log_x && !categories) { pad = last > first ? 0.03 * (last - first) : 0.5; set xrange [first - pad:last + pad] }
if (log_y) { set logscale y; set format y number_format; set yrange [bottom / 1.1:top * 1.1]; eval decades('y', bottom, top) } \
else { pad = top > bottom ? 0.05 * (top - bottom) : 0.5; set yrange [bottom - pad:top + pad] }
step = categories ? 4 * apart : !joined ? 0 : log_x ? step : step * (last - first) / 12
eval side_by_side
eval curves('aside($1, i)', '$2', '$3', '$4')
