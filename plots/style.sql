-- style.sql - what all figures are drawn from. plot.c runs it before NAME.sql, in a temporary
-- schema; the table `chosen` holds the ids of the runs that --where matches.
--
-- A figure's query gives rows of (workload, title, then numbers). There is one picture a workload and
-- one block of data a title, in the order of the rows.

-- One row a finished run that was chosen.
--   name    of its configuration: that of run_summary, and every option by which the chosen runs of
--           this workload differ
--   series  the same without the number of workers
--   title   the name, and the number of runs once there are repeats: "asgd 4w X=3 (n=3)"
--   place   of the configuration, in the order in which a reader looks for it; no two have the same
--   is_loss no run of this workload has an accuracy: it is judged by its loss
CREATE TEMP TABLE selected AS
WITH done AS MATERIALIZED (
	SELECT s.id, s.workload, s.strategy, s.workers, s.servers, s.sync_every, s.config,
		s.config_key, s.compare_key
	FROM run_summary AS s WHERE s.id IN (SELECT id FROM chosen) AND s.status = 'done'),
setting AS MATERIALIZED (
	SELECT d.id, d.workload, o.place, iif(o.part = 'strategy', d.strategy, '') AS owner, o.name,
		ifnull(o.value, '') AS value
	FROM done AS d JOIN (
		SELECT id AS run_id, '' AS part, 1 AS place, 'batch' AS name, batch AS value FROM run
		UNION ALL SELECT id, '', 2, 'lr', format('%g', lr) FROM run
		UNION ALL SELECT id, '', 3, 'lr-schedule', lr_schedule FROM run
		UNION ALL SELECT id, '', 4, 'lr-scale', lr_scale FROM run
		UNION ALL SELECT id, '', 5, 'momentum', format('%g', momentum) FROM run
		UNION ALL SELECT id, '', 6, 'weight-decay', format('%g', weight_decay) FROM run
		UNION ALL SELECT id, '', 7, 'reduce', reduce FROM run
		UNION ALL SELECT id, '', 8, 'epochs', epochs FROM run
		UNION ALL SELECT id, '', 9, 'barrier-every', barrier_every FROM run
		UNION ALL SELECT id, '', 10, 'threads', threads FROM run
		UNION ALL SELECT id, '', 11, 'straggle', format('%g', straggle) FROM run
		UNION ALL SELECT id, '', 12, 'hostfile', hostfile FROM run
		UNION ALL SELECT id, '', 13, 'data-dir', data_dir FROM run
		UNION ALL SELECT id, '', 14, 'target-accuracy', format('%g', target_accuracy) FROM run
		UNION ALL SELECT id, '', 15, 'table-home', table_home FROM run
			WHERE table_home <> 'servers' -- which the name says already: +2s
		UNION ALL SELECT id, '', 16, 'record', iif(record, 'true', 'false') FROM run
		UNION ALL SELECT id, '', 17, 'transport', transport FROM run
			WHERE transport IS NOT NULL -- no vectors of GPUs travel
		UNION ALL SELECT id, '', 18, 'sim.train', iif(sim_train = 0, 'false', NULL) FROM run
		UNION ALL SELECT id, '', 19, 'sim.step-time', sim_step_time FROM run
		UNION ALL SELECT id, '', 20, 'sim.update-time', sim_update_time FROM run
		UNION ALL SELECT id, '', 21, 'sim.slow-link', sim_slow_link FROM run
		UNION ALL SELECT id, '', 22, 'sim.replay', nullif(sim_replay, 0) FROM run
		UNION ALL SELECT run_id, part, 23, name, value FROM run_option
		UNION ALL SELECT id, '', 24, '', label FROM run) AS o ON o.run_id = d.id),
differing AS MATERIALIZED (
	SELECT workload, owner, name FROM setting
	GROUP BY workload, owner, name HAVING count(DISTINCT value) > 1),
extra AS MATERIALIZED (
	SELECT id, group_concat(iif(name = '', ', ', ' ' || name || '=') || short, '') AS text
	FROM (SELECT *, iif(length(value) > 48, substr(value, 1, 47) || '…', value) AS short
		FROM setting JOIN differing USING (workload, owner, name)
		WHERE value <> '' ORDER BY id, place, name)
	GROUP BY id),
