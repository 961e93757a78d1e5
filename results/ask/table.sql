-- table.sql - what `mvbench table` shows, in the connection's temporary schema. It runs after held.sql. table.c then
-- reads `shown`, one row for each configuration, or `shown_run`, one row for each run. ?1: without busy epochs.

CREATE TEMP TABLE base AS
SELECT compare_key, iif(?1, quiet_epoch_seconds, epoch_seconds) AS epoch_seconds FROM serial_pace;

-- Values that strategies reported for the last epoch, as text: the means over the finished runs. An interval that is
-- --sync-every is in the name.
CREATE TEMP TABLE said AS
SELECT config_key, group_concat(name || ' ' || printf('%.4g', value), ', ') AS reported
FROM (SELECT r.config_key, v.name, avg(v.value) AS value
	FROM run_summary AS r CROSS JOIN epoch_value AS v ON v.run_id = r.id AND v.epoch = r.epochs_done
	WHERE r.status = 'done' AND NOT (v.name = 'interval' AND v.value = r.sync_every) GROUP BY 1, 2 ORDER BY 1, 2)
GROUP BY config_key;

CREATE TEMP TABLE shown AS
WITH counted AS MATERIALIZED (
	SELECT config_key, workload, strategy, workers, servers, sync_every, min(id) AS one, max(compare_key) AS compare_key,
		count(*) FILTER (WHERE lacks = 'failed') AS failed,
		count(*) FILTER (WHERE lacks = 'refused') AS refused,
		count(*) FILTER (WHERE lacks = 'diverged') AS diverged,
		count(*) FILTER (WHERE lacks = 'unfinished') AS unfinished
	FROM run_summary LEFT JOIN lacking USING (id) GROUP BY config_key),
kept AS MATERIALIZED ( -- shares of the runs whose times count
	SELECT config_key, min(cores_share) AS cores_share, count(*) FILTER (WHERE cores_share < 0.9
		AND NOT ifnull(oversubscribed, 0)) AS busy,
		count(*) FILTER (WHERE oversubscribed AND platform <> 'sim') AS crowded
	FROM run_summary WHERE status = 'done' AND epoch_seconds IS NOT NULL GROUP BY config_key)
SELECT c.*, t.configuration, p.reported, k.cores_share, k.busy, k.crowded, ifnull(s.n, 0) AS n, ifnull(s.seeds, 0) AS seeds,
	nullif(s.target_accuracy, 0) AS target_accuracy, nullif(s.target_loss, 0) AS target_loss,
	b.epoch_seconds / nullif(s.epoch_seconds, 0) AS speedup,
	a.mark AS test_accuracy_mark, a.versus AS test_accuracy_versus, a.pairs AS test_accuracy_pairs,
	a.difference AS test_accuracy_difference, a.difference_low AS test_accuracy_difference_low,
	a.difference_high AS test_accuracy_difference_high, a.margin AS test_accuracy_margin,
	a.p_better AS test_accuracy_p_better, a.p_worse AS test_accuracy_p_worse,
	a.p_equal AS test_accuracy_p_equal, a.wanted AS test_accuracy_wanted,
	a.wanted_low AS test_accuracy_wanted_low, a.wanted_high AS test_accuracy_wanted_high, a.wanted_text AS test_accuracy_wanted_text,
	l.mark AS test_loss_mark, l.versus AS test_loss_versus, l.pairs AS test_loss_pairs,
	l.difference AS test_loss_difference, l.difference_low AS test_loss_difference_low,
	l.difference_high AS test_loss_difference_high, l.margin AS test_loss_margin,
	l.p_better AS test_loss_p_better, l.p_worse AS test_loss_p_worse,
	l.p_equal AS test_loss_p_equal, l.wanted AS test_loss_wanted,
	l.wanted_low AS test_loss_wanted_low, l.wanted_high AS test_loss_wanted_high, l.wanted_text AS test_loss_wanted_text,
	e.mark AS epoch_seconds_mark, e.versus AS epoch_seconds_versus, e.pairs AS epoch_seconds_pairs,
	e.difference AS epoch_seconds_difference, e.difference_low AS epoch_seconds_difference_low,
	e.difference_high AS epoch_seconds_difference_high, e.margin AS epoch_seconds_margin,
	e.p_better AS epoch_seconds_p_better, e.p_worse AS epoch_seconds_p_worse,
	e.p_equal AS epoch_seconds_p_equal, e.wanted AS epoch_seconds_wanted,
	e.wanted_low AS epoch_seconds_wanted_low, e.wanted_high AS epoch_seconds_wanted_high, e.wanted_text AS epoch_seconds_wanted_text,
	s.* -- of columns with the same name, the first counts
FROM counted AS c JOIN title AS t USING (config_key) LEFT JOIN kept AS k USING (config_key)
	LEFT JOIN said AS p USING (config_key)
	LEFT JOIN summary AS s USING (config_key)
	LEFT JOIN base AS b ON b.compare_key = c.compare_key
	LEFT JOIN held AS a ON a.config_key = c.config_key AND a.name = 'test_accuracy'
	LEFT JOIN held AS l ON l.config_key = c.config_key AND l.name = 'test_loss'
	LEFT JOIN held AS e ON e.config_key = c.config_key AND e.name = 'epoch_seconds'
-- as in figures and the report; the first run is that of the job file
ORDER BY c.workload, c.workers, c.strategy, c.servers, c.sync_every, c.one;

CREATE TEMP VIEW shown_run AS
SELECT r.*, t.configuration, b.epoch_seconds / nullif(r.epoch_seconds, 0) AS speedup,
	(SELECT group_concat(name || ' ' || printf('%.4g', value), ', ') FROM epoch_value AS v
		WHERE v.run_id = r.id AND v.epoch = r.epochs_done
			AND NOT (v.name = 'interval' AND v.value = r.sync_every)) AS reported
FROM run_summary AS r JOIN title AS t USING (config_key)
	LEFT JOIN base AS b ON b.compare_key = r.compare_key
ORDER BY r.id;
