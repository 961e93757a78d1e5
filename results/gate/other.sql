-- other.sql - what the runs that are compared with baseline ?1 do not have in common with its runs:
-- does it forbid the comparison, and the message.
WITH pair AS (
	SELECT max(r.id) AS id, b.options->>'workload' || ' ' || b.config AS cell,
		json_object('parameters', b.params, 'rows to train on', b.train_size,
			'rows to test on', b.test_size, 'cpu', b.cpu, 'gpu', b.gpu, 'mpi', b.mpi,
			'onednn', b.onednn, 'cuda', b.cuda, 'network',
			iif(s.id, ifnull(s.hosts || ': ' || s.network, 'one machine'), NULL))
			AS there,
		json_object('parameters', r.params, 'rows to train on', r.train_size,
			'rows to test on', r.test_size, 'cpu', r.cpu, 'gpu', r.gpu, 'mpi', r.mpi,
			'onednn', r.onednn, 'cuda', r.cuda, 'network',
			ifnull(r.hosts || ': ' || r.network, 'one machine')) AS here
	FROM baseline AS b JOIN checked AS c ON c.name = b.name AND c.cell = b.cell
			AND (c.seed = b.seed OR c.seed NOT IN ( -- --seeds
				SELECT seed FROM baseline WHERE name = b.name AND cell = b.cell))
		JOIN run AS r ON r.id = c.run_id LEFT JOIN run AS s ON s.id = b.run_id
	WHERE b.name = ?1 GROUP BY there, here),
part AS (
	SELECT p.id, p.cell, j.key AS name, j.atom AS there, p.here->>j.key AS here,
		j.key IN ('parameters', 'rows to train on', 'rows to test on') AS forbids
	FROM pair AS p CROSS JOIN json_each(p.there) AS j
	WHERE j.atom <> p.here->>j.key)
SELECT forbids, 'baseline ' || ?1 || CASE WHEN forbids THEN printf(
		' is of another configuration: %s has %s %s there, and %s in run %d', cell, there,
		name, here, id)
	WHEN name = 'network' THEN printf(' was made over another network (%s there, %s here): '
		|| 'pushes arrive in another order there, which can cause differences', there, here)
	ELSE printf(' was made on another machine (%s: %s there, %s here): floats are rounded '
		|| 'differently there, and can cause differences', name, there, here) END
FROM (SELECT *, max(id) FROM part GROUP BY name) ORDER BY forbids DESC
