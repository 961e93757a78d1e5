# Columns: place of the commit, median, low, high, level; at a step: the level before, the size, is it better?;
# then text: the commit, the label of the y axis
eval extremes(1); last = int(most)
eval first_of(10, 1); y_label = text
array commit[last]
do for [k = 1:last] {
	stats data using ($1 == k ? (text = strcol(9), 1) : NaN) nooutput
	commit[k] = text
}
extra = 2; to = 'Step of the fit to the '; widest = max(widest, strlen(to) + 6) # entries of the key
foot = foot + 28 # names of commits are slanted
eval lead_for(3, 4)
eval layout_curves
eval spread(3, 4)
eval extremes(3); bottom = least
eval extremes(4); top = most
wide_range = bottom > 0 && top > 12 * bottom
if (wide_range) { set logscale y; set format y number_format; set yrange [bottom / 1.15:top * 1.15]; eval decades('y', bottom, top) } \
else { pad = top > bottom ? 0.1 * (top - bottom) : 0.5; set yrange [bottom - pad:top + pad] }
set ylabel y_label noenhanced
set xlabel 'Commit' offset 0, -2.3
unset xtics; set xrange [0.4:last + 0.6]
every_so_many = ceil(last / 20.0)
do for [k = 1:last:every_so_many] {
	set label commit[k] at first k, graph 0 right rotate by 40 offset 0.4, -0.5 noenhanced font small textcolor rgb ink
}
# Points of several lines are next to each other.
step = blocks > 1 ? min(0.12, 0.6 / (blocks - 1)) : 0
worse = "#D55E00"; better = "#009E73"
plot for [i = 1:blocks] data index i - 1 using ($1 - 0.5):5:(1):(0) with vectors nohead linetype look[i] \
	linewidth 1 dashtype 1 notitle, \
     for [i = 1:bars * blocks] data index i - 1 using (aside($1, i)):2:3:4 with yerrorbars linetype look[i] \
	pointtype -1 dashtype 1 linewidth 0.8 notitle, \
     for [i = 1:blocks] data index i - 1 using (aside($1, i)):2 with points linetype look[i] notitle, \
     for [i = 1:blocks] NaN with linespoints linetype look[i] dashtype 1 title name[i], \
     data using ($1 - 0.5):6:(0):($8 > 0 ? NaN : $5 - $6) with vectors filled linecolor rgb worse linewidth 2 dashtype 1 notitle, \
     data using ($1 - 0.5):6:(0):($8 > 0 ? $5 - $6 : NaN) with vectors filled linecolor rgb better linewidth 2 dashtype 1 notitle, \
     data using ($1 - 0.5):(max($5, $6)):(sprintf("%+.3g%s", $7, strstrt(y_label, '%') ? '' : ' %')) with labels \
	offset 0, 0.7 textcolor rgb ink font small notitle, \
     NaN with lines linecolor rgb worse linewidth 2 dashtype 1 title to . 'worse', \
     NaN with lines linecolor rgb better linewidth 2 dashtype 1 title to . 'better'
