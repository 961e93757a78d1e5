# style.gp - how all figures look. plot.c starts gnuplot on this file and then on NAME.gp, with
#   format          png, svg, pdf, eps or tex
#   width_units     width of the picture in units, which are points of an SVG; 0: as wide as it needs to be
#   width_pt        width of the picture [pt], to which the units are scaled; 0: as the format has them
#   data            file of blocks (see plot.c); columns: x y ... as NAME.sql gives them after title
#   blocks, rows    number of blocks, and rows of the longest; 0 blocks: say that there is no data, and stop
#   names, widest   file of the blocks' titles; columns of the widest
# and this file adds for NAME.gp
#   name[i]         title of block i, from 1: data index i - 1. A layout divides long ones of narrow pictures into lines
#   look[i]         its line type: the same for a configuration in all figures; argument of colour_of, point_of
#   interval        what the bands and bars around medians show, "95 % interval"; empty without repeats
#   of_times        the same for medians of times, which exclude runs that diverged
#   workload        and the layouts, units and line types below
# Text comes from data files and can be anything. It is shown only in titles and labels, `noenhanced`, because tic
# labels and `with labels` would interpret it.

set encoding utf8
set datafile separator "\t"
set datafile commentschars ""
set datafile missing "NaN"

line_of(file, i) = sprintf("stats '%s' using (text = strcol(1)[2:*], second = valid(2) ? column(2) : 0, 0) \
every ::%d::%d nooutput", file, i, i)
eval line_of('words.tsv', 0); heading = text
eval line_of('words.tsv', 1); workload = text
eval line_of('words.tsv', 2); footnote = text
eval line_of('words.tsv', 3); needs = text
eval line_of('words.tsv', 4); found = text
eval line_of('words.tsv', 5); database = text
eval line_of('words.tsv', 6); interval = text
eval line_of('words.tsv', 7); of_times = text
if (blocks > 0) {
	array name[blocks]
	array look[blocks]
	do for [i = 1:blocks] { eval line_of(names, i - 1); name[i] = text; look[i] = int(second) }
}

# Okabe and Ito's palette without yellow, which is too faint on paper, and three darker shades of it; those of black are
# lighter. Colour, shade, point and dash have 7, 4, 12 and 4 values; style.sql chooses them.
palette_lines = "#000000 #0072B2 #D55E00 #009E73 #CC79A7 #E69F00 #56B4E9 \
#4C4C4C #005686 #A04600 #007656 #995B7D #AC7700 #4087AF \
#7A7A7A #003F62 #753400 #00573F #70435C #7E5700 #2F6380 \
#9E9E9E #002E47 #552600 #003F2E #523043 #5C4000 #22485D"
max(a, b) = a > b ? a : b
min(a, b) = a < b ? a : b
palette_points = "7 5 9 13 11 15 6 4 8 12 10 14"
colour_of(k) = word(palette_lines, (k - 1) % 7 + 1 + 7 * ((k - 1) / 336 % 4))
point_of(k) = int(word(palette_points, (k - 1) % 12 + 1))
# A point that a later one covers is larger, and therefore visible.
do for [i = 1:blocks] {
	set linetype look[i] linecolor rgb colour_of(look[i]) linewidth 1.4 dashtype int((look[i] - 1) / 84) % 4 + 1 \
		pointtype point_of(look[i]) pointsize 0.7 + min(0.15, 0.45 / blocks) * (blocks - i)
}
ink = "#333333"
faint = "#DDDDDD"

