-- study.sql - the results of the trials of `mvbench tune`.

-- One row for each row of trial whose run has ended. If a cell was run again, its newest run that
-- ended by itself counts.
--   figure  of the last epoch, on the held-out rows: accuracy or loss, as the study's objective
--   cost    the same, the less the better: accuracies are negative; diverged or failed: infinite,
--           the worst
CREATE VIEW study_run AS
SELECT t.study_id, s.name AS study, s.objective, t.contestant, t.kind, t.number, t.options,
	t.config_hash, r.id AS run_id, r.workload, r.status, r.lr,
	iif(s.objective = 'accuracy', k.validation_accuracy, k.validation_loss) AS figure,
	CASE WHEN r.status <> 'done' THEN 9e999 WHEN s.objective = 'accuracy'
		THEN ifnull(-k.validation_accuracy, 9e999)
		ELSE ifnull(k.validation_loss, 9e999) END AS cost,
	k.test_accuracy, k.test_loss, k.epoch_seconds
FROM trial AS t JOIN study AS s ON s.id = t.study_id
	JOIN run AS r ON r.id = (SELECT id FROM run
		WHERE config_hash = t.config_hash AND status IN ('done', 'diverged', 'failed')
			AND NOT (status = 'failed' AND ifnull(reason, '') LIKE 'interrupted%')
		ORDER BY status = 'failed', id DESC LIMIT 1)
	JOIN run_figures AS k ON k.run_id = r.id;

-- The trials alone, with a finite value for each: one that diverged has the figure of the model before
-- training, or of the worst trial of its workload in the study, whichever is worse.
CREATE VIEW study_trial AS
WITH ended AS MATERIALIZED (
	SELECT u.*, (SELECT iif(u.objective = 'accuracy', -validation_accuracy, validation_loss)
		FROM epoch WHERE run_id = u.run_id AND epoch = 0) AS untrained
	FROM study_run AS u WHERE kind = 'trial'),
judged AS (
	SELECT *, max(iif(cost < 9e999, cost, NULL)) OVER (PARTITION BY study_id, workload) AS worst
	FROM ended)
SELECT study_id, study, objective, contestant, number, options, run_id, workload, status, lr, cost,
	cost = 9e999 AS lost,
	iif(objective = 'accuracy', -1, 1) * iif(cost < 9e999, cost,
		max(ifnull(worst, untrained), ifnull(untrained, worst))) AS value
FROM judged;

-- The best trial of each configuration of a study, the first of equals; none if all are lost.
--   edge  options whose value in it is the least or the greatest of all values that were tried:
--         better ones may lie beyond. NULL = none
CREATE VIEW study_best AS
WITH ranked AS MATERIALIZED (
	SELECT *, row_number() OVER w AS place,
		count(*) OVER (PARTITION BY study_id, contestant) AS trials,
		total(cost = 9e999) OVER (PARTITION BY study_id, contestant) AS lost
	FROM study_run WHERE kind = 'trial'
	WINDOW w AS (PARTITION BY study_id, contestant ORDER BY cost, number)),
tried AS MATERIALIZED (
	SELECT study_id, contestant, key, min(value) AS low, max(value) AS high
	FROM study_run CROSS JOIN json_each(options)
	WHERE kind = 'trial' AND type IN ('integer', 'real')
	GROUP BY study_id, contestant, key)
SELECT study_id, contestant, number, run_id, options, figure, trials, CAST(lost AS INTEGER) AS lost,
	(SELECT group_concat(e.key || iif(e.value = t.low, ' low', ' high'), ', ')
		FROM json_each(r.options) AS e JOIN tried AS t ON t.study_id = r.study_id
			AND t.contestant = r.contestant AND t.key = e.key
		WHERE e.value IN (t.low, t.high)) AS edge
FROM ranked AS r WHERE place = 1 AND cost < 9e999;

-- The report of a study: two rows for each of its configurations, with the options of the best of
-- its trials ('tuned') and with those of the job file alone ('default'). Each was run again with
-- seeds that no trial had. Medians, and the intervals of median_rank.
--   n, diverged, failed  runs that ended, and of these, those that diverged and those that failed:
--                both count as the worst of all; an infinite figure is therefore that of such a run
--   coverage     probability that an interval holds the median
--   the rest     of the best trial: its options, its validation figure, the number of trials
CREATE VIEW study_result AS
WITH again AS MATERIALIZED (
	SELECT *, dense_rank() OVER (ORDER BY study_id, contestant, kind) AS place,
		max(test_accuracy) OVER (PARTITION BY study_id, workload) IS NOT NULL AS classifies
	FROM study_run WHERE kind <> 'trial'),
figure AS (
	SELECT place AS number, m.column1 AS name, CASE m.column1
			WHEN 'accuracy'
				THEN iif(status = 'done', test_accuracy, iif(classifies, -9e999, NULL))
			WHEN 'loss' THEN iif(status = 'done', test_loss, 9e999)
			ELSE iif(status = 'done', epoch_seconds, NULL) END AS x
	FROM again CROSS JOIN (VALUES ('accuracy'), ('loss'), ('seconds')) AS m),
/* MEDIANS */,
counted AS MATERIALIZED (
	SELECT place AS number, study_id, study, contestant, kind, workload, objective, count(*) AS n,
		CAST(total(status = 'diverged') AS INTEGER) AS diverged,
		CAST(total(status = 'failed') AS INTEGER) AS failed
	FROM again GROUP BY place)
SELECT c.study_id, c.study, c.workload, c.contestant, c.kind, c.n, c.diverged, c.failed,
	a.mid AS test_accuracy, a.low AS test_accuracy_low, a.high AS test_accuracy_high,
	l.mid AS test_loss, l.low AS test_loss_low, l.high AS test_loss_high, l.coverage,
	s.mid AS epoch_seconds,
	b.trials, b.lost AS trials_lost, b.number AS trial, c.objective, b.figure AS validation,
	(SELECT group_concat(key || '=' || atom, ' ') FROM json_each(b.options)) AS chosen, b.edge
FROM counted AS c
	LEFT JOIN median AS a ON a.number = c.number AND a.name = 'accuracy'
	LEFT JOIN median AS l ON l.number = c.number AND l.name = 'loss'
	LEFT JOIN median AS s ON s.number = c.number AND s.name = 'seconds'
	LEFT JOIN study_best AS b ON b.study_id = c.study_id AND b.contestant = c.contestant
		AND c.kind = 'tuned'
ORDER BY c.study_id, c.workload, c.contestant, c.kind DESC;
