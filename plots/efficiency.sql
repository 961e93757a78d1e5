-- Scaling efficiency: the speed-up over serial, divided by the workers; 1 is ideal. Medians and their intervals.
-- Needs serial runs, and runs with several numbers of workers, of the same workload and batch.
SELECT workload, title, workers, one / workers / seconds AS efficiency, one / workers / high AS low,
	one / workers / low AS high,
	ifnull((SELECT max(r.oversubscribed) FROM selected AS s JOIN run AS r USING (id)
		WHERE s.place = configuration), 0) AS crowded, look
FROM scaling
ORDER BY workload, place, title, workers;
