-- advise_costs.sql - table known: the costs of a step [s] from calibrations, and from recorded runs if
-- calibrations lack them. The strategies have the formulas that use them (mvbench.h, expect).

-- ---- From calibrations ----------------------------------------------------------------------------

-- The newest calibrations of this work on this machine: with one worker, and with this number of workers.
CREATE TEMP TABLE calibrated AS
SELECT c.workers, max(c.id) AS id, 'calibration ' || max(c.id) || ', ' || c.made AS origin
FROM calibration AS c JOIN asked AS a USING (workload, batch, device, precision, threads)
WHERE a.source <> 'runs' AND c.workload_options = a.words AND c.workers IN (1, a.workers)
	AND c.params = a.params AND ifnull(c.host, a.host) = a.host
	AND (a.platform = 'mpi' OR (a.sim_platform = 'local' AND a.sim_step_time = 'auto'))
GROUP BY c.workers;

-- Bins: the steps, sorted by length, from share `low` to share `high` of all take s seconds. repetition: of the
-- measurement.
CREATE TEMP TABLE bin AS
SELECT workers, id, origin, repetition, s, (x - repetition * bins) / bins AS low,
	ifnull(lead(x) OVER (PARTITION BY workers, repetition ORDER BY x) - repetition * bins, bins) / bins
		AS high
FROM (SELECT c.*, p.value AS s, p.x, CAST(p.x AS INTEGER) / a.bins AS repetition, 1.0 * a.bins AS bins
	FROM calibrated AS c JOIN asked AS a
	JOIN calibration_point AS p ON p.calibration_id = c.id AND p.name = 'step');

-- The median repetition counts (of two, the shorter). Costs were measured in the first one; slower: how many times
-- longer a step takes in the median one.
CREATE TEMP TABLE typical AS
WITH step AS (
	SELECT workers, id, origin, repetition, sum(s * (high - low)) AS step FROM bin GROUP BY workers, repetition),
ranked AS (
	SELECT *, row_number() OVER (PARTITION BY workers ORDER BY step) AS i,
		count(*) OVER (PARTITION BY workers) AS n,
		first_value(step) OVER (PARTITION BY workers ORDER BY repetition) AS first
	FROM step)
SELECT workers, id, origin, repetition, step, ifnull(step / nullif(first, 0), 1) AS slower
FROM ranked WHERE i = (n + 1) / 2;

-- The longest of N steps is below the share p with probability p^N, the second longest with N p^(N-1) - (N-1) p^N.
-- pair: the longest of two.
CREATE TEMP TABLE slowest AS
SELECT n, origin, sum(s * (pow(high, n) - pow(low, n))) - step AS wait,
	sum(s * (n * (pow(high, n - 1) - pow(low, n - 1)) - (n - 1) * (pow(high, n) - pow(low, n))))
		- step AS late,
	sum(s * (high * high - low * low)) - step AS pair
FROM (SELECT *, workers AS n FROM typical JOIN bin USING (workers, id, origin, repetition))
WHERE n > 1 GROUP BY n;

CREATE TEMP TABLE term_calibrated AS
WITH point(name, point, x) AS (
	SELECT column1, column2, column3 * params
	FROM asked JOIN (VALUES ('T_update', 'sgd', 1), ('T_allreduce', 'allreduce', 1),
		('T_scale', 'scale', 1), ('T_add', 'axpy', 1), ('T_sync', 'sync', 1), ('T_push', 'push', 1),
		('T_pull', 'read', 1), ('T_elastic', 'elastic', 1), ('T_exchange', 'message', 4))
	UNION ALL VALUES ('T_message', 'allreduce', 1)) -- messages in bytes, the others in floats
SELECT iif(workers = 1, 'T_one', 'T_step') AS name, step AS s, origin FROM typical
UNION ALL SELECT 'T_wait', wait, origin FROM slowest
UNION ALL SELECT 'T_late', late, origin FROM slowest
UNION ALL SELECT 'T_pair', pair, origin FROM slowest
UNION ALL SELECT t.name, v.slower * p.value, v.origin
FROM typical AS v JOIN point AS t
	JOIN calibration_point AS p ON p.calibration_id = v.id AND p.name = t.point AND p.x = t.x
WHERE v.workers > 1;

-- ---- From recorded runs ---------------------------------------------------------------------------

-- Finished runs of this work, with the options of a variant.
CREATE TEMP TABLE alike AS
SELECT r.*, v.variant
FROM run AS r JOIN asked AS a USING (workload, batch, precision, params, train_size, optimizer)
	JOIN variant AS v USING (strategy)
WHERE r.status = 'done' AND r.id IN (SELECT id FROM allowed) AND r.servers = 0
	AND NOT EXISTS (SELECT 1 FROM chosen AS c LEFT JOIN run_option AS o
			ON o.run_id = r.id AND o.part = 'strategy' AND o.name = c.name
		WHERE c.strategy = r.strategy AND c.variant = v.variant AND ifnull(o.value, c.def) <> c.value);

