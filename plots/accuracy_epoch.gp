# Columns: epoch, median, low, high, is_loss
eval lead_for(3, 4)
eval layout_curves
eval spread(3, 4)
eval quality_axis
eval extremes(1); pad = most > least ? 0.025 * (most - least) : 0.5
eval whole(most); set xrange [least - pad:most + pad]
set xlabel 'Epoch'
eval curves('$1', '$2', '$3', '$4')
