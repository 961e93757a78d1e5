-- reproduce_streaming.sql - compares the rates at which streaming_sim.ini reaches a utilisation with those of table
-- 4 of Streaming DiLoCo, which lie on a grid with a factor of about 1.2. A rate agrees if the utilisation is reached
-- within a step of that grid: not yet at rate / 1.2, but at 1.2 rate.
--
-- known: these do not agree, and have no bound. The authors' simulator overlaps the sums of DiLoCo and of streaming
-- with a backward pass, too; here they begin after it. Why data-parallel needs 569 Gbit/s for 99 % there is not known.
CREATE TEMP TABLE published (method, wanted, gbit, known);
INSERT INTO published VALUES ('data-parallel', 50, 86.8, 0), ('data-parallel', 80, 152.6, 0),
	('data-parallel', 90, 184.2, 0), ('data-parallel', 95, 222.3, 0), ('data-parallel', 99, 569.0, 1),
	('DiLoCo', 50, 1.4, 0), ('DiLoCo', 80, 6.2, 0), ('DiLoCo', 90, 13.3, 0), ('DiLoCo', 95, 23.3, 1),
	('DiLoCo', 99, 86.8, 1), ('streaming', 50, 1.4, 0), ('streaming', 80, 5.2, 1), ('streaming', 90, 9.1, 1),
	('streaming', 95, 16.0, 1), ('streaming', 99, 28.1, 1), ('overlapped', 50, 1.4, 0), ('overlapped', 80, 4.3, 0),
	('overlapped', 90, 6.2, 0), ('overlapped', 95, 9.1, 0), ('overlapped', 99, 11.0, 0), ('in 4 bits', 50, 0.4, 0),
	('in 4 bits', 80, 0.9, 0), ('in 4 bits', 90, 1.7, 0), ('in 4 bits', 95, 2.0, 0), ('in 4 bits', 99, 3.0, 0);
CREATE TEMP VIEW reached AS
SELECT CASE WHEN strategy = 'allreduce' THEN 'data-parallel' WHEN params < 2e8 THEN 'in 4 bits'
	WHEN CAST(config_key ->> '$."periodic.delay"' AS INTEGER) > 0 THEN 'overlapped'
	WHEN CAST(config_key ->> '$."periodic.fragments"' AS INTEGER) > 1 THEN 'streaming' ELSE 'DiLoCo' END AS method,
	sim_rate / 1e9 AS gbit, 100 * utilisation AS utilisation
FROM run_summary WHERE label = 'streaming' AND status = 'done';
CREATE TEMP TABLE compared AS
SELECT p.*, r.utilisation,
	(SELECT max(utilisation) FROM reached AS o WHERE o.method = p.method AND abs(o.gbit * 1.2 / p.gbit - 1) < 1e-3) AS below,
	(SELECT max(utilisation) FROM reached AS o WHERE o.method = p.method AND abs(o.gbit / 1.2 / p.gbit - 1) < 1e-3) AS above
FROM published AS p LEFT JOIN reached AS r ON r.method = p.method AND abs(r.gbit / p.gbit - 1) < 1e-3;
.mode list
SELECT format('%-14s%12s%10s%12s%14s%14s', '', 'utilisation', 'rate', 'simulated', 'rate / 1.2', '1.2 rate');
SELECT format('%-14s%10d %%%10.1f%10.1f %%%12.1f %%%12.1f %%%s', method,
	wanted, gbit, utilisation, below, above, iif(below <= wanted AND wanted <= above, '', '   more than a step off'))
FROM compared;
-- the last line is for reproduce.sh
SELECT total(ifnull(NOT (below <= wanted AND wanted <= above), 1)) FROM compared WHERE NOT known;
