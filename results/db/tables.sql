-- tables.sql - the tables of the results database: measurements. Views do all arithmetic (views.sql,
-- statistics.sql, study.sql, gate.sql, timeline.sql). Opening an older file to write makes its views
-- again, and the tables and columns that it lacks; other changes are in migrations/. A later column
-- therefore has a line of its own. Times are in seconds, sizes in bytes, accuracies and fractions in
-- 0..1. NULL = not known, or does not apply. Epoch 0 is the model before training.

-- One run. The columns from workload to label are the core options of `mvbench run`, with '_' for '-'
-- and '.', as view option_info lists them. device, deal, table_home and transport are the values that
-- were used, once the run has begun (NULL = the strategy has no tables, or sent no vectors of GPUs).
-- sim_* are NULL if the workers were real. sim_replay is -N for run N of the database from which it
-- was imported, which had lost that run. The other columns are measured, or say where the run was
-- made.
CREATE TABLE run (
	id INTEGER PRIMARY KEY AUTOINCREMENT,
	status TEXT NOT NULL CHECK (status IN ('pending', 'running', 'done', 'failed', 'diverged')),
	reason TEXT,               -- why it failed or diverged, a sentence
	started TEXT,              -- or when it was last resumed: ISO 8601, UTC
	finished TEXT,             -- of a killed run: its last heartbeat
	config_hash TEXT NOT NULL, -- the identity of a cell, seed included
	-- OPTIONS: a column each, from runtime/config/run_options.def
	params INTEGER, -- trainable parameters of the whole model
	train_size INTEGER,
	test_size INTEGER,
	targets INTEGER NOT NULL DEFAULT 1, -- answers for a row of the test set, which accuracy counts one by one
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
	process TEXT, -- of that pid: 'BOOT PID-NAMESPACE TIME-NAMESPACE START'; NULL = not known
	hosts TEXT,  -- the machines of a real run, sorted: 'a,b'; host is rank 0's
	-- These: NULL = on one machine. Runs on the same machines have the same network name if
	-- their links are equally fast and measure alike: within a factor of 1.5 in bandwidth, and
	-- of 4 in latency above 1 ms.
	network TEXT,
	network_speed REAL,     -- of the slowest link, from its driver [bit/s]; NULL = not known
	network_latency REAL,   -- these: measured when the run began, one way [s], of the slowest link,
	network_bandwidth REAL, -- and [bytes/s]
	launcher TEXT,     -- 'mpirun', 'mpirun, Slurm job 12'; NULL = one process
	mpi_settings TEXT, -- of Open MPI, by the user or by mvbench: 'btl_tcp_flags=1 osc=^ucx'
	heartbeat TEXT,    -- when it was last seen running, every 30 s: ISO 8601, UTC
	calibration_id INTEGER REFERENCES calibration (id) ON DELETE SET NULL, -- of a simulation
	-- These three: a resumed run also has the cost of its earlier processes.
	simulated_s REAL, -- virtual time of the whole simulation, evaluation included
	wall_s REAL,      -- real time of the simulation
	events INTEGER,   -- computations and communications of simulated workers
	model_hash TEXT,  -- of the last canonical model's floats: equal models, equal hashes
	events_lost INTEGER, -- events that did not fit into the buffer; NULL = no timeline
	sweep_round INTEGER, -- of the sweep that made it, from 1, and the seed that shuffled it; NULL =
	sweep_seed INTEGER,  -- in no sweep, or in its file's order
	checkpoint TEXT,     -- the name of the run in its checkpoints (--save); NULL = it makes none
	resumed INTEGER,     -- how often it was resumed from one; NULL = never
	origin TEXT,       -- these: NULL = recorded here; otherwise the file of its first import,
	origin_id INTEGER, -- its id there,
	imported TEXT      -- and when it came here: ISO 8601, UTC
) STRICT;
CREATE INDEX run_config_hash ON run (config_hash);
CREATE INDEX run_status ON run (status);
CREATE INDEX run_workload ON run (workload, workers, strategy);
CREATE INDEX run_label ON run (label);
CREATE INDEX run_alone ON run (status) WHERE workers = 1;

-- The options of the run's strategy, workload, optimizer and codec, as users type them.
CREATE TABLE run_option (
	run_id INTEGER NOT NULL REFERENCES run (id) ON DELETE CASCADE,
	part TEXT NOT NULL, -- 'strategy', 'workload', 'optimizer', 'codec'
	name TEXT NOT NULL,
	value TEXT,
	PRIMARY KEY (run_id, part, name)
) STRICT, WITHOUT ROWID;

