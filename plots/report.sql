-- report.sql - the data of `mvbench report`, in the connection's temporary schema. It runs after style.sql:
-- run_summary has the runs, title their names.

-- One row for each run.
--   name     of its configuration, as in the figures
--   machine  the machine that it ran on; simulated runs have "simulated"
CREATE TEMP TABLE report_run AS
SELECT s.*, t.configuration AS name, r.driver, r.mpi, r.onednn, r.cuda, r.git_commit, r.git_dirty, r.origin, r.origin_id,
	iif(r.platform = 'sim', 'simulated', ifnull(r.host, 'unknown') || ifnull(', ' || r.cpu, '')
		|| ifnull(', ' || r.cores || iif(r.cores = 1, ' core', ' cores'), '') || ifnull(', ' || r.gpu, ''))
		AS machine,
	iif(r.platform = 'sim', 'simulated', ifnull(r.host, '')) AS at, l.lacks
FROM run_summary AS s JOIN title AS t USING (config_key) JOIN run AS r USING (id) LEFT JOIN lacking AS l USING (id);

-- One row for each configuration; place is its number on the page. The medians, and the runs that they are of, are those
-- of `mvbench table`. The time to a target that half of the runs missed is infinite.
CREATE TEMP TABLE report_configuration AS
WITH grouped AS (
	SELECT g.config_key, max(g.compare_key) AS compare_key, g.workload, g.strategy, g.workers,
		g.servers, g.sync_every, g.name,
		max(g.params) AS params, max(g.train_size) AS train_size,
		max(g.target_accuracy) AS target_accuracy, max(g.target_loss) AS target_loss,
		count(*) AS runs, min(id) AS first,
		count(*) FILTER (WHERE lacks = 'failed') AS failed,
		count(*) FILTER (WHERE lacks = 'unfinished') AS unfinished,
		ifnull(min(id) FILTER (WHERE status = 'done'), min(id)) AS example -- run whose command is shown
	FROM report_run AS g GROUP BY g.config_key),
base AS MATERIALIZED (SELECT compare_key, epoch_seconds FROM serial_pace)
SELECT row_number() OVER (ORDER BY g.workload, g.workers, g.strategy, g.servers, g.sync_every, g.first) AS place,
	g.*, ifnull(s.n, 0) AS n, ifnull(s.diverged, 0) AS diverged,
	(SELECT mark FROM held AS h WHERE h.config_key = g.config_key AND h.name = 'test_accuracy') AS accuracy_mark,
	(SELECT mark FROM held AS h WHERE h.config_key = g.config_key AND h.name = 'epoch_seconds') AS seconds_mark,
	s.test_accuracy AS accuracy, s.test_accuracy_low AS accuracy_low, s.test_accuracy_high AS accuracy_high,
	s.test_loss AS loss, s.test_loss_low AS loss_low, s.test_loss_high AS loss_high,
	s.epoch_seconds AS seconds, s.epoch_seconds_low AS seconds_low, s.epoch_seconds_high AS seconds_high,
	b.epoch_seconds / nullif(s.epoch_seconds, 0) AS speedup, s.samples_per_second AS pace,
	iif(g.workers + g.servers > 1 AND s.epoch_seconds IS NOT NULL,
		ifnull(s.comm_fraction, 0) + ifnull(s.wait_fraction, 0), NULL) AS comm,
	s.staleness_mean AS stale, iif(reached + missed, ifnull(s.time_to_accuracy, 9e999), NULL) AS target,
	iif(reached + missed > 1, ifnull(s.time_to_accuracy_low, 9e999), NULL) AS target_low,
	iif(reached + missed > 1, ifnull(s.time_to_accuracy_high, 9e999), NULL) AS target_high,
	printf('%d of %d runs finished', s.n, runs) || CASE
		WHEN s.n > 0 AND g.target_accuracy > 0 THEN printf('; %d reached %.4g %%', reached, 100 * g.target_accuracy)
		WHEN s.n > 0 AND g.target_loss > 0 THEN printf('; %d reached a loss of %.4g', reached, g.target_loss)
		ELSE '' END AS summary,
	nullif(ltrim(iif(failed, ', <span class="bad">' || failed || ' failed</span>', '')
		|| iif(diverged, ', <span class="bad">' || diverged || ' diverged</span>', '')
		|| iif(unfinished, ', <span class="bad">' || unfinished || ' unfinished</span>', ''), ', '), '') AS misses
