-- Simulated against real epoch times, with bands of 5 and 10 %: a point a cell, bars from min to max.
-- Needs cells that were run both real and simulated: mvbench validate.
-- One picture for all workloads. A colour a strategy, a shape a workload; open: more workers than cores.
SELECT '' AS workload,
	v.workload || ' ' || v.strategy || iif(v.oversubscribed, ', oversubscribed', '') AS title,
	v.real_s AS real, v.real_low AS low, v.real_high AS high, v.simulated_s AS simulated,
	dense_rank() OVER (ORDER BY v.strategy) AS colour, dense_rank() OVER (ORDER BY v.workload) AS shape,
	ifnull(v.oversubscribed, 0) AS open
FROM validation AS v JOIN selected AS s ON s.id = v.simulated_id
ORDER BY v.oversubscribed, v.workload, v.strategy, v.real_s;
