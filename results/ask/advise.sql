-- advise.sql - the answer of `mvbench advise`: tables ranking, refused, worth and advice. They are made from the
-- simulated cells, which advise.c lists in table cell, and from recorded runs, whose numbers are in table allowed.
-- Times are in seconds. ?1: the epochs of the runs whose accuracies count; a cell has fewer. ?2: what was trained, or
-- NULL. ?3, ?4: the error of simulated times, median and 90th percentile; ?5: the cells that show it.

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

-- sync_every NULL: the interval does not matter. models: the number of models whose gradients an exact strategy
-- averages; those with the same number end in the same model, and have one accuracy: that of the one with the most
-- runs. NULL: an approximation.
CREATE TEMP TABLE timed AS
SELECT row_number() OVER (ORDER BY epoch_seconds, place) AS place, s.place AS cell, strategy, x AS sync_every, workers,
	epoch_seconds,
	(SELECT min(epoch_seconds) FROM simulated WHERE workers = 1 AND status = 'done') / epoch_seconds AS speedup,
	compute_fraction, comm_fraction, wait_fraction, staleness, test_accuracy, accuracy_n, accuracy_low, accuracy_high,
	plugin, epoch_time, models, step_rows, models IS NOT NULL AS exact, strategy || ifnull(' with X=' || x, '') AS name
FROM simulated AS s LEFT JOIN learned AS l ON l.id = CASE WHEN models IS NULL THEN s.id ELSE (
	SELECT k.id FROM learned AS k JOIN simulated AS e ON e.id = k.id WHERE e.models = s.models
	ORDER BY k.accuracy_n DESC, e.place LIMIT 1) END
WHERE status = 'done' ORDER BY 1;

-- lost: accuracy in addition to that of allreduce. enough: the only rule for an accurate enough strategy; NULL: not
-- known. open: more seeds can change that.
CREATE TEMP TABLE ranking AS
SELECT t.*, t.test_accuracy - b.test_accuracy AS lost, t.test_accuracy - b.test_accuracy >= -0.005 AS enough,
	ifnull(t.accuracy_n < 3 AND t.test_accuracy - b.test_accuracy BETWEEN -0.01 AND 0, 1) AS open
FROM timed AS t LEFT JOIN timed AS b ON b.strategy = 'allreduce' AND b.test_accuracy > -9e999 ORDER BY t.place;

-- What people see of it: the first, and those to compare with.
CREATE TEMP VIEW ranking_head AS
SELECT * FROM ranking WHERE place <= 10 OR exact OR workers = 1 ORDER BY place;

-- The candidates: of several workers, and accurate enough. If accuracies of approximations are unknown and nothing was
-- trained, all whose accuracy does not exclude them.
CREATE TEMP TABLE good AS
WITH known AS (
	SELECT ifnull(max(enough IS NOT NULL AND (?2 IS NOT NULL OR NOT exact AND strategy <> 'allreduce')), 0) AS known
	FROM ranking WHERE workers > 1)
SELECT r.*, known FROM ranking AS r JOIN known WHERE workers > 1 AND iif(known, enough, ifnull(enough, 1));

-- Those that are as fast as the first within the error, exact ones first.
CREATE TEMP TABLE tied AS
SELECT g.*, row_number() OVER (ORDER BY g.exact DESC, g.place) AS i
FROM good AS g WHERE epoch_seconds <= (1 + ?4) * (SELECT min(epoch_seconds) FROM good);

-- The cells whose training can change the choice, in this order: allreduce, if its accuracy is unknown or others are
-- close to it; exact ones that are as fast; approximations that are surely faster than the fastest exact one, until
-- one is accurate enough; more seeds of the choice and of allreduce. runs: those that there are.
CREATE TEMP TABLE worth AS
WITH base AS (SELECT * FROM ranking WHERE strategy = 'allreduce'),
best AS (
	SELECT min(r.epoch_seconds) AS s FROM ranking AS r JOIN base AS b
	WHERE r.workers > 1 AND r.enough AND (r.exact OR r.cell = b.cell)),
found AS (SELECT min(place) AS place FROM ranking WHERE NOT exact AND strategy <> 'allreduce' AND enough AND NOT open),
other AS (
	SELECT 3 - r.exact AS turn, r.place, r.cell, r.accuracy_n
	FROM ranking AS r JOIN base AS b JOIN best JOIN found
	WHERE r.workers > 1 AND r.open AND r.cell <> b.cell AND NOT (r.exact AND r.models IS b.models)
		AND iif(r.exact, r.epoch_seconds <= (1 + ?4) * best.s,
			(1 + ?4) * r.epoch_seconds < best.s AND r.place < ifnull(found.place, 9e999)))
