-- calibration_wires.sql - the newest calibration between hosts with lab rate ?1 ('': no lab) and
-- ?2 ranks; otherwise with the next smaller number, or the smallest. Returns its number, its cores,
-- and the largest number of hosts of any such calibration.
WITH wires AS (
	SELECT * FROM calibration
	WHERE hosts IS NOT NULL AND ifnull(lab_rate, '') = ?1 AND workers BETWEEN 1 AND 65536
		AND ifnull(cores, 1) BETWEEN 1 AND 65536)
SELECT max(id), ifnull(cores, 1), (SELECT max(workers) FROM wires) FROM wires
GROUP BY workers ORDER BY workers <= ?2 DESC, abs(workers - ?2) LIMIT 1
