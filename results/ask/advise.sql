-- advise.sql - what `mvbench advise` works out, in the connection's temporary schema. advise.c fills
--
--   asked     one row: the setup that advice is wanted for
--   interval  x, the sync intervals to compare [steps]
--   allowed   id, the runs that may be used
--
-- goes on below the line "-- FILLED", and prints term, inequality, ranking and advice. Times are in
-- seconds. The formulas are those of prediction: a step of a worker alone, what it waits for the slowest,
-- and what synchronising costs, divided by how many steps share it. Source of the inequality of local
-- SGD against an overlapped allreduce: both cost T_step and what is left of an allreduce, T_allreduce / X
-- here and T_allreduce - T_backward there.

CREATE TEMP TABLE asked (
	workload TEXT, words TEXT, batch INTEGER, device TEXT, precision TEXT, threads INTEGER,
	workers INTEGER, params INTEGER, train_size INTEGER,
	steps INTEGER,       -- of an epoch, of one of the workers,
	steps_one INTEGER,   -- of one worker alone,
	steps_model INTEGER, -- and of workers that split the model; NULL = this model cannot be
	host TEXT,           -- this one
	platform TEXT, sim_platform TEXT, sim_step_time TEXT, sim_update_time TEXT,
	source TEXT,         -- "auto", "calibration" or "runs"
	epochs INTEGER, lr REAL, lr_schedule TEXT, momentum REAL, weight_decay REAL, reduce TEXT,
	lr_scale TEXT);
CREATE TEMP TABLE interval (x INTEGER PRIMARY KEY);
CREATE TEMP TABLE allowed (id INTEGER PRIMARY KEY);

-- FILLED

-- ---- From calibrations ----------------------------------------------------------------------------

-- The newest of this work on this machine: of one worker, and of so many.
CREATE TEMP TABLE calibrated AS
SELECT c.workers, max(c.id) AS id, 'calibration ' || max(c.id) || ', ' || c.made AS origin
FROM calibration AS c JOIN asked AS a USING (workload, batch, device, precision, threads)
WHERE a.source <> 'runs' AND c.workload_options = a.words AND c.workers IN (1, a.workers)
	AND c.params = a.params AND ifnull(c.host, a.host) = a.host
	AND (a.platform = 'mpi' OR (a.sim_platform = 'local' AND a.sim_step_time = 'auto'))
GROUP BY c.workers;

-- Of several repetitions the median one counts (of two the shorter). Costs were measured in the first one:
-- slower says how many times longer things take in the median one.
CREATE TEMP TABLE repeated AS
WITH repetition AS (
	SELECT c.workers, c.id, c.origin, CAST(p.x AS INTEGER) / 64 AS repetition, avg(p.value) AS step
	FROM calibrated AS c JOIN calibration_point AS p ON p.calibration_id = c.id AND p.name = 'step'
	GROUP BY c.workers, repetition),
ranked AS (
	SELECT *, row_number() OVER (PARTITION BY workers ORDER BY step) AS i,
		count(*) OVER (PARTITION BY workers) AS n,
		first_value(step) OVER (PARTITION BY workers ORDER BY repetition) AS first
	FROM repetition)
SELECT workers, id, origin, repetition, step, ifnull(step / nullif(first, 0), 1) AS slower
FROM ranked WHERE i = (n + 1) / 2;

-- A step is one of 64 equally likely times: the longest of N is at most the k-th with (k / 64)^N.
CREATE TEMP TABLE slowest AS
SELECT v.workers, sum(p.value * (pow((p.x - 64 * v.repetition + 1) / 64.0, v.workers)
	- pow((p.x - 64 * v.repetition) / 64.0, v.workers))) - v.step AS wait
FROM repeated AS v JOIN calibration_point AS p ON p.calibration_id = v.id AND p.name = 'step'
	AND p.x >= 64 * v.repetition AND p.x < 64 * (v.repetition + 1)
GROUP BY v.workers;

CREATE TEMP TABLE term_calibrated AS
SELECT iif(workers = 1, 'T_one', 'T_step') AS name, step AS s, origin FROM repeated
UNION ALL SELECT 'T_wait', wait, origin FROM slowest JOIN repeated USING (workers) WHERE workers > 1
UNION ALL SELECT CASE p.name WHEN 'sgd' THEN 'T_update' WHEN 'allreduce' THEN 'T_allreduce'
	WHEN 'scale' THEN 'T_scale' WHEN 'sync' THEN 'T_sync' WHEN 'elastic' THEN 'T_elastic' END,
	v.slower * p.value, v.origin
