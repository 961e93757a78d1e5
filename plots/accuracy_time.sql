-- Test accuracy against training time; test loss where there is none. Medians and their intervals.
-- Needs runs that evaluated their model.
SELECT q.workload, q.title, t.median AS seconds, q.median, q.low, q.high, q.is_loss, q.look
FROM quality AS q LEFT JOIN (SELECT place, epoch, median FROM elapsed WHERE epoch >= 1) AS t USING (place, epoch)
WHERE q.epoch IS NULL OR t.median IS NOT NULL
ORDER BY q.place, q.epoch;
