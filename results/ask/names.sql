-- names.sql - names of the runs of the temporary table run_summary, for tables and figures: the names of
-- configurations, the places where times were measured, and the runs that words mean (names.c).

-- A run that has not begun gets the values that other runs of its cell chose.
UPDATE temp.run_summary SET (config_key, config, compare_key) = (known.config_key, known.config, known.compare_key)
FROM (
	SELECT json_patch(b.config_key, a.chooses) AS asked, min(b.config_key) AS config_key, b.config, b.compare_key
	FROM (SELECT config_key, config, compare_key FROM run_summary WHERE params IS NOT NULL GROUP BY config_key) AS b
		CROSS JOIN (SELECT DISTINCT (SELECT json_group_object(key, atom) FROM json_each(config_key)
			WHERE atom = 'auto') AS chooses FROM run_summary WHERE params IS NULL) AS a
	GROUP BY asked) AS known
WHERE params IS NULL AND run_summary.config_key = known.asked;

-- One row for each configuration.
--   configuration  its name: the short one of run_summary, and every option in which the runs of its
--                  workload differ
--   series         the same without the number of workers, and without the machines, whose number
--                  depends on that of the workers
CREATE TEMP TABLE title AS
WITH kind AS MATERIALIZED (
	SELECT min(id) AS one, config_key, config, workload, strategy, optimizer, codec, workers, platform
	FROM run_summary GROUP BY config_key),
-- the settings that are not equal in all runs of a workload
varied AS MATERIALIZED (
	SELECT workload, e.key FROM kind AS k CROSS JOIN json_each(config_key) AS e GROUP BY workload, e.key
	HAVING min(atom) <> max(atom) OR count(*) < (SELECT count(*) FROM kind AS o WHERE o.workload = k.workload)),
-- Other data have the next number, whichever runs are chosen: a hash does not say which data are newer.
data AS MATERIALIZED (
	SELECT data_hash, row_number() OVER (ORDER BY min(id)) AS number
	FROM main.run WHERE data_hash <> '' GROUP BY data_hash),
-- those of each configuration, except those in the short name (+2s: on servers), those that are not
-- chosen yet, and those that do not apply: tables, vectors of GPUs, simulations. owner: 'asgd.' of an option of a
-- plug-in; these are last, before the label.
setting AS MATERIALIZED (
	SELECT k.one, k.workload, k.strategy, ifnull(i.stored, '') LIKE 'used%' AS chosen, ifnull(i.label, 98) AS place,
		iif(i.name IS NULL, substr(e.key, 1, instr(e.key, '.')), '') AS owner,
		CASE i.name WHEN 'label' THEN '' WHEN 'data-hash' THEN 'data' ELSE ifnull(i.name, e.key) END AS name,
		CASE WHEN d.number THEN d.number WHEN i.type = 'RATE' AND e.atom >= 1e9 THEN format('%ggbit', e.atom / 1e9)
			WHEN i.type = 'RATE' AND e.atom > 0 THEN format('%gmbit', e.atom / 1e6)
			WHEN e.type = 'real' THEN format('%g', e.atom) WHEN i.type IS NOT 'BOOL' THEN e.atom
			WHEN e.atom THEN iif(i.def, '', 'true') ELSE 'false' END AS value
	FROM kind AS k CROSS JOIN json_each(k.config_key) AS e
		CROSS JOIN varied AS v ON v.workload = k.workload AND v.key = e.key LEFT JOIN option_info AS i ON i."column" = e.key
		LEFT JOIN data AS d ON e.key = 'data_hash' AND d.data_hash = e.atom
	WHERE ifnull(i.label, 98) > 0 AND NOT (e.key = 'table_home' AND e.atom = 'servers')
		AND NOT (e.key = 'network' AND k.config_key ->> 'lab_rate' <> '') -- which contains it
		AND NOT ifnull(i.stored LIKE 'used%' AND e.atom = 'auto', 0)
		AND NOT ifnull(CASE i.stored WHEN 'used if any' THEN e.atom = ''
			WHEN 'simulation' THEN k.platform <> 'sim' END, 0)),
-- A value that the program chose is part of a name only if it differs between runs of that strategy and
-- does not follow from the strategy's options. Runs of older programs lack options that a plug-in has
-- now.
decides AS MATERIALIZED (
	SELECT one, group_concat(name || '=' || value) AS options
	FROM (SELECT * FROM setting ORDER BY one, name)
	WHERE owner = strategy || '.' OR name IN ('barrier-every', 'split') GROUP BY one),
differs AS MATERIALIZED (
	SELECT DISTINCT s.workload, s.owner, s.name, s.strategy AS of
	FROM setting AS s LEFT JOIN decides AS d USING (one) WHERE s.chosen
	GROUP BY s.workload, s.owner, s.name, s.strategy, d.options HAVING count(DISTINCT s.value) > 1
	UNION ALL SELECT workload, owner, name, '' FROM setting AS s WHERE NOT chosen
	GROUP BY workload, owner, name HAVING count(DISTINCT value) > 1 OR (owner <> '' AND count(*) < (
		SELECT count(*) FROM kind AS k WHERE k.workload = s.workload
			AND s.owner IN (k.strategy || '.', k.workload || '.', k.optimizer || '.',
				k.codec || '.')))),
extra AS MATERIALIZED (
	SELECT one, group_concat(iif(name = '', ', ', ' ' || name || '=') || short, '') AS text,
		group_concat(iif(name = '', ', ', ' ' || name || '=') || short, '')
			FILTER (WHERE name NOT IN ('hosts', 'network', 'placement')) AS of_series
	FROM (SELECT *, iif(min(value) OVER alike = max(value) OVER alike, cut, value) AS short
		FROM (SELECT *, iif(length(value) > 48,
				substr(value, 1, 32) || '…' || substr(value, -15), value) AS cut,
				iif(chosen, strategy, '') AS of FROM setting)
			JOIN differs USING (workload, owner, name, of)
		WHERE value <> '' AND (value || '' <> '0' OR owner <> '' OR name = '') -- 0 of mvbench's own options: off
		WINDOW alike AS (PARTITION BY workload, owner, name, cut)
		ORDER BY one, name <> '' AND length(value) > 24, place, name)
	GROUP BY one)
SELECT k.config_key, k.workload, k.config, k.config || ifnull(e.text, '') AS configuration,
	replace(k.config, replace(i.part, '#', k.workers), '') || ifnull(e.of_series, '') AS series
FROM kind AS k JOIN option_info AS i ON i."column" = 'workers' LEFT JOIN extra AS e USING (one);
CREATE UNIQUE INDEX temp.title_of ON title (config_key);

-- Where the times were measured, without those of simulations. NULL = nowhere, or in one place.
CREATE TEMP VIEW places AS
SELECT iif(count(*) > 1 OR max(gpus) > 1, group_concat(place, '; '), NULL) AS text, count(*) AS n
FROM (
	SELECT ifnull(host, 'an unknown host') || ' (' || ifnull(cpu, 'an unknown CPU')
			|| ifnull(', ' || group_concat(DISTINCT gpu), '') || ')' AS place,
		count(DISTINCT gpu) AS gpus
	FROM run_summary WHERE status = 'done' AND platform <> 'sim'
	GROUP BY host, cpu ORDER BY host, cpu);

-- The runs that a word means; all runs of a side are of one configuration.
CREATE TEMP TABLE side (name TEXT, run_id INTEGER, config_key TEXT, configuration TEXT);