FROM repeated AS v JOIN calibration_point AS p ON p.calibration_id = v.id
	AND p.name IN ('sgd', 'allreduce', 'scale', 'sync', 'elastic')
	AND p.x = (SELECT params FROM asked)
WHERE v.workers > 1
UNION ALL SELECT 'T_message', v.slower * p.value, v.origin
FROM repeated AS v JOIN calibration_point AS p ON p.calibration_id = v.id
	AND p.name = 'allreduce' AND p.x = 1
WHERE v.workers > 1;

-- ---- From recorded runs ---------------------------------------------------------------------------

-- Finished runs of this work, with what their options leave out of the formulas left out; overlap: 1, 0.
CREATE TEMP TABLE alike AS
SELECT r.*, EXISTS (SELECT 1 FROM run_option WHERE run_id = r.id AND part = 'strategy'
	AND name = 'overlap' AND value = 'true') AS overlap
FROM run AS r JOIN asked AS a USING (workload, batch, precision, params, train_size)
WHERE r.status = 'done' AND r.id IN (SELECT id FROM allowed) AND r.servers = 0
	AND NOT EXISTS (SELECT 1 FROM run_option WHERE run_id = r.id AND part = 'strategy'
		AND (name, value) NOT IN (VALUES ('overlap', 'true'), ('overlap', 'false'),
			('start', '0'), ('velocity', 'false'), ('schedule', 'fixed'), ('outer', 'none'),
			('updater', 'add'))
		AND name IN ('overlap', 'start', 'velocity', 'schedule', 'outer', 'updater'));

-- Those whose times may be compared: on the same platform, nobody slowed down. Means an epoch.
CREATE TEMP TABLE timed AS
SELECT r.id, r.strategy, r.sync_every, r.workers, r.overlap,
	r.strategy || iif(r.sync_every > 1, ' X=' || r.sync_every, '') AS cell,
	avg(e.seconds - e.comm_s - e.wait_s) / iif(r.workers = 1, a.steps_one, a.steps) AS local,
	avg(e.comm_s) / a.steps AS comm, avg(e.wait_s) / a.steps AS wait
FROM alike AS r JOIN asked AS a JOIN epoch AS e ON e.run_id = r.id AND e.epoch >= 1
WHERE r.platform = a.platform AND r.sim_platform IS a.sim_platform AND r.device = a.device
	AND r.threads = a.threads AND r.sim_step_time IS a.sim_step_time
	AND r.sim_update_time IS a.sim_update_time AND ifnull(r.sim_slow_link, '') = ''
	AND r.straggle = 0 AND r.speed = '' AND r.pause = '' AND r.leave = ''
	AND (r.platform = 'sim' OR ifnull(r.host, a.host) = a.host) AND r.workers IN (1, a.workers)
GROUP BY r.id;

-- Medians over the runs of a cell.
CREATE TEMP TABLE typical AS
WITH ranked AS (
	SELECT *, row_number() OVER (PARTITION BY cell, workers, overlap ORDER BY local) AS i,
		row_number() OVER (PARTITION BY cell, workers, overlap ORDER BY comm) AS k,
		row_number() OVER (PARTITION BY cell, workers, overlap ORDER BY wait) AS l,
		count(*) OVER (PARTITION BY cell, workers, overlap) AS n
	FROM timed)
SELECT strategy, sync_every, workers, overlap, max(id) AS id,
	avg(local) FILTER (WHERE i IN ((n + 1) / 2, (n + 2) / 2)) AS local,
	avg(comm) FILTER (WHERE k IN ((n + 1) / 2, (n + 2) / 2)) AS comm,
	avg(wait) FILTER (WHERE l IN ((n + 1) / 2, (n + 2) / 2)) AS wait,
	iif(n > 1, n || ' runs to ', 'run ') || max(id) || ', ' || cell AS origin
FROM ranked GROUP BY cell, workers, overlap;

