-- Expected best of k trials of mvbench tune, on the validation rows: the result of a tuning budget.
-- Needs trials of mvbench tune; of several studies of a workload the newest is drawn.
-- n trials are sorted from the worst. The best of k of them, drawn with replacement, is the i-th with probability
-- (i/n)^k - ((i-1)/n)^k (Dodge, Gururangan, Card, Schwartz, Smith, Show Your Work, arXiv 1909.03004, section 3.1).
WITH sorted AS MATERIALIZED (
	SELECT section AS workload, contestant, look, objective, value, row_number() OVER w AS i,
		count(*) OVER (PARTITION BY workload, contestant) AS n
	FROM studied WHERE value IS NOT NULL
	WINDOW w AS (PARTITION BY workload, contestant ORDER BY lost DESC,
		iif(objective = 'accuracy', value, -value))),
count(k) AS (SELECT 1 UNION ALL SELECT k + 1 FROM count WHERE k < (SELECT max(n) FROM sorted))
SELECT workload, contestant AS title, k,
	sum(iif(objective = 'accuracy', 100, 1) * value * (pow(1.0 * i / n, k) - pow((i - 1.0) / n, k))) AS value,
	objective = 'loss' AS is_loss, look
FROM sorted JOIN count ON k <= n
GROUP BY workload, contestant, k
ORDER BY workload, contestant, k;
