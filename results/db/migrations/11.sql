-- 11.sql - from version 12 on: checkpoints.
ALTER TABLE run ADD COLUMN checkpoint TEXT;
ALTER TABLE run ADD COLUMN resumed INTEGER;
