-- calibration_points.sql - the figures of calibration ?1. Of the steps, those of the repetition
-- with the median mean (of two, the smaller), with x from 0; and how many times slower that
-- repetition was than the first, in which the costs were measured: 'slower'. The file is not
-- trusted: values that no measurement can give are left out.
WITH point AS (
	SELECT name, x, value, iif(name = 'step', CAST(x / 64 AS INTEGER), NULL) AS repetition
	FROM calibration_point
	WHERE calibration_id = ?1 AND x BETWEEN 0 AND 1e15 AND value BETWEEN 0 AND 1e6),
share AS (
	SELECT repetition, value, lead(x, 1, 64 * (repetition + 1)) OVER repetitions - x AS share
	FROM point WHERE repetition IS NOT NULL
	WINDOW repetitions AS (PARTITION BY repetition ORDER BY x)),
mean AS (
	SELECT repetition, mean, row_number() OVER (ORDER BY mean, repetition) AS place
	FROM (SELECT repetition, sum(value * share) / 64 AS mean FROM share GROUP BY repetition)),
typical AS (
	SELECT repetition, mean FROM mean WHERE place = (SELECT count(*) + 1 FROM mean) / 2)
SELECT name, x - 64 * ifnull(repetition, 0), value FROM point
WHERE repetition IS NULL OR repetition = (SELECT repetition FROM typical)
UNION ALL
SELECT 'slower', 0, t.mean / f.mean FROM typical AS t, mean AS f
WHERE f.repetition = 0 AND f.mean > 1e-12
ORDER BY 1, 2
