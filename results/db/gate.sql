-- gate.sql - the views of `mvbench check`.

-- What the newest `mvbench check` decided by. One row a cell, seed and figure of its baseline and
-- of its runs, whichever has them. base and now grow as things get worse: accuracies have
-- their sign turned. quantum is the least amount by which a figure can differ.
CREATE VIEW gate_figure AS
WITH pair AS (
	SELECT name, cell, seed FROM gate_limit JOIN baseline USING (name)
	UNION SELECT name, cell, seed FROM gate_limit JOIN checked USING (name)),
found AS (
	SELECT p.name, p.cell, p.seed, -b.test_accuracy AS base_a, b.test_loss AS base_l,
		b.train_loss AS base_t, -e.test_accuracy AS now_a, e.test_loss AS now_l,
		e.train_loss AS now_t, 1.0 / nullif(ifnull(b.test_size, r.test_size), 0) AS quantum
	FROM pair AS p LEFT JOIN baseline AS b USING (name, cell, seed)
		LEFT JOIN checked AS c USING (name, cell, seed)
		LEFT JOIN run AS r ON r.id = c.run_id AND r.status = 'done'
		LEFT JOIN epoch AS e ON e.run_id = r.id
			AND e.epoch = (SELECT max(epoch) FROM epoch WHERE run_id = r.id))
SELECT name, cell, seed, 'test accuracy' AS metric, base_a AS base, now_a AS now,
	ifnull(quantum, 0) AS quantum
FROM found WHERE ifnull(base_a, now_a) IS NOT NULL
UNION ALL SELECT name, cell, seed, 'test loss', base_l, now_l, 0
FROM found WHERE ifnull(base_l, now_l) IS NOT NULL
UNION ALL SELECT name, cell, seed, 'train loss', base_t, now_t, 0
FROM found WHERE ifnull(base_t, now_t) IS NOT NULL;

-- The 0.975 quantile of Student's t; above 30 degrees of freedom see gate_test.
CREATE VIEW gate_quantile AS
SELECT column1 AS df, column2 AS t FROM (VALUES
	(1, 12.706204736), (2, 4.3026527297), (3, 3.1824463053), (4, 2.7764451052), (5, 2.5705818356),
	(6, 2.4469118511), (7, 2.3646242516), (8, 2.3060041352), (9, 2.2621571628), (10, 2.228138852),
	(11, 2.2009851601), (12, 2.1788128297), (13, 2.1603686565), (14, 2.1447866879), (15, 2.1314495456),
	(16, 2.1199052992), (17, 2.1098155778), (18, 2.1009220402), (19, 2.0930240544), (20, 2.0859634473),
	(21, 2.0796138447), (22, 2.0738730679), (23, 2.0686576104), (24, 2.0638985616), (25, 2.0595385528),
	(26, 2.0555294386), (27, 2.0518305165), (28, 2.0484071418), (29, 2.0452296421), (30, 2.0422724563));

