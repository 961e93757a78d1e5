-- 5.sql - from version 5 on: timelines, imports, baselines. The contents of epoch_median are computed again; no
-- program had written the tables event and baseline.
DROP TABLE epoch_median;
DROP TABLE event;
DROP TABLE baseline;
CREATE TABLE baseline (
	name TEXT NOT NULL, cell TEXT NOT NULL, seed INTEGER NOT NULL, made TEXT NOT NULL, config TEXT NOT
	NULL, options TEXT NOT NULL, config_hash TEXT NOT NULL, params INTEGER, train_size INTEGER,
	test_size INTEGER, train_loss REAL, test_loss REAL, test_accuracy REAL, epoch_seconds REAL,
	simulated_s REAL, calibration TEXT, model_hash TEXT, started TEXT, host TEXT, cpu TEXT, gpu TEXT,
	mpi TEXT, onednn TEXT, cuda TEXT, git_commit TEXT, git_dirty INTEGER CHECK (git_dirty IN (0, 1)),
	run_id INTEGER REFERENCES run (id) ON DELETE SET NULL, PRIMARY KEY (name, cell, seed)
) STRICT, WITHOUT ROWID;
ALTER TABLE run ADD COLUMN events_lost INTEGER;
ALTER TABLE run ADD COLUMN origin TEXT;
ALTER TABLE run ADD COLUMN origin_id INTEGER;
ALTER TABLE run ADD COLUMN imported TEXT;
