-- Simulated against real epoch times, with bands of 5 and 10 %: one point for each cell, bars from min to max.
-- Needs cells that were run both real and simulated: mvbench validate.
-- One picture for all workloads. The look is that of the strategy's first configuration; each further workload
-- uses the next markers.
SELECT '' AS workload, v.workload || ' ' || v.strategy AS title,
	v.real_s AS real, v.real_low AS low, v.real_high AS high, v.simulated_s AS simulated,
	ifnull(v.oversubscribed, 0) AS crowded, dense_rank() OVER (ORDER BY v.workload) - 1 AS shift,
	(SELECT look FROM configuration AS c WHERE c.strategy = v.strategy ORDER BY place LIMIT 1) AS look
FROM validation AS v JOIN selected AS s ON s.id = v.simulated_id
ORDER BY v.workload, v.strategy, v.real_s;
