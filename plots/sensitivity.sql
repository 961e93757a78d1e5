-- Result of each trial of mvbench tune on the validation rows, against its learning rate: how much tuning matters.
-- Needs trials of mvbench tune; of several studies of a workload the newest is drawn.
WITH shown AS MATERIALIZED (SELECT * FROM studied),
-- A line joins trials only if the rate alone was searched; otherwise neighbours differ in more options.
drawn AS MATERIALIZED (
	SELECT study_id, contestant, count(DISTINCT key) = 1 AND max(key = 'lr') AS alone
	FROM shown CROSS JOIN json_each(options) GROUP BY study_id, contestant)
SELECT section AS workload, contestant AS title, lr, iif(objective = 'accuracy', 100, 1) * value AS value, lost, alone,
	objective = 'loss' AS is_loss, look
FROM shown JOIN drawn USING (study_id, contestant)
WHERE lr > 0 AND value IS NOT NULL
ORDER BY section, contestant, lr;
