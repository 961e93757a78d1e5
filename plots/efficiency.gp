# Columns: workers, efficiency, low, high, more workers than cores
eval find_crowded(5)
extra = 1 + (crowded ne ''); widest = crowded eq '' ? widest : max(widest, 22)
eval layout_curves
interval = of_times
eval spread(3, 4)
eval extremes(4); top = max(most, 1)
eval extremes(1)
set xlabel 'Workers'
set ylabel 'Speed-up / workers'
if (most > 12) { set logscale x 2; log_x = 1; from = 0.9; to = most * 1.12 } \
else { set xtics 1; from = 0.8; to = most + 0.2 }
set xrange [from:to]
set yrange [0:top * 1.06]
behind = "sample [from:to] '+' using 1:(1) with lines linewidth 1.2 linecolor rgb '#888888' dashtype 2 title 'ideal', "
in_front = rings
eval side_by_side
eval curves('aside($1, i)', '$2', '$3', '$4')
