# Columns: rate, utilisation
eval layout_curves
eval extremes(1)
set xlabel 'Rate of a link [Gbit/s]'
set ylabel 'Utilisation'
set logscale x; set format x number_format; set xrange [least / 1.15:most * 1.15]; eval decades('x', least, most)
set yrange [0:1.02]
plot for [i = 1:blocks] data index i - 1 using 1:2 with linespoints linetype look[i] title name[i]
