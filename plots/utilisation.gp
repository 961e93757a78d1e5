# Columns: rate, utilisation
eval layout_curves
eval extremes(1)
set xlabel 'Rate of a link [Gbit/s]'
set ylabel 'Utilisation'
set logscale x; log_x = 1; set format x number_format; set xrange [least / 1.15:most * 1.15]; eval decades('x', least, most)
set yrange [0:1.02]
eval side_by_side; bars = 0
eval curves('$1', '$2', '$2', '$2')