-- The text of plug-ins that users gave as files, each once, by the hash that runs record as option `source`. It is to
-- be read: mvbench compiles only files that a user names.
CREATE TABLE source (
	hash TEXT NOT NULL,
	place INTEGER NOT NULL, -- 0: the plug-in; then the files that it includes
	file TEXT NOT NULL,     -- its name, without folders
	text TEXT NOT NULL,
	PRIMARY KEY (hash, place)
) STRICT, WITHOUT ROWID;

-- How interrupted runs were resumed from their checkpoints (--save).
CREATE TABLE resumption (
	run_id INTEGER NOT NULL REFERENCES run (id) ON DELETE CASCADE,
	number INTEGER NOT NULL CHECK (number >= 1), -- of the run's resumptions
	epoch INTEGER NOT NULL CHECK (epoch >= 0),   -- after which it was resumed; later ones were deleted
	began TEXT NOT NULL,   -- start of the part before, and
	started TEXT NOT NULL, -- of this one: ISO 8601, UTC
	PRIMARY KEY (run_id, number)
) STRICT, WITHOUT ROWID;

-- The ranks of a real run, workers before servers, and where each was.
CREATE TABLE rank (
	run_id INTEGER NOT NULL REFERENCES run (id) ON DELETE CASCADE,
	rank INTEGER NOT NULL CHECK (rank >= 0),
	role TEXT NOT NULL CHECK (role IN ('worker', 'server')),
	host TEXT NOT NULL,
	slot INTEGER NOT NULL, -- on its host, from 0
	cpu TEXT,
	cores INTEGER NOT NULL, -- that it was allowed to use
	address TEXT,           -- IPv4, of its first network; NULL = there is none
	git_commit TEXT,
	libraries TEXT,
	load REAL, -- average of its host's last minute, when the run began; NULL = not known
	mhz REAL,  -- of its host's first core, at that time
	PRIMARY KEY (run_id, rank)
) STRICT, WITHOUT ROWID;

-- One epoch of a run. seconds is the time of its segment; compute_s, comm_s and wait_s are means over
-- the workers, and the rest of seconds is "other". running_* are of each worker's mini-batches with its
-- own model, before its step on each. train_* and test_* are of the model that is evaluated after the
-- epoch, on the whole test set and on 5,000 rows of the training set (all, if there are fewer), the
-- same in all runs; validation_* on the rows that --validation holds out of it. Regression tasks have
-- NULL accuracy and their MSE as loss.
CREATE TABLE epoch (
	run_id INTEGER NOT NULL REFERENCES run (id) ON DELETE CASCADE,
	epoch INTEGER NOT NULL CHECK (epoch >= 0),
	seconds REAL,
	compute_s REAL,
	comm_s REAL,
	wait_s REAL,
	running_loss REAL,
	running_accuracy REAL,
	train_loss REAL,
	train_accuracy REAL,
	validation_loss REAL, -- NULL = nothing is held out (--validation)
	validation_accuracy REAL,
	test_loss REAL,
	test_accuracy REAL,
	bytes_sent INTEGER,
	staleness_mean REAL, -- NULL = there were no pushes
	staleness_max INTEGER,
	pushes INTEGER,  -- that were applied; NULL = no pushes
	dropped INTEGER, -- in addition: came too late for their round, and were dropped
	-- Consensus distance: how far workers' models w_i were from their mean, sqrt(mean of
	-- |w_i - mean|^2). Each model is taken right before its worker's last synchronisation of the
	-- epoch; without one, at the end. 0 = all are equal by definition; NULL = no barrier ended
	-- the epoch, or there were no floats.
	consensus REAL,
	-- These: NULL = simulated, or unknown to the system. Means over the workers,
	user_s REAL,
	system_s REAL,
	run_delay_s REAL,    -- the largest of one worker: ready to run, while others ran on its cores
	preemptions INTEGER, -- sum of involuntary context switches
	steal_s REAL,        -- the largest of one worker: the hypervisor used its cores
	share REAL NOT NULL DEFAULT 1, -- of a whole epoch's steps; below 1 = the last epoch of --steps or --tokens
	peak_bytes INTEGER, -- the most that one worker sent in a step; NULL = before version 20
	PRIMARY KEY (run_id, epoch)
) STRICT, WITHOUT ROWID;

