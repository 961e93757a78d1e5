-- Test accuracy against the bytes that all workers have sent; test loss where there is none. Medians and their intervals.
-- Needs runs that evaluated their model, and sent something.
WITH figure AS (
	SELECT place AS number, epoch - 1 + share AS name, sum(bytes_sent) OVER (PARTITION BY run_id ORDER BY epoch) AS x
	FROM fitting WHERE sample),
/* MEDIANS */
SELECT q.workload, q.title, m.mid AS bytes, q.median, q.low, q.high, q.is_loss, q.look
FROM quality AS q LEFT JOIN median AS m ON m.number = q.place AND m.name = q.epoch
WHERE q.epoch IS NULL OR m.mid > 0
ORDER BY q.place, q.epoch;
