-- shapes.sql - do the runs of workloads/sweeps/shapeN_*.ini show each shape, with its controls? One row for each
-- shape: its number, 1 if it is shown (0 or NULL: it is not, or runs are missing), and the figures.
-- plots/SHAPES.md explains them. This is a regression test: the bounds were set after the runs were seen, except for
-- those of 16 to 21, which were set before any run.
-- Accuracies are means over the seeds; a run that diverged counts as chance (0.1).

CREATE TEMP TABLE cell AS
SELECT s.*, CAST(substr(s.label, 6) AS INTEGER) AS shape,
	iif(s.status = 'done', s.test_accuracy, 0.1) AS accuracy,
	iif(s.status = 'done', s.validation_accuracy, 0.1) AS held_out,
	(SELECT speed FROM run WHERE id = s.id) <> '' AS unlike,
	1.0 * ((s.train_size + s.workers * s.batch - 1) / (s.workers * s.batch)) AS epoch_steps,
	(SELECT value FROM run_option WHERE run_id = s.id AND name = 'depth') AS depth,
	(SELECT value FROM run_option WHERE run_id = s.id AND name = 'updater') AS updater,
	(SELECT value FROM run_option WHERE run_id = s.id AND name = 'outer') AS outer_step,
	(SELECT value FROM run_option WHERE run_id = s.id AND name = 'outer-momentum') AS outer_momentum,
	(SELECT value FROM run_option WHERE run_id = s.id AND name = 'schedule') AS schedule,
	(SELECT value FROM run_option WHERE run_id = s.id AND name = 'backup') AS backup,
	(SELECT value FROM run_option WHERE run_id = s.id AND name = 'late') AS late,
	(SELECT value FROM run_option WHERE run_id = s.id AND name = 'period') AS period,
	(SELECT value FROM run_option WHERE run_id = s.id AND name = 'outer-lr') AS outer_lr,
	(SELECT CAST(value AS INTEGER) FROM run_option WHERE run_id = s.id AND name = 'fragments') AS fragments,
	(SELECT CAST(value AS INTEGER) FROM run_option WHERE run_id = s.id AND name = 'delay') AS delay,
	(SELECT CAST(value AS REAL) FROM run_option WHERE run_id = s.id AND name = 'mix') AS mix,
	(SELECT value FROM run_option WHERE run_id = s.id AND name = 'overlap') AS overlap
FROM run_summary AS s WHERE s.label LIKE 'shape%' AND s.status IN ('done', 'diverged');

-- The time when the training loss of a run reached a level, interpolated linearly between the ends of epochs.
-- No row: never.
CREATE TEMP TABLE level (shape, loss);
INSERT INTO level VALUES (7, 0.45), (8, 0.40);
CREATE TEMP VIEW reached AS
WITH curve AS (
	SELECT c.id, c.shape, l.loss AS level, e.epoch, e.train_loss AS loss,
		sum(e.seconds) OVER (PARTITION BY c.id ORDER BY e.epoch) AS t
	FROM cell AS c JOIN level AS l USING (shape) JOIN epoch AS e ON e.run_id = c.id AND e.epoch >= 1),
line AS (
	SELECT *, lag(loss) OVER (PARTITION BY id ORDER BY epoch) AS before,
		lag(t) OVER (PARTITION BY id ORDER BY epoch) AS since
	FROM curve)
SELECT id, min(iif(before IS NULL, t, since + (t - since) * (before - level) / (before - loss))) AS t
FROM line WHERE loss <= level AND (before IS NULL OR before > level)
GROUP BY id;

CREATE TEMP VIEW shape1 AS
WITH x AS (
	SELECT sync_every, avg(accuracy) AS a, avg(epoch_seconds) AS s
	FROM cell WHERE shape = 1 AND strategy = 'asgd' GROUP BY sync_every)
SELECT 1 AS shape, one.a - three.a > 0.01 AND three.s BETWEEN 0.8 * one.s AND 0.99 * one.s AS shown,
	format('asgd on 4 workers, interval 1 -> 3: accuracy %.1f -> %.1f %%, epoch %.3f -> %.3f s',
		100 * one.a, 100 * three.a, one.s, three.s) AS figures
