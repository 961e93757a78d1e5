-- baselines.sql - what `mvbench check --list` shows.
SELECT name AS baseline, count(DISTINCT cell) AS cells, count(*) AS runs,
	min(n) || iif(max(n) > min(n), '..' || max(n), '') AS seeds, min(made) AS saved,
	group_concat(DISTINCT host) AS host,
	group_concat(DISTINCT git_commit || iif(git_dirty, '-dirty', '')) AS "commit"
FROM (SELECT *, count(*) OVER (PARTITION BY name, cell) AS n FROM baseline)
GROUP BY name
