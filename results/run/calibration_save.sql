-- calibration_save.sql - stores a new calibration and returns its number.
INSERT INTO calibration (made, host, cpu, cores, mpi, onednn, gpu, git_commit, git_dirty, device,
	precision, threads, workload, workload_options, batch, params, workers, hosts, lab_rate)
VALUES (strftime('%Y-%m-%dT%H:%M:%SZ', 'now'), ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12,
	?13, ?14, ?15, ?16, ?17, nullif(?18, ''))
RETURNING id
