# Columns: staleness, share [%], mean, maximum
widest = widest + 24
eval layout_curves
array mean[blocks]
array last[blocks]
array peak[blocks]
highest = 0; lowest = 100
do for [i = 1:blocks] {
	stats data index i - 1 using 2 nooutput; peak[i] = STATS_max
	highest = max(highest, STATS_max); lowest = min(lowest, STATS_max)
	stats data index i - 1 using 3 nooutput; mean[i] = STATS_max
	stats data index i - 1 using 4 nooutput; last[i] = STATS_max
}
eval extremes(1)
eval whole(most)
eval late_axis('x', -0.4)
set xlabel 'Staleness of a push [pushes of others]'
set ylabel 'Share of pushes [%]'
set yrange [0:highest * 1.05]
if (highest > 4 * lowest) { # one configuration's pushes all have the same staleness, another's do not
	set nonlinear y via sqrt(y) inverse y * y
	if (highest > 20) { set ytics (0, 1, 5, 10, 20, 30, 40, 50, 60, 80, 100) } \
	else { set ytics (0, 0.1, 0.5, 1, 2, 5, 10, 15) }
}
# Points where there are pushes, with gaps, and at the peak; the line is 0 where there are none.
was = -1
marked(x, y, i) = (here = int(8 * log(1 + x)), new = here != was, was = here, new || y == peak[i])
plot for [i = 1:blocks] data index i - 1 using 1:2 with lines linetype look[i] notitle, \
     for [i = 1:blocks] data index i - 1 using 1:(marked($1, $2, i) && $2 > 0.01 * highest ? $2 : NaN) \
	with points linetype look[i] notitle, \
     for [i = 1:blocks] NaN with linespoints linetype look[i] \
	title name[i] . ', mean ' . digits(mean[i]) . sprintf(', max %.0f', last[i])
