# Columns: epoch, median, low, high [s since the start], epoch_seconds
widest = widest + 14
eval layout_curves
interval = of_times
eval spread(3, 4)
array pace[blocks]
do for [i = 1:blocks] { stats data index i - 1 using 5 nooutput; pace[i] = STATS_max }
eval extremes(5); slowest = most
eval extremes(1); epochs = most
eval extremes(4); unit = time_of(most)
eval whole(epochs); set xrange [0:epochs * 1.025]
set yrange [0:most / unit * 1.03]
set xlabel 'Epoch'
set ylabel sprintf('Training time [%s]', time_unit(most))
after(i) = ', ' . time_text(pace[i], slowest) . ' each'
eval curves('$1', '$2 / unit', '$3 / unit', '$4 / unit')
