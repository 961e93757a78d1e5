-- schema.sql - the results database, made in an empty file by results/store.c.
--
-- Tables hold what was measured. All arithmetic is in the views below the line "-- VIEWS", which
-- are made anew when an older file is migrated. Times are in seconds, sizes in bytes, accuracies and
-- fractions in 0..1. NULL = not known, or does not apply. Epoch 0 is the model before training.

PRAGMA application_id = 1836474990; -- "mvbn"
PRAGMA user_version = 5;

-- One experiment. The columns from workload to label are the core options of `mvbench run`, with
-- '_' for '-'; device, table_home and transport are those that were used, once the run has begun. The
-- rest is what was found out, and provenance.
CREATE TABLE run (
	id INTEGER PRIMARY KEY AUTOINCREMENT,
	status TEXT NOT NULL CHECK (status IN ('pending', 'running', 'done', 'failed', 'diverged')),
	reason TEXT,               -- why, in a sentence, when failed or diverged
	started TEXT,              -- ISO 8601, UTC
	finished TEXT,
	config_hash TEXT NOT NULL, -- the identity of a cell, seed included
	workload TEXT NOT NULL,
	strategy TEXT NOT NULL,
	workers INTEGER NOT NULL,
	servers INTEGER NOT NULL,
	table_home TEXT, -- "shared", "onesided", "servers" or "gpu"; NULL = the strategy has no tables
	record INTEGER NOT NULL DEFAULT 0 CHECK (record IN (0, 1)), -- is table arrival wanted?
	sync_every INTEGER NOT NULL,    -- [steps]
	barrier_every INTEGER NOT NULL, -- [epochs], 0 = never
	epochs INTEGER NOT NULL,
	batch INTEGER NOT NULL, -- of one trainer [rows]
	lr REAL NOT NULL,
	lr_schedule TEXT NOT NULL,
	momentum REAL NOT NULL,
	weight_decay REAL NOT NULL,
	reduce TEXT NOT NULL,
	lr_scale TEXT NOT NULL,
	seed INTEGER NOT NULL,
	device TEXT NOT NULL,
	precision TEXT NOT NULL DEFAULT 'float32',
	transport TEXT, -- of vectors on GPUs: "nccl", "ipc", "mpi", "staged"; NULL = none travelled
	platform TEXT NOT NULL,
	hostfile TEXT NOT NULL DEFAULT '',
	data_dir TEXT NOT NULL DEFAULT '',
	threads INTEGER NOT NULL,
	straggle REAL NOT NULL,
	speed TEXT NOT NULL DEFAULT '', -- of single workers: "RANK:FACTOR,..."
	pause TEXT NOT NULL DEFAULT '', -- "RANK:AT:DURATION,..."
	leave TEXT NOT NULL DEFAULT '', -- "RANK:AT,..."
	sim_platform TEXT, -- these: NULL = the workers were real
	sim_train INTEGER CHECK (sim_train IN (0, 1)), -- 0 = time only, no gradients
	sim_step_time TEXT,   -- "auto" = as calibrated
	sim_update_time TEXT,
	sim_slow_link TEXT,   -- "RANK:FACTOR,..."
	sim_replay INTEGER,   -- run whose recorded order was repeated; 0 = none
	target_accuracy REAL NOT NULL, -- 0 = none
	label TEXT NOT NULL DEFAULT '',
	params INTEGER, -- trainable parameters of the whole model
	train_size INTEGER,
	test_size INTEGER,
	oversubscribed INTEGER CHECK (oversubscribed IN (0, 1)),
	host TEXT,
	cpu TEXT,
	cores INTEGER,
	gpu TEXT,
	driver TEXT,
	mpi TEXT,
	onednn TEXT,
	cuda TEXT, -- the versions of CUDA and its libraries; NULL = not used
	git_commit TEXT,
	git_dirty INTEGER CHECK (git_dirty IN (0, 1)),
	pid INTEGER, -- of the process that records
	calibration_id INTEGER REFERENCES calibration (id) ON DELETE SET NULL, -- of a simulation
	simulated_s REAL, -- virtual time of the whole simulation, judging included
	wall_s REAL,      -- that it took
	events INTEGER,   -- computations and communications of simulated workers
	model_hash TEXT   -- of the last canonical model's floats: equal models, equal hashes
) STRICT;
CREATE INDEX run_config_hash ON run (config_hash);
CREATE INDEX run_status ON run (status);
CREATE INDEX run_workload ON run (workload, workers, strategy);
CREATE INDEX run_label ON run (label);

