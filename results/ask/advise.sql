-- advise.sql - the answer of `mvbench advise`: tables term, inequality, ranking and advice, and the views that
-- show them. They are made from the costs of a step (advise_costs.sql) and the strategies' predictions. Times are
-- in seconds. Derivation of the inequality of local SGD and overlapped allreduce: both cost T_step plus a part of
-- an allreduce: T_allreduce / X for local SGD, T_allreduce - T_backward for overlapped allreduce.

CREATE TEMP TABLE term AS
SELECT m.place, name, k.s, m.means, k.origin FROM meaning AS m JOIN known AS k USING (name);

CREATE TEMP TABLE ranking AS
SELECT row_number() OVER (ORDER BY p.bound <> '', p.seconds) AS place,
	p.strategy || iif(p.variant = '', '', ' ' || p.variant) AS strategy, p.paced, p.x, p.workers, p.bound,
	p.seconds, p.formula, p.numbers, 
	(SELECT min(seconds) FROM prediction WHERE workers = 1) / p.seconds AS speedup,
	t.value AS measured, t.n AS measured_n, p.seconds / t.value - 1 AS error,
	a.value AS accuracy, a.n AS accuracy_n, s.mean AS staleness
FROM prediction AS p
	LEFT JOIN middle AS t ON (t.strategy, t.variant, t.x, t.workers) = (p.strategy, p.variant, p.x, p.workers)
		AND t.name = 'seconds'
	LEFT JOIN middle AS a ON (a.strategy, a.variant, a.x, a.workers) = (p.strategy, p.variant, p.x, p.workers)
		AND a.name = 'accuracy'
	LEFT JOIN middle AS s ON (s.strategy, s.variant, s.x, s.workers) = (p.strategy, p.variant, p.x, p.workers)
		AND s.name = 'staleness';

-- x NULL: the inequality does not depend on X.
CREATE TEMP TABLE inequality AS
WITH have AS (
	SELECT a.workers, a.steps, a.steps_one, max(s) FILTER (WHERE name = 'T_one') AS one,
		max(s) FILTER (WHERE name = 'T_step') AS step,
		ifnull(max(s) FILTER (WHERE name = 'T_wait'), 0) AS wait,
		max(s) FILTER (WHERE name = 'T_backward') AS backward,
		max(s) FILTER (WHERE name = 'T_allreduce') AS allreduce,
		max(s) FILTER (WHERE name = 'T_sync') AS sync
	FROM asked AS a JOIN known)
SELECT 1 AS place, NULL AS x, workers || ' workers with an allreduce every step beat one' AS claim,
	'steps (T_step + T_wait + T_allreduce) < steps_one T_one' AS formula,
	printf('%d (%.4g + %.4g + %.4g) ms = %.4g s < %d x %.4g ms = %.4g s', steps, 1e3 * step,
		1e3 * wait, 1e3 * allreduce, steps * (step + wait + allreduce), steps_one, 1e3 * one,
		steps_one * one) AS numbers,
	steps * (step + wait + allreduce) < steps_one * one AS holds
FROM have
UNION ALL SELECT 2, NULL, 'overlapping hides a whole allreduce behind the backward pass',
	'T_allreduce <= T_backward',
	printf('%.4g ms <= %.4g ms', 1e3 * allreduce, 1e3 * backward), allreduce <= backward
FROM have
UNION ALL SELECT 3, x, 'local SGD beats an overlapped allreduce', 'T_allreduce (1 - 1/X) > T_backward',
	printf('%.4g ms (1 - 1/%d) = %.4g ms > %.4g ms', 1e3 * allreduce, x,
		1e3 * allreduce * (1 - 1.0 / x), 1e3 * backward),
	allreduce * (1 - 1.0 / x) > backward
FROM have JOIN interval WHERE x > 1
UNION ALL SELECT 4, NULL, 'pushing to tables (asgd) beats an allreduce every step',
	'T_sync < T_wait + T_allreduce',
	printf('%.4g ms < %.4g + %.4g ms', 1e3 * sync, 1e3 * wait, 1e3 * allreduce), sync < wait + allreduce
FROM have;

