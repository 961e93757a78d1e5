-- import.sql - finds the rows of the attached database `other` that are new here, and their ids
-- here. wanted (temp): the selected runs; the runs that replays among them repeat are added. Makes:
--	map         every ended run of these, and its id here; fresh: it is not here yet, or
--	            (older) its row here is from before it resumed from a checkpoint
--	superseded  rows here of these runs that another row has overtaken
--	calibrated  likewise, the calibrations that fresh runs were simulated with
--	named       baselines of these runs; held: their name is taken here
--	studied     studies that contain one of these runs, and their ids here; fresh: likewise
--	imported    one row, the summary: how many are new, here already, not ended, ...
-- The name of its checkpoints identifies a run, or otherwise its data where it was recorded.
-- Calibrations are the same if the columns that `calibrated` compares are equal.
INSERT OR IGNORE INTO wanted
WITH RECURSIVE needs(id) AS (
	SELECT id FROM wanted
	UNION SELECT sim_replay FROM other.run JOIN needs USING (id) WHERE sim_replay > 0)
SELECT id FROM needs JOIN other.run USING (id);

-- place: 1 = of the rows of one run, the one with most progress. state: 0 = failed, may resume;
-- 1 = ended, 2 = pending or running.
CREATE TEMP TABLE here AS
SELECT *, row_number() OVER (PARTITION BY key ORDER BY state DESC, resumed DESC, id) AS place
FROM (SELECT id, ifnull(checkpoint, json_array(ifnull(origin_id, id), host, pid, started, workload,
		strategy, seed)) AS key,
		iif(status IN ('pending', 'running'), 2, status <> 'failed') AS state,
		ifnull(resumed, 0) AS resumed
	FROM main.run);
CREATE INDEX temp.here_key ON here (key);
CREATE TEMP TABLE there AS
SELECT *, row_number() OVER (PARTITION BY key ORDER BY state DESC, resumed DESC, id) AS place
FROM (SELECT id, ifnull(checkpoint, json_array(ifnull(origin_id, id), host, pid, started, workload,
		strategy, seed)) AS key,
		status <> 'failed' AS state, ifnull(resumed, 0) AS resumed
	FROM other.run
	WHERE id IN (SELECT id FROM wanted) AND status NOT IN ('pending', 'running'));
CREATE INDEX temp.there_key ON there (key);

CREATE TEMP TABLE map (old INTEGER PRIMARY KEY, new INTEGER, fresh INTEGER, older INTEGER);
INSERT INTO map
SELECT id, new, place = 1 AND ifnull(older, 1), place = 1 AND ifnull(older, 0)
FROM (SELECT o.id, o.place, h.id AS new,
		h.state = 0 AND (h.state, h.resumed) < (o.state, o.resumed) AS older
	FROM there AS o LEFT JOIN here AS h ON h.key = o.key AND h.place = 1);
UPDATE map SET new = n.new
FROM (SELECT old, row_number() OVER (ORDER BY old)
		+ ifnull((SELECT max(seq) FROM main.sqlite_sequence WHERE name = 'run'), 0) AS new
	FROM map WHERE new IS NULL AND fresh) AS n
WHERE n.old = map.old;
UPDATE map SET new = first.new
FROM there AS o JOIN there AS f ON f.key = o.key AND f.place = 1
	JOIN map AS first ON first.old = f.id
WHERE map.new IS NULL AND o.id = map.old;

-- Older programs left such rows. A row that a baseline or a replay refers to is kept.
CREATE TEMP TABLE superseded AS
SELECT id FROM here
WHERE place > 1 AND state = 0 AND key IN (SELECT key FROM there)
	AND NOT EXISTS (SELECT 1 FROM main.baseline WHERE run_id = here.id)
	AND NOT EXISTS (SELECT 1 FROM main.run WHERE sim_replay = here.id);

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

CREATE TEMP TABLE studied AS
SELECT o.id AS old, ifnull(s.id, row_number() OVER (ORDER BY s.id IS NOT NULL, o.id)
		+ ifnull((SELECT max(seq) FROM main.sqlite_sequence
			WHERE name = 'study'), 0)) AS new,
	s.id IS NULL AS fresh
FROM other.study AS o LEFT JOIN main.study AS s USING (hash)
WHERE o.id IN (SELECT study_id FROM other.trial WHERE config_hash IN (
	SELECT config_hash FROM other.run WHERE id IN (SELECT old FROM map)));

CREATE TEMP TABLE imported AS
WITH counted AS (
	SELECT total(fresh AND NOT older) AS fresh, total(NOT fresh) AS same, total(older) AS older,
		(SELECT count(*) FROM wanted WHERE id NOT IN (SELECT old FROM map)) AS unended,
		(SELECT total(fresh) FROM calibrated) AS calibrations,
		(SELECT total(fresh) FROM studied) AS studies,
		(SELECT total(NOT held) FROM named) AS baselines,
		(SELECT total(held) FROM named) AS held
	FROM map)
SELECT printf('%d new run%s', fresh, iif(fresh = 1, '', 's'))
	|| iif(older, printf(', %d resumed since', older), '')
	|| iif(same, printf(', %d here already', same), '')
	|| iif(unended, printf(', %d not ended and left out', unended), '')
	|| iif(calibrations, printf(', %d calibration%s', calibrations,
		iif(calibrations = 1, '', 's')), '')
	|| iif(studies, printf(', %d stud%s', studies, iif(studies = 1, 'y', 'ies')), '')
	|| iif(baselines, printf(', %d baseline%s', baselines, iif(baselines = 1, '', 's')), '')
	|| iif(held, printf(', %d baseline%s left out: name taken', held,
		iif(held = 1, '', 's')), '') AS text
FROM counted;
