-- newest.sql - the newest run of the configuration ?1 that counts. It is later than time ?2 and
-- than run ?3, the last of the baseline, because both can be of the same second. This very build
-- made it (commit ?6, '' = not clean; or program ?7) on this host ?5. With ?4 = 'never' no run is
-- made: any program's runs count then, and failures too. own: an earlier check recorded that this
-- program made it. Without such a run: a pending one that an interrupted check of baseline ?9 left.
SELECT id, id IN (SELECT run_id FROM checked WHERE run_id = r.id AND program = ?7) AS own,
	status <> 'pending' AS ended
FROM run AS r
WHERE config_hash = ?1 AND id > ?3 AND trace = 0 AND CASE status
	WHEN 'pending' THEN id IN (SELECT run_id FROM checked WHERE name = ?9)
	WHEN 'running' THEN 0
	WHEN 'failed' THEN ?4 = 'never' AND ifnull(reason, '') NOT LIKE ?8 || '%' AND started >= ?2
	ELSE started >= ?2 AND (?4 = 'never' OR (?4 <> 'always' AND host = ?5
		AND ((?6 <> '' AND git_commit = ?6 AND git_dirty = 0) OR own))) END
ORDER BY status = 'pending', id DESC LIMIT 1