-- Sentences, in order.
CREATE TEMP TABLE advice AS
WITH real AS MATERIALIZED (SELECT * FROM ranking WHERE bound = ''),
best AS (SELECT * FROM real ORDER BY seconds LIMIT 1),
-- for each strategy with an interval: the shortest interval whose time is within 5 % of that of the longest
enough AS (
	SELECT strategy, min(x) AS x, most FROM (
		SELECT *, first_value(seconds) OVER w AS least, max(x) OVER (PARTITION BY strategy) AS most
		FROM real WHERE paced
		WINDOW w AS (PARTITION BY strategy ORDER BY x DESC))
	WHERE seconds <= 1.05 * least GROUP BY strategy),
every AS (SELECT * FROM real WHERE strategy = 'allreduce'),
cost AS (
	SELECT strategy, group_concat(printf('X=%d %+.2f', x, 100 * lost), ', ') AS list, min(n) AS n, base
	FROM (SELECT r.strategy, r.x, r.accuracy - e.accuracy AS lost, r.accuracy_n AS n,
			e.accuracy_n AS base
		FROM real AS r JOIN every AS e
		WHERE r.accuracy IS NOT NULL AND e.accuracy IS NOT NULL AND r.x > 1
		ORDER BY r.strategy, r.x)
	GROUP BY strategy),
wrong AS (SELECT abs(error) AS off, count(*) OVER () AS n, row_number() OVER (ORDER BY abs(error)) AS i
	FROM real WHERE error IS NOT NULL)
SELECT 1 AS place, printf('Fastest: %s%s, %.4g s an epoch%s.', b.strategy,
	iif(b.paced, ' with X=' || b.x, ''), b.seconds,
	iif(b.speedup IS NULL, '', printf(', %.3g times as fast as one worker', b.speedup))) AS says
FROM best AS b WHERE b.workers > 1
UNION ALL SELECT 2, printf('%s: X=%d is long enough; X=%d is less than 5 %% faster.', strategy, x, most)
FROM enough WHERE x < most
UNION ALL SELECT 3, printf('One worker alone is faster than any of these (%.4g s an epoch): here synchronising '
	|| 'costs more than %d workers gain.', seconds, (SELECT workers FROM asked))
FROM best WHERE workers = 1
UNION ALL SELECT 4, printf('Compared with allreduce, %s changed the test accuracy here, in points: %s '
	|| '(medians of %d or more, and of %d runs).', strategy, list, n, base) FROM cost
UNION ALL SELECT 5, printf('Fastest that loses at most half a point: %s%s, %.4g s an epoch.', strategy,
	iif(paced, ' with X=' || x, ''), seconds) FROM (
	SELECT r.* FROM real AS r JOIN every AS e WHERE r.accuracy >= e.accuracy - 0.005
	ORDER BY r.seconds LIMIT 1) WHERE EXISTS (SELECT 1 FROM cost)
UNION ALL SELECT 6, 'No run here with these training options shows how a long interval changes '
	|| 'accuracy. It costs some, more with a longer X and later in training: test it before you '
	|| 'trust a ranking by time.'
WHERE NOT EXISTS (SELECT 1 FROM cost)
UNION ALL SELECT 7, printf('A push of asgd has a staleness of about %d pushes of other workers%s; that costs '
	|| 'accuracy too, most with momentum.', workers - 1,
	ifnull((SELECT printf(', %.3g in the runs here', avg(staleness)) FROM ranking
		WHERE strategy = 'asgd' HAVING avg(staleness) IS NOT NULL), ''))
FROM asked WHERE EXISTS (SELECT 1 FROM known WHERE name = 'T_sync')
UNION ALL SELECT 8, printf('The times of the runs here differ from the predicted ones by %.0f %% (median): the '
	|| 'load of the machine was different. Calibrate again while it is idle, or take the times '
	|| 'from the runs: --from=runs.', 100 * avg(off))
FROM wrong WHERE i IN ((n + 1) / 2, (n + 2) / 2) HAVING avg(off) > 0.2
UNION ALL SELECT 9, 'A time "at best" is a lower bound: real messages move only while a worker is inside '
	|| 'MPI, nothing hides the last bucket, and a split model has more than one message a step.'
