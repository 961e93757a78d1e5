-- import.sql - which rows of the attached database `other` are new here, and their ids here. wanted
-- (temp): the runs asked for; it gets those, too, that simulations among them repeated. Then:
--	map         every run of these that has ended, and its id here; fresh: it is not here yet
--	calibrated  likewise, the calibrations that fresh runs were simulated with
--	named       baselines of these runs; held: their name is taken here
--	imported    one row, what is said of them: how many are new, here already, not ended, ...
-- A run is known by what it was where it was recorded; of calibrations, what is equal in everything
-- is the same.
INSERT OR IGNORE INTO wanted
WITH RECURSIVE needs(id) AS (
	SELECT id FROM wanted
	UNION SELECT sim_replay FROM other.run JOIN needs USING (id) WHERE sim_replay > 0)
SELECT id FROM needs JOIN other.run USING (id);

CREATE TEMP TABLE here AS
SELECT id, json_array(ifnull(origin_id, id), host, pid, started, workload, strategy, seed) AS key
FROM main.run;
CREATE INDEX temp.here_key ON here (key);

CREATE TEMP TABLE map (old INTEGER PRIMARY KEY, new INTEGER, fresh INTEGER);
INSERT INTO map
SELECT o.id, (SELECT min(h.id) FROM here AS h WHERE h.key = json_array(ifnull(o.origin_id, o.id),
	o.host, o.pid, o.started, o.workload, o.strategy, o.seed)), 0
FROM other.run AS o
WHERE o.id IN (SELECT id FROM wanted) AND o.status NOT IN ('pending', 'running');
UPDATE map SET fresh = 1, new = n.new
FROM (SELECT old, row_number() OVER (ORDER BY old)
		+ ifnull((SELECT max(seq) FROM main.sqlite_sequence WHERE name = 'run'), 0) AS new
	FROM map WHERE new IS NULL) AS n
WHERE n.old = map.old;

CREATE TEMP TABLE calibrated (old INTEGER PRIMARY KEY, new INTEGER, fresh INTEGER);
INSERT INTO calibrated
SELECT o.id, (SELECT min(c.id) FROM main.calibration AS c
	WHERE c.host IS o.host
		AND (c.made, c.workload, c.workload_options, c.batch, c.device, c.precision,
			c.threads, c.workers, c.params)
		= (o.made, o.workload, o.workload_options, o.batch, o.device, o.precision,
			o.threads, o.workers, o.params)), 0
FROM other.calibration AS o
WHERE o.id IN (SELECT calibration_id FROM other.run WHERE id IN (SELECT old FROM map WHERE fresh));
UPDATE calibrated SET fresh = 1, new = n.new
FROM (SELECT old, row_number() OVER (ORDER BY old)
		+ ifnull((SELECT max(seq) FROM main.sqlite_sequence
			WHERE name = 'calibration'), 0) AS new
	FROM calibrated WHERE new IS NULL) AS n
WHERE n.old = calibrated.old;

CREATE TEMP TABLE named AS
SELECT DISTINCT name, EXISTS (SELECT 1 FROM main.baseline AS b WHERE b.name = o.name) AS held
FROM other.baseline AS o WHERE o.run_id IN (SELECT old FROM map);

CREATE TEMP TABLE imported AS
WITH counted AS (
	SELECT total(fresh) AS fresh, total(NOT fresh) AS same,
		(SELECT count(*) FROM wanted WHERE id NOT IN (SELECT old FROM map)) AS unended,
		(SELECT total(fresh) FROM calibrated) AS calibrations,
		(SELECT total(NOT held) FROM named) AS baselines,
		(SELECT total(held) FROM named) AS held
	FROM map)
SELECT printf('%d new run%s', fresh, iif(fresh = 1, '', 's'))
	|| iif(same, printf(', %d here already', same), '')
	|| iif(unended, printf(', %d not ended and left out', unended), '')
	|| iif(calibrations, printf(', %d calibration%s', calibrations,
		iif(calibrations = 1, '', 's')), '')
	|| iif(baselines, printf(', %d baseline%s', baselines, iif(baselines = 1, '', 's')), '')
	|| iif(held, printf(', %d baseline%s of a name that is taken left out', held,
		iif(held = 1, '', 's')), '') AS text
FROM counted;
