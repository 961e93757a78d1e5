-- 10.sql - from version 11 on: the share of its cores that a run had.
CREATE TABLE IF NOT EXISTS rank ( -- as in version 10; missing in older files
	run_id INTEGER NOT NULL REFERENCES run (id) ON DELETE CASCADE,
	rank INTEGER NOT NULL CHECK (rank >= 0),
	role TEXT NOT NULL CHECK (role IN ('worker', 'server')),
	host TEXT NOT NULL,
	slot INTEGER NOT NULL,
	cpu TEXT,
	cores INTEGER NOT NULL,
	address TEXT,
	git_commit TEXT,
	libraries TEXT,
	PRIMARY KEY (run_id, rank)
) STRICT, WITHOUT ROWID;
ALTER TABLE rank ADD COLUMN load REAL;
ALTER TABLE rank ADD COLUMN mhz REAL;
ALTER TABLE epoch ADD COLUMN user_s REAL;
ALTER TABLE epoch ADD COLUMN system_s REAL;
ALTER TABLE epoch ADD COLUMN run_delay_s REAL;
ALTER TABLE epoch ADD COLUMN preemptions INTEGER;
ALTER TABLE rank_epoch ADD COLUMN user_s REAL;
ALTER TABLE rank_epoch ADD COLUMN system_s REAL;
ALTER TABLE rank_epoch ADD COLUMN run_delay_s REAL;
ALTER TABLE rank_epoch ADD COLUMN preemptions INTEGER;
DROP TABLE IF EXISTS run_kept; -- it has more columns now, and is filled again