# Sizes are in units. A unit is a point of an SVG and 3 pixels of a PNG, which is sharp at 8 cm and readable at 16. In
# PDF, EPS and TeX, letters have 8 points.
# Letters are at most `letter` wide, on average, and entries of a key `line` high. gnuplot drops entries that do
# not fit, without a warning.
letter = 6.9
line = format eq 'png' ? 17 : 19.2
paper = format eq 'pdf' || format eq 'eps' || format eq 'tex'
sans = 'DejaVu Sans'
terminal_of(w, h) = \
	format eq 'png' ? sprintf("set terminal pngcairo size %d, %d font '%s,9' fontscale %g linewidth %g pointscale %g \
background '#ffffff'", w * scale, h * scale, sans, scale, scale, scale) : \
	format eq 'svg' ? sprintf("set terminal svg size %d, %d dynamic font '%s,Verdana,Helvetica,Arial,sans-serif,11' \
linewidth 1 background '#ffffff'", w, h, sans) : \
	format eq 'tex' ? sprintf("set terminal tikz size %.3fcm,%.3fcm font ',%.2f' linewidth %g", \
		w * scale * 2.54 / 72, h * scale * 2.54 / 72, size, 0.8 * scale) : \
	sprintf("set terminal %s size %.3fin,%.3fin font '%s,%.2f' fontscale 1 linewidth %g pointscale %g", \
		format eq 'pdf' ? 'pdfcairo' : 'epscairo', w * scale / 72, h * scale / 72, sans, size, 1.3 * scale, 1.1 * scale)
# scale: pixels or points of a unit; size: of the letters of tics and keys, as the terminal counts
resize(w) = sprintf("\
scale = width_pt > 0 ? width_pt / %f * (format eq 'png' ? 300 / 72.0 : 1) : format eq 'png' ? 3.0 : paper ? 8 / 11.0 : 1.0; \
size = format eq 'png' ? 9 : paper ? 11 * scale : 11; \
large = sprintf(',%%g', size * 1.1); larger = sprintf(',%%g', size * 1.2); small = sprintf(',%%g', size * least_size)", w)
least_size = width_units > 0 ? 1 : 0.9 # no letter of a narrow picture is smaller than the others
eval resize(488)
output = sprintf("set output 'figure.%s'", format)

# A long text has several lines of at most n characters, broken at spaces if there are any.
space_in(t, n) = n < 1 || t[n:n] eq ' ' ? n : space_in(t, n - 1)
fold(t, n) = strlen(t) <= n ? t : fold_after(t, n, space_in(t, n + 1))
fold_after(t, n, at) = at > 1 ? t[1:at - 1] . "\n" . fold(t[at + 1:*], n) : t[1:n] . "\n" . fold(t[n + 1:*], n)
lines_of(t) = strstrt(t, "\n") > 0 ? 1 + lines_of(t[strstrt(t, "\n") + 1:*]) : 1
page = (width_units > 0 ? width_units : 488) - 28
workload = fold(workload, int(page / (1.1 * letter)))
footnote = fold(footnote, int(page / (least_size * letter)))

# The canvas in points: the plot area keeps its size, and the margins grow with the text.
head = 28 + (heading ne "" ? line : 0) + line * (lines_of(workload) - 1)
notes = footnote ne "" ? line * lines_of(footnote) : 0
foot = 50 + notes
canvas(l, w, r, h) = sprintf("\
left = %d; wide = %d; high = %d; %s; set output; eval terminal_of(wide, high); %s; \
set lmargin at screen %f; set rmargin at screen %f; set tmargin at screen %f; set bmargin at screen %f", \
	l, l + w + r, head + h + foot, resize(l + w + r), output, \
	1.0 * l / (l + w + r), 1.0 * (l + w) / (l + w + r), \
	1.0 - 1.0 * head / (head + h + foot), 1.0 * foot / (head + h + foot))
# Width of the plot area between these margins.
area(l, r) = width_units > 0 ? max(width_units - l - r, 130) : 400
x_of(points) = 1.0 * (points) / wide        # from the left
y_of(points) = 1.0 - 1.0 * (points) / high  # from the top

