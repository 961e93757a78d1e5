-- validate.sql - the cells of a report (named), the percentiles of their errors (summary), and the cells
-- without a row in named (missing), in the connection's temporary schema. ?1: a label; ?2: the cells, as
-- cells_text (validate.c) writes them; ?3: a relative spread. A cell is noisy (column restless) if its runs, or the
-- calibrations of its step, spread further: it cannot show whether the simulation is right. A cell is busy if others
-- used the cores of a worker for more than half of ?3 of its time. Neither counts: column excluded.

-- If several cells have the same short name, the options in which they differ are added.
CREATE TEMP TABLE named AS
SELECT *, restless OR busy AS excluded FROM (
WITH v AS MATERIALIZED (
	SELECT * FROM validation WHERE label = ?1 AND (?2 = '[]' OR config_hash IN (
		SELECT json_extract(value, '$.real') FROM json_each(?2)))),
setting AS MATERIALIZED (
	SELECT t.simulated_id, t.workload, t.config, e.key, e.atom
	FROM (SELECT *, count(*) OVER (PARTITION BY workload, config) AS twins
		FROM v) AS t, json_each(t.cell) AS e
	WHERE t.twins > 1),
differs AS (
	SELECT workload, config, key FROM setting GROUP BY workload, config, key
	HAVING count(DISTINCT atom) > 1),
steps AS ( -- the mean of the middle half of each repetition's steps
	SELECT calibration_id, avg(value) AS s FROM calibration_point
	WHERE name = 'step' AND CAST(x AS INTEGER) % 64 BETWEEN 16 AND 47
	GROUP BY calibration_id, CAST(x AS INTEGER) / 64),
drift AS (
	SELECT r.id AS simulated_id, (max(s) - min(s)) / (max(s) + min(s)) AS apart
	FROM run AS r JOIN steps USING (calibration_id) GROUP BY r.id),
extra AS (
	SELECT simulated_id, group_concat(key || '=' || atom, ' ') AS text FROM (
		SELECT simulated_id, key, atom FROM setting
			JOIN differs USING (workload, config, key)
		ORDER BY simulated_id, key)
	GROUP BY simulated_id)
SELECT workload || ' ' || config || ifnull(' ' || x.text, '') AS cell,
	ifnull(oversubscribed, 0) AS oversubscribed, v.*, iif(workers + servers > 1, 'several', 'one') AS ranks,
	max(v.real_high / v.real_s - 1, 1 - v.real_low / v.real_s, ifnull(apart, 0)) > ?3 AS restless,
	1 - ifnull(v.cores_share, 1) > ?3 / 2 AS busy,
	v.cell AS options
FROM v LEFT JOIN extra AS x USING (simulated_id)
	LEFT JOIN drift USING (simulated_id)
ORDER BY 2, workload, workers, strategy, sync_every, 1);

-- Cells of one rank and of several are separate, because a single rank never waits. Times of communication are
-- compared where they decide: in cells where they are 5 % of the epoch or more.
CREATE TEMP TABLE summary AS
WITH error AS (
	SELECT column1 AS place, column2 AS measure, ranks, cell, CASE column1
		WHEN 1 THEN abs(time_error) WHEN 2 THEN iif(real_share >= 0.05, abs(comm_error), NULL)
		WHEN 3 THEN abs(share_error) WHEN 4 THEN staleness_distance ELSE abs(loss_error) END AS x
	FROM named CROSS JOIN (VALUES (1, 'epoch_seconds'), (2, 'comm_seconds'), (3, 'comm_share'),
		(4, 'staleness'), (5, 'test_loss'))
	WHERE NOT oversubscribed AND NOT excluded),
ranked AS (
	SELECT *, row_number() OVER (PARTITION BY ranks, place ORDER BY x, cell) AS i,
		count(*) OVER (PARTITION BY ranks, place) AS n
	FROM error WHERE x IS NOT NULL)
SELECT place, measure, ranks, n AS cells,
	avg(x) FILTER (WHERE i IN ((n + 1) / 2, (n + 2) / 2)) AS median,
	max(x) FILTER (WHERE i = (9 * n + 9) / 10) AS p90, max(x) AS worst,
	max(iif(x > 0, cell, NULL)) FILTER (WHERE i = n) AS worst_cell
FROM ranked GROUP BY ranks, place;

-- A setting is the cells that differ only in the synchronisation strategy. Counts the settings of which several
-- cells were compared, and those where the fastest simulated cell is the fastest real one, or within 3 % of it.
CREATE TEMP TABLE ranking AS
WITH setting AS (
	SELECT real_s, simulated_s, json_array(workload, workers, batch, sync_every, (
			SELECT json_group_array(atom) FROM json_each(options)
			WHERE key IN ('lab_rate', 'step_time', 'train_rows') OR key GLOB workload || '.*'))
				AS setting
	FROM named WHERE workers + servers > 1 AND NOT oversubscribed AND NOT excluded),
first AS (
	SELECT real_s, min(simulated_s) AS simulated_s, -- real_s is of the same row
		(SELECT min(real_s) FROM setting AS o WHERE o.setting = s.setting) AS best
	FROM setting AS s GROUP BY setting HAVING count(*) > 1)
SELECT count(*) AS settings, total(real_s <= 1.03 * best) AS agreed FROM first;

-- The outcome of the newest run, real and simulated.
CREATE TEMP TABLE missing AS
WITH newest AS (
	SELECT config_hash, status || iif(reason IS NULL, '', ': ' || reason)
		|| iif(status = 'done', ifnull(', tables: ' || table_home, ''), '') AS says, max(id)
	FROM run WHERE label = ?1 GROUP BY config_hash)
SELECT value ->> 'what' AS cell, ifnull(r.says, 'not run') AS real, ifnull(s.says, 'not run') AS simulated
FROM json_each(?2) LEFT JOIN newest AS r ON r.config_hash = value ->> 'real'
	LEFT JOIN newest AS s ON s.config_hash = value ->> 'simulated'
WHERE value ->> 'real' NOT IN (SELECT config_hash FROM named);
