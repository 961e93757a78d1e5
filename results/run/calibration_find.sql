-- calibration_find.sql - the newest calibration of this workload, on host ?8 ('' = any), with ?7
-- workers side by side; otherwise with the next smaller number, or the smallest.
SELECT max(id), workers, cores FROM calibration
WHERE workload = ?1 AND workload_options = ?2 AND batch = ?3 AND device = ?4 AND precision = ?5
	AND threads = ?6 AND hosts IS NULL AND workers BETWEEN 1 AND 65536
	AND ifnull(cores, 1) BETWEEN 1 AND 65536 AND (?8 = '' OR host IS NULL OR host = ?8)
GROUP BY workers ORDER BY workers <= ?7 DESC, abs(workers - ?7) LIMIT 1
