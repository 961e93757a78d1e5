-- line.sql - the fields (fields.sql) in line ?1 of a file of version ?2: the parameter of each, its
-- value, whether that is a real number, and what is wrong; NULL = nothing. In version 1, train_loss
-- was the running loss.
WITH given AS MATERIALIZED (
	SELECT iif(?2 = 1 AND key = 'train_loss', 'running_loss', key) AS key, type, atom,
		?1 -> fullkey AS raw
	FROM json_each(?1))
SELECT ':' || f.name, iif(g.type = 'text', g.atom, g.raw),
	f.type = 'real' AND g.key IS NOT NULL,
	CASE WHEN g.key IS NULL THEN iif(f.needed, printf('"%s" is missing', f.name), NULL)
		WHEN (SELECT count(*) FROM given WHERE key = f.name) > 1
			THEN printf('"%s" occurs twice', f.name)
		WHEN g.type <> f.type AND NOT (g.type = 'integer' AND f.type = 'real')
			THEN printf('"%s" is of type %s, not %s', f.name, g.type, f.type)
		WHEN CASE f.type WHEN 'integer' THEN atom < 0 WHEN 'real' THEN NOT abs(atom) < 9e999
				OR (f.name = 'test_accuracy' AND atom NOT BETWEEN 0 AND 1) END
			THEN printf('"%s":%s is out of range', f.name, raw) END
FROM field AS f LEFT JOIN given AS g ON g.key = f.name
UNION ALL SELECT NULL, NULL, 0, printf('"%s" is not a field of a baseline', key)
FROM given WHERE key NOT IN (SELECT name FROM field)