-- The options of the run's strategy and workload, as one would type them.
CREATE TABLE run_option (
	run_id INTEGER NOT NULL REFERENCES run (id) ON DELETE CASCADE,
	part TEXT NOT NULL CHECK (part IN ('strategy', 'workload')),
	name TEXT NOT NULL,
	value TEXT,
	PRIMARY KEY (run_id, part, name)
) STRICT, WITHOUT ROWID;

-- seconds is the race's; compute_s, comm_s and wait_s are means over the trainers, and what they
-- leave of seconds is "other". Regression tasks have NULL accuracy and their MSE as loss.
CREATE TABLE epoch (
	run_id INTEGER NOT NULL REFERENCES run (id) ON DELETE CASCADE,
	epoch INTEGER NOT NULL CHECK (epoch >= 0),
	seconds REAL,
	compute_s REAL,
	comm_s REAL,
	wait_s REAL,
	train_loss REAL,
	train_accuracy REAL,
	test_loss REAL,
	test_accuracy REAL,
	bytes_sent INTEGER,
	staleness_mean REAL, -- foreign updates that a push met; NULL = there were no pushes
	staleness_max INTEGER,
	pushes INTEGER,  -- that were applied; NULL = nobody pushed, or mvbench did not count them yet
	dropped INTEGER, -- beside these: came too late for their round, and were thrown away
	PRIMARY KEY (run_id, epoch)
) STRICT, WITHOUT ROWID;

-- The median epoch time of ended runs, kept because medians are dear: triggers below keep it true,
-- and run_median reads it. A run without a row here is computed when asked for.
CREATE TABLE epoch_median (
	run_id INTEGER PRIMARY KEY REFERENCES run (id) ON DELETE CASCADE,
	seconds REAL
) STRICT;

