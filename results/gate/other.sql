-- other.sql - what the runs that are compared with baseline ?1 do not have in common with its runs:
-- does it forbid the comparison, and the message.
WITH part AS (
	SELECT j.key AS name, j.value->>0 AS there, j.value->>1 AS here, r.id,
		b.options->>'workload' || ' ' || b.config AS cell,
		j.key IN ('parameters', 'rows to train on', 'rows to test on') AS forbids
	FROM baseline AS b JOIN checked AS c ON c.name = b.name AND c.cell = b.cell
			AND (c.seed = b.seed OR c.seed NOT IN ( -- --seeds
				SELECT seed FROM baseline WHERE name = b.name AND cell = b.cell))
		JOIN run AS r ON r.id = c.run_id LEFT JOIN run AS s ON s.id = b.run_id
		JOIN json_each(json_object('parameters', json_array(b.params, r.params),
			'rows to train on', json_array(b.train_size, r.train_size),
			'rows to test on', json_array(b.test_size, r.test_size),
			'cpu', json_array(b.cpu, r.cpu), 'gpu', json_array(b.gpu, r.gpu),
			'mpi', json_array(b.mpi, r.mpi), 'onednn', json_array(b.onednn, r.onednn),
			'cuda', json_array(b.cuda, r.cuda), 'network', json_array(
				iif(s.id, ifnull(s.hosts || ': ' || s.network, 'one machine'),
					NULL),
				ifnull(r.hosts || ': ' || r.network, 'one machine')))) AS j
	WHERE b.name = ?1 AND j.value->>0 <> j.value->>1)
SELECT forbids, 'baseline ' || ?1 || CASE WHEN forbids THEN printf(
		' is of another configuration: %s has %s %s there, and %s in run %d', cell, there,
		name, here, id)
	WHEN name = 'network' THEN printf(' was made over another network (%s there, %s here): '
		|| 'pushes arrive in another order there, which can cause differences', there, here)
	ELSE printf(' was made on another machine (%s: %s there, %s here): floats are rounded '
		|| 'differently there, and can cause differences', name, there, here) END
FROM (SELECT *, max(id) FROM part GROUP BY name) ORDER BY forbids DESC
