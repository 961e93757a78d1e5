-- Staleness of pushes against epochs: mean and maximum of the pushes of other workers since the pull.
-- Needs runs whose workers push to a parameter server, as those of asgd.
WITH by_epoch AS (
	SELECT s.place, e.epoch, avg(e.staleness_mean) AS mean, max(e.staleness_max) AS most
	FROM selected AS s CROSS JOIN epoch AS e ON e.run_id = s.id
	WHERE e.epoch >= 1 AND e.staleness_mean IS NOT NULL
		AND s.place IN (SELECT place FROM pushing WHERE fits)
	GROUP BY s.place, e.epoch)
SELECT p.workload, p.title, m.epoch, m.mean, m.most, p.look
FROM pushing AS p LEFT JOIN by_epoch AS m USING (place)
ORDER BY p.place, m.epoch;
