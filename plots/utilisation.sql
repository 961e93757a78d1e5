-- Utilisation against the rate of the simulated links: the share of its time in which a worker computes.
-- Needs simulated runs with several values of --sim.rate.
WITH point AS MATERIALIZED (
	SELECT c.workload, c.place, c.look, json_remove(c.config_key, '$.sim_rate') AS line, s.sim_rate AS rate,
		avg(s.utilisation) AS utilisation, replace(c.cut, ' sim.rate=' || iif(s.sim_rate >= 1e9,
			format('%ggbit', s.sim_rate / 1e9), format('%gmbit', s.sim_rate / 1e6)), '') AS title
	FROM configuration AS c JOIN selected USING (place) JOIN run_summary AS s USING (id)
	WHERE s.sim_rate > 0 GROUP BY c.place),
curve AS (
	SELECT *, count(*) OVER w AS n, min(place) OVER w AS first, first_value(look) OVER (w ORDER BY place) AS its_look
	FROM point WINDOW w AS (PARTITION BY line))
SELECT workload, title, rate / 1e9 AS rate, utilisation, its_look AS look
FROM curve WHERE n > 1
ORDER BY workload, first, title, rate;
