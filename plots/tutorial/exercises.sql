-- exercises.sql - checks the exercises of TUTORIAL.md, one row for each: has a run with its label the figure that it
-- asks for? The answers are not in here: a least value is found if the next smaller one is not enough.
-- A run counts if its options are those of its step, but for the ones in `options` and for the one that varies. Of a
-- step, the first run is the page's: readers repeat steps with other options.
CREATE TEMP TABLE task AS
WITH task (exercise, asks, step, strategy, options, varies) AS (VALUES
	(2, '+1 point, 16 workers', 'batch', 'allreduce', '{"workers":16}', 'lr'),
	(3, 'least rate r, Gbit/s', 'share', 'allreduce', '{"sim_platform":"cluster"}', 'sim_rate'),
	(4, 'interval, 8 workers', 'interval', 'periodic', '{"sim_train":0,"epochs":1}', 'sync_every'),
	(5, 'mean staleness 30', 'stale', 'asgd', '{"sim_train":0,"reduce":"mean"}', 'workers'),
	(9, 'interval, 64 workers', 'cluster', 'periodic', '{"workers":64}', 'sync_every')),
page AS (
	SELECT t.*, s.config_key, min(s.id) AS first FROM task AS t LEFT JOIN run_summary AS s
		ON s.label = t.step AND s.strategy = t.strategy AND s.status = 'done' GROUP BY exercise)
SELECT exercise, asks, 'exercise' || exercise AS label, varies, iif(exercise = 3, 'r', 'X') AS name,
	json_remove(json_patch(config_key, options), '$.label', '$.' || varies) AS own,
	(SELECT test_accuracy FROM run_summary WHERE label = 'batch' AND workers = 16 AND status = 'done' ORDER BY id)
		AS accuracy,
	(SELECT epoch_seconds FROM run_summary WHERE label = 'cluster' AND workers = 1 AND status = 'done' ORDER BY id)
		AS seconds
FROM page;

-- x: what varies; y: what it is judged by
CREATE TEMP TABLE tried AS
WITH run AS (
	SELECT t.*, s.id, s.config_key, json_remove(s.config_key, '$.label', '$.' || t.varies) IS t.own AS counts,
		iif(t.exercise = 3, 1e-9, 1) * (s.config_key ->> t.varies) AS x,
		CASE t.exercise WHEN 2 THEN 100 * (s.test_accuracy - t.accuracy) WHEN 5 THEN s.staleness_mean
			WHEN 9 THEN t.seconds / s.epoch_seconds / s.workers ELSE 100 * s.comm_fraction END AS y
	FROM task AS t JOIN run_summary AS s ON s.label = t.label AND s.status = 'done')
SELECT *, CASE exercise WHEN 2 THEN y >= 1 WHEN 3 THEN y <= 20 WHEN 4 THEN y < 10 WHEN 5 THEN abs(y - 30) < 0.5
	ELSE y >= 0.8 END AS right
FROM run;

-- text: x and y, to print
CREATE TEMP TABLE counted AS
SELECT *, printf(iif(exercise = 9, '%d (%.2f)', '%.4g (%.0f %%)'), x, y) AS text FROM tried WHERE counts;

WITH low AS ( -- of exercises about a least value: the greatest x that is too small, and the least that is enough
	SELECT exercise, max(x) AS x, text FROM counted WHERE NOT right GROUP BY exercise),
high AS (SELECT exercise, min(x) AS x, text FROM counted WHERE right GROUP BY exercise),
best AS (SELECT *, min(iif(exercise = 5, abs(y - 30), -y)) FROM counted GROUP BY exercise)
SELECT t.exercise, t.asks, CASE
	WHEN b.x IS NULL AND t.label NOT IN (SELECT label FROM tried) THEN 'not tried'
	WHEN b.x IS NULL THEN iif(t.own IS NULL, 'first run step ' || t.exercise, 'no run counts: see below')
	WHEN t.exercise = 2 THEN printf('%s%+.2f points, lr %.3g', iif(b.right, 'solved: ', 'not yet: '), b.y, b.x)
	WHEN t.exercise = 5 THEN printf('%s%.1f, %d workers', iif(b.right, 'solved: ', 'not yet: '), b.y, b.x)
	WHEN iif(t.exercise = 3, h.x / l.x BETWEEN 1 AND 1.1, h.x = l.x + 1) THEN 'solved: ' || t.name || ' = ' || h.text
	ELSE 'not yet: ' || ifnull(l.text || ' < ', '') || t.name || ifnull(' <= ' || h.text, '') END AS result
FROM task AS t LEFT JOIN best AS b USING (exercise) LEFT JOIN low AS l USING (exercise)
	LEFT JOIN high AS h USING (exercise) ORDER BY t.exercise;

-- Runs that do not count, with the options that differ; sqlite3 prints nothing if there are none.
SELECT r.exercise, r.id AS run, 'does not count: ' || substr(group_concat(k.key || ' = ' || k.value, ', '), 1, 40) AS why
FROM tried AS r, json_each(r.config_key) AS k
WHERE NOT r.counts AND r.own IS NOT NULL AND k.key NOT IN ('label', r.varies)
	AND k.value IS NOT (SELECT value FROM json_each(r.own) WHERE key = k.key)
GROUP BY r.id;
