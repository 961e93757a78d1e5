PRAGMA application_id = 1836474990;
PRAGMA user_version = 8;
CREATE TABLE run (
	id INTEGER PRIMARY KEY AUTOINCREMENT,
	status TEXT NOT NULL CHECK (status IN ('pending', 'running', 'done', 'failed', 'diverged')),
	reason TEXT,
	started TEXT,
	finished TEXT,
	config_hash TEXT NOT NULL,
	workload TEXT NOT NULL,
	strategy TEXT NOT NULL,
	workers INTEGER NOT NULL,
	servers INTEGER NOT NULL,
	table_home TEXT,
	record INTEGER NOT NULL DEFAULT 0 CHECK (record IN (0, 1)),
	trace INTEGER NOT NULL DEFAULT 0,
	sync_every INTEGER NOT NULL,
	barrier_every INTEGER NOT NULL,
	epochs INTEGER NOT NULL,
	batch INTEGER NOT NULL,
	deal TEXT NOT NULL DEFAULT 'auto',
	lr REAL NOT NULL,
	lr_schedule TEXT NOT NULL,
	momentum REAL NOT NULL,
	weight_decay REAL NOT NULL,
	reduce TEXT NOT NULL,
	lr_scale TEXT NOT NULL,
	seed INTEGER NOT NULL,
	device TEXT NOT NULL,
	precision TEXT NOT NULL DEFAULT 'float32',
	transport TEXT,
	platform TEXT NOT NULL,
	hostfile TEXT NOT NULL DEFAULT '',
	data_dir TEXT NOT NULL DEFAULT '',
	threads INTEGER NOT NULL,
	straggle REAL NOT NULL,
	speed TEXT NOT NULL DEFAULT '',
	pause TEXT NOT NULL DEFAULT '',
	leave TEXT NOT NULL DEFAULT '',
	sim_platform TEXT,
	sim_train INTEGER CHECK (sim_train IN (0, 1)),
	sim_step_time TEXT,
	sim_update_time TEXT,
	sim_slow_link TEXT,
	sim_replay INTEGER,
	target_accuracy REAL NOT NULL,
	label TEXT NOT NULL DEFAULT '',
	params INTEGER,
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
	cuda TEXT,
	git_commit TEXT,
	git_dirty INTEGER CHECK (git_dirty IN (0, 1)),
	pid INTEGER,
	calibration_id INTEGER REFERENCES calibration (id) ON DELETE SET NULL,
	simulated_s REAL,
	wall_s REAL,
	events INTEGER,
	model_hash TEXT,
	events_lost INTEGER,
	origin TEXT,
	origin_id INTEGER,
	imported TEXT
) STRICT;
CREATE INDEX run_config_hash ON run (config_hash);
CREATE INDEX run_status ON run (status);
CREATE INDEX run_workload ON run (workload, workers, strategy);
CREATE INDEX run_label ON run (label);
CREATE INDEX run_alone ON run (status) WHERE workers = 1;
CREATE TABLE run_option (
	run_id INTEGER NOT NULL REFERENCES run (id) ON DELETE CASCADE,
	part TEXT NOT NULL CHECK (part IN ('strategy', 'workload')),
	name TEXT NOT NULL,
	value TEXT,
	PRIMARY KEY (run_id, part, name)
) STRICT, WITHOUT ROWID;
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
	staleness_mean REAL,
	staleness_max INTEGER,
	pushes INTEGER,
	dropped INTEGER,
	PRIMARY KEY (run_id, epoch)
) STRICT, WITHOUT ROWID;
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
	target_epoch INTEGER,
	target_seconds REAL,
	config TEXT NOT NULL,
	compare_key TEXT NOT NULL,
	config_key TEXT NOT NULL
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
CREATE TABLE staleness (
	run_id INTEGER NOT NULL,
	epoch INTEGER NOT NULL,
	staleness INTEGER NOT NULL,
	pushes INTEGER NOT NULL CHECK (pushes > 0),
	PRIMARY KEY (run_id, epoch, staleness),
	FOREIGN KEY (run_id, epoch) REFERENCES epoch (run_id, epoch) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
CREATE TABLE arrival (
	run_id INTEGER NOT NULL REFERENCES run (id) ON DELETE CASCADE,
	table_id INTEGER NOT NULL,
	shard INTEGER NOT NULL,
	seq INTEGER NOT NULL,
	worker INTEGER NOT NULL,
	kind TEXT NOT NULL,
	PRIMARY KEY (run_id, table_id, shard, seq)
) STRICT, WITHOUT ROWID;
CREATE TABLE event (
	run_id INTEGER NOT NULL REFERENCES run (id) ON DELETE CASCADE,
	rank INTEGER NOT NULL CHECK (rank >= 0),
	seq INTEGER NOT NULL,
	epoch INTEGER NOT NULL,
	step INTEGER NOT NULL,
	name TEXT NOT NULL,
	start_s REAL NOT NULL,
	duration_s REAL NOT NULL,
	parent INTEGER,
	peer INTEGER,
	bytes INTEGER,
	flow INTEGER,
	seen INTEGER,
	staleness INTEGER,
	PRIMARY KEY (run_id, rank, seq)
) STRICT, WITHOUT ROWID;
CREATE INDEX event_flow ON event (run_id, flow) WHERE flow IS NOT NULL;
CREATE INDEX event_seen ON event (run_id, seen) WHERE seen IS NOT NULL;
CREATE TABLE baseline (
	name TEXT NOT NULL,
	cell TEXT NOT NULL,
	seed INTEGER NOT NULL,
	made TEXT NOT NULL,
	config TEXT NOT NULL,
	options TEXT NOT NULL,
	config_hash TEXT NOT NULL,
	params INTEGER,
	train_size INTEGER,
	test_size INTEGER,
	train_loss REAL,
	test_loss REAL,
	test_accuracy REAL,
	epoch_seconds REAL,
	simulated_s REAL,
	calibration TEXT,
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
	run_id INTEGER REFERENCES run (id) ON DELETE SET NULL,
	PRIMARY KEY (name, cell, seed)
) STRICT, WITHOUT ROWID;
CREATE INDEX baseline_run ON baseline (run_id);
CREATE TABLE checked (
	name TEXT NOT NULL,
	cell TEXT NOT NULL,
	seed INTEGER NOT NULL,
	run_id INTEGER REFERENCES run (id) ON DELETE SET NULL,
	program TEXT,
	PRIMARY KEY (name, cell, seed)
) STRICT, WITHOUT ROWID;
CREATE INDEX checked_run ON checked (run_id);
CREATE TABLE gate_limit (
	name TEXT PRIMARY KEY,
	alpha REAL NOT NULL,
	min_accuracy REAL NOT NULL,
	min_loss REAL NOT NULL,
	better_fails INTEGER NOT NULL CHECK (better_fails IN (0, 1))
) STRICT, WITHOUT ROWID;
CREATE TABLE calibration (
	id INTEGER PRIMARY KEY AUTOINCREMENT,
	made TEXT NOT NULL,
	host TEXT, cpu TEXT, cores INTEGER, mpi TEXT, onednn TEXT, gpu TEXT,
	git_commit TEXT, git_dirty INTEGER CHECK (git_dirty IN (0, 1)),
	device TEXT NOT NULL,
	precision TEXT NOT NULL,
	threads INTEGER NOT NULL,
	workload TEXT NOT NULL,
	workload_options TEXT NOT NULL,
	batch INTEGER NOT NULL,
	params INTEGER NOT NULL,
	workers INTEGER NOT NULL
) STRICT;
CREATE INDEX calibration_of ON calibration (workload, batch, device, workers);
CREATE TABLE calibration_point (
	calibration_id INTEGER NOT NULL REFERENCES calibration (id) ON DELETE CASCADE,
	name TEXT NOT NULL,
	x REAL NOT NULL,
	value REAL NOT NULL,
	PRIMARY KEY (calibration_id, name, x)
) STRICT, WITHOUT ROWID;
