-- statistics.sql - statistics over several runs.

-- The ranks of the 95 % intervals of medians over repeated seeds. Such an interval is called NAME_low
-- and NAME_high, and lies between two of the sorted values. The number of n values that lie below the
-- median of all possible runs is distributed as the heads of n coins, whatever the distribution of the
-- values. The k-th value from either end therefore lies beyond the median, on its side, with the
-- probability P(Bin(n, 1/2) < k) (Hollander and Wolfe, Nonparametric Statistical Methods, 1973, 3.6).
--   low, high  ranks, counted from 1: low is the largest k for which that is at most 0.025, and
--              high its mirror image; 1 and n if even these hold less than 95 %. NULL = one value
--              has no interval
--   coverage   probability that it holds the median: 1 - 2 P(Bin(n, 1/2) < low)
-- From n to n + 1, P(Bin <= k) loses half of P(Bin = k), and k grows if the next one still fits.
CREATE VIEW median_rank AS
WITH RECURSIVE rank(n, k, tail, at) AS ( -- at: P(Bin(n, 1/2) = k), tail: P(Bin(n, 1/2) <= k)
	SELECT 6, 0, 1 / 64.0, 1 / 64.0
	UNION ALL SELECT n + 1, k + (tail + at * (n - k) / (2 * k + 2) <= 0.025),
		iif(tail + at * (n - k) / (2 * k + 2) <= 0.025, tail + at * (n - k) / (2 * k + 2),
			tail - at / 2),
		at * (n + 1) / 2 / iif(tail + at * (n - k) / (2 * k + 2) <= 0.025, k + 1, n + 1 - k)
	FROM rank WHERE n < (SELECT max(100, max(n)) FROM (
		SELECT count(*) AS n FROM run GROUP BY workload, workers, strategy
			UNION ALL SELECT 0)))
SELECT column1 AS n, iif(column1 > 1, 1, NULL) AS low, iif(column1 > 1, column1, NULL) AS high,
	iif(column1 > 1, 1 - 2 * pow(0.5, column1), NULL) AS coverage
FROM (VALUES (1), (2), (3), (4), (5))
UNION ALL SELECT n, k + 1, n - k, 1 - 2 * tail FROM rank;

-- Runs without a result, in counts of a configuration's runs. lacks: failed, refused, diverged or unfinished
-- (pending, running or interrupted). A failure counts no more if the same seed was done later; of several
-- runs of a seed that diverged, the newest counts, if it is the newest that ended.
CREATE VIEW lacking AS
SELECT * FROM (
	SELECT id, CASE
		WHEN status IN ('pending', 'running') OR (id > redone AND reason LIKE 'interrupted%' AND status = 'failed')
			THEN 'unfinished'
		WHEN status = 'failed' AND id > redone THEN iif(reason LIKE 'refused: %', 'refused', 'failed')
		WHEN status = 'diverged' AND id = ended THEN 'diverged' END AS lacks
	FROM (SELECT id, status, reason,
			ifnull(max(iif(status = 'done', id, NULL)) OVER w, 0) AS redone,
			max(iif(status IN ('done', 'diverged'), id, NULL)) OVER w AS ended
		FROM run_summary WINDOW w AS (PARTITION BY config_key, seed)))
WHERE lacks IS NOT NULL;

