-- 4.sql - from version 4 on: simulated runs. Nothing had ever written table calibration.
DROP TABLE calibration;
ALTER TABLE run ADD COLUMN simulated_s REAL;
ALTER TABLE run ADD COLUMN wall_s REAL;
ALTER TABLE run ADD COLUMN events INTEGER;
ALTER TABLE run ADD COLUMN model_hash TEXT;
ALTER TABLE run ADD COLUMN calibration_id INTEGER REFERENCES calibration (id) ON DELETE SET NULL;
