-- newest.sql - the newest run of the configuration ?1 that counts. It is later than time ?2 and
-- than run ?3, the last of the baseline, because both can be of the same second. This very build
-- made it (commit ?6, '' = not clean; or program ?7) on this host ?5. With ?4 = 'never' no run is
-- made: any program's runs count then, and failures too. own: an earlier check recorded that this
-- program made it.
SELECT id, id IN (SELECT run_id FROM checked WHERE run_id = r.id AND program = ?7) AS own
FROM run AS r
WHERE config_hash = ?1 AND started >= ?2 AND id > ?3 AND trace = 0
	AND (status IN ('done', 'diverged') OR (?4 = 'never' AND status = 'failed'
		AND ifnull(reason, '') NOT LIKE ?8 || '%'))
	AND (?4 = 'never'
		OR (host = ?5 AND ((?6 <> '' AND git_commit = ?6 AND git_dirty = 0) OR own)))
ORDER BY id DESC LIMIT 1
