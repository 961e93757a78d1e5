-- advise_asked.sql - temporary tables that advise.c fills with the setup. advise_costs.sql and advise.sql
-- make the other tables from them.

CREATE TEMP TABLE asked ( -- one row
	workload TEXT, words TEXT, batch INTEGER, device TEXT, precision TEXT, threads INTEGER,
	workers INTEGER, params INTEGER, train_size INTEGER,
	steps INTEGER,       -- of an epoch, of each of the workers,
	steps_one INTEGER,   -- and of one worker alone
	host TEXT,           -- this one
	platform TEXT, sim_platform TEXT, sim_step_time TEXT, sim_update_time TEXT,
	source TEXT,         -- "auto", "calibration" or "runs"
	epochs INTEGER, lr REAL, lr_schedule TEXT, momentum REAL, weight_decay REAL, reduce TEXT,
	lr_scale TEXT, split TEXT, optimizer TEXT, clip REAL, state TEXT,
	bins INTEGER);       -- parts that the steps of a repetition were cut into
CREATE TEMP TABLE interval (x INTEGER PRIMARY KEY); -- to compare [steps]
CREATE TEMP TABLE allowed (id INTEGER PRIMARY KEY); -- the runs that may be used
CREATE TEMP TABLE meaning (place INTEGER PRIMARY KEY, name TEXT, means TEXT); -- of terms
-- The strategies to compare: with the options that were given ('' = no variant), and their variants.
CREATE TEMP TABLE variant (strategy TEXT, variant TEXT);
CREATE TEMP TABLE chosen (strategy TEXT, variant TEXT, name TEXT, value TEXT, def TEXT);
-- Their results. bound: 'at best' = seconds is a lower bound. paced: seconds depends on x.
CREATE TEMP TABLE prediction (strategy TEXT, variant TEXT, paced INTEGER, x INTEGER, workers INTEGER,
	bound TEXT, seconds REAL, formula TEXT, numbers TEXT);
CREATE TEMP TABLE unpredicted (strategy TEXT, why TEXT);
