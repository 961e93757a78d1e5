-- Pareto front of accuracy and training time: the configurations that no other beats in both. Medians and their intervals.
-- Needs runs that evaluated their model.
WITH point AS MATERIALIZED (
	SELECT f.workload, f.title, f.place, s.median AS seconds, s.low AS seconds_low, s.high AS seconds_high,
		f.median, f.low, f.high, f.is_loss, f.look, iif(f.is_loss, -f.median, f.median) AS good
	FROM final AS f JOIN (SELECT place, min(value) AS low, max(value) AS high, avg(value) FILTER (WHERE middle) AS median
	FROM ranked WHERE name = 'spent' GROUP BY place) AS s USING (place)),
judged AS (
	SELECT *, good > ifnull(max(good) OVER (PARTITION BY workload ORDER BY seconds, good DESC
		ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), -9e999) AS front
	FROM point)
SELECT workload, title, seconds, seconds_low, seconds_high, median, low, high, is_loss, front, look
FROM judged
ORDER BY workload, front DESC, iif(front, seconds, place);
