# Columns: k, value, is_loss
eval lead_for(2, 2)
eval layout_curves
eval extremes(3); loss = most > 0
set ylabel loss ? 'Expected best validation loss' : 'Expected best validation accuracy [%]'
eval extremes(1); set xrange [0.5:most + 0.5]; eval whole(most)
set xlabel 'Trials'
plot for [i = 1:blocks] data index i - 1 using 1:2 with linespoints linetype look[i] pointinterval stride title name[i]
