-- style.sql - the data of all figures. plot.c runs it before NAME.sql, in a temporary
-- schema, after names.sql. Tables run_summary and finished are there, of the runs that --where
-- matches. finished (results/db/statistics.sql) decides which runs count, for tables and figures.
--
-- A figure's query gives rows of (workload, title, then numbers). Each workload has a picture and each title a
-- block of data, in the order of the rows. A block without a number in its first row is counted as left out. A
-- column named look is not drawn: it is the line type of the block, look[i] in NAME.gp (without it: i).

CREATE TEMP TABLE chosen AS SELECT id FROM run_summary;

CREATE TEMP TABLE room AS SELECT 60 AS blocks; -- at most in a picture: more lines are not readable

-- The colour of each strategy. Those of mvbench have their place in this list, so other runs do not change it; the
-- rest follow by name. There are seven colours: 0 and 7 are equal.
CREATE TEMP TABLE hue AS
WITH built AS (
	SELECT value AS strategy, key AS place FROM json_each('["allreduce", "asgd", "model_parallel", "periodic", "serial",
		"bsp", "easgd", "downpour", "gossip", "ssp", "adasum", "sparta", "hybrid", "adpsgd"]'))
SELECT strategy, ifnull(place, (SELECT count(*) FROM built) - 1
	+ row_number() OVER (PARTITION BY place IS NULL ORDER BY strategy)) AS colour
FROM (SELECT DISTINCT strategy FROM run) LEFT JOIN built USING (strategy);

-- One row for each configuration with finished runs that were chosen.
--   number  in table finished
--   name    as tables have it (table title of results/ask/names.sql)
--   series  the same without the number of workers
--   title   the name without what heads the picture, and the number of runs if they differ: "asgd 4w X=3 (n=3)",
--           "(n=4, 3 seeds)"
--   cut     the name without what heads the picture; series, too, is without it
--   repeats 1 = shared has the number of runs
--   shared  what all names of the workload have in common: ", sim:ethernet_1g, n = 3"
--   n, seeds, samples, times  runs; different seeds; runs whose accuracy and losses count; whose times count
--   place   in the order of the figures; unique
--   is_loss no run of this workload has an accuracy: figures show its loss
--   fits    a picture has room for it
--   look    its line type in all figures, one of 1344: colour (k - 1) % 7 for its strategy, dash (k - 1) / 84 % 4 for
--           its interval, shade (k - 1) / 336 and marker (k - 1) % 12, which tell apart those of a strategy. If all
--           have one strategy, colours differ in place of shades.
CREATE TEMP TABLE configuration AS
WITH counted AS MATERIALIZED (
	SELECT number, min(id) AS one, max(f.compare_key) AS compare_key, count(*) AS n, count(DISTINCT f.seed) AS seeds,
		total(repeat = 1) AS samples, total(timed) AS times, max(s.test_accuracy) AS accuracy
	FROM finished AS f CROSS JOIN run_summary AS s USING (id) WHERE f.status = 'done' GROUP BY number),
kind AS (
	SELECT k.*, t.workload, t.config, t.configuration AS name, t.series AS its_series, s.strategy, s.workers, s.servers,
		s.sync_every, s.platform, s.config_key, row_number() OVER (ORDER BY t.workload, s.workers, s.strategy,
			s.servers, s.sync_every, k.one) AS place
	FROM counted AS k CROSS JOIN run_summary AS s ON s.id = k.one JOIN title AS t ON t.config_key = s.config_key),
alike AS (
	SELECT workload, max(n) = min(n) AND max(seeds < n) = 0 AND max(n) > 1 AS repeats, max(n) AS most,
		iif(max(platform) = 'sim' AND min(platform) = 'sim' AND max(config_key ->> 'sim_platform')
			= min(config_key ->> 'sim_platform'), ' sim:' || max(config_key ->> 'sim_platform'), '') AS simulated
	FROM kind GROUP BY workload),
turn AS (
	SELECT k.*, rtrim(replace(its_series || ' ', simulated || ' ', ' ')) AS series,
		rtrim(replace(name || ' ', simulated || ' ', ' ')) AS cut, repeats, most,
		iif(simulated = '', '', ',' || simulated) || iif(repeats, ', n = ' || most, '') AS shared,
		max(accuracy) OVER w IS NULL AS is_loss,
		row_number() OVER (w ORDER BY place) <= (SELECT blocks FROM room) AS fits,
		row_number() OVER (w ORDER BY place) - 1 AS turn,
		h.colour AS s,
		(dense_rank() OVER (ORDER BY sync_every) - 1) % 4 AS dash
	FROM kind AS k JOIN alike USING (workload) JOIN hue AS h USING (strategy) WINDOW w AS (PARTITION BY workload)),
marked AS (
	SELECT *, cut || iif(most > 1 AND NOT repeats, ' (n=' || n || iif(seeds = n, '', ', ' || seeds
			|| iif(seeds = 1, ' seed', ' seeds')) || ')', '') AS title,
		iif(min(s) OVER () = max(s) OVER (), s + turn, s) AS colour,
		iif(min(s) OVER () = max(s) OVER (), turn, s % 7 + row_number() OVER (PARTITION BY workload, s % 7 ORDER BY place)
			- 1) AS marker,
		iif(min(s) OVER () = max(s) OVER (), 0, row_number() OVER (PARTITION BY workload, s, sync_every ORDER BY place)
			- 1) % 4 AS shade
	FROM turn)
SELECT *, 1 + (36 * colour + 49 * marker) % 84 + 84 * dash + 336 * shade AS look
FROM marked ORDER BY place;

-- One row for each of their finished runs. sample: 1 = its accuracy and its losses count; timed: its times count.
CREATE TEMP TABLE selected AS
SELECT f.id, f.seed, f.repeat = 1 AS sample, f.timed, c.*
FROM configuration AS c JOIN finished AS f USING (number) WHERE f.status = 'done';
CREATE INDEX temp.selected_place ON selected (place);

-- The chosen runs of these configurations that diverged and count, after their last epoch.
CREATE TEMP TABLE lost_run AS
SELECT s.id, c.place, c.is_loss, c.fits, (SELECT max(epoch - 1 + share) FROM epoch WHERE run_id = s.id) AS last
FROM finished AS f CROSS JOIN run_summary AS s USING (id) JOIN configuration AS c ON c.config_key = s.config_key
WHERE s.status = 'diverged' AND f.repeat = 1;

-- Their medians and intervals: those that tables show.
CREATE TEMP TABLE summary AS SELECT * FROM configuration_summary;

-- The name of intervals in a key: with fewer than six runs their coverage is below 95 %. No row without
-- repeats. runs: intervals of times are over the runs that are 'done'; all others are over those that 'ended',
-- which include runs that diverged.
CREATE TEMP VIEW interval_name AS
WITH sample AS (
	SELECT workload, 'done' AS runs, CAST(times AS INTEGER) AS n FROM configuration
	UNION ALL SELECT workload, 'ended',
		CAST(samples AS INTEGER) + (SELECT count(*) FROM lost_run AS l WHERE l.place = c.place)
	FROM configuration AS c)
SELECT workload, runs, iif(min(r.coverage) >= 0.95, '95 % interval', printf(
	iif(max(r.coverage) < 0.95, 'min to max (%.3g %%%s)', 'interval (%.3g %%%s)'),
		100 * min(r.coverage),
	iif(min(r.coverage) < max(r.coverage), ' or more', ''))) AS text
FROM sample JOIN median_rank AS r USING (n) WHERE n > 1 GROUP BY workload, runs;

-- One row for each run: the quality after its last epoch (see view quality). NULL = it does not count.
CREATE TEMP VIEW outcome AS
SELECT s.id, s.place, s.seed, iif(s.is_loss, f.test_loss, 100 * f.test_accuracy) AS value
FROM selected AS s CROSS JOIN finished AS f USING (id);

-- Epochs >= 1 of the configurations that fit.
CREATE TEMP VIEW fitting AS
SELECT s.place, s.is_loss, s.sample, s.timed, e.*
FROM selected AS s CROSS JOIN epoch AS e ON e.run_id = s.id
WHERE e.epoch >= 1 AND s.place IN (SELECT place FROM configuration WHERE fits);
-- The same, with evaluations between the ends of epochs, whose epoch is a fraction.
CREATE TEMP VIEW fitting_curve AS
SELECT place, is_loss, sample, timed, epoch - 1 + share AS epoch, sum(seconds) OVER (PARTITION BY run_id ORDER BY epoch) AS so_far,
	train_loss, test_loss, test_accuracy
FROM fitting
UNION ALL
SELECT s.place, s.is_loss, s.sample, s.timed, e.epochs, e.seconds, e.train_loss, e.test_loss, e.test_accuracy
FROM selected AS s CROSS JOIN evaluation AS e ON e.run_id = s.id
WHERE s.place IN (SELECT place FROM configuration WHERE fits);

-- The same for runs that diverged: from its last epoch on, such a run is worse than all others.
CREATE TEMP VIEW lost AS
SELECT r.place, t.epoch, CASE WHEN t.epoch >= r.last THEN iif(r.is_loss, 9e999, -9e999)
		WHEN r.is_loss THEN ifnull(e.test_loss, v.test_loss)
		ELSE 100 * ifnull(e.test_accuracy, v.test_accuracy) END AS quality,
	iif(t.epoch < r.last, ifnull(e.train_loss, v.train_loss), 9e999) AS loss
FROM lost_run AS r CROSS JOIN (
		SELECT s.place, e.epoch - 1 + e.share AS epoch FROM selected AS s CROSS JOIN epoch AS e ON e.run_id = s.id
		WHERE e.epoch >= 1 AND s.place IN (SELECT place FROM lost_run WHERE fits)
		UNION SELECT s.place, v.epochs
		FROM selected AS s CROSS JOIN evaluation AS v ON v.run_id = s.id
		WHERE s.place IN (SELECT place FROM lost_run WHERE fits)) AS t ON t.place = r.place
	LEFT JOIN epoch AS e ON e.run_id = r.id AND e.epoch - 1 + e.share = t.epoch
	LEFT JOIN evaluation AS v ON v.run_id = r.id AND v.epochs = t.epoch;

-- The worst values of workloads with runs that diverged, one row for each workload. An end of an interval that is
-- a diverged run is drawn there.
CREATE TEMP VIEW worst AS
SELECT s.workload, min(100 * e.test_accuracy) AS accuracy, max(e.test_loss) AS loss,
	max(e.train_loss) AS train_loss
FROM selected AS s CROSS JOIN epoch AS e ON e.run_id = s.id AND e.epoch >= 1
WHERE s.workload IN (SELECT workload FROM configuration JOIN lost_run USING (place))
GROUP BY s.workload;

-- The quality of a model, one row for each configuration and epoch >= 1: its accuracy [%], or the loss of a
-- task without accuracy. A configuration that does not fit has one row without numbers. There is no row where
-- the median is a run that diverged. One run is its own interval.
CREATE TEMP VIEW quality AS
WITH figure AS (
	SELECT place AS number, epoch AS name, iif(is_loss, test_loss, 100 * test_accuracy) AS x
	FROM fitting_curve WHERE sample
	UNION ALL SELECT place, epoch, quality FROM lost),
/* MEDIANS */
SELECT workload, place, title, m.name AS epoch, mid AS median, iif(low = -9e999, w.accuracy, ifnull(low, mid)) AS low,
	iif(high = 9e999, w.loss, ifnull(high, mid)) AS high, is_loss, look
FROM median AS m JOIN configuration ON place = m.number LEFT JOIN worst AS w USING (workload)
WHERE abs(mid) < 9e999
UNION ALL
SELECT workload, place, title, NULL, NULL, NULL, NULL, NULL, look FROM configuration WHERE NOT fits;

-- The same after the last epoch, of all configurations.
CREATE TEMP VIEW final AS
SELECT workload, place, title, mid AS median, iif(low = -9e999, w.accuracy, ifnull(low, mid)) AS low,
	iif(high = 9e999, w.loss, ifnull(high, mid)) AS high, is_loss, look
FROM (SELECT c.*, iif(is_loss, s.test_loss, 100 * s.test_accuracy) AS mid,
		iif(is_loss, s.test_loss_low, 100 * s.test_accuracy_low) AS low,
		iif(is_loss, s.test_loss_high, 100 * s.test_accuracy_high) AS high
	FROM configuration AS c JOIN summary AS s USING (number)) LEFT JOIN worst AS w USING (workload)
WHERE abs(mid) < 9e999;

-- The seconds of training up to the end of each epoch, in the same way as quality.
CREATE TEMP VIEW elapsed AS
WITH figure AS (SELECT place AS number, epoch AS name, so_far AS x FROM fitting_curve WHERE timed),
/* MEDIANS */
SELECT workload, place, title, m.name AS epoch, mid AS median, ifnull(low, mid) AS low, ifnull(high, mid) AS high, look
FROM median AS m JOIN configuration ON place = m.number
UNION ALL
SELECT workload, place, title, NULL, NULL, NULL, NULL, look FROM configuration WHERE NOT fits;

-- One row for each configuration: the median of its runs' seconds per epoch, and its interval.
CREATE TEMP VIEW pace AS
SELECT c.*, s.epoch_seconds AS seconds, ifnull(s.epoch_seconds_low, s.epoch_seconds) AS low,
	ifnull(s.epoch_seconds_high, s.epoch_seconds) AS high
FROM configuration AS c JOIN summary AS s USING (number) WHERE s.epoch_seconds > 0;

-- The same for configurations with several workers and a serial counterpart, if their numbers of workers differ;
-- one: the seconds of serial.
CREATE TEMP VIEW scaling AS
SELECT * FROM (
	SELECT p.workload, p.place AS configuration, p.workers, p.seconds, p.low, p.high, o.epoch_seconds AS one,
		p.series || iif(max(p.n) OVER w > 1 AND NOT repeats, iif(min(p.n) OVER w = max(p.n) OVER w,
			' (n=' || p.n || ')', ' (n=' || min(p.n) OVER w || '..' || max(p.n) OVER w || ')'), '')
			AS title,
		min(p.place) OVER w AS place, max(p.workers) OVER w AS most, first_value(p.look) OVER (w ORDER BY p.place) AS look,
		min(iif(p.strategy = 'serial', NULL, p.workers)) OVER v < max(p.workers) OVER v AS several
	FROM pace AS p JOIN serial_pace AS o USING (compare_key)
	WINDOW w AS (PARTITION BY p.workload, p.series), v AS (PARTITION BY p.workload))
WHERE most > 1 AND several;

-- The configurations that pushed to a parameter server. fits: a picture of these only has room for it.
CREATE TEMP VIEW pushing AS
SELECT place, workload, title, look,
	row_number() OVER (PARTITION BY workload ORDER BY place) <= (SELECT blocks FROM room) AS fits
FROM configuration WHERE place IN (SELECT s.place FROM selected AS s
	WHERE EXISTS (SELECT 1 FROM epoch AS e
		WHERE e.run_id = s.id AND e.epoch >= 1 AND e.staleness_mean IS NOT NULL));

-- The trials of mvbench tune; of several studies of a workload those of the newest. section: the picture's workload.
CREATE TEMP VIEW studied AS
WITH one AS MATERIALIZED (
	SELECT workload, max(study_id) AS study_id FROM study_trial WHERE run_id IN (SELECT id FROM chosen)
	GROUP BY workload),
ranked AS (
	SELECT t.*, h.colour, dense_rank() OVER (PARTITION BY t.workload ORDER BY contestant) - 1 AS marker,
		dense_rank() OVER (PARTITION BY t.workload, h.colour ORDER BY contestant) - 1 AS shade
	FROM study_trial AS t JOIN one USING (workload, study_id) JOIN run AS r ON r.id = t.run_id JOIN hue AS h USING (strategy))
SELECT *, ifnull((SELECT s.workload FROM run_summary AS s WHERE s.id = run_id), workload) AS section,
	1 + (36 * colour + 49 * marker) % 84 + 336 * (shade % 4) AS look
FROM ranked;

-- The text below a picture about runs that it leaves out.
CREATE TEMP VIEW footnote AS
SELECT workload, iif(count(*) = 1, 'One run', count(*) || ' runs')
	|| ' diverged: counted as the worst; what is among them is not drawn.' AS text
FROM finished WHERE status = 'diverged' AND repeat = 1
GROUP BY workload;

-- The data of figure xy (--x, --y and --group; axes.c): one row for each run, with its line (series) and the runs
-- that share its point (spot). lined: points are joined; log: of --log.
CREATE TEMP TABLE point (workload TEXT, series TEXT, spot, x, y, look INTEGER, place INTEGER);
CREATE TEMP TABLE axes (x_label TEXT, y_label TEXT, log TEXT, lined INTEGER);

-- The data of figure history (results/ask/history.c): one row for each commit of a configuration, whose key here
-- has no label. Where the level of the fit steps: by how much [% or points], and whether it is better.
CREATE TEMP TABLE past (config_key TEXT, git_commit TEXT, started TEXT, median, low, high, level, step, better,
	y_label TEXT);
