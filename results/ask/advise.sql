-- advise.sql - the answer of `mvbench advise`: tables ranking, refused and advice. They are made from the simulated
-- cells, which advise.c lists in table cell, and from recorded runs, whose numbers are in table allowed. Times are in
-- seconds. ?1: the epochs of the runs whose accuracies count; a cell has fewer. ?2: what was trained, or NULL. ?3, ?4:
-- the error of simulated times, median and 90th percentile; ?5: the cells that show it.

CREATE TEMP TABLE simulated AS
SELECT c.*, m.id, m.status, m.reason, m.workers, m.seconds_total / m.epochs_done AS epoch_seconds,
	m.compute_fraction, m.comm_fraction, m.wait_fraction, m.staleness_mean AS staleness
FROM cell AS c JOIN run_summary AS m ON m.id = (SELECT max(id) FROM run WHERE config_hash = c.hash);

-- The median accuracy of runs, real or simulated, with a cell's options on which the model depends: those of
-- option_info and the plug-ins', such as asgd.updater. A run that diverged is the worst.
CREATE TEMP TABLE learned AS
WITH trained AS MATERIALIZED (
	SELECT r.*, json_array(params, train_size, (
		SELECT json_group_object(key, atom) FROM (
			SELECT e.key, e.atom FROM json_each(config_key) AS e LEFT JOIN option_info AS i ON i."column" = e.key
			WHERE ifnull(i.trains, instr(e.key, '.')) ORDER BY e.key))) AS depends
	FROM run_summary AS r WHERE id IN (SELECT id FROM simulated UNION ALL SELECT id FROM allowed)),
figure AS MATERIALIZED (
	SELECT c.id AS number, '' AS name, f.test_accuracy AS x
	FROM trained AS c JOIN trained AS r USING (depends) JOIN finished AS f ON f.id = r.id
	WHERE c.id IN (SELECT id FROM simulated) AND r.id IN (SELECT id FROM allowed) AND r.epochs = ?1),
/* MEDIANS */
SELECT number AS id, n AS accuracy_n, mid AS test_accuracy,
	(SELECT min(x) FROM figure AS f WHERE f.number = m.number) AS accuracy_low,
	(SELECT max(x) FROM figure AS f WHERE f.number = m.number) AS accuracy_high
FROM median AS m;

-- sync_every NULL: the interval does not matter.
CREATE TEMP TABLE ranking AS
SELECT row_number() OVER (ORDER BY epoch_seconds, place) AS place, strategy, x AS sync_every, workers, epoch_seconds,
	(SELECT min(epoch_seconds) FROM simulated WHERE workers = 1 AND status = 'done') / epoch_seconds AS speedup,
	compute_fraction, comm_fraction, wait_fraction, staleness, test_accuracy, accuracy_n, accuracy_low, accuracy_high,
	plugin, epoch_time, exact, strategy || ifnull(' with X=' || x, '') AS name
FROM simulated LEFT JOIN learned USING (id) WHERE status = 'done' ORDER BY 1;

-- What people see of it: the first, and those to compare with.
CREATE TEMP VIEW ranking_head AS
SELECT * FROM ranking WHERE place <= 10 OR exact OR workers = 1 ORDER BY place;

-- The candidates: of several workers, as accurate as allreduce within half a point, if accuracies are known.
CREATE TEMP TABLE good AS
WITH every AS (SELECT test_accuracy AS base FROM ranking WHERE strategy = 'allreduce' AND test_accuracy > -9e999),
known AS (
	SELECT count(*) AS n FROM ranking JOIN every
	WHERE NOT exact AND workers > 1 AND test_accuracy IS NOT NULL)
SELECT r.*, known.n > 0 AS known FROM ranking AS r JOIN known
WHERE workers > 1 AND (known.n = 0 OR exact OR test_accuracy >= (SELECT base FROM every) - 0.005);

-- Those that are as fast as the first within the error, exact ones first.
CREATE TEMP TABLE tied AS
SELECT g.*, row_number() OVER (ORDER BY g.exact DESC, g.place) AS i
FROM good AS g WHERE epoch_seconds <= (1 + ?4) * (SELECT min(epoch_seconds) FROM good);

INSERT INTO refused
SELECT strategy || ifnull(' X=' || x, ''), ifnull(reason, status) FROM simulated WHERE status <> 'done';

-- Sentences, in order: those before 10 are the answer.
CREATE TEMP TABLE advice AS
WITH chosen AS (SELECT * FROM tied WHERE i = 1),
first AS (SELECT * FROM ranking WHERE workers > 1 ORDER BY place LIMIT 1),
-- of each strategy the shortest interval with which it is faster than any allreduce every step; and whose time is
-- within 5 % of that of the longest interval
allreduce AS (SELECT strategy, min(epoch_seconds) AS s FROM ranking WHERE plugin = 'allreduce'),
faster AS (
	SELECT r.strategy || ' X=' || min(sync_every) AS name, a.strategy AS other, s
	FROM ranking AS r JOIN allreduce AS a WHERE sync_every IS NOT NULL AND epoch_seconds < s GROUP BY r.strategy),