-- The runs that statistics are made of: those that ended by themselves. A run that diverged is the
-- worst of all: its accuracy is below all others, its loss above, its target is missed; its times
-- do not count.
-- Repeating a seed adds no sample: of its runs (imported twice, run again by mvbench check, or by a
-- sweep with --retry) the newest counts, as in study_run. Real times, and figures that depend on
-- them, do not depend on the seed: there, all runs count. A figure that does not count is NULL.
-- A trial of `mvbench tune` does not count as a run of the configuration that it chose. That
-- configuration is run again with other seeds.
--   number             of the configuration
--   repeat             1 = the run of its seed that counts, the newest; 2 the one before
--   timed              1 = its times count
--   exact              1 = its times have no spread: simulated, with a given time of a step, without
--                      random delays, random partners, whose messages may share a link, and a
--                      calibration, which another would differ from
--   test_accuracy, best_test_accuracy  -infinity: it diverged
--   test_loss, train_loss  infinity: it diverged
--   time_to_target     seconds of training; infinite = the target was missed: later than all that
--                      reached it
CREATE VIEW finished AS
WITH tried AS MATERIALIZED (
	SELECT config_hash, max(kind <> 'trial') AS again FROM trial GROUP BY config_hash),
of_study AS MATERIALIZED (
	SELECT s.id, s.config_key, t.again FROM tried AS t CROSS JOIN run_summary AS s USING (config_hash)),
passed AS MATERIALIZED ( -- trials of configurations that were run again
	SELECT id FROM of_study WHERE NOT again
		AND config_key IN (SELECT config_key FROM of_study WHERE again)),
ended AS (
	SELECT id, dense_rank() OVER (ORDER BY config_key) AS number, status, workload, config, config_key,
		compare_key, strategy, workers, servers, sync_every, seed, train_size,
		test_size * targets AS answers, target_accuracy, target_loss, platform,
		ifnull(sim_step_time <> 'auto' AND calibration_id IS NULL AND straggle = 0
			AND split NOT LIKE 'dirichlet%' AND strategy <> 'adpsgd'
			AND NOT EXISTS (SELECT 1 FROM run_option WHERE run_id = run_summary.id AND part = 'strategy'
				AND name = 'schedule' AND value = 'pairs'), 0) AS exact,
		test_accuracy, best_test_accuracy, test_loss, train_loss, epoch_seconds, seconds_total,
		epoch_bytes, peak_bytes, comm_fraction, wait_fraction, utilisation, staleness_mean, staleness_max, dropped_fraction,
		target_seconds,
		max(test_accuracy) OVER (PARTITION BY workload) IS NOT NULL AS classifies,
		row_number() OVER (PARTITION BY config_key, seed ORDER BY id DESC) AS repeat
	FROM run_summary WHERE status IN ('done', 'diverged') AND id NOT IN (SELECT id FROM passed)),
judged AS (
	SELECT *, status = 'done' AND repeat = 1 AS sample,
		status = 'diverged' AND repeat = 1 AS lost,
		status = 'done' AND (repeat = 1 OR platform <> 'sim') AS timed
	FROM ended)
SELECT id, number, status, workload, config, config_key, compare_key, strategy, workers, servers, sync_every,
	seed, repeat, timed, exact, train_size, answers, target_accuracy, target_loss,
	CASE WHEN sample THEN test_accuracy WHEN lost AND classifies
		THEN -9e999 END AS test_accuracy,
	CASE WHEN sample THEN best_test_accuracy WHEN lost AND classifies
		THEN -9e999 END AS best_test_accuracy,
	CASE WHEN sample THEN test_loss WHEN lost THEN 9e999 END AS test_loss,
	CASE WHEN sample THEN train_loss WHEN lost THEN 9e999 END AS train_loss,
	iif(timed, epoch_seconds, NULL) AS epoch_seconds,
	iif(timed, seconds_total, NULL) AS seconds_total,
	iif(timed, epoch_bytes, NULL) AS epoch_bytes,
	iif(timed, peak_bytes, NULL) AS peak_bytes,
	iif(timed, comm_fraction, NULL) AS comm_fraction,
	iif(timed, wait_fraction, NULL) AS wait_fraction,
	iif(timed, utilisation, NULL) AS utilisation,
	iif(timed, staleness_mean, NULL) AS staleness_mean,
	iif(timed, staleness_max, NULL) AS staleness_max,
	iif(timed, dropped_fraction, NULL) AS dropped_fraction,
	iif((target_accuracy > 0 OR target_loss > 0) AND (repeat = 1 OR platform <> 'sim'),
		ifnull(iif(status = 'done', target_seconds, NULL), 9e999), NULL) AS time_to_target
