-- Training time to the target, one bar for each configuration: medians and their intervals, misses counted as latest.
-- Needs runs with a target: mvbench run --target-accuracy=0.85, or --target-loss=0.4.
-- A run that diverged counts as one that missed its target. The time of a missed target is -1. One run is its own interval.
WITH missing AS MATERIALIZED (
	SELECT f.config_key, max(r.seconds_total) AS tried
	FROM finished AS f JOIN run_summary AS r USING (id) WHERE f.time_to_target = 9e999
	GROUP BY f.config_key)
SELECT s.workload, ifnull(c.cut, t.configuration) || iif(c.place IS NULL, ', diverged', '') AS title,
	ifnull(s.time_to_accuracy, -1) AS seconds,
	ifnull(s.time_to_accuracy_low, ifnull(s.time_to_accuracy, -1)) AS low,
	ifnull(iif(s.reached + s.missed = 1, s.time_to_accuracy, s.time_to_accuracy_high), -1) AS high,
	s.reached, s.reached + s.missed AS n, ifnull(m.tried, 0) AS tried,
	iif(s.target_loss > 0, -s.target_loss, 100 * s.target_accuracy) AS target, -- below 0: a loss
	c.look
FROM summary AS s JOIN title AS t USING (config_key)
	LEFT JOIN missing AS m USING (config_key) LEFT JOIN configuration AS c USING (config_key)
WHERE s.reached + s.missed > 0
ORDER BY s.workload, c.place IS NULL, c.place, s.config_key;
