-- wanted.sql - the runs of the baseline ?1, in the order of options and seeds: is it the first of
-- its cell?
SELECT cell, json_extract(options, '$.workload') || ' ' || config, options, seed,
	cell <> lag(cell, 1, '') OVER (ORDER BY options, seed)
FROM baseline WHERE name = ?1 ORDER BY options, seed
