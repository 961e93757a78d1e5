# Columns: seconds, low, high; median quality, low, high; is_loss, front
array seconds[blocks]
array good[blocks]
eval extremes(3); unit = time_of(most); last = most / unit
eval extremes(2); first = least / unit
fronts = 0
do for [i = 1:blocks] {
	eval number(i, 1); seconds[i] = number / unit
	eval number(i, 4); good[i] = number
	eval number(i, 8); if (number > 0) { fronts = i }
}
extra = 1
eval lead_for(5, 6)
eval layout_curves
eval extremes(7); loss = most > 0
set ylabel offset 1.2, 0
eval extremes(5); bottom = least
eval extremes(6); top = most
pad = top > bottom ? 0.04 * (top - bottom) : 0.5
if (interval ne '') { set key title 'Median; ' . interval left font small textcolor rgb '#666666' }
if (loss) { set ylabel 'Final test loss' } \
else { set ylabel 'Final test accuracy [%]' }
logarithmic = first > 0 && last > 8 * first
if (logarithmic) { set logscale x; set xrange [first / 1.15:last * 1.15]; eval decades('x', first, last) } \
else { set xrange [0:last * 1.04] }
if (loss && bottom > 0 && top > 5 * bottom) { set logscale y; set format y number_format; set yrange [bottom / 1.1:top * 1.1] } \
else { set yrange [bottom - pad:top + pad] }
set xlabel sprintf('Training time [%s]', time_unit(last * unit))
# The best result within each time: steps through the front.
set print $front
do for [i = 1:fronts] { print sprintf("%.9g\t%.9g", seconds[i], good[i]) }
print sprintf("%.9g\t%.9g", logarithmic ? last * 1.15 : last * 1.04, good[fronts])
unset print
# Configurations that another one beats in both are small.
size_of(i) = i > fronts ? 0.45 : 0.9
whiskers = bars ? blocks : fronts # with many configurations they hide one another
plot $front using 1:2 with steps linecolor rgb '#AAAAAA' linewidth 2 dashtype 1 title 'Pareto front', \
     for [i = 1:whiskers] data index i - 1 using ($1 / unit):4:($2 / unit):($3 / unit):5:6 \
	with xyerrorbars pointtype -1 linewidth 0.8 dashtype 1 linecolor rgb colour_of(look[i]) notitle, \
     for [i = 1:blocks] data index i - 1 using ($1 / unit):4 with points linetype look[i] \
	pointsize size_of(i) title name[i]