-- The runs with the shortest interval say it best: they synchronise most. Of as short ones the newest.
CREATE TEMP TABLE term_run AS
WITH said AS (
	SELECT 'T_one' AS name, local AS s, origin, id, 1 AS x FROM typical WHERE workers = 1
	UNION ALL SELECT 'T_step', local, origin, id, sync_every + (strategy <> 'allreduce')
	FROM typical WHERE workers > 1 AND NOT overlap
		AND strategy IN ('allreduce', 'periodic', 'asgd', 'easgd')
	UNION ALL SELECT 'T_allreduce', comm * sync_every, origin, id, sync_every + (strategy = 'periodic')
	FROM typical WHERE workers > 1 AND NOT overlap AND strategy IN ('allreduce', 'periodic')
	UNION ALL SELECT 'T_wait', wait * sqrt(sync_every), origin, id,
		sync_every + (strategy = 'periodic')
	FROM typical WHERE workers > 1 AND NOT overlap AND strategy IN ('allreduce', 'periodic')
	UNION ALL SELECT iif(strategy = 'asgd', 'T_sync', 'T_elastic'), (comm + wait) * sync_every, origin,
		id, sync_every
	FROM typical WHERE workers > 1 AND strategy IN ('asgd', 'easgd')),
ranked AS (
	SELECT *, row_number() OVER (PARTITION BY name ORDER BY x, id DESC) AS i
	FROM said WHERE (SELECT source FROM asked) <> 'calibration')
SELECT name, s, origin FROM ranked WHERE i = 1;

-- ---- What is known --------------------------------------------------------------------------------

CREATE TEMP TABLE known AS
SELECT name, s, origin FROM term_calibrated
UNION ALL SELECT name, s, origin FROM term_run WHERE name NOT IN (SELECT name FROM term_calibrated);

-- One row, a column a term; NULL = not known. A gradient is one part forward, two parts backward. Where
-- updates and sums were not measured apart, they are in T_step and T_allreduce.
CREATE TEMP TABLE have AS
SELECT *, 2 / 3.0 * (t_step - t_update) AS t_backward FROM (
	SELECT a.*,
		(SELECT s FROM known WHERE name = 'T_one') AS t_one,
		(SELECT s FROM known WHERE name = 'T_step') AS t_step,
		ifnull((SELECT s FROM known WHERE name = 'T_update'), 0) AS t_update,
		ifnull((SELECT s FROM known WHERE name = 'T_wait'), 0) AS t_wait,
		ifnull((SELECT s FROM known WHERE name = 'T_scale'), 0) AS t_scale,
		(SELECT s FROM known WHERE name = 'T_allreduce') AS t_allreduce,
		(SELECT s FROM known WHERE name = 'T_message') AS t_message,
		(SELECT s FROM known WHERE name = 'T_sync') AS t_sync,
		(SELECT s FROM known WHERE name = 'T_elastic') AS t_elastic
	FROM asked AS a);

CREATE TEMP TABLE term AS
WITH meaning(place, name, means) AS (VALUES
	(1, 'T_one', 'a step of one worker alone'),
	(2, 'T_step', 'a step of one of the workers, its update in it'),
	(3, 'T_update', 'of it, the update'),
	(4, 'T_backward', 'of it, the backward pass'),
	(5, 'T_wait', 'how much longer the slowest of the workers takes, on average'),
	(6, 'T_allreduce', 'an allreduce of the model'),
	(7, 'T_scale', 'a pass over the model, that makes a sum a mean'),
	(8, 'T_message', 'an allreduce of one number'),
	(9, 'T_sync', 'a push and pull of the model, to tables'),
	(10, 'T_elastic', 'the same, of elastic averaging'))
SELECT m.place, m.name, k.s, m.means, k.origin FROM meaning AS m JOIN known AS k USING (name)
UNION ALL SELECT m.place, m.name, h.t_backward, m.means,
	iif(h.t_update > 0, '2/3 (T_step - T_update)', '2/3 T_step: the update was not measured apart')
FROM meaning AS m JOIN have AS h WHERE m.name = 'T_backward' AND h.t_backward IS NOT NULL;

-- ---- What follows ---------------------------------------------------------------------------------

-- bound: 'at best' = it takes this long or longer.
CREATE TEMP TABLE prediction AS
SELECT 'serial' AS strategy, 1 AS x, 0 AS overlap, 1 AS workers, '' AS bound, t_one * steps_one AS seconds,
	'steps T_one' AS formula, printf('%d x %.4g ms', steps_one, 1e3 * t_one) AS numbers
