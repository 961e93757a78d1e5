-- blame.sql - what `mvbench blame` prints about run ?1, in the connection's temporary schema.
-- The views of the database are read once. place 1 is the slowest worker, of the run or of an epoch.

CREATE TEMP TABLE asked AS SELECT s.id, s.workload, s.config, s.label, r.trace, r.workers
FROM run_summary AS s JOIN run AS r ON r.id = s.id WHERE s.id = ?1;
CREATE TEMP TABLE share AS SELECT * FROM time_share WHERE run_id = ?1;
CREATE TEMP TABLE timed AS SELECT * FROM step_time WHERE run_id = ?1;
CREATE TEMP TABLE blame AS
SELECT b.*,
	row_number() OVER (PARTITION BY epoch ORDER BY waited_s DESC, busy_s DESC, rank) AS place
FROM blame_epoch AS b WHERE run_id = ?1;
CREATE TEMP TABLE total AS
SELECT rank, max(source) AS source, sum(busy_s) AS busy_s, sum(waited_s) AS waited_s,
	sum(of_s) AS of_s, count(*) AS epochs,
	row_number() OVER (ORDER BY sum(waited_s) DESC, sum(busy_s) DESC, rank) AS place
FROM blame GROUP BY rank;

CREATE TEMP VIEW by_rank AS
SELECT iif(t.rank < r.workers, 'worker ' || t.rank, 'server ' || (t.rank - r.workers)) AS "rank",
	round(t.waited_s, 4) AS "waited for [s]", round(t.busy_s, 4) AS "busy [s]",
	s.n AS "steps kept",
	round(1e3 * s.median_s, 3) AS "median step [ms]", round(1e3 * s.p99_s, 3) AS "99 % [ms]",
	(SELECT group_concat(text, ', ') FROM (
		SELECT name || ' ' || round(100 * share, 1) || ' %' AS text FROM share
		WHERE rank = t.rank AND share >= 0.0005 ORDER BY share DESC)) AS "its time"
FROM (SELECT rank, waited_s, busy_s FROM total
	UNION ALL SELECT DISTINCT rank, NULL, NULL FROM share
	WHERE rank NOT IN (SELECT rank FROM total)) AS t
	LEFT JOIN timed AS s ON s.rank = t.rank JOIN asked AS r
ORDER BY t.rank;

CREATE TEMP VIEW by_epoch AS
SELECT epoch, 'worker ' || rank AS slowest, round(waited_s, 4) AS "waited for it [s]",
	round(100 * waited_s / nullif(of_s, 0), 1) || ' %' AS "of the others' time"
FROM blame WHERE place = 1 ORDER BY epoch;

CREATE TEMP VIEW verdict AS
SELECT CASE WHEN r.workers = 1 THEN printf('run %d has one worker: no other waits for it.', r.id)
	WHEN t.waited_s > 0 THEN printf('run %d: worker %d is the slowest: the others waited %.4g s for it, '
		|| '%.1f %% of their time.', r.id, t.rank, t.waited_s, ifnull(100 * t.waited_s / nullif(t.of_s, 0), 0))
	ELSE printf('run %d: worker %d was busy longest; no other waited for it.', r.id, t.rank) END || char(10)
	|| CASE WHEN t.source = 'events' THEN printf('From its timeline: the first %d steps of each epoch, '
		|| 'and all barriers.', r.trace)
	ELSE 'From the workers'' times of whole epochs' || iif(
		EXISTS (SELECT 1 FROM event WHERE run_id = r.id AND name = 'step'),
		', because no worker waited in the timeline.', '; --trace=64 records steps too.') END
FROM total AS t JOIN asked AS r WHERE t.place = 1;

CREATE TEMP VIEW as_json AS
SELECT json_object('run', s.id, 'workload', s.workload, 'config', s.config, 'label', s.label,
	'slowest', t.rank, 'waited_s', t.waited_s, 'waited_share', t.waited_s / nullif(t.of_s, 0),
	'source', t.source, 'trace', s.trace,
	'epochs', (SELECT json_group_array(json_object('epoch', epoch, 'slowest', rank,
		'waited_s', waited_s, 'waited_share', waited_s / nullif(of_s, 0)))
		FROM blame WHERE place = 1),
	'ranks', (SELECT json_group_array(json_object('rank', o.rank, 'waited_s', o.waited_s,
		'busy_s', o.busy_s, 'steps', d.n, 'step_median_s', d.median_s,
		'step_p99_s', d.p99_s,
		'share', (SELECT json_group_object(name, share) FROM share WHERE rank = o.rank)))
		FROM total AS o LEFT JOIN timed AS d ON d.rank = o.rank)) AS json
FROM total AS t JOIN asked AS s
WHERE t.place = 1;
