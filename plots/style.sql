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
--   place   of the configuration, in the order in which a reader looks for it
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
		UNION ALL SELECT run_id, part, 15, name, value FROM run_option
		UNION ALL SELECT id, '', 16, '', label FROM run) AS o ON o.run_id = d.id),
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
		dense_rank() OVER (PARTITION BY d.workload ORDER BY d.strategy <> 'serial', d.strategy,
			d.workers, d.servers, d.sync_every, d.config, e.text, d.config_key) AS place,
		count(*) OVER (PARTITION BY d.config_key) AS n
	FROM done AS d LEFT JOIN extra AS e USING (id))
SELECT *, name || iif(max(n) OVER (PARTITION BY workload) > 1, ' (n=' || n || ')', '') AS title
FROM named;

-- One row a measure, configuration and epoch >= 1: the median of its runs, and their extremes.
CREATE TEMP VIEW curve AS
WITH elapsed AS (
	SELECT s.workload, s.place, s.title, e.epoch, e.test_accuracy, e.test_loss, e.seconds,
		sum(e.seconds) OVER (PARTITION BY e.run_id ORDER BY e.epoch) AS elapsed_s
	FROM selected AS s JOIN epoch AS e ON e.run_id = s.id
	WHERE e.epoch >= 1),
measured AS (
	SELECT 'accuracy' AS measure, workload, place, title, epoch, test_accuracy AS value FROM elapsed
	UNION ALL SELECT 'loss', workload, place, title, epoch, test_loss FROM elapsed
	UNION ALL SELECT 'elapsed', workload, place, title, epoch, elapsed_s FROM elapsed),
ranked AS (
	SELECT *, row_number() OVER (PARTITION BY measure, workload, place, epoch ORDER BY value) AS i,
		count(*) OVER (PARTITION BY measure, workload, place, epoch) AS n
	FROM measured WHERE value IS NOT NULL)
SELECT measure, workload, place, title, epoch, min(value) AS low, max(value) AS high,
	avg(value) FILTER (WHERE i = 1) AS median
FROM ranked GROUP BY measure, workload, place, epoch;

-- How well a model does: its accuracy [%], or the loss of a task that has none (is_loss = 1).
CREATE TEMP VIEW quality AS
SELECT workload, place, title, epoch, 100 * median AS median, 100 * low AS low, 100 * high AS high,
	0 AS is_loss
FROM curve WHERE measure = 'accuracy'
UNION ALL
SELECT workload, place, title, epoch, median, low, high, 1
FROM curve WHERE measure = 'loss' AND workload NOT IN (
	SELECT workload FROM selected JOIN epoch ON run_id = id WHERE test_accuracy IS NOT NULL);

-- One row a configuration: the median of its runs' seconds an epoch, and their extremes.
CREATE TEMP VIEW pace AS
WITH ranked AS (
	SELECT s.*, r.epoch_seconds AS seconds,
		row_number() OVER (PARTITION BY s.config_key ORDER BY r.epoch_seconds) AS i,
		count(*) OVER (PARTITION BY s.config_key) AS m
	FROM selected AS s JOIN run_summary AS r USING (id) WHERE r.epoch_seconds > 0)
SELECT workload, place, name, title, series, strategy, workers, servers, sync_every, compare_key,
	config_key, n, avg(seconds) FILTER (WHERE i IN ((m + 1) / 2, (m + 2) / 2)) AS seconds,
	min(seconds) AS low, max(seconds) AS high
FROM ranked GROUP BY config_key;

-- What a picture leaves out, said below it.
CREATE TEMP VIEW footnote AS
SELECT workload, iif(count(*) = 1, 'One run that diverged is',
	count(*) || ' runs that diverged are') || ' not shown.' AS text
FROM run WHERE id IN (SELECT id FROM chosen) AND status = 'diverged'
GROUP BY workload;
