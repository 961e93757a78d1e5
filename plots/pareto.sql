-- Pareto front of accuracy and training time: the configurations that no other beats in both. Medians and their intervals.
-- Needs runs that evaluated their model.
WITH spent AS MATERIALIZED (
	SELECT place, min(seconds) AS low, max(seconds) AS high,
		avg(seconds) FILTER (WHERE i IN ((n + 1) / 2, (n + 2) / 2)) AS median
	FROM (
		SELECT place, seconds, row_number() OVER w AS i,
			count(*) OVER (w ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS n
		FROM outcome WHERE seconds > 0
		WINDOW w AS (PARTITION BY place ORDER BY seconds)) JOIN interval_rank AS r USING (n)
	WHERE i IN (r.low, (n + 1) / 2, (n + 2) / 2, r.high)
	GROUP BY place),
point AS MATERIALIZED (
	SELECT f.workload, f.title, f.place, s.median AS seconds, s.low AS seconds_low, s.high AS seconds_high,
		f.median, f.low, f.high, f.is_loss, iif(f.is_loss, -f.median, f.median) AS good
	FROM final AS f JOIN spent AS s USING (place)),
judged AS (
	SELECT *, good > ifnull(max(good) OVER (PARTITION BY workload ORDER BY seconds, good DESC
		ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), -9e999) AS front
	FROM point)
SELECT workload, title, seconds, seconds_low, seconds_high, median, low, high, is_loss, front
FROM judged
ORDER BY workload, front DESC, iif(front, seconds, place);
