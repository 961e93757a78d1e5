-- schema.sql - the results database, made in an empty file by results/store.c.
--
-- Tables hold what was measured. All arithmetic is in the views below the line "-- VIEWS", which
-- are made anew when an older file is migrated. Times are in seconds, sizes in bytes, accuracies and
-- fractions in 0..1. NULL = not known, or does not apply. Epoch 0 is the model before training.

PRAGMA application_id = 1836474990; -- "mvbn"
PRAGMA user_version = 6;

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
	trace INTEGER NOT NULL DEFAULT 0, -- steps of each epoch that table event is wanted of
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
	sim_replay INTEGER,   -- run whose recorded order was repeated; 0 = none, -N = run N of the
	                      -- database that it was imported from, which had lost it
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
	simulated_s REAL, -- virtual time of the whole simulation, evaluation included
	wall_s REAL,      -- that it took
	events INTEGER,   -- computations and communications of simulated workers
	model_hash TEXT,  -- of the last canonical model's floats: equal models, equal hashes
	events_lost INTEGER, -- beside those of table event, for which there was no room; NULL = no timeline
	origin TEXT,       -- these: NULL = recorded here; else the file that it was first imported from,
	origin_id INTEGER, -- its id there,
	imported TEXT      -- and when it came here: ISO 8601, UTC
) STRICT;
CREATE INDEX run_config_hash ON run (config_hash);
CREATE INDEX run_status ON run (status);
CREATE INDEX run_workload ON run (workload, workers, strategy);
CREATE INDEX run_label ON run (label);
CREATE INDEX run_alone ON run (status) WHERE workers = 1;

-- The options of the run's strategy and workload, as one would type them.
CREATE TABLE run_option (
	run_id INTEGER NOT NULL REFERENCES run (id) ON DELETE CASCADE,
	part TEXT NOT NULL CHECK (part IN ('strategy', 'workload')),
	name TEXT NOT NULL,
	value TEXT,
	PRIMARY KEY (run_id, part, name)
) STRICT, WITHOUT ROWID;

-- One epoch of a run. seconds is the segment's; compute_s, comm_s and wait_s are means over the trainers,
-- and what they leave of seconds is "other". Regression tasks have NULL accuracy and their MSE as loss.
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

-- What run_summary says of runs that have ended, kept because it is dear: triggers below keep it true,
-- and who next opens the file to write adds what is missing. A run without a row here is computed when
-- asked for.
CREATE TABLE run_kept (
	run_id INTEGER PRIMARY KEY REFERENCES run (id) ON DELETE CASCADE,
	epochs_done INTEGER,
	test_accuracy REAL,
	best_test_accuracy REAL,
	test_loss REAL,
	train_loss REAL,
	epoch_seconds REAL,
	compute_fraction REAL,
	comm_fraction REAL,
	wait_fraction REAL,
	epoch_bytes REAL,
	staleness_mean REAL,
	staleness_max INTEGER,
	dropped_fraction REAL,
	seconds_total REAL,
	target_epoch INTEGER, -- the first whose test accuracy reached target_accuracy; NULL = none did
	target_seconds REAL,  -- of training, up to its end
	config TEXT NOT NULL,
	compare_key TEXT NOT NULL,
	config_key TEXT NOT NULL
) STRICT;

-- The same of one rank in an epoch.
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

-- What --record keeps: the operations of workers on the shards of parameter-server tables. seq orders
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

-- The timeline, when it was asked for (--trace): what rank was in, and from when to when, since the
-- timeline began. Ranks from the run's workers on are its servers. One rank's events nest: what it did
-- inside another has that one's seq as parent, and lies in it. Names are those of view event_kind.
-- Virtual times of simulated workers; where a device computes on its own, the host's times.
CREATE TABLE event (
	run_id INTEGER NOT NULL REFERENCES run (id) ON DELETE CASCADE,
	rank INTEGER NOT NULL CHECK (rank >= 0),
	seq INTEGER NOT NULL, -- in the order of that rank
	epoch INTEGER NOT NULL,
	step INTEGER NOT NULL, -- of the epoch, from 1; 0 = between steps. A server's: that of the worker
	name TEXT NOT NULL,
	start_s REAL NOT NULL,
	duration_s REAL NOT NULL,
	parent INTEGER, -- NULL = none
	peer INTEGER,   -- the other rank; of a wait, the one whose coming ended it; NULL = all, or not known
	bytes INTEGER,  -- that this rank sent
	-- Of a push, its number; of a server's apply, that of the push. Where workers reach a table by
	-- themselves, its pushes are numbered in the order in which they began, and seen is the highest
	-- number that is in what a push or a pull brought back. 2^40 times the table's number is added.
	flow INTEGER,
	seen INTEGER,
	staleness INTEGER, -- of a push
	PRIMARY KEY (run_id, rank, seq)
) STRICT, WITHOUT ROWID;
CREATE INDEX event_flow ON event (run_id, flow) WHERE flow IS NOT NULL;
CREATE INDEX event_seen ON event (run_id, seen) WHERE seen IS NOT NULL;

-- A named baseline: what finished runs came to, for later ones to be held to (`mvbench check`). It
-- stands by itself: it outlives those runs, and travels as a text file.
CREATE TABLE baseline (
	name TEXT NOT NULL,
	cell TEXT NOT NULL,    -- config_hash with seed 0: equal for runs that differ in their seeds only
	seed INTEGER NOT NULL,
	made TEXT NOT NULL,    -- when it was saved: ISO 8601, UTC
	config TEXT NOT NULL,  -- the cell's short name
	options TEXT NOT NULL, -- a JSON object of the options that make the cell, as one would type them
	config_hash TEXT NOT NULL,
	params INTEGER,
	train_size INTEGER,
	test_size INTEGER,
	train_loss REAL, -- these: of the last epoch
	test_loss REAL,
	test_accuracy REAL,
	epoch_seconds REAL, -- the median
	simulated_s REAL,   -- these: of simulations
	calibration TEXT,   -- when and where it was made
	model_hash TEXT,
	started TEXT,
	host TEXT,
	cpu TEXT,
	gpu TEXT,
	mpi TEXT,
	onednn TEXT,
	cuda TEXT,
	git_commit TEXT,
	git_dirty INTEGER CHECK (git_dirty IN (0, 1)),
	run_id INTEGER REFERENCES run (id) ON DELETE SET NULL, -- NULL = it is not here
	PRIMARY KEY (name, cell, seed)
) STRICT, WITHOUT ROWID;
CREATE INDEX baseline_run ON baseline (run_id);

-- The runs that the newest check of each baseline wants, and has.
CREATE TABLE checked (
	name TEXT NOT NULL, -- of the baseline
	cell TEXT NOT NULL,
	seed INTEGER NOT NULL,
	run_id INTEGER REFERENCES run (id) ON DELETE SET NULL, -- NULL = not run yet
	program TEXT, -- a hash of the program that made that run; NULL = another than the checking one
	PRIMARY KEY (name, cell, seed)
) STRICT, WITHOUT ROWID;
CREATE INDEX checked_run ON checked (run_id);

-- What the newest check held to be a difference.
CREATE TABLE gate_limit (
	name TEXT PRIMARY KEY,       -- of the baseline: its check is what the views gate_* are about
	alpha REAL NOT NULL,         -- share of checks of unchanged code that may fail
	min_accuracy REAL NOT NULL,  -- 0..1
	min_loss REAL NOT NULL,      -- share of the loss
	better_fails INTEGER NOT NULL CHECK (better_fails IN (0, 1))
) STRICT, WITHOUT ROWID;

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

-- The figures of a calibration. name "step": x is 64 times the number of the repetition (from 0) and the
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

