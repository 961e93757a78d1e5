-- watch.sql - the progress of the work in a database, in the connection's temporary schema. `mvbench watch` and
-- `mvbench status` read tables `work` and `running`. ?1: seconds without a run that end a period of work (bout);
-- earlier runs do not count.

CREATE TEMP TABLE bout AS
WITH timed AS (
	SELECT id, iif(status = 'failed' AND reason LIKE 'interrupted%', 'interrupted', status) AS status,
		workload, strategy, workers, epochs, -- before: the share that was done at its last resumption
		ifnull((SELECT 1.0 * min(epoch, 0.999 * epochs) / epochs FROM resumption WHERE run_id = id
			ORDER BY number DESC LIMIT 1), 0) AS before,
		CAST(strftime('%s', started) AS REAL) AS began,
		CAST(strftime('%s', ifnull(finished, 'now')) AS REAL) AS ended
	FROM run WHERE started IS NOT NULL AND status <> 'pending' AND NOT (status = 'failed' -- and was run again
		AND EXISTS (SELECT 1 FROM run AS r WHERE r.config_hash = run.config_hash AND r.id > run.id))),
gap AS (
	SELECT *, ifnull(began - max(ended) OVER (ORDER BY began, id
		ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) > ?1, 1) AS first FROM timed)
SELECT id, status, workload, strategy, workers, epochs, before, began, ended FROM gap
WHERE began >= (SELECT max(began) FROM gap WHERE first)
UNION ALL SELECT id, status, workload, strategy, workers, epochs, 0, NULL, NULL FROM run WHERE status = 'pending';

CREATE TEMP TABLE running AS
SELECT r.id, r.workload || ' ' || k.config || iif(r.label = '', '', ', ' || r.label) || ', seed ' || r.seed AS what,
	'epoch ' || ifnull(e.epoch, 0) || '/' || r.epochs
		|| iif(e.seconds > 0, printf(', %.3g s an epoch, %.0f samples/s', e.seconds / e.share,
			r.train_size * e.share / e.seconds), '')
		|| iif(e.test_loss IS NULL, '', printf(', loss %.4f', e.test_loss))
		|| iif(e.test_accuracy IS NULL, '', printf(', accuracy %.2f %%', 100 * e.test_accuracy)) AS figures,
	ifnull(e.epoch, 0) AS epoch, r.epochs
FROM run AS r JOIN run_figures AS k ON k.run_id = r.id
	LEFT JOIN epoch AS e ON e.run_id = r.id AND e.epoch = (SELECT max(epoch) FROM epoch WHERE run_id = r.id)
WHERE r.status = 'running' ORDER BY r.id;

-- The remaining work is assumed to be as fast as the finished work; a cell weighs the mean time of others of its kind.
CREATE TEMP TABLE work AS
WITH kind AS (
	SELECT workload, strategy, workers, avg(max(0.5, ended - began) / (1 - before)) AS takes
	FROM bout WHERE status IN ('done', 'diverged') GROUP BY workload, strategy, workers),
cell AS (
	SELECT b.status, b.began, b.before, ifnull(k.takes, ifnull((SELECT avg(takes) FROM kind), 1)) AS takes,
		CASE b.status WHEN 'pending' THEN 0 WHEN 'running'
			THEN (SELECT 1.0 * epoch / epochs FROM running AS r WHERE r.id = b.id) ELSE 1 END AS part
	FROM bout AS b LEFT JOIN kind AS k USING (workload, strategy, workers))
SELECT count(*) AS cells, count(*) FILTER (WHERE status = 'done') AS done,
	count(*) FILTER (WHERE status = 'diverged') AS diverged, count(*) FILTER (WHERE status = 'failed') AS failed,
	count(*) FILTER (WHERE status = 'interrupted') AS interrupted,
	count(*) FILTER (WHERE status = 'running') AS running, count(*) FILTER (WHERE status = 'pending') AS pending,
	total(takes * part) / nullif(total(takes), 0) AS share,
	(strftime('%s', 'now') - min(began)) * total(takes * (1 - part)) / nullif(total(takes * (part - before)), 0) AS left_s
FROM cell;
