-- 5.sql - from version 5 on: timelines, imports, baselines. What epoch_median kept is computed again; nothing
-- had ever written the tables event and baseline.
DROP TABLE epoch_median;
DROP TABLE event;
DROP TABLE baseline;
ALTER TABLE run ADD COLUMN events_lost INTEGER;
ALTER TABLE run ADD COLUMN origin TEXT;
ALTER TABLE run ADD COLUMN origin_id INTEGER;
ALTER TABLE run ADD COLUMN imported TEXT;