FROM x AS one, x AS three WHERE one.sync_every = 1 AND three.sync_every = 3;

CREATE TEMP VIEW shape2 AS
WITH met AS (
	SELECT c.workers AS n, (SELECT 1.0 * sum(staleness_mean * pushes) / sum(pushes) FROM epoch
			WHERE run_id = c.id AND pushes > 0) AS mean,
		(SELECT 1.0 * sum(pushes) FILTER (WHERE staleness > 2 * c.workers) / sum(pushes)
			FROM staleness WHERE run_id = c.id) AS late
	FROM cell AS c WHERE c.shape = 2)
SELECT 2, count(*) >= 5 AND max(abs(mean / (n - 1) - 1)) < 0.05 AND max(ifnull(late, 0)) < 0.001,
	'asgd, mean staleness at N workers: '
	|| group_concat(format('%d: %.2f', n, mean), ', ')
	|| format('; above 2 N: at most %.2f %% of pushes', 100 * max(ifnull(late, 0)))
FROM (SELECT * FROM met ORDER BY n);

-- The accuracy of one worker minus that of eight.
CREATE TEMP VIEW shape3 AS
WITH lost AS (
	SELECT depth, momentum, lr, avg(accuracy) FILTER (WHERE workers = 1)
		- avg(accuracy) FILTER (WHERE workers = 8) AS lost
	FROM cell WHERE shape = 3 GROUP BY depth, momentum, lr),
deep AS (
	SELECT m.depth, m.lost AS heavy, p.lost AS plain, q.lost AS paced
	FROM lost AS m JOIN lost AS p USING (depth) JOIN lost AS q USING (depth)
	WHERE m.momentum = 0.9 AND p.momentum = 0 AND p.lr = m.lr AND q.momentum = 0 AND q.lr > m.lr)
SELECT 3, count(*) = 3 AND min(heavy > plain)
		AND max(heavy) FILTER (WHERE depth = '5') > max(heavy) FILTER (WHERE depth = '1')
		AND max(plain) FILTER (WHERE depth = '5') > max(plain) FILTER (WHERE depth = '1'),
	'points lost by asgd on 8 workers, at depth '
	|| group_concat(format('%s: %.1f with momentum, %.1f without', depth, 100 * heavy, 100 * plain), '; ')
	|| ' (without, at lr / (1 - 0.9): ' || group_concat(format('%.1f', 100 * paced), ', ') || ')'
FROM (SELECT * FROM deep ORDER BY depth);

-- The control, averaging, is equal within one point, for equal and unequal workers: the effect is the lower rate.
CREATE TEMP VIEW shape4 AS
WITH a AS (
	SELECT workers, unlike, avg(accuracy) FILTER (WHERE updater = 'sgd' AND reduce = 'sum') AS plain,
		avg(accuracy) FILTER (WHERE updater = 'staleness') AS aware,
		avg(accuracy) FILTER (WHERE updater = 'sgd' AND reduce = 'mean') AS mean,
		(SELECT avg(accuracy) FROM cell WHERE shape = 4 AND workers = 1) AS alone
	FROM cell WHERE shape = 4 AND workers > 1 GROUP BY workers, unlike)
SELECT 4, count(*) = 3 AND count(plain) = 2 AND min(alone - plain > 0.05)
		AND min(aware - plain > 0.9 * (alone - plain)) AND min(abs(aware - mean) < 0.01),
	group_concat(format('%d%s workers: ', workers, iif(unlike, ' unlike', ''))
		|| iif(plain IS NULL, '', format('%.1f %%, ', 100 * plain))
		|| format('with lr / max(staleness, 1) %.1f %%, with lr / N %.1f %%', 100 * aware, 100 * mean), '; ')
	|| format('; one worker: %.1f %%', 100 * max(alone))
FROM (SELECT * FROM a ORDER BY unlike, workers);

-- For each strategy, reduction and interval: the runs at the learning rate that is best on the validation rows.
-- edge: this rate is the smallest or the largest of the list.
CREATE TEMP TABLE tuned AS
WITH rate AS (
	SELECT strategy, reduce, sync_every, lr, row_number() OVER (w ORDER BY avg(held_out) DESC) AS place,
		lr IN (min(lr) OVER w, max(lr) OVER w) AS edge
	FROM cell WHERE shape = 5 GROUP BY strategy, reduce, sync_every, lr
	WINDOW w AS (PARTITION BY strategy, reduce, sync_every))
