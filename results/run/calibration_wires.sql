-- calibration_wires.sql - the newest calibration between hosts, of a lab with wires of rate ?1 ('':
-- none), by ?2 ranks; else by the next smaller number, or the smallest. Its number, its cores, and
-- over how many hosts there is one.
WITH wires AS (
	SELECT * FROM calibration
	WHERE hosts IS NOT NULL AND ifnull(lab_rate, '') = ?1 AND workers BETWEEN 1 AND 65536
		AND ifnull(cores, 1) BETWEEN 1 AND 65536)
SELECT max(id), ifnull(cores, 1), (SELECT max(workers) FROM wires) FROM wires
GROUP BY workers ORDER BY workers <= ?2 DESC, abs(workers - ?2) LIMIT 1