SELECT 1 AS turn, place, cell, ifnull(accuracy_n, 0) AS runs FROM base
WHERE test_accuracy IS NULL OR EXISTS (SELECT 1 FROM other WHERE accuracy_n > 0)
UNION ALL SELECT turn, place, cell, ifnull(accuracy_n, 0) FROM other
UNION ALL SELECT 4, place, cell, accuracy_n FROM tied WHERE i = 1 AND accuracy_n < 3 AND enough
UNION ALL SELECT 5, place, cell, accuracy_n FROM base WHERE accuracy_n < 3 AND enough;

INSERT INTO refused
SELECT strategy || ifnull(' X=' || x, ''), ifnull(reason, status) FROM simulated WHERE status <> 'done';

-- Sentences, in order: those before 10 are the answer.
CREATE TEMP TABLE advice AS
WITH chosen AS (SELECT * FROM tied WHERE i = 1),
base AS (SELECT * FROM ranking WHERE strategy = 'allreduce'),
-- the others, without those that are surely slower: i orders those that are as fast
other AS (
	SELECT r.*, r.epoch_seconds * (1 + ?4) < c.epoch_seconds AS faster, g.cell IS NOT NULL AS fits,
		row_number() OVER (PARTITION BY r.epoch_seconds * (1 + ?4) < c.epoch_seconds
			ORDER BY g.cell IS NULL, r.exact DESC, r.enough IS NULL, r.place) AS i
	FROM ranking AS r JOIN chosen AS c LEFT JOIN good AS g ON g.cell = r.cell
	WHERE r.workers > 1 AND r.cell <> c.cell AND r.epoch_seconds <= (1 + ?4) * c.epoch_seconds),
near AS (
	SELECT count(*) AS n, count(*) FILTER (WHERE fits AND i <= 4) AS named,
		(SELECT group_concat(name, ', ') FROM (
			SELECT name FROM other WHERE NOT faster AND fits AND i <= 4 ORDER BY i)) AS list
	FROM other WHERE NOT faster),
ahead AS (
	SELECT count(*) FILTER (WHERE faster) AS n, count(*) FILTER (WHERE faster AND enough IS NULL) AS unknown,
		count(*) FILTER (WHERE NOT enough) AS lose,
		(SELECT group_concat(name || iif(lost = -9e999, ' (diverged)', printf(' (%+.2f, %d run%s)', 100 * lost,
			accuracy_n, iif(accuracy_n = 1, '', 's'))), ', ') FROM (
			SELECT * FROM other WHERE NOT enough ORDER BY place LIMIT 4)) AS list
	FROM other),
-- of each strategy the shortest interval with which it is faster than any allreduce every step; and whose time is
-- within 5 % of that of the longest interval
allreduce AS (SELECT strategy, min(epoch_seconds) AS s FROM ranking WHERE plugin = 'allreduce'),
beats AS (
	SELECT r.strategy || ' X=' || min(sync_every) AS name, a.strategy AS other, s
	FROM ranking AS r JOIN allreduce AS a WHERE sync_every IS NOT NULL AND epoch_seconds < s GROUP BY r.strategy),
long AS (
	SELECT strategy || ' X=' || min(sync_every) AS name, min(sync_every) AS x, most FROM (
		SELECT *, first_value(epoch_seconds) OVER w AS least,
			max(sync_every) OVER (PARTITION BY strategy) AS most
		FROM ranking WHERE sync_every IS NOT NULL
		WINDOW w AS (PARTITION BY strategy ORDER BY sync_every DESC))
	WHERE epoch_seconds <= 1.05 * least GROUP BY strategy),
cost AS (
	SELECT strategy, group_concat(ifnull('X=' || sync_every || ' ', '') || iif(lost = -9e999, 'diverged',
			printf('%+.2f', 100 * lost)) || ' (' || accuracy_n || ')', ', ') AS list, base
	FROM (SELECT r.*, b.accuracy_n AS base FROM ranking AS r JOIN base AS b
		WHERE r.workers > 1 AND r.lost IS NOT NULL
			AND (r.sync_every > 1 OR r.strategy LIKE '% codec=%' OR r.exact AND r.models IS NOT b.models)
		ORDER BY r.strategy, r.sync_every)
	GROUP BY strategy)
