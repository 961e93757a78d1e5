# Columns: start, end [s], row, row pointed to, colour, workers, rows, length [s], epoch, first and last
# step, run, configuration
lane = 26
number_of(c) = sprintf("stats data index 0 using %d every ::1::1 nooutput; found = STATS_max", c)
eval number_of(6); workers = found
eval number_of(7); lanes = found
eval number_of(8); most = found
eval number_of(9); epoch = found
eval number_of(10); from_step = found
eval number_of(11); to_step = found
eval number_of(12); run = found
eval first_of(13, 1); config = text
array color[blocks]
do for [i = 1:blocks] { eval first_of(5, i); color[i] = text }
unit = time_of(most)

long = width_units > 0 ? max(260, width_units - 118 - letter * max(widest, 12)) : 560
eval canvas(62, long, 56 + letter * max(widest, 12), max(lane * lanes, line * (blocks + 1)))
eval around(62)
set label 1001 workload . ', ' . config noenhanced
set key at screen x_of(62 + long + 10), graph 1.03 samplen 1.6
set xrange [0:most / unit]
set yrange [lanes - 0.4:-0.6]
unset ytics
set grid noytics
set xlabel sprintf('Time since step %d of epoch %d began, in run %d [%s]', from_step, epoch, run, time_unit(most))
do for [k = 0:lanes - 1] {
	set label sprintf(k < workers ? 'worker %d' : 'server %d', k < workers ? k : k - workers) \
		at graph 0, first k right offset character -0.8, 0 textcolor rgb ink
}
set style fill solid 1 noborder
set style arrow 1 head filled size screen 0.008, 20 linecolor rgb ink linewidth 0.9
arrows = name[blocks] eq 'where a push goes' ? 1 : 0
slices = blocks - arrows
half(i) = name[i] eq 'step' ? 0.42 : 0.36
edge(y, to) = to > y ? 0.36 : to < y ? -0.36 : 0
parts = sprintf("plot for [i = 1:%d] data index i - 1 \
using ($1 / unit):3:($1 / unit):($2 / unit):($3 - half(i)):($3 + half(i)) \
with boxxyerror linecolor rgb color[i] notitle, \
for [i = 1:%d] NaN with boxes fillstyle solid 1 linecolor rgb color[i] title name[i]", slices, slices)
pointing = sprintf(", data index %d \
using ($1 / unit):($3 + edge($3, $4)):(($2 - $1) / unit):($4 - $3 - 2 * edge($3, $4)) \
with vectors arrowstyle 1 notitle, NaN with lines dashtype 1 linecolor rgb ink title name[%d]", \
	blocks - 1, blocks)
eval parts . (arrows ? pointing : '')
