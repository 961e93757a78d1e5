-- compare.sql - what `mvbench compare` shows. Table side (names.sql) has the runs of A and B. The
-- config_key of the temporary run_summary is the letter of its side; the statistics of the schema
-- are therefore those of the two sides.

CREATE TEMP VIEW sides AS
SELECT s.name AS side, r.workload, min(s.configuration) AS configuration,
	count(*) || iif(total(r.status <> 'done'), ' (' || group_concat(r.status, ', ')
		FILTER (WHERE r.status <> 'done') || ')', '') AS runs,
	iif(count(*) > 12, min(r.id) || ' .. ' || max(r.id), group_concat(r.id, ', ')) AS ids,
	substr(min(r.started), 1, 10) AS "from", substr(max(r.started), 1, 10) AS "to"
FROM (SELECT * FROM side ORDER BY name, run_id) AS s JOIN run_summary AS r ON r.id = s.run_id
GROUP BY s.name;

-- ---- Settings --------------------------------------------------------------

-- Options, and where the runs ran. Of many values: the least and the greatest.
CREATE TEMP VIEW differing AS
WITH value AS (
	SELECT s.name AS side, ifnull(i.name, e.key) AS setting, ifnull(i.place, 1000) AS place,
		iif(i.type = 'BOOL' AND e.atom <> '', iif(e.atom, 'true', 'false'), e.atom) AS value
	FROM side AS s CROSS JOIN json_each(s.config_key) AS e
		LEFT JOIN option_info AS i ON i."column" = e.key
	WHERE e.key NOT IN ('hosts', 'network')
	UNION SELECT s.name, e.key, 2000 + e.id, e.atom
	FROM side AS s CROSS JOIN run AS r ON r.id = s.run_id CROSS JOIN json_each(json_object(
		'seed', r.seed, 'params', r.params, 'train_size', r.train_size,
		'commit', r.git_commit || iif(r.git_dirty, '-dirty', ''),
		'host', r.host, 'hosts', nullif(r.hosts, r.host), 'network', r.network,
		'cpu', r.cpu, 'cores', r.cores,
		'oversubscribed', iif(r.oversubscribed, 'yes', 'no'),
		'gpu', r.gpu, 'driver', r.driver, 'launcher', r.launcher, 'mpi', r.mpi,
		'mpi_settings', r.mpi_settings, 'onednn', r.onednn, 'cuda', r.cuda)) AS e),
listed AS MATERIALIZED (
	SELECT side, setting, min(place) AS place, iif(count(*) > 8,
		min(value) || ' .. ' || max(value) || ' (' || count(*) || ' values)',
		group_concat(value, ', ')) AS text
	FROM (SELECT * FROM value WHERE value <> '' ORDER BY value) GROUP BY side, setting)
SELECT setting, max(text) FILTER (WHERE side = 'A') AS A, max(text) FILTER (WHERE side = 'B') AS B
FROM listed GROUP BY setting
HAVING max(text) FILTER (WHERE side = 'A') IS NOT max(text) FILTER (WHERE side = 'B')
ORDER BY min(place);

-- ---- Results ---------------------------------------------------------------

-- Only the comparison of B with A.
CREATE TEMP TABLE pair AS
SELECT * FROM temp.compared
WHERE number = (SELECT min(number) FROM finished WHERE config_key = 'B');
DROP VIEW temp.compared;
CREATE TEMP TABLE compared AS SELECT * FROM pair;

-- How figures are shown: x * scale by format; beyond: the text of an infinite x. The change is B / A - 1 if
-- relative, otherwise B - A, and is shown by change_format, multiplied by change_scale.
CREATE TEMP TABLE kind AS
SELECT column1 AS place, column2 AS name, column3 AS head, column4 AS format, column5 AS scale,
	column6 AS beyond, column7 AS change_format, column8 AS change_scale, column9 AS relative
FROM (VALUES
	(1, 'test_accuracy', 'accuracy %', '%.2f', 100, 'diverged', '%+.2f', 100, 0),
	(2, 'test_loss', 'loss', '%.4g', 1, 'diverged', '%+.4f', 1, 0),
	(3, 'epoch_seconds', 'epoch s', '%.4g', 1, '', '%+.1f %%', 100, 1),
	(4, 'time_to_target', 'to target s', '%.4g', 1, 'not reached', '%+.1f %%', 100, 1),
	(5, 'epoch_bytes', 'bytes an epoch', '%,d', 1, '', '%+.1f %%', 100, 1),
	(6, 'peak_bytes', 'peak bytes a step', '%,d', 1, '', '%+.1f %%', 100, 1),
	(7, 'comm_fraction', 'comm %', '%.1f', 100, '', '%+.1f', 100, 0),
	(8, 'wait_fraction', 'wait %', '%.1f', 100, '', '%+.1f', 100, 0),
	(9, 'staleness_mean', 'staleness', '%.2f', 1, '', '%+.2f', 1, 0));