CREATE TABLE rank_epoch (
	run_id INTEGER NOT NULL,
	epoch INTEGER NOT NULL,
	rank INTEGER NOT NULL CHECK (rank >= 0),
	seconds REAL,
	compute_s REAL,
	comm_s REAL,
	wait_s REAL,
	bytes_sent INTEGER,
	staleness_mean REAL,
	staleness_max INTEGER,
	pushes INTEGER,
	dropped INTEGER,
	PRIMARY KEY (run_id, epoch, rank),
	FOREIGN KEY (run_id, epoch) REFERENCES epoch (run_id, epoch) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

-- The histogram of an epoch's staleness: how many of its pushes met so many foreign updates; what no
-- push met has no row. Below 128 staleness is exact. Above, it is the lower end of one of 16 equal
-- bins of each octave: 8 wide from 128 on, 16 wide from 256 on, and so forth; so the mean of these rows
-- can be a little below epoch.staleness_mean, which is exact. Several servers: it is the first one's.
CREATE TABLE staleness (
	run_id INTEGER NOT NULL,
	epoch INTEGER NOT NULL,
	staleness INTEGER NOT NULL,
	pushes INTEGER NOT NULL CHECK (pushes > 0),
	PRIMARY KEY (run_id, epoch, staleness),
	FOREIGN KEY (run_id, epoch) REFERENCES epoch (run_id, epoch) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

-- What --record keeps: the passes of workers over the shards of parameter-server tables. seq orders
-- those of one shard, over the whole run; nothing orders two shards.
CREATE TABLE arrival (
	run_id INTEGER NOT NULL REFERENCES run (id) ON DELETE CASCADE,
	table_id INTEGER NOT NULL, -- tables are numbered from 0, as the strategy made them
	shard INTEGER NOT NULL,
	seq INTEGER NOT NULL,
	worker INTEGER NOT NULL, -- its rank
	kind TEXT NOT NULL,      -- "push", "pull", "sync" (both), "elastic", "drop"; with backup workers
	                         -- in shared memory "round": it ended, as this worker found
	PRIMARY KEY (run_id, table_id, shard, seq)
) STRICT, WITHOUT ROWID;

-- The timeline, when it was asked for: what rank was in, from start_s on since the race began.
CREATE TABLE event (
	run_id INTEGER NOT NULL REFERENCES run (id) ON DELETE CASCADE,
	rank INTEGER NOT NULL CHECK (rank >= 0),
	seq INTEGER NOT NULL, -- in the order of that rank
	epoch INTEGER NOT NULL,
	step INTEGER NOT NULL,
	name TEXT NOT NULL, -- "allreduce", "compute", ...
	start_s REAL NOT NULL,
	duration_s REAL NOT NULL,
	peer INTEGER, -- the other rank; NULL = all or none
	bytes INTEGER,
	PRIMARY KEY (run_id, rank, seq)
) STRICT, WITHOUT ROWID;

-- A named baseline is a set of runs that later ones are held to.
CREATE TABLE baseline (
	name TEXT NOT NULL,
	run_id INTEGER NOT NULL REFERENCES run (id) ON DELETE CASCADE,
	made TEXT NOT NULL, -- ISO 8601, UTC
	PRIMARY KEY (name, run_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX baseline_run ON baseline (run_id);

-- What `mvbench calibrate` measured of a machine for the simulator: one row a measuring; the newest
-- that fits counts.
CREATE TABLE calibration (
	id INTEGER PRIMARY KEY AUTOINCREMENT,
	made TEXT NOT NULL, -- ISO 8601, UTC
	host TEXT, cpu TEXT, cores INTEGER, mpi TEXT, onednn TEXT, gpu TEXT,
	git_commit TEXT, git_dirty INTEGER CHECK (git_dirty IN (0, 1)),
	device TEXT NOT NULL,
	precision TEXT NOT NULL,
	threads INTEGER NOT NULL,
	workload TEXT NOT NULL,
	workload_options TEXT NOT NULL, -- as one would type them
	batch INTEGER NOT NULL,
	params INTEGER NOT NULL,
	workers INTEGER NOT NULL -- that computed at the same time
) STRICT;
CREATE INDEX calibration_of ON calibration (workload, batch, device, workers);

-- The figures of a calibration. name "step": x is 64 times the number of the visit (from 0) and the
-- number of a 64th of its steps, sorted from the shortest; value is the mean of that 64th [s]. Costs
-- (fill, copy, scale, axpy, sgd, gemm, read, push, sync, elastic, sum): x is an amount of work [floats;
-- gemm: flops], value its time [s]. "message": x is a length [bytes]; "allreduce", and what the
-- simulator made of it, "sim_allreduce": [floats].
CREATE TABLE calibration_point (
	calibration_id INTEGER NOT NULL REFERENCES calibration (id) ON DELETE CASCADE,
	name TEXT NOT NULL,
	x REAL NOT NULL,
	value REAL NOT NULL,
	PRIMARY KEY (calibration_id, name, x)
) STRICT, WITHOUT ROWID;

-- VIEWS

-- The median seconds of a run's epochs >= 1.
CREATE VIEW run_median AS
SELECT r.id AS run_id, ifnull(
	(SELECT seconds FROM epoch_median WHERE run_id = r.id),
	(SELECT avg(seconds) FROM (
		SELECT seconds, row_number() OVER (ORDER BY seconds) AS i, count(*) OVER () AS n
		FROM epoch WHERE run_id = r.id AND epoch >= 1 AND seconds IS NOT NULL)
		WHERE i IN ((n + 1) / 2, (n + 2) / 2))) AS seconds
FROM run AS r;

CREATE TRIGGER run_ended AFTER UPDATE OF status ON run
WHEN NEW.status NOT IN ('pending', 'running') BEGIN
	DELETE FROM epoch_median WHERE run_id = NEW.id;
	INSERT INTO epoch_median SELECT run_id, seconds FROM run_median WHERE run_id = NEW.id;
END;
CREATE TRIGGER epoch_inserted AFTER INSERT ON epoch BEGIN
	DELETE FROM epoch_median WHERE run_id = NEW.run_id;
END;
CREATE TRIGGER epoch_updated AFTER UPDATE ON epoch BEGIN
	DELETE FROM epoch_median WHERE run_id IN (OLD.run_id, NEW.run_id);
END;
CREATE TRIGGER epoch_deleted AFTER DELETE ON epoch BEGIN
	DELETE FROM epoch_median WHERE run_id = OLD.run_id;
END;

-- One row a run. Columns are scalar subqueries on purpose: a query pays for the columns and for the
-- runs that it takes, not for the whole table of epochs. Means and medians are over epochs >= 1.
--   config          a short name, the same for all seeds: "asgd 4w+1s X=3 cuda sim"; one worker
--                   without servers, X=1, cpu and mpi go without saying
--   config_key      a JSON object of every option but the seed: equal for runs that seeds repeat
--   compare_key     equal for runs whose epoch times may be compared: the same work on the same parts
--   *_fraction      the share of the race's seconds; what is missing to 1 is "other"
--   staleness_mean  the mean of the epochs' means
--   dropped_fraction  the share of all pushes that came too late and were thrown away
CREATE VIEW run_summary AS
SELECT
	r.id, r.label, r.status, r.reason, r.started, r.finished,
	r.workload, r.strategy, r.workers, r.servers, r.table_home, r.sync_every, r.barrier_every,
	r.batch, r.epochs, r.lr, r.lr_schedule, r.momentum, r.weight_decay, r.reduce, r.lr_scale,
	r.seed, r.device, r.precision, r.transport, r.platform, r.sim_platform, r.threads, r.straggle,
	r.target_accuracy, r.simulated_s, r.wall_s, r.events, r.model_hash,
	r.params, r.train_size, r.test_size, r.oversubscribed, r.host, r.config_hash,
	r.strategy
		|| iif(r.workers = 1 AND r.servers = 0, '', ' ' || r.workers || 'w')
		|| iif(r.servers > 0, '+' || r.servers || 's', '')
		|| iif(r.sync_every > 1, ' X=' || r.sync_every, '')
		|| iif(r.device IN ('cpu', 'auto'), '', ' ' || r.device)
		|| iif(r.precision = 'float32', '', ' ' || r.precision)
		|| iif(r.speed = '', '', ' speed ' || r.speed)
		|| iif(r.pause = '', '', ' pause ' || r.pause)
		|| iif(r.leave = '', '', ' leave ' || r.leave)
		|| iif(r.platform = 'mpi', '', ' ' || r.platform) || ifnull(':' || r.sim_platform, '') AS config,
	json_patch(
		json_object('workload', r.workload, 'strategy', r.strategy, 'workers', r.workers,
			'servers', r.servers, 'table_home', ifnull(r.table_home, ''),
			'record', r.record, 'sync_every', r.sync_every,
			'barrier_every', r.barrier_every, 'epochs', r.epochs, 'batch', r.batch,
			'lr', r.lr, 'lr_schedule', r.lr_schedule, 'momentum', r.momentum,
			'weight_decay', r.weight_decay, 'reduce', r.reduce, 'lr_scale', r.lr_scale,
			'device', r.device, 'precision', r.precision,
			'transport', ifnull(r.transport, ''), 'platform', r.platform, 'hostfile', r.hostfile,
			'data_dir', r.data_dir, 'threads', r.threads, 'straggle', r.straggle,
			'target_accuracy', r.target_accuracy, 'label', r.label,
			'speed', r.speed, 'pause', r.pause, 'leave', r.leave,
			'sim_platform', ifnull(r.sim_platform, ''), 'sim_train', ifnull(r.sim_train, ''),
			'sim_step_time', ifnull(r.sim_step_time, ''),
			'sim_update_time', ifnull(r.sim_update_time, ''),
			'sim_slow_link', ifnull(r.sim_slow_link, ''),
			'sim_replay', ifnull(r.sim_replay, '')),
		(SELECT json_group_object(
			iif(part = 'strategy', r.strategy, r.workload) || '.' || name, value)
			FROM run_option WHERE run_id = r.id)) AS config_key,
	json_array(r.workload, r.batch, r.platform || ifnull(':' || r.sim_platform, ''), r.device, r.precision, r.threads, r.params, r.train_size)
		AS compare_key,
	(SELECT max(epoch) FROM epoch WHERE run_id = r.id) AS epochs_done,
	(SELECT test_accuracy FROM epoch WHERE run_id = r.id ORDER BY epoch DESC LIMIT 1)
		AS test_accuracy,
	(SELECT max(test_accuracy) FROM epoch WHERE run_id = r.id) AS best_test_accuracy,
	(SELECT test_loss FROM epoch WHERE run_id = r.id ORDER BY epoch DESC LIMIT 1) AS test_loss,
	(SELECT train_loss FROM epoch WHERE run_id = r.id ORDER BY epoch DESC LIMIT 1) AS train_loss,
	(SELECT seconds FROM run_median WHERE run_id = r.id) AS epoch_seconds,
	r.train_size / (SELECT nullif(seconds, 0) FROM run_median WHERE run_id = r.id)
		AS samples_per_second,
	(SELECT sum(compute_s) / nullif(sum(seconds), 0) FROM epoch
		WHERE run_id = r.id AND epoch >= 1) AS compute_fraction,
	(SELECT sum(comm_s) / nullif(sum(seconds), 0) FROM epoch
		WHERE run_id = r.id AND epoch >= 1) AS comm_fraction,
	(SELECT sum(wait_s) / nullif(sum(seconds), 0) FROM epoch
		WHERE run_id = r.id AND epoch >= 1) AS wait_fraction,
	(SELECT avg(bytes_sent) FROM epoch WHERE run_id = r.id AND epoch >= 1) AS epoch_bytes,
	(SELECT avg(staleness_mean) FROM epoch WHERE run_id = r.id AND epoch >= 1)
		AS staleness_mean,
	(SELECT max(staleness_max) FROM epoch WHERE run_id = r.id AND epoch >= 1) AS staleness_max,
	(SELECT 1.0 * sum(dropped) / nullif(sum(pushes + dropped), 0) FROM epoch
		WHERE run_id = r.id AND epoch >= 1) AS dropped_fraction,
	(SELECT sum(seconds) FROM epoch WHERE run_id = r.id AND epoch >= 1) AS seconds_total
FROM run AS r;

-- One row a run with a target: the seconds of training up to the end of the first epoch whose test
-- accuracy reached it. NULL = not reached.
CREATE VIEW time_to_accuracy AS
SELECT
	s.id AS run_id, s.label, s.status, s.workload, s.strategy, s.workers, s.sync_every, s.seed,
	s.config, s.config_key, s.target_accuracy AS target,
	(SELECT min(epoch) FROM epoch
		WHERE run_id = s.id AND test_accuracy >= s.target_accuracy) AS epoch,
	(SELECT total(seconds) FROM epoch WHERE run_id = s.id AND epoch BETWEEN 1 AND
		(SELECT min(epoch) FROM epoch
			WHERE run_id = s.id AND test_accuracy >= s.target_accuracy)
		HAVING (SELECT min(epoch) FROM epoch WHERE run_id = s.id
			AND test_accuracy >= s.target_accuracy) IS NOT NULL) AS seconds
FROM run_summary AS s
WHERE s.target_accuracy > 0;

-- What one worker needs for an epoch: the median over the seeds of the finished runs with one worker
-- and this compare_key; the first run of a seed counts.
CREATE VIEW one_worker AS
WITH single AS MATERIALIZED (
	SELECT compare_key, epoch_seconds, min(id) -- the others are of the row with the min
	FROM run_summary
	WHERE status = 'done' AND workers = 1 AND epoch_seconds IS NOT NULL
	GROUP BY compare_key, seed),
ranked AS (
	SELECT compare_key, epoch_seconds, count(*) OVER (PARTITION BY compare_key) AS n,
		row_number() OVER (PARTITION BY compare_key ORDER BY epoch_seconds) AS i
	FROM single)
SELECT compare_key, avg(epoch_seconds) AS epoch_seconds, n
FROM ranked WHERE i IN ((n + 1) / 2, (n + 2) / 2)
GROUP BY compare_key;

-- One row a configuration with finished runs: n of them, the median of their epoch times, and how
-- many times faster that is than one worker. NULL = one worker was not measured.
CREATE VIEW speedup AS
WITH done AS MATERIALIZED (
	SELECT config_key, compare_key, config, workload, strategy, workers, servers, sync_every,
		batch, platform, device, epoch_seconds
	FROM run_summary
	WHERE status = 'done'),
ranked AS (
	SELECT *, row_number() OVER (PARTITION BY config_key ORDER BY epoch_seconds) AS i,
		count(*) OVER (PARTITION BY config_key) AS n
	FROM done WHERE epoch_seconds IS NOT NULL),
median AS MATERIALIZED (
	SELECT config_key, compare_key, config, workload, strategy, workers, servers, sync_every,
		batch, platform, device, avg(epoch_seconds) AS epoch_seconds, max(n) AS n
	FROM ranked WHERE i IN ((n + 1) / 2, (n + 2) / 2)
	GROUP BY config_key, compare_key)
SELECT m.config_key, m.config, m.workload, m.strategy, m.workers, m.servers, m.sync_every,
	m.batch, m.platform, m.device, m.n, m.epoch_seconds,
	o.n AS base_n, o.epoch_seconds AS base_epoch_seconds,
	o.epoch_seconds / nullif(m.epoch_seconds, 0) AS speedup
FROM median AS m LEFT JOIN one_worker AS o ON o.compare_key = m.compare_key;

-- One row a cell that was run both real and simulated: its newest finished simulation, and its
-- finished real runs on the machine of the newest of them. Real runs from before that simulation's
-- calibration count only where there are none from after it. A cell is every option, label and seed
-- included, but those of the platform; so what its tables lived in is equal too.
--   cell            a JSON object of those options; config and config_hash are of the real runs
--   n               real runs; real_* are medians over them, but for real_low and real_high
--   *_s             median seconds of an epoch; time_error is simulated / real - 1, loss_error as well
--   *_share         of the race's seconds: communication and waiting, which no worker can tell apart
--                   from inside; share_error is simulated - real; NULL where nobody is to talk to
--   staleness_distance  half the sum of |simulated - real| over the shares of pushes that met so many
--                   foreign updates, 0..1; NULL = one worker, or no pushes
CREATE VIEW validation AS
WITH done AS MATERIALIZED (
	SELECT s.id, s.label, s.platform = 'sim' AS simulated, s.host, s.started, s.config,
		s.config_hash, s.oversubscribed, s.workload, s.strategy, s.workers, s.servers,
		s.sync_every, s.batch, s.epochs, s.seed, s.epoch_seconds, s.test_loss,
		iif(s.workers + s.servers > 1, s.comm_fraction + s.wait_fraction, NULL) AS share,
		(SELECT json_group_object(key, value)
			FROM json_each(json_set(s.config_key, '$.seed', s.seed))
			WHERE key NOT GLOB 'sim_*' AND key NOT IN ('platform', 'hostfile', 'transport'))
			AS cell
	FROM run_summary AS s WHERE s.status = 'done' AND s.epoch_seconds > 0),
simulated AS MATERIALIZED (
	SELECT cell, epoch_seconds, share, test_loss, max(id) AS id -- the others are of the row with it
	FROM done WHERE simulated GROUP BY cell),
near AS MATERIALIZED (
	SELECT d.*, s.id AS simulated_id, ifnull(d.started >= c.made, 0) AS later,
		d.host IS first_value(d.host) OVER (PARTITION BY s.id ORDER BY d.id DESC) AS here
	FROM simulated AS s JOIN done AS d ON d.cell = s.cell AND NOT d.simulated
		JOIN run AS r ON r.id = s.id LEFT JOIN calibration AS c ON c.id = r.calibration_id),
real AS MATERIALIZED (
	SELECT * FROM (
		SELECT *, max(later) OVER (PARTITION BY simulated_id) AS some FROM near WHERE here)
	WHERE later = some),
figure AS (
	SELECT simulated_id, column1 AS name,
		CASE column1 WHEN 'seconds' THEN epoch_seconds WHEN 'share' THEN share ELSE test_loss END AS x
	FROM real CROSS JOIN (VALUES ('seconds'), ('share'), ('loss'))),
ranked AS (
	SELECT simulated_id, name, x, count(*) OVER (PARTITION BY simulated_id, name) AS n,
		row_number() OVER (PARTITION BY simulated_id, name ORDER BY x) AS i
	FROM figure WHERE x IS NOT NULL),
median AS MATERIALIZED (
	SELECT simulated_id, avg(x) FILTER (WHERE name = 'seconds') AS seconds,
		avg(x) FILTER (WHERE name = 'share') AS share,
		avg(x) FILTER (WHERE name = 'loss') AS loss
	FROM ranked WHERE i IN ((n + 1) / 2, (n + 2) / 2) GROUP BY simulated_id),
met AS (
	SELECT r.simulated_id, 0 AS simulated, h.staleness, h.pushes
	FROM real AS r CROSS JOIN staleness AS h ON h.run_id = r.id AND h.epoch >= 1
	WHERE r.workers > 1
	UNION ALL SELECT s.id, 1, h.staleness, h.pushes
	FROM simulated AS s CROSS JOIN staleness AS h ON h.run_id = s.id AND h.epoch >= 1),
pushed AS MATERIALIZED (
	SELECT simulated_id, simulated, 1.0 * sum(pushes) AS pushes FROM met GROUP BY 1, 2),
distance AS MATERIALIZED (
	SELECT simulated_id, sum(abs(share)) / 2 AS distance
	FROM (SELECT simulated_id, m.staleness,
			sum(iif(simulated, 1, -1) * m.pushes / p.pushes) AS share
		FROM met AS m JOIN pushed AS p USING (simulated_id, simulated)
		WHERE simulated_id IN (
			SELECT simulated_id FROM pushed GROUP BY simulated_id HAVING count(*) = 2)
		GROUP BY simulated_id, m.staleness)
	GROUP BY simulated_id)
SELECT s.id AS simulated_id, r.label, r.workload, r.strategy, r.workers, r.servers, r.sync_every,
	r.batch, r.epochs, r.seed, r.config, r.cell, r.config_hash,
	max(r.oversubscribed) AS oversubscribed, count(*) AS n,
	m.seconds AS real_s, min(r.epoch_seconds) AS real_low, max(r.epoch_seconds) AS real_high,
	s.epoch_seconds AS simulated_s, s.epoch_seconds / m.seconds - 1 AS time_error,
	m.share AS real_share, s.share AS simulated_share, s.share - m.share AS share_error,
	d.distance AS staleness_distance,
	m.loss AS real_loss, s.test_loss AS simulated_loss,
	s.test_loss / nullif(m.loss, 0) - 1 AS loss_error
FROM real AS r JOIN simulated AS s ON s.id = r.simulated_id
	JOIN median AS m USING (simulated_id) LEFT JOIN distance AS d USING (simulated_id)
GROUP BY s.id;