# A plot of curves: the key is below, in as many columns as fit. It has an entry for each block, and `extra` more;
# its title is a row. It is horizontal because gnuplot drops entries of a vertical key that are above the plot,
# without a warning.
extra = 0
lead = 68 # left of the plot area: for tics of four characters and the label of the axis
# Before layout_curves: more room if the y axis, from the least of column a to the greatest of column b, has longer tics.
# gnuplot leaves out a label that does not fit, without a warning.
lead_for(a, b) = sprintf("\
eval extremes(%d); tic_low = least; eval extremes(%d); lead = lead + 8 * max(0, tic_length(tic_low, most) - 4)", a, b)
tic_length(low, high) = high >= 1e6 ? 9 : tic_of(high, high > low ? high - low : high == 0 ? 2 : 0.02 * abs(high))
tic_of(high, range) = tic_with(high, (range < 5 * 10 ** floor(log10(range)) ? 1 : 0) - floor(log10(range)))
tic_with(high, digits) = strlen(sprintf('%.0f', high)) + (digits > 0 ? 1 + int(digits) : 0)
# Names in a narrow picture have lines of at most n characters, together with what a figure adds to them.
name_lines = 1
fold_names(n) = sprintf("\
longest = 0; do for [i = 1:blocks] { longest = max(longest, strlen(name[i])) }; added = max(0, int(widest - longest)); \
do for [i = 1:width_units > 0 ? blocks : 0] { \
	name[i] = fold(name[i], strlen(name[i]) + added <= %d ? %d : max(12, %d - added)); \
	name_lines = max(name_lines, lines_of(name[i])) }; \
widest = name_lines > 1 ? min(widest, %d) : widest", n, n, n, n)
layout_curves = "\
eval fold_names(int((width_units - 86) / letter)); \
entry = 52 + letter * max(widest, 12); across = max(1, int((area(lead, 20) + (width_units > 0 ? 8 : 0)) / entry)); under = foot - notes; \
foot = foot + line * (name_lines * ceil(1.0 * (blocks + extra) / across) + 1); \
tall = min(270, 0.75 * area(lead, 20)); \
eval canvas(lead, max(area(lead, 20), entry - lead + 14), 20, tall); \
eval around(lead); eval key_below"
key_below = "set key horizontal at screen x_of(14), screen y_of(head + tall + under - 4) maxcols across spacing 1.15 * name_lines"

# One bar for each block, from top to bottom, with its name on the left, or above it if there is no room, and a key of
# one row above all: sample k of at most 5 is at sample_x(k), legend_y.
bar_height = 19
bar_half = 0.34
thick = 1.0 # of what is drawn for a bar, as a share of its height
name_at(i) = (0.5 * bar_height * thick + 7 + 16 * (lines_of(name[i]) - 1)) / bar_height # above it
right = 80 # of the bars: for numbers
layout_bars = "\
head = head + line; \
margin = max(62, 20 + letter * widest); \
if (width_units > 0 && margin + 130 + right > width_units) { \
	eval fold_names(int((width_units - 36) / letter)); \
	margin = 22; thick = bar_height / (bar_height + 16.0 * name_lines + 2); \
	bar_height = bar_height / thick; bar_half = bar_half * thick }; \
room = area(margin, right); \
eval canvas(margin, room, right, bar_height * (blocks + 0.6)); \
eval around(14); legend_y = y_of(head - 10); \
unset key; unset ytics; set yrange [blocks + (thick < 1 ? 0.6 : 0.8):thick < 1 ? 0 : 0.2]; set grid noytics xtics; set border 1; \
do for [i = 1:blocks] { if (thick < 1) { set label name[i] at graph 0, first i - name_at(i) left \
	noenhanced textcolor rgb ink } else { set label name[i] at graph 0, first i right offset character -0.8, 0 \
	noenhanced textcolor rgb ink } }"
sample_x(k) = x_of(22 + int(word('0 76 190 265 210', k)))
legend_text(k, text) = sprintf("set label '%s' at screen %f, screen %f left textcolor rgb ink", \
	text, sample_x(k) + x_of(12), legend_y)

