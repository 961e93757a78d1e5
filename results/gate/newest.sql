-- newest.sql - finds, for each row of table wanted, the newest run of its configuration that
-- counts. It is later than time ?2 and than the last run of the baseline ?1, because both can be
-- of the same second. This very build made it (commit ?5, '' = not clean; or program ?6) on this
-- host ?4. With ?3 = 'never' no run is made: any program's runs count then, and failures too,
-- unless they were interrupted (their reason begins with ?7). own: an earlier check recorded that
-- this program made it. Without such a run: a pending one that an interrupted check of this
-- baseline left; ended is 0.
UPDATE wanted SET (run_id, own, ended) = (
	SELECT id, id IN (SELECT run_id FROM checked WHERE run_id = r.id AND program = ?6) AS made,
		status <> 'pending'
	FROM run AS r
	WHERE config_hash = wanted.hash AND trace = 0
		AND id > ifnull((SELECT max(run_id) FROM baseline WHERE name = ?1), 0)
		AND CASE status
			WHEN 'pending' THEN id IN (SELECT run_id FROM checked WHERE name = ?1)
			WHEN 'running' THEN 0
			WHEN 'failed' THEN ?3 = 'never' AND ifnull(reason, '') NOT LIKE ?7 || '%'
				AND started >= ?2
			ELSE started >= ?2 AND (?3 = 'never' OR (?3 <> 'always' AND host = ?4
				AND ((?5 <> '' AND git_commit = ?5 AND git_dirty = 0) OR made))) END
	ORDER BY status = 'pending', id DESC LIMIT 1)
