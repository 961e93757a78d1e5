# Columns: bytes, median, low, high, is_loss
eval lead_for(3, 4)
eval layout_curves
eval spread(3, 4)
eval quality_axis
eval extremes(1); unit = most < 1e6 ? 1e3 : most < 1e9 ? 1e6 : 1e9; last = most / unit; first = least / unit
if (last > 8 * first) { set logscale x; log_x = 1; set xrange [first / 1.15:last * 1.15]; eval decades('x', first, last) } \
else { set xrange [0:last * 1.02] }
set xlabel sprintf('Sent by all workers [%s]', unit == 1e3 ? 'kB' : unit == 1e6 ? 'MB' : 'GB')
eval curves('$1 / unit', '$2', '$3', '$4')