SELECT c.id, strategy, reduce, sync_every, lr, edge, c.accuracy
FROM cell AS c JOIN rate USING (strategy, reduce, sync_every, lr) WHERE c.shape = 5 AND place = 1;

-- At one rate for all, which is downpour's best at X = 1, and tuned. The control: averaged, downpour is as flat.
CREATE TEMP VIEW shape5 AS
WITH one AS (
	SELECT sync_every, avg(accuracy) FILTER (WHERE strategy = 'easgd') AS elastic,
		avg(accuracy) FILTER (WHERE strategy = 'downpour' AND reduce = 'sum') AS downpour,
		avg(accuracy) FILTER (WHERE strategy = 'downpour' AND reduce = 'mean') AS mean
	FROM cell WHERE shape = 5 AND lr = 0.0125 GROUP BY sync_every),
best AS (
	SELECT sync_every, avg(accuracy) FILTER (WHERE strategy = 'easgd') AS elastic_t,
		avg(accuracy) FILTER (WHERE strategy = 'downpour' AND reduce = 'sum') AS downpour_t,
		avg(accuracy) FILTER (WHERE strategy = 'downpour' AND reduce = 'mean') AS mean_t,
		max(lr) FILTER (WHERE strategy = 'downpour' AND reduce = 'sum') AS rate
	FROM tuned GROUP BY sync_every)
SELECT 5, count(*) = 4 AND max(elastic) - min(elastic) < 0.02 AND max(elastic_t) - min(elastic_t) < 0.03
		AND max(downpour) FILTER (WHERE sync_every = 1) > min(elastic) - 0.02
		AND max(downpour) FILTER (WHERE sync_every >= 16) < min(elastic) - 0.2
		AND max(downpour_t) FILTER (WHERE sync_every >= 16) < min(elastic_t) - 0.03
		AND max(abs(mean - elastic)) < 0.01 AND max(abs(mean_t - elastic_t)) < 0.015
		AND NOT (SELECT max(edge) FROM tuned),
	'accuracy at X = ' || group_concat(sync_every, ', ')
	|| ', lr 0.0125: easgd ' || group_concat(format('%.1f', 100 * elastic), ', ')
	|| ' %; downpour summed ' || group_concat(format('%.1f', 100 * downpour), ', ')
	|| ' %, averaged ' || group_concat(format('%.1f', 100 * mean), ', ')
	|| ' %; each at its best lr: easgd ' || group_concat(format('%.1f', 100 * elastic_t), ', ')
	|| ' %; downpour summed ' || group_concat(format('%.1f (lr %g)', 100 * downpour_t, rate), ', ')
	|| ' %, averaged ' || group_concat(format('%.1f', 100 * mean_t), ', ') || ' %'
FROM (SELECT * FROM one JOIN best USING (sync_every) ORDER BY sync_every);

CREATE TEMP VIEW shape6 AS
WITH x AS (
	SELECT sync_every, avg(epoch_bytes) AS bytes,
		avg(accuracy) FILTER (WHERE outer_step = 'none') AS plain,
		avg(accuracy) FILTER (WHERE outer_step <> 'none') AS outer_step
	FROM cell WHERE shape = 6 GROUP BY sync_every),
y AS (
	SELECT *, sync_every * bytes / first_value(bytes) OVER o AS part,
		first_value(plain) OVER o AS plain_at_1, first_value(outer_step) OVER o AS outer_at_1
	FROM x WINDOW o AS (ORDER BY sync_every))
SELECT 6, count(*) >= 4 AND min(part) > 0.95 AND max(part) <= 1
		AND max(plain_at_1 - plain) > 0.008 AND max(outer_at_1 - outer_step) < 0.004
		AND min(plain_at_1 - outer_step) > 0,
	'X = ' || group_concat(sync_every, ', ')
	|| ': bytes x X ' || group_concat(format('%.2f', part), ', ')
	|| '; accuracy ' || group_concat(format('%.1f', 100 * plain), ', ')
	|| ' %, with outer momentum '
	|| group_concat(format('%.1f', 100 * outer_step), ', ') || ' %: behind averaging at every step by '
	|| group_concat(format('%.1f', 100 * (plain_at_1 - plain)), ', ') FILTER (WHERE sync_every > 1)
	|| ' points, with outer momentum by '
	|| group_concat(format('%.1f', 100 * (plain_at_1 - outer_step)), ', ') FILTER (WHERE sync_every > 1)
