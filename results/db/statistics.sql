-- statistics.sql - what several runs say together.

-- Medians over repeated seeds come with a 95 % bootstrap interval, called NAME_low and NAME_high. No
-- random numbers are drawn: resampling n values with replacement has an exact distribution (Maritz and
-- Jarrett, JASA 73, 1978; Efron, The Jackknife, the Bootstrap and Other Resampling Plans, 1982, 10.2).
-- The i-th of the resampled values is at most the k-th of the values as often as n draws hit the first
-- k at least i times: P = sum over j >= i of C(n,j) (k/n)^j (1-k/n)^(n-j). So the ends of the interval
-- are order statistics whose ranks depend on n only. Where n is even the median is the mean of the
-- middle two, m and m+1: the low end is that of the m-th alone, the high end that of the (m+1)-th, and
-- what lies between them contains the interval of the mean.
--   low, high  ranks, counted from 1; NULL = one value has no interval. low is the least k with
--              P >= 0.025, and high its mirror image. Above n = 100: by the normal approximation, at
--              most a rank off, and as far as any configuration here has runs.
--   minority   of n differences, so many may have the rarer sign for a two-sided sign test to reject "no
--              difference" at 5 %; NULL = n < 6, where 2 / 2^n is more than that
-- With few values an interval covers less than it says: from min to max up to n = 6, it holds the true
-- median in all but 2^(1-n) of all cases. Whether two sides differ is therefore asked of exact tests:
-- see comparison.
CREATE VIEW bootstrap_rank AS
WITH RECURSIVE big(n) AS (
	SELECT 101 UNION ALL SELECT n + 1 FROM big WHERE n < (
		SELECT max(n) FROM (SELECT count(*) AS n FROM run GROUP BY workload, workers, strategy))),
rank(n, low, minority) AS (
	SELECT 1, NULL, -1
	UNION ALL SELECT l.key + 2, l.value, m.value
	FROM json_each('[1,1,1,1,1,2,2,2,2,3,3,4,4,4,4,5,5,6,6,7,7,8,7,8,8,9,9,10,10,11,11,12,12,12,12,13,13,
		14,14,15,15,16,16,17,17,17,17,18,18,19,19,20,20,21,21,22,22,23,23,23,23,24,24,25,25,26,26,27,27,
		28,28,29,29,30,30,31,30,31,31,32,32,33,33,34,34,35,35,36,36,37,37,38,38,39,39,39,39,40,40]') AS l
	JOIN json_each('[-1,-1,-1,-1,0,0,0,1,1,1,2,2,2,3,3,4,4,4,5,5,5,6,6,7,7,7,8,8,9,9,9,10,10,11,11,12,12,
		12,13,13,14,14,15,15,15,16,16,17,17,18,18,18,19,19,20,20,21,21,21,22,22,23,23,24,24,25,25,25,26,
		26,27,27,28,28,28,29,29,30,30,31,31,32,32,32,33,33,34,34,35,35,36,36,37,37,37,38,38,39,39]') AS m
		ON m.key = l.key
	UNION ALL SELECT n, (n + 1) / 2 + CAST(floor(0.5 - 0.98 * sqrt(n)) AS INTEGER),
		CAST(floor((n - 1) / 2.0 - 0.98 * sqrt(n + 1)) AS INTEGER)
	FROM big)
SELECT n, low, n + 1 - low AS high, nullif(minority, -1) AS minority FROM rank;

-- The runs that statistics are made of: those that ended by themselves. One that diverged has no figures,
-- but it did not reach its target.
-- A seed that is run again is no new sample: of its runs (imported twice, run again by mvbench check) the
-- first that did not diverge counts. Real times, and what depends on them, depend on no seed: there, all
-- count. A figure that does not count is NULL.
--   number             of the configuration
--   repeat             1 = the run of its seed that counts
--   seconds_to_target  of training; infinite where the target was missed: later than all that reached it
CREATE VIEW finished AS
WITH ended AS (
	SELECT id, dense_rank() OVER (ORDER BY config_key) AS number, status, workload, config, config_key,
		compare_key, strategy, workers, servers, sync_every, seed, train_size, target_accuracy, target_loss,
		platform, test_accuracy, test_loss, epoch_seconds, comm_fraction, wait_fraction,
		staleness_mean, staleness_max, dropped_fraction, target_seconds,
		row_number() OVER (PARTITION BY config_key, seed ORDER BY status = 'diverged', id) AS repeat
	FROM run_summary WHERE status IN ('done', 'diverged')),
