-- Any column of the runs against any other: mvbench plot --x=lr --y=test_accuracy. Medians and their intervals.
-- Needs --x and --y, and runs that have both.
-- axes.c fills table point. A point of the picture is the median of runs with the same x or, if x is measured, of
-- a configuration. A run that diverged has an infinite y.
WITH rank AS MATERIALIZED (SELECT * FROM median_rank),
placed AS (
	SELECT *, iif(typeof(x) = 'text', dense_rank() OVER (PARTITION BY workload ORDER BY x), x) AS at FROM point),
sorted AS (
	SELECT *, row_number() OVER (w ORDER BY at) AS i, row_number() OVER (w ORDER BY y) AS j,
		count(*) OVER w AS n, min(look) OVER (PARTITION BY workload, series) AS line_look,
		min(place) OVER (PARTITION BY workload, series) AS first,
		min(y) FILTER (WHERE abs(y) < 9e999) OVER (PARTITION BY workload) AS least,
		max(y) FILTER (WHERE abs(y) < 9e999) OVER (PARTITION BY workload) AS most
	FROM placed WINDOW w AS (PARTITION BY workload, series, spot)),
median AS MATERIALIZED (
	SELECT workload, series, first, line_look AS look, max(x) AS x, s.n,
		avg(at) FILTER (WHERE i IN ((s.n + 1) / 2, (s.n + 2) / 2)) AS at,
		avg(y) FILTER (WHERE j IN ((s.n + 1) / 2, (s.n + 2) / 2)) AS median,
		-- for more runs than the table has: the normal approximation
		max(y) FILTER (WHERE j = ifnull(r.low, max(1, s.n / 2 - CAST(0.98 * sqrt(s.n) AS INTEGER)))) AS low,
		max(y) FILTER (WHERE j = ifnull(r.high, s.n + 1 - max(1, s.n / 2 - CAST(0.98 * sqrt(s.n) AS INTEGER)))) AS high,
		iif(s.n > 1, ifnull(max(r.coverage), 0.95), NULL) AS coverage, max(least) AS least, max(most) AS most
	FROM sorted AS s LEFT JOIN rank AS r ON r.n = s.n GROUP BY workload, series, spot),
shown AS (
	SELECT *, min(n) OVER w AS fewest, max(n) OVER w AS greatest, max(n) OVER (PARTITION BY workload) AS repeats,
		min(coverage) OVER (PARTITION BY workload) AS surely
	FROM median WHERE abs(median) < 9e999 WINDOW w AS (PARTITION BY workload, series))
SELECT workload, series || CASE WHEN repeats = 1 THEN '' WHEN fewest = greatest THEN ' (n=' || greatest || ')'
		ELSE ' (n=' || fewest || '..' || greatest || ')' END AS title,
	at, median, max(low, least) AS low, min(high, most) AS high, typeof(x) = 'text' AS words, a.lined, a.log, x,
	a.x_label, a.y_label, CASE WHEN surely >= 0.95 THEN '95 % interval' WHEN surely > 0
		THEN printf('min to max (%.3g %%)', 100 * surely) ELSE '' END AS interval, look
FROM shown CROSS JOIN axes AS a
ORDER BY workload, first, series, at;
