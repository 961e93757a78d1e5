-- tables.sql - the results database: what was measured. All arithmetic is in views (views.sql,
-- statistics.sql, study.sql, gate.sql, timeline.sql), which are made anew when an older file is
-- brought up; so are tables that it lacks, and what else it needs is in migrations/. Times are in
-- seconds, sizes in bytes, accuracies and fractions in 0..1. NULL = not known, or does not apply.
-- Epoch 0 is the model before training.

PRAGMA application_id = 1836474990; -- "mvbn"
PRAGMA user_version = 14;

-- One experiment. The columns from workload to label are the core options of `mvbench run`, with
-- '_' for '-' and '.', as view option_info lists them; device, deal, table_home and transport are
-- those that were used, once the run has begun (NULL = the strategy has no tables, no vectors of
-- GPUs travelled); sim_* are NULL where the workers were real; sim_replay is -N for run N of the
-- database that it was imported from, which had lost it. The rest is what was found out, and
-- provenance.
CREATE TABLE run (
	id INTEGER PRIMARY KEY AUTOINCREMENT,
	status TEXT NOT NULL CHECK (status IN ('pending', 'running', 'done', 'failed', 'diverged')),
	reason TEXT,               -- why, in a sentence, when failed or diverged
	started TEXT,              -- or when it last went on from a checkpoint: ISO 8601, UTC
	finished TEXT,
	config_hash TEXT NOT NULL, -- the identity of a cell, seed included
	-- OPTIONS: a column each, from runtime/config/run_options.def
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
	hosts TEXT,  -- the machines of a real run, sorted: 'a,b'; host is rank 0's
	-- These: NULL = on one machine. The network's name: of runs on the same machines whose links
	-- are equally fast and measured alike: within 1.5 in bandwidth, 4 in latency above 1 ms.
	network TEXT,
	network_speed REAL,     -- of the slowest link, as its driver says [bit/s]; NULL = it does not
	network_latency REAL,   -- these: measured when the run began, one way [s], of the worst wire,
	network_bandwidth REAL, -- and [bytes/s]
	launcher TEXT,     -- 'mpirun', 'mpirun, Slurm job 12'; NULL = one process
	mpi_settings TEXT, -- of Open MPI, by the user or by mvbench: 'btl_tcp_flags=1 osc=^ucx'
	heartbeat TEXT,    -- when it was last seen running, every 30 s: ISO 8601, UTC
	calibration_id INTEGER REFERENCES calibration (id) ON DELETE SET NULL, -- of a simulation
	simulated_s REAL, -- virtual time of the whole simulation, evaluation included
	wall_s REAL,      -- that it took
	events INTEGER,   -- computations and communications of simulated workers
	model_hash TEXT,  -- of the last canonical model's floats: equal models, equal hashes
	events_lost INTEGER, -- that table event had no room for; NULL = no timeline
	sweep_round INTEGER, -- of the sweep that made it, from 1, and the seed that shuffled it; NULL =
	sweep_seed INTEGER,  -- in no sweep, or in its file's order
	checkpoint TEXT,     -- the name of the run in its checkpoints (--save); NULL = it makes none
	resumed INTEGER,     -- how often it was interrupted and went on from one; NULL = never
	origin TEXT,       -- these: NULL = recorded here; else the file that it was first imported from,
	origin_id INTEGER, -- its id there,
	imported TEXT      -- and when it came here: ISO 8601, UTC
) STRICT;
CREATE INDEX run_config_hash ON run (config_hash);
CREATE INDEX run_status ON run (status);
CREATE INDEX run_workload ON run (workload, workers, strategy);
CREATE INDEX run_label ON run (label);
CREATE INDEX run_alone ON run (status) WHERE workers = 1;

-- The options of the run's strategy, workload and optimizer, as one would type them.
CREATE TABLE run_option (
	run_id INTEGER NOT NULL REFERENCES run (id) ON DELETE CASCADE,
	part TEXT NOT NULL, -- 'strategy', 'workload', 'optimizer'
	name TEXT NOT NULL,
	value TEXT,
	PRIMARY KEY (run_id, part, name)
) STRICT, WITHOUT ROWID;

-- How interrupted runs went on from their checkpoints (--save).
CREATE TABLE resumption (
	run_id INTEGER NOT NULL REFERENCES run (id) ON DELETE CASCADE,
	number INTEGER NOT NULL CHECK (number >= 1), -- of the run's: which time this was
	epoch INTEGER NOT NULL CHECK (epoch >= 0),   -- after which; what it had of later ones was forgotten
	began TEXT NOT NULL,   -- the piece before, and
	started TEXT NOT NULL, -- this one: ISO 8601, UTC
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
	cores INTEGER NOT NULL, -- that it might use
	address TEXT,           -- IPv4, of its first network; NULL = there is none
	git_commit TEXT,
	libraries TEXT,
	load REAL, -- average of its host's last minute, when the run began; NULL = not known
	mhz REAL,  -- of its host's first core, then
	PRIMARY KEY (run_id, rank)
) STRICT, WITHOUT ROWID;