-- Medians, and their intervals where they have one.
CREATE TEMP TABLE figure AS
WITH summary AS MATERIALIZED (SELECT * FROM configuration_summary),
figure AS (SELECT config_key AS number, '' AS name, epoch_bytes AS x FROM run_summary WHERE status = 'done'),
/* MEDIANS */
SELECT config_key AS side, 1 AS place, test_accuracy AS x, test_accuracy_low AS low,
	test_accuracy_high AS high, test_accuracy_coverage AS coverage FROM summary
UNION ALL SELECT config_key, 2, test_loss, test_loss_low, test_loss_high, test_loss_coverage
FROM summary
UNION ALL SELECT config_key, 3, epoch_seconds, epoch_seconds_low, epoch_seconds_high,
	epoch_seconds_coverage FROM summary
UNION ALL SELECT config_key, 4, ifnull(time_to_accuracy, 9e999), time_to_accuracy_low,
	ifnull(time_to_accuracy_high, 9e999), time_to_accuracy_coverage
FROM summary WHERE reached + missed > 0
UNION ALL SELECT number, 5, mid, NULL, NULL, NULL FROM median
UNION ALL SELECT config_key, 6, peak_bytes, NULL, NULL, NULL FROM summary
UNION ALL SELECT config_key, 7, comm_fraction, NULL, NULL, NULL FROM summary
UNION ALL SELECT config_key, 8, wait_fraction, NULL, NULL, NULL FROM summary
UNION ALL SELECT config_key, 9, staleness_mean, NULL, NULL, NULL FROM summary;

CREATE TEMP VIEW result AS
WITH shown AS MATERIALIZED (
	SELECT k.*, side, x, low, high, iif(abs(x) = 9e999, beyond, printf(format, scale * x)) AS text,
		iif(low IS NULL OR (place = 3 AND low = high), NULL, -- equal times, as of simulations
			iif(abs(low) = 9e999, beyond, printf(format, scale * low))
			|| '..' || iif(abs(high) = 9e999, beyond, printf(format, scale * high))
			|| iif(coverage < 0.95, printf(', %.3g %%', 100 * coverage), '')) AS around
	FROM figure JOIN kind AS k USING (place) WHERE x IS NOT NULL),
tested AS MATERIALIZED (SELECT * FROM comparison),
held AS MATERIALIZED (
	SELECT k.*, a.text AS a_text, a.around AS a_interval, b.text AS b_text,
		b.around AS b_interval, a.x AS a, a.low AS a_low, a.high AS a_high, b.x AS b,
		b.low AS b_low, b.high AS b_high, t.mark, t.pairs, t.n, t.versus_n, t.wanted_text,
		t.difference_low, t.difference_high, t.name AS test,
		min(1, 2 * min(t.p_better, t.p_worse)) AS p,
		iif(t.name IS NOT NULL, t.difference, iif(k.relative, b.x / nullif(a.x, 0) - 1,
			b.x - a.x)) AS d -- of a test NULL: a run diverged
	FROM kind AS k LEFT JOIN shown AS a ON a.place = k.place AND a.side = 'A'
		LEFT JOIN shown AS b ON b.place = k.place AND b.side = 'B'
		LEFT JOIN tested AS t ON t.name = k.name
	WHERE ifnull(a.text, b.text) IS NOT NULL)
SELECT place, name, a, a_low, a_high, b, b_low, b_high, d, difference_low, difference_high, p, mark,
	head, a_text, a_interval, b_text, b_interval,
	iif(d IS NULL OR abs(d) = 9e999, NULL, printf(change_format, change_scale * d)
		|| iif(difference_low IS NULL, '', ' (' || printf(change_format,
			change_scale * difference_low) || '..' || printf(change_format,
			change_scale * difference_high) || ')')) AS change,
	CASE WHEN place > 3 THEN NULL -- the others have no test
		WHEN test IS NULL AND a_text || b_text IS NULL THEN NULL
		WHEN test IS NULL THEN 'no test: the work is not the same'
		WHEN place = 3 AND difference_low = difference_high
			THEN mark || ', exact: the times have no spread'
		WHEN n = 1 AND versus_n = 1 THEN 'no test: A and B have one run only'
		WHEN versus_n = 1 THEN 'no test: A has one run only'
		WHEN n = 1 THEN 'no test: B has one run only'
		WHEN p IS NULL THEN 'no test: too few runs'
		ELSE mark || iif(p < 0.0001, ', p < 0.0001', printf(', p = %.2g', p))
			|| iif(pairs, printf(' (t, %d pairs)', pairs),
				printf(' (Welch, %d and %d runs)', versus_n, n))
			|| ifnull('; ' || wanted_text || ' would decide', '') END AS verdict
FROM held ORDER BY place;

