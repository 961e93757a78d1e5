-- Training time against epochs, and the time of one epoch. Medians, with bands from min to max.
-- Needs runs of at least one epoch.
SELECT c.workload, c.title, c.epoch, c.median, c.low, c.high, p.seconds AS epoch_seconds
FROM curve AS c JOIN pace AS p USING (workload, place)
WHERE c.measure = 'elapsed'
ORDER BY c.workload, c.place, c.epoch;
