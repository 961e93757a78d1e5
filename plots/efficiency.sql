-- Scaling efficiency: the speed-up over one worker, divided by the workers; 1 is ideal. Medians and their intervals.
-- Needs runs of one worker and of several, of the same workload and batch.
WITH line AS (
	SELECT p.workload, p.series || iif(max(p.n) OVER w > 1, iif(min(p.n) OVER w = max(p.n) OVER w,
			' (n=' || p.n || ')', ' (n=' || min(p.n) OVER w || '..' || max(p.n) OVER w || ')'), '')
			AS title,
		p.workers, o.epoch_seconds / p.workers AS ideal, p.seconds, p.low, p.high,
		(SELECT max(r.oversubscribed) FROM selected AS s JOIN run AS r USING (id)
			WHERE s.place = p.place) AS crowded,
		min(p.place) OVER w AS place, max(p.workers) OVER w AS most
	FROM pace AS p JOIN one_worker AS o USING (compare_key)
	WINDOW w AS (PARTITION BY p.workload, p.series))
SELECT workload, title, workers, ideal / seconds AS efficiency, ideal / high AS low, ideal / low AS high,
	ifnull(crowded, 0) AS crowded
FROM line WHERE most > 1
ORDER BY workload, place, title, workers;
