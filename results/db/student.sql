-- student.sql - tests by Student's t. Views that test (comparison, gate_test) include these expressions
-- in the place of /* STUDENT */. They read table estimate of that view, and keep its other columns:
--   id, family     of the test, and of the tests that are made together
--   d, se, df      a difference, its standard error and its whole degrees of freedom; se = 0: d is
--                  certain; df NULL or < 1 = no test is made, and none counted
--   margin         smaller |d| do not matter; NULL = no margin
--   size, level    number of runs of the estimate, and the accepted chance that any test of the
--                  family is wrong
--   corrected      1 = all tests of the family and their intervals hold together (Bonferroni), 0 =
--                  Holm's tests (Scand. J. Stat. 6, 1979), and the 95 % interval of each alone
-- They make table student, the same rows with
--   more, less     probability by chance alone of a d at least as large (small); p_more, p_less: the
--                  same, corrected for all tests of the family
--   p_equal        the same of the claim that -margin < d < margin: the larger of the two
--                  one-sided p (Schuirmann, J. Pharmacokinet. Biopharm. 15, 1987), corrected
--   half           half of the interval of d. A corrected one has level / tests on each side: it
--                  leaves out 0 if and only if p_more or p_less is below level, and lies within the
--                  margin if and only if p_equal is
--   wanted         number of runs that would show, with a power of 80 %, that d is not 0, or that it
--                  is within the margin, whichever takes fewer: size s^2 (z(level / tests) +
--                  z(0.2))^2 / distance^2 + z^2 / 2 (Guenther, Am. Stat. 35, 1981); s: se. NULL =
--                  no number would
--   wanted_low, wanted_high  the same for the ends of the 80 % interval of the spread: s^2 df /
--                  chi-square, with its quantiles by Wilson and Hilferty (PNAS 17, 1931). NULL =
--                  df < 4: the ends differ by a factor of 10 or more
--   wanted_text    these for people
-- The distribution is the finite series for whole df: Abramowitz and Stegun, 26.7.3 and 26.7.4; the
-- quantile z(p) is 26.2.23, to 0.0005. Newton's method finds quantiles of t in the angle
-- atan(t / sqrt(df)), from 0: P(|T| < t) is concave there, so no step goes past the root. Its
-- derivative is scale cos(angle)^(df - 1).
point AS ( -- rows are narrow, because they are sorted
	SELECT *, x / nullif(se, 0) AS t
	FROM (SELECT id, family, d, se, df, margin, size, level, corrected, column1 AS at,
			CASE WHEN df >= 1 THEN iif(column1, d + column1 * margin, d) END AS x
		FROM estimate CROSS JOIN (VALUES (-1), (0), (1)))
	WHERE at = 0 OR x IS NOT NULL),
series AS MATERIALIZED ( -- total: of the series for this t
	SELECT *, (WITH term (k, x, term, total) AS (
			SELECT 2 + df % 2, df / (df + t * t), 1.0, 1.0
			UNION ALL SELECT k + 2, x, term * x * (k - 1) / k,
				total + term * x * (k - 1) / k
			FROM term WHERE k <= df - 2)
		SELECT max(total) FROM term) AS total
	FROM point),
central AS MATERIALIZED ( -- c: P(|T| < t), with the sign of t
	SELECT *, max(-1, min(1, CASE WHEN t IS NULL THEN sign(x)
		WHEN df = 1 THEN 2 * atan(t) / pi()
		WHEN df % 2 = 0 THEN t / sqrt(df + t * t) * total
		ELSE 2 / pi() * (atan(t / sqrt(df)) + t * sqrt(df)
			/ (df + t * t) * total) END)) AS c
	FROM series),
alone AS (
	SELECT id, family, d, se, df, margin, size, level, corrected,
		max((1.0 - c) / 2) FILTER (WHERE at = 0) AS more,
		max((1.0 + c) / 2) FILTER (WHERE at = 0) AS less,
		max(max((1.0 + c) / 2) FILTER (WHERE at = -1),
			max((1.0 - c) / 2) FILTER (WHERE at = 1)) AS equal
	FROM central GROUP BY id),
family AS (
	SELECT *, count(more) OVER w + 1 AS m,
		row_number() OVER (w ORDER BY more IS NULL, more) AS i,
		row_number() OVER (w ORDER BY less IS NULL, less) AS j,
		row_number() OVER (w ORDER BY equal IS NULL, equal) AS k,
		sqrt(-2 * ln(level / nullif(count(more) OVER w, 0))) AS u
	FROM alone WINDOW w AS (PARTITION BY family)),