FROM judged;

-- One row for each configuration: medians over its finished runs, with their intervals.
--   n, seeds, diverged  runs that finished well, their different seeds; and seeds that diverged
--   samples             of accuracy and loss: different seeds, also those that diverged
--   test_accuracy       -infinity if half of the samples or more diverged, also the ends of its
--                       interval; test_loss infinity
--   *_coverage          probability that such an interval holds the median: see median_rank
--   reached, missed     runs with a target (also those that diverged) that did and did not reach it;
--                       of the runs of a simulated seed, one counts
--   time_to_accuracy    to the target, which can be a loss [s]; NULL = not reached: half of these
--                       runs or more missed the target, and a miss counts as infinitely late.
--                       _high is also NULL if that end is a miss
CREATE VIEW configuration_summary AS
WITH done AS MATERIALIZED (SELECT * FROM finished), -- each mention of a view is compiled again, therefore few
figure AS (
	SELECT d.number, m.column1 AS name, CASE m.column1 WHEN 'accuracy' THEN d.test_accuracy
		WHEN 'loss' THEN d.test_loss WHEN 'seconds' THEN d.epoch_seconds
		WHEN 'target' THEN d.time_to_target WHEN 'comm' THEN d.comm_fraction
		WHEN 'wait' THEN d.wait_fraction WHEN 'used' THEN d.utilisation
		WHEN 'stale' THEN d.staleness_mean ELSE d.dropped_fraction END AS x
	FROM done AS d CROSS JOIN (VALUES ('accuracy'), ('loss'), ('seconds'), ('target'), ('comm'), ('wait'),
		('used'), ('stale'), ('dropped')) AS m),
/* MEDIANS */,
grouped AS MATERIALIZED (
	SELECT number, workload, config, config_key, max(compare_key) AS compare_key, strategy, workers,
		servers, sync_every, max(train_size) AS train_size, target_accuracy, target_loss,
		count(*) FILTER (WHERE status = 'done') AS n,
		count(DISTINCT seed) FILTER (WHERE status = 'done') AS seeds,
		count(*) FILTER (WHERE status = 'diverged' AND repeat = 1) AS diverged,
		count(DISTINCT seed) AS samples,
		count(*) FILTER (WHERE time_to_target < 9e999) AS reached,
		count(*) FILTER (WHERE time_to_target = 9e999) AS missed,
		min(test_accuracy) AS test_accuracy_min, max(test_accuracy) AS test_accuracy_max,
		max(staleness_max) AS staleness_max, max(peak_bytes) AS peak_bytes
	FROM done GROUP BY number)
SELECT g.number, g.workload, g.config, g.config_key, g.compare_key, g.strategy, g.workers, g.servers,
	g.sync_every, g.n, g.seeds, g.diverged, g.samples,
	a.mid AS test_accuracy, a.low AS test_accuracy_low, a.high AS test_accuracy_high,
	a.coverage AS test_accuracy_coverage, g.test_accuracy_min, g.test_accuracy_max,
	l.mid AS test_loss, l.low AS test_loss_low, l.high AS test_loss_high, l.coverage AS test_loss_coverage,
	s.mid AS epoch_seconds, s.low AS epoch_seconds_low, s.high AS epoch_seconds_high,
	s.coverage AS epoch_seconds_coverage, g.train_size / nullif(s.mid, 0) AS samples_per_second,
	g.target_accuracy, g.target_loss, g.reached, g.missed,
	nullif(t.mid, 9e999) AS time_to_accuracy, nullif(t.low, 9e999) AS time_to_accuracy_low,
	nullif(t.high, 9e999) AS time_to_accuracy_high, t.coverage AS time_to_accuracy_coverage,
	c.mid AS comm_fraction, c.low AS comm_fraction_low, c.high AS comm_fraction_high,
	w.mid AS wait_fraction, w.low AS wait_fraction_low, w.high AS wait_fraction_high,
	u.mid AS utilisation, u.low AS utilisation_low, u.high AS utilisation_high,
	k.mid AS staleness_mean, k.low AS staleness_mean_low, k.high AS staleness_mean_high, g.staleness_max,
	d.mid AS dropped_fraction, d.low AS dropped_fraction_low, d.high AS dropped_fraction_high, g.peak_bytes
