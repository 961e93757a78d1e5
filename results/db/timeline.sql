-- timeline.sql - the views of the timeline (table event).

-- The kinds of events. compute, delay and update are the parts of a worker's step. The communication of
-- the strategy is part of update (or of compute: layers that are sent while others are computed).
-- cname: the nearest of Chrome's names for colours.
CREATE VIEW event_kind AS
SELECT column1 AS place, column2 AS name, column3 AS colour, column4 AS cname, column5 AS about
FROM (VALUES
	(1, 'step', '#BBBBBB', 'grey', 'one step; time outside its parts is small work between them'),
	(2, 'compute', '#0072B2', 'thread_state_running', 'loads the mini-batch and computes its gradient'),
	(3, 'delay', '#8FBBD9', 'thread_state_iowait', 'time that --straggle and --speed add to computing'),
	(4, 'update', '#009E73', 'good', 'the strategy''s own work: the local optimiser'),
	(5, 'pause', '#E0E0E0', 'generic_work', 'the worker is paused (--pause)'),
	(6, 'push', '#E69F00', 'olive', 'sends to a parameter server, and usually gets the parameters back'),
	(7, 'pull', '#F5C76E', 'yellow', 'gets the parameters; on a server: sends them'),
	(8, 'pack', '#B08040', 'rail_load', 'prepares messages: differences, rows, copies from a GPU and back'),
	(9, 'send', '#CC79A7', 'rail_animation', 'sends to one rank, or begins a reduction'),
	(10, 'recv', '#DFA8C6', 'rail_response', 'waits for a message of another rank, and receives it'),
	(11, 'exchange', '#B5548A', 'rail_idle', 'sends to one rank and receives from it'),
	(12, 'allreduce', '#AA4499', 'cq_build_running', 'the sum over all workers'),
	(13, 'allgather', '#882255', 'cq_build_attempt_runnig', 'all workers'' parts'),
	(14, 'broadcast', '#DDA0DD', 'cq_build_passed', 'one worker''s values for all'),
	(15, 'barrier', '#F0A08C', 'bad', 'waits at a barrier until the last worker has arrived'),
	(16, 'apply', '#56B4E9', 'startup', 'applies a push to the table, on a server or on the worker'),
	(17, 'wait', '#D55E00', 'terrible', 'waits for others: a lock, a round, a bound, the last of a reduction'),
	(18, 'evaluate', '#F0E442', 'thread_state_unknown', 'evaluates the model; not part of the training time'));

-- Where pushes go: to the server that applies them. If workers access the table themselves: to the
-- first push or pull of another worker that gets them. from_s <= to_s, and each lies in its event.
CREATE VIEW event_arrow AS
WITH reader AS (
	SELECT p.run_id, p.rank, p.seq, p.start_s, p.flow,
		(SELECT r.seen FROM event AS r WHERE r.run_id = p.run_id AND r.seen >= p.flow
			AND r.rank <> p.rank AND r.seen >> 40 = p.flow >> 40 ORDER BY r.seen LIMIT 1) AS seen
	FROM event AS p WHERE p.flow IS NOT NULL AND p.name = 'push'),
pair AS (
	SELECT p.run_id, p.rank AS from_rank, p.seq AS from_seq, p.start_s AS from_s,
		r.rank AS to_rank, r.seq AS to_seq, r.start_s, r.epoch, r.step
	FROM reader AS p CROSS JOIN event AS r INDEXED BY event_seen
		ON r.run_id = p.run_id AND r.seen = p.seen AND r.rank <> p.rank
	UNION ALL
	SELECT p.run_id, p.rank, p.seq, p.start_s, a.rank, a.seq, a.start_s, a.epoch, a.step
	FROM event AS a CROSS JOIN event AS p INDEXED BY event_flow
		ON p.run_id = a.run_id AND p.flow = a.flow AND p.name = 'push'
	WHERE a.flow IS NOT NULL AND a.name = 'apply')
SELECT run_id, from_rank, from_seq, from_s, to_rank, to_seq, max(start_s, from_s) AS to_s, epoch, step
FROM pair;

-- Waits, one row each, and the rank that each was for: the one whose arrival ended it; in reductions,
-- exchanges and at barriers the last of those that took part. NULL = not known, as at a lock. Timelines
-- up to schema 7 do not name the rank that a reduction waited for. There it is the last that began the
-- reduction of that number within the step.
CREATE VIEW event_wait AS
WITH collective AS NOT MATERIALIZED (
	SELECT run_id, rank, seq, name, epoch, step, duration_s,
		first_value(rank) OVER (PARTITION BY run_id, epoch, step, name, nth
			ORDER BY start_s DESC, rank) AS last
	FROM (SELECT *, row_number() OVER (PARTITION BY run_id, epoch, step, rank, name ORDER BY seq) AS nth
		FROM event WHERE name IN ('allreduce', 'allgather', 'broadcast', 'barrier')))
