-- base.sql - what the fuzzer's database has besides runs: calibrations of a machine and of
-- networks. Its columns accept NULL and any type, as in a file that was made by hand.
INSERT INTO calibration (id, made, cores, device, precision, threads, workload, workload_options,
	batch, params, workers, hosts, lab_rate)
SELECT value, '2026-01-01T00:00:00Z', 2, 'cpu', 'float32', 1, 'softmax', '', 100, 7850,
	1 + (value + 1) % 2, iif(value > 2, 'a,b', NULL), iif(value > 2, '', NULL)
FROM generate_series(1, 4);
INSERT INTO calibration_point (calibration_id, name, x, value)
SELECT c.id, 'step', 64 * r.value + x.value, 1e-3 * (1 + x.value / 64.0)
FROM calibration AS c, generate_series(0, 2) AS r, generate_series(0, 63) AS x WHERE c.id < 3;
INSERT INTO calibration_point (calibration_id, name, x, value)
SELECT c.id, n.value, x.value, 1e-6 + 1e-9 * x.value
FROM calibration AS c, json_each('["fill", "copy", "scale", "axpy", "sgd", "read", "push", "sync",
	"elastic", "sum", "host", "wake", "message", "both", "allreduce"]') AS n,
	json_each('[1, 1000, 50000, 1000000]') AS x;
PRAGMA journal_mode = DELETE;
PRAGMA writable_schema = ON;
UPDATE sqlite_master SET sql = replace(replace(replace(sql, ' STRICT, WITHOUT', ' WITHOUT'), ' STRICT', ''),
	' NOT NULL', '') WHERE type = 'table' AND name NOT LIKE 'sqlite_%';
PRAGMA writable_schema = OFF;
VACUUM;
