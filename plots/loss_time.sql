-- Training loss of the evaluated model against training time. Medians and their intervals.
-- Needs runs of at least one epoch.
SELECT t.workload, t.title, t.median AS seconds, l.median, l.low,
	iif(l.high < 9e999, l.high, w.train_loss) AS high, t.look
FROM elapsed AS t LEFT JOIN (
		SELECT place, epoch, min(value) AS low, max(value) AS high,
			avg(value) FILTER (WHERE middle) AS median
		FROM ranked WHERE name = 'loss' GROUP BY place, epoch) AS l USING (place, epoch)
	LEFT JOIN worst AS w ON w.workload = t.workload
WHERE t.epoch IS NULL OR l.median < 9e999 -- runs that diverged are not drawn
ORDER BY place, epoch;
