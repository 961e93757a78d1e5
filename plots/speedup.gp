# Columns: workers, speed-up, low, high
eval layout_curves
eval spread(3, 4)
eval extremes(1); workers = most
eval extremes(4)
set xlabel 'Workers'
set ylabel 'Speed-up over one worker'
if (workers > 12) {
	set logscale xy 2
	set xrange [0.9:workers * 1.15]
	set yrange [0.5 < least ? 0.9 : *:max(workers, most) * 1.15]
} else {
	set xtics 1
	set xrange [0.7:workers + 0.3]
	set yrange [0:max(workers, most) * 1.05]
}
plot [1:workers] '+' using 1:1 with lines linewidth 1.2 linecolor rgb '#999999' dashtype 3 title 'ideal', \
     for [i = 1:blocks] data index i - 1 using 1:2:3:4 with yerrorbars linetype i pointtype -1 \
	dashtype 1 notitle, \
     for [i = 1:blocks] data index i - 1 using 1:2 with linespoints linetype i title name[i]
