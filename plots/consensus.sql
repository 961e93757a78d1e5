-- Consensus distance against epochs: how far the workers' models were from their mean at the last synchronisation.
-- Needs runs whose workers' models differ, as those of periodic.
WITH apart AS (
	SELECT place, epoch, min(value) AS low, max(value) AS high, avg(value) FILTER (WHERE middle) AS median
	FROM ranked WHERE name = 'consensus' GROUP BY place, epoch),
differing AS (
	SELECT DISTINCT place, workload FROM apart JOIN configuration USING (place) WHERE median > 0)
SELECT c.workload, c.title, a.epoch, a.median, a.low, a.high, c.look
FROM configuration AS c LEFT JOIN apart AS a ON a.place = c.place AND a.median < 9e999
WHERE c.place IN (SELECT place FROM differing)
	OR (NOT c.fits AND c.workload IN (SELECT workload FROM differing)) -- counted as left out
ORDER BY c.place, a.epoch;
