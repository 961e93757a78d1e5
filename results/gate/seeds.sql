-- seeds.sql - cells of the baseline ?1 that have fewer than ?2 seeds, and the first seeds that they
-- lack.
WITH RECURSIVE number(seed) AS (
	SELECT 1 UNION ALL SELECT seed + 1 FROM number LIMIT 2 * ?2),
few AS (
	SELECT cell, options, ?2 - count(*) AS lacks FROM baseline WHERE name = ?1
	GROUP BY cell HAVING count(*) < ?2 AND count(test_loss) > 0),
new AS (
	SELECT cell, options, lacks, seed, row_number() OVER (PARTITION BY cell ORDER BY seed) AS i
	FROM few JOIN number
	WHERE seed NOT IN (SELECT seed FROM baseline AS b WHERE b.name = ?1 AND b.cell = few.cell))
SELECT options, group_concat(seed, ' ') FROM (SELECT * FROM new WHERE i <= lacks ORDER BY i)
GROUP BY cell ORDER BY options