-- One epoch of a run. seconds is the segment's; compute_s, comm_s and wait_s are means over the
-- trainers, and what they leave of seconds is "other". running_* are of each worker's mini-batches
-- under its own model, before its step on each; train_* and test_* of the model that is evaluated
-- after the epoch, on the whole test set and on 5,000 rows of the training set (all, where there
-- are fewer), the same in all runs; validation_* on the rows that --validation holds out of it.
-- Regression tasks have NULL accuracy and their MSE as loss.
CREATE TABLE epoch (
	run_id INTEGER NOT NULL REFERENCES run (id) ON DELETE CASCADE,
	epoch INTEGER NOT NULL CHECK (epoch >= 0),
	seconds REAL,
	compute_s REAL,
	comm_s REAL,
	wait_s REAL,
	running_loss REAL,
	running_accuracy REAL,
	train_loss REAL, -- NULL = of a version that did not evaluate it
	train_accuracy REAL,
	validation_loss REAL, -- NULL = nothing is held out (--validation)
	validation_accuracy REAL,
	test_loss REAL,
	test_accuracy REAL,
	bytes_sent INTEGER,
	staleness_mean REAL, -- foreign updates that a push met; NULL = there were no pushes
	staleness_max INTEGER,
	pushes INTEGER,  -- that were applied; NULL = nobody pushed, or mvbench did not count them yet
	dropped INTEGER, -- beside these: came too late for their round, and were thrown away
	-- How far workers' models w_i were from their mean, sqrt(mean of |w_i - mean|^2): each as
	-- it was when its worker last met others in the epoch, right before; where it met nobody,
	-- at the end. 0 = all are equal by definition; NULL = no barrier ended the epoch, or there
	-- were no floats.
	consensus REAL,
	-- These: NULL = simulated, or the system does not say. Means over the trainers,
	user_s REAL,
	system_s REAL,
	run_delay_s REAL,    -- the most of one: ready to run, while others ran on its cores
	preemptions INTEGER, -- sum of involuntary context switches
	PRIMARY KEY (run_id, epoch)
) STRICT, WITHOUT ROWID;