FROM grouped AS g
	LEFT JOIN median AS a ON a.number = g.number AND a.name = 'accuracy'
	LEFT JOIN median AS l ON l.number = g.number AND l.name = 'loss'
	LEFT JOIN median AS s ON s.number = g.number AND s.name = 'seconds'
	LEFT JOIN median AS t ON t.number = g.number AND t.name = 'target'
	LEFT JOIN median AS c ON c.number = g.number AND c.name = 'comm'
	LEFT JOIN median AS w ON w.number = g.number AND w.name = 'wait'
	LEFT JOIN median AS u ON u.number = g.number AND u.name = 'used'
	LEFT JOIN median AS k ON k.number = g.number AND k.name = 'stale'
	LEFT JOIN median AS d ON d.number = g.number AND d.name = 'dropped';

-- The pairs of configurations that are compared, by their numbers, and in which figure: accuracy and
-- loss within a workload; seconds of an epoch for equal work. margin: ignore differences smaller than
-- this, in accuracy (0..1), as a share of the other's loss, and of its seconds.
CREATE VIEW compared AS
WITH grouped AS MATERIALIZED (
	SELECT number, workload, max(compare_key) AS compare_key FROM finished GROUP BY number)
SELECT a.number, b.number AS versus_number, m.column1 AS name, m.column2 AS margin
FROM grouped AS a JOIN grouped AS b ON b.workload = a.workload AND b.number <> a.number
	CROSS JOIN (VALUES ('test_accuracy', 0.003), ('test_loss', 0.01),
		('epoch_seconds', 0.05)) AS m
WHERE m.column1 <> 'epoch_seconds' OR a.compare_key = b.compare_key;