legend_box(k, colour, text) = sprintf("\
set object rectangle center screen %f, screen legend_y size screen %f, screen %f \
	fillcolor rgb '%s' fillstyle solid 1 border rgb ink linewidth 0.6; ", \
	sample_x(k), x_of(14), 9.0 / high, colour) . legend_text(k, text)
legend_note(text) = sprintf("set label '%s' at screen %f, screen %f left font small textcolor rgb '#666666'", \
	text, x_of(14), legend_y)

around(l) = sprintf("\
set label 1001 workload at screen %f, screen %f left noenhanced textcolor rgb ink font large; \
if (heading ne '') { \
	set label 1002 heading at screen %f, screen %f left noenhanced textcolor rgb 'black' font larger }; \
if (footnote ne '') { \
	set label 1003 footnote at screen %f, screen %f left noenhanced textcolor rgb '#666666' font small }", \
	x_of(title_at(l)), y_of(heading ne '' ? 14 + line : 14), x_of(l), y_of(14), \
	x_of(14), y_of(high - 10 - line * (lines_of(footnote) - 1)))
title_at(l) = min(l, max(14, wide - 14 - 1.1 * letter * min(strlen(workload), page / (1.1 * letter))))

set border 3 linecolor rgb ink linewidth 0.8
set tics out nomirror scale 0.6, 0.3 textcolor rgb ink
set xtics offset 0, 0.3
set xlabel offset 0, 0.7 textcolor rgb ink
set ylabel offset 0.6, 0 textcolor rgb ink
set grid xtics ytics linetype 1 linecolor rgb faint linewidth 0.7 dashtype 1
set grid back
set key left top vertical Left reverse samplen 2.4 spacing 1.15 width -2 noenhanced \
	textcolor rgb ink maxcols 1
set style fill transparent solid 0.16 noborder
set errorbars small

# Axes of epochs and workers get tics at whole numbers.
whole(most) = most <= 12 ? "set xtics 1" : "set xtics autofreq"

# Tics of an x axis from a to b that do not touch each other.
few_tics(a, b) = sprintf("set xtics %g", nice((b - a) / max(2, room / 52.0)))
nice(x) = nice_of(x, 10.0 ** floor(log10(x)))
nice_of(x, p) = x <= p ? p : x <= 2 * p ? 2 * p : x <= 5 * p ? 5 * p : 10 * p

# Seconds in a readable unit: divide by time_of(most), whose name is time_unit(most).
time_of(s) = s < 0.5e-3 ? 1e-6 : s < 0.5 ? 1e-3 : s < 600 ? 1 : s < 36000 ? 60 : 3600
time_unit(s) = s < 0.5e-3 ? 'µs' : s < 0.5 ? 'ms' : s < 600 ? 's' : s < 36000 ? 'min' : 'h'
# At most three digits: 0.12, 1.23, 12.3, 123.
digits(x) = x >= 99.95 ? sprintf('%.0f', x) : x >= 9.995 ? sprintf('%.1f', x) : sprintf('%.2f', x)
time_text(s, most) = digits(s / time_of(most)) . ' ' . time_unit(most)
# The extremes of a column over all blocks. Call it before ranges are set, because only values inside the ranges
# count.
extremes(c) = sprintf("stats data using %d nooutput; least = STATS_min; most = STATS_max", c)
# The largest number in a column of block i: of one row, the number itself.
number(i, c) = sprintf("stats data index %d using %d nooutput; number = STATS_max", i - 1, c)
# The text in a column of the first row of block i.
first_of(c, i) = sprintf("stats data index %d using (text = strcol(%d), 0) every ::1::1 nooutput", i - 1, c)
# Blocks with runs of more workers than cores, by column c; such points have a ring.
find_crowded(c) = sprintf("crowded = ''; do for [i = 1:blocks] { \
eval number(i, %d); if (number > 0) { crowded = crowded . ' ' . i } }", c)
ring = "with points pointtype 6 pointsize 1.5 linewidth 0.8 linecolor rgb '#666666'"
rings = ", for [k = 1:words(crowded)] data index at(crowded, k) - 1 \
	using (aside($1, at(crowded, k))):($5 > 0 ? $2 : NaN) " . ring . " notitle, \
keyentry " . ring . " title crowded eq '' ? '' : 'more workers than cores'"
# The k-th of a list of blocks, for loops from 1 to words(list). Past the end it gives 1, because gnuplot evaluates
# a plot even if its loop runs zero times.
at(list, k) = k > words(list) ? 1 : int(word(list, k))
# Bands of many curves would hide each other: then points have bars.
bands = blocks <= 4
bars = blocks <= 12
# Explains lines and bands in the key, if columns a and b of some block differ. Without bars, points are not moved.
key_title = ''
spread(a, b) = sprintf("stats data using (column(%d) - column(%d)) nooutput; \
if (STATS_max > 0) { widest = max(widest, 0.94 * least_size * strlen('Median; ' . interval) - 4); \
	key_title = bands || bars ? 'Median; ' . interval : 'Median'; set key title key_title left \
	font small textcolor rgb '#666666' } else { step = 0 }", b, a)
