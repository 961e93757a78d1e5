-- Speed-up over serial: median epoch times and their intervals, and the ideal line.
-- Needs serial runs, and runs with several numbers of workers, of the same workload and batch.
SELECT workload, title, workers, one / seconds AS speedup, one / high AS low, one / low AS high,
	ifnull((SELECT max(r.oversubscribed) FROM selected AS s JOIN run AS r USING (id)
		WHERE s.place = configuration), 0) AS crowded, look
FROM scaling
ORDER BY workload, place, title, workers;