-- The comparison of two configurations: one row for each row of compared if both have figures.
-- With thousands of configurations, all pairs take hours: mvbench table asks for fewer.
--   Accuracy and loss: Student's t of the differences seed by seed, if both sides share two seeds
--   or more; otherwise Welch's t of the two sides. If all repeats of a seed count (see finished), the
--   i-th of one side is paired with the i-th of the other. Rounding to an answer adds its variance,
--   because otherwise equal differences of few seeds would look certain.
--   Runs that diverged: such a run is worse than any number. A sign against its side counts if it
--   would count for some number in the place of the run; a sign in its favour counts only if it
--   would count for every number (see placed). One more divergence therefore never
--   makes a strategy look better. If runs of both sides diverged, at different seeds, the numbers of
--   both sides grow without bound alike. Two runs of one seed that both diverged are equal.
--   Seconds: Welch's t of their logarithms. They do not depend on the seed and are not paired; their
--   noise is multiplicative, and load can slow down one side only. Simulated times without noise
--   (exact) have no spread, also if there is one run only: the interval of their difference is 0 wide.
--   n, versus_n   values on the two sides, with runs that diverged
--   pairs         that share a seed, and runs that diverged without the other side's run of that
--                 seed; 0 = the sides are unpaired
--   diverged, versus_diverged  runs that diverged, without those where both of a seed did
--   difference    the mean of config - versus; of seconds: of the logarithms, as a share, 0.05 = 5
--                 % longer; NULL = a run diverged
--   difference_low, _high  its interval. All intervals of a workload in this figure hold together
--                 in 95 % of all cases; the mark has the same correction: 0 lies outside where it
--                 says better or worse, and inside where it says undecided; where it says equal,
--                 the interval lies within the margin. NULL = too few values
--   margin        of compared, in the units of difference
--   p_better, p_worse, p_equal   probability, by chance alone, of as clear a sign that config is
--                 better, worse, or within the margin: one-sided, and corrected for all comparisons
--                 of this workload in this figure (Bonferroni)
--   mark          equal: p_equal < 0.025; otherwise better or worse: its p < 0.025; otherwise
--                 undecided
--   wanted        undecided: the number of seeds that would decide in four of five such cases, if
--                 the difference and its spread are as estimated; NULL = not known
--   wanted_low, _high  the same at the ends of the 80 % interval of the spread; NULL = fewer than
--                 four degrees of freedom, as with four pairs: not known to a factor of 10
--   wanted_text   for people: '12 to 60 seeds', 'more than 3 seeds'
CREATE VIEW comparison AS
WITH done AS MATERIALIZED (SELECT * FROM finished),
value AS MATERIALIZED ( -- x: NULL = diverged
	SELECT number, name, seed, repeat, exact, quantum, nullif(nullif(x, 9e999), -9e999) AS x,
		abs(x) = 9e999 AS lost
	FROM (SELECT d.number, m.column1 AS name, d.seed, d.repeat,
			d.exact AND m.column1 = 'epoch_seconds' AS exact, iif(m.column1 = 'test_accuracy',
			ifnull(1.0 / nullif(d.answers, 0), 0), 0) AS quantum, CASE m.column1
			WHEN 'test_accuracy' THEN d.test_accuracy WHEN 'test_loss' THEN d.test_loss
			ELSE ln(d.epoch_seconds) END AS x
		FROM done AS d CROSS JOIN (VALUES ('test_accuracy'), ('test_loss'),
			('epoch_seconds')) AS m)
	WHERE x IS NOT NULL),
-- sx, sxx: sums of x and x^2; up: 1 = a larger x is better, -1 = a smaller
side AS MATERIALIZED ( -- v: the squared error of the mean
	SELECT number, name, n, iif(name = 'test_accuracy', 1, -1) AS up, max(mean) AS mean,
		total(x) AS sx, total(x * x) AS sxx, max(quantum * quantum) / 12 AS rounding,
		iif(n = 1 AND max(exact), 0, (total((x - mean) * (x - mean)) / (n - 1)
			+ max(quantum * quantum) / 12) / n) AS v,
		sum(lost) AS lost
	FROM (SELECT *, avg(x) OVER w AS mean, count(*) OVER w AS n FROM value
		WINDOW w AS (PARTITION BY number, name))
	GROUP BY number, name),
-- CROSS JOIN keeps the order of loops: the planner cannot know how few rows these tables have
paired AS MATERIALIZED (
	SELECT number, versus_number, name, n, avg(d) AS mean, total(d) AS sx, total(d * d) AS sxx,
		max(quantum * quantum) / 6 AS rounding, sum(lost) AS lost, sum(versus_lost) AS versus_lost,
		sum(lost AND versus_lost) AS both_lost,
		(total((d - mean) * (d - mean)) / (n - 1) + max(quantum * quantum) / 6) / n AS v
	FROM (SELECT *, count(*) OVER w AS n, avg(d) OVER w AS mean
		FROM (SELECT c.number, c.versus_number, c.name, a.quantum, a.lost, b.lost AS versus_lost,
				iif(a.lost AND b.lost, 0, a.x - b.x) AS d
			FROM compared AS c CROSS JOIN value AS a ON a.number = c.number AND a.name = c.name
				CROSS JOIN value AS b ON b.number = c.versus_number AND b.name = c.name
					AND b.seed = a.seed AND b.repeat = a.repeat
			WHERE c.name <> 'epoch_seconds')
		WINDOW w AS (PARTITION BY number, versus_number, name))
	WHERE n >= 2 GROUP BY number, versus_number, name),