FROM (SELECT * FROM y ORDER BY sync_every);

-- A fixed interval of 2 is as fast as the schedule: two seeds showed a difference, five seeds do not.
CREATE TEMP VIEW shape7 AS
WITH x AS (
	SELECT schedule, sync_every, iif(count(*) = count(r.t), avg(r.t), 9e9) AS t
	FROM cell AS c LEFT JOIN reached AS r USING (id) WHERE c.shape = 7 GROUP BY schedule, sync_every)
SELECT 7, count(*) >= 4 AND max(t) FILTER (WHERE schedule = 'down')
		< 0.9 * min(t) FILTER (WHERE schedule = 'fixed' AND sync_every <> 2),
	'training loss 0.45: from X = 16 down to 1 '
	|| group_concat(iif(t < 9e9, format('in %.2f s', t), 'never')) FILTER (WHERE schedule = 'down')
	|| '; X fixed at '
	|| group_concat(format('%d: %s', sync_every, iif(t < 9e9, format('%.2f s', t), 'never')), ', ')
		FILTER (WHERE schedule = 'fixed')
FROM (SELECT * FROM x ORDER BY sync_every);

-- Each strategy at its best learning rate.
CREATE TEMP VIEW shape8 AS
WITH x AS (
	SELECT strategy, CAST(ifnull(backup, 0) AS INTEGER) AS backup, lr,
		iif(count(*) = count(r.t), avg(r.t), 9e9) AS t
	FROM cell AS c LEFT JOIN reached AS r USING (id) WHERE c.shape = 8 GROUP BY 1, 2, 3),
best AS (SELECT strategy, backup, lr, min(t) AS t FROM x GROUP BY 1, 2)
SELECT 8, count(*) = 3 AND max(t) FILTER (WHERE backup > 0) < 0.95 * min(t) FILTER (WHERE backup = 0),
	'training loss 0.40 at the best learning rate: '
	|| group_concat(format('%s in %s (lr %g)', CASE WHEN strategy = 'asgd' THEN 'asgd'
		WHEN backup > 0 THEN 'bsp with 2 backup workers' ELSE 'bsp' END,
		iif(t < 9e9, format('%.1f s', t), 'never'), lr), ', ')
FROM (SELECT * FROM best ORDER BY backup DESC, strategy DESC);

-- gain: of local SGD over an allreduce with overlap; told: the gain by the inequality, of which only the sign
-- counts. In the simulator the backward pass takes two thirds of a step. The inequality leaves out the last bucket
-- of gradients, which no backward pass hides; it takes less than 2 % of a step.
CREATE TEMP VIEW shape9 AS
WITH x AS (
	SELECT sim_platform AS net, r.sim_step_time AS device, c.strategy, c.sync_every, c.overlap,
		c.epoch_seconds / c.epoch_steps AS step, c.comm_fraction * c.epoch_seconds / c.epoch_steps AS comm,
		2.0 / 3 * c.compute_fraction * c.epoch_seconds / c.epoch_steps AS backward
	FROM cell AS c JOIN (SELECT id, sim_step_time FROM run) AS r USING (id) WHERE c.shape = 9),
y AS (
	SELECT l.net, l.device, l.sync_every AS x, o.step - l.step AS gain, l.step,
		p.comm * (1 - 1.0 / l.sync_every) - p.backward AS told
	FROM x AS l JOIN x AS o USING (net, device) JOIN x AS p USING (net, device)
	WHERE l.strategy = 'periodic' AND o.overlap = 'true' AND p.overlap = 'false'),