-- What is dear of a run: the columns of run_kept, in their order. They are scalar subqueries on
-- purpose: a query pays for the columns and for the runs that it takes, not for the whole table of
-- epochs. Means and medians are over epochs >= 1.
CREATE VIEW run_computed AS
SELECT
	r.id AS run_id,
	(SELECT max(epoch) FROM epoch WHERE run_id = r.id) AS epochs_done,
	(SELECT test_accuracy FROM epoch WHERE run_id = r.id ORDER BY epoch DESC LIMIT 1)
		AS test_accuracy,
	(SELECT max(test_accuracy) FROM epoch WHERE run_id = r.id) AS best_test_accuracy,
	(SELECT test_loss FROM epoch WHERE run_id = r.id ORDER BY epoch DESC LIMIT 1) AS test_loss,
	(SELECT train_loss FROM epoch WHERE run_id = r.id ORDER BY epoch DESC LIMIT 1) AS train_loss,
	(SELECT avg(seconds) FROM (
		SELECT seconds, row_number() OVER (ORDER BY seconds) AS i, count(*) OVER () AS n
		FROM epoch WHERE run_id = r.id AND epoch >= 1 AND seconds IS NOT NULL)
		WHERE i IN ((n + 1) / 2, (n + 2) / 2)) AS epoch_seconds,
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
	(SELECT sum(seconds) FROM epoch WHERE run_id = r.id AND epoch >= 1) AS seconds_total,
	(SELECT min(epoch) FROM epoch
		WHERE run_id = r.id AND r.target_accuracy > 0 AND test_accuracy >= r.target_accuracy)
		AS target_epoch,
	(SELECT total(seconds) FROM epoch WHERE run_id = r.id AND epoch BETWEEN 1 AND
		(SELECT min(epoch) FROM epoch
			WHERE run_id = r.id AND r.target_accuracy > 0 AND test_accuracy >= r.target_accuracy)
		HAVING (SELECT min(epoch) FROM epoch WHERE run_id = r.id AND r.target_accuracy > 0
			AND test_accuracy >= r.target_accuracy) IS NOT NULL) AS target_seconds,
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
	json_array(r.workload, r.batch, r.platform || ifnull(':' || r.sim_platform, ''), r.device,
		r.precision, r.threads, r.params, r.train_size, r.sim_step_time, r.sim_update_time)
		AS compare_key,
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
			FROM run_option WHERE run_id = r.id)) AS config_key
FROM run AS r;

CREATE TRIGGER run_changed AFTER UPDATE ON run BEGIN
	DELETE FROM run_kept WHERE run_id = OLD.id;
	INSERT INTO run_kept SELECT * FROM run_computed
	WHERE run_id = NEW.id AND NEW.status IN ('done', 'failed', 'diverged');
END;
CREATE TRIGGER run_option_inserted AFTER INSERT ON run_option BEGIN
	DELETE FROM run_kept WHERE run_id = NEW.run_id;
END;
CREATE TRIGGER run_option_updated AFTER UPDATE ON run_option BEGIN
	DELETE FROM run_kept WHERE run_id IN (OLD.run_id, NEW.run_id);
END;
CREATE TRIGGER run_option_deleted AFTER DELETE ON run_option BEGIN
	DELETE FROM run_kept WHERE run_id = OLD.run_id;
END;
CREATE TRIGGER epoch_inserted AFTER INSERT ON epoch BEGIN
	DELETE FROM run_kept WHERE run_id = NEW.run_id;
END;
CREATE TRIGGER epoch_updated AFTER UPDATE ON epoch BEGIN
	DELETE FROM run_kept WHERE run_id IN (OLD.run_id, NEW.run_id);
END;
CREATE TRIGGER epoch_deleted AFTER DELETE ON epoch BEGIN
	DELETE FROM run_kept WHERE run_id = OLD.run_id;
END;

-- One row a run.
--   config          a short name, the same for all seeds: "asgd 4w+1s X=3 cuda sim"; one worker
--                   without servers, X=1, cpu and mpi go without saying
--   config_key      a JSON object of every option but the seed: equal for runs that seeds repeat
--   compare_key     equal for runs whose epoch times may be compared: the same work on the same parts
--   *_fraction      the share of the segment's seconds; what is missing to 1 is "other"
--   staleness_mean  the mean of the epochs' means
--   dropped_fraction  the share of all pushes that came too late and were thrown away
CREATE VIEW run_summary AS
SELECT
	r.id, r.label, r.status, r.reason, r.started, r.finished,
	r.workload, r.strategy, r.workers, r.servers, r.table_home, r.sync_every, r.barrier_every,
	r.batch, r.epochs, r.lr, r.lr_schedule, r.momentum, r.weight_decay, r.reduce, r.lr_scale,
	r.seed, r.device, r.precision, r.transport, r.platform, r.sim_platform, r.threads, r.straggle,
	r.target_accuracy, r.simulated_s, r.wall_s, r.events, r.model_hash,
	r.params, r.train_size, r.test_size, r.oversubscribed, r.host, r.cpu, r.cores, r.gpu,
	r.config_hash,
	ifnull(k.config, (SELECT config FROM run_computed WHERE run_id = r.id)) AS config,
	ifnull(k.config_key, (SELECT config_key FROM run_computed WHERE run_id = r.id)) AS config_key,
	ifnull(k.compare_key, (SELECT compare_key FROM run_computed WHERE run_id = r.id))
		AS compare_key,
	iif(k.run_id, k.epochs_done, (SELECT epochs_done FROM run_computed WHERE run_id = r.id))
		AS epochs_done,
	iif(k.run_id, k.test_accuracy, (SELECT test_accuracy FROM run_computed WHERE run_id = r.id))
		AS test_accuracy,
	iif(k.run_id, k.best_test_accuracy, (SELECT best_test_accuracy FROM run_computed WHERE run_id = r.id))
		AS best_test_accuracy,
	iif(k.run_id, k.test_loss, (SELECT test_loss FROM run_computed WHERE run_id = r.id))
		AS test_loss,
	iif(k.run_id, k.train_loss, (SELECT train_loss FROM run_computed WHERE run_id = r.id))
		AS train_loss,
	iif(k.run_id, k.epoch_seconds, (SELECT epoch_seconds FROM run_computed WHERE run_id = r.id))
		AS epoch_seconds,
	r.train_size / nullif(iif(k.run_id, k.epoch_seconds,
		(SELECT epoch_seconds FROM run_computed WHERE run_id = r.id)), 0) AS samples_per_second,
	iif(k.run_id, k.compute_fraction, (SELECT compute_fraction FROM run_computed WHERE run_id = r.id))
		AS compute_fraction,
	iif(k.run_id, k.comm_fraction, (SELECT comm_fraction FROM run_computed WHERE run_id = r.id))
		AS comm_fraction,
	iif(k.run_id, k.wait_fraction, (SELECT wait_fraction FROM run_computed WHERE run_id = r.id))
		AS wait_fraction,
	iif(k.run_id, k.epoch_bytes, (SELECT epoch_bytes FROM run_computed WHERE run_id = r.id))
		AS epoch_bytes,
	iif(k.run_id, k.staleness_mean, (SELECT staleness_mean FROM run_computed WHERE run_id = r.id))
		AS staleness_mean,
	iif(k.run_id, k.staleness_max, (SELECT staleness_max FROM run_computed WHERE run_id = r.id))
		AS staleness_max,
	iif(k.run_id, k.dropped_fraction, (SELECT dropped_fraction FROM run_computed WHERE run_id = r.id))
		AS dropped_fraction,
	iif(k.run_id, k.seconds_total, (SELECT seconds_total FROM run_computed WHERE run_id = r.id))
		AS seconds_total,
	iif(k.run_id, k.target_epoch, (SELECT target_epoch FROM run_computed WHERE run_id = r.id))
		AS target_epoch,
	iif(k.run_id, k.target_seconds, (SELECT target_seconds FROM run_computed WHERE run_id = r.id))
		AS target_seconds
