-- save.sql - adds a run to a baseline. ?1: name of the baseline; ?2: time; ?3: cell; ?4: options of
-- the cell; ?5: run.
INSERT INTO baseline (name, made, cell, options, seed, config, config_hash, params, train_size,
	test_size, running_loss, train_loss, test_loss, test_accuracy, epoch_seconds, simulated_s,
	calibration, model_hash, started, host, cpu, gpu, mpi, onednn, cuda, git_commit, git_dirty,
	run_id)
SELECT ?1, ?2, ?3, ?4, r.seed, s.config, r.config_hash, r.params, r.train_size, r.test_size,
	s.running_loss, s.train_loss, s.test_loss, s.test_accuracy, s.epoch_seconds, r.simulated_s,
	c.made || ifnull(' ' || c.host, ''), r.model_hash, r.started, r.host, r.cpu, r.gpu, r.mpi,
	r.onednn, r.cuda, r.git_commit, r.git_dirty, r.id
FROM run_summary AS s JOIN run AS r ON r.id = ?5
	LEFT JOIN calibration AS c ON c.id = r.calibration_id
WHERE s.id = ?5
