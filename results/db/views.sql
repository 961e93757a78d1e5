-- views.sql - views of single runs and of configurations. A comment in capitals between /* and */ is
-- replaced by a list that is made from runtime/config/run_options.def.

-- The core options of mvbench run: one row each.
--   name, column   as users type it, and in table run
--   place          the order in which help lists them
--   def            its default, as a column holds it
--   decides        1 = it is a part of a cell's identity (config_hash), unless it has its default
--   keyed          1 = it is a part of config_key: all that decide, except the seed, and where the
--                  run was made
--   stored         "given"; "used": the value that was used; "used if any": the same, or NULL;
--                  "simulation": NULL in real runs
--   label          its place in names of figures; below 0: in short names; 0 = in none
--   part           its part of short names, # stands for its value; '' = none
--   work           1 = compare_key contains it
--   trains         1 = the trained model depends on it
CREATE VIEW option_info AS
SELECT column1 AS name, column2 AS "column", column3 AS place, column4 AS type, column5 AS def,
	column6 AS decides, column7 AS keyed, column8 AS stored, column9 AS label,
	column10 AS part, column11 AS work, column12 AS trains
FROM (VALUES /* OPTION ROWS */);

-- The evaluations of runs: those after epochs (0: before training), and between them
-- (--eval-every). epochs and seconds: of training so far.
CREATE VIEW curve AS
SELECT run_id, epoch - 1 + iif(epoch, share, 1.0) AS epochs,
	(SELECT total(seconds) FROM epoch AS i
		WHERE i.run_id = e.run_id AND i.epoch BETWEEN 1 AND e.epoch) AS seconds,
	train_loss, train_accuracy, validation_loss, validation_accuracy, test_loss, test_accuracy
FROM epoch AS e
UNION ALL
SELECT run_id, epochs, seconds, train_loss, train_accuracy, validation_loss, validation_accuracy,
	test_loss, test_accuracy
FROM evaluation;

-- The figures of a run that are slow to compute: the columns of run_kept, in their order. A target is
-- reached at the crossing after which every later evaluation fulfils it; a crossing that does not last
-- does not count. Its time is on the straight line from the last evaluation that missed it to the
-- next. A loss that is not known missed it. Means and medians are over epochs >= 1. Of a last epoch that
-- is shorter, seconds and bytes are those of a whole epoch at its pace. They are scalar
-- subqueries on purpose: a query computes only the columns and the runs that it needs, and does not
-- read the whole table of epochs.
CREATE VIEW run_computed AS
SELECT
	r.id AS run_id,
	last.epoch AS epochs_done, last.test_accuracy,
	(SELECT max(test_accuracy) FROM epoch WHERE run_id = r.id AND epoch >= 1) AS best_test_accuracy,
	last.test_loss, last.train_loss, last.validation_loss, last.validation_accuracy,
	last.running_loss,
	(SELECT avg(seconds) FROM (
		SELECT seconds / share AS seconds, row_number() OVER (ORDER BY seconds / share) AS i,
			count(*) OVER () AS n
		FROM epoch WHERE run_id = r.id AND epoch >= 1 AND seconds IS NOT NULL)
		WHERE i IN ((n + 1) / 2, (n + 2) / 2)) AS epoch_seconds,
	(SELECT avg(seconds) FROM (
		SELECT seconds / share AS seconds, row_number() OVER (ORDER BY seconds / share) AS i,
			count(*) OVER () AS n
		FROM epoch WHERE run_id = r.id AND epoch >= 1 AND seconds IS NOT NULL
			AND ifnull(run_delay_s, 0) + ifnull(steal_s, 0) <= 0.1 * seconds)
		WHERE i IN ((n + 1) / 2, (n + 2) / 2)) AS quiet_epoch_seconds,
	(SELECT max(0, 1 - sum(run_delay_s + ifnull(steal_s, 0)) / nullif(sum(seconds), 0)) FROM epoch
		WHERE run_id = r.id AND epoch >= 1) AS cores_share,
	(SELECT sum(compute_s) / nullif(sum(seconds), 0) FROM epoch
		WHERE run_id = r.id AND epoch >= 1) AS compute_fraction,
	(SELECT sum(comm_s) / nullif(sum(seconds), 0) FROM epoch
		WHERE run_id = r.id AND epoch >= 1) AS comm_fraction,
	(SELECT sum(wait_s) / nullif(sum(seconds), 0) FROM epoch
		WHERE run_id = r.id AND epoch >= 1) AS wait_fraction,
	(SELECT sum(bytes_sent) / sum(share) FROM epoch WHERE run_id = r.id AND epoch >= 1) AS epoch_bytes,
	(SELECT max(peak_bytes) FROM epoch WHERE run_id = r.id AND epoch >= 1) AS peak_bytes,
	(SELECT avg(staleness_mean) FROM epoch WHERE run_id = r.id AND epoch >= 1)
		AS staleness_mean,
	(SELECT max(staleness_max) FROM epoch WHERE run_id = r.id AND epoch >= 1) AS staleness_max,
	(SELECT 1.0 * sum(dropped) / nullif(sum(pushes + dropped), 0) FROM epoch
		WHERE run_id = r.id AND epoch >= 1) AS dropped_fraction,
	(SELECT sum(seconds) FROM epoch WHERE run_id = r.id AND epoch >= 1) AS seconds_total,
	(WITH target AS MATERIALIZED (SELECT r.reached AS seconds)
		SELECT min(epoch) FROM target AS t CROSS JOIN (
			SELECT epoch, total(iif(epoch, seconds, 0)) OVER (ORDER BY epoch) AS so_far
			FROM epoch WHERE run_id = r.id)
		WHERE t.seconds <= (1 + 1e-12) * so_far) AS target_epoch,
	r.reached AS target_seconds,
	r.strategy/* PARTS OF NAMES */ AS config,
	json_array(iif(r.global_batch > 0, 'of all ' || r.global_batch, r.batch), r.params, r.train_size
		/* OPTIONS OF WORK */) AS compare_key,
	json_patch(json_patch(json_object(/* OPTION VALUES */,
		'hosts', iif(r.placement = '', '', r.hosts), 'network', ifnull(r.network, ''))),
		(SELECT json_group_object(
			CASE part WHEN 'strategy' THEN r.strategy
			WHEN 'optimizer' THEN r.optimizer WHEN 'codec' THEN r.codec ELSE r.workload END || '.' || name, value)
			FROM run_option WHERE run_id = r.id)) AS config_key
