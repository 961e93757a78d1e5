# Columns: epoch, median, low, high
eval lead_for(3, 4)
eval extremes(2); logarithmic = least > 0 && most > 5 * least
if (logarithmic) { lead = max(lead, 84) } # tics as long as 0.0001
eval layout_curves
interval = of_times # the distances, too, are of finished runs only
eval spread(3, 4)
eval extremes(1); pad = most > least ? 0.025 * (most - least) : 0.5
eval whole(most); set xrange [least - pad:most + pad]
set xlabel 'Epoch'
if (logarithmic) { set logscale y; log_y = 1; set format y number_format }
set ylabel 'Consensus distance'
eval curves('$1', '$2', '$3', '$4')