FROM ranking WHERE bound <> '' GROUP BY 2;

-- ---- Shown tables --------------------------------------------------------------------------------

CREATE TEMP VIEW shown_setup AS
SELECT printf('%s, batch %d, %d workers on %s%s: %d parameters; %d steps an epoch, %d for one worker alone.',
	workload, batch, workers, iif(platform = 'sim', 'simulated ' || sim_platform, device),
	iif(platform = 'sim' AND sim_step_time <> 'auto', ' with steps of ' || sim_step_time, ''),
	params, steps, steps_one) AS says
FROM asked;

CREATE TEMP VIEW shown_terms AS
SELECT name, printf('%.4g', 1e3 * s) AS ms, means AS 'which is', origin AS 'from' FROM term ORDER BY place;

-- If the result is the same for several X, the numbers are those of the X closest to the change.
CREATE TEMP VIEW shown_inequalities AS
SELECT iif(holds, 'yes', 'no') AS ' ', claim || ifnull(', X=' || xs, '') AS 'that', formula AS 'when',
	numbers AS 'with the numbers'
FROM (SELECT place, claim, x, formula, numbers, holds, group_concat(x, ',') AS xs,
		max(ifnull(iif(holds, -x, x), 0)) -- the other columns are of the row with the max
	FROM (SELECT * FROM inequality ORDER BY place, x)
	WHERE holds IS NOT NULL GROUP BY place, holds)
ORDER BY place, x;

CREATE TEMP VIEW shown_ranking AS
SELECT iif(bound = '', place, '') AS '#', strategy,
	iif(paced, x, '') AS X, bound AS ' ',
	printf('%.4g', seconds) AS 'epoch s',
	iif(speedup IS NULL, '', printf('%.3g', speedup)) AS speedup,
	iif(measured IS NULL, '', printf('%.4g', measured)) AS 'ran in s',
	iif(error IS NULL, '', printf('%+.1f', 100 * error)) AS 'off by %',
	iif(accuracy IS NULL, '', printf('%.2f', 100 * accuracy)) AS 'accuracy %',
	numbers AS 'which is'
FROM ranking ORDER BY place;

CREATE TEMP VIEW shown_formulas AS
SELECT strategy, formula AS 'an epoch takes' FROM ranking GROUP BY strategy ORDER BY min(place);

CREATE TEMP VIEW shown_unpredicted AS SELECT strategy, why AS 'because' FROM unpredicted;

CREATE TEMP VIEW answer AS
SELECT json_object(
	'setup', (SELECT json_object('workload', workload, 'workload_options', words, 'batch', batch,
		'device', device, 'precision', precision, 'threads', threads, 'workers', workers,
		'params', params, 'platform', platform, 'sim_platform', sim_platform,
		'sim_step_time', sim_step_time, 'steps', steps, 'steps_one', steps_one) FROM asked),
	'terms', (SELECT json_group_array(json_object('name', name, 'seconds', s, 'means', means,
		'from', origin)) FROM (SELECT * FROM term ORDER BY place)),
	'inequalities', (SELECT json_group_array(json_object('claim', claim, 'x', x, 'formula', formula,
		'numbers', numbers, 'holds', json(iif(holds, 'true', 'false'))))
		FROM (SELECT * FROM inequality WHERE holds IS NOT NULL ORDER BY place, x)),
	'ranking', (SELECT json_group_array(json_object('place', place, 'strategy', strategy,
		'sync_every', x, 'workers', workers, 'bound', bound, 'epoch_seconds', seconds,
		'speedup', speedup, 'formula', formula, 'numbers', numbers, 'measured', measured,
		'measured_n', measured_n, 'error', error, 'test_accuracy', accuracy,
		'accuracy_n', accuracy_n, 'staleness', staleness))
		FROM (SELECT * FROM ranking ORDER BY place)),
	'unpredicted', (SELECT json_group_array(json_object('strategy', strategy, 'why', why))
		FROM unpredicted),
	'advice', (SELECT json_group_array(says) FROM (SELECT says FROM advice ORDER BY place))) AS json;
