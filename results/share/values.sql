-- values.sql - the values that the strategy reported in the run ?1: name, epoch, end of the epoch
-- [Unix time, s], value.
WITH ended AS (
	SELECT epoch,
		ifnull(strftime('%s', started), 0) + total(seconds) OVER (ORDER BY epoch) AS at
	FROM epoch JOIN run ON id = run_id WHERE run_id = ?1)
SELECT name, epoch, at, value FROM epoch_value JOIN ended USING (epoch)
WHERE run_id = ?1 AND value IS NOT NULL ORDER BY name, epoch
