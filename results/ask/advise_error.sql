-- advise_error.sql - the error of simulated epoch times in the cells of `mvbench validate` here that had several
-- ranks, one row: their number, the median and the 90th percentile. Cells that lacked cores do not count.
WITH error AS (
	SELECT abs(time_error) AS x FROM validation
	WHERE label = 'validate' AND workers + servers > 1 AND NOT ifnull(oversubscribed, 0)
		AND ifnull(cores_share, 1) >= 0.9),
ranked AS (SELECT x, row_number() OVER (ORDER BY x) AS i, count(*) OVER () AS n FROM error)
SELECT max(n), avg(x) FILTER (WHERE i IN ((n + 1) / 2, (n + 2) / 2)), max(x) FILTER (WHERE i = (9 * n + 9) / 10)
FROM ranked;
