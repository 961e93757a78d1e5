-- Consensus distance against epochs: how far the workers' models were from their mean at the last synchronisation.
-- Needs runs whose workers' models differ, as those of periodic.
WITH figure AS (SELECT place AS number, epoch - 1 + share AS name, consensus AS x FROM fitting WHERE timed),
/* MEDIANS */,
differing AS (
	SELECT DISTINCT place, workload FROM median AS m JOIN configuration ON place = m.number WHERE mid > 0)
SELECT c.workload, c.title, m.name AS epoch, mid AS median, ifnull(low, mid) AS low, ifnull(high, mid) AS high, c.look
FROM configuration AS c LEFT JOIN median AS m ON m.number = c.place AND mid < 9e999
WHERE c.place IN (SELECT place FROM differing)
	OR (NOT c.fits AND c.workload IN (SELECT workload FROM differing)) -- counted as left out
ORDER BY c.place, m.name;