FROM have
UNION ALL SELECT 'allreduce', 1, 0, workers, '', steps * (t_step + t_wait + t_allreduce),
	'steps (T_step + T_wait + T_allreduce)',
	printf('%d (%.4g + %.4g + %.4g) ms', steps, 1e3 * t_step, 1e3 * t_wait, 1e3 * t_allreduce)
FROM have
UNION ALL SELECT 'allreduce', 1, 1, workers, 'at best',
	steps * (t_step + t_wait + max(0, t_allreduce - t_backward)),
	'steps (T_step + T_wait + max(0, T_allreduce - T_backward))',
	printf('%d (%.4g + %.4g + max(0, %.4g - %.4g)) ms', steps, 1e3 * t_step, 1e3 * t_wait,
		1e3 * t_allreduce, 1e3 * t_backward)
FROM have
UNION ALL SELECT 'periodic', x, 0, workers, '',
	steps * (t_step + t_wait / sqrt(x) + (t_allreduce + t_scale) / x),
	'steps (T_step + T_wait / sqrt(X) + (T_allreduce + T_scale) / X)',
	printf('%d (%.4g + %.4g / sqrt(%d) + (%.4g + %.4g) / %d) ms', steps, 1e3 * t_step, 1e3 * t_wait, x,
		1e3 * t_allreduce, 1e3 * t_scale, x)
FROM have JOIN interval
UNION ALL SELECT 'asgd', x, 0, workers, '', steps * (t_step + t_sync / x),
	'steps (T_step + T_sync / X)',
	printf('%d (%.4g + %.4g / %d) ms', steps, 1e3 * t_step, 1e3 * t_sync, x)
FROM have JOIN interval
UNION ALL SELECT 'easgd', x, 0, workers, '', steps * (t_step + t_elastic / x),
	'steps (T_step + T_elastic / X)',
	printf('%d (%.4g + %.4g / %d) ms', steps, 1e3 * t_step, 1e3 * t_elastic, x)
FROM have JOIN interval
UNION ALL SELECT 'model_parallel', 1, 0, workers, 'at best', steps_model * (t_one / workers + t_message),
	'steps (T_one / N + T_message)',
	printf('%d (%.4g / %d + %.4g) ms', steps_model, 1e3 * t_one, workers, 1e3 * t_message)
FROM have;

-- What runs here took, and what came of them: medians over finished runs.
CREATE TEMP TABLE took AS
WITH ranked AS (
	SELECT t.strategy, t.sync_every, t.overlap, t.workers, m.epoch_seconds AS seconds,
		row_number() OVER (PARTITION BY t.strategy, t.sync_every, t.overlap, t.workers
			ORDER BY m.epoch_seconds) AS i,
		count(*) OVER (PARTITION BY t.strategy, t.sync_every, t.overlap, t.workers) AS n
	FROM timed AS t JOIN run_summary AS m ON m.id = t.id)
SELECT strategy, sync_every, overlap, workers, avg(seconds) AS seconds, max(n) AS n
FROM ranked WHERE i IN ((n + 1) / 2, (n + 2) / 2) GROUP BY 1, 2, 3, 4;

-- Of runs with the options of training that were asked for, real or simulated.
CREATE TEMP TABLE learned AS
WITH last AS (
	SELECT r.id, r.strategy, r.sync_every, r.overlap, r.workers, s.test_accuracy AS accuracy,
		s.staleness_mean AS staleness
	FROM alike AS r JOIN run_summary AS s ON s.id = r.id
	JOIN asked AS a USING (epochs, lr, lr_schedule, momentum, weight_decay, reduce, lr_scale)
	WHERE ifnull(r.sim_train, 1) AND s.test_accuracy IS NOT NULL),
ranked AS (
	SELECT *, row_number() OVER (PARTITION BY strategy, sync_every, overlap, workers
			ORDER BY accuracy) AS i,
		count(*) OVER (PARTITION BY strategy, sync_every, overlap, workers) AS n,
		avg(staleness) OVER (PARTITION BY strategy, sync_every, overlap, workers) AS mean
	FROM last)
SELECT strategy, sync_every, overlap, workers, avg(accuracy) AS accuracy, max(n) AS n,
	max(mean) AS staleness
FROM ranked WHERE i IN ((n + 1) / 2, (n + 2) / 2) GROUP BY 1, 2, 3, 4;

