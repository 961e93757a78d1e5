-- 12.sql - from version 13 on: options of optimizers, as of strategies and workloads.
CREATE TABLE run_option_13 (
	run_id INTEGER NOT NULL REFERENCES run (id) ON DELETE CASCADE,
	part TEXT NOT NULL,
	name TEXT NOT NULL,
	value TEXT,
	PRIMARY KEY (run_id, part, name)
) STRICT, WITHOUT ROWID;
INSERT INTO run_option_13 SELECT run_id, part, name, value FROM run_option;
DROP TABLE run_option;
ALTER TABLE run_option_13 RENAME TO run_option;