# Numbers of an axis: 1e-05, because raised exponents have small letters. TeX sets them as it likes.
number_format = format eq 'tex' ? '$%h$' : '%g'
if (format ne 'tex') { set format '% g' }
# On a logarithmic axis of few decades, decades alone would be too few tics.
decades(axis, first, last) = last / first > 100 ? "" : sprintf("set %stics (", axis) . decade_tics(first, last) . ")"
decade_tics(first, last) = decade_from(int(floor(log10(first))), int(floor(log10(last))))
decade_from(k, l) = sprintf("%g, %g, %g", 10.0 ** k, 2 * 10.0 ** k, 5 * 10.0 ** k) \
	. (k < l ? ", " . decade_from(k + 1, l) : "")
# The y axis of a figure whose column 2 is the quality; column 5 is 1 if that is a loss.
quality_axis = "eval extremes(5); \
if (most == 0) { set ylabel 'Test accuracy [%]' } else { set ylabel 'Test loss' }; \
if (most > 0) { eval extremes(2); if (least > 0 && most > 5 * least) { \
	set logscale y; log_y = 1; set format y number_format } }"
# An axis of staleness, from low to most; logarithmic if most is large, so that the common small values stay visible.
late_axis(axis, low) = sprintf("set %srange [%f:%f]; ", axis, low, \
	most > 40 ? (1 + most) * 1.1 - 1 : max(1, most * 1.04)) . (most <= 40 ? '' : sprintf("\
set nonlinear %s via log(1 + %s) inverse exp(%s) - 1; \
set %stics (0, %s, 100000)", axis, axis, axis, axis, most <= 500 ? '1, 2, 5, 10, 20, 50, 100, 200, 500' \
	: '1, 3, 10, 30, 100, 300, 1000, 3000, 10000, 30000'))
# About ten markers on each curve.
stride = max(1, (rows + 5) / 10)

# Curves of (x, y) with bands or bars from low to high, expressions of columns. after(i): text behind a name. Up to four
# names stand at the ends of their curves if all end near the right and do not touch there; otherwise the key has
# them. The key always has the `extra` entries. A first plot, to nowhere, finds the ranges of the axes.
after(i) = ''
log_x = 0; log_y = 0 # the axis is logarithmic
label_of(i) = name[i] . after(i)
direct = 0
joined = 1 # by lines; otherwise they are points
behind = ''; in_front = '' # of the curves: what else is drawn, parts of a plot command
# Before curves: if each point is a configuration, not an epoch, it has a marker and a bar. aside(x, i) shifts
# curve i sideways, because bars of several curves can have the same x.
side_by_side = "bands = 0; stride = 1"
apart = blocks > 1 ? min(0.03, 0.16 / (blocks - 1)) : 0
step = apart
aside(x, i) = log_x ? x * 2 ** (1.5 * step * (i - (blocks + 1) / 2.0)) : x + step * (i - (blocks + 1) / 2.0)
curves(x, y, low, high) = (blocks < 2 || blocks > 4 || !joined ? '' \
	: 'set terminal dumb; set output "/dev/null"; ' . lines(x, y, low, high) . '; ' . find_ends(x, y) . find_direct . '; ') \
	. lines(x, y, low, high)