FROM grouped AS g LEFT JOIN configuration_summary AS s ON s.config_key = g.config_key
	LEFT JOIN base AS b ON b.compare_key = g.compare_key;
CREATE INDEX temp.report_run_of ON report_run (config_key, id);
CREATE UNIQUE INDEX temp.report_id ON report_run (id);
CREATE UNIQUE INDEX temp.report_place ON report_configuration (place);

-- Warnings about the numbers, one message in each row, the most serious first.
CREATE TEMP VIEW report_warning AS
SELECT 1 AS place, format('%d of %d runs failed: %s. The reasons are listed with the configurations.',
	count(*) FILTER (WHERE lacks = 'failed'), count(*),
	(SELECT group_concat(name, '; ') FROM (SELECT name || ' (' || failed || ')' AS name
		FROM report_configuration WHERE failed ORDER BY failed DESC, place LIMIT 5))) AS text
FROM report_run HAVING count(*) FILTER (WHERE lacks = 'failed')
UNION ALL SELECT 2, format('%d of %d runs diverged: %s. They count as worse than all others.',
	count(*) FILTER (WHERE lacks = 'diverged'), count(*),
	(SELECT group_concat(name, '; ') FROM (SELECT name || ' (' || diverged || ')' AS name
		FROM report_configuration WHERE diverged ORDER BY diverged DESC, place LIMIT 5)))
FROM report_run HAVING count(*) FILTER (WHERE lacks = 'diverged')
UNION ALL SELECT 3, format('%d run%s pending, running or interrupted: counted, but in no figure.', count(*),
	iif(count(*) = 1, ' is', 's are'))
FROM report_run WHERE lacks = 'unfinished' HAVING count(*)
UNION ALL SELECT 4, format('%s was measured on %d machines (%s): accuracies can be compared, times cannot.',
	workload, count(DISTINCT machine), replace(group_concat(DISTINCT ifnull(host, 'unknown')), ',', ', '))
FROM report_run WHERE status = 'done' AND platform <> 'sim'
GROUP BY workload HAVING count(DISTINCT machine) > 1
UNION ALL SELECT 5, format('%d run%s oversubscribed, with more processes than cores, or than GPUs: their times are unreliable.',
	count(*), iif(count(*) = 1, ' was', 's were'))
FROM report_run WHERE oversubscribed AND platform <> 'sim' AND status = 'done' HAVING count(*)
UNION ALL SELECT 6, format('%d of %s%d run%s had less than 90 %% of their cores, as other programs used them: '
	|| 'their times are unreliable.', count(*) FILTER (WHERE cores_share < 0.9), iif((SELECT max(oversubscribed)
		FROM report_run WHERE platform <> 'sim' AND status = 'done'), 'the other ', ''), count(*), iif(count(*) = 1, '', 's'))
FROM report_run WHERE platform <> 'sim' AND status = 'done' AND NOT ifnull(oversubscribed, 0)
	HAVING count(*) FILTER (WHERE cores_share < 0.9)
UNION ALL SELECT 7, format('%d run%s recorded by a modified program, which the commit does not identify.', count(*),
	iif(count(*) = 1, ' was', 's were'))
FROM report_run WHERE git_dirty HAVING count(*)
UNION ALL SELECT 8, format('The runs come from %d versions of mvbench; see provenance.', count(DISTINCT git_commit))
FROM report_run HAVING count(DISTINCT git_commit) > 1
UNION ALL SELECT 9, format('%d of %d configurations have fewer than three finished runs: repeat with other seeds '
	|| 'to see the variation.', count(*) FILTER (WHERE n < 3), count(*))
