# Columns: median, low, high (-1: not reached), runs that reached it, runs, longest miss [s]; target [%], or the loss below 0
array said[blocks]
wide_said = 0
bars = ''; late = ''; closed = ''; open = '' # blocks with a known median, or without; with an interval that ends, or not
eval extremes(6); last = most
eval extremes(1); last = max(last, most)
eval extremes(3); last = max(last, most)
unit = time_of(last)
eval extremes(7); same = least == most; target = most
do for [i = 1:blocks] {
	eval number(i, 1); median = number
	eval number(i, 2); from = number
	eval number(i, 3); to = number
	eval number(i, 4); reached = number
	eval number(i, 5); runs = number
	if (median < 0) { late = late . sprintf(' %d', i) } else { bars = bars . sprintf(' %d', i) }
	if (to > from) { closed = closed . sprintf(' %d', i) }
	if (to < 0 && from > 0) { open = open . sprintf(' %d', i) }
	missed = reached < runs ? sprintf('not reached %d/%d', runs - reached, runs) : ''
	said[i] = median < 0 ? missed : time_text(median, last) . (missed eq '' ? '' : ', ' . missed)
	wide_said = max(wide_said, strlen(said[i]))
}
right = 20 + letter * wide_said
eval layout_bars
set xrange [0:last > 0 ? 1.03 * last / unit : 1]; eval few_tics(0, last > 0 ? last / unit : 1)
set xlabel sprintf('Time to %s [%s]', \
	!same ? 'the target' : target < 0 ? sprintf('a loss of %.4g', -target) : \
	sprintf('%.4g %% accuracy', target), time_unit(last))
do for [i = 1:blocks] {
	set label said[i] at graph 1, first i left offset character 0.6, 0 textcolor rgb ink
}
if (interval ne '') { eval legend_note('Median; ' . interval) }
if (late ne '') { eval legend_box(5, '#FFFFFF', 'time tried') }
set style fill solid 0.45 border rgb ink
edge = 1.03 * last / unit
plot for [k = 1:words(late)] data index at(late, k) - 1 using (0):(at(late, k)):(0):($6 / unit): \
	(at(late, k) - bar_half):(at(late, k) + bar_half) with boxxyerror \
	fillstyle empty border rgb '#888888' linecolor rgb '#888888' linewidth 0.8 dashtype 3, \
     for [k = 1:words(bars)] data index at(bars, k) - 1 using (0):(at(bars, k)):(0):($1 / unit): \
	(at(bars, k) - bar_half):(at(bars, k) + bar_half) with boxxyerror \
	linecolor rgb colour_of(look[at(bars, k)]) linewidth 0.6 dashtype 1, \
     for [k = 1:words(closed)] data index at(closed, k) - 1 using ($1 / unit):(at(closed, k)):($2 / unit):($3 / unit) \
	with xerrorbars linecolor rgb ink linewidth 1 dashtype 1 pointtype -1, \
     for [k = 1:words(open)] data index at(open, k) - 1 using ($2 / unit):(at(open, k)):(edge - $2 / unit):(0) \
	with vectors head filled size character 0.7, 20 linecolor rgb ink linewidth 1 dashtype 1
