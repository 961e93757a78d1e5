-- Any column of the runs against any other: mvbench plot --x=lr --y=test_accuracy. Medians and their intervals.
-- Needs --x and --y, and runs that have both.
-- axes.c fills table point. A point of the picture is the median of runs with the same x or, if x is measured, of
-- a configuration. A run that diverged has an infinite y.
WITH placed AS MATERIALIZED (
	SELECT *, iif(typeof(x) = 'text', dense_rank() OVER (PARTITION BY workload ORDER BY x), x) AS at,
		dense_rank() OVER (ORDER BY workload, series, spot) AS number
	FROM point),
figure AS (SELECT number, 'x' AS name, at AS x FROM placed UNION ALL SELECT number, 'y', y FROM placed),
/* MEDIANS */,
pooled AS (
	SELECT number, workload, series, max(x) AS x, first_value(min(look)) OVER (w ORDER BY min(place)) AS look, min(min(place)) OVER w AS first,
		min(min(y) FILTER (WHERE abs(y) < 9e999)) OVER (PARTITION BY workload) AS least,
		max(max(y) FILTER (WHERE abs(y) < 9e999)) OVER (PARTITION BY workload) AS most
	FROM placed GROUP BY number WINDOW w AS (PARTITION BY workload, series)),
shown AS (
	SELECT p.*, h.mid AS at, m.mid AS median, ifnull(m.low, m.mid) AS low, ifnull(m.high, m.mid) AS high,
		min(m.n) OVER w AS fewest, max(m.n) OVER w AS greatest, max(m.n) OVER (PARTITION BY workload) AS repeats,
		min(m.coverage) OVER (PARTITION BY workload) AS surely
	FROM pooled AS p JOIN median AS h ON h.number = p.number AND h.name = 'x'
		JOIN median AS m ON m.number = p.number AND m.name = 'y'
	WHERE abs(m.mid) < 9e999 WINDOW w AS (PARTITION BY workload, series))
SELECT workload, series || CASE WHEN repeats = 1 OR (fewest = greatest AND greatest = (SELECT max(n) -- in the heading
			FROM configuration AS c WHERE c.workload = p.workload AND c.repeats)) THEN ''
		WHEN fewest = greatest THEN ' (n=' || greatest || ')'
		ELSE ' (n=' || fewest || '..' || greatest || ')' END AS title,
	at, median, max(low, least) AS low, min(high, most) AS high, typeof(x) = 'text' AS words, a.lined, a.log, x,
	a.x_label, a.y_label, CASE WHEN surely >= 0.95 THEN '95 % interval' WHEN surely > 0
		THEN printf('min to max (%.3g %%)', 100 * surely) ELSE '' END AS interval, look
FROM shown AS p CROSS JOIN axes AS a
ORDER BY workload, first, series, at;