adjusted AS (
	SELECT f.*,
		iif(more IS NULL, NULL, max(min(1.0, (m - iif(corrected, 1, i)) * more))
			OVER (PARTITION BY family ORDER BY i)) AS p_more,
		iif(less IS NULL, NULL, max(min(1.0, (m - iif(corrected, 1, j)) * less))
			OVER (PARTITION BY family ORDER BY j)) AS p_less,
		iif(equal IS NULL, NULL, max(min(1.0, (m - iif(corrected, 1, k)) * equal))
			OVER (PARTITION BY family ORDER BY k)) AS p_equal,
		need / iif(df >= 4, pow(1 - 2 / (9.0 * df) + 1.2815516 * sqrt(2 / (9.0 * df)), 3), NULL)
			AS need_low,
		need / iif(df >= 4, pow(1 - 2 / (9.0 * df) - 1.2815516 * sqrt(2 / (9.0 * df)), 3), NULL)
			AS need_high
	FROM (SELECT *, size * se * se * (z + 0.8416) * (z + 0.8416)
			/ pow(nullif(max(abs(d), ifnull(margin - abs(d), 0)), 0), 2) AS need
		FROM (SELECT *, u - (2.515517 + 0.802853 * u + 0.010328 * u * u)
				/ (1 + 1.432788 * u + 0.189269 * u * u + 0.001308 * u * u * u) AS z
			FROM family)) AS f),
bounded AS MATERIALIZED (
	SELECT id, size, se, df, more, less, p_more, p_less, p_equal,
		max(size + 1, CAST(ceil(need + z * z / 2) AS INTEGER)) AS wanted,
		max(size + 1, CAST(ceil(need_low + z * z / 2) AS INTEGER)) AS wanted_low,
		max(size + 1, CAST(ceil(need_high + z * z / 2) AS INTEGER)) AS wanted_high,
		iif(corrected, level / (m - 1), 0.025) AS tail
	FROM adjusted
	-- adds no row: SQLite expects one row of the windows, and would join without an index
	UNION ALL SELECT id, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 FROM run WHERE 0),
scaled (df, scale) AS (
	VALUES (1, 2 / pi()), (2, 1.0)
	UNION ALL SELECT df + 2, scale * (df + 1) / df FROM scaled
	WHERE df + 2 <= (SELECT max(df) FROM estimate)),
angled (df, scale, tail, angle, step) AS (
	SELECT b.df, s.scale, b.tail, 0.0, 0
	FROM (SELECT DISTINCT df, tail FROM bounded) AS b JOIN scaled AS s ON s.df = b.df
	UNION ALL SELECT df, scale, tail, angle + (1 - 2 * tail - (
		WITH term (k, x, term, total) AS (
			SELECT 2 + df % 2, cos(angle) * cos(angle), 1.0, 1.0
			UNION ALL SELECT k + 2, x, term * x * (k - 1) / k, total + term * x * (k - 1) / k
			FROM term WHERE k <= df - 2)
		SELECT CASE WHEN df = 1 THEN 2 / pi() * angle
			WHEN df % 2 = 0 THEN sin(angle) * max(total)
			ELSE 2 / pi() * (angle + sin(angle) * cos(angle) * max(total)) END FROM term))
		/ (scale * pow(cos(angle), df - 1)), step + 1
	FROM angled WHERE step < 24),
quantile AS MATERIALIZED (SELECT df, tail, angle FROM angled WHERE step = 24),
student AS (
	SELECT e.*, b.more, b.less, b.p_more, b.p_less, b.p_equal, b.wanted, b.wanted_low, b.wanted_high,
		CASE WHEN wanted_low IS NULL THEN iif(wanted, 'more than ' || b.size || ' seeds', NULL)
			WHEN wanted_low > 999 THEN 'more than 999 seeds'
			ELSE wanted_low || iif(wanted_high > 999, ' seeds or more',
				' to ' || wanted_high || ' seeds') END AS wanted_text,
		b.se * sqrt(b.df) * tan(q.angle) AS half
	FROM bounded AS b CROSS JOIN estimate AS e ON e.id = b.id
		LEFT JOIN quantile AS q ON q.df = b.df AND q.tail = b.tail)
