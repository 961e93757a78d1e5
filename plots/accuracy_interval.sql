-- Final test accuracy against the sync interval; test loss where there is none. Medians and their intervals.
-- Needs runs of the same configuration at several intervals.
WITH line AS (
	SELECT c.workload, replace(c.cut, replace(i.part, '#', c.sync_every), '') AS series, c.sync_every, c.n,
		l.median, l.low, l.high, c.is_loss, c.place, c.look, c.repeats
	FROM configuration AS c JOIN final AS l USING (place) JOIN option_info AS i ON i."column" = 'sync_every'),
named AS (
	SELECT *, series || iif(max(n) OVER w > 1 AND NOT repeats, iif(min(n) OVER w = max(n) OVER w,
			' (n=' || n || ')', ' (n=' || min(n) OVER w || '..' || max(n) OVER w || ')'), '')
			AS title,
		min(place) OVER w AS first, first_value(look) OVER (w ORDER BY place) AS line_look,
		min(sync_every) OVER w < max(sync_every) OVER w AS several
	FROM line WINDOW w AS (PARTITION BY workload, series))
SELECT workload, title, sync_every, median, low, high, is_loss, line_look AS look
FROM named WHERE several
ORDER BY workload, first, title, sync_every;
