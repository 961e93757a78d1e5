-- held.sql - compares each configuration with its control, in the connection's temporary schema. Before it,
-- database_choose() limits run_summary and the statistics to the selected runs, and names.sql names them. It makes
-- table held: one row for each configuration and figure. ?1: the configuration to compare with, as shown; '' = the
-- synchronous one. ?2, ?3, ?4: margins of accuracy (0..1), loss and seconds (shares).

CREATE TEMP TABLE asked AS SELECT ?1 AS versus;
CREATE TEMP TABLE margin AS SELECT column1 AS name, column2 AS margin
FROM (VALUES ('test_accuracy', ?2), ('test_loss', ?3), ('epoch_seconds', ?4));

CREATE TEMP TABLE IF NOT EXISTS summary AS SELECT * FROM configuration_summary;

-- The control of each configuration: the one that ?1 names, otherwise an allreduce of its workload
-- (without one, serial), without a codec if there is one. Of several, the most similar counts: equal work, then the same number of
-- workers, then the most settings in common. A candidate that a configuration outside the candidates
-- chose is a control (in a workload without any, the first candidate); controls are not compared.
-- Times are compared only where the work is equal.
CREATE TEMP TABLE candidate AS
SELECT * FROM (
	SELECT *, max(strategy = 'allreduce') OVER w AS synchronous,
		max(strategy = 'allreduce' AND exact) OVER w AS any_exact
	FROM (SELECT s.number, s.workload, s.compare_key, s.config_key, s.workers, t.configuration, t.config, s.strategy,
			ifnull(s.config_key ->> 'codec', 'none') = 'none' AS exact
		FROM summary AS s JOIN title AS t USING (config_key))
	WINDOW w AS (PARTITION BY workload)) CROSS JOIN asked
WHERE iif(versus = '', strategy = iif(synchronous, 'allreduce', 'serial') AND exact >= any_exact, versus = iif(
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

DROP VIEW IF EXISTS temp.compared;
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
