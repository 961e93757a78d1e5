-- Training time to the target, one bar for each configuration: medians and their intervals, misses counted as latest.
-- Needs runs with a target: mvbench run --target-accuracy=0.85, or --target-loss=0.4.
-- A run that diverged counts as one that missed its target. The time of a missed target is -1.
WITH result AS MATERIALIZED (
	SELECT f.config_key, f.workload, f.target_accuracy, f.target_loss, f.seconds_to_target AS value,
		iif(f.seconds_to_target < 9e999, 0, ifnull((SELECT sum(seconds) FROM epoch
			WHERE run_id = f.id AND epoch >= 1), 0)) AS tried
	FROM finished AS f WHERE f.id IN (SELECT id FROM chosen) AND f.seconds_to_target IS NOT NULL),
ranked AS (
	SELECT config_key, value, row_number() OVER w AS i,
		count(*) OVER (w ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS n
	FROM result WINDOW w AS (PARTITION BY config_key ORDER BY value)),
median AS (
	SELECT r.config_key, avg(r.value) FILTER (WHERE r.i IN ((r.n + 1) / 2, (r.n + 2) / 2)) AS median,
		max(r.value) FILTER (WHERE r.i = ifnull(b.low, 1)) AS low,
		max(r.value) FILTER (WHERE r.i = ifnull(b.high, r.n)) AS high
	FROM ranked AS r JOIN median_rank AS b USING (n) GROUP BY r.config_key),
grouped AS (
	SELECT config_key, workload, target_accuracy, target_loss, count(*) AS n, max(tried) AS tried,
		count(*) FILTER (WHERE value < 9e999) AS reached
	FROM result GROUP BY config_key)
SELECT g.workload, t.configuration || iif(c.place IS NULL, ', diverged', '') AS title,
	iif(m.median < 9e999, m.median, -1) AS seconds, iif(m.low < 9e999, m.low, -1) AS low,
	iif(m.high < 9e999, m.high, -1) AS high, g.reached, g.n, g.tried,
	iif(g.target_loss > 0, -g.target_loss, 100 * g.target_accuracy) AS target, -- below 0: a loss
	c.look
FROM grouped AS g JOIN median AS m USING (config_key) JOIN title AS t USING (config_key)
	LEFT JOIN configuration AS c USING (config_key)
ORDER BY g.workload, c.place IS NULL, c.place, g.config_key;