SELECT 0 AS place, printf('One worker alone is faster than any of these (%.4g s an epoch): here synchronising '
	|| 'costs more than %d workers gain.', epoch_seconds, (SELECT max(workers) FROM ranking)) AS says
FROM ranking WHERE place = 1 AND workers = 1
UNION ALL SELECT 1, printf('Choose %s: %.4g s an epoch', c.name, c.epoch_seconds)
	|| iif(b.cell <> c.cell, printf(', %.3g times as fast as allreduce', b.epoch_seconds / c.epoch_seconds), '')
	|| ifnull(printf(iif(b.cell <> c.cell, ' and ', ', ')
		|| iif(c.speedup IS NULL, NULL, '%.3g times as fast as one worker'), c.speedup), '') || '.'
	|| iif(c.exact, printf(' It is exact: it trains as one worker with batch %d does.', c.step_rows), '')
FROM chosen AS c LEFT JOIN base AS b
UNION ALL SELECT 2, CASE WHEN n = 0 THEN printf('No other is as fast within the error, %.1f %%.', 100 * ?4)
	WHEN n = named THEN printf('As fast within the error, %.1f %%: %s.', 100 * ?4, list)
	ELSE printf('As fast within the error: %s%d %s within %.1f %%.', ifnull(list || ', and ', ''), n - named,
		iif(named, 'more', 'others'), 100 * ?4) END FROM near JOIN chosen
UNION ALL SELECT 3, printf('The error is the 90th percentile of simulated times (median %.1f %%), from %s.', 100 * ?3, ?5)
FROM chosen
UNION ALL SELECT 4, printf('Accuracy: %.2f %%', 100 * c.test_accuracy)
	|| iif(c.accuracy_n > 1, printf(' (%.2f..%.2f)', 100 * c.accuracy_low, 100 * c.accuracy_high), '')
	|| iif(c.cell = b.cell OR c.models = b.models, ', that of allreduce (',
		printf(', %+.2f points from allreduce (', 100 * c.lost))
	|| printf('%d run%s', c.accuracy_n, iif(c.accuracy_n = 1, '', 's'))
	|| iif(c.cell = b.cell OR c.models = b.models, ').', printf(', and %d of allreduce).', b.accuracy_n))
FROM chosen AS c JOIN base AS b WHERE c.lost IS NOT NULL
UNION ALL SELECT 5, iif(a.n = 0, 'No other is surely faster.', printf('%d other%s surely faster%s.', a.n,
		iif(a.n = 1, ' is', 's are'), iif(unknown, printf('; the accuracy of %d is unknown', unknown), '')))
	|| iif(lose, printf(' More than half a point is lost against allreduce by %s%s.', list,
		iif(lose > 4, printf(', and %d more', lose - 4), '')), '')
FROM ahead AS a JOIN chosen AS c WHERE c.known
UNION ALL SELECT 6, ?2 FROM chosen WHERE ?2 IS NOT NULL AND NOT known
UNION ALL SELECT 6, 'No run here with these training options shows how a long interval changes '
	|| 'accuracy. It costs some, more with a longer X and later in training: test it before you '
	|| 'trust a ranking by time, or let --train=1min train the fastest.'
FROM chosen WHERE ?2 IS NULL AND NOT known
UNION ALL SELECT 10, printf('Faster than %s (%.4g s) from this interval on: %s.', other, s,
	group_concat(name, ', ')) FROM beats HAVING count(*) > 0
UNION ALL SELECT 11, printf('Long enough, because X=%d is less than 5 %% faster: %s.', max(most), group_concat(name, ', '))
FROM long WHERE x < most HAVING count(*) > 0
UNION ALL SELECT 12, printf('Compared with allreduce, %s changed the test accuracy here, in points: %s '
	|| '(medians; in brackets the runs; %d of allreduce).', strategy, list, base) FROM cost
UNION ALL SELECT 13, ?2 FROM chosen WHERE ?2 IS NOT NULL AND known
UNION ALL SELECT 14, printf('A push of asgd has a mean staleness of %.3g pushes of other workers; that costs '
	|| 'accuracy too, most with momentum.', avg(staleness))
FROM ranking WHERE strategy = 'asgd' HAVING avg(staleness) > 0;
