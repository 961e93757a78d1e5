-- calibration_print_wires.sql - the calibrations between hosts after number ?1, formatted. For each
-- length: the time of a message, of one each way at once, of an allreduce of the same size; and the
-- simulated times.
WITH figure AS (
	SELECT c.id, c.workers AS hosts, c.lab_rate, p.x AS bytes,
		max(value) FILTER (WHERE name = 'message') AS message,
		max(value) FILTER (WHERE name = 'sim_message') AS sim_message,
		max(value) FILTER (WHERE name = 'both') AS both,
		max(value) FILTER (WHERE name = 'sim_both') AS sim_both,
		max(value) FILTER (WHERE name = 'allreduce') AS allreduce,
		max(value) FILTER (WHERE name = 'sim_allreduce') AS sim_allreduce
	FROM calibration AS c JOIN (
		SELECT calibration_id, name, value, x * iif(name GLOB '*allreduce', 4, 1) AS x
		FROM calibration_point) AS p ON p.calibration_id = c.id
	WHERE c.id > CAST(?1 AS INTEGER) AND c.hosts IS NOT NULL AND p.name <> 'sum'
	GROUP BY c.id, p.x)
SELECT hosts, ifnull(lab_rate, '-') AS 'lab.rate', CAST(bytes AS INTEGER) AS bytes,
	printf('%.4g', 1e3 * message) AS 'message ms',
	printf('%.4g', 1e3 * sim_message) AS simulated,
	printf('%.4g', 1e3 * both) AS 'both ways ms', printf('%.4g', 1e3 * sim_both) AS simulated,
	printf('%.4g', 1e3 * allreduce) AS 'allreduce ms',
	printf('%.4g', 1e3 * sim_allreduce) AS simulated
FROM figure ORDER BY id, bytes
