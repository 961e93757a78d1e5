-- Pareto front of accuracy and training time: the configurations that no other beats in both. Medians and their intervals.
-- Needs runs that evaluated their model.
WITH figure AS (
	SELECT s.place AS number, '' AS name, f.seconds_total AS x
	FROM selected AS s JOIN finished AS f USING (id) WHERE f.seconds_total > 0),
/* MEDIANS */,
point AS MATERIALIZED (
	SELECT f.*, m.mid AS seconds, ifnull(m.low, m.mid) AS seconds_low, ifnull(m.high, m.mid) AS seconds_high,
		iif(f.is_loss, -f.median, f.median) AS good
	FROM final AS f JOIN median AS m ON m.number = f.place),
judged AS (
	SELECT *, good > ifnull(max(good) OVER (PARTITION BY workload ORDER BY seconds, good DESC
		ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), -9e999) AS front
	FROM point)
SELECT workload, title, seconds, seconds_low, seconds_high, median, low, high, is_loss, front, look
FROM judged
ORDER BY workload, front DESC, iif(front, seconds, place);
