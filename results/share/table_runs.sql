-- table_runs.sql - `mvbench export --table=runs`.
SELECT r.*, s.config, s.config_key, s.compare_key, s.epochs_done,
	s.test_accuracy, s.best_test_accuracy, s.test_loss, s.train_loss,
	s.validation_loss, s.validation_accuracy, s.running_loss,
	s.epoch_seconds, s.quiet_epoch_seconds, s.cores_share, s.samples_per_second,
	s.compute_fraction, s.comm_fraction, s.wait_fraction, s.utilisation, s.epoch_bytes,
	s.peak_bytes, s.staleness_mean, s.staleness_max, s.dropped_fraction, s.seconds_total,
	s.target_epoch,
	s.target_seconds
FROM run AS r JOIN run_summary AS s USING (id) ORDER BY r.id