CREATE TEMP TABLE ranking AS
SELECT row_number() OVER (ORDER BY p.bound <> '', p.seconds) AS place,
	p.strategy || iif(p.overlap, ' overlap', '') AS strategy, p.x, p.overlap, p.workers, p.bound,
	p.seconds, (SELECT seconds FROM prediction WHERE strategy = 'serial') / p.seconds AS speedup,
	p.formula, p.numbers, t.seconds AS measured, t.n AS measured_n, p.seconds / t.seconds - 1 AS error,
	l.accuracy, l.n AS accuracy_n, l.staleness
FROM prediction AS p
	LEFT JOIN took AS t ON t.strategy = p.strategy AND t.sync_every = p.x AND t.overlap = p.overlap
		AND t.workers = p.workers
	LEFT JOIN learned AS l ON l.strategy = p.strategy AND l.sync_every = p.x
		AND l.overlap = p.overlap AND l.workers = p.workers
WHERE p.seconds IS NOT NULL;

-- X = NULL: it does not depend on it.
CREATE TEMP TABLE inequality AS
SELECT 1 AS place, NULL AS x, workers || ' workers with an allreduce every step beat one' AS claim,
	'steps (T_step + T_wait + T_allreduce) < steps_one T_one' AS formula,
	printf('%d (%.4g + %.4g + %.4g) ms = %.4g s < %d x %.4g ms = %.4g s', steps, 1e3 * t_step,
		1e3 * t_wait, 1e3 * t_allreduce, steps * (t_step + t_wait + t_allreduce), steps_one,
		1e3 * t_one, steps_one * t_one) AS numbers,
	steps * (t_step + t_wait + t_allreduce) < steps_one * t_one AS holds
FROM have
UNION ALL SELECT 2, NULL, 'overlapping hides a whole allreduce behind the backward pass',
	'T_allreduce <= T_backward',
	printf('%.4g ms <= %.4g ms', 1e3 * t_allreduce, 1e3 * t_backward), t_allreduce <= t_backward
FROM have
UNION ALL SELECT 3, x, 'local SGD beats an overlapped allreduce', 'T_allreduce (1 - 1/X) > T_backward',
	printf('%.4g ms (1 - 1/%d) = %.4g ms > %.4g ms', 1e3 * t_allreduce, x,
		1e3 * t_allreduce * (1 - 1.0 / x), 1e3 * t_backward),
	t_allreduce * (1 - 1.0 / x) > t_backward
FROM have JOIN interval WHERE x > 1
UNION ALL SELECT 4, NULL, 'pushing to tables (asgd) beats an allreduce every step',
	'T_sync < T_wait + T_allreduce',
	printf('%.4g ms < %.4g + %.4g ms', 1e3 * t_sync, 1e3 * t_wait, 1e3 * t_allreduce),
	t_sync < t_wait + t_allreduce
FROM have;

