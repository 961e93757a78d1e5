-- Pareto front of accuracy and training time: the configurations that no other beats in both. Medians and their intervals.
-- Needs runs that evaluated their model.
WITH point AS MATERIALIZED (
	SELECT f.*, s.seconds_total AS seconds, ifnull(s.seconds_total_low, s.seconds_total) AS seconds_low,
		ifnull(s.seconds_total_high, s.seconds_total) AS seconds_high,
		iif(f.is_loss, -f.median, f.median) AS good
	FROM final AS f JOIN configuration AS c USING (place) JOIN summary AS s USING (number)
	WHERE s.seconds_total > 0),
judged AS (
	SELECT *, good > ifnull(max(good) OVER (PARTITION BY workload ORDER BY seconds, good DESC
		ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), -9e999) AS front
	FROM point)
SELECT workload, title, seconds, seconds_low, seconds_high, median, low, high, is_loss, front, look
FROM judged
ORDER BY workload, front DESC, iif(front, seconds, place);
