-- exercises.sql - checks the exercises of TUTORIAL.md, one row for each: has a run with its label the figure that it
-- asks for? The answers are not in here: a least value is found if the next smaller one is not enough.
WITH tried AS (
	SELECT s.*, r.sim_rate FROM run_summary AS s JOIN run AS r USING (id)
	WHERE s.status = 'done' AND s.label GLOB 'exercise*'),
batch AS (
	SELECT test_accuracy FROM run_summary WHERE label = 'batch' AND workers = 16 AND status = 'done'
	ORDER BY id DESC LIMIT 1),
one AS (
	SELECT epoch_seconds FROM run_summary WHERE label = 'cluster' AND workers = 1 AND status = 'done'
	ORDER BY id DESC LIMIT 1),
-- exercises about a least value: right says whether it is large enough
bound AS (
	SELECT label, sim_rate AS x, comm_fraction <= 0.2 AS right FROM tried WHERE label = 'exercise3' AND workers = 8
	UNION ALL SELECT label, sync_every, comm_fraction < 0.1 FROM tried
	WHERE label = 'exercise4' AND strategy = 'periodic' AND workers = 8
	UNION ALL SELECT t.label, sync_every, one.epoch_seconds / t.epoch_seconds / workers >= 0.8 FROM tried AS t JOIN one
	WHERE label = 'exercise9' AND strategy = 'periodic' AND workers = 64),
found AS (
	SELECT label, max(x) FILTER (WHERE NOT right) AS low, min(x) FILTER (WHERE right) AS high FROM bound GROUP BY label),
least AS (
	SELECT label, ifnull(high = low + 1, 0) AS solved, printf('too short: %s, long enough: %s',
		ifnull(low, 'none yet'), ifnull(high, 'none yet')) AS hint FROM found),
exercise (number, asks, solved, hint) AS (
	SELECT 2, '16 workers gain a point of accuracy', max(t.test_accuracy) >= batch.test_accuracy + 0.01,
		printf('best so far: %+.1f points', 100 * (max(t.test_accuracy) - batch.test_accuracy))
	FROM batch LEFT JOIN tried AS t ON t.label = 'exercise2' AND t.workers = 16 AND t.strategy = 'allreduce'
	UNION ALL SELECT 3, 'the least rate, within 10 %', iif(label IS NULL, NULL, ifnull(high / low BETWEEN 1 AND 1.1, 0)),
		printf('too slow: %s, fast enough: %s', iif(low IS NULL, 'none yet', printf('%g gbit', low / 1e9)),
			iif(high IS NULL, 'none yet', printf('%g gbit', high / 1e9)))
	FROM (SELECT 1) LEFT JOIN found ON label = 'exercise3'
	UNION ALL SELECT 4, 'the shortest interval', solved, hint FROM (SELECT 1) LEFT JOIN least ON label = 'exercise4'
	UNION ALL SELECT 5, 'a mean staleness of 30', min(abs(t.staleness_mean - 30)) < 0.5,
		printf('nearest so far: %.1f', t.staleness_mean) -- of the row of min()
	FROM (SELECT 1) LEFT JOIN tried AS t ON t.label = 'exercise5'
	UNION ALL SELECT 9, 'the shortest interval', solved, hint FROM (SELECT 1) LEFT JOIN least ON label = 'exercise9')
SELECT number AS exercise, asks,
	CASE WHEN solved IS NULL THEN 'not tried' WHEN solved THEN 'solved' ELSE 'not yet: ' || hint END AS result
FROM exercise ORDER BY number;
