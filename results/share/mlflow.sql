-- mlflow.sql - what MLflow shows of the run ?1, named ?2: folder, file name, text.
SELECT 'params' AS kind, key, atom FROM run_summary AS s, json_each(config_key)
WHERE s.id = ?1 AND key <> 'label' AND atom <> ''
UNION ALL SELECT 'params', 'seed', seed FROM run WHERE id = ?1
UNION ALL SELECT 'tags', 'mlflow.runName', ?2
UNION ALL SELECT 'tags', key, atom FROM run, json_each(json_object(
	'mvbench.run', run.id, 'mvbench.label', label, 'mvbench.status', status, 'mvbench.reason',
		reason,
	'mvbench.config_hash', config_hash, 'mvbench.model_hash', model_hash, 'mvbench.host', host,
	'mvbench.cpu', cpu, 'mvbench.cores', cores, 'mvbench.gpu', gpu, 'mvbench.driver', driver,
	'mvbench.mpi', mpi, 'mvbench.onednn', onednn, 'mvbench.cuda', cuda, 'mvbench.params',
		params,
	'mvbench.origin', origin, 'mvbench.origin_id', origin_id,
	'mlflow.source.git.commit', git_commit))
WHERE run.id = ?1 AND atom <> ''
