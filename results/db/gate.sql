-- gate.sql - the views of `mvbench check`.

-- The values that the newest `mvbench check` compared. One row for each cell, seed and figure of its
-- baseline or of its runs. base and now grow as results get worse: accuracies are negated. quantum is
-- the least amount by which a figure can differ.
CREATE VIEW gate_figure AS
WITH pair AS (
	SELECT name, cell, seed FROM gate_limit JOIN baseline USING (name)
	UNION SELECT name, cell, seed FROM gate_limit JOIN checked USING (name)),
found AS MATERIALIZED (
	SELECT p.name, p.cell, p.seed, -b.test_accuracy AS base_a, b.test_loss AS base_l,
		b.train_loss AS base_t, iif(b.train_loss IS NULL, b.running_loss, NULL) AS base_r,
		-e.test_accuracy AS now_a, e.test_loss AS now_l, e.train_loss AS now_t,
		e.running_loss AS now_r, 1.0 / nullif(ifnull(b.test_size, r.test_size) * r.targets, 0) AS quantum
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
FROM found WHERE ifnull(base_t, now_t) IS NOT NULL
UNION ALL SELECT name, cell, seed, 'running loss', base_r, now_r, 0 -- an older baseline has only that
FROM found WHERE base_r IS NOT NULL;

-- One row for each cell and figure with enough runs on both sides: did it get worse? The test is
-- Student's t of the n differences seed by seed if the baseline has every seed of the check (paired);
-- otherwise Welch's t, its degrees of freedom rounded down, at most 1000.
--   worse           mean of now minus that of base, positive = worse; low..high is its 95 % interval
--   unit            1 for accuracies, the baseline for losses: change = worse / unit, and so its interval
--   identical       every difference is 0: no test is made
--   t, df           of the test
--   variance, own_df          of a difference, in units^2, from this cell alone
--   prior_variance, prior_df  from all cells together (below); NULL = not known
--   p, p_better     probability of a difference at least as large, to the worse (better), by chance alone
--   p_holm, ...     the same, corrected for all tests of the baseline (Holm)
--   wanted, wanted_text  number of seeds that would show a difference, or that it is within the
--                   minimum: see student.sql
--   verdict         by gate_limit: worse, better, identical; unsure: the interval reaches values that
--                   would be worse; ok
-- Accuracies have steps of one answer (quantum): rounding adds quantum^2 / 12 to the variance of each side,
-- because otherwise equal differences of few seeds would look certain. Equal differences of losses are
-- certain: p is 0 or 1.
-- A variance of three or five seeds is a poor estimate. The cells of a baseline therefore share their
-- variances, figure by figure (Smyth, Stat. Appl. Genet. Mol. Biol. 3, 2004, article 3, section 6.2):
-- each is taken as a random draw of s0^2 times d0 over a chi-square of d0 degrees of freedom. With e =
-- ln variance - digamma(df / 2) + ln(df / 2) over G cells, trigamma(d0 / 2) is the variance of e
-- less the mean of trigamma(df / 2), and ln s0^2 is the mean of e + digamma(d0 / 2) - ln(d0 / 2).
-- If the first is not positive, the cells do not differ: d0 is infinite. Smyth has thousands of cells.
-- A check has few, which can look alike by chance: it therefore takes the variance of e at its upper
-- 90 % limit, by the chi-square quantile of G - 1 degrees of freedom (Wilson and Hilferty, PNAS 17,
-- 1931). A test has the variance (d0 s0^2 + df variance) / (d0 + df), and d0 + df degrees of freedom,
-- at most the sum of all df.
CREATE VIEW gate_test AS
WITH RECURSIVE mean AS (
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
sides AS ( -- paired: v1 is of the mean difference
	SELECT *, iif(paired, n_pair, 0) AS pairs, n_base AS n1, n_now AS n2,
		paired AND NOT differs AS identical,
		iif(paired, mean_pair, mean_now - mean_base) AS worse,
		iif(paired, mean_paired, mean_base) AS base,
		iif(paired, mean_paired + mean_pair, mean_now) AS now,
		iif(paired, n_pair, 1.0 * n_base * n_now / (n_base + n_now)) AS per,
		iif(paired, (ss_pair / (n_pair - 1) + quantum * quantum / 6) / n_pair,
			(ss_base / (n_base - 1) + quantum * quantum / 12) / n_base) AS v1,
		iif(paired, 0, (ss_now / (n_now - 1) + quantum * quantum / 12) / n_now) AS v2
	FROM spread WHERE iif(paired, n_pair, min(n_base, n_now)) >= 2),
/* WELCH */,
sample_variance AS MATERIALIZED (
	SELECT row_number() OVER () AS id, *, (v1 + v2) * per / (unit * unit) AS variance
	FROM (SELECT *, iif(metric = 'test accuracy', 1, ifnull(nullif(abs(base), 0), 1)) AS unit
		FROM welch)),
-- digamma and trigamma of df / 2, from those of 1/2 and 1
polygamma (df, digamma, trigamma) AS (
	VALUES (1, -0.57721566490153286 - 2 * ln(2), pi() * pi() / 2),
		(2, -0.57721566490153286, pi() * pi() / 6)
	UNION ALL SELECT df + 2, digamma + 2.0 / df, trigamma - 4.0 / (df * df)
	FROM polygamma WHERE df + 2 <= (SELECT max(own_df) FROM sample_variance)),
scatter AS (
	SELECT *, avg(e) OVER (PARTITION BY name, metric) AS mean
	FROM (SELECT o.name, o.metric, o.own_df, h.trigamma,
			iif(o.identical, NULL, ln(o.variance) - h.digamma + ln(o.own_df / 2.0)) AS e
		FROM sample_variance AS o CROSS JOIN polygamma AS h ON h.df = o.own_df)),
moments AS MATERIALIZED ( -- trigamma: NULL = fewer than two cells
	SELECT name, metric, e, most,
		ss / k / pow(1 - 2 / (9.0 * k) - 1.2815516 * sqrt(2 / (9.0 * k)), 3)
		- of_sample AS trigamma
	FROM (SELECT name, metric, max(mean) AS e, sum(own_df) FILTER (WHERE e NOT NULL) AS most,
			sum((e - mean) * (e - mean)) AS ss, nullif(count(e) - 1, 0) AS k,
			avg(trigamma) FILTER (WHERE e NOT NULL) AS of_sample
		FROM scatter GROUP BY name, metric)),
-- Newton's method for trigamma(y) = x (Smyth's appendix): from above, and never past the root. Both
-- functions are computed at y + 8 by their series for large numbers, then at y by their recurrence.
shift (k) AS (VALUES (0), (1), (2), (3), (4), (5), (6), (7)),
newton (name, metric, e, most, x, y, i) AS ( -- y: NULL = infinite, or not known
	SELECT name, metric, e, most, trigamma, iif(trigamma > 0, 0.5 + 1 / trigamma, NULL), 0
		FROM moments
	UNION ALL SELECT name, metric, e, most, x, y - (
		SELECT tri * (1 - tri / x) / (total(2 / pow(y + k, 3)) + 1 / pow(y + 8, 2)
			+ 1 / pow(y + 8, 3) + 1 / pow(y + 8, 4) / 2 - 1 / pow(y + 8, 6) / 6
			+ 1 / pow(y + 8, 8) / 6)
		FROM shift JOIN (SELECT total(1 / pow(y + k, 2)) + 1 / (y + 8)
			+ 1 / pow(y + 8, 2) / 2 + 1 / pow(y + 8, 3) / 6 - 1 / pow(y + 8, 5) / 30
			+ 1 / pow(y + 8, 7) / 42 AS tri FROM shift)), i + 1
	FROM newton WHERE i < 24 AND y NOT NULL),
prior AS MATERIALIZED (
	SELECT name, metric, most, iif(x IS NULL, NULL, ifnull(2 * y, 9e999)) AS d0,
		exp(e + ifnull((
			SELECT ln(y + 8) - 1 / (y + 8) / 2 - 1 / pow(y + 8, 2) / 12
				+ 1 / pow(y + 8, 4) / 120 - 1 / pow(y + 8, 6) / 252
				- total(1 / (y + k)) - ln(y) FROM shift), 0)) AS s0
	FROM newton WHERE i = 24 OR y IS NULL),
moderated AS (
	SELECT o.*, p.d0 AS prior_df, iif(p.d0 IS NULL, NULL, p.s0) AS prior_variance,
		CASE WHEN p.d0 IS NULL OR o.variance <= 0 THEN o.variance
			WHEN p.d0 = 9e999 THEN p.s0 ELSE (p.d0 * p.s0 + o.own_df * o.variance)
				/ (p.d0 + o.own_df) END AS shared,
		iif(o.variance > 0, CAST(min(o.own_df + ifnull(p.d0, 0), ifnull(p.most, o.own_df),
			1000) AS INTEGER),
			o.own_df) AS test_df
	FROM prior AS p CROSS JOIN sample_variance AS o ON o.name = p.name AND o.metric = p.metric),
estimate AS MATERIALIZED (
	SELECT m.*, name AS family, worse AS d, unit * sqrt(shared / per) AS se,
		iif(identical, NULL, test_df) AS df,
		nullif(least, 0) AS margin, iif(paired, n_pair, min(n_base, n_now)) AS size,
			alpha AS level, 0 AS corrected
	FROM (SELECT m.*, l.alpha, iif(metric = 'test accuracy', l.min_accuracy,
		l.min_loss) * unit AS least
		FROM moderated AS m JOIN gate_limit AS l USING (name)) AS m),
/* STUDENT */,
test AS (
	SELECT *, ifnull(half, 0) AS reach, ifnull(more, 1.0) AS p, ifnull(less, 1.0) AS p_better,
		ifnull(p_more, 1.0) AS p_holm, ifnull(p_less, 1.0) AS p_better_holm
	FROM student)
SELECT name, cell, metric, n_base, n_now, paired, identical, worse / nullif(se, 0) AS t,
	ifnull(df, own_df) AS df,
	own_df, variance, prior_df, prior_variance, base, now, worse, worse - reach AS low,
		worse + reach AS high,
	unit, p, p_better, p_holm, p_better_holm, worse / unit AS change,
		(worse - reach) / unit AS change_low,
	(worse + reach) / unit AS change_high, wanted, wanted_text,
	CASE WHEN identical THEN 'identical'
		WHEN p_holm < alpha AND worse >= least THEN 'worse'
		WHEN p_better_holm < alpha AND -worse >= least THEN 'better'
		WHEN worse + reach > least THEN 'unsure'
		ELSE 'ok' END AS verdict
FROM test;

-- One row for each cell of a baseline that was checked: its verdict.
--   failed, diverged, missing   a run of the cell failed or diverged; a run was not made
--   worse, better   a figure is worse (better): p_holm below alpha, and beyond the minimum
--   time            its simulated time differs from that of the baseline
--   identical       every figure of every run is bit for bit that of the baseline
--   unsure          the interval of a figure reaches values that would be worse: it may be worse
--   untested        there are too few runs for a test
--   ok              none of these
-- and, with the figures of its worst test (gate_test), where chance is the p_holm of the verdict:
--   configuration   its workload and short name; if several cells have these, the options that differ
--   wanted, runs    runs that the check needs, and has; of these failed and diverged, and a reason
--   comparable      simulations: 1 = with the same calibration; NULL = not simulated
--   differs         1 = an epoch takes another time, beyond the nanoseconds that are rounded when the
--                   time before it differs; longer: the difference as a share
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
			ifnull(abs(r.seconds - b.epoch_seconds) > 1e-6 * b.epoch_seconds + 2e-9,
				r.seconds IS NOT b.epoch_seconds) AS differs,
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
		AND r.status NOT IN ('pending', 'running')
		AND NOT (r.status = 'failed' AND ifnull(r.reason, '') LIKE 'interrupted%')
	GROUP BY c.name, c.cell),
