-- Test accuracy against training time; test loss where there is none. Medians, with bands from min to max.
-- Needs runs that evaluated their model.
SELECT q.workload, q.title, t.median AS seconds, q.median, q.low, q.high, q.is_loss
FROM quality AS q JOIN curve AS t USING (workload, place, epoch)
WHERE t.measure = 'elapsed'
ORDER BY q.workload, q.place, q.epoch;
