# Columns: epoch, median, low, high
eval lead_for(3, 4)
eval layout_curves
interval = of_times # the distances, too, are of finished runs only
eval spread(3, 4)
eval extremes(1); pad = most > least ? 0.025 * (most - least) : 0.5
eval whole(most); set xrange [least - pad:most + pad]
set xlabel 'Epoch'
eval extremes(2); if (least > 0 && most > 5 * least) { set logscale y; log_y = 1; set format y most > 50 * least ? power_format : number_format }
set ylabel 'Consensus distance'
eval curves('$1', '$2', '$3', '$4')
