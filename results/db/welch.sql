-- welch.sql - degrees of freedom, for the views that test (comparison, gate_test): the expression
-- that stands for /* WELCH */ there. It takes table sides, with whatever else it holds:
--   v1, n1, v2, n2  of each side the squared error of its mean, and how many values that is of
--   pairs           that the sides are compared by; 0 = they are two samples
-- and gives table welch, the same rows with own_df: pairs - 1, or Welch's (Biometrika 34, 1947),
-- rounded down, at most 1000.
welch AS (
	SELECT *, CASE WHEN pairs THEN pairs - 1 WHEN v1 + v2 <= 0 THEN n1 + n2 - 2
		ELSE min(1000, max(1, CAST((v1 + v2) * (v1 + v2)
			/ (v1 * v1 / (n1 - 1) + v2 * v2 / (n2 - 1)) AS INTEGER))) END AS own_df
	FROM sides)