-- Values that the strategy reported for an epoch (worker_report), by its own names: the mean over all
-- reports of all workers. Also metrics() of a Python model: the mean over the test rows, each a report.
CREATE TABLE epoch_value (
	run_id INTEGER NOT NULL,
	epoch INTEGER NOT NULL,
	name TEXT NOT NULL,
	value REAL,
	reports INTEGER NOT NULL CHECK (reports > 0), -- how often
	PRIMARY KEY (run_id, epoch, name),
	FOREIGN KEY (run_id, epoch) REFERENCES epoch (run_id, epoch) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

-- The evaluations of --eval-every: the model between two ends of epochs. View curve has both.
CREATE TABLE evaluation (
	run_id INTEGER NOT NULL REFERENCES run (id) ON DELETE CASCADE,
	step INTEGER NOT NULL, -- steps of the run before it,
	epochs REAL NOT NULL,  -- the same in epochs,
	seconds REAL,          -- and in seconds of training
	train_loss REAL,
	train_accuracy REAL,
	validation_loss REAL, -- NULL = nothing is held out (--validation)
	validation_accuracy REAL,
	test_loss REAL,
	test_accuracy REAL,
	PRIMARY KEY (run_id, step)
) STRICT, WITHOUT ROWID;

-- Figures of run_summary for runs that have ended, kept because they are slow to compute. Triggers
-- below delete rows that are no longer right; the next process that opens the file to write adds
-- missing ones. The figures of a run without a row here are computed by each query.
CREATE TABLE run_kept (
	run_id INTEGER PRIMARY KEY REFERENCES run (id) ON DELETE CASCADE,
	epochs_done INTEGER,
	test_accuracy REAL,
	best_test_accuracy REAL,
	test_loss REAL,
	train_loss REAL,
	validation_loss REAL,
	validation_accuracy REAL,
	running_loss REAL,
	epoch_seconds REAL,
	quiet_epoch_seconds REAL,
	cores_share REAL,
	compute_fraction REAL,
	comm_fraction REAL,
	wait_fraction REAL,
	epoch_bytes REAL,
	peak_bytes INTEGER,
	staleness_mean REAL,
	staleness_max INTEGER,
	dropped_fraction REAL,
	seconds_total REAL,
	target_epoch INTEGER, -- in which the target was reached for good; NULL = not reached
	target_seconds REAL,  -- of training until then
	config TEXT NOT NULL,
	compare_key TEXT NOT NULL,
	config_key TEXT NOT NULL
) STRICT;

-- The figures of one rank in an epoch, as in table epoch.
CREATE TABLE rank_epoch (
	run_id INTEGER NOT NULL,
	epoch INTEGER NOT NULL,
	rank INTEGER NOT NULL CHECK (rank >= 0),
	-- FIGURES: a column each, from runtime/train/rows.h
	staleness_mean REAL,
	staleness_max INTEGER,
	peak_bytes INTEGER,
	PRIMARY KEY (run_id, epoch, rank),
	FOREIGN KEY (run_id, epoch) REFERENCES epoch (run_id, epoch) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

-- The histogram of an epoch's staleness: how many of its pushes had each staleness; a staleness without
-- pushes has no row. Below 128 staleness is exact. Above, it is the lower end of one of 16 equal bins
-- of each octave: 8 wide from 128 on, 16 wide from 256 on, and so forth. The mean of these rows can
-- therefore be a little below epoch.staleness_mean, which is exact. With several servers, it is that
-- of the first.
CREATE TABLE staleness (
	run_id INTEGER NOT NULL,
	epoch INTEGER NOT NULL,
	staleness INTEGER NOT NULL,
	pushes INTEGER NOT NULL CHECK (pushes > 0),
	PRIMARY KEY (run_id, epoch, staleness),
	FOREIGN KEY (run_id, epoch) REFERENCES epoch (run_id, epoch) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

-- The rows of each class that a worker trains on in every epoch, with --split=fixed, dirichlet or
-- dirichlet_classes. Of workers that share a model the first has the row. Simulations without data
-- have none.
CREATE TABLE shard (
	run_id INTEGER NOT NULL REFERENCES run (id) ON DELETE CASCADE,
	worker INTEGER NOT NULL CHECK (worker >= 0), -- its rank
	class INTEGER NOT NULL,                      -- -1 = the data have no classes
	rows INTEGER NOT NULL CHECK (rows >= 0),
	PRIMARY KEY (run_id, worker, class)
) STRICT, WITHOUT ROWID;

-- The recording of --record: the operations of workers on the shards of parameter-server tables. seq
-- is their order on one shard, over the whole run; there is no order between two shards.
CREATE TABLE arrival (
	run_id INTEGER NOT NULL REFERENCES run (id) ON DELETE CASCADE,
	table_id INTEGER NOT NULL, -- tables are numbered from 0, as the strategy made them
	shard INTEGER NOT NULL,
	seq INTEGER NOT NULL,
	worker INTEGER NOT NULL, -- its rank
	kind TEXT NOT NULL,      -- "push", "pull", "sync" (both), "elastic", "drop"; with backup workers
	                         -- in shared memory "round": this worker found that it had ended
	PRIMARY KEY (run_id, table_id, shard, seq)
) STRICT, WITHOUT ROWID;

-- The timeline (--trace): the events of each rank, with their times since the timeline began. Ranks
-- from the run's number of workers on are its servers. Events of a rank nest: an event inside another
-- has that one's seq as parent. View event_kind explains the names. Times of simulated workers are
-- virtual; of a device that computes asynchronously, they are those of its host.
CREATE TABLE event (
	run_id INTEGER NOT NULL REFERENCES run (id) ON DELETE CASCADE,
	rank INTEGER NOT NULL CHECK (rank >= 0),
	seq INTEGER NOT NULL, -- in the order of that rank
	epoch INTEGER NOT NULL,
	step INTEGER NOT NULL, -- of the epoch, from 1; 0 = between steps. Of a server: the worker's step
	name TEXT NOT NULL,
	start_s REAL NOT NULL,
	duration_s REAL NOT NULL,
	parent INTEGER, -- NULL = none
	peer INTEGER,   -- the other rank; of a wait, the one whose arrival ended it; NULL = all, or not known
	bytes INTEGER,  -- that this rank sent
	-- Of a push, its number; of a server's apply, that of the push. If workers access a table
	-- themselves, its pushes are numbered in the order in which they began, and seen is the
	-- highest number that a push or a pull got back. 2^40 times the table's number is added.
	flow INTEGER,
	seen INTEGER,
	staleness INTEGER, -- of a push
	PRIMARY KEY (run_id, rank, seq)
) STRICT, WITHOUT ROWID;
CREATE INDEX event_flow ON event (run_id, flow) WHERE flow IS NOT NULL;
CREATE INDEX event_seen ON event (run_id, seen) WHERE seen IS NOT NULL;

-- A comparison of tuned configurations (`mvbench tune`). The same job file, ranges and seed continue
-- the same study.
CREATE TABLE study (
	id INTEGER PRIMARY KEY AUTOINCREMENT,
	name TEXT NOT NULL,        -- of its job file
	hash TEXT NOT NULL UNIQUE, -- of the configurations, the ranges and the seed
	made TEXT NOT NULL,        -- ISO 8601, UTC
	objective TEXT NOT NULL CHECK (objective IN ('accuracy', 'loss')), -- on the held-out rows
	budget INTEGER NOT NULL,   -- trials of each configuration
	search TEXT NOT NULL       -- a JSON object: the ranges, as the job file has them
) STRICT;

-- The runs of a study by their cells, also those that have not been run: trials; the best of them, run
-- again with other seeds ('tuned'); and the options of the job file alone, with these seeds ('default').
CREATE TABLE trial (
	study_id INTEGER NOT NULL REFERENCES study (id) ON DELETE CASCADE,
	contestant TEXT NOT NULL, -- the tuned configuration, by its name in the study
	kind TEXT NOT NULL CHECK (kind IN ('trial', 'tuned', 'default')),
	number INTEGER NOT NULL,  -- of the trial, from 1; of the others, the seed
	options TEXT NOT NULL,    -- a JSON object: values drawn from the ranges
	config_hash TEXT NOT NULL,
	PRIMARY KEY (study_id, contestant, kind, number)
) STRICT, WITHOUT ROWID;

-- A named baseline: results of finished runs, with which later runs are compared (`mvbench check`). It
-- is complete by itself: those runs may be deleted, and a text file can carry it elsewhere.
CREATE TABLE baseline (
	name TEXT NOT NULL,
	cell TEXT NOT NULL,    -- config_hash with seed 0: equal for runs that differ only in their seeds
	seed INTEGER NOT NULL,
	made TEXT NOT NULL,    -- when it was saved: ISO 8601, UTC
	config TEXT NOT NULL,  -- the cell's short name
	options TEXT NOT NULL, -- a JSON object of the options that make the cell, as users type them
	config_hash TEXT NOT NULL,
	params INTEGER,
	train_size INTEGER,
	test_size INTEGER,
	running_loss REAL, -- these: of the last epoch
	train_loss REAL,
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
	run_id INTEGER REFERENCES run (id) ON DELETE SET NULL, -- NULL = the run is not here
	PRIMARY KEY (name, cell, seed)
) STRICT, WITHOUT ROWID;
CREATE INDEX baseline_run ON baseline (run_id);

-- The runs that the newest check of each baseline needs, and has.
CREATE TABLE checked (
	name TEXT NOT NULL, -- of the baseline
	cell TEXT NOT NULL,
	seed INTEGER NOT NULL,
	run_id INTEGER REFERENCES run (id) ON DELETE SET NULL, -- NULL = not run yet
	program TEXT, -- a hash of the program that made that run; NULL = not the checking program
	PRIMARY KEY (name, cell, seed)
) STRICT, WITHOUT ROWID;
CREATE INDEX checked_run ON checked (run_id);

-- The limits of the newest check: which differences count.
CREATE TABLE gate_limit (
	name TEXT PRIMARY KEY,       -- of the baseline whose check the views gate_* show
	alpha REAL NOT NULL,         -- share of checks of unchanged code that may fail
	min_accuracy REAL NOT NULL,  -- 0..1
	min_loss REAL NOT NULL,      -- share of the loss
	better_fails INTEGER NOT NULL CHECK (better_fails IN (0, 1)),
	unsure_fails INTEGER NOT NULL DEFAULT 0 CHECK (unsure_fails IN (0, 1))
) STRICT, WITHOUT ROWID;

-- Measurements of a machine by `mvbench calibrate`, for the simulator: one row for each calibration;
-- the newest that fits counts.
CREATE TABLE calibration (
	id INTEGER PRIMARY KEY AUTOINCREMENT,
	made TEXT NOT NULL, -- ISO 8601, UTC
	host TEXT, cpu TEXT, cores INTEGER, mpi TEXT, onednn TEXT, gpu TEXT,
	git_commit TEXT, git_dirty INTEGER CHECK (git_dirty IN (0, 1)),
	device TEXT NOT NULL,
	precision TEXT NOT NULL,
	threads INTEGER NOT NULL,
	workload TEXT NOT NULL,
	workload_options TEXT NOT NULL, -- as users type them
	batch INTEGER NOT NULL,
	params INTEGER NOT NULL,
	workers INTEGER NOT NULL, -- that computed at the same time
	hosts TEXT, -- sorted: one rank on each measured; NULL = on one machine
	lab_rate TEXT -- of their links in `mvbench lab`
) STRICT;
CREATE INDEX calibration_of ON calibration (workload, batch, device, workers);

-- The figures of a calibration. name "step": x is 64 times the number of the repetition (from 0), plus
-- the number of 64ths of its steps that are shorter; value is the mean of the steps from there to the
-- next x [s]. The last 64th is kept step by step. Costs (fill, copy, scale, axpy, sgd, read, push,
-- sync, elastic, sum, host): x is an amount of work [floats], value its time [s]. "wake": from a
-- wake-up signal until a sleeping worker resumes [s], x is 1. "message": x is a length [bytes]; "both":
-- two such at once, one each way; "allreduce": [floats]; "sim_...": what the simulator made of these.
-- "layer": x is the number of a layer, value the time of its backward pass [s]; of the highest x: of the
-- forward pass.
-- "cores_share": x is the number of the repetition, value the least share of its core that a worker had;
-- below 0.9 other processes ran.
CREATE TABLE calibration_point (
	calibration_id INTEGER NOT NULL REFERENCES calibration (id) ON DELETE CASCADE,
	name TEXT NOT NULL,
	x REAL NOT NULL,
	value REAL NOT NULL,
	PRIMARY KEY (calibration_id, name, x)
) STRICT, WITHOUT ROWID;
