-- Result of each trial of mvbench tune on the validation rows, against its learning rate: how much tuning matters.
-- Needs trials of mvbench tune; of several studies of a workload the newest is drawn.
WITH one AS MATERIALIZED (
	SELECT workload, max(study_id) AS study_id FROM study_trial WHERE run_id IN (SELECT id FROM chosen)
	GROUP BY workload),
shown AS MATERIALIZED (
	SELECT t.*, dense_rank() OVER (PARTITION BY workload ORDER BY contestant) AS look FROM study_trial AS t JOIN one USING (workload, study_id)),
-- A line joins trials only if the rate alone was searched; otherwise neighbours differ in more options.
drawn AS MATERIALIZED (
	SELECT study_id, contestant, count(DISTINCT key) = 1 AND max(key = 'lr') AS alone
	FROM shown CROSS JOIN json_each(options) GROUP BY study_id, contestant)
SELECT ifnull((SELECT r.workload FROM run_summary AS r WHERE r.id = run_id), workload) AS workload, contestant AS title, lr, iif(objective = 'accuracy', 100, 1) * value AS value, lost, alone,
	objective = 'loss' AS is_loss, look
FROM shown JOIN drawn USING (study_id, contestant)
WHERE lr > 0 AND value IS NOT NULL
ORDER BY workload, contestant, lr;
