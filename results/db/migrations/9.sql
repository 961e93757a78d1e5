-- 9.sql - from version 10 on: the machines of a run.
ALTER TABLE run ADD COLUMN hosts TEXT;
ALTER TABLE run ADD COLUMN network TEXT;
ALTER TABLE run ADD COLUMN network_speed REAL;
ALTER TABLE run ADD COLUMN network_latency REAL;
ALTER TABLE run ADD COLUMN network_bandwidth REAL;
ALTER TABLE run ADD COLUMN launcher TEXT;
ALTER TABLE run ADD COLUMN mpi_settings TEXT;
ALTER TABLE run ADD COLUMN heartbeat TEXT;
ALTER TABLE calibration ADD COLUMN hosts TEXT;
ALTER TABLE calibration ADD COLUMN lab_rate TEXT;
-- The network of a run with a hostfile was named after that file.
UPDATE run SET network = 'hostfile ' || hostfile WHERE hostfile <> '';
