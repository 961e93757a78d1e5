-- replay_source.sql - run ?1 of the database ?2: why it cannot be replayed (NULL = it can), and
-- where its tables were.
SELECT CASE
	WHEN NOT record THEN printf('run %d has no recording of its pushes; give a run that '
		|| 'was made with --record', id)
	WHEN status NOT IN ('done', 'diverged') THEN printf('run %d did not end (%s), so there is '
		|| 'no model to compare with; give one that did', id, status)
	WHEN model_hash IS NULL THEN printf('run %d was made by an older mvbench, which did not '
		|| 'keep a hash of its model; record it again', id)
	WHEN model_hash = '' OR sim_train IS 0 THEN printf('run %d computed no gradients '
		|| '(--sim.train); give one that did', id)
	WHEN device IS NOT 'cpu' THEN printf('run %d computed on %s, and simulated workers '
		|| 'compute on the cpu, which rounds differently; record a run with '
		|| '--device=cpu', id, device)
	WHEN leave <> '' THEN printf('workers left run %d (--leave=%s) at times that are '
		|| 'not recorded; record a run without --leave', id, leave)
	WHEN NOT EXISTS (SELECT 1 FROM arrival WHERE run_id = id) THEN printf('the recording of '
		|| 'run %d is gone: %s has no row of it in table arrival', id, ?2)
	END, table_home
FROM run WHERE id = ?1
