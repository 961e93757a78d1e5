-- Test accuracy against training time; test loss where there is none. Medians, with bands from min to max.
-- Needs runs that evaluated their model.
SELECT q.workload, q.title, t.median AS seconds, q.median, q.low, q.high, q.is_loss
FROM (SELECT place, epoch, median FROM elapsed) AS t JOIN quality AS q USING (place, epoch)
ORDER BY q.place, q.epoch;
