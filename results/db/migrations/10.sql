-- 10.sql - from version 11 on: figures of runs that are kept. There are more of them now; they are computed again.
DROP TABLE IF EXISTS run_kept;