worst AS MATERIALIZED ( -- of the tests of a cell: the other columns are of the row with the min
	SELECT *, iif(verdict = 'better', p_better_holm, p_holm) AS chance,
		total(identical) = count(*) AS all_identical,
		min(CASE verdict WHEN 'worse' THEN p WHEN 'better' THEN 4 + p_better
			WHEN 'unsure' THEN iif(unsure_fails, 2, 6) + p ELSE 8 + p END)
	FROM gate_test JOIN gate_limit USING (name) GROUP BY name, cell),
judged AS (
	SELECT m.*, n.config || ifnull(' ' || x.text, '') AS configuration,
		t.comparable, t.differs, t.longer,
		CASE WHEN m.failed THEN 'failed' WHEN m.diverged THEN 'diverged'
			WHEN m.runs < m.wanted THEN 'missing'
			WHEN w.verdict = 'worse' THEN 'worse' WHEN t.differs THEN 'time'
			WHEN w.verdict IN ('better', 'unsure') THEN w.verdict
			WHEN w.all_identical THEN 'identical' WHEN w.cell IS NOT NULL THEN 'ok'
				WHEN t.comparable THEN 'identical'
			ELSE 'untested' END AS verdict,
		w.wanted_text, w.metric, w.n_base, w.n_now, w.paired, w.chance, w.base,
			w.now,
		w.change, w.change_low, w.change_high
	FROM made AS m JOIN named AS n USING (name, cell) LEFT JOIN suffix AS x USING (name, cell)
		LEFT JOIN clock AS t USING (name, cell)
		LEFT JOIN worst AS w USING (name, cell))