z AS (SELECT *, abs(gain) > 0.02 * step AS clear FROM y)
SELECT 9, count(*) >= 27 AND min((gain > 0) = (told > 0)) FILTER (WHERE clear)
		AND count(*) FILTER (WHERE clear AND gain > 0) >= 3
		AND count(*) FILTER (WHERE clear AND gain < 0) >= 3
		AND NOT max(clear AND gain > 0) FILTER (WHERE net = 'infiniband_fattree'),
	format('of %d cells the inequality that the model implies names %d of the %d where one side is ahead by '
		|| '2 %%; on 1 Gbit/s, '
		|| 'steps of 15 ms, local SGD gains ', count(*),
		count(*) FILTER (WHERE clear AND (gain > 0) = (told > 0)), count(*) FILTER (WHERE clear))
	|| group_concat(format('%+.0f %% at X = %d', 100 * gain / step, x), ', ')
		FILTER (WHERE net = 'ethernet_1g' AND device = '15ms')
	|| format('; on InfiniBand at most %+.1f %%',
		100 * max(gain / step) FILTER (WHERE net = 'infiniband_fattree'))
FROM (SELECT * FROM z ORDER BY x);

CREATE TEMP VIEW shape10 AS
WITH x AS (
	SELECT c.sim_platform AS net, c.workers AS n, one.epoch_seconds / c.epoch_seconds AS up
	FROM cell AS c JOIN cell AS one ON one.shape = 10 AND one.workers = 1
		AND one.sim_platform = c.sim_platform
	WHERE c.shape = 10),
peak AS (SELECT net, n, max(up) AS up FROM x GROUP BY net),
net AS (
	SELECT net, count(*) AS cells, max(up) FILTER (WHERE n = 32) AS at_last, max(up / n) AS share,
		group_concat(format('%.2f', up), ', ') AS ups
	FROM (SELECT * FROM x ORDER BY net, n) GROUP BY net)
SELECT 10, max(net = 'ethernet_10g' AND cells >= 6 AND n BETWEEN 2 AND 16 AND up > 1.2
		AND at_last < 0.95 * up AND share <= 1),
	'speed-up of 1, 2, 4, 8, 16, 32 workers: ' || group_concat(format('%s %s', net, ups), '; ')
FROM net JOIN peak USING (net);

-- Without feedback the loss even rises after the first epoch at the higher rate.
CREATE TEMP VIEW shape11 AS
WITH run AS (
	SELECT lr, codec, codec_feedback AS kept, iif(status = 'done', train_loss, 9e9) AS loss,
		(SELECT train_loss FROM epoch WHERE run_id = id AND epoch = 1) AS first
	FROM cell WHERE shape = 11),
x AS (
	SELECT lr, count(*) AS runs, avg(loss) FILTER (WHERE codec = 'none') AS plain,
		avg(loss) FILTER (WHERE codec = 'sign' AND kept = 'true') AS kept,
		avg(loss) FILTER (WHERE codec = 'sign' AND kept = 'false') AS lost,
		avg(first) FILTER (WHERE codec = 'sign' AND kept = 'false') AS first
	FROM run GROUP BY lr)
SELECT 11, count(*) = 2 AND sum(runs) = 30 AND max(abs(kept / plain - 1)) < 0.05 AND min(lost / plain) > 1.15
		AND max(lost > first) FILTER (WHERE lr > 0.02),
	'training loss of logistic regression at lr '
	|| group_concat(format('%g: %.3f uncompressed, %.3f by signs with feedback, %.3f without (%.3f after one epoch)',
		lr, plain, kept, lost, first), '; ')
FROM (SELECT * FROM x ORDER BY lr);

-- slow: 100 Mbit/s; fast: InfiniBand, times alone.
CREATE TEMP VIEW shape12 AS
WITH x AS (
	SELECT count(*) AS runs,
		avg(accuracy) FILTER (WHERE slow AND codec = 'none') AS plain,
		avg(accuracy) FILTER (WHERE slow AND codec = 'powersgd') AS low,
		avg(accuracy) FILTER (WHERE codec = 'randomk') AS places,
		avg(epoch_seconds) FILTER (WHERE slow AND codec = 'none') AS plain_s,
		avg(epoch_seconds) FILTER (WHERE slow AND codec = 'powersgd') AS low_s,
		avg(epoch_seconds) FILTER (WHERE NOT slow AND codec = 'none') AS plain_fast,
		avg(epoch_seconds) FILTER (WHERE NOT slow AND codec = 'powersgd') AS low_fast
	FROM (SELECT *, sim_platform = 'cluster' AS slow FROM cell WHERE shape = 12))
