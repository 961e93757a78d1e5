-- median.sql - medians and their intervals: the one place that computes them, except those over the
-- epochs of a run (run_computed). A statement has these expressions in the place of its comment
-- MEDIANS (sql_medians puts them there). They read table figure: number and name, whose value it is;
-- x, NULL = none. They make table median, one row for each number and name:
--   n, mid     the number of values, and their median
--   low, high  the ends of its interval, by view median_rank; NULL = one value has none. For more
--              values than it has: the normal approximation of these ranks
--   coverage   the probability that the interval holds the median of all possible values
--   p99        the 99th percentile
rank AS MATERIALIZED (SELECT * FROM median_rank),
ranked AS (
	SELECT number, name, x, i, n, coverage,
		ifnull(low, iif(n > 100, max(1, n / 2 - CAST(0.98 * sqrt(n) AS INTEGER)), NULL)) AS low
	FROM (SELECT number, name, x, row_number() OVER w AS i,
			count(*) OVER (w ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS n
		FROM figure WHERE x IS NOT NULL WINDOW w AS (PARTITION BY number, name ORDER BY x)
		-- adds no row: SQLite expects one row of a window, and would join without an index
		UNION ALL SELECT NULL, NULL, NULL, 0, 0 FROM run WHERE 0) LEFT JOIN rank USING (n)),
median AS MATERIALIZED (
	SELECT number, name, n, avg(x) FILTER (WHERE i IN ((n + 1) / 2, (n + 2) / 2)) AS mid,
		max(x) FILTER (WHERE i = low) AS low, max(x) FILTER (WHERE i = n + 1 - low) AS high,
		ifnull(coverage, iif(n > 100, 0.95, NULL)) AS coverage,
		max(x) FILTER (WHERE i = (99 * n + 99) / 100) AS p99
	FROM ranked WHERE i IN (low, (n + 1) / 2, (n + 2) / 2, n + 1 - low, (99 * n + 99) / 100)
	GROUP BY number, name)
