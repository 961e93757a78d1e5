-- wanted.sql - the runs of the baseline ?1, in the order of options and seeds: is it the first of
-- its cell; and the newest run of the baseline.
SELECT cell, json_extract(options, '$.workload') || ' ' || config, options, seed, made,
	cell <> lag(cell, 1, '') OVER (ORDER BY options, seed), config_hash,
	(SELECT max(run_id) FROM baseline WHERE name = ?1)
FROM baseline WHERE name = ?1 ORDER BY options, seed