judged AS (
	SELECT *, status = 'done' AND repeat = 1 AS sample,
		status = 'done' AND (repeat = 1 OR platform <> 'sim') AS timed
	FROM ended)
SELECT id, number, status, workload, config, config_key, compare_key, strategy, workers, servers, sync_every,
	seed, repeat, train_size, target_accuracy, target_loss,
	iif(sample, test_accuracy, NULL) AS test_accuracy,
	iif(sample, test_loss, NULL) AS test_loss,
	iif(timed, epoch_seconds, NULL) AS epoch_seconds,
	iif(timed, comm_fraction, NULL) AS comm_fraction,
	iif(timed, wait_fraction, NULL) AS wait_fraction,
	iif(timed, staleness_mean, NULL) AS staleness_mean,
	iif(timed, staleness_max, NULL) AS staleness_max,
	iif(timed, dropped_fraction, NULL) AS dropped_fraction,
	iif((target_accuracy > 0 OR target_loss > 0) AND (repeat = 1 OR platform <> 'sim'),
		ifnull(target_seconds, 9e999), NULL)
		AS seconds_to_target
FROM judged;

-- One row a configuration: medians over its finished runs, with their intervals.
--   n, seeds, diverged  runs that finished well, their different seeds; and runs that diverged
--   reached, missed     runs with a target (those that diverged too) that did and did not reach it; of a
--                       simulated seed that is repeated one counts
--   time_to_accuracy    to the target, which can be a loss [s]; NULL = not reached: half of these runs or more missed the target, and a miss
--                       counts as infinitely late. _high is NULL too where that end lies among the misses
CREATE VIEW configuration_summary AS
WITH done AS MATERIALIZED (SELECT * FROM finished), -- each mention of a view is compiled anew: few are made
rank AS MATERIALIZED (SELECT * FROM bootstrap_rank),
figure AS (
	SELECT d.number, m.column1 AS name, CASE m.column1 WHEN 'accuracy' THEN d.test_accuracy
		WHEN 'loss' THEN d.test_loss WHEN 'seconds' THEN d.epoch_seconds
		WHEN 'target' THEN d.seconds_to_target WHEN 'comm' THEN d.comm_fraction
		WHEN 'wait' THEN d.wait_fraction WHEN 'stale' THEN d.staleness_mean
		ELSE d.dropped_fraction END AS x
	FROM done AS d CROSS JOIN (VALUES ('accuracy'), ('loss'), ('seconds'), ('target'), ('comm'), ('wait'),
		('stale'), ('dropped')) AS m),