-- What the strategy said of an epoch (worker_report), by its own names: the mean of what all workers
-- said, each time alike.
CREATE TABLE epoch_value (
	run_id INTEGER NOT NULL,
	epoch INTEGER NOT NULL,
	name TEXT NOT NULL,
	value REAL,
	reports INTEGER NOT NULL CHECK (reports > 0), -- how often
	PRIMARY KEY (run_id, epoch, name),
	FOREIGN KEY (run_id, epoch) REFERENCES epoch (run_id, epoch) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

-- What --judge-every asks for: the model between two ends of epochs. See view curve, which has
-- both.
CREATE TABLE evaluation (
	run_id INTEGER NOT NULL REFERENCES run (id) ON DELETE CASCADE,
	step INTEGER NOT NULL, -- of the run: after so many steps,
	epochs REAL NOT NULL,  -- that is, so many epochs,
	seconds REAL,          -- and so much training
	train_loss REAL,
	train_accuracy REAL,
	validation_loss REAL, -- NULL = nothing is held out (--validation)
	validation_accuracy REAL,
	test_loss REAL,
	test_accuracy REAL,
	PRIMARY KEY (run_id, step)
) STRICT, WITHOUT ROWID;

-- What run_summary says of runs that have ended, kept because it is dear: triggers below keep it
-- true, and who next opens the file to write adds what is missing. A run without a row here is
-- computed when asked for.
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
	staleness_mean REAL,
	staleness_max INTEGER,
	dropped_fraction REAL,
	seconds_total REAL,
	target_epoch INTEGER, -- in which the target was reached for good; NULL = it was not
	target_seconds REAL,  -- of training, up to there
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
	user_s REAL,
	system_s REAL,
	run_delay_s REAL,
	preemptions INTEGER,
	PRIMARY KEY (run_id, epoch, rank),
	FOREIGN KEY (run_id, epoch) REFERENCES epoch (run_id, epoch) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

-- The histogram of an epoch's staleness: how many of its pushes met so many foreign updates; what
-- no push met has no row. Below 128 staleness is exact. Above, it is the lower end of one of 16
-- equal bins of each octave: 8 wide from 128 on, 16 wide from 256 on, and so forth; so the mean of
-- these rows can be a little below epoch.staleness_mean, which is exact. Several servers: it is the
-- first one's.
CREATE TABLE staleness (
	run_id INTEGER NOT NULL,
	epoch INTEGER NOT NULL,
	staleness INTEGER NOT NULL,
	pushes INTEGER NOT NULL CHECK (pushes > 0),
	PRIMARY KEY (run_id, epoch, staleness),
	FOREIGN KEY (run_id, epoch) REFERENCES epoch (run_id, epoch) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

-- With --split=fixed or dirichlet: how many rows of a class a worker trains on, in every epoch. Of
-- workers that share a model the first has the row. Simulations without data have none.
CREATE TABLE shard (
	run_id INTEGER NOT NULL REFERENCES run (id) ON DELETE CASCADE,
	worker INTEGER NOT NULL CHECK (worker >= 0), -- its rank
	class INTEGER NOT NULL,                      -- -1 = the data have none
	rows INTEGER NOT NULL CHECK (rows >= 0),
	PRIMARY KEY (run_id, worker, class)
) STRICT, WITHOUT ROWID;

-- What --record keeps: the operations of workers on the shards of parameter-server tables. seq
-- orders those of one shard, over the whole run; nothing orders two shards.
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
-- timeline began. Ranks from the run's workers on are its servers. One rank's events nest: what it
-- did inside another has that one's seq as parent, and lies in it. Names are those of view
-- event_kind. Virtual times of simulated workers; where a device computes on its own, the host's
-- times.
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
	-- Of a push, its number; of a server's apply, that of the push. Where workers reach a table
	-- by themselves, its pushes are numbered in the order in which they began, and seen is the
	-- highest number that is in what a push or a pull brought back. 2^40 times the table's
	-- number is added.
	flow INTEGER,
	seen INTEGER,
	staleness INTEGER, -- of a push
	PRIMARY KEY (run_id, rank, seq)
) STRICT, WITHOUT ROWID;
CREATE INDEX event_flow ON event (run_id, flow) WHERE flow IS NOT NULL;
CREATE INDEX event_seen ON event (run_id, seen) WHERE seen IS NOT NULL;

-- A comparison of tuned configurations (`mvbench tune`). The same job file, ranges and seed are the
-- same study, which goes on.
CREATE TABLE study (
	id INTEGER PRIMARY KEY AUTOINCREMENT,
	name TEXT NOT NULL,        -- of its job file
	hash TEXT NOT NULL UNIQUE, -- of what is compared, what is searched, and from where
	made TEXT NOT NULL,        -- ISO 8601, UTC
	objective TEXT NOT NULL CHECK (objective IN ('accuracy', 'loss')), -- on the rows that are held out
	budget INTEGER NOT NULL,   -- trials of each configuration
	search TEXT NOT NULL       -- a JSON object: the ranges, as the job file has them
) STRICT;

-- The runs of a study, known by their cells, whether they have been run or not: trials, and what is
-- run again with seeds of its own: the best of them, and what the job file says without any trial.
CREATE TABLE trial (
	study_id INTEGER NOT NULL REFERENCES study (id) ON DELETE CASCADE,
	contestant TEXT NOT NULL, -- the configuration that is tuned, as the study calls it
	kind TEXT NOT NULL CHECK (kind IN ('trial', 'tuned', 'default')),
	number INTEGER NOT NULL,  -- of the trial, from 1; of the others, the seed
	options TEXT NOT NULL,    -- a JSON object: what was drawn from the ranges
	config_hash TEXT NOT NULL,
	PRIMARY KEY (study_id, contestant, kind, number)
) STRICT, WITHOUT ROWID;

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
	better_fails INTEGER NOT NULL CHECK (better_fails IN (0, 1)),
	unsure_fails INTEGER NOT NULL DEFAULT 0 CHECK (unsure_fails IN (0, 1))
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
	workers INTEGER NOT NULL, -- that computed at the same time
	hosts TEXT, -- sorted: between them one rank on each measured; NULL = on one machine
	lab_rate TEXT -- of their wires, where these are a lab's
) STRICT;
CREATE INDEX calibration_of ON calibration (workload, batch, device, workers);

-- The figures of a calibration. name "step": x is 64 times the number of the repetition (from 0)
-- and how many 64ths of its steps are shorter; value is the mean of the steps from there to the
-- next x [s]. The last 64th is kept step by step. Costs (fill, copy, scale, axpy, sgd, read, push,
-- sync, elastic, sum, host): x is an amount of work [floats], value its time [s]. "wake": from a
-- ring until a sleeper goes on [s], x is 1. "message": x is a length [bytes]; "both", two such at
-- once, one each way; "allreduce": [floats]; "sim_...": what the simulator made of these.
CREATE TABLE calibration_point (
	calibration_id INTEGER NOT NULL REFERENCES calibration (id) ON DELETE CASCADE,
	name TEXT NOT NULL,
	x REAL NOT NULL,
	value REAL NOT NULL,
	PRIMARY KEY (calibration_id, name, x)
) STRICT, WITHOUT ROWID;