-- n1, n2: values of the sides; l1, l2: of these, runs that diverged while the other side's did not
both AS MATERIALIZED (
	SELECT c.number, c.versus_number, c.name, a.up, a.n AS n1, a.v AS v1, b.n AS n2, b.v AS v2,
		a.lost - ifnull(p.both_lost, 0) AS l1, b.lost - ifnull(p.both_lost, 0) AS l2,
		ifnull(p.n + a.lost - p.lost + b.lost - p.versus_lost, 0) AS pairs,
		ifnull(p.mean, a.mean - b.mean) AS difference, ifnull(p.v, a.v + b.v) AS v,
		a.up * p.sx AS psx, p.sxx AS psxx, p.rounding AS pr,
		a.up * a.sx AS sx1, a.sxx AS sxx1, a.rounding AS r1, a.up * a.mean AS m1,
		a.up * b.sx AS sx2, b.sxx AS sxx2, b.rounding AS r2, a.up * b.mean AS m2,
		CASE c.name WHEN 'test_loss' THEN c.margin * abs(b.mean)
			WHEN 'epoch_seconds' THEN ln(1 + c.margin) ELSE c.margin END AS margin
	FROM compared AS c CROSS JOIN side AS a ON a.number = c.number AND a.name = c.name
		CROSS JOIN side AS b ON b.number = c.versus_number AND b.name = c.name
		LEFT JOIN paired AS p ON p.number = c.number AND p.versus_number = c.versus_number
			AND p.name = c.name),
-- The least t of n pairs in which l of the numbers are free, s and ss the sums of the others and of
-- their squares: t = sqrt(n - 1) k / sqrt(1 - k^2), with the cosine k of the angle between the
-- differences and (1, .., 1). It is least with all free numbers equal: at ss / s if s < 0, otherwise
-- at -infinity. Free numbers of both sides: at -infinity and infinity.
-- The same of two sides: with the number x in the place of each of the l of n values of a side,
-- t = (a + b x) / sqrt(c + 2 d x + e x^2). Its other extreme is at the infinities.
placed AS MATERIALIZED (
	SELECT *, max(-1, min(1, CASE WHEN l1 AND l2 THEN (l2 - l1) / sqrt(pairs * (l1 + l2))
			WHEN l1 THEN -sqrt((l1 + ifnull(pow(min(psx, 0), 2) / pss, 0)) / pairs)
			ELSE sqrt((l2 + ifnull(pow(max(psx, 0), 2) / pss, 0)) / pairs) END)) AS k,
		s / n - m AS a, l / n AS b, (ss - s * s / n) / (n - 1) / n + r / n + w AS c,
		-s * l / n / (n - 1) / n AS d, (l - l * l / n) / (n - 1) / n AS e
	FROM (SELECT *, nullif(psxx + (pairs - 1) * pr, 0) AS pss, 1.0 * iif(l1, n1, n2) AS n,
			1.0 * iif(l1, l1, l2) AS l, iif(l1, sx1, sx2) AS s, iif(l1, sxx1, sxx2) AS ss,
			iif(l1, r1, r2) AS r, iif(l1, m2, m1) AS m, iif(l1, v2, v1) AS w FROM both)),
free AS MATERIALIZED ( -- t = free_d / sqrt(free_v); NULL = no run diverged
	SELECT *, CASE WHEN NOT l1 + l2 THEN NULL WHEN pairs THEN k * sqrt(pairs - 1)
			WHEN l1 AND l2 THEN 1.0 * l2 / n2 - 1.0 * l1 / n1
			ELSE iif(l1, 1, -1) * ifnull(iif(a * e < b * d, -sqrt((a * a * e - 2 * a * b * d
				+ b * b * c) / nullif(max(0, c * e - d * d), 0)), -b / sqrt(nullif(e, 0))),
				-9e999) END AS free_d,
		CASE WHEN pairs THEN 1 - k * k WHEN l1 AND l2 THEN e
			+ l2 * (1 - 1.0 * l2 / n2) / (n2 - 1) / n2 ELSE 1 END AS free_v
	FROM placed),
