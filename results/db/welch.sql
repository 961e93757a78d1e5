-- welch.sql - degrees of freedom. Views that test (comparison, gate_test) include this expression in
-- the place of /* WELCH */. It reads table sides, and keeps its other columns:
--   v1, n1, v2, n2  for each side, the squared error of its mean, and its number of values
--   pairs           number of pairs that are compared; 0 = two separate samples
-- It makes table welch, the same rows with own_df: pairs - 1, or Welch's (Biometrika 34, 1947),
-- rounded down, at most 1000. A side of one value has v NULL, or 0 = it is exact.
welch AS (
	SELECT *, CASE WHEN pairs THEN pairs - 1 WHEN v1 + v2 <= 0 THEN max(1, n1 + n2 - 2)
		ELSE min(1000, max(1, CAST((v1 + v2) * (v1 + v2)
			/ (ifnull(v1 * v1 / (n1 - 1), 0) + ifnull(v2 * v2 / (n2 - 1), 0)) AS INTEGER))) END AS own_df
	FROM sides)