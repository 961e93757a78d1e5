# Columns: lr, value, lost, alone, is_loss
extra = 1
eval lead_for(2, 2)
eval layout_curves
eval extremes(5); loss = most > 0
set ylabel loss ? 'Validation loss' : 'Validation accuracy [%]'
eval extremes(2); if (loss && least > 0 && most > 5 * least) { set logscale y; set format y number_format }
best = most; worst = least
eval extremes(1)
set logscale x; set xrange [least / 1.15:most * 1.15]; set format x number_format; eval decades('x', least, most)
set xlabel 'Learning rate'
eval extremes(3); lost = most > 0
lined = ''
do for [i = 1:blocks] { eval number(i, 4); if (number > 0) { lined = lined . i . ' ' } }
# Trials far below the best would squeeze the others, whose differences are the figure's question.
if (!loss && best > worst + 20) {
	edge = best - 15; stats data using ($2 < edge) nooutput; below = int(STATS_sum)
	set yrange [edge:*]
	set label sprintf('%d trial%s below %.3g %% not drawn', below, below == 1 ? '' : 's', edge) \
		at graph 0.02, 0.05 left font small textcolor rgb '#666666'
}
plot for [k = 1:words(lined)] data index at(lined, k) - 1 using 1:2 with lines linetype look[at(lined, k)] notitle, \
     for [i = 1:blocks] data index i - 1 using 1:2:($3 > 0 ? 2 : point_of(look[i])) with points linetype look[i] \
	pointtype variable notitle, \
     for [i = 1:blocks] keyentry with points linetype look[i] pointtype point_of(look[i]) title name[i], \
     keyentry with points pointtype 2 linecolor rgb ink title lost ? 'diverged' : ''