-- Figures of a run. Times compare on the same platform, if no worker was slowed down; local, comm and wait are
-- means of a step. Accuracy and staleness are of runs with the given training options, real or simulated.
CREATE TEMP TABLE figure AS
WITH timed AS (
	SELECT r.id, r.strategy, r.variant, r.sync_every AS x, r.workers, m.epoch_seconds AS seconds,
		avg(e.seconds - e.comm_s - e.wait_s) / iif(r.workers = 1, a.steps_one, a.steps) AS local,
		avg(e.comm_s) / a.steps AS comm, avg(e.wait_s) / a.steps AS wait
	FROM alike AS r JOIN asked AS a JOIN epoch AS e ON e.run_id = r.id AND e.epoch >= 1
		JOIN run_summary AS m ON m.id = r.id
	WHERE r.platform = a.platform AND r.sim_platform IS a.sim_platform AND r.device = a.device
		AND r.threads = a.threads AND r.sim_step_time IS a.sim_step_time
		AND r.sim_update_time IS a.sim_update_time AND ifnull(r.sim_slow_link, '') = ''
		AND r.straggle = 0 AND r.speed = '' AND r.pause = '' AND r.leave = ''
		AND (r.platform = 'sim' OR ifnull(r.host, a.host) = a.host AND r.network IS NULL) AND r.workers IN (1, a.workers)
	GROUP BY r.id, r.variant),
learned AS (
	SELECT r.id, r.strategy, r.variant, r.sync_every AS x, r.workers, m.test_accuracy AS accuracy,
		m.staleness_mean AS staleness
	FROM alike AS r JOIN run_summary AS m ON m.id = r.id
	JOIN asked AS a USING (epochs, lr, lr_schedule, momentum, weight_decay, reduce, lr_scale, split, clip,
		state)
	WHERE ifnull(r.sim_train, 1) AND m.test_accuracy IS NOT NULL)
SELECT id, strategy, variant, x, workers, 'seconds' AS name, seconds AS value FROM timed
UNION ALL SELECT id, strategy, variant, x, workers, 'local', local FROM timed
UNION ALL SELECT id, strategy, variant, x, workers, 'comm', comm FROM timed
UNION ALL SELECT id, strategy, variant, x, workers, 'wait', wait FROM timed
UNION ALL SELECT id, strategy, variant, x, workers, 'accuracy', accuracy FROM learned
UNION ALL SELECT id, strategy, variant, x, workers, 'staleness', staleness FROM learned;

-- Medians (and means) over the runs of a cell.
CREATE TEMP TABLE middle AS
SELECT strategy, variant, x, workers, name, max(id) AS id, n, avg(value) AS mean,
	avg(value) FILTER (WHERE i IN ((n + 1) / 2, (n + 2) / 2)) AS value
FROM (SELECT *, row_number() OVER (PARTITION BY strategy, variant, x, workers, name ORDER BY value) AS i,
		count(*) OVER (PARTITION BY strategy, variant, x, workers, name) AS n
	FROM figure)
GROUP BY strategy, variant, x, workers, name;

-- Which figures of which strategy give a term; a term is the sum of its figures, over all the steps between two
-- synchronisations. Runs with the shortest interval count, because they synchronise most; of equal ones the newest.
CREATE TEMP TABLE term_run AS
WITH tells(name, strategy, figure, later) AS (VALUES
	('T_step', 'allreduce', 'local', 0), ('T_step', 'periodic', 'local', 1),
	('T_step', 'asgd', 'local', 1), ('T_step', 'easgd', 'local', 1),
	('T_wait', 'allreduce', 'wait', 0), ('T_wait', 'periodic', 'wait', 1),
	('T_allreduce', 'allreduce', 'comm', 0), ('T_allreduce', 'periodic', 'comm', 1),
	('T_exchange', 'gossip', 'comm', 0), ('T_pair', 'gossip', 'wait', 0),
	('T_sync', 'asgd', 'comm', 0), ('T_sync', 'asgd', 'wait', 0),
	('T_elastic', 'easgd', 'comm', 0), ('T_elastic', 'easgd', 'wait', 0)),
said AS (
	SELECT 'T_one' AS name, value AS s, id, n, strategy, x, 1 AS place
	FROM middle WHERE name = 'local' AND workers = 1
	UNION ALL SELECT t.name,
		sum(m.value * CASE t.name WHEN 'T_step' THEN 1 WHEN 'T_wait' THEN sqrt(m.x) WHEN 'T_pair' THEN sqrt(m.x) ELSE m.x END),
		m.id, m.n, strategy, m.x, m.x + t.later
	FROM tells AS t JOIN middle AS m USING (strategy)
	WHERE m.name = t.figure AND m.workers > 1 AND m.variant = '' GROUP BY t.name, strategy, m.x),
ranked AS (
	SELECT *, row_number() OVER (PARTITION BY name ORDER BY place, id DESC) AS i
	FROM said WHERE (SELECT source FROM asked) <> 'calibration')
SELECT name, s, iif(n > 1, n || ' runs to ', 'run ') || id || ', ' || strategy
	|| iif(x > 1, ' X=' || x, '') AS origin
FROM ranked WHERE i = 1;

-- ---- Known times -------------------------------------------------------------------------------

-- A gradient takes one part of its time forward, two parts backward. T_step includes updates that were not
-- measured separately.
CREATE TEMP TABLE known AS
WITH told AS (
	SELECT name, s, origin FROM term_calibrated WHERE s IS NOT NULL
	UNION ALL SELECT name, s, origin FROM term_run
	WHERE s IS NOT NULL AND name NOT IN (SELECT name FROM term_calibrated))
SELECT * FROM told
UNION ALL SELECT 'T_backward', 2 / 3.0 * (t.s - ifnull(u.s, 0)), iif(u.s > 0, '2/3 (T_step - T_update)',
	'2/3 T_step: the update was not measured separately')
FROM told AS t LEFT JOIN told AS u ON u.name = 'T_update' WHERE t.name = 'T_step';