-- For programs: the sides, the settings in which they differ, and the figures with their tests. No number is
-- rounded; infinite values, as of a side that diverged, are NULL.
CREATE TEMP VIEW told AS
SELECT 'side' AS part, e.key AS name, e.atom AS A, NULL AS A_low, NULL AS A_high, b.of ->> e.key AS B, NULL AS B_low,
	NULL AS B_high, NULL AS difference, NULL AS difference_low, NULL AS difference_high, NULL AS p, NULL AS B_is
FROM (SELECT side, json_object('workload', workload, 'configuration', configuration, 'ids', ids) AS of FROM sides) AS a
	JOIN (SELECT side, json_object('workload', workload, 'configuration', configuration, 'ids', ids) AS of FROM sides) AS b
	CROSS JOIN json_each(a.of) AS e
WHERE a.side = 'A' AND b.side = 'B'
UNION ALL SELECT 'setting', setting, A, NULL, NULL, B, NULL, NULL, NULL, NULL, NULL, NULL, NULL FROM differing
UNION ALL SELECT 'figure', name, iif(abs(a) < 9e999, a, NULL), iif(abs(a_low) < 9e999, a_low, NULL),
	iif(abs(a_high) < 9e999, a_high, NULL), iif(abs(b) < 9e999, b, NULL), iif(abs(b_low) < 9e999, b_low, NULL),
	iif(abs(b_high) < 9e999, b_high, NULL), iif(abs(d) < 9e999, d, NULL), difference_low, difference_high, p, verdict
FROM result;

-- ---- Curves ----------------------------------------------------------------

-- The value of each evaluation since training began: accuracy, or loss if the task has no accuracy.
CREATE TEMP TABLE point AS
SELECT * FROM (
	SELECT s.name AS side, c.run_id, m.column1 AS axis,
		iif(m.column1 = 'epochs', c.epochs, c.seconds) AS at,
		iif(judged, 100 * c.test_accuracy, c.test_loss) AS value
	FROM side AS s CROSS JOIN curve AS c ON c.run_id = s.run_id AND c.epochs > 0
		CROSS JOIN (VALUES ('epochs'), ('seconds')) AS m CROSS JOIN
		(SELECT max(test_accuracy) IS NOT NULL AS judged FROM run_summary))
WHERE abs(value) < 9e999 AND at > 0;
CREATE INDEX temp.point_of ON point (run_id, axis, at);

-- Cells of a line, at most 60: from the first that all runs of the side have a value for to the end of its last
-- run. A cell is the median, over the runs, of the newest evaluation.
CREATE TEMP TABLE cell AS
WITH RECURSIVE number(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM number WHERE i < 60),
axis AS MATERIALIZED (
	SELECT axis, max(at) AS last,
		iif(axis = 'epochs', min(60, CAST(ceil(max(at)) AS INTEGER)), 60) AS cells
	FROM point GROUP BY axis),
line AS MATERIALIZED (
	SELECT axis, side, max(at) AS ends, count(DISTINCT run_id) AS runs
	FROM point GROUP BY axis, side),
place AS MATERIALIZED ( -- inside: the line ends after the cell begins
	SELECT axis || side AS line, axis, side, a.last, n.i, runs,
		ends > a.last * (n.i - 1) / a.cells AS inside, a.last * n.i / a.cells * (1 + 1e-9) AS at
	FROM axis AS a CROSS JOIN number AS n ON n.i <= a.cells JOIN line USING (axis)),
figure AS (
	SELECT p.line AS number, p.i AS name, (SELECT value FROM point AS e
		WHERE e.run_id = s.run_id AND e.axis = p.axis AND e.at <= p.at
		ORDER BY e.at DESC LIMIT 1) AS x
	FROM place AS p JOIN side AS s ON s.name = p.side WHERE p.inside),
/* MEDIANS */
SELECT axis, last, side, i, m.mid AS value
FROM place AS p LEFT JOIN median AS m ON m.number = p.line AND m.name = p.i AND m.n = p.runs
ORDER BY axis, side, i;

-- The lines, both on one scale. head: of the first of an axis.
CREATE TEMP VIEW line AS
SELECT iif(side = 'A', printf(iif((SELECT max(test_accuracy) IS NOT NULL FROM run_summary),
		'test accuracy by %s, up to %.4g%s; from %.4g to %.4g %%',
		'test loss by %s, up to %.4g%s; from %.4g to %.4g'),
		iif(axis = 'epochs', 'epoch', 'time of training'), last,
		iif(axis = 'epochs', '', ' s'), least, most), '') AS head, side,
	rtrim(group_concat(iif(value IS NULL, ' ', substr('▁▂▃▄▅▆▇█', 1 + CAST(ifnull(
		7.999 * (value - least) / nullif(most - least, 0), 0) AS INTEGER), 1)), '')) AS text
FROM (SELECT *, min(value) OVER () AS least, max(value) OVER () AS most FROM cell
	ORDER BY axis, side, i)
GROUP BY axis, side;