SELECT 12, runs = 17 AND abs(plain - low) <= 0.003 AND low_s < 0.5 * plain_s AND low_fast >= plain_fast,
	format('accuracy %.1f %%, with PowerSGD of rank 2 %.1f %%, with as many floats in random places %.1f %%; an epoch '
		|| 'at 100 Mbit/s %.2f s, with PowerSGD %.2f s; on InfiniBand %.3f and %.3f s',
		100 * plain, 100 * low, 100 * places, plain_s, low_s, plain_fast, low_fast)
FROM x;

CREATE TEMP VIEW shape13 AS
WITH x AS (
	SELECT count(*) AS runs, avg(accuracy) FILTER (WHERE codec = 'none') AS plain,
		avg(accuracy) FILTER (WHERE codec = 'topk' AND codec_feedback = 'true') AS kept,
		avg(accuracy) FILTER (WHERE codec = 'topk' AND codec_feedback = 'false') AS lost,
		avg(epoch_bytes) FILTER (WHERE codec = 'topk') / avg(epoch_bytes) FILTER (WHERE codec = 'none') AS part
	FROM cell WHERE shape = 13)
SELECT 13, runs = 15 AND plain - kept < 0.01 AND kept - lost > 0.01,
	format('accuracy %.1f %%; by the largest 1 %% with feedback %.1f %%, without %.1f %%; %.1f %% of the bytes',
		100 * plain, 100 * kept, 100 * lost, 100 * part)
FROM x;

CREATE TEMP VIEW shape14 AS
WITH x AS (
	SELECT count(*) AS runs, avg(accuracy) FILTER (WHERE codec = 'none') AS plain,
		avg(accuracy) FILTER (WHERE codec = 'fp4') AS four, avg(accuracy) FILTER (WHERE codec = 'sign') AS one,
		avg(accuracy) FILTER (WHERE codec = 'randomk') AS places,
		avg(epoch_bytes) FILTER (WHERE codec = 'fp4') / avg(epoch_bytes) FILTER (WHERE codec = 'none') AS part
	FROM cell WHERE shape = 14)
SELECT 14, runs = 20 AND abs(plain - four) < 0.003 AND plain - places > 0.01,
	format('accuracy of DiLoCo %.1f %%; with changes of 4 bits %.1f %%, of one bit %.1f %%, of an eighth of the floats '
		|| '%.1f %%; 4 bits are %.1f %% of the bytes', 100 * plain, 100 * four, 100 * one, 100 * places, 100 * part)
FROM x;

-- The first of the two controls decides what the shape means: with less outer momentum dense DiLoCo may be better.
CREATE TEMP VIEW shape15 AS
WITH x AS (
	SELECT count(*) AS runs,
		avg(loss) FILTER (WHERE outer_step = 'nesterov' AND outer_momentum = '0.9') AS dense,
		avg(loss) FILTER (WHERE outer_step = 'nesterov' AND outer_momentum = '0.5') AS less,
		avg(loss) FILTER (WHERE outer_step = 'none' AND codec = 'none') AS mean,
		avg(loss) FILTER (WHERE codec = 'topk' AND codec_feedback = 'true') AS kept,
		avg(loss) FILTER (WHERE codec = 'topk' AND codec_feedback = 'false') AS lost,
		avg(epoch_bytes) FILTER (WHERE codec = 'topk') / avg(epoch_bytes) FILTER (WHERE codec = 'none') AS part
	FROM (SELECT *, iif(status = 'done', test_loss, 9e9) AS loss FROM cell WHERE shape = 15))
SELECT 15, runs = 15 AND kept < dense AND part < 0.03,
	format('test loss by 2 %% of the changes, in 2 bits, %.3f (without feedback %.3f); dense DiLoCo %.3f, with outer '
		|| 'momentum 0.5 %.3f; averages %.3f; %.1f %% of the bytes', kept, lost, dense, less, mean, 100 * part)
FROM x;

