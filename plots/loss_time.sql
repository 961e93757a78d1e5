-- Training loss against training time. Medians and their intervals.
-- Needs runs of at least one epoch.
WITH ranked AS (
	SELECT s.place, e.epoch, e.train_loss AS value,
		row_number() OVER (PARTITION BY s.place, e.epoch ORDER BY e.train_loss) AS i,
		count(*) OVER (PARTITION BY s.place, e.epoch) AS n
	FROM selected AS s CROSS JOIN epoch AS e ON e.run_id = s.id
	WHERE e.epoch >= 1 AND e.train_loss IS NOT NULL
		AND s.place IN (SELECT place FROM configuration WHERE fits)),
loss AS (
	SELECT place, epoch, min(value) AS low, max(value) AS high,
		avg(value) FILTER (WHERE i IN ((n + 1) / 2, (n + 2) / 2)) AS median
	FROM ranked JOIN interval_rank AS r USING (n)
	WHERE i IN (r.low, (n + 1) / 2, (n + 2) / 2, r.high) GROUP BY place, epoch)
SELECT t.workload, t.title, t.median AS seconds, l.median, l.low, l.high
FROM elapsed AS t LEFT JOIN loss AS l USING (place, epoch)
WHERE t.epoch IS NULL OR l.median < 9e999 -- of runs that blew up there is nothing to draw
ORDER BY place, epoch;
