-- runs.sql - a run as folders of other programs name it: the columns RUN_ID and so on (share.h).
SELECT id, id || '-' || config || '-seed' || seed, workload, status,
	CAST(ifnull(strftime('%s', started), 0) AS REAL), CAST(strftime('%s', finished) AS REAL),
	host, json_array(id, host, started, config_hash)
FROM run_summary ORDER BY id
