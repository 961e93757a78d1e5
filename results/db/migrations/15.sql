-- 15.sql - from version 16 on: column targets.
UPDATE run SET targets = value FROM run_option AS o
WHERE o.run_id = run.id AND workload = 'gpt' AND part = 'workload' AND name = 'context';
