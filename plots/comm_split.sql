-- Where the time of an epoch goes: compute, communication, waiting, other. Means over epochs and runs.
-- Needs runs of at least one epoch.
WITH split AS (
	SELECT s.place, avg(e.seconds) AS seconds,
		ifnull(avg(e.compute_s), 0) AS compute, ifnull(avg(e.comm_s), 0) AS comm,
		ifnull(avg(e.wait_s), 0) AS wait
	FROM selected AS s CROSS JOIN epoch AS e ON e.run_id = s.id
	WHERE e.epoch >= 1 AND e.seconds IS NOT NULL
		AND s.place IN (SELECT place FROM configuration WHERE fits)
	GROUP BY s.place)
SELECT workload, title, compute, comm, wait, max(0, seconds - compute - comm - wait) AS other
FROM configuration LEFT JOIN split USING (place)
WHERE seconds IS NOT NULL OR NOT fits
ORDER BY place;
