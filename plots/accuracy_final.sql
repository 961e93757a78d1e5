-- Final test accuracy of every configuration; test loss where there is none. Medians and their intervals.
-- Needs runs that evaluated their model.
SELECT workload, title, median, low, high, is_loss, look
FROM final
ORDER BY place;