-- One row a cell and figure with enough runs on both sides: did it get worse? By seed where every
-- seed of the check is in the baseline (paired; Student's t of the n differences), else Welch's t,
-- its degrees of freedom rounded down, at most 1000.
--   worse           mean of now minus that of base, positive = worse; low..high is its 95 % interval
--   unit            1 for accuracies, the baseline for losses: change = worse / unit, and so its interval
--   identical       every difference is 0: no test is made
--   p, p_better     of so large a difference or a larger one, to the worse (better), by chance alone
--   p_holm, ...     the same, corrected for all tests of the baseline (Holm)
--   verdict         by gate_limit: worse, better, identical, ok
-- Accuracies come in steps of one test row: rounding adds quantum^2 / 12 to the variance of each side,
-- so that equal differences of few seeds do not pass for certainty. Elsewhere, equal differences are
-- certain: p is 0 or 1.
-- P(t) by its finite series for whole degrees of freedom: Abramowitz and Stegun, 26.7.3 and 26.7.4.
CREATE VIEW gate_test AS
WITH mean AS (
	SELECT *, count(base) OVER w AS n_base, count(now) OVER w AS n_now,
		count(now - base) OVER w AS n_pair, avg(base) OVER w AS mean_base,
		avg(now) OVER w AS mean_now, avg(now - base) OVER w AS mean_pair,
		avg(iif(now IS NULL, NULL, base)) OVER w AS mean_paired
	FROM gate_figure WINDOW w AS (PARTITION BY name, cell, metric)),
spread AS (
	SELECT name, cell, metric, n_base, n_now, n_pair, mean_base, mean_now, mean_pair,
		mean_paired, n_pair = n_now AS paired, max(quantum) AS quantum,
		max(now - base <> 0) AS differs,
		total((now - base - mean_pair) * (now - base - mean_pair)) AS ss_pair,
		total((base - mean_base) * (base - mean_base)) AS ss_base,
		total((now - mean_now) * (now - mean_now)) AS ss_now
	FROM mean GROUP BY name, cell, metric),
error AS (
	SELECT *, iif(paired, mean_pair, mean_now - mean_base) AS worse,
		iif(paired, mean_paired, mean_base) AS base,
		iif(paired, mean_paired + mean_pair, mean_now) AS now,
		iif(paired, (ss_pair / (n_pair - 1) + quantum * quantum / 6) / n_pair,
			(ss_base / (n_base - 1) + quantum * quantum / 12) / n_base) AS v1,
		iif(paired, 0, (ss_now / (n_now - 1) + quantum * quantum / 12) / n_now) AS v2
	FROM spread WHERE iif(paired, n_pair, min(n_base, n_now)) >= 2),
student AS MATERIALIZED (
	SELECT row_number() OVER () AS id, *, paired AND NOT differs AS identical,
		sqrt(v1 + v2) AS se, worse / nullif(sqrt(v1 + v2), 0) AS t,
		CASE WHEN paired THEN n_pair - 1
			WHEN v1 + v2 <= 0 THEN n_base + n_now - 2
			ELSE min(1000, max(1, CAST((v1 + v2) * (v1 + v2) / (v1 * v1 / (n_base - 1)
				+ v2 * v2 / (n_now - 1)) AS INTEGER))) END AS df
	FROM error),
series AS ( -- total: of the series for this t
	SELECT *, (WITH term (k, x, term, total) AS (
			SELECT 2 + df % 2, df / (df + t * t), 1.0, 1.0
			UNION ALL SELECT k + 2, x, term * x * (k - 1) / k, total + term * x * (k - 1) / k
			FROM term WHERE k <= df - 2)
		SELECT max(total) FROM term) AS total
	FROM student),
central AS ( -- c: P(|T| < t), with the sign of t; NULL = t is infinite
	SELECT *, CASE WHEN df = 1 THEN 2 * atan(t) / pi()
		WHEN df % 2 = 0 THEN t / sqrt(df + t * t) * total
		ELSE 2 / pi() * (atan(t / sqrt(df)) + t * sqrt(df) / (df + t * t) * total) END AS c
	FROM series),
tail AS (
	SELECT s.*, iif(identical, 1.0, max(0, ifnull((1 - c) / 2, worse <= 0))) AS p,
		iif(identical, 1.0, max(0, ifnull((1 + c) / 2, worse >= 0))) AS p_better,
		iif(identical, 0, se) * ifnull(q.t, 1.959963985 + 2.372271 / s.df
			+ 2.822499 / (s.df * s.df) + 2.556 / (s.df * s.df * s.df)) AS half
	FROM central AS s LEFT JOIN gate_quantile AS q ON q.df = s.df),
holm AS (
	SELECT *, count(*) OVER (PARTITION BY name, identical) + 1 AS m,
		row_number() OVER (PARTITION BY name, identical ORDER BY p) AS i,
		row_number() OVER (PARTITION BY name, identical ORDER BY p_better) AS j
	FROM tail),
test AS (
	SELECT name, cell, metric, n_base, n_now, paired, identical, df, base, now, worse,
		worse - half AS low, worse + half AS high,
		iif(metric = 'test accuracy', 1, abs(base)) AS unit, t, p, p_better,
		iif(identical, 1.0, max(min(1.0, (m - i) * p))
			OVER (PARTITION BY name, identical ORDER BY i)) AS p_holm,
		iif(identical, 1.0, max(min(1.0, (m - j) * p_better))
			OVER (PARTITION BY name, identical ORDER BY j)) AS p_better_holm
	FROM holm)
SELECT t.*, worse / unit AS change, low / unit AS change_low, high / unit AS change_high,
	CASE WHEN identical THEN 'identical'
		WHEN p_holm < alpha AND worse >= least * unit THEN 'worse'
		WHEN p_better_holm < alpha AND -worse >= least * unit THEN 'better'
		ELSE 'ok' END AS verdict
FROM (SELECT test.*, alpha, iif(metric = 'test accuracy', min_accuracy, min_loss) AS least
	FROM test JOIN gate_limit USING (name)) AS t;

-- One row a cell of a baseline that was checked: its verdict.
--   failed, diverged, missing   a run of it is so; a run is missing that was not made
--   worse, better   a figure is: p_holm below alpha, and beyond the minimum
--   time            its simulated time is not exactly what it was
--   identical       every figure of every run is bit for bit what it was
--   untested        there are too few runs for a test
--   ok              none of these
-- and, with the figures of its worst test (gate_test), where chance is the p_holm of the verdict:
--   configuration   its workload and short name; where several cells have that, with what they differ in
--   wanted, runs    runs that the check wants, and has; of these failed and diverged, and a reason
--   comparable      simulations: 1 = calibrated as then; NULL = none. These take exactly as long:
--   differs         1 = virtual time is not what it was; longer: by how much of it an epoch is
CREATE VIEW gate_cell AS
WITH named AS MATERIALIZED (
	SELECT name, cell, min(options->>'workload' || ' ' || config) AS config,
		min(options) AS options
	FROM gate_limit JOIN baseline USING (name) GROUP BY name, cell),
setting AS MATERIALIZED (
	SELECT n.name, n.config, n.cell, e.key, e.atom, twins
	FROM (SELECT *, count(*) OVER (PARTITION BY name, config) AS twins FROM named) AS n,
		json_each(n.options) AS e
	WHERE n.twins > 1),
suffix AS MATERIALIZED (
	SELECT name, cell, group_concat(key || '=' || atom, ' ') AS text
	FROM setting JOIN (SELECT name, config, key FROM setting GROUP BY name, config, key
		HAVING count(DISTINCT atom) > 1 OR count(*) < max(twins)) USING (name, config, key)
	GROUP BY name, cell),
clock AS MATERIALIZED (
	SELECT name, cell, min(comparable) AS comparable, max(comparable AND differs) AS differs,
		avg(longer) AS longer
	FROM (SELECT name, cell,
			b.calibration IS (k.made || ifnull(' ' || k.host, '')) AS comparable,
			r.simulated_s IS NOT b.simulated_s OR r.seconds IS NOT b.epoch_seconds
				AS differs,
			r.seconds / nullif(b.epoch_seconds, 0) - 1 AS longer
		FROM (SELECT c.*, r.calibration_id, r.simulated_s,
				(SELECT epoch_seconds FROM run_summary WHERE id = r.id) AS seconds
			FROM gate_limit JOIN checked AS c USING (name) JOIN run AS r ON r.id = c.run_id
			WHERE r.platform = 'sim' AND r.status = 'done') AS r
			JOIN baseline AS b USING (name, cell, seed)
			LEFT JOIN calibration AS k ON k.id = r.calibration_id)
	GROUP BY name, cell),
made AS MATERIALIZED (
	SELECT c.name, c.cell, count(*) AS wanted, count(r.id) AS runs,
		count(*) FILTER (WHERE r.status = 'failed') AS failed,
		count(*) FILTER (WHERE r.status = 'diverged') AS diverged, min(r.reason) AS reason
	FROM gate_limit JOIN checked AS c USING (name) LEFT JOIN run AS r ON r.id = c.run_id
	GROUP BY c.name, c.cell),
worst AS MATERIALIZED ( -- of the tests of a cell: the other columns are of the row with the min
	SELECT *, iif(verdict = 'better', p_better_holm, p_holm) AS chance,
		total(identical) = count(*) AS all_identical,
		min(CASE verdict WHEN 'worse' THEN p WHEN 'better' THEN 2 + p_better ELSE 4 + p END)
	FROM gate_test GROUP BY name, cell),
judged AS (
	SELECT m.*, n.config || ifnull(' ' || x.text, '') AS configuration,
		t.comparable, t.differs, t.longer,
		CASE WHEN m.failed THEN 'failed' WHEN m.diverged THEN 'diverged'
			WHEN m.runs < m.wanted THEN 'missing'
			WHEN w.verdict = 'worse' THEN 'worse' WHEN t.differs THEN 'time'
			WHEN w.verdict = 'better' THEN 'better' WHEN w.all_identical THEN 'identical'
			WHEN w.cell IS NOT NULL THEN 'ok' WHEN t.comparable THEN 'identical'
			ELSE 'untested' END AS verdict,
		w.metric, w.n_base, w.n_now, w.paired, w.chance, w.base, w.now,
		w.change, w.change_low, w.change_high
	FROM made AS m JOIN named AS n USING (name, cell) LEFT JOIN suffix AS x USING (name, cell)
		LEFT JOIN clock AS t USING (name, cell)
		LEFT JOIN worst AS w USING (name, cell))
SELECT j.*,
	verdict NOT IN ('ok', 'better', 'identical') OR (verdict = 'better' AND l.better_fails) AS fails,
	instr('failed diverged missing worse time untested better ok identical', verdict) AS rank,
	CASE verdict
		WHEN 'failed' THEN failed || ' of ' || wanted || ' runs failed' || ifnull(': ' || reason, '')
		WHEN 'diverged' THEN diverged || ' of ' || wanted || ' runs diverged'
			|| ifnull(': ' || reason, '')
		WHEN 'missing' THEN (wanted - runs) || ' of ' || wanted || ' runs are not there'
		ELSE CASE WHEN differs AND abs(longer) > 0 THEN printf('simulated time is %.3g %% %s',
				abs(100 * longer), iif(longer > 0, 'longer', 'shorter'))
			WHEN differs THEN 'other simulated times'
			WHEN comparable = 0 THEN 'calibrated anew: simulated times cannot be compared'
			WHEN verdict = 'untested' THEN 'too few runs for a test'
			ELSE '' END
		END AS note
FROM judged AS j JOIN gate_limit AS l USING (name);

-- The same as people read it: figures rounded, accuracies in percent, changes with the sign of the
-- figure and not of its badness.
CREATE VIEW gate_line AS
SELECT name, rank, chance, fails, iif(fails, upper(verdict), verdict) AS verdict, configuration,
	runs, ifnull(n_now, runs) AS n, metric,
	CASE WHEN metric = 'test accuracy' THEN printf('%.2f %%', -100 * base)
		WHEN metric NOT NULL THEN printf('%.4g', base) END AS base,
	CASE WHEN metric = 'test accuracy' THEN printf('%.2f %%', -100 * now)
		WHEN metric NOT NULL THEN printf('%.4g', now) END AS now,
	CASE WHEN metric = 'test accuracy' THEN printf('%+.2f', -100 * change)
		WHEN metric NOT NULL THEN printf('%+.2f %%', 100 * change) END AS change,
	CASE WHEN metric = 'test accuracy'
		THEN printf('%+.2f .. %+.2f', -100 * change_high, -100 * change_low)
		WHEN metric NOT NULL THEN printf('%+.2f .. %+.2f %%', 100 * change_low, 100 * change_high)
		END AS interval,
	CASE WHEN chance < 0.0001 THEN '<0.0001' WHEN chance NOT NULL THEN printf('%.4f', chance) END
		AS p, note
FROM gate_cell;