enough AS (
	SELECT strategy || ' X=' || min(sync_every) AS name, min(sync_every) AS x, most FROM (
		SELECT *, first_value(epoch_seconds) OVER w AS least,
			max(sync_every) OVER (PARTITION BY strategy) AS most
		FROM ranking WHERE sync_every IS NOT NULL
		WINDOW w AS (PARTITION BY strategy ORDER BY sync_every DESC))
	WHERE epoch_seconds <= 1.05 * least GROUP BY strategy),
every AS (SELECT * FROM ranking WHERE strategy = 'allreduce' AND test_accuracy > -9e999),
cost AS (
	SELECT strategy, group_concat(ifnull('X=' || sync_every || ' ', '') || iif(lost = -9e999, 'diverged',
			printf('%+.2f', 100 * lost)), ', ') AS list,
		min(accuracy_n) AS n, base
	FROM (SELECT r.strategy, r.sync_every, r.test_accuracy - e.test_accuracy AS lost, r.accuracy_n,
			e.accuracy_n AS base
		FROM ranking AS r JOIN every AS e
		WHERE r.test_accuracy IS NOT NULL AND e.test_accuracy IS NOT NULL
			AND (r.sync_every > 1 OR r.strategy LIKE '% codec=%')
		ORDER BY r.strategy, r.sync_every)
	GROUP BY strategy)
SELECT 0 AS place, printf('One worker alone is faster than any of these (%.4g s an epoch): here synchronising '
	|| 'costs more than %d workers gain.', epoch_seconds, (SELECT max(workers) FROM ranking)) AS says
FROM ranking WHERE place = 1 AND workers = 1
UNION ALL SELECT 1, printf('Choose %s: %.4g s an epoch%s%s.', name, epoch_seconds, iif(speedup IS NULL, '',
		printf(', %.3g times as fast as one worker', speedup)),
	iif(exact AND place > (SELECT min(place) FROM tied),
		', and exact: an approximation would not surely be faster', '')) FROM chosen
UNION ALL SELECT 2, printf('%s; %s the error of simulated times, %.1f %% (90th percentile; median %.1f %%; %s).',
	iif(f.place = c.place, 'It is the fastest', printf('Fastest: %s, %.4g s', f.name, f.epoch_seconds)),
	ifnull((SELECT 'as fast as the choice: ' || group_concat(name, ', ') FROM (
			SELECT name FROM tied WHERE i BETWEEN 2 AND 5 ORDER BY i))
		|| iif((SELECT count(*) FROM tied) > 5, printf(' and %d more', (SELECT count(*) FROM tied) - 5), '')
		|| ', within', 'none is as fast as the choice within'), 100 * ?4, 100 * ?3, ?5)
FROM chosen AS c JOIN first AS f
UNION ALL SELECT 3, iif(c.test_accuracy > -9e999, printf('Accuracy: %.2f %%%s, %+.2f points from allreduce (%d run%s)',
		100 * c.test_accuracy, iif(c.accuracy_n > 1,
			printf(' (%.2f..%.2f)', 100 * c.accuracy_low, 100 * c.accuracy_high), ''),
		100 * (c.test_accuracy - e.test_accuracy), c.accuracy_n, iif(c.accuracy_n = 1, '', 's')),
	printf('Accuracy: that of allreduce, %.2f %%', 100 * e.test_accuracy))
	|| iif(f.place < (SELECT min(place) FROM good),
		'. Faster ones lose more than half a point, or were not trained.', '.')
FROM chosen AS c JOIN every AS e JOIN first AS f WHERE c.known
UNION ALL SELECT 3, ?2 FROM chosen WHERE ?2 IS NOT NULL AND NOT known
UNION ALL SELECT 3, 'No run here with these training options shows how a long interval changes '
	|| 'accuracy. It costs some, more with a longer X and later in training: test it before you '
	|| 'trust a ranking by time, or let --train=1min train the fastest.'
FROM chosen WHERE ?2 IS NULL AND NOT known
UNION ALL SELECT 10, printf('Faster than %s (%.4g s) from this interval on: %s.', other, s,
	group_concat(name, ', ')) FROM faster HAVING count(*) > 0
UNION ALL SELECT 11, printf('Long enough, because X=%d is less than 5 %% faster: %s.', max(most), group_concat(name, ', '))
FROM enough WHERE x < most HAVING count(*) > 0
UNION ALL SELECT 12, printf('Compared with allreduce, %s changed the test accuracy here, in points: %s '
	|| '(medians of %d or more, and of %d runs).', strategy, list, n, base) FROM cost
UNION ALL SELECT 13, ?2 FROM chosen WHERE ?2 IS NOT NULL AND known
UNION ALL SELECT 14, printf('A push of asgd has a mean staleness of %.3g pushes of other workers; that costs '
	|| 'accuracy too, most with momentum.', avg(staleness))
FROM ranking WHERE strategy = 'asgd' HAVING avg(staleness) > 0;