sides AS MATERIALIZED (
	SELECT number, versus_number, name, n1, n2, pairs, l1, l2,
		CASE WHEN free_d IS NULL THEN v1 WHEN pairs OR min(n1, n2) > 1 THEN 0 END AS v1,
		iif(free_d IS NULL, v2, 0) AS v2, iif(free_d IS NULL, difference, up * free_d) AS d,
		CASE WHEN free_d IS NULL THEN v WHEN abs(free_d) < 9e999 THEN free_v ELSE 0 END AS v,
		iif(free_d IS NULL, margin, NULL) AS margin
	FROM free),
/* WELCH */,
named AS MATERIALIZED (SELECT number, workload, config, config_key FROM done GROUP BY number),
estimate AS MATERIALIZED (
	SELECT row_number() OVER () AS id, a.workload || ' ' || h.name AS family, sqrt(v) AS se,
		iif(pairs, pairs, min(n1, n2)) AS size, 0.025 AS level, 1 AS corrected, h.*, own_df AS df,
		a.workload, a.config, a.config_key, b.config AS versus, b.config_key AS versus_key
	FROM welch AS h CROSS JOIN named AS a ON a.number = h.number
		CROSS JOIN named AS b ON b.number = h.versus_number),
/* STUDENT */,
directed AS (
	SELECT *, iif(name = 'test_accuracy', p_more, p_less) AS p_better,
		iif(name = 'test_accuracy', p_less, p_more) AS p_worse
	FROM student),
marked AS (
	SELECT *, CASE WHEN p_equal < 0.025 THEN 'equal' WHEN p_better < 0.025 THEN 'better'
		WHEN p_worse < 0.025 THEN 'worse' ELSE 'undecided' END AS mark FROM directed)
SELECT workload, name, number, config, config_key, versus_number, versus, versus_key,
	n1 AS n, n2 AS versus_n, pairs, l1 AS diverged, l2 AS versus_diverged,
	iif(name = 'epoch_seconds', exp(d) - 1, d) AS difference,
	iif(name = 'epoch_seconds', exp(d - half) - 1, d - half) AS difference_low,
	iif(name = 'epoch_seconds', exp(d + half) - 1, d + half) AS difference_high,
	iif(name = 'epoch_seconds', exp(margin) - 1, margin) AS margin,
	p_better, p_worse, p_equal, mark,
	iif(mark = 'undecided', wanted, NULL) AS wanted,
	iif(mark = 'undecided', wanted_low, NULL) AS wanted_low,
	iif(mark = 'undecided', wanted_high, NULL) AS wanted_high,
	iif(mark = 'undecided', wanted_text, NULL) AS wanted_text
FROM (SELECT workload, name, number, config, config_key, versus_number, versus, versus_key, n1, n2, pairs,
		l1, l2, p_better, p_worse, p_equal, mark, iif(lost, NULL, d) AS d, iif(lost, NULL, half) AS half,
		margin, iif(lost, NULL, wanted) AS wanted, iif(lost, NULL, wanted_low) AS wanted_low,
		iif(lost, NULL, wanted_high) AS wanted_high, iif(lost, NULL, wanted_text) AS wanted_text
	FROM (SELECT *, l1 + l2 > 0 AS lost FROM marked));

