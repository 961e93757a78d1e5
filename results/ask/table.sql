-- table.sql - what `mvbench table` shows, in the connection's temporary schema. Before it,
-- database_choose() limits run_summary and the statistics to the selected runs, and names.sql names
-- them. table.c then reads `shown`, one row for each configuration, or `shown_run`, one row for each
-- run. ?1: the configuration to compare with, as shown; '' = the synchronous one. ?2, ?3, ?4:
-- margins of accuracy (0..1), loss and seconds (shares). ?5: without busy epochs.

CREATE TEMP TABLE asked AS SELECT ?1 AS versus;
CREATE TEMP TABLE margin AS SELECT column1 AS name, column2 AS margin
FROM (VALUES ('test_accuracy', ?2), ('test_loss', ?3), ('epoch_seconds', ?4));

CREATE TEMP TABLE summary AS SELECT * FROM configuration_summary;

-- The control of each configuration: the one that ?1 names, otherwise an allreduce of its workload
-- (without one, serial). Of several, the most similar counts: equal work, then the same number of
-- workers, then the most settings in common. A candidate that a configuration outside the candidates
-- chose is a control (in a workload without any, the first candidate); controls are not compared.
-- Times are compared only where the work is equal.
CREATE TEMP TABLE candidate AS
SELECT * FROM (
	SELECT s.number, s.workload, s.compare_key, s.config_key, s.workers, t.configuration, t.config, s.strategy,
		max(s.strategy = 'allreduce') OVER (PARTITION BY s.workload) AS synchronous
	FROM summary AS s JOIN title AS t USING (config_key)) CROSS JOIN asked
WHERE iif(versus = '', strategy = iif(synchronous, 'allreduce', 'serial'), versus = iif(
	EXISTS (SELECT 1 FROM title WHERE configuration = versus), configuration, config));
-- The settings in which candidates of a workload differ; the others do not distinguish them.
CREATE TEMP TABLE trait AS
WITH setting AS MATERIALIZED (
	SELECT number, workload, fullkey AS path, atom FROM candidate CROSS JOIN json_each(config_key)),
differs AS MATERIALIZED (
	SELECT workload, path FROM setting GROUP BY workload, path
	HAVING min(atom) IS NOT max(atom)
		OR count(*) < (SELECT count(*) FROM candidate AS c WHERE c.workload = setting.workload))
SELECT number, path, atom FROM setting JOIN differs USING (workload, path);
CREATE INDEX temp.trait_of ON trait (number);
CREATE TEMP VIEW likeness AS
WITH alike AS MATERIALIZED ( -- tier 1: among these, settings decide
	SELECT s.number, s.workload, s.config_key, c.number AS versus_number, c.workers, c.configuration,
		s.compare_key = c.compare_key AS same_work,
		rank() OVER (PARTITION BY s.number ORDER BY c.compare_key = s.compare_key DESC,
			c.workers = s.workers DESC) AS tier
	FROM summary AS s JOIN candidate AS c ON c.workload = s.workload)
SELECT number, versus_number, workload, same_work,
	row_number() OVER (PARTITION BY number ORDER BY (SELECT count(*) FROM trait AS t
		WHERE t.number = versus_number AND t.atom IS config_key ->> t.path) DESC,
		workers, configuration, versus_number) AS place
FROM alike WHERE tier = 1;
CREATE TEMP TABLE control AS
SELECT DISTINCT versus_number AS number FROM likeness
WHERE place = 1 AND number NOT IN (SELECT number FROM candidate);
INSERT INTO control
SELECT number FROM (
	SELECT number, workload, row_number()
		OVER (PARTITION BY workload ORDER BY workers, configuration, number) AS i
	FROM candidate)
WHERE i = 1 AND workload NOT IN (SELECT workload FROM candidate JOIN control USING (number));
DELETE FROM candidate WHERE number NOT IN (SELECT number FROM control);

DROP VIEW temp.compared;
CREATE TEMP TABLE compared AS
SELECT l.number, l.versus_number, m.name, m.margin
FROM likeness AS l CROSS JOIN margin AS m
WHERE l.place = 1 AND l.number NOT IN (SELECT number FROM candidate)
	AND (m.name <> 'epoch_seconds' OR l.same_work);
CREATE TEMP TABLE held AS
SELECT c.config_key, c.name, t.configuration AS versus, c.versus_key, c.pairs, c.difference,
	c.difference_low, c.difference_high, c.margin, c.p_better, c.p_worse, c.p_equal, c.mark, c.wanted,
	c.wanted_low, c.wanted_high, c.wanted_text
FROM comparison AS c JOIN title AS t ON t.config_key = c.versus_key;
INSERT INTO held (config_key, name, mark) SELECT DISTINCT versus_key, name, 'control' FROM held;
CREATE INDEX held_config ON held (config_key, name);

CREATE TEMP TABLE base AS
SELECT compare_key, iif(?5, quiet_epoch_seconds, epoch_seconds) AS epoch_seconds FROM serial_pace;

-- Values that strategies reported for the last epoch, as text: the means over the finished runs.
CREATE TEMP TABLE said AS
SELECT config_key, group_concat(name || ' ' || printf('%.4g', value), ', ') AS reported
FROM (SELECT r.config_key, v.name, avg(v.value) AS value
	FROM run_summary AS r CROSS JOIN epoch_value AS v ON v.run_id = r.id AND v.epoch = r.epochs_done
	WHERE r.status = 'done' GROUP BY 1, 2 ORDER BY 1, 2)
GROUP BY config_key;

CREATE TEMP TABLE shown AS
WITH counted AS MATERIALIZED (
	SELECT config_key, workload, strategy, workers, servers, sync_every, max(compare_key) AS compare_key,
		count(*) FILTER (WHERE lacks = 'failed') AS failed,
		count(*) FILTER (WHERE lacks = 'refused') AS refused,
		count(*) FILTER (WHERE lacks = 'diverged') AS diverged,
		count(*) FILTER (WHERE lacks = 'unfinished') AS unfinished
	FROM run_summary LEFT JOIN lacking USING (id) GROUP BY config_key),
kept AS MATERIALIZED ( -- shares of the runs whose times count
	SELECT config_key, min(cores_share) AS cores_share, count(*) FILTER (WHERE cores_share < 0.9
		AND NOT ifnull(oversubscribed, 0)) AS busy
	FROM run_summary WHERE status = 'done' AND epoch_seconds IS NOT NULL GROUP BY config_key)
SELECT c.*, t.configuration, p.reported, k.cores_share, k.busy, ifnull(s.n, 0) AS n, ifnull(s.seeds, 0) AS seeds,
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
ORDER BY c.workload, c.workers, c.strategy, c.sync_every, t.configuration;

CREATE TEMP VIEW shown_run AS
SELECT r.*, t.configuration, b.epoch_seconds / nullif(r.epoch_seconds, 0) AS speedup,
	(SELECT group_concat(name || ' ' || printf('%.4g', value), ', ') FROM epoch_value AS v
		WHERE v.run_id = r.id AND v.epoch = r.epochs_done) AS reported
FROM run_summary AS r JOIN title AS t USING (config_key)
	LEFT JOIN base AS b ON b.compare_key = r.compare_key
ORDER BY r.id;