named AS (
	SELECT d.*, d.config || ifnull(e.text, '') AS name,
		replace(d.config, ' ' || d.workers || 'w', '') || ifnull(e.text, '') AS series,
		dense_rank() OVER (ORDER BY d.workload, d.workers, d.strategy, d.servers, d.sync_every,
			d.config, e.text, d.config_key) AS place,
		count(*) OVER (PARTITION BY d.config_key) AS n
	FROM done AS d LEFT JOIN extra AS e USING (id))
SELECT *, name || iif(max(n) OVER (PARTITION BY workload) > 1, ' (n=' || n || ')', '') AS title,
	NOT max(EXISTS (SELECT 1 FROM epoch WHERE run_id = id AND test_accuracy IS NOT NULL))
		OVER (PARTITION BY workload) AS is_loss
FROM named;
CREATE TEMP TABLE configuration AS
SELECT DISTINCT place, workload, name, title, series, strategy, workers, servers, sync_every, compare_key,
	n, is_loss
FROM selected ORDER BY place;

-- Medians are taken of narrow rows, and both functions of a window share its order, so that many runs
-- are sorted once, and fast. Names are joined afterwards.

-- How well a model does, one row a configuration and epoch >= 1: its accuracy [%], or the loss of a
-- task that has none: the median of the runs, and their extremes.
CREATE TEMP VIEW quality AS
SELECT workload, place, title, epoch, median, low, high, is_loss
FROM (
	SELECT place, epoch, min(value) AS low, max(value) AS high,
		avg(value) FILTER (WHERE i IN ((n + 1) / 2, (n + 2) / 2)) AS median
	FROM (
		SELECT place, epoch, value, row_number() OVER w AS i,
			count(*) OVER (w ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS n
		FROM (
			SELECT s.place, e.epoch,
				iif(s.is_loss, e.test_loss, 100 * e.test_accuracy) AS value
			FROM selected AS s CROSS JOIN epoch AS e ON e.run_id = s.id
			WHERE e.epoch >= 1)
		WHERE value IS NOT NULL
		WINDOW w AS (PARTITION BY place, epoch ORDER BY value))
	GROUP BY place, epoch) JOIN configuration USING (place);

-- The seconds of training up to the end of each epoch, in the same way.
CREATE TEMP VIEW elapsed AS
SELECT workload, place, title, epoch, median, low, high
FROM (
	SELECT place, epoch, min(value) AS low, max(value) AS high,
		avg(value) FILTER (WHERE i IN ((n + 1) / 2, (n + 2) / 2)) AS median
	FROM (
		SELECT place, epoch, value, row_number() OVER w AS i,
			count(*) OVER (w ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS n
		FROM (
			SELECT s.place, e.epoch,
				sum(e.seconds) OVER (PARTITION BY e.run_id ORDER BY e.epoch) AS value
			FROM selected AS s CROSS JOIN epoch AS e ON e.run_id = s.id
			WHERE e.epoch >= 1)
		WHERE value IS NOT NULL
		WINDOW w AS (PARTITION BY place, epoch ORDER BY value))
	GROUP BY place, epoch) JOIN configuration USING (place);

-- One row a configuration: the median of its runs' seconds an epoch, and their extremes.
CREATE TEMP VIEW pace AS
SELECT *
FROM (
	SELECT place, min(value) AS low, max(value) AS high,
		avg(value) FILTER (WHERE i IN ((n + 1) / 2, (n + 2) / 2)) AS seconds
	FROM (
		SELECT s.place, r.epoch_seconds AS value, row_number() OVER w AS i,
			count(*) OVER (w ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS n
		FROM selected AS s CROSS JOIN run_summary AS r ON r.id = s.id
		WHERE r.epoch_seconds > 0
		WINDOW w AS (PARTITION BY s.place ORDER BY r.epoch_seconds))
	GROUP BY place) JOIN configuration USING (place);

-- What a picture leaves out, said below it.
CREATE TEMP VIEW footnote AS
SELECT workload, iif(count(*) = 1, 'One run that diverged is',
	count(*) || ' runs that diverged are') || ' not shown.' AS text
FROM run WHERE id IN (SELECT id FROM chosen) AND status = 'diverged'
GROUP BY workload;
