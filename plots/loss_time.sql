-- Training loss of the evaluated model against training time. Medians and their intervals.
-- Needs runs of at least one epoch.
WITH figure AS (
	SELECT place AS number, epoch AS name, train_loss AS x FROM fitting_curve WHERE sample
	UNION ALL SELECT place, epoch, loss FROM lost),
/* MEDIANS */
SELECT t.workload, t.title, t.median AS seconds, l.mid AS median, ifnull(l.low, l.mid) AS low,
	iif(l.high = 9e999, w.train_loss, ifnull(l.high, l.mid)) AS high, t.look
FROM elapsed AS t LEFT JOIN median AS l ON l.number = t.place AND l.name = t.epoch
	LEFT JOIN worst AS w ON w.workload = t.workload
WHERE t.epoch IS NULL OR l.mid < 9e999 -- runs that diverged are not drawn
ORDER BY t.place, t.epoch;
