-- runs.sql - the runs for export into folders: the columns RUN_ID and so on (share.h).
-- Status codes are MLflow's: 1 running, 2 scheduled, 3 finished, 4 failed.
SELECT id, id || '-' || config || '-seed' || seed, workload,
	CASE status WHEN 'running' THEN 1 WHEN 'pending' THEN 2 WHEN 'done' THEN 3 ELSE 4 END,
	CAST(ifnull(strftime('%s', started), 0) AS REAL), CAST(strftime('%s', finished) AS REAL),
	host, json_array(id, host, started, config_hash)
FROM run_summary ORDER BY id
