-- wanted.sql - the cells of the baseline ?1, in the order of their options.
SELECT DISTINCT cell, json_extract(options, '$.workload') || ' ' || config, options
FROM baseline WHERE name = ?1 ORDER BY options
