-- Speed-up over one worker: median epoch times and their intervals, and the ideal line.
-- Needs runs of one worker and of several, of the same workload and batch.
WITH line AS (
	SELECT p.workload, p.series || iif(max(p.n) OVER w > 1, iif(min(p.n) OVER w = max(p.n) OVER w,
			' (n=' || p.n || ')', ' (n=' || min(p.n) OVER w || '..' || max(p.n) OVER w || ')'), '')
			AS title,
		p.workers, o.epoch_seconds / p.seconds AS speedup,
		o.epoch_seconds / p.high AS low, o.epoch_seconds / p.low AS high,
		min(p.place) OVER w AS place, max(p.workers) OVER w AS most
	FROM pace AS p JOIN one_worker AS o USING (compare_key)
	WINDOW w AS (PARTITION BY p.workload, p.series))
SELECT workload, title, workers, speedup, low, high
FROM line WHERE most > 1
ORDER BY workload, place, title, workers;
