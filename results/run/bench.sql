-- bench.sql - measurements of mvbench bench (bench.c fills table measured), their median over the
-- repetitions, and the bandwidths of nccl-tests (GB: 10^9 bytes).
CREATE TABLE measured (way INTEGER, repetition INTEGER, operation TEXT, transport TEXT,
	bytes INTEGER, count INTEGER, bus REAL, wrong INTEGER, seconds REAL);
CREATE VIEW bench AS
WITH ranked AS (
	SELECT *, row_number() OVER (w ORDER BY seconds) AS i, count(*) OVER w AS n
	FROM measured WINDOW w AS (PARTITION BY way, bytes)),
median AS (
	SELECT way, operation, transport, bytes, count, bus, sum(wrong) AS wrong,
		avg(seconds) FILTER (WHERE i IN ((n + 1) / 2, (n + 2) / 2)) AS s
	FROM ranked GROUP BY way, bytes)
SELECT operation, transport, bytes, count, round(1e6 * s, 4) AS time_us,
	round(1e-9 * bytes / s, 6) AS algbw_gb_s, round(1e-9 * bytes / s * bus, 6) AS busbw_gb_s,
	wrong
FROM median ORDER BY way, bytes;
-- The same, formatted.
CREATE VIEW shown AS
SELECT operation, transport, bytes, count, printf('%.2f', time_us) AS 'time us',
	printf('%.3f', algbw_gb_s) AS 'algbw GB/s',
	printf('%.3f', busbw_gb_s) AS 'busbw GB/s', wrong
FROM bench;
