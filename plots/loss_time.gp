# Columns: seconds, median, low, high
eval lead_for(3, 4)
eval layout_curves
eval spread(3, 4)
eval extremes(2); if (least > 0 && most > 5 * least) { set logscale y; log_y = 1; set format y number_format }
set ylabel 'Training loss'
eval extremes(1); unit = time_of(most); set xrange [0:most / unit * 1.02]
set xlabel sprintf('Training time [%s]', time_unit(most))
eval curves('$1 / unit', '$2', '$3', '$4')
