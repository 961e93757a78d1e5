# Columns: workers, speed-up, low, high, more workers than cores
eval find_crowded(5)
extra = 1 + (crowded ne ''); widest = crowded eq '' ? widest : max(widest, 22)
eval layout_curves
interval = of_times
eval spread(3, 4)
eval extremes(4); top = most
eval extremes(2); low = least
eval extremes(1); top = max(most, top)
set xlabel 'Workers'
set ylabel 'Speed-up over serial'
if (most > 12) {
	set logscale xy 2; log_x = 1; log_y = 1
	set xrange [0.9:most * 1.12]
	set yrange [min(0.9, low * 0.9):top * 1.12]
} else {
	set xtics 1
	set xrange [0.8:most + 0.2]
	set yrange [0:top * 1.04]
}
behind = "sample [1:most] '+' using 1:1 with lines linewidth 1.2 linecolor rgb '#888888' dashtype 2 title 'ideal', "
in_front = rings
eval side_by_side
eval curves('aside($1, i)', '$2', '$3', '$4')
