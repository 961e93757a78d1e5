-- Final test accuracy of every configuration; test loss where there is none. Medians, with bars from min to max.
-- Needs runs that evaluated their model.
SELECT workload, title, median, low, high, is_loss
FROM (SELECT *, max(epoch) OVER (PARTITION BY place) AS end FROM quality)
WHERE epoch = end
ORDER BY place;
