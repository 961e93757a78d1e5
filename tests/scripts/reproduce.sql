-- reproduce.sql - compares Multiverso's published epoch times with the simulated ones of multiverso_sim.ini, and
-- with plain arithmetic: the two fitted rows divided by the workers. A prediction may be off by 7 %.
CREATE TEMP TABLE published (name, what, fitted, strategy, workers, sync_every, seconds, arithmetic);
INSERT INTO published VALUES
	('0M-1G', 'one worker alone', 1, 'serial', 1, 1, 100.02, 100.02),
	('1M-1G-1S', 'asgd, one worker', 1, 'asgd', 1, 1, 109.78, 109.78),
	('1M-4G-1S', 'asgd, four, X = 1', 0, 'asgd', 4, 1, 29.38, 109.78 / 4),
	('1M-4G-3S', 'asgd, four, X = 3', 0, 'asgd', 4, 3, 27.46, 100.02 / 4 + (109.78 - 100.02) / 12);
CREATE TEMP VIEW compared AS
SELECT p.*, r.epoch_seconds AS simulated, 100 * (r.epoch_seconds / p.seconds - 1) AS error
FROM published AS p LEFT JOIN run_summary AS r
	ON r.label = 'reproduce' AND r.status = 'done' AND r.strategy = p.strategy
		AND r.workers = p.workers AND r.sync_every = p.sync_every;
.mode list
SELECT format('%-41s%12s%12s%9s%12s', '', 'published', 'simulated', 'error', 'arithmetic');
SELECT format('%-10s%-20s%-11s%10.2f s%10.2f s%+7.1f %%%10.2f s%s', name, what,
	iif(fitted, 'fitted', 'predicted'), seconds, simulated, error, arithmetic,
	iif(abs(error) <= 7, '', '   more than 7 % off'))
FROM compared;
-- the last line is for reproduce.sh
SELECT total(ifnull(abs(error), 100) > 7) FROM compared;