-- Losses of 16 to 21: a run that diverged has that of chance over the bytes, 5.5.
CREATE TEMP VIEW lost AS
SELECT *, iif(status = 'done', test_loss, 5.5) AS loss FROM cell WHERE shape BETWEEN 16 AND 21;

CREATE TEMP VIEW shape16 AS
WITH rate AS (
	SELECT strategy, outer_step, sync_every, avg(loss) AS loss, count(*) AS runs FROM lost
	WHERE shape = 16 GROUP BY strategy, outer_step, sync_every, iif(outer_step = 'none', NULL, outer_lr)),
best AS (SELECT strategy, outer_step, sync_every, min(loss) AS loss, sum(runs) AS runs FROM rate GROUP BY 1, 2, 3),
x AS (
	SELECT sum(runs) AS runs, min(loss) FILTER (WHERE strategy = 'allreduce') AS sums,
		min(loss) FILTER (WHERE outer_step = 'none' AND sync_every = 5) AS mean5,
		min(loss) FILTER (WHERE outer_step = 'none' AND sync_every = 80) AS mean80,
		min(loss) FILTER (WHERE outer_step = 'nesterov' AND sync_every = 5) AS outer5,
		min(loss) FILTER (WHERE outer_step = 'nesterov' AND sync_every = 80) AS outer80
	FROM best)
SELECT 16, runs = 30 AND mean80 > mean5 AND outer80 - outer5 < 0.5 * (mean80 - mean5),
	format('test loss at X = 5 and 80: averages %.3f and %.3f, DiLoCo %.3f and %.3f; sums of each step %.3f', mean5, mean80,
		outer5, outer80, sums)
FROM x;

CREATE TEMP VIEW shape17 AS
WITH x AS (
	SELECT count(*) AS runs, avg(loss) FILTER (WHERE fragments = 1 AND delay = 0) AS whole,
		min(loss) FILTER (WHERE fragments = 1 AND delay = 0) AS least,
		max(loss) FILTER (WHERE fragments = 1 AND delay = 0) AS most,
		avg(loss) FILTER (WHERE fragments = 8 AND delay = 0) AS parts,
		avg(loss) FILTER (WHERE fragments = 1 AND delay = 2) AS late,
		avg(loss) FILTER (WHERE fragments = 8 AND delay = 2 AND mix > 0) AS mixed,
		avg(loss) FILTER (WHERE fragments = 8 AND delay = 2 AND mix = 0) AS replaced,
		1.0 * max(peak_bytes) FILTER (WHERE fragments = 8) / max(peak_bytes) FILTER (WHERE fragments = 1) AS part
	FROM lost WHERE shape = 17)
SELECT 17, runs = 15 AND parts < most + 0.5 * (most - least) AND mixed < most + 0.5 * (most - least) AND part <= 1 / 7.0,
	format('test loss of DiLoCo %.3f (%.3f to %.3f); in 8 fragments %.3f, overlapped %.3f (one fragment %.3f, without a '
		|| 'mix %.3f); peak bytes 1/%.1f', whole, least, most, parts, mixed, late, replaced, 1 / part)
FROM x;

CREATE TEMP VIEW shape18 AS
WITH rate AS (
	SELECT optimizer, workers, avg(loss) AS loss, count(*) AS runs FROM lost WHERE shape = 18
	GROUP BY optimizer, workers, lr),
best AS (SELECT optimizer, workers, min(loss) AS loss, sum(runs) AS runs FROM rate GROUP BY 1, 2),
x AS (
	SELECT sum(runs) AS runs, min(loss) FILTER (WHERE optimizer = 'adamw' AND workers = 1) AS adamw1,
		min(loss) FILTER (WHERE optimizer = 'adamw' AND workers = 8) AS adamw8,
		min(loss) FILTER (WHERE optimizer = 'muon' AND workers = 1) AS muon1,
		min(loss) FILTER (WHERE optimizer = 'muon' AND workers = 8) AS muon8
	FROM best)
SELECT 18, runs = 72 AND muon8 - muon1 < adamw8 - adamw1,
	format('test loss on 1 and 8 workers: adamw %.3f and %.3f, Muon %.3f and %.3f', adamw1, adamw8, muon1, muon8)