SELECT run_id, epoch, step, rank, duration_s AS waited_s, last AS for_rank
FROM collective WHERE name = 'barrier' AND last <> rank
UNION ALL
SELECT w.run_id, w.epoch, w.step, w.rank, w.duration_s, ifnull(w.peer, m.last)
FROM event AS w LEFT JOIN collective AS m
	ON m.run_id = w.run_id AND m.rank = w.rank AND m.seq = w.parent
WHERE w.name = 'wait';

-- One row for each run, epoch >= 1 and worker: how long the others waited for it, in waited_s of their
-- of_s.
--   source  "events": the waiting of each other worker in the whole epoch is divided as in the steps
--           of the timeline; waits at barriers are taken as they are. "epochs": there is no timeline, or
--           no worker waited in it. Then the others' waiting beyond that of the worker that was busy
--           longest counts for this worker
--   busy_s  its seconds without waiting
CREATE VIEW blame_epoch AS
WITH told AS MATERIALIZED (
	SELECT run_id, epoch, rank, for_rank, step > 0 AS inside, sum(waited_s) AS s
	FROM event_wait WHERE epoch >= 1 GROUP BY run_id, epoch, rank, for_rank, step > 0),
stood AS MATERIALIZED (
	SELECT run_id, epoch, rank, sum(duration_s) AS s
	FROM event WHERE name = 'barrier' GROUP BY run_id, epoch, rank),
part AS (
	SELECT t.run_id, t.epoch, t.rank, t.for_rank, iif(t.inside, max(r.wait_s - ifnull(b.s, 0), 0) * t.s
		/ sum(t.s) OVER (PARTITION BY t.run_id, t.epoch, t.rank, t.inside), t.s) AS s
	FROM told AS t JOIN rank_epoch AS r USING (run_id, epoch, rank)
		LEFT JOIN stood AS b USING (run_id, epoch, rank)),
waited AS MATERIALIZED (
	SELECT run_id, epoch, for_rank AS rank, sum(s) AS s
	FROM part WHERE for_rank <> rank GROUP BY run_id, epoch, for_rank),
busy AS (
	SELECT *, seconds - wait_s AS busy_s,
		rank = first_value(rank) OVER (PARTITION BY run_id, epoch ORDER BY seconds - wait_s DESC, rank)
			AS busiest,
		sum(seconds) OVER (PARTITION BY run_id, epoch) - seconds AS of_s
	FROM rank_epoch WHERE epoch >= 1)
SELECT b.run_id, b.epoch, b.rank, iif(e.known, 'events', 'epochs') AS source, b.busy_s, b.of_s,
	CASE WHEN e.known THEN ifnull(w.s, 0)
		WHEN b.busiest THEN (SELECT total(max(o.wait_s - b.wait_s, 0)) FROM rank_epoch AS o
			WHERE o.run_id = b.run_id AND o.epoch = b.epoch)
		ELSE 0 END AS waited_s
FROM busy AS b LEFT JOIN waited AS w USING (run_id, epoch, rank)
	LEFT JOIN (SELECT DISTINCT run_id, 1 AS known FROM waited) AS e USING (run_id);

-- One row for each run and worker: how many steps its timeline has, and their median and 99th
-- percentile.
CREATE VIEW step_time AS
WITH median_rank(n, low, coverage) AS (VALUES (0, 0, 0)), -- no intervals
figure AS (SELECT run_id AS number, rank AS name, duration_s AS x FROM event WHERE name = 'step'),
/* MEDIANS */
SELECT number AS run_id, name AS rank, n, mid AS median_s, p99 AS p99_s FROM median;

-- How the ranks of a run spent their time: over the steps of its timeline; without a timeline, over
-- all epochs.
CREATE VIEW time_share AS
WITH part AS (
	SELECT run_id, rank, name, max(sum(s), 0) AS s FROM (
		SELECT run_id, rank, name, duration_s AS s FROM event WHERE step > 0
		UNION ALL -- time inside another event is not its own
		SELECT i.run_id, i.rank, e.name, -i.duration_s FROM event AS i JOIN event AS e
			ON e.run_id = i.run_id AND e.rank = i.rank AND e.seq = i.parent
		WHERE i.step > 0)
	GROUP BY run_id, rank, name
	UNION ALL
	SELECT run_id, rank, name, sum(s) FROM (
		SELECT run_id, rank, column1 AS name, CASE column1 WHEN 'compute' THEN compute_s
			WHEN 'communicate' THEN comm_s WHEN 'wait' THEN wait_s
			ELSE max(seconds - compute_s - comm_s - wait_s, 0) END AS s
		FROM rank_epoch CROSS JOIN (VALUES ('compute'), ('communicate'), ('wait'), ('other'))
		WHERE epoch >= 1 AND run_id NOT IN (SELECT run_id FROM event))
	GROUP BY run_id, rank, name)
SELECT run_id, rank, name, s, s / nullif(sum(s) OVER (PARTITION BY run_id, rank), 0) AS share FROM part;
