-- values.sql - what the strategy said of the epochs of the run ?1: its name, the epoch, when
-- that ended [Unix time, s], the value.
WITH ended AS (
	SELECT epoch,
		ifnull(strftime('%s', started), 0) + total(seconds) OVER (ORDER BY epoch) AS at
	FROM epoch JOIN run ON id = run_id WHERE run_id = ?1)
SELECT name, epoch, at, value FROM epoch_value JOIN ended USING (epoch)
WHERE run_id = ?1 AND value IS NOT NULL ORDER BY name, epoch
