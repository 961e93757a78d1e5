# Columns: real, its minimum and maximum, simulated [s]; more workers than cores, shift of the marker
widest = max(widest, 22)
side = width_units > 0 ? min(300, max(180, width_units - 126 - letter * widest)) : 300; below = 110; between = 16
eval canvas(62, side, 64 + letter * widest, max(side + between + below, line * (blocks + 5)))
eval around(62)
set key at screen x_of(62 + side + 10), screen y_of(head - 4)
array shape[blocks]
crowded = ''
do for [i = 1:blocks] {
	eval number(i, 6); shape[i] = point_of(look[i] + int(number))
	eval number(i, 5); if (number > 0) { crowded = crowded . sprintf(' %d', i) }
}
stats data using (100 * ($4 / $1 - 1)) nooutput
low_error = min(-12, 1.1 * STATS_min); high_error = max(12, 1.1 * STATS_max)
eval extremes(2); first = least
eval extremes(3); last = most
eval extremes(4); first = min(first, least); last = max(last, most)
unit = time_of(last); name_of_unit = time_unit(last)
first = first / unit / 1.15; last = last / unit * 1.15

if (last / first > 4) { set logscale xy; eval decades('x', first, last); eval decades('y', first, last) }
set xrange [first:last]
set style fill solid 1 noborder
upper = '#E8E8E8'; inner = '#CFCFCF'

set multiplot
set tmargin at screen y_of(head); set bmargin at screen y_of(head + side)
set yrange [first:last]
set ylabel sprintf('Simulated epoch [%s]', name_of_unit)
set format x ''
plot sample [first:last] '+' using 1:($1 * 0.9):($1 * 1.1) with filledcurves linecolor rgb upper title '10 %', \
     [first:last] '+' using 1:($1 * 0.95):($1 * 1.05) with filledcurves linecolor rgb inner title '5 %', \
     [first:last] '+' using 1:1 with lines linewidth 0.8 linecolor rgb '#888888' dashtype 1 title 'equal', \
     for [i = 1:blocks] data index i - 1 using ($1 / unit):($4 / unit):($2 / unit):($3 / unit) \
	with xerrorbars pointtype shape[i] pointsize 0.8 linewidth 1 linecolor rgb colour_of(look[i]) dashtype 1 \
	title name[i], \
     for [k = 1:words(crowded)] data index at(crowded, k) - 1 using ($1 / unit):($5 > 0 ? $4 / unit : NaN) @ring notitle, \
     keyentry @ring title crowded eq '' ? '' : 'more workers than cores'

# The same as errors, because a few percent are invisible on a logarithmic scale.
set tmargin at screen y_of(head + side + between); set bmargin at screen y_of(head + side + between + below)
unset key; unset label 1001; unset label 1002; unset label 1003
unset logscale y; set ytics autofreq; set yrange [low_error:high_error]
set format x number_format; set format y '%+g'; set ytics add ('0' 0)
set xlabel sprintf('Real epoch [%s]', name_of_unit)
set ylabel 'Error [%]'
plot sample [first:last] '+' using 1:(-10):(10) with filledcurves linecolor rgb upper, \
     [first:last] '+' using 1:(-5):(5) with filledcurves linecolor rgb inner, \
     [first:last] '+' using 1:(0) with lines linewidth 0.8 linecolor rgb '#888888' dashtype 1, \
     for [i = 1:blocks] data index i - 1 using ($1 / unit):(100 * ($4 / $1 - 1)) with points \
	pointtype shape[i] pointsize 0.8 linecolor rgb colour_of(look[i]), \
     for [k = 1:words(crowded)] data index at(crowded, k) - 1 using ($1 / unit):($5 > 0 ? 100 * ($4 / $1 - 1) : NaN) @ring notitle
unset multiplot
