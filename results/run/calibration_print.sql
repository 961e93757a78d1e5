-- calibration_print.sql - the calibrations after number ?1, formatted; "-": not measured.
WITH figure AS (
	SELECT c.*,
		1e3 * (SELECT total(value * share) / nullif(total(share), 0) FROM (
			SELECT value, min(ifnull(lead(x) OVER (ORDER BY x), 9e99),
				64 * (CAST(x AS INTEGER) / 64 + 1)) - x AS share
			FROM calibration_point WHERE calibration_id = c.id AND name = 'step'))
				AS step,
		1e3 * (SELECT value FROM calibration_point
			WHERE calibration_id = c.id AND name = 'sync' AND x = c.params) AS sync,
		1e3 * (SELECT value FROM calibration_point
			WHERE calibration_id = c.id AND name = 'allreduce' AND x = c.params)
				AS allreduce,
		1e6 * (SELECT value FROM calibration_point
			WHERE calibration_id = c.id AND name = 'message'
			ORDER BY x LIMIT 1) AS latency
	FROM calibration AS c WHERE c.id > CAST(?1 AS INTEGER))
SELECT id, made, workload, batch, device, workers, cores,
	iif(step IS NULL, '-', printf('%.4g', step)) AS 'step ms',
	iif(sync IS NULL, '-', printf('%.4g', sync)) AS 'sync ms',
	iif(allreduce IS NULL, '-', printf('%.4g', allreduce)) AS 'allreduce ms',
	iif(latency IS NULL, '-', printf('%.3g', latency)) AS 'latency us'
FROM figure ORDER BY id