FROM report_configuration HAVING count(*) FILTER (WHERE n < 3);

CREATE TEMP VIEW report_fact AS
SELECT 'runs' AS name, count(*) AS value FROM report_run
UNION ALL SELECT 'configurations', count(*) FROM report_configuration
UNION ALL SELECT 'first started', min(started) FROM report_run
UNION ALL SELECT 'last finished', max(finished) FROM report_run
UNION ALL SELECT 'measured on', group_concat(machine, '; ')
FROM (SELECT DISTINCT machine FROM report_run ORDER BY machine LIMIT 8);

-- How configurations compare with their controls: a difference with its interval, and the number of seeds that would
-- decide.
CREATE TEMP TABLE report_held AS
SELECT config_key, name, mark, versus, wanted_text, nullif(iif(difference IS NULL, '', number || iif(low = high, ' (exact)', iif(
		low IS NULL, '', ' (' || printf(form, low) || '..' || printf(form, high) || ')'))) || ifnull(', ' || wanted_text, ''), '')
	AS text, number, form, low, high
FROM (SELECT *, printf(form || unit, scale * difference) AS number, scale * difference_low AS low,
		scale * difference_high AS high
	FROM held CROSS JOIN (SELECT column1 AS figure, column2 AS form, column3 AS unit, column4 AS scale
		FROM (VALUES ('test_accuracy', '%+.2f', ' points', 100), ('test_loss', '%+.4f', '', 1),
			('epoch_seconds', '%+.1f', ' %%', 100))) ON figure = name);
CREATE INDEX temp.report_held_of ON report_held (config_key, name);

-- What the runs of a workload show: the fastest configuration, the one with the best model, and what is undecided.
CREATE TEMP VIEW report_verdict AS
WITH judged AS (
	SELECT c.workload, c.name AS configuration, h.*,
		CASE h.name WHEN 'epoch_seconds' THEN c.seconds WHEN 'test_loss' THEN c.loss ELSE -c.accuracy END AS cost,
		c.place, max(c.accuracy) OVER (PARTITION BY c.workload) IS NULL AS is_loss
	FROM report_configuration AS c JOIN report_held AS h USING (config_key)),
ranked AS (
	SELECT *, name AS figure, row_number() OVER (PARTITION BY workload, name ORDER BY cost, place) AS i,
		count(*) FILTER (WHERE mark = 'undecided') OVER (PARTITION BY workload, name) AS undecided,
		count(*) FILTER (WHERE mark <> 'control') OVER (PARTITION BY workload, name) AS of
	FROM judged WHERE abs(cost) < 9e999 AND name <> iif(is_loss, 'test_accuracy', 'test_loss')),
best AS (SELECT * FROM ranked WHERE i = 1 AND of > 0 AND workload NOT LIKE '%: trials')
SELECT w.number, iif(figure = 'epoch_seconds', 1, 2) AS place,
	CASE figure WHEN 'epoch_seconds' THEN 'Fastest' WHEN 'test_loss' THEN 'Least loss' ELSE 'Most accurate' END AS head,
	replace(b.configuration || CASE figure WHEN 'epoch_seconds' THEN printf(', %.4g s an epoch.', cost)
		WHEN 'test_loss' THEN printf(', %.4g.', cost) ELSE printf(', %.2f %%.', -100 * cost) END
	|| CASE mark WHEN 'control' THEN ' It is the control, with which the others are compared.'
		ELSE ifnull(' That is ' || ltrim(b.number, '+-') || iif(b.number LIKE '-%', ' less', ' more')
				|| iif(figure = 'epoch_seconds', ' time', '') || ' than the control, ' || versus
				|| CASE WHEN low = high THEN ' (exact)' WHEN low < high
					THEN printf(' (interval: ' || form || ' to ' || form || ')', low, high) ELSE '' END || '.',
			' It is compared with the control, ' || versus || '.')
			|| CASE mark WHEN 'undecided' THEN ' Undecided: it may be chance' || ifnull('; ' || wanted_text
					|| ' would probably decide', '') || '.'
				WHEN 'equal' THEN ' Equal: the difference is too small to matter.'
				WHEN 'better' THEN ' Better: more than chance.' ELSE ' Worse: more than chance.' END END,
		' %', char(160) || '%') AS text -- no line ends before a unit
