-- 14.sql - from version 15 on: the time that a hypervisor took from the workers' cores.
ALTER TABLE epoch ADD COLUMN steal_s REAL;
ALTER TABLE rank_epoch ADD COLUMN steal_s REAL;
