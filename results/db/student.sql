-- student.sql - tests by Student's t. Views that test (comparison, gate_test) include these expressions
-- in the place of /* STUDENT */. They read table estimate of that view, and keep its other columns:
--   id, family     of the test, and of the tests that are made together
--   d, se, df      a difference, its standard error and its whole degrees of freedom; se = 0: d is
--                  certain; df NULL or < 1 = no test is made, and none counted
--   margin         smaller |d| do not matter; NULL = no margin
--   size, level    number of runs of the estimate, and the accepted chance that any test of the
--                  family is wrong
--   corrected      1 = the interval of d is corrected for all tests of the family, 0 = it is the 95 %
--                  interval of this test alone
-- They make table student, the same rows with
--   more, less     probability by chance alone of a d at least as large (small); p_more, p_less: the
--                  same, corrected for all tests of the family (Holm, Scand. J. Stat. 6, 1979)
--   p_equal        the same of the claim that -margin < d < margin: the larger of the two
--                  one-sided p (Schuirmann, J. Pharmacokinet. Biopharm. 15, 1987), corrected
--   half           half of the interval of d. A corrected one leaves out 0 if and only if p_more or
--                  p_less is below level: the i-th of m tests in the direction of d, of which r are
--                  below level, has the one-sided level / (m - min(i, r + 1) + 1)
--   wanted         number of runs that would show, with a power of 80 %, that d is not 0, or that it
--                  is within the margin, whichever takes fewer: size s^2 (z(level / tests) +
--                  z(0.2))^2 / distance^2 + z^2 / 2 (Guenther, Am. Stat. 35, 1981); s: se. NULL =
--                  no number would
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
		iif(more IS NULL, NULL, max(min(1.0, (m - i) * more))
			OVER (PARTITION BY family ORDER BY i)) AS p_more,
		iif(less IS NULL, NULL, max(min(1.0, (m - j) * less))
			OVER (PARTITION BY family ORDER BY j)) AS p_less,
		iif(equal IS NULL, NULL, max(min(1.0, (m - k) * equal))
			OVER (PARTITION BY family ORDER BY k)) AS p_equal,
		max(size + 1, CAST(ceil(size * se * se * (z + 0.8416) * (z + 0.8416)
			/ (distance * distance) + z * z / 2) AS INTEGER)) AS wanted
	FROM (SELECT *, u - (2.515517 + 0.802853 * u + 0.010328 * u * u)
				/ (1 + 1.432788 * u + 0.189269 * u * u + 0.001308 * u * u * u) AS z,
			nullif(max(abs(d), ifnull(margin - abs(d), 0)), 0) AS distance
				FROM family) AS f),
counted AS (
	SELECT *, count(*) FILTER (WHERE p_more < level) OVER w AS sure_more,
		count(*) FILTER (WHERE p_less < level) OVER w AS sure_less
	FROM adjusted WINDOW w AS (PARTITION BY family)),
bounded AS MATERIALIZED (
	SELECT id, se, df, more, less, p_more, p_less, p_equal, wanted, iif(corrected,
		level / (m - iif(d > 0, min(i, sure_more + 1), min(j, sure_less + 1))), 0.025) AS tail
	FROM counted
	-- adds no row: SQLite expects one row of the windows, and would join without an index
	UNION ALL SELECT id, 0, 0, 0, 0, 0, 0, 0, 0, 0 FROM run WHERE 0),
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
	SELECT e.*, b.more, b.less, b.p_more, b.p_less, b.p_equal, b.wanted,
		b.se * sqrt(b.df) * tan(q.angle) AS half
	FROM bounded AS b CROSS JOIN estimate AS e ON e.id = b.id
		LEFT JOIN quantile AS q ON q.df = b.df AND q.tail = b.tail)