FROM best AS b JOIN report_workload AS w USING (workload)
UNION ALL
SELECT w.number, 3, 'Undecided', iif(sum(undecided) = 0, 'nothing. All ' || sum(of)
		|| ' comparisons with the control are decided.', group_concat(format('%d of %d comparisons of %s', undecided,
			of, CASE figure WHEN 'epoch_seconds' THEN 'time' WHEN 'test_loss' THEN 'loss' ELSE 'accuracy' END), ' and ')
		|| ' with the control. These differences may be chance; the tables say how many seeds would decide.')
FROM best JOIN report_workload AS w USING (workload) GROUP BY w.number;

CREATE TEMP VIEW report_workload AS
SELECT row_number() OVER (ORDER BY workload) AS number, workload, count(*) AS configurations,
	printf('%d configurations, %d runs; %s parameters, %s training samples.', count(*), sum(runs),
		iif(min(params) = max(params), max(params), min(params) || ' to ' || max(params)), max(train_size)) AS text
FROM report_configuration GROUP BY workload ORDER BY workload;

-- The runs with a small line chart of accuracy, or loss, by epoch: every k-th point, 40 at most, and the last one.
CREATE TEMP VIEW report_charted AS
SELECT *, (SELECT '<svg class="spark" viewBox="0 0 110 24" role="img" aria-label="by epoch"><polyline points="'
		|| group_concat(printf('%.4g,%.3g', 110.0 * k / (points - 1),
			1 + 22 * ifnull((high - y) / nullif(high - low, 0), 0.5)), ' ') || '"/></svg>'
	FROM (SELECT y, row_number() OVER (ORDER BY i) - 1 AS k, count(*) OVER () AS points,
			min(y) OVER () AS low, max(y) OVER () AS high
		FROM (SELECT ifnull(test_accuracy, -test_loss) AS y, row_number() OVER (ORDER BY epoch) - 1 AS i,
				count(*) OVER () AS n
			FROM epoch WHERE run_id = report_run.id AND ifnull(test_accuracy, test_loss) IS NOT NULL)
		WHERE n > 1 AND (i % ((n + 39) / 40) = 0 OR i = n - 1)
		ORDER BY i)) AS chart
FROM report_run;

-- The origin of the numbers, one row for each combination of machine and software.
CREATE TEMP VIEW report_provenance AS
SELECT count(*) AS runs, group_concat(DISTINCT workload) AS workloads, group_concat(DISTINCT platform) AS platform,
	host, cpu, cores, gpu, driver, mpi, onednn, cuda, git_commit, git_dirty, origin,
	min(started) AS first, max(started) AS last
FROM report_run
GROUP BY host, cpu, cores, gpu, driver, mpi, onednn, cuda, git_commit, git_dirty, origin
ORDER BY runs DESC, host, git_commit, first;

-- Several figures read these views: for a page with all figures, they are computed once. The tables are copied, not
-- renamed, because SQLite checks all views at a renaming.
CREATE TEMP TABLE kept AS SELECT * FROM quality;
DROP VIEW temp.quality;
CREATE TEMP TABLE quality AS SELECT * FROM kept;
DROP TABLE kept;
CREATE TEMP TABLE kept AS SELECT * FROM elapsed;
DROP VIEW temp.elapsed;
CREATE TEMP TABLE elapsed AS SELECT * FROM kept;
DROP TABLE kept;
