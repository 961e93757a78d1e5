# Columns: mean, maximum, workers
eval extremes(2); top = most
eval extremes(3); top = max(1, max(top, most - 1))
array mean[blocks]
do for [i = 1:blocks] { stats data index i - 1 using 1 nooutput; mean[i] = STATS_max }
eval layout_bars
set xlabel 'Staleness of a push [foreign updates]'
set xrange [0:top * 1.04]
if (top > 40) { # a few pushes that are very late should not hide the others
	set nonlinear x via log(1 + x) inverse exp(x) - 1
	set xtics (0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000)
	set xrange [0:(1 + top) ** 1.03 - 1]
}
do for [i = 1:blocks] {
	set label 'mean ' . digits(mean[i]) at graph 1, first i left offset character 0.6, 0 \
		textcolor rgb ink
}
set label at screen sample_x(1), screen legend_y point pointtype 7 pointsize 1 linecolor rgb '#0072B2'
set label at screen sample_x(2), screen legend_y point pointtype 4 pointsize 0.9 linewidth 1.2 \
	linecolor rgb '#D55E00'
set arrow from screen sample_x(3), screen legend_y - 6.0 / high rto screen 0, screen 12.0 / high \
	nohead linewidth 1.6 linecolor rgb ink dashtype 1
eval legend_text(1, 'mean')
eval legend_text(2, 'maximum')
eval legend_text(3, 'workers − 1')
plot for [i = 1:blocks] data index i - 1 using 1:(i):1:2 with xerrorbars pointtype -1 \
	linewidth 1 linecolor rgb '#999999' dashtype 1, \
     for [i = 1:blocks] data index i - 1 using ($3 - 1):(i - bar_half):(0):(2 * bar_half) with vectors \
	nohead linewidth 1.6 linecolor rgb ink dashtype 1, \
     for [i = 1:blocks] data index i - 1 using 1:(i) with points pointtype 7 pointsize 1 \
	linecolor rgb '#0072B2', \
     for [i = 1:blocks] data index i - 1 using 2:(i) with points pointtype 4 pointsize 0.9 \
	linewidth 1.2 linecolor rgb '#D55E00'
