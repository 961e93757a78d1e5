-- Where the time of an epoch goes: compute, communication, waiting, other. Means over epochs and runs.
-- Needs runs of at least one epoch.
WITH split AS (
	SELECT place, sum(seconds) / sum(share) AS seconds, ifnull(sum(compute_s) / sum(share), 0) AS compute,
		ifnull(sum(comm_s) / sum(share), 0) AS comm,
		ifnull(sum(wait_s) / sum(share), 0) AS wait
	FROM fitting WHERE seconds IS NOT NULL GROUP BY place)
SELECT workload, title, compute, comm, wait, max(0, seconds - compute - comm - wait) AS other
FROM configuration LEFT JOIN split USING (place)
WHERE seconds IS NOT NULL OR NOT fits
ORDER BY place;
