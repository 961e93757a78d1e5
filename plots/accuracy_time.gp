# Columns: seconds, median, low, high, is_loss
eval lead_for(3, 4)
eval layout_curves
eval spread(3, 4)
eval quality_axis
eval extremes(1); unit = time_of(most); set xrange [0:most / unit * 1.02]
set xlabel sprintf('Training time [%s]', time_unit(most))
eval curves('$1 / unit', '$2', '$3', '$4')
