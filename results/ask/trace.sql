-- trace.sql - a run's timeline as trace events of Chrome and Perfetto, one JSON object for each
-- row, in the connection's temporary schema: of run ?1, steps ?2 (0 = all) to ?3, in epoch ?4 (0 = all).

CREATE TEMP TABLE asked AS SELECT ?1 AS run, nullif(?2, 0) AS first, ?3 AS last, ?4 AS epoch;
CREATE TEMP TABLE arrow AS SELECT * FROM event_arrow WHERE run_id = ?1;

-- In the order in which they are written:
CREATE TEMP TABLE trace_process AS
SELECT json_object('ph', 'M', 'pid', 1, 'tid', 0, 'name', 'process_name', 'args',
	json_object('name', 'run ' || id || ': ' || workload || ', ' || config
		|| iif(label = '', '', ', ' || label))) AS json
FROM run_summary WHERE id = ?1;

CREATE TEMP VIEW trace_tracks AS
SELECT json_object('ph', 'M', 'pid', 1, 'tid', rank, 'name', column1, 'args',
	iif(column1 = 'thread_name', json_object('name',
		iif(rank < workers, 'worker ' || rank, 'server ' || (rank - workers))),
	json_object('sort_index', rank))) AS json
FROM (SELECT DISTINCT e.rank, r.workers
		FROM asked CROSS JOIN event AS e ON e.run_id = asked.run
			JOIN run AS r ON r.id = e.run_id)
	CROSS JOIN (VALUES ('thread_name'), ('thread_sort_index'))
ORDER BY rank;

-- The events of the selected steps and epochs.
CREATE TEMP VIEW wanted AS
SELECT e.* FROM asked AS a CROSS JOIN event AS e ON e.run_id = a.run
WHERE (a.first IS NULL OR e.step BETWEEN a.first AND a.last) AND (a.epoch = 0 OR e.epoch = a.epoch);

CREATE TEMP VIEW trace_slices AS
SELECT json_object('ph', 'X', 'pid', 1, 'tid', e.rank, 'name', e.name,
	'cat', iif(e.parent IS NULL, 'part of the epoch', 'part of a step'), 'cname', k.cname,
	'ts', round(1e6 * e.start_s, 3), 'dur', round(1e6 * e.duration_s, 3),
	'args', json(json_patch('{}', json_object('epoch', e.epoch, 'step', nullif(e.step, 0),
		'peer', e.peer, 'bytes', e.bytes, 'staleness', e.staleness)))) AS json
FROM wanted AS e LEFT JOIN event_kind AS k ON k.name = e.name ORDER BY e.rank, e.seq;

CREATE TEMP VIEW trace_arrows AS
SELECT json_object('ph', column1, 'id', i, 'pid', 1, 'tid', iif(column1 = 's', from_rank, to_rank),
	'name', 'push', 'cat', 'push', 'bp', 'e',
	'ts', round(1e6 * iif(column1 = 's', from_s, to_s), 3)) AS json
FROM (SELECT a.*, row_number() OVER (ORDER BY a.from_s, a.from_rank, a.to_rank) AS i
		FROM asked AS q CROSS JOIN arrow AS a
			CROSS JOIN event AS f
				ON f.run_id = a.run_id AND f.rank = a.from_rank
				AND f.seq = a.from_seq
			CROSS JOIN event AS e
				ON e.run_id = a.run_id AND e.rank = a.to_rank AND e.seq = a.to_seq
		WHERE (q.first IS NULL OR (f.step BETWEEN q.first AND q.last
				AND e.step BETWEEN q.first AND q.last))
			AND (q.epoch = 0 OR (f.epoch = q.epoch AND e.epoch = q.epoch)))
	CROSS JOIN (VALUES ('s'), ('f'))
ORDER BY i, column1 DESC;

CREATE TEMP VIEW trace_staleness AS
SELECT json_object('ph', 'C', 'pid', 1, 'tid', rank, 'name', 'staleness, worker ' || rank,
	'ts', round(1e6 * start_s, 3), 'args', json_object('updates', staleness)) AS json
FROM wanted WHERE staleness IS NOT NULL ORDER BY rank, seq;

CREATE TEMP VIEW trace_count AS
SELECT count(*), count(DISTINCT rank), (SELECT events_lost FROM run JOIN asked ON id = asked.run)
FROM wanted;