-- Sentences, in order.
CREATE TEMP TABLE advice AS
WITH real AS MATERIALIZED (SELECT * FROM ranking WHERE bound = ''),
best AS (SELECT * FROM real ORDER BY seconds LIMIT 1),
-- of each strategy with an interval, the shortest that is within 5 % of its longest
enough AS (
	SELECT strategy, min(x) AS x, most FROM (
		SELECT *, first_value(seconds) OVER w AS least, max(x) OVER (PARTITION BY strategy) AS most
		FROM real WHERE strategy IN ('periodic', 'asgd', 'easgd')
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
	iif(b.strategy IN ('periodic', 'asgd', 'easgd'), ' with X=' || b.x, ''), b.seconds,
	iif(b.speedup IS NULL, '', printf(', %.3g times as fast as one worker', b.speedup))) AS says
FROM best AS b WHERE b.strategy <> 'serial'
UNION ALL SELECT 2, printf('Of %s X=%d is enough: X=%d is less than 5 %% faster.', strategy, x, most)
FROM enough WHERE x < most
UNION ALL SELECT 3, printf('One worker alone is faster than any of these (%.4g s an epoch): here synchronising '
	|| 'costs more than %d workers gain.', seconds, (SELECT workers FROM asked))
FROM best WHERE strategy = 'serial'
UNION ALL SELECT 4, printf('Beside allreduce %s changed the test accuracy here by so many points: %s '
	|| '(medians of %d or more, and of %d runs).', strategy, list, n, base) FROM cost
UNION ALL SELECT 5, printf('Without losing more than half a point so: %s%s, %.4g s an epoch.', strategy,
	iif(strategy IN ('periodic', 'asgd', 'easgd'), ' with X=' || x, ''), seconds) FROM (
	SELECT r.* FROM real AS r JOIN every AS e WHERE r.accuracy >= e.accuracy - 0.005
	ORDER BY r.seconds LIMIT 1) WHERE EXISTS (SELECT 1 FROM cost)
UNION ALL SELECT 6, 'No run here with these options of training tells what a long interval does to '
	|| 'accuracy. It costs some, more the longer X is and the later in training: try it before you '
	|| 'trust a ranking by time.'
WHERE NOT EXISTS (SELECT 1 FROM cost)
UNION ALL SELECT 7, printf('A push of asgd meets about %d foreign updates (its staleness)%s; that costs '
	|| 'accuracy too, with momentum most.', workers - 1,
	ifnull((SELECT printf(', %.3g in the runs here', avg(staleness)) FROM ranking
		WHERE strategy = 'asgd' HAVING avg(staleness) IS NOT NULL), ''))
FROM have WHERE t_sync IS NOT NULL
UNION ALL SELECT 8, printf('The runs here took other times than predicted, by %.0f %% (median): the machine '
	|| 'was less or more busy when they ran. Calibrate again while it is idle, or take what runs say '
	|| 'of themselves: --from=runs.', 100 * avg(off))
FROM wrong WHERE i IN ((n + 1) / 2, (n + 2) / 2) HAVING avg(off) > 0.2
UNION ALL SELECT 9, 'What is "at best" may take longer: real messages move only while a worker is inside '
	|| 'MPI, nothing hides the last bucket, and a split model has more than one message a step.'
FROM ranking WHERE bound <> '' GROUP BY 2;

-- ---- As it is shown -------------------------------------------------------------------------------

CREATE TEMP VIEW shown_setup AS
SELECT printf('%s, batch %d, %d workers on %s%s: %d parameters; %d steps an epoch, %d for one worker alone.',
	workload, batch, workers, iif(platform = 'sim', 'simulated ' || sim_platform, device),
	iif(platform = 'sim' AND sim_step_time <> 'auto', ' with steps of ' || sim_step_time, ''),
	params, steps, steps_one) AS says
FROM asked;

CREATE TEMP VIEW shown_terms AS
SELECT name, printf('%.4g', 1e3 * s) AS ms, means AS 'which is', origin AS 'from' FROM term ORDER BY place;

-- Where it turns out the same for several X, the numbers are of the closest.
CREATE TEMP VIEW shown_inequalities AS
SELECT iif(holds, 'yes', 'no') AS ' ', claim || ifnull(', X=' || xs, '') AS 'that', formula AS 'when',
	numbers AS 'with the numbers'
FROM (SELECT place, claim, x, formula, numbers, holds, group_concat(x, ',') AS xs,
		max(ifnull(iif(holds, -x, x), 0)) -- the others are of the row with the max
	FROM (SELECT * FROM inequality ORDER BY place, x)
	WHERE holds IS NOT NULL GROUP BY place, holds)
ORDER BY place, x;

CREATE TEMP VIEW shown_ranking AS
SELECT iif(bound = '', place, '') AS '#', strategy,
	iif(strategy IN ('periodic', 'asgd', 'easgd'), x, '') AS X, bound AS ' ',
	printf('%.4g', seconds) AS 'epoch s',
	iif(speedup IS NULL, '', printf('%.3g', speedup)) AS speedup,
	iif(measured IS NULL, '', printf('%.4g', measured)) AS 'ran in s',
	iif(error IS NULL, '', printf('%+.1f', 100 * error)) AS 'off by %',
	iif(accuracy IS NULL, '', printf('%.2f', 100 * accuracy)) AS 'accuracy %',
	numbers AS 'which is'
FROM ranking ORDER BY place;

CREATE TEMP VIEW shown_formulas AS
SELECT strategy, formula AS 'an epoch takes' FROM ranking GROUP BY strategy ORDER BY min(place);

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
	'advice', (SELECT json_group_array(says) FROM (SELECT says FROM advice ORDER BY place))) AS json;
