-- Test accuracy against epochs (loss for regression): median of the runs, band from min to max.
-- Needs runs that evaluated their model.
SELECT workload, title, epoch, median, low, high, is_loss
FROM quality
ORDER BY workload, place, epoch;
