-- Staleness of pushes: the share of pushes with each staleness.
-- Needs runs that push to a parameter server.
-- Bins of the histogram have width 1 below 128, and 1/16 of an octave above (keep equal to STALENESS_EXACT and
-- STALENESS_BINS of runtime/comm/comm.h). Above, the share is the average of one staleness, drawn in the middle of
-- the bin. Empty bins have a row too.
WITH RECURSIVE bin(low, wide) AS (
	SELECT 0, 1
	UNION ALL SELECT low + wide,
		CASE WHEN low + wide < 128 THEN 1 WHEN low + wide = 128 THEN 8
			WHEN low + wide = 32 * wide THEN 2 * wide ELSE wide END
	FROM bin WHERE low < (SELECT max(staleness) FROM staleness)),
counted AS MATERIALIZED (
	SELECT s.place, h.staleness, sum(h.pushes) AS pushes
	FROM selected AS s CROSS JOIN staleness AS h ON h.run_id = s.id
	WHERE h.epoch >= 1 AND s.place IN (SELECT place FROM pushing WHERE fits)
	GROUP BY s.place, h.staleness),
whole AS MATERIALIZED (
	SELECT place, sum(pushes) AS pushes, max(staleness) AS last FROM counted GROUP BY place),
mean AS MATERIALIZED (
	SELECT s.place, sum(e.staleness_mean * e.pushes) / sum(e.pushes) AS mean,
		max(e.staleness_max) AS most
	FROM selected AS s CROSS JOIN epoch AS e ON e.run_id = s.id
	WHERE e.epoch >= 1 AND s.place IN (SELECT place FROM whole)
	GROUP BY s.place)
SELECT c.workload, c.title, b.low + (b.wide - 1) / 2.0 AS staleness,
	100.0 * ifnull(m.pushes, 0) / b.wide / w.pushes AS share, n.mean, n.most, c.look
FROM pushing AS c LEFT JOIN whole AS w USING (place) LEFT JOIN bin AS b ON b.low <= w.last
	LEFT JOIN counted AS m ON m.place = w.place AND m.staleness = b.low
	LEFT JOIN mean AS n ON n.place = w.place
WHERE w.place IS NOT NULL OR NOT c.fits -- runs that pushed but have no histogram
ORDER BY c.place, b.low;
