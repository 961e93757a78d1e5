-- 5.sql - from version 5 on: timelines, imports, baselines. The contents of epoch_median are computed again; no
-- program had written the tables event and baseline.
DROP TABLE epoch_median;
DROP TABLE event;
DROP TABLE baseline;
CREATE TABLE baseline ( -- train_loss: see 8.sql
	name TEXT NOT NULL, cell TEXT NOT NULL, seed INTEGER NOT NULL, made TEXT NOT NULL, config TEXT NOT
	NULL, options TEXT NOT NULL, config_hash TEXT NOT NULL, train_loss REAL,
	PRIMARY KEY (name, cell, seed)
) STRICT, WITHOUT ROWID;