find_ends(x, y) = sprintf("\
array end_x[blocks]; array end_y[blocks]; \
do for [i = 1:blocks] { end_x[i] = -1; end_y[i] = 0; stats [*:*][*:*] data index i - 1 using \
	((%s) == (%s) && (%s) == (%s) ? (end_x[i] = (%s), end_y[i] = (%s), 0) : 0) nooutput }; ", x, x, y, y, x, y)
share(v, from, to, logarithmic) = logarithmic ? (v > 0 ? log(v / from) / log(to / from) : 0) : (v - from) / (to - from)
find_direct = "\
direct = 1; longest = 0; \
do for [i = 1:blocks] { \
	longest = max(longest, strlen(label_of(i))); \
	end_x[i] = share(end_x[i], GPVAL_X_MIN, GPVAL_X_MAX, log_x); \
	end_y[i] = share(end_y[i], GPVAL_Y_MIN, GPVAL_Y_MAX, log_y); \
	if (end_x[i] < 0.9) { direct = 0 }; \
	do for [j = 1:i - 1] { if (abs(end_y[i] - end_y[j]) * tall < line) { direct = 0 } } }; \
beside = 20 + letter * longest; \
if (area(lead, beside) < max(230, 1.3 * beside)) { direct = 0 }; \
if (direct) { \
	foot = under + notes + line * ((key_title ne '' || extra > 0) + ceil(1.0 * extra / across)); \
	eval canvas(lead, area(lead, beside), beside, tall); eval around(lead); eval key_below; \
	if (extra == 0) { unset key; \
		set label 1004 key_title at screen x_of(14), screen y_of(head + tall + under + 4) left font small \
			textcolor rgb '#666666' }; \
	do for [i = 1:blocks] { set label label_of(i) at graph 1, graph end_y[i] left offset character 0.8, 0 \
		noenhanced textcolor rgb colour_of(look[i]) } \
} else { eval canvas(lead, max(area(lead, 20), entry - lead + 14), 20, tall) }"
lines(x, y, low, high) = 'plot ' . behind . sprintf("\
for [i = 1:bands * blocks] data index i - 1 using (%s):(%s):(%s) with filledcurves linetype look[i] notitle, \
for [i = 1:(bars && !bands) * blocks] data index i - 1 using (%s):(%s):(%s):(%s) every stride::(i - 1) %% stride \
	with yerrorbars linetype look[i] pointtype -1 dashtype 1 linewidth 0.8 notitle, \
for [i = 1:blocks] data index i - 1 using (%s):(%s) with %s linetype look[i] \
	title direct ? '' : label_of(i)", x, low, high, x, y, low, high, x, y, \
	joined ? 'linespoints pointinterval stride' : 'points') . in_front

if (blocks == 0) {
	eval canvas(20, 480, 20, 200)
	unset border; unset tics; unset key; unset grid
	set label 1 'Nothing to draw' at graph 0.5, 0.72 center font larger textcolor rgb 'black'
	set label 2 needs at graph 0.5, 0.5 center noenhanced textcolor rgb ink
	set label 3 found at graph 0.5, 0.36 center noenhanced textcolor rgb ink
	set label 4 database at graph 0.5, 0.22 center noenhanced textcolor rgb '#666666'
	if (heading ne '') {
		set label 5 heading at graph 0.5, 1 center noenhanced textcolor rgb 'black' font larger
	}
	set xrange [0:1]; set yrange [0:1]
	plot NaN notitle
	exit
}
