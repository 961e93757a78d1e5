-- table.sql - what `mvbench table` shows, in the connection's temporary schema. database_choose() has
-- narrowed run_summary and the statistics to the runs that are wanted; table.c then reads `shown`, one row a
-- configuration, or `shown_run`, one row a run. ?1: the configuration to compare with, as shown; '' = the best.

CREATE TEMP TABLE asked AS SELECT ?1 AS versus;

-- The names of configurations: where a short one stands for several, what these differ in is added.
CREATE TEMP TABLE title AS
WITH named AS MATERIALIZED (
	SELECT DISTINCT workload, config, config_key FROM run_summary),
setting AS MATERIALIZED (
	SELECT n.workload, n.config, n.config_key, n.twins, e.key, e.atom
	FROM (SELECT *, count(*) OVER (PARTITION BY workload, config) AS twins FROM named) AS n,
		json_each(n.config_key) AS e
	WHERE n.twins > 1),
differs AS MATERIALIZED (
	SELECT workload, config, key FROM setting GROUP BY workload, config, key
	HAVING min(atom) IS NOT max(atom) OR count(*) < twins),
suffix AS MATERIALIZED (
	SELECT config_key, group_concat(key || '=' || atom, ' ') AS text FROM (
		SELECT config_key, key, atom FROM setting JOIN differs USING (workload, config, key)
		WHERE atom <> '' ORDER BY config_key, key)
	GROUP BY config_key)
SELECT n.config_key, n.workload, n.config || ifnull(' ' || s.text, '') AS configuration
FROM named AS n LEFT JOIN suffix AS s USING (config_key);

CREATE TEMP TABLE summary AS SELECT * FROM configuration_summary;

-- What each workload's configurations are compared with: the one asked for; else the most accurate (of a
-- task without accuracies, that of least loss) and the fastest of those whose times may be compared (work:
-- the compare_key, '' of what is no time). The first of equals.
CREATE TEMP TABLE reference AS
WITH judged AS MATERIALIZED (
	SELECT workload, iif(count(test_accuracy) > 0, 'test_accuracy', 'test_loss') AS quality
	FROM summary GROUP BY workload),
candidate(workload, name, work, number, config_key, x) AS (
	SELECT workload, quality, '', number, config_key,
		iif(quality = 'test_loss', test_loss, -test_accuracy) FROM summary JOIN judged USING (workload)
	UNION ALL SELECT workload, 'epoch_seconds', compare_key, number, config_key, epoch_seconds FROM summary),
placed AS (
	SELECT c.*, t.configuration, row_number() OVER (
		PARTITION BY c.workload, c.name, c.work ORDER BY c.x, t.configuration) AS place
	FROM candidate AS c JOIN title AS t USING (config_key) CROSS JOIN asked AS a
	WHERE c.x IS NOT NULL AND a.versus IN ('', t.configuration))
SELECT workload, name, work, number AS versus_number FROM placed WHERE place = 1;

DROP VIEW temp.compared;
CREATE TEMP TABLE compared AS
SELECT s.number, r.versus_number, r.name
FROM summary AS s JOIN reference AS r ON r.workload = s.workload AND r.versus_number <> s.number
	AND r.work IN ('', s.compare_key);
-- A mark is '*' for what others are compared with, and '~' for what does not differ from it
-- significantly; ' ' for what does. No marks where there is nothing to compare.
CREATE TEMP TABLE held AS
SELECT c.config_key, c.versus_key, c.name, t.configuration AS versus, c.pairs, c.difference,
	c.difference_low, c.difference_high, c.significant, iif(c.significant, ' ', '~') AS mark
FROM comparison AS c JOIN title AS t ON t.config_key = c.versus_key;
INSERT INTO held (config_key, name, mark) SELECT DISTINCT versus_key, name, '*' FROM held;
CREATE INDEX held_config ON held (config_key, name);

CREATE TEMP TABLE base AS SELECT compare_key, epoch_seconds FROM one_worker;

CREATE TEMP TABLE shown AS
WITH counted AS MATERIALIZED (
	SELECT config_key, workload, strategy, workers, servers, sync_every, max(compare_key) AS compare_key,
		count(*) FILTER (WHERE status = 'failed') AS failed,
		count(*) FILTER (WHERE status = 'diverged') AS diverged,
		count(*) FILTER (WHERE status IN ('pending', 'running')) AS unfinished
	FROM run_summary GROUP BY config_key)
SELECT c.*, t.configuration, ifnull(s.n, 0) AS n, ifnull(s.seeds, 0) AS seeds,
	nullif(s.target_accuracy, 0) AS target_accuracy, nullif(s.target_loss, 0) AS target_loss, b.epoch_seconds / nullif(s.epoch_seconds, 0) AS speedup,
	a.mark AS test_accuracy_mark, a.versus AS test_accuracy_versus, a.pairs AS test_accuracy_pairs,
	a.difference AS test_accuracy_difference, a.difference_low AS test_accuracy_difference_low,
	a.difference_high AS test_accuracy_difference_high, a.significant AS test_accuracy_significant,
	l.mark AS test_loss_mark, l.versus AS test_loss_versus, l.pairs AS test_loss_pairs,
	l.difference AS test_loss_difference, l.difference_low AS test_loss_difference_low,
	l.difference_high AS test_loss_difference_high, l.significant AS test_loss_significant,
	e.mark AS epoch_seconds_mark, e.versus AS epoch_seconds_versus, e.pairs AS epoch_seconds_pairs,
	e.difference AS epoch_seconds_difference, e.difference_low AS epoch_seconds_difference_low,
	e.difference_high AS epoch_seconds_difference_high, e.significant AS epoch_seconds_significant,
	s.* -- the first column of a name has it
FROM counted AS c JOIN title AS t USING (config_key) LEFT JOIN summary AS s USING (config_key)
	LEFT JOIN base AS b ON b.compare_key = c.compare_key
	LEFT JOIN held AS a ON a.config_key = c.config_key AND a.name = 'test_accuracy'
	LEFT JOIN held AS l ON l.config_key = c.config_key AND l.name = 'test_loss'
	LEFT JOIN held AS e ON e.config_key = c.config_key AND e.name = 'epoch_seconds'
ORDER BY c.workload, c.workers, c.strategy, c.sync_every, t.configuration;

CREATE TEMP VIEW shown_run AS
SELECT r.*, t.configuration, b.epoch_seconds / nullif(r.epoch_seconds, 0) AS speedup
FROM run_summary AS r JOIN title AS t USING (config_key)
	LEFT JOIN base AS b ON b.compare_key = r.compare_key
ORDER BY r.id;

-- Where the times were measured; those of simulations were not. NULL = nowhere, or in one place.
CREATE TEMP VIEW places AS
SELECT iif(count(*) > 1 OR max(gpus) > 1, group_concat(place, '; '), NULL) AS text, count(*) AS n
FROM (
	SELECT ifnull(host, 'an unknown host') || ' (' || ifnull(cpu, 'an unknown CPU')
			|| ifnull(', ' || group_concat(DISTINCT gpu), '') || ')' AS place,
		count(DISTINCT gpu) AS gpus
	FROM run_summary WHERE status = 'done' AND platform <> 'sim'
	GROUP BY host, cpu ORDER BY host, cpu);
