-- Staleness of pushes against epochs: mean, and maximum, of the foreign updates that a push met.
-- Needs runs whose workers push to a parameter server, as those of asgd.
SELECT s.workload, s.title, e.epoch, avg(e.staleness_mean) AS mean, max(e.staleness_max) AS most
FROM selected AS s CROSS JOIN epoch AS e ON e.run_id = s.id
WHERE e.epoch >= 1 AND e.staleness_mean IS NOT NULL
GROUP BY s.place, e.epoch
ORDER BY s.place, e.epoch;
