-- epochs.sql - the epochs of the run ?1: number, end [Unix time, s], and figures.
SELECT epoch, ifnull(strftime('%s', started), 0) + total(seconds) OVER (ORDER BY epoch),
	test_accuracy, train_accuracy, test_loss, train_loss, validation_accuracy, validation_loss,
	running_accuracy, running_loss,
	seconds, compute_s, comm_s, wait_s, bytes_sent, staleness_mean, staleness_max,
	pushes, dropped, consensus
FROM epoch JOIN run ON id = run_id WHERE run_id = ?1 ORDER BY epoch
