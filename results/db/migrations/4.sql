-- 4.sql - from version 4 on: simulated runs. No program had written table calibration.
DROP TABLE calibration;
