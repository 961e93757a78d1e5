-- wanted.sql - the runs of the baseline ?1: cells in the order of their options, seeds within;
-- is it the first of its cell; and the newest run that the baseline was made of.
SELECT cell, json_extract(options, '$.workload') || ' ' || config, options, seed, made,
	cell <> lag(cell, 1, '') OVER (ORDER BY options, seed), config_hash,
	(SELECT max(run_id) FROM baseline WHERE name = ?1)
FROM baseline WHERE name = ?1 ORDER BY options, seed
