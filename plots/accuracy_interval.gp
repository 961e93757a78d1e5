# Columns: interval, median, low, high, is_loss
eval lead_for(3, 4)
eval layout_curves
eval spread(3, 4)
eval quality_axis
set ylabel offset 1.2, 0
eval extremes(1)
set logscale x 2; log_x = 1
set xrange [least / 1.12:most * 1.12]
set xlabel 'Mini-batches between synchronisations'
eval side_by_side
eval curves('aside($1, i)', '$2', '$3', '$4')