FROM x;

CREATE TEMP VIEW shape19 AS
WITH x AS (
	SELECT count(*) AS runs, avg(loss) FILTER (WHERE strategy = 'bsp' AND backup = '0') AS whole,
		max(loss) FILTER (WHERE strategy = 'bsp' AND backup = '0') AS most,
		avg(loss) FILTER (WHERE backup = '2' AND late = 'join') AS joined,
		avg(loss) FILTER (WHERE backup = '2' AND late = 'drop') AS dropped,
		avg(samples_per_second) FILTER (WHERE strategy = 'bsp' AND backup = '0') AS whole_s,
		avg(samples_per_second) FILTER (WHERE backup = '2' AND late = 'join') AS joined_s,
		avg(samples_per_second) FILTER (WHERE strategy = 'asgd') AS alone_s
	FROM lost WHERE shape = 19)
SELECT 19, runs = 12 AND joined_s > whole_s AND joined < 1.01 * most,
	format('rows a second: all %.0f, quorum of 6 of 8 %.0f, asgd %.0f; test loss %.3f, late pushes join %.3f, are dropped %.3f',
		whole_s, joined_s, alone_s, whole, joined, dropped)
FROM x;

CREATE TEMP VIEW shape20 AS
WITH x AS (
	SELECT count(*) AS runs,
		avg(loss) FILTER (WHERE schedule = 'ring') AS ring, avg(loss) FILTER (WHERE schedule = 'one_peer') AS one,
		avg(loss) FILTER (WHERE schedule = 'exponential') AS several, avg(loss) FILTER (WHERE schedule = 'complete') AS every,
		avg(apart) FILTER (WHERE schedule = 'ring') AS ring_apart, avg(apart) FILTER (WHERE schedule = 'one_peer') AS one_apart,
		avg(bytes) FILTER (WHERE schedule = 'one_peer') / avg(bytes) FILTER (WHERE schedule = 'ring') AS part
	FROM (SELECT *, epoch_bytes AS bytes, (SELECT consensus FROM epoch WHERE run_id = id AND epoch = epochs_done) AS apart
		FROM lost WHERE shape = 20))
SELECT 20, runs = 8 AND one_apart < ring_apart AND one <= ring AND abs(part - 1) < 0.01,
	format('consensus distance: ring %.3g, one_peer %.3g, with %.2f times the bytes; test loss %.3f and %.3f; exponential '
		|| '%.3f, complete %.3f', ring_apart, one_apart, part, ring, one, several, every)
FROM x;

CREATE TEMP VIEW shape21 AS
WITH x AS (
	SELECT count(*) AS runs, avg(loss) FILTER (WHERE updater = 'add') AS plain,
		avg(loss) FILTER (WHERE updater = 'delayed_nesterov' AND period = '1') AS each,
		avg(loss) FILTER (WHERE updater = 'delayed_nesterov' AND period = '0') AS delayed,
		avg(loss) FILTER (WHERE strategy = 'periodic') AS together
	FROM lost WHERE shape = 21)
SELECT 21, runs = 12 AND delayed < each,
	format('test loss of asgd: with Nesterov in each push %.3f, delayed %.3f, without %.3f; DiLoCo %.3f', each, delayed,
		plain, together)
FROM x;

SELECT * FROM shape1 UNION ALL SELECT * FROM shape2 UNION ALL SELECT * FROM shape3
UNION ALL SELECT * FROM shape4 UNION ALL SELECT * FROM shape5 UNION ALL SELECT * FROM shape6
UNION ALL SELECT * FROM shape7 UNION ALL SELECT * FROM shape8 UNION ALL SELECT * FROM shape9
UNION ALL SELECT * FROM shape10 UNION ALL SELECT * FROM shape11 UNION ALL SELECT * FROM shape12
UNION ALL SELECT * FROM shape13 UNION ALL SELECT * FROM shape14 UNION ALL SELECT * FROM shape15
UNION ALL SELECT * FROM shape16 UNION ALL SELECT * FROM shape17 UNION ALL SELECT * FROM shape18
UNION ALL SELECT * FROM shape19 UNION ALL SELECT * FROM shape20 UNION ALL SELECT * FROM shape21;