FROM run AS r LEFT JOIN run_kept AS k ON k.run_id = r.id;

-- One row a run with a target: the seconds of training up to the end of the first epoch whose test
-- accuracy reached it. NULL = not reached.
CREATE VIEW time_to_accuracy AS
SELECT
	id AS run_id, label, status, workload, strategy, workers, sync_every, seed, config, config_key,
	target_accuracy AS target, target_epoch AS epoch, target_seconds AS seconds
FROM run_summary
WHERE target_accuracy > 0;

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
	SELECT *, row_number() OVER (PARTITION BY config_key, compare_key ORDER BY epoch_seconds) AS i,
		count(*) OVER (PARTITION BY config_key, compare_key) AS n
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

-- STATISTICS
--
-- Medians over repeated seeds come with a 95 % bootstrap interval, called NAME_low and NAME_high. No
-- random numbers are drawn: resampling n values with replacement has an exact distribution (Maritz and
-- Jarrett, JASA 73, 1978; Efron, The Jackknife, the Bootstrap and Other Resampling Plans, 1982, 10.2).
-- The i-th of the resampled values is at most the k-th of the values as often as n draws hit the first
-- k at least i times: P = sum over j >= i of C(n,j) (k/n)^j (1-k/n)^(n-j). So the ends of the interval
-- are order statistics whose ranks depend on n only. Where n is even the median is the mean of the
-- middle two, m and m+1: the low end is that of the m-th alone, the high end that of the (m+1)-th, and
-- what lies between them contains the interval of the mean.
--   low, high  ranks, counted from 1; NULL = one value has no interval. low is the least k with
--              P >= 0.025, and high its mirror image. Above n = 100: by the normal approximation, at
--              most a rank off, and as far as any configuration here has runs.
--   minority   of n differences, so many may have the rarer sign for a two-sided sign test to reject "no
--              difference" at 5 %; NULL = n < 6, where 2 / 2^n is more than that
-- With few values an interval covers less than it says: from min to max up to n = 6, it holds the true
-- median in all but 2^(1-n) of all cases. Whether two sides differ is therefore asked of exact tests:
-- see comparison.
CREATE VIEW bootstrap_rank AS
WITH RECURSIVE big(n) AS (
	SELECT 101 UNION ALL SELECT n + 1 FROM big WHERE n < (
		SELECT max(n) FROM (SELECT count(*) AS n FROM run GROUP BY workload, workers, strategy))),
rank(n, low, minority) AS (
	SELECT 1, NULL, -1
	UNION ALL SELECT l.key + 2, l.value, m.value
	FROM json_each('[1,1,1,1,1,2,2,2,2,3,3,4,4,4,4,5,5,6,6,7,7,8,7,8,8,9,9,10,10,11,11,12,12,12,12,13,13,
		14,14,15,15,16,16,17,17,17,17,18,18,19,19,20,20,21,21,22,22,23,23,23,23,24,24,25,25,26,26,27,27,
		28,28,29,29,30,30,31,30,31,31,32,32,33,33,34,34,35,35,36,36,37,37,38,38,39,39,39,39,40,40]') AS l
	JOIN json_each('[-1,-1,-1,-1,0,0,0,1,1,1,2,2,2,3,3,4,4,4,5,5,5,6,6,7,7,7,8,8,9,9,9,10,10,11,11,12,12,
		12,13,13,14,14,15,15,15,16,16,17,17,18,18,18,19,19,20,20,21,21,21,22,22,23,23,24,24,25,25,25,26,
		26,27,27,28,28,28,29,29,30,30,31,31,32,32,32,33,33,34,34,35,35,36,36,37,37,37,38,38,39,39]') AS m
		ON m.key = l.key
	UNION ALL SELECT n, (n + 1) / 2 + CAST(floor(0.5 - 0.98 * sqrt(n)) AS INTEGER),
		CAST(floor((n - 1) / 2.0 - 0.98 * sqrt(n + 1)) AS INTEGER)
	FROM big)
SELECT n, low, n + 1 - low AS high, nullif(minority, -1) AS minority FROM rank;

-- The runs that statistics are made of: those that ended by themselves. One that diverged has no figures,
-- but it did not reach its target.
-- A seed that is run again is no new sample: of its runs (imported twice, run again by mvbench check) the
-- first that did not diverge counts. Real times, and what depends on them, depend on no seed: there, all
-- count. A figure that does not count is NULL.
--   number             of the configuration
--   repeat             1 = the run of its seed that counts
--   seconds_to_target  of training; infinite where the target was missed: later than all that reached it
CREATE VIEW finished AS
WITH ended AS (
	SELECT id, dense_rank() OVER (ORDER BY config_key) AS number, status, workload, config, config_key,
		compare_key, strategy, workers, servers, sync_every, seed, train_size, target_accuracy,
		platform, test_accuracy, test_loss, epoch_seconds, comm_fraction, wait_fraction,
		staleness_mean, staleness_max, dropped_fraction, target_seconds,
		row_number() OVER (PARTITION BY config_key, seed ORDER BY status = 'diverged', id) AS repeat
	FROM run_summary WHERE status IN ('done', 'diverged')),
judged AS (
	SELECT *, status = 'done' AND repeat = 1 AS sample,
		status = 'done' AND (repeat = 1 OR platform <> 'sim') AS timed
	FROM ended)
SELECT id, number, status, workload, config, config_key, compare_key, strategy, workers, servers, sync_every,
	seed, repeat, train_size, target_accuracy,
	iif(sample, test_accuracy, NULL) AS test_accuracy,
	iif(sample, test_loss, NULL) AS test_loss,
	iif(timed, epoch_seconds, NULL) AS epoch_seconds,
	iif(timed, comm_fraction, NULL) AS comm_fraction,
	iif(timed, wait_fraction, NULL) AS wait_fraction,
	iif(timed, staleness_mean, NULL) AS staleness_mean,
	iif(timed, staleness_max, NULL) AS staleness_max,
	iif(timed, dropped_fraction, NULL) AS dropped_fraction,
	iif(target_accuracy > 0 AND (repeat = 1 OR platform <> 'sim'), ifnull(target_seconds, 9e999), NULL)
		AS seconds_to_target
FROM judged;

-- One row a configuration: medians over its finished runs, with their intervals.
--   n, seeds, diverged  runs that finished well, their different seeds; and runs that diverged
--   reached, missed     runs with a target (those that diverged too) that did and did not reach it; of a
--                       simulated seed that is repeated one counts
--   time_to_accuracy    [s] NULL = not reached: half of these runs or more missed the target, and a miss
--                       counts as infinitely late. _high is NULL too where that end lies among the misses
CREATE VIEW configuration_summary AS
WITH done AS MATERIALIZED (SELECT * FROM finished), -- each mention of a view is compiled anew: few are made
rank AS MATERIALIZED (SELECT * FROM bootstrap_rank),
figure AS (
	SELECT d.number, m.column1 AS name, CASE m.column1 WHEN 'accuracy' THEN d.test_accuracy
		WHEN 'loss' THEN d.test_loss WHEN 'seconds' THEN d.epoch_seconds
		WHEN 'target' THEN d.seconds_to_target WHEN 'comm' THEN d.comm_fraction
		WHEN 'wait' THEN d.wait_fraction WHEN 'stale' THEN d.staleness_mean
		ELSE d.dropped_fraction END AS x
	FROM done AS d CROSS JOIN (VALUES ('accuracy'), ('loss'), ('seconds'), ('target'), ('comm'), ('wait'),
		('stale'), ('dropped')) AS m),
