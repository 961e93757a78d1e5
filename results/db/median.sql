-- median.sql - medians and their intervals (view median_rank). Views include these expressions in the
-- place of /* MEDIANS */. They read table figure: number, its owner; name, of the figure; x, NULL =
-- none. They make table median, one row for each number and name: mid; low and high, the ends of the
-- interval; coverage.
rank AS MATERIALIZED (SELECT * FROM median_rank),
ranked AS (
	SELECT number, name, x, row_number() OVER w AS i,
		count(*) OVER (w ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS n
	FROM figure WHERE x IS NOT NULL WINDOW w AS (PARTITION BY number, name ORDER BY x)),
median AS MATERIALIZED (
	SELECT r.number, r.name, avg(r.x) FILTER (WHERE r.i IN ((r.n + 1) / 2, (r.n + 2) / 2)) AS mid,
		max(r.x) FILTER (WHERE r.i = b.low) AS low,
		max(r.x) FILTER (WHERE r.i = b.high) AS high,
		max(b.coverage) AS coverage
	FROM ranked AS r CROSS JOIN rank AS b ON b.n = r.n GROUP BY r.number, r.name)