-- Test accuracy against epochs; test loss where there is none. Medians and their intervals.
-- Needs runs that evaluated their model.
SELECT workload, title, epoch, median, low, high, is_loss, look
FROM quality
ORDER BY place, epoch;