-- One row for each cell that was run both real and simulated: its newest finished simulation, and its
-- finished real runs on the machine of the newest of them. Real runs from before the calibration of
-- that simulation count only if there are none from after it. A cell has the same options, label and
-- seed, except those of the platform; the placement of its tables is therefore equal too.
--   cell            a JSON object of those options; config and config_hash are of the real runs
--   n               real runs; real_* are medians over them, except real_low and real_high
--   cores_share     the share of its core that the worker had that had the least
--   *_s             median seconds of an epoch; time_error is simulated / real - 1, loss_error as well
--   *_comm_s        of these seconds, communication and waiting; comm_error is simulated / real - 1
--   *_compute_s     of these seconds, the steps without both; compute_error as well
--   *_share         share of the segment's seconds: communication and waiting, which a worker cannot
--                   distinguish; share_error is simulated - real; NULL = one rank only
--   staleness_distance  half the sum of |simulated - real| over the shares of pushes with each
--                   staleness, 0..1; NULL = one worker, or no pushes
CREATE VIEW validation AS
WITH done AS MATERIALIZED (
	SELECT s.id, s.label, s.platform = 'sim' AS simulated,
		json_array(s.host, s.hosts, s.network) AS host, s.started, k.config,
		s.config_hash, s.oversubscribed, s.workload, s.strategy, s.workers, s.servers,
		s.sync_every, s.batch, s.epochs, s.seed, k.epoch_seconds, k.test_loss, k.cores_share,
		k.compute_fraction * k.epoch_seconds AS compute_s,
		iif(s.workers + s.servers > 1, k.comm_fraction + k.wait_fraction, NULL) AS share,
		(SELECT json_group_object(key, value)
			FROM json_each(json_set(k.config_key, '$.seed', s.seed))
			WHERE key NOT GLOB 'sim_*'
				AND key NOT IN ('platform', 'transport', 'hosts', 'network'))
			AS cell
	FROM run AS s JOIN run_figures AS k ON k.run_id = s.id
	WHERE s.status = 'done' AND k.epoch_seconds > 0),
simulated AS MATERIALIZED (
	SELECT cell, epoch_seconds, share, compute_s, test_loss, max(id) AS id -- the other columns are of the row with the max
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
	SELECT simulated_id AS number, column1 AS name,
		CASE column1 WHEN 'seconds' THEN epoch_seconds WHEN 'share' THEN share
			WHEN 'comm' THEN share * epoch_seconds WHEN 'cores' THEN cores_share
			WHEN 'compute' THEN compute_s ELSE test_loss END AS x
	FROM real CROSS JOIN (
		VALUES ('seconds'), ('share'), ('comm'), ('compute'), ('cores'), ('loss'))),
/* MEDIANS */,
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
	m.mid AS real_s, min(r.epoch_seconds) AS real_low, max(r.epoch_seconds) AS real_high,
	c.mid AS cores_share, s.epoch_seconds AS simulated_s, s.epoch_seconds / m.mid - 1 AS time_error,
	h.mid AS real_share, s.share AS simulated_share, s.share - h.mid AS share_error,
	k.mid AS real_comm_s, s.share * s.epoch_seconds AS simulated_comm_s,
	s.share * s.epoch_seconds / nullif(k.mid, 0) - 1 AS comm_error,
	p.mid AS real_compute_s, s.compute_s AS simulated_compute_s,
	s.compute_s / nullif(p.mid, 0) - 1 AS compute_error,
	d.distance AS staleness_distance,
	l.mid AS real_loss, s.test_loss AS simulated_loss, s.test_loss / nullif(l.mid, 0) - 1 AS loss_error
FROM real AS r JOIN simulated AS s ON s.id = r.simulated_id
	JOIN median AS m ON m.number = s.id AND m.name = 'seconds'
	LEFT JOIN median AS h ON h.number = s.id AND h.name = 'share'
	LEFT JOIN median AS k ON k.number = s.id AND k.name = 'comm'
	LEFT JOIN median AS p ON p.number = s.id AND p.name = 'compute'
	LEFT JOIN median AS c ON c.number = s.id AND c.name = 'cores'
	LEFT JOIN median AS l ON l.number = s.id AND l.name = 'loss'
	LEFT JOIN distance AS d USING (simulated_id)
GROUP BY s.id;
