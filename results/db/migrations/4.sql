-- 4.sql - from version 4 on: simulated runs. No program had written table calibration.
DROP TABLE calibration;
CREATE TABLE calibration (
	id INTEGER PRIMARY KEY AUTOINCREMENT,
	made TEXT NOT NULL,
	host TEXT, cpu TEXT, cores INTEGER, mpi TEXT, onednn TEXT, gpu TEXT,
	git_commit TEXT, git_dirty INTEGER CHECK (git_dirty IN (0, 1)),
	device TEXT NOT NULL, precision TEXT NOT NULL, threads INTEGER NOT NULL,
	workload TEXT NOT NULL, workload_options TEXT NOT NULL, batch INTEGER NOT NULL,
	params INTEGER NOT NULL, workers INTEGER NOT NULL
) STRICT;
ALTER TABLE run ADD COLUMN simulated_s REAL;
ALTER TABLE run ADD COLUMN wall_s REAL;
ALTER TABLE run ADD COLUMN events INTEGER;
ALTER TABLE run ADD COLUMN model_hash TEXT;
ALTER TABLE run ADD COLUMN calibration_id INTEGER REFERENCES calibration (id) ON DELETE SET NULL;
