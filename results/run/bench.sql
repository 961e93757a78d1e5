-- bench.sql - measurements of mvbench bench (bench.c fills table measured), their median over the
-- repetitions, and the bandwidths of nccl-tests (GB: 10^9 bytes).
CREATE TABLE measured (way INTEGER, repetition INTEGER, operation TEXT, transport TEXT,
	bytes INTEGER, count INTEGER, bus REAL, wrong INTEGER, seconds REAL);
CREATE VIEW bench AS
WITH figure AS (SELECT way AS number, bytes AS name, seconds AS x FROM measured),
/* MEDIANS */
SELECT operation, transport, bytes, count, round(1e6 * mid, 4) AS time_us,
	round(1e-9 * bytes / mid, 6) AS algbw_gb_s,
	round(1e-9 * bytes / mid * bus, 6) AS busbw_gb_s, sum(wrong) AS wrong
FROM measured JOIN median ON number = way AND name = bytes GROUP BY way, bytes ORDER BY way, bytes;
-- The same, formatted.
CREATE VIEW shown AS
SELECT operation, transport, bytes, count, printf('%.2f', time_us) AS 'time us',
	printf('%.3f', algbw_gb_s) AS 'algbw GB/s',
	printf('%.3f', busbw_gb_s) AS 'busbw GB/s', wrong
FROM bench;