FROM (SELECT *, CASE WHEN target_accuracy > 0 OR target_loss > 0 THEN (
	SELECT ifnull(since + (seconds - since) * before / (before - above), seconds) FROM (
		SELECT *, lag(seconds) OVER w AS since, lag(above) OVER w AS before,
			lag(above >= 0) OVER w AS met, min(ifnull(above >= 0, 0)) OVER (w
				ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS lasts
		FROM (
			SELECT epochs, seconds, iif(run.target_loss > 0, run.target_loss - test_loss,
				test_accuracy - run.target_accuracy) AS above
			FROM ( -- as view curve, for one run
				SELECT epoch - 1 + iif(epoch, share, 1.0) AS epochs, test_loss, test_accuracy,
					total(iif(epoch, seconds, 0)) OVER (ORDER BY epoch) AS seconds
				FROM epoch WHERE run_id = run.id
				UNION ALL SELECT epochs, test_loss, test_accuracy, seconds
				FROM evaluation WHERE run_id = run.id))
		WINDOW w AS (ORDER BY epochs))
	WHERE lasts AND NOT ifnull(met, 0)) END AS reached FROM run) AS r
	LEFT JOIN epoch AS last ON last.run_id = r.id
		AND last.epoch = (SELECT max(epoch) FROM epoch WHERE run_id = r.id);

-- Keeps run_kept up to date: a change of a run's rows deletes its row, or computes it again.
CREATE TRIGGER run_changed AFTER UPDATE ON run BEGIN
	DELETE FROM run_kept WHERE run_id = OLD.id;
	INSERT INTO run_kept SELECT * FROM run_computed
	WHERE run_id = NEW.id AND NEW.status IN ('done', 'failed', 'diverged');
END;
/* TRIGGERS */

-- The figures of a run (run_computed): kept in run_kept, or computed now.
CREATE VIEW run_figures AS
SELECT * FROM run_kept
UNION ALL SELECT * FROM run_computed WHERE run_id NOT IN (SELECT run_id FROM run_kept);

-- One row for each run.
--   config          a short name, the same for all seeds: "asgd 4w+1s X=3 cuda sim"; it omits one
--                   worker without servers, X=1, cpu and mpi
--   config_key      a JSON object of every option except the seed, and of several machines and their
--                   network: equal for runs that differ only in the seed
--   compare_key     equal for runs whose epoch times may be compared: the same work on the same
--                   parts; with --batch that is weak scaling, with --global-batch strong
--   best_test_accuracy  the highest after an epoch of training, not of the model before it, nor of
--                   --eval-every; NULL = no epoch has ended
--   *_fraction      the share of the segment's seconds; what is missing to 1 is "other"
--   utilisation     compute_fraction, by the name that papers use
--   cores_share     the share of its core that a worker had when it could have computed, least of
--                   all workers; NULL = simulated, or not known
--   quiet_epoch_seconds  as epoch_seconds, of the epochs with a share of 0.9 or more
--   peak_bytes      the most that one worker sent in a step
--   staleness_mean  the mean of the epochs' means
--   dropped_fraction  the share of all pushes that came too late and were dropped
CREATE VIEW run_summary AS
SELECT
	r.id, r.status, r.reason, r.started, r.finished/* OPTION COLUMNS */,
	r.simulated_s, r.wall_s, r.events, r.calibration_id, r.model_hash, r.resumed,
	r.params, r.train_size, r.test_size, r.targets, r.oversubscribed, r.host, r.hosts, r.network,
	r.cpu, r.cores, r.gpu,
	r.config_hash, k.config, k.config_key, k.compare_key, k.epochs_done,
	k.test_accuracy, k.best_test_accuracy, k.test_loss, k.train_loss,
	k.validation_loss, k.validation_accuracy, k.running_loss,
	k.epoch_seconds, k.quiet_epoch_seconds, k.cores_share, r.train_size / nullif(k.epoch_seconds, 0) AS samples_per_second,
	k.compute_fraction, k.comm_fraction, k.wait_fraction, k.compute_fraction AS utilisation,
	k.epoch_bytes, k.peak_bytes, k.staleness_mean,
	k.staleness_max, k.dropped_fraction, k.seconds_total, k.target_epoch, k.target_seconds
FROM run AS r JOIN run_figures AS k ON k.run_id = r.id;

-- One row for each run with a target: the epoch, and the seconds of training, after which it was
-- reached for good (see run_computed). NULL = not reached; epoch 0 = by the model before training. target is a loss if figure is
-- 'test_loss'.
CREATE VIEW time_to_target AS
SELECT
	id AS run_id, label, status, workload, strategy, workers, sync_every, seed, config, config_key,
	iif(target_loss > 0, 'test_loss', 'test_accuracy') AS figure,
	iif(target_loss > 0, target_loss, target_accuracy) AS target, target_epoch AS epoch,
	target_seconds AS seconds
FROM run_summary
WHERE target_accuracy > 0 OR target_loss > 0;
-- The rows of time_to_target whose target is an accuracy.
CREATE VIEW time_to_accuracy AS
SELECT run_id, label, status, workload, strategy, workers, sync_every, seed, config, config_key,
	target, epoch, seconds
FROM time_to_target WHERE figure = 'test_accuracy';

-- The base of speed-ups: the time of an epoch of serial, the median over all its finished runs with
-- this compare_key, except those with --straggle, --speed or --pause. quiet_epoch_seconds: the same,
-- without busy epochs. Other strategies on one worker cannot be the base, because a parameter server
-- has a cost there, too.
CREATE VIEW serial_pace AS
WITH median_rank(n, low, coverage) AS (VALUES (0, 0, 0)), -- no intervals: their ranks need a scan of run
figure AS (
	SELECT compare_key AS number, column1 AS name, iif(column1 = 'quiet' AND NOT ifnull(oversubscribed, 0),
		quiet_epoch_seconds, epoch_seconds) AS x
	FROM run_summary CROSS JOIN (VALUES ('all'), ('quiet'))
	WHERE status = 'done' AND strategy = 'serial' AND epoch_seconds IS NOT NULL
		AND straggle = 0 AND speed = '' AND pause = ''),
/* MEDIANS */
SELECT a.number AS compare_key, a.mid AS epoch_seconds, a.n, q.mid AS quiet_epoch_seconds
FROM median AS a LEFT JOIN median AS q ON q.number = a.number AND q.name = 'quiet'
WHERE a.name = 'all';

-- One row for each configuration with finished runs: n of them, the median of their epoch times (of
-- configuration_summary), and how many times faster that is than serial. NULL = serial was not measured.
CREATE VIEW speedup AS
SELECT s.config_key, s.config, s.workload, s.strategy, s.workers, s.servers, s.sync_every,
	s.config_key ->> 'batch' AS batch, s.config_key ->> 'platform' AS platform,
	s.config_key ->> 'device' AS device, s.n, s.epoch_seconds, o.n AS base_n,
	o.epoch_seconds AS base_epoch_seconds, o.epoch_seconds / nullif(s.epoch_seconds, 0) AS speedup
FROM configuration_summary AS s LEFT JOIN serial_pace AS o USING (compare_key)
WHERE s.epoch_seconds IS NOT NULL;