SELECT j.*,
	verdict NOT IN ('ok', 'unsure', 'better', 'identical')
		OR (verdict = 'better' AND l.better_fails)
		OR (verdict = 'unsure' AND l.unsure_fails) AS fails,
	instr('failed diverged missing worse time untested better unsure ok identical',
		verdict) AS rank,
	CASE verdict
		WHEN 'failed' THEN failed || ' of ' || wanted || ' runs failed' || ifnull(': ' || reason, '')
		WHEN 'diverged' THEN diverged || ' of ' || wanted || ' runs diverged'
			|| ifnull(': ' || reason, '')
		WHEN 'missing' THEN (wanted - runs) || ' of ' || wanted || ' runs are missing'
		ELSE CASE WHEN differs AND abs(longer) > 0 THEN printf('simulated time is %.3g %% %s',
				abs(100 * longer), iif(longer > 0, 'longer', 'shorter'))
			WHEN differs THEN 'other simulated times'
			WHEN comparable = 0 THEN 'calibrated again: simulated times cannot be compared'
			WHEN verdict = 'untested' THEN 'too few runs for a test'
			WHEN verdict = 'unsure' THEN ifnull(wanted_text || ' would decide', '')
			ELSE '' END
		END AS note
FROM judged AS j JOIN gate_limit AS l USING (name);

-- The same, for people: figures rounded, accuracies in percent, changes with the sign of the figure
-- itself.
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
