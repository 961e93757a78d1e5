-- Configurations over commits, and where they step: seconds of an epoch, or --y. Medians and their intervals.
-- Needs runs of a configuration by two commits or more.
-- The label is not part of a configuration here. Commits are in the order of their first runs.
WITH cell AS (
	SELECT c.workload, min(c.place) AS place, min(c.look) AS look, replace(c.name, ', ' || (c.config_key ->> 'label'), '')
		AS title, p.*
	FROM configuration AS c JOIN past AS p ON p.config_key = json_remove(c.config_key, '$.label')
	GROUP BY p.config_key, p.git_commit),
first AS (SELECT workload, git_commit, min(started) AS first FROM cell GROUP BY workload, git_commit),
ordered AS (SELECT *, row_number() OVER (PARTITION BY workload ORDER BY first, git_commit) AS at FROM first)
SELECT workload, title, at, median, low, high, level,
	iif(step IS NULL, NULL, lag(level) OVER (PARTITION BY config_key ORDER BY at)) AS before, step, better,
	-- short names
	substr(git_commit, 1, 7) || iif(git_commit LIKE '%-dirty', '+', '') AS text, y_label, look
FROM (SELECT *, count(*) OVER (PARTITION BY config_key) AS commits FROM cell JOIN ordered USING (workload, git_commit))
WHERE commits > 1
ORDER BY workload, place, config_key, at;