ranked AS (
	SELECT number, name, x, row_number() OVER w AS i,
		count(*) OVER (w ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS n
	FROM figure WHERE x IS NOT NULL WINDOW w AS (PARTITION BY number, name ORDER BY x)),
median AS (
	SELECT r.number, r.name, avg(r.x) FILTER (WHERE r.i IN ((r.n + 1) / 2, (r.n + 2) / 2)) AS mid,
		max(r.x) FILTER (WHERE r.i = b.low) AS low, max(r.x) FILTER (WHERE r.i = b.high) AS high
	FROM ranked AS r CROSS JOIN rank AS b ON b.n = r.n GROUP BY r.number, r.name),
-- one row a configuration again: of each name there is one figure, or none
wide AS MATERIALIZED (
	SELECT number,
		max(mid) FILTER (WHERE name = 'accuracy') AS test_accuracy,
		max(low) FILTER (WHERE name = 'accuracy') AS test_accuracy_low,
		max(high) FILTER (WHERE name = 'accuracy') AS test_accuracy_high,
		max(mid) FILTER (WHERE name = 'loss') AS test_loss,
		max(low) FILTER (WHERE name = 'loss') AS test_loss_low,
		max(high) FILTER (WHERE name = 'loss') AS test_loss_high,
		max(mid) FILTER (WHERE name = 'seconds') AS epoch_seconds,
		max(low) FILTER (WHERE name = 'seconds') AS epoch_seconds_low,
		max(high) FILTER (WHERE name = 'seconds') AS epoch_seconds_high,
		nullif(max(mid) FILTER (WHERE name = 'target'), 9e999) AS time_to_accuracy,
		nullif(max(low) FILTER (WHERE name = 'target'), 9e999) AS time_to_accuracy_low,
		nullif(max(high) FILTER (WHERE name = 'target'), 9e999) AS time_to_accuracy_high,
		max(mid) FILTER (WHERE name = 'comm') AS comm_fraction,
		max(low) FILTER (WHERE name = 'comm') AS comm_fraction_low,
		max(high) FILTER (WHERE name = 'comm') AS comm_fraction_high,
		max(mid) FILTER (WHERE name = 'wait') AS wait_fraction,
		max(low) FILTER (WHERE name = 'wait') AS wait_fraction_low,
		max(high) FILTER (WHERE name = 'wait') AS wait_fraction_high,
		max(mid) FILTER (WHERE name = 'stale') AS staleness_mean,
		max(low) FILTER (WHERE name = 'stale') AS staleness_mean_low,
		max(high) FILTER (WHERE name = 'stale') AS staleness_mean_high,
		max(mid) FILTER (WHERE name = 'dropped') AS dropped_fraction,
		max(low) FILTER (WHERE name = 'dropped') AS dropped_fraction_low,
		max(high) FILTER (WHERE name = 'dropped') AS dropped_fraction_high
	FROM median GROUP BY number),
grouped AS MATERIALIZED (
	SELECT number, workload, config, config_key, max(compare_key) AS compare_key, strategy, workers,
		servers, sync_every, max(train_size) AS train_size, target_accuracy,
		count(*) FILTER (WHERE status = 'done') AS n,
		count(DISTINCT seed) FILTER (WHERE status = 'done') AS seeds,
		count(*) FILTER (WHERE status = 'diverged') AS diverged,
		count(*) FILTER (WHERE seconds_to_target < 9e999) AS reached,
		count(*) FILTER (WHERE seconds_to_target = 9e999) AS missed,
		min(test_accuracy) AS test_accuracy_min, max(test_accuracy) AS test_accuracy_max,
		max(staleness_max) AS staleness_max
	FROM done GROUP BY number)
SELECT g.number, g.workload, g.config, g.config_key, g.compare_key, g.strategy, g.workers, g.servers,
	g.sync_every, g.n, g.seeds, g.diverged,
	w.test_accuracy, w.test_accuracy_low, w.test_accuracy_high, g.test_accuracy_min,
	g.test_accuracy_max, w.test_loss, w.test_loss_low, w.test_loss_high,
	w.epoch_seconds, w.epoch_seconds_low, w.epoch_seconds_high,
	g.train_size / nullif(w.epoch_seconds, 0) AS samples_per_second,
	g.target_accuracy, g.reached, g.missed,
	w.time_to_accuracy, w.time_to_accuracy_low, w.time_to_accuracy_high,
	w.comm_fraction, w.comm_fraction_low, w.comm_fraction_high,
	w.wait_fraction, w.wait_fraction_low, w.wait_fraction_high,
	w.staleness_mean, w.staleness_mean_low, w.staleness_mean_high, g.staleness_max,
	w.dropped_fraction, w.dropped_fraction_low, w.dropped_fraction_high
FROM grouped AS g LEFT JOIN wide AS w USING (number);

-- Which configurations are compared, by their numbers, and in what: all of one workload in accuracy and
-- loss; in seconds an epoch those of equal work, and in time to accuracy those with the same target too.
CREATE VIEW compared AS
WITH grouped AS MATERIALIZED (
	SELECT number, workload, max(compare_key) AS compare_key, target_accuracy FROM finished
	GROUP BY number)
SELECT a.number, b.number AS versus_number, m.column1 AS name
FROM grouped AS a JOIN grouped AS b ON b.workload = a.workload AND b.number <> a.number
	CROSS JOIN (VALUES ('test_accuracy'), ('test_loss'), ('epoch_seconds'), ('time_to_accuracy')) AS m
WHERE CASE m.column1 WHEN 'epoch_seconds' THEN a.compare_key = b.compare_key
	WHEN 'time_to_accuracy' THEN a.compare_key = b.compare_key AND a.target_accuracy > 0
		AND a.target_accuracy = b.target_accuracy ELSE 1 END;

-- Two configurations, held against each other: one row for each row of compared that both have figures for.
-- All are held against all, which takes hours where there are thousands: mvbench table asks for fewer.
--   Both sides are taken seed by seed. Where they share two seeds or more, the differences of the pairs
--   count; else those of everyone on one side to everyone on the other. Where all repeats of a seed count
--   (see finished), the i-th of one side is paired with the i-th of the other.
--   n, versus_n   values on the two sides
--   pairs         that share a seed; 0 or 1 = the sides are taken as unpaired
--   difference    the median of the differences, config - versus. Both missed the target: 0; only one: infinite,
--                 and NULL here
--   difference_low, _high  its 95 % interval: of pairs, the bootstrap's, as above; of unpaired sides, from the
--                 ranks of the differences of all to all (Moses; Hollander and Wolfe, Nonparametric
--                 Statistical Methods, 1973, 4.3). NULL = too few values, or infinite
--   enough        1 = with so many values, some outcome is significant: 6 pairs (2 / 2^6 = 0.031), or
--                 4 and 4 values, 3 and 5, 2 and 9
--   significant   1 = a two-sided test at 5 % tells them apart, and the interval leaves 0 out. From six
--                 pairs on, the exact sign test. Of fewer, no exact test of pairs could: then, and unpaired,
--                 it is the rank-sum test (Wilcoxon; Mann and Whitney), by its normal approximation with
--                 the correction for continuity, which errs on the careful side for such few values. For pairs
--                 it is more careful still, as what a seed does to both sides does not cancel.
CREATE VIEW comparison AS
WITH value AS MATERIALIZED (
	SELECT number, name, seed, repeat, x, count(*) OVER (PARTITION BY number, name) AS n
	FROM (SELECT f.number, f.seed, f.repeat, m.column1 AS name, CASE m.column1
			WHEN 'test_accuracy' THEN f.test_accuracy WHEN 'test_loss' THEN f.test_loss
			WHEN 'epoch_seconds' THEN f.epoch_seconds ELSE f.seconds_to_target END AS x
		FROM finished AS f CROSS JOIN (VALUES ('test_accuracy'), ('test_loss'), ('epoch_seconds'),
			('time_to_accuracy')) AS m)
	WHERE x IS NOT NULL),
rank AS MATERIALIZED (SELECT * FROM bootstrap_rank),
-- CROSS JOIN keeps the order of loops: the planner cannot know how few rows these tables have
difference AS (
	SELECT c.number, c.versus_number, c.name, a.n, b.n AS versus_n,
		a.seed = b.seed AND a.repeat = b.repeat AS paired, iif(a.x = b.x, 0.0, a.x - b.x) AS d
	FROM compared AS c CROSS JOIN value AS a ON a.number = c.number AND a.name = c.name
		CROSS JOIN value AS b ON b.number = c.versus_number AND b.name = c.name),
counted AS (
	SELECT *, sum(paired) OVER w AS pairs, sum(paired AND d < 0) OVER w AS less,
		sum(paired AND d > 0) OVER w AS more, total(d < 0) OVER w + total(d = 0) OVER w / 2 AS wins,
		n * versus_n / 2.0 AS half, 1.96 * sqrt(n * versus_n * (n + versus_n + 1) / 12.0) AS spread
	FROM difference WINDOW w AS (PARTITION BY number, versus_number, name)),
-- m differences are ranked, and the ends of the interval are the low-th from either side
ranked AS (
	SELECT c.*, row_number() OVER (PARTITION BY number, versus_number, name ORDER BY d) AS i,
		iif(c.pairs >= 2, c.pairs, c.n * c.versus_n) AS m,
		iif(c.pairs >= 2, r.low, CAST(max(0, floor(half + 0.5 - spread)) AS INTEGER)) AS low
	FROM counted AS c LEFT JOIN rank AS r ON r.n = c.pairs WHERE c.paired >= (c.pairs >= 2)),
-- all but the first three are the same in all rows of a group
judged AS MATERIALIZED (
	SELECT number, versus_number, name,
		avg(d) FILTER (WHERE i IN ((m + 1) / 2, (m + 2) / 2)) AS difference,
		max(d) FILTER (WHERE i = low) AS low, max(d) FILTER (WHERE i = m + 1 - low) AS high,
		max(n) AS n, max(versus_n) AS versus_n, max(pairs) AS pairs, max(less) AS less,
		max(more) AS more, max(wins) AS wins, max(half) AS half, max(spread) AS spread
	FROM ranked GROUP BY number, versus_number, name),
named AS MATERIALIZED (SELECT number, workload, config, config_key FROM finished GROUP BY number)
SELECT a.workload, j.name, j.number, a.config, a.config_key, j.versus_number, b.config AS versus,
	b.config_key AS versus_key, j.n, j.versus_n, iif(j.pairs >= 2, j.pairs, 0) AS pairs,
	iif(abs(j.difference) < 9e999, j.difference, NULL) AS difference,
	iif(abs(j.low) < 9e999, j.low, NULL) AS difference_low,
	iif(abs(j.high) < 9e999, j.high, NULL) AS difference_high,
	j.pairs >= 6 OR j.half - 0.5 >= j.spread AS enough,
	ifnull((j.low > 0 OR j.high < 0) AND iif(j.pairs >= 6, min(j.less, j.more) <= s.minority,
		abs(j.wins - j.half) - 0.5 >= j.spread), 0) AS significant
FROM judged AS j CROSS JOIN named AS a ON a.number = j.number
	CROSS JOIN named AS b ON b.number = j.versus_number LEFT JOIN rank AS s ON s.n = j.less + j.more;

-- One row a cell that was run both real and simulated: its newest finished simulation, and its
-- finished real runs on the machine of the newest of them. Real runs from before that simulation's
-- calibration count only where there are none from after it. A cell is every option, label and seed
-- included, but those of the platform; so what its tables lived in is equal too.
--   cell            a JSON object of those options; config and config_hash are of the real runs
--   n               real runs; real_* are medians over them, but for real_low and real_high
--   *_s             median seconds of an epoch; time_error is simulated / real - 1, loss_error as well
--   *_share         of the segment's seconds: communication and waiting, which no worker can tell apart
--                   from inside; share_error is simulated - real; NULL where nobody is to talk to
--   staleness_distance  half the sum of |simulated - real| over the shares of pushes that met so many
--                   foreign updates, 0..1; NULL = one worker, or no pushes
CREATE VIEW validation AS
WITH kept AS ( -- what run_summary has of finished runs, in a form that is compiled sooner
	SELECT * FROM run_kept
	UNION ALL SELECT * FROM run_computed WHERE run_id IN (SELECT id FROM run WHERE status = 'done')
		AND run_id NOT IN (SELECT run_id FROM run_kept)),
done AS MATERIALIZED (
	SELECT s.id, s.label, s.platform = 'sim' AS simulated, s.host, s.started, k.config,
		s.config_hash, s.oversubscribed, s.workload, s.strategy, s.workers, s.servers,
		s.sync_every, s.batch, s.epochs, s.seed, k.epoch_seconds, k.test_loss,
		iif(s.workers + s.servers > 1, k.comm_fraction + k.wait_fraction, NULL) AS share,
		(SELECT json_group_object(key, value)
			FROM json_each(json_set(k.config_key, '$.seed', s.seed))
			WHERE key NOT GLOB 'sim_*' AND key NOT IN ('platform', 'hostfile', 'transport'))
			AS cell
	FROM run AS s JOIN kept AS k ON k.run_id = s.id
	WHERE s.status = 'done' AND k.epoch_seconds > 0),
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

-- GATE: what the newest `mvbench check` decided by. One row a cell, seed and figure of its baseline and
-- of its runs, whichever has them. base and now grow as things get worse: accuracies have
-- their sign turned. quantum is the least amount by which a figure can differ.
CREATE VIEW gate_figure AS
WITH pair AS (
	SELECT name, cell, seed FROM gate_limit JOIN baseline USING (name)
	UNION SELECT name, cell, seed FROM gate_limit JOIN checked USING (name)),
found AS (
	SELECT p.name, p.cell, p.seed, -b.test_accuracy AS base_a, b.test_loss AS base_l,
		b.train_loss AS base_t, -e.test_accuracy AS now_a, e.test_loss AS now_l,
		e.train_loss AS now_t, 1.0 / nullif(ifnull(b.test_size, r.test_size), 0) AS quantum
	FROM pair AS p LEFT JOIN baseline AS b USING (name, cell, seed)
		LEFT JOIN checked AS c USING (name, cell, seed)
		LEFT JOIN run AS r ON r.id = c.run_id AND r.status = 'done'
		LEFT JOIN epoch AS e ON e.run_id = r.id
			AND e.epoch = (SELECT max(epoch) FROM epoch WHERE run_id = r.id))
SELECT name, cell, seed, 'test accuracy' AS metric, base_a AS base, now_a AS now,
	ifnull(quantum, 0) AS quantum
FROM found WHERE ifnull(base_a, now_a) IS NOT NULL
UNION ALL SELECT name, cell, seed, 'test loss', base_l, now_l, 0
FROM found WHERE ifnull(base_l, now_l) IS NOT NULL
UNION ALL SELECT name, cell, seed, 'train loss', base_t, now_t, 0
FROM found WHERE ifnull(base_t, now_t) IS NOT NULL;

-- The 0.975 quantile of Student's t; above 30 degrees of freedom see gate_test.
CREATE VIEW gate_quantile AS
SELECT column1 AS df, column2 AS t FROM (VALUES
	(1, 12.706204736), (2, 4.3026527297), (3, 3.1824463053), (4, 2.7764451052), (5, 2.5705818356),
	(6, 2.4469118511), (7, 2.3646242516), (8, 2.3060041352), (9, 2.2621571628), (10, 2.228138852),
	(11, 2.2009851601), (12, 2.1788128297), (13, 2.1603686565), (14, 2.1447866879), (15, 2.1314495456),
	(16, 2.1199052992), (17, 2.1098155778), (18, 2.1009220402), (19, 2.0930240544), (20, 2.0859634473),
	(21, 2.0796138447), (22, 2.0738730679), (23, 2.0686576104), (24, 2.0638985616), (25, 2.0595385528),
	(26, 2.0555294386), (27, 2.0518305165), (28, 2.0484071418), (29, 2.0452296421), (30, 2.0422724563));

-- One row a cell and figure with enough runs on both sides: did it get worse? By seed where every
-- seed of the check is in the baseline (paired; Student's t of the n differences), else Welch's t,
-- its degrees of freedom rounded down, at most 1000.
--   worse           mean of now minus that of base, positive = worse; low..high is its 95 % interval
--   unit            1 for accuracies, the baseline for losses: change = worse / unit, and so its interval
--   identical       every difference is 0: no test is made
--   p, p_better     of so large a difference or a larger one, to the worse (better), by chance alone
--   p_holm, ...     the same, corrected for all tests of the baseline (Holm)
--   verdict         by gate_limit: worse, better, identical, ok
-- Accuracies come in steps of one test row: rounding adds quantum^2 / 12 to the variance of each side,
-- so that equal differences of few seeds do not pass for certainty. Elsewhere, equal differences are
-- certain: p is 0 or 1.
-- P(t) by its finite series for whole degrees of freedom: Abramowitz and Stegun, 26.7.3 and 26.7.4.
CREATE VIEW gate_test AS
WITH mean AS (
	SELECT *, count(base) OVER w AS n_base, count(now) OVER w AS n_now,
		count(now - base) OVER w AS n_pair, avg(base) OVER w AS mean_base,
		avg(now) OVER w AS mean_now, avg(now - base) OVER w AS mean_pair,
		avg(iif(now IS NULL, NULL, base)) OVER w AS mean_paired
	FROM gate_figure WINDOW w AS (PARTITION BY name, cell, metric)),
spread AS (
	SELECT name, cell, metric, n_base, n_now, n_pair, mean_base, mean_now, mean_pair,
		mean_paired, n_pair = n_now AS paired, max(quantum) AS quantum,
		max(now - base <> 0) AS differs,
		total((now - base - mean_pair) * (now - base - mean_pair)) AS ss_pair,
		total((base - mean_base) * (base - mean_base)) AS ss_base,
		total((now - mean_now) * (now - mean_now)) AS ss_now
	FROM mean GROUP BY name, cell, metric),
error AS (
	SELECT *, iif(paired, mean_pair, mean_now - mean_base) AS worse,
		iif(paired, mean_paired, mean_base) AS base,
		iif(paired, mean_paired + mean_pair, mean_now) AS now,
		iif(paired, (ss_pair / (n_pair - 1) + quantum * quantum / 6) / n_pair,
			(ss_base / (n_base - 1) + quantum * quantum / 12) / n_base) AS v1,
		iif(paired, 0, (ss_now / (n_now - 1) + quantum * quantum / 12) / n_now) AS v2
	FROM spread WHERE iif(paired, n_pair, min(n_base, n_now)) >= 2),
student AS MATERIALIZED (
	SELECT row_number() OVER () AS id, *, paired AND NOT differs AS identical,
		sqrt(v1 + v2) AS se, worse / nullif(sqrt(v1 + v2), 0) AS t,
		CASE WHEN paired THEN n_pair - 1
			WHEN v1 + v2 <= 0 THEN n_base + n_now - 2
			ELSE min(1000, max(1, CAST((v1 + v2) * (v1 + v2) / (v1 * v1 / (n_base - 1)
				+ v2 * v2 / (n_now - 1)) AS INTEGER))) END AS df
	FROM error),
series AS ( -- total: of the series for this t
	SELECT *, (WITH term (k, x, term, total) AS (
			SELECT 2 + df % 2, df / (df + t * t), 1.0, 1.0
			UNION ALL SELECT k + 2, x, term * x * (k - 1) / k, total + term * x * (k - 1) / k
			FROM term WHERE k <= df - 2)
		SELECT max(total) FROM term) AS total
	FROM student),
central AS ( -- c: P(|T| < t), with the sign of t; NULL = t is infinite
	SELECT *, CASE WHEN df = 1 THEN 2 * atan(t) / pi()
		WHEN df % 2 = 0 THEN t / sqrt(df + t * t) * total
		ELSE 2 / pi() * (atan(t / sqrt(df)) + t * sqrt(df) / (df + t * t) * total) END AS c
	FROM series),
tail AS (
	SELECT s.*, iif(identical, 1.0, max(0, ifnull((1 - c) / 2, worse <= 0))) AS p,
		iif(identical, 1.0, max(0, ifnull((1 + c) / 2, worse >= 0))) AS p_better,
		iif(identical, 0, se) * ifnull(q.t, 1.959963985 + 2.372271 / s.df
			+ 2.822499 / (s.df * s.df) + 2.556 / (s.df * s.df * s.df)) AS half
	FROM central AS s LEFT JOIN gate_quantile AS q ON q.df = s.df),
holm AS (
	SELECT *, count(*) OVER (PARTITION BY name, identical) + 1 AS m,
		row_number() OVER (PARTITION BY name, identical ORDER BY p) AS i,
		row_number() OVER (PARTITION BY name, identical ORDER BY p_better) AS j
	FROM tail),
test AS (
	SELECT name, cell, metric, n_base, n_now, paired, identical, df, base, now, worse,
		worse - half AS low, worse + half AS high,
		iif(metric = 'test accuracy', 1, abs(base)) AS unit, t, p, p_better,
		iif(identical, 1.0, max(min(1.0, (m - i) * p))
			OVER (PARTITION BY name, identical ORDER BY i)) AS p_holm,
		iif(identical, 1.0, max(min(1.0, (m - j) * p_better))
			OVER (PARTITION BY name, identical ORDER BY j)) AS p_better_holm
	FROM holm)
SELECT t.*, worse / unit AS change, low / unit AS change_low, high / unit AS change_high,
	CASE WHEN identical THEN 'identical'
		WHEN p_holm < alpha AND worse >= least * unit THEN 'worse'
		WHEN p_better_holm < alpha AND -worse >= least * unit THEN 'better'
		ELSE 'ok' END AS verdict
FROM (SELECT test.*, alpha, iif(metric = 'test accuracy', min_accuracy, min_loss) AS least
	FROM test JOIN gate_limit USING (name)) AS t;

-- One row a cell of a baseline that was checked: its verdict.
--   failed, diverged, missing   a run of it is so; a run is missing that was not made
--   worse, better   a figure is: p_holm below alpha, and beyond the minimum
--   time            its simulated time is not exactly what it was
--   identical       every figure of every run is bit for bit what it was
--   untested        there are too few runs for a test
--   ok              none of these
-- and, with the figures of its worst test (gate_test), where chance is the p_holm of the verdict:
--   configuration   its workload and short name; where several cells have that, with what they differ in
--   wanted, runs    runs that the check wants, and has; of these failed and diverged, and a reason
--   comparable      simulations: 1 = calibrated as then; NULL = none. These take exactly as long:
--   differs         1 = virtual time is not what it was; longer: by how much of it an epoch is
CREATE VIEW gate_cell AS
WITH named AS MATERIALIZED (
	SELECT name, cell, min(options->>'workload' || ' ' || config) AS config,
		min(options) AS options
	FROM gate_limit JOIN baseline USING (name) GROUP BY name, cell),
setting AS MATERIALIZED (
	SELECT n.name, n.config, n.cell, e.key, e.atom, twins
	FROM (SELECT *, count(*) OVER (PARTITION BY name, config) AS twins FROM named) AS n,
		json_each(n.options) AS e
	WHERE n.twins > 1),
suffix AS MATERIALIZED (
	SELECT name, cell, group_concat(key || '=' || atom, ' ') AS text
	FROM setting JOIN (SELECT name, config, key FROM setting GROUP BY name, config, key
		HAVING count(DISTINCT atom) > 1 OR count(*) < max(twins)) USING (name, config, key)
	GROUP BY name, cell),
clock AS MATERIALIZED (
	SELECT name, cell, min(comparable) AS comparable, max(comparable AND differs) AS differs,
		avg(longer) AS longer
	FROM (SELECT name, cell,
			b.calibration IS (k.made || ifnull(' ' || k.host, '')) AS comparable,
			r.simulated_s IS NOT b.simulated_s OR r.seconds IS NOT b.epoch_seconds
				AS differs,
			r.seconds / nullif(b.epoch_seconds, 0) - 1 AS longer
		FROM (SELECT c.*, r.calibration_id, r.simulated_s,
				(SELECT epoch_seconds FROM run_summary WHERE id = r.id) AS seconds
			FROM gate_limit JOIN checked AS c USING (name) JOIN run AS r ON r.id = c.run_id
			WHERE r.platform = 'sim' AND r.status = 'done') AS r
			JOIN baseline AS b USING (name, cell, seed)
			LEFT JOIN calibration AS k ON k.id = r.calibration_id)
	GROUP BY name, cell),
made AS MATERIALIZED (
	SELECT c.name, c.cell, count(*) AS wanted, count(r.id) AS runs,
		count(*) FILTER (WHERE r.status = 'failed') AS failed,
		count(*) FILTER (WHERE r.status = 'diverged') AS diverged, min(r.reason) AS reason
	FROM gate_limit JOIN checked AS c USING (name) LEFT JOIN run AS r ON r.id = c.run_id
	GROUP BY c.name, c.cell),
worst AS MATERIALIZED ( -- of the tests of a cell: the other columns are of the row with the min
	SELECT *, iif(verdict = 'better', p_better_holm, p_holm) AS chance,
		total(identical) = count(*) AS all_identical,
		min(CASE verdict WHEN 'worse' THEN p WHEN 'better' THEN 2 + p_better ELSE 4 + p END)
	FROM gate_test GROUP BY name, cell),
judged AS (
	SELECT m.*, n.config || ifnull(' ' || x.text, '') AS configuration,
		t.comparable, t.differs, t.longer,
		CASE WHEN m.failed THEN 'failed' WHEN m.diverged THEN 'diverged'
			WHEN m.runs < m.wanted THEN 'missing'
			WHEN w.verdict = 'worse' THEN 'worse' WHEN t.differs THEN 'time'
			WHEN w.verdict = 'better' THEN 'better' WHEN w.all_identical THEN 'identical'
			WHEN w.cell IS NOT NULL THEN 'ok' WHEN t.comparable THEN 'identical'
			ELSE 'untested' END AS verdict,
		w.metric, w.n_base, w.n_now, w.paired, w.chance, w.base, w.now,
		w.change, w.change_low, w.change_high
	FROM made AS m JOIN named AS n USING (name, cell) LEFT JOIN suffix AS x USING (name, cell)
		LEFT JOIN clock AS t USING (name, cell)
		LEFT JOIN worst AS w USING (name, cell))
SELECT j.*,
	verdict NOT IN ('ok', 'better', 'identical') OR (verdict = 'better' AND l.better_fails) AS fails,
	instr('failed diverged missing worse time untested better ok identical', verdict) AS rank,
	CASE verdict
		WHEN 'failed' THEN failed || ' of ' || wanted || ' runs failed' || ifnull(': ' || reason, '')
		WHEN 'diverged' THEN diverged || ' of ' || wanted || ' runs diverged'
			|| ifnull(': ' || reason, '')
		WHEN 'missing' THEN (wanted - runs) || ' of ' || wanted || ' runs are not there'
		ELSE CASE WHEN differs AND abs(longer) > 0 THEN printf('simulated time is %.3g %% %s',
				abs(100 * longer), iif(longer > 0, 'longer', 'shorter'))
			WHEN differs THEN 'other simulated times'
			WHEN comparable = 0 THEN 'calibrated anew: simulated times cannot be compared'
			WHEN verdict = 'untested' THEN 'too few runs for a test'
			ELSE '' END
		END AS note
FROM judged AS j JOIN gate_limit AS l USING (name);

-- The same as people read it: figures rounded, accuracies in percent, changes with the sign of the
-- figure and not of its badness.
CREATE VIEW gate_line AS
SELECT name, rank, chance, fails, iif(fails, upper(verdict), verdict) AS verdict, configuration,
	runs, ifnull(n_now, runs) AS n, metric,
	CASE WHEN metric = 'test accuracy' THEN printf('%.2f %%', -100 * base)
		WHEN metric NOT NULL THEN printf('%.4g', base) END AS base,
	CASE WHEN metric = 'test accuracy' THEN printf('%.2f %%', -100 * now)
		WHEN metric NOT NULL THEN printf('%.4g', now) END AS now,
	CASE WHEN metric = 'test accuracy' THEN printf('%+.2f', -100 * change)
		WHEN metric NOT NULL THEN printf('%+.2f %%', 100 * change) END AS change,
	CASE WHEN metric = 'test accuracy'
		THEN printf('%+.2f .. %+.2f', -100 * change_high, -100 * change_low)
		WHEN metric NOT NULL THEN printf('%+.2f .. %+.2f %%', 100 * change_low, 100 * change_high)
		END AS interval,
	CASE WHEN chance < 0.0001 THEN '<0.0001' WHEN chance NOT NULL THEN printf('%.4f', chance) END
		AS p, note
FROM gate_cell;

-- ---- The timeline ----

-- What a rank can be in. Of a worker's step, compute, delay and update are parts, and what the strategy
-- communicates lies in update (or in compute: layers that are sent while others are computed).
-- cname: the nearest of Chrome's names for colours.
CREATE VIEW event_kind AS
SELECT column1 AS place, column2 AS name, column3 AS colour, column4 AS cname, column5 AS about
FROM (VALUES
	(1, 'step', '#BBBBBB', 'grey', 'one step; what none of its parts takes is small work between them'),
	(2, 'compute', '#0072B2', 'thread_state_running', 'the mini-batch is brought in and its gradient computed'),
	(3, 'delay', '#8FBBD9', 'thread_state_iowait', 'what --straggle and --speed add to that'),
	(4, 'update', '#009E73', 'good', 'the strategy''s own work: the local optimiser'),
	(5, 'pause', '#E0E0E0', 'generic_work', 'stands still (--pause)'),
	(6, 'push', '#E69F00', 'olive', 'sends to a parameter server, and mostly gets the parameters back'),
	(7, 'pull', '#F5C76E', 'yellow', 'gets the parameters; on a server: sends them'),
	(8, 'pack', '#B08040', 'rail_load', 'makes what is sent: differences, rows, copies from a GPU and back'),
	(9, 'send', '#CC79A7', 'rail_animation', 'sends to one rank, or begins a reduction that goes on by itself'),
	(10, 'recv', '#DFA8C6', 'rail_response', 'waits for what another rank sends, and receives it'),
	(11, 'exchange', '#B5548A', 'rail_idle', 'sends to one rank and receives from it'),
	(12, 'allreduce', '#AA4499', 'cq_build_running', 'the sum over all workers'),
	(13, 'allgather', '#882255', 'cq_build_attempt_runnig', 'all workers'' parts'),
	(14, 'broadcast', '#DDA0DD', 'cq_build_passed', 'one worker''s values for all'),
	(15, 'barrier', '#F0A08C', 'bad', 'stands until the last worker has come'),
	(16, 'apply', '#56B4E9', 'startup', 'a push goes into the table; without servers the worker does it itself'),
	(17, 'wait', '#D55E00', 'terrible', 'waits for others: a lock, a round, a lead, or the last one of a sum'),
	(18, 'evaluate', '#F0E442', 'thread_state_unknown', 'the model is evaluated, off the clock'));

-- Where pushes go: to the server that applies them; where workers reach the table by themselves, to the
-- first other worker's push or pull that brings them back. from_s <= to_s, and each lies in its event.
CREATE VIEW event_arrow AS
WITH reader AS (
	SELECT p.run_id, p.rank, p.seq, p.start_s, p.flow,
		(SELECT r.seen FROM event AS r WHERE r.run_id = p.run_id AND r.seen >= p.flow
			AND r.rank <> p.rank AND r.seen >> 40 = p.flow >> 40 ORDER BY r.seen LIMIT 1) AS seen
	FROM event AS p WHERE p.flow IS NOT NULL AND p.name = 'push'),
pair AS (
	SELECT p.run_id, p.rank AS from_rank, p.seq AS from_seq, p.start_s AS from_s,
		r.rank AS to_rank, r.seq AS to_seq, r.start_s, r.epoch, r.step
	FROM reader AS p CROSS JOIN event AS r INDEXED BY event_seen
		ON r.run_id = p.run_id AND r.seen = p.seen AND r.rank <> p.rank
	UNION ALL
	SELECT p.run_id, p.rank, p.seq, p.start_s, a.rank, a.seq, a.start_s, a.epoch, a.step
	FROM event AS a CROSS JOIN event AS p INDEXED BY event_flow
		ON p.run_id = a.run_id AND p.flow = a.flow AND p.name = 'push'
	WHERE a.flow IS NOT NULL AND a.name = 'apply')
SELECT run_id, from_rank, from_seq, from_s, to_rank, to_seq, max(start_s, from_s) AS to_s, epoch, step
FROM pair;

-- Waits, one row each, and whom it was for: the rank whose coming ended it; in a sum over all and at a
-- barrier the one that came last. NULL = not known, as at a lock. Times of sums are told apart by their
-- number within the step, so parts of the workers that sum by themselves (hybrid) are mixed up.
CREATE VIEW event_wait AS
WITH collective AS NOT MATERIALIZED (
	SELECT run_id, rank, seq, name, epoch, step, duration_s,
		first_value(rank) OVER (PARTITION BY run_id, epoch, step, name, nth
			ORDER BY start_s DESC, rank) AS last
	FROM (SELECT *, row_number() OVER (PARTITION BY run_id, epoch, step, rank, name ORDER BY seq) AS nth
		FROM event WHERE name IN ('allreduce', 'allgather', 'broadcast', 'barrier')))
SELECT run_id, epoch, step, rank, duration_s AS waited_s, last AS for_rank
FROM collective WHERE name = 'barrier' AND last <> rank
UNION ALL
SELECT w.run_id, w.epoch, w.step, w.rank, w.duration_s, ifnull(w.peer, m.last)
FROM event AS w LEFT JOIN collective AS m
	ON m.run_id = w.run_id AND m.rank = w.rank AND m.seq = w.parent
WHERE w.name = 'wait';

-- One row a run, epoch >= 1 and worker: how long the others waited for it, in waited_s of their of_s.
--   source  "events": their waiting of the whole epoch, each one's shared out among whom it waited for in
--           the steps that were kept; at barriers as it was. "epochs": there is no timeline, or nobody
--           waited in it; then the others' waiting beyond that of the worker that was busy longest is for
--           that one
--   busy_s  its seconds but for waiting
CREATE VIEW blame_epoch AS
WITH told AS MATERIALIZED (
	SELECT run_id, epoch, rank, for_rank, step > 0 AS inside, sum(waited_s) AS s
	FROM event_wait WHERE epoch >= 1 GROUP BY run_id, epoch, rank, for_rank, step > 0),
stood AS MATERIALIZED (
	SELECT run_id, epoch, rank, sum(duration_s) AS s
	FROM event WHERE name = 'barrier' GROUP BY run_id, epoch, rank),
part AS (
	SELECT t.run_id, t.epoch, t.rank, t.for_rank, iif(t.inside, max(r.wait_s - ifnull(b.s, 0), 0) * t.s
		/ sum(t.s) OVER (PARTITION BY t.run_id, t.epoch, t.rank, t.inside), t.s) AS s
	FROM told AS t JOIN rank_epoch AS r USING (run_id, epoch, rank)
		LEFT JOIN stood AS b USING (run_id, epoch, rank)),
waited AS MATERIALIZED (
	SELECT run_id, epoch, for_rank AS rank, sum(s) AS s
	FROM part WHERE for_rank <> rank GROUP BY run_id, epoch, for_rank),
busy AS (
	SELECT *, seconds - wait_s AS busy_s,
		rank = first_value(rank) OVER (PARTITION BY run_id, epoch ORDER BY seconds - wait_s DESC, rank)
			AS busiest,
		sum(seconds) OVER (PARTITION BY run_id, epoch) - seconds AS of_s
	FROM rank_epoch WHERE epoch >= 1)
SELECT b.run_id, b.epoch, b.rank, iif(e.known, 'events', 'epochs') AS source, b.busy_s, b.of_s,
	CASE WHEN e.known THEN ifnull(w.s, 0)
		WHEN b.busiest THEN (SELECT total(max(o.wait_s - b.wait_s, 0)) FROM rank_epoch AS o
			WHERE o.run_id = b.run_id AND o.epoch = b.epoch)
		ELSE 0 END AS waited_s
FROM busy AS b LEFT JOIN waited AS w USING (run_id, epoch, rank)
	LEFT JOIN (SELECT DISTINCT run_id, 1 AS known FROM waited) AS e USING (run_id);

-- One row a run and worker, of the steps that were kept: how many, and their median and 99th percentile.
CREATE VIEW step_time AS
SELECT run_id, rank, n, avg(s) FILTER (WHERE i IN ((n + 1) / 2, (n + 2) / 2)) AS median_s,
	max(s) FILTER (WHERE i = (99 * n + 99) / 100) AS p99_s
FROM (SELECT run_id, rank, duration_s AS s, row_number() OVER w AS i,
		count(*) OVER (w ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS n
	FROM event WHERE name = 'step' WINDOW w AS (PARTITION BY run_id, rank ORDER BY duration_s))
GROUP BY run_id, rank;

-- What a run's ranks spent their time on: of the steps that were kept, where there is a timeline, else of
-- all epochs.
CREATE VIEW time_share AS
WITH part AS (
	SELECT run_id, rank, name, max(sum(s), 0) AS s FROM (
		SELECT run_id, rank, name, duration_s AS s FROM event WHERE step > 0
		UNION ALL -- what lies inside is not its own
		SELECT i.run_id, i.rank, e.name, -i.duration_s FROM event AS i JOIN event AS e
			ON e.run_id = i.run_id AND e.rank = i.rank AND e.seq = i.parent
		WHERE i.step > 0)
	GROUP BY run_id, rank, name
	UNION ALL
	SELECT run_id, rank, name, sum(s) FROM (
		SELECT run_id, rank, column1 AS name, CASE column1 WHEN 'compute' THEN compute_s
			WHEN 'communicate' THEN comm_s WHEN 'wait' THEN wait_s
			ELSE max(seconds - compute_s - comm_s - wait_s, 0) END AS s
		FROM rank_epoch CROSS JOIN (VALUES ('compute'), ('communicate'), ('wait'), ('other'))
		WHERE epoch >= 1 AND run_id NOT IN (SELECT run_id FROM event))
	GROUP BY run_id, rank, name)
SELECT run_id, rank, name, s, s / nullif(sum(s) OVER (PARTITION BY run_id, rank), 0) AS share FROM part;
