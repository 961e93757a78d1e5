-- advise.sql - the answer of `mvbench advise`: tables ranking, refused and advice. They are made from the simulated
-- cells, which advise.c lists in table cell, and from recorded runs, whose numbers are in table allowed. Times are in
-- seconds. ?1: the epochs of the runs whose accuracies count; a cell has fewer. ?2: what was trained, or NULL.

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
figure AS (
	SELECT c.id AS number, '' AS name, f.test_accuracy AS x
	FROM trained AS c JOIN trained AS r USING (depends) JOIN finished AS f ON f.id = r.id
	WHERE c.id IN (SELECT id FROM simulated) AND r.id IN (SELECT id FROM allowed) AND r.epochs = ?1),
/* MEDIANS */
SELECT number AS id, n AS accuracy_n, mid AS test_accuracy FROM median;

-- sync_every NULL: the interval does not matter.
CREATE TEMP TABLE ranking AS
SELECT row_number() OVER (ORDER BY epoch_seconds, place) AS place, strategy, x AS sync_every, workers, epoch_seconds,
	(SELECT min(epoch_seconds) FROM simulated WHERE workers = 1 AND status = 'done') / epoch_seconds AS speedup,
	compute_fraction, comm_fraction, wait_fraction, staleness, test_accuracy, accuracy_n, plugin, epoch_time
FROM simulated LEFT JOIN learned USING (id) WHERE status = 'done' ORDER BY 1;

INSERT INTO refused
SELECT strategy || ifnull(' X=' || x, ''), ifnull(reason, status) FROM simulated WHERE status <> 'done';

-- Sentences, in order.
CREATE TEMP TABLE advice AS
WITH best AS (SELECT *, strategy || ifnull(' with X=' || sync_every, '') AS name FROM ranking WHERE place = 1),
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
SELECT 1 AS place, printf('Fastest: %s, %.4g s an epoch%s.', name, epoch_seconds, iif(speedup IS NULL, '',
	printf(', %.3g times as fast as one worker', speedup))) AS says
FROM best WHERE workers > 1
UNION ALL SELECT 2, printf('Faster than %s (%.4g s) from this interval on: %s.', other, s,
	group_concat(name, ', ')) FROM faster HAVING count(*) > 0
UNION ALL SELECT 2, printf('Long enough, because X=%d is less than 5 %% faster: %s.', max(most), group_concat(name, ', '))
FROM enough WHERE x < most HAVING count(*) > 0
UNION ALL SELECT 3, printf('One worker alone is faster than any of these (%.4g s an epoch): here synchronising '
	|| 'costs more than %d workers gain.', epoch_seconds, (SELECT max(workers) FROM ranking))
FROM best WHERE workers = 1
UNION ALL SELECT 4, printf('Compared with allreduce, %s changed the test accuracy here, in points: %s '
	|| '(medians of %d or more, and of %d runs).', strategy, list, n, base) FROM cost
UNION ALL SELECT 5, printf('Fastest that loses at most half a point: %s%s, %.4g s an epoch.', strategy,
	ifnull(' with X=' || sync_every, ''), epoch_seconds) FROM (
	SELECT r.* FROM ranking AS r JOIN every AS e WHERE r.test_accuracy >= e.test_accuracy - 0.005
	ORDER BY r.place LIMIT 1) WHERE EXISTS (SELECT 1 FROM cost)
UNION ALL SELECT 2, printf('As fast, within 2 %%: %s.', group_concat(o.name, ', '))
FROM (SELECT strategy || ifnull(' with X=' || sync_every, '') AS name, epoch_seconds, place FROM ranking
	WHERE place > 1 AND workers > 1 ORDER BY plugin <> 'allreduce', place) AS o
	JOIN best AS b ON o.epoch_seconds <= 1.02 * b.epoch_seconds HAVING count(*) > 0
UNION ALL SELECT 4, ?2 WHERE ?2 IS NOT NULL
UNION ALL SELECT 6, 'No run here with these training options shows how a long interval changes '
	|| 'accuracy. It costs some, more with a longer X and later in training: test it before you '
	|| 'trust a ranking by time, or let --train=1m train the fastest.'
WHERE NOT EXISTS (SELECT 1 FROM cost) AND ?2 IS NULL
UNION ALL SELECT 7, printf('A push of asgd has a mean staleness of %.3g pushes of other workers; that costs '
	|| 'accuracy too, most with momentum.', avg(staleness))
FROM ranking WHERE strategy = 'asgd' HAVING avg(staleness) > 0;
