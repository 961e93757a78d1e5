# Columns: mean, maximum, workers
eval extremes(2); top = most
eval extremes(3); top = max(1, max(top, most - 1))
legend = line
eval layout_bars
set xrange [0:top * 1.04]
set xlabel 'Staleness of a push [foreign updates]'
plot for [i = 1:blocks] data index i - 1 using 1:(i):1:2 with xerrorbars pointtype -1 \
	linewidth 1 linecolor rgb '#999999' notitle, \
     for [i = 1:blocks] data index i - 1 using 1:(i) with points pointtype 7 pointsize 1 \
	linecolor rgb '#0072B2' notitle, \
     for [i = 1:blocks] data index i - 1 using 2:(i) with points pointtype 4 pointsize 0.9 \
	linewidth 1.2 linecolor rgb '#D55E00' notitle, \
     for [i = 1:blocks] data index i - 1 using ($3 - 1):(i - bar_half):(0):(2 * bar_half) with vectors \
	nohead linewidth 1.6 linecolor rgb ink dashtype 1 notitle, \
     NaN with points pointtype 7 pointsize 1 linecolor rgb '#0072B2' title 'mean', \
     NaN with points pointtype 4 pointsize 0.9 linewidth 1.2 linecolor rgb '#D55E00' title 'maximum', \
     NaN with lines linewidth 1.6 linecolor rgb ink dashtype 1 title 'workers − 1'
