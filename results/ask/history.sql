-- history.sql - what `mvbench history` shows of a cell. The config_key of the temporary run_summary is
-- a JSON array of the cell (the row number in title) and the commit of a run. The statistics of the
-- schema are therefore those of commits; if a commit ran a seed twice, the newest run counts.
-- history.c makes table value (made_by, id, x) of the figure, and fills in level and step after the
-- fit. ?1: changes are differences (1: the figure is a share) or relative (0); ?2: printf format;
-- ?3: factor of the printed value; ?4: more is better.

CREATE TEMP TABLE asked AS SELECT ?1 AS share, ?2 AS format, ?3 AS scale, ?4 AS increase;

-- One row for each commit of a cell; place: in the order of their first runs.
--   change  of the median since the commit before
--   level   the median of its segment (step.c); step: the change of level, where a segment begins
CREATE TEMP TABLE history AS
WITH first AS MATERIALIZED (
	SELECT config_key AS made_by, min(started) AS first, min(id) AS id,
		count(*) FILTER (WHERE status = 'diverged') AS diverged
	FROM run_summary GROUP BY config_key),
figure AS (SELECT made_by AS number, '' AS name, x FROM value),
/* MEDIANS */
SELECT made_by ->> 0 AS cell, row_number() OVER w AS place, made_by ->> 1 AS git_commit, f.first AS started,
	ifnull(m.n, 0) AS n, f.diverged, m.mid AS median, m.low AS median_low, m.high AS median_high,
	m.coverage AS median_coverage,
	(m.mid - lag(m.mid) OVER w) / iif(?1, 1, nullif(abs(lag(m.mid) OVER w), 0)) AS change,
	CAST(NULL AS REAL) AS level, CAST(NULL AS REAL) AS step
FROM first AS f LEFT JOIN median AS m ON m.number = made_by
WINDOW w AS (PARTITION BY made_by ->> 0 ORDER BY f.first, f.id);
CREATE INDEX temp.history_of ON history (cell, place);

-- The steps that the fit found, as text for people.
CREATE TEMP VIEW stepped AS
SELECT iif(level > level_before, 'up', 'down') AS step, git_commit AS at,
	substr(started, 1, 10) AS "of", commit_before AS "after",
	printf(format, scale * level_before) AS "from", printf(format, scale * level) AS "to",
	printf(iif(share, '%+.2f', '%+.1f %%'), 100 * step) AS change,
	iif((level > level_before) = increase, 'better', 'worse') AS "is"
FROM (SELECT *, lag(level) OVER w AS level_before, lag(git_commit) OVER w AS commit_before
	FROM history WHERE level IS NOT NULL WINDOW w AS (PARTITION BY cell ORDER BY place)) CROSS JOIN asked
WHERE step IS NOT NULL ORDER BY place;