ranked AS (
	SELECT number, name, x, row_number() OVER w AS i,
		count(*) OVER (w ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS n
	FROM figure WHERE x IS NOT NULL WINDOW w AS (PARTITION BY number, name ORDER BY x)),
median AS (
	SELECT r.number, r.name, avg(r.x) FILTER (WHERE r.i IN ((r.n + 1) / 2, (r.n + 2) / 2)) AS mid,
		max(r.x) FILTER (WHERE r.i = b.low) AS low, max(r.x) FILTER (WHERE r.i = b.high) AS high
	FROM ranked AS r CROSS JOIN rank AS b ON b.n = r.n GROUP BY r.number, r.name),
-- one row a configuration again: of each name there is one figure, or none
wide AS MATERIALIZED (
	SELECT number,
		max(mid) FILTER (WHERE name = 'accuracy') AS test_accuracy,
		max(low) FILTER (WHERE name = 'accuracy') AS test_accuracy_low,
		max(high) FILTER (WHERE name = 'accuracy') AS test_accuracy_high,
		max(mid) FILTER (WHERE name = 'loss') AS test_loss,
		max(low) FILTER (WHERE name = 'loss') AS test_loss_low,
		max(high) FILTER (WHERE name = 'loss') AS test_loss_high,
		max(mid) FILTER (WHERE name = 'seconds') AS epoch_seconds,
		max(low) FILTER (WHERE name = 'seconds') AS epoch_seconds_low,
		max(high) FILTER (WHERE name = 'seconds') AS epoch_seconds_high,
		nullif(max(mid) FILTER (WHERE name = 'target'), 9e999) AS time_to_accuracy,
		nullif(max(low) FILTER (WHERE name = 'target'), 9e999) AS time_to_accuracy_low,
		nullif(max(high) FILTER (WHERE name = 'target'), 9e999) AS time_to_accuracy_high,
		max(mid) FILTER (WHERE name = 'comm') AS comm_fraction,
		max(low) FILTER (WHERE name = 'comm') AS comm_fraction_low,
		max(high) FILTER (WHERE name = 'comm') AS comm_fraction_high,
		max(mid) FILTER (WHERE name = 'wait') AS wait_fraction,
		max(low) FILTER (WHERE name = 'wait') AS wait_fraction_low,
		max(high) FILTER (WHERE name = 'wait') AS wait_fraction_high,
		max(mid) FILTER (WHERE name = 'stale') AS staleness_mean,
		max(low) FILTER (WHERE name = 'stale') AS staleness_mean_low,
		max(high) FILTER (WHERE name = 'stale') AS staleness_mean_high,
		max(mid) FILTER (WHERE name = 'dropped') AS dropped_fraction,
		max(low) FILTER (WHERE name = 'dropped') AS dropped_fraction_low,
		max(high) FILTER (WHERE name = 'dropped') AS dropped_fraction_high
	FROM median GROUP BY number),
grouped AS MATERIALIZED (
	SELECT number, workload, config, config_key, max(compare_key) AS compare_key, strategy, workers,
		servers, sync_every, max(train_size) AS train_size, target_accuracy, target_loss,
		count(*) FILTER (WHERE status = 'done') AS n,
		count(DISTINCT seed) FILTER (WHERE status = 'done') AS seeds,
		count(*) FILTER (WHERE status = 'diverged') AS diverged,
		count(*) FILTER (WHERE seconds_to_target < 9e999) AS reached,
		count(*) FILTER (WHERE seconds_to_target = 9e999) AS missed,
		min(test_accuracy) AS test_accuracy_min, max(test_accuracy) AS test_accuracy_max,
		max(staleness_max) AS staleness_max
	FROM done GROUP BY number)
SELECT g.number, g.workload, g.config, g.config_key, g.compare_key, g.strategy, g.workers, g.servers,
	g.sync_every, g.n, g.seeds, g.diverged,
	w.test_accuracy, w.test_accuracy_low, w.test_accuracy_high, g.test_accuracy_min,
	g.test_accuracy_max, w.test_loss, w.test_loss_low, w.test_loss_high,
	w.epoch_seconds, w.epoch_seconds_low, w.epoch_seconds_high,
	g.train_size / nullif(w.epoch_seconds, 0) AS samples_per_second,
	g.target_accuracy, g.target_loss, g.reached, g.missed,
	w.time_to_accuracy, w.time_to_accuracy_low, w.time_to_accuracy_high,
	w.comm_fraction, w.comm_fraction_low, w.comm_fraction_high,
	w.wait_fraction, w.wait_fraction_low, w.wait_fraction_high,
	w.staleness_mean, w.staleness_mean_low, w.staleness_mean_high, g.staleness_max,
	w.dropped_fraction, w.dropped_fraction_low, w.dropped_fraction_high
FROM grouped AS g LEFT JOIN wide AS w USING (number);

-- Which configurations are compared, by their numbers, and in what: all of one workload in accuracy and
-- loss; in seconds an epoch those of equal work, and in time to accuracy those with the same target too.
CREATE VIEW compared AS
WITH grouped AS MATERIALIZED (
	SELECT number, workload, max(compare_key) AS compare_key, target_accuracy, target_loss FROM finished
	GROUP BY number)
SELECT a.number, b.number AS versus_number, m.column1 AS name
FROM grouped AS a JOIN grouped AS b ON b.workload = a.workload AND b.number <> a.number
	CROSS JOIN (VALUES ('test_accuracy'), ('test_loss'), ('epoch_seconds'), ('time_to_accuracy')) AS m
WHERE CASE m.column1 WHEN 'epoch_seconds' THEN a.compare_key = b.compare_key
	WHEN 'time_to_accuracy' THEN a.compare_key = b.compare_key
		AND (a.target_accuracy > 0 OR a.target_loss > 0)
		AND (a.target_accuracy, a.target_loss) = (b.target_accuracy, b.target_loss) ELSE 1 END;

-- Two configurations, held against each other: one row for each row of compared that both have figures for.
-- All are held against all, which takes hours where there are thousands: mvbench table asks for fewer.
--   Both sides are taken seed by seed. Where they share two seeds or more, the differences of the pairs
--   count; else those of everyone on one side to everyone on the other. Where all repeats of a seed count
--   (see finished), the i-th of one side is paired with the i-th of the other.
--   n, versus_n   values on the two sides
--   pairs         that share a seed; 0 or 1 = the sides are taken as unpaired
--   difference    the median of the differences, config - versus. Both missed the target: 0; only one: infinite,
--                 and NULL here
--   difference_low, _high  its 95 % interval: of pairs, the bootstrap's, as above; of unpaired sides, from the
--                 ranks of the differences of all to all (Moses; Hollander and Wolfe, Nonparametric
--                 Statistical Methods, 1973, 4.3). NULL = too few values, or infinite
--   enough        1 = with so many values, some outcome is significant: 6 pairs (2 / 2^6 = 0.031), or
--                 4 and 4 values, 3 and 5, 2 and 9
--   significant   1 = a two-sided test at 5 % tells them apart, and the interval leaves 0 out. From six
--                 pairs on, the exact sign test. Of fewer, no exact test of pairs could: then, and unpaired,
--                 it is the rank-sum test (Wilcoxon; Mann and Whitney), by its normal approximation with
--                 the correction for continuity, which errs on the careful side for such few values. For pairs
--                 it is more careful still, as what a seed does to both sides does not cancel.
CREATE VIEW comparison AS
WITH value AS MATERIALIZED (
	SELECT number, name, seed, repeat, x, count(*) OVER (PARTITION BY number, name) AS n
	FROM (SELECT f.number, f.seed, f.repeat, m.column1 AS name, CASE m.column1
			WHEN 'test_accuracy' THEN f.test_accuracy WHEN 'test_loss' THEN f.test_loss
			WHEN 'epoch_seconds' THEN f.epoch_seconds ELSE f.seconds_to_target END AS x
		FROM finished AS f CROSS JOIN (VALUES ('test_accuracy'), ('test_loss'), ('epoch_seconds'),
			('time_to_accuracy')) AS m)
	WHERE x IS NOT NULL),
rank AS MATERIALIZED (SELECT * FROM bootstrap_rank),
-- CROSS JOIN keeps the order of loops: the planner cannot know how few rows these tables have
difference AS (
	SELECT c.number, c.versus_number, c.name, a.n, b.n AS versus_n,
		a.seed = b.seed AND a.repeat = b.repeat AS paired, iif(a.x = b.x, 0.0, a.x - b.x) AS d
	FROM compared AS c CROSS JOIN value AS a ON a.number = c.number AND a.name = c.name
		CROSS JOIN value AS b ON b.number = c.versus_number AND b.name = c.name),
counted AS (
	SELECT *, sum(paired) OVER w AS pairs, sum(paired AND d < 0) OVER w AS less,
		sum(paired AND d > 0) OVER w AS more, total(d < 0) OVER w + total(d = 0) OVER w / 2 AS wins,
		n * versus_n / 2.0 AS half, 1.96 * sqrt(n * versus_n * (n + versus_n + 1) / 12.0) AS spread
	FROM difference WINDOW w AS (PARTITION BY number, versus_number, name)),
-- m differences are ranked, and the ends of the interval are the low-th from either side
ranked AS (
	SELECT c.*, row_number() OVER (PARTITION BY number, versus_number, name ORDER BY d) AS i,
		iif(c.pairs >= 2, c.pairs, c.n * c.versus_n) AS m,
		iif(c.pairs >= 2, r.low, CAST(max(0, floor(half + 0.5 - spread)) AS INTEGER)) AS low
	FROM counted AS c LEFT JOIN rank AS r ON r.n = c.pairs WHERE c.paired >= (c.pairs >= 2)),
-- all but the first three are the same in all rows of a group
judged AS MATERIALIZED (
	SELECT number, versus_number, name,
		avg(d) FILTER (WHERE i IN ((m + 1) / 2, (m + 2) / 2)) AS difference,
		max(d) FILTER (WHERE i = low) AS low, max(d) FILTER (WHERE i = m + 1 - low) AS high,
		max(n) AS n, max(versus_n) AS versus_n, max(pairs) AS pairs, max(less) AS less,
		max(more) AS more, max(wins) AS wins, max(half) AS half, max(spread) AS spread
	FROM ranked GROUP BY number, versus_number, name),
named AS MATERIALIZED (SELECT number, workload, config, config_key FROM finished GROUP BY number)
SELECT a.workload, j.name, j.number, a.config, a.config_key, j.versus_number, b.config AS versus,
	b.config_key AS versus_key, j.n, j.versus_n, iif(j.pairs >= 2, j.pairs, 0) AS pairs,
	iif(abs(j.difference) < 9e999, j.difference, NULL) AS difference,
	iif(abs(j.low) < 9e999, j.low, NULL) AS difference_low,
	iif(abs(j.high) < 9e999, j.high, NULL) AS difference_high,
	j.pairs >= 6 OR j.half - 0.5 >= j.spread AS enough,
	ifnull((j.low > 0 OR j.high < 0) AND iif(j.pairs >= 6, min(j.less, j.more) <= s.minority,
		abs(j.wins - j.half) - 0.5 >= j.spread), 0) AS significant
FROM judged AS j CROSS JOIN named AS a ON a.number = j.number
	CROSS JOIN named AS b ON b.number = j.versus_number LEFT JOIN rank AS s ON s.n = j.less + j.more;

-- One row a cell that was run both real and simulated: its newest finished simulation, and its
-- finished real runs on the machine of the newest of them. Real runs from before that simulation's
-- calibration count only where there are none from after it. A cell is every option, label and seed
-- included, but those of the platform; so what its tables lived in is equal too.
--   cell            a JSON object of those options; config and config_hash are of the real runs
--   n               real runs; real_* are medians over them, but for real_low and real_high
--   *_s             median seconds of an epoch; time_error is simulated / real - 1, loss_error as well
--   *_share         of the segment's seconds: communication and waiting, which no worker can tell apart
--                   from inside; share_error is simulated - real; NULL where nobody is to talk to
--   staleness_distance  half the sum of |simulated - real| over the shares of pushes that met so many
--                   foreign updates, 0..1; NULL = one worker, or no pushes
CREATE VIEW validation AS
WITH done AS MATERIALIZED (
	SELECT s.id, s.label, s.platform = 'sim' AS simulated, s.host, s.started, k.config,
		s.config_hash, s.oversubscribed, s.workload, s.strategy, s.workers, s.servers,
		s.sync_every, s.batch, s.epochs, s.seed, k.epoch_seconds, k.test_loss,
		iif(s.workers + s.servers > 1, k.comm_fraction + k.wait_fraction, NULL) AS share,
		(SELECT json_group_object(key, value)
			FROM json_each(json_set(k.config_key, '$.seed', s.seed))
			WHERE key NOT GLOB 'sim_*' AND key NOT IN ('platform', 'hostfile', 'transport'))
			AS cell
	FROM run AS s JOIN run_figures AS k ON k.run_id = s.id
	WHERE s.status = 'done' AND k.epoch_seconds > 0),
simulated AS MATERIALIZED (
	SELECT cell, epoch_seconds, share, test_loss, max(id) AS id -- the others are of the row with it
	FROM done WHERE simulated GROUP BY cell),
near AS MATERIALIZED (
	SELECT d.*, s.id AS simulated_id, ifnull(d.started >= c.made, 0) AS later,
		d.host IS first_value(d.host) OVER (PARTITION BY s.id ORDER BY d.id DESC) AS here
	FROM simulated AS s JOIN done AS d ON d.cell = s.cell AND NOT d.simulated
		JOIN run AS r ON r.id = s.id LEFT JOIN calibration AS c ON c.id = r.calibration_id),
real AS MATERIALIZED (
	SELECT * FROM (
		SELECT *, max(later) OVER (PARTITION BY simulated_id) AS some FROM near WHERE here)
	WHERE later = some),
figure AS (
	SELECT simulated_id, column1 AS name,
		CASE column1 WHEN 'seconds' THEN epoch_seconds WHEN 'share' THEN share ELSE test_loss END AS x
	FROM real CROSS JOIN (VALUES ('seconds'), ('share'), ('loss'))),
ranked AS (
	SELECT simulated_id, name, x, count(*) OVER (PARTITION BY simulated_id, name) AS n,
		row_number() OVER (PARTITION BY simulated_id, name ORDER BY x) AS i
	FROM figure WHERE x IS NOT NULL),
median AS MATERIALIZED (
	SELECT simulated_id, avg(x) FILTER (WHERE name = 'seconds') AS seconds,
		avg(x) FILTER (WHERE name = 'share') AS share,
		avg(x) FILTER (WHERE name = 'loss') AS loss
	FROM ranked WHERE i IN ((n + 1) / 2, (n + 2) / 2) GROUP BY simulated_id),
met AS (
	SELECT r.simulated_id, 0 AS simulated, h.staleness, h.pushes
	FROM real AS r CROSS JOIN staleness AS h ON h.run_id = r.id AND h.epoch >= 1
	WHERE r.workers > 1
	UNION ALL SELECT s.id, 1, h.staleness, h.pushes
	FROM simulated AS s CROSS JOIN staleness AS h ON h.run_id = s.id AND h.epoch >= 1),
pushed AS MATERIALIZED (
	SELECT simulated_id, simulated, 1.0 * sum(pushes) AS pushes FROM met GROUP BY 1, 2),
distance AS MATERIALIZED (
	SELECT simulated_id, sum(abs(share)) / 2 AS distance
	FROM (SELECT simulated_id, m.staleness,
			sum(iif(simulated, 1, -1) * m.pushes / p.pushes) AS share
		FROM met AS m JOIN pushed AS p USING (simulated_id, simulated)
		WHERE simulated_id IN (
			SELECT simulated_id FROM pushed GROUP BY simulated_id HAVING count(*) = 2)
		GROUP BY simulated_id, m.staleness)
	GROUP BY simulated_id)
SELECT s.id AS simulated_id, r.label, r.workload, r.strategy, r.workers, r.servers, r.sync_every,
	r.batch, r.epochs, r.seed, r.config, r.cell, r.config_hash,
	max(r.oversubscribed) AS oversubscribed, count(*) AS n,
	m.seconds AS real_s, min(r.epoch_seconds) AS real_low, max(r.epoch_seconds) AS real_high,
	s.epoch_seconds AS simulated_s, s.epoch_seconds / m.seconds - 1 AS time_error,
	m.share AS real_share, s.share AS simulated_share, s.share - m.share AS share_error,
	d.distance AS staleness_distance,
	m.loss AS real_loss, s.test_loss AS simulated_loss,
	s.test_loss / nullif(m.loss, 0) - 1 AS loss_error
FROM real AS r JOIN simulated AS s ON s.id = r.simulated_id
	JOIN median AS m USING (simulated_id) LEFT JOIN distance AS d USING (simulated_id)
GROUP BY s.id;
