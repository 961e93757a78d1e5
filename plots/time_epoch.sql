-- Training time against epochs, and the time of one epoch. Medians and their intervals.
-- Needs runs of at least one epoch.
SELECT e.workload, e.title, e.epoch, e.median, e.low, e.high, iif(e.median IS NULL, NULL, p.seconds) AS epoch_seconds, p.look
FROM elapsed AS e JOIN pace AS p USING (place)
ORDER BY e.place, e.epoch;
