-- What each rank did during some steps: the newest of the chosen runs with a timeline.
-- Needs a run with a timeline: mvbench run --trace=64, or mvbench trace.
-- The window is from the start of the third recorded step of an epoch to the end of the seventh, which leaves out
-- the cold start; with fewer steps, the last ones. It uses the first rank to start and the first to end. Columns, the
-- same in all blocks: two times [s], two rows, then a colour and numbers for the labels. A block is a kind of event,
-- whose second row is its own, or the arrows. An event inside another one is in a later block.
WITH newest AS MATERIALIZED (
	SELECT workload, max(id) AS run_id FROM selected AS s
	WHERE EXISTS (SELECT 1 FROM event WHERE run_id = s.id AND step > 0) GROUP BY workload),
step AS MATERIALIZED (
	SELECT e.run_id, e.epoch, e.rank, e.step, e.start_s, e.start_s + e.duration_s AS end_s
	FROM newest AS n JOIN event AS e ON e.run_id = n.run_id AND e.name = 'step'
	WHERE e.epoch = (SELECT min(epoch) FROM event AS f WHERE f.run_id = n.run_id AND f.step > 0)),
want AS MATERIALIZED (
	SELECT run_id, epoch, max(1, min(3, max(step) - 4)) AS first, min(max(step), 7) AS last
	FROM step GROUP BY run_id),
span AS MATERIALIZED (
	SELECT w.run_id, w.epoch, w.first, w.last, min(s.start_s) FILTER (WHERE s.step = w.first) AS from_s,
		min(s.end_s) FILTER (WHERE s.step = w.last) AS to_s
	FROM want AS w JOIN step AS s USING (run_id) GROUP BY w.run_id),
lane AS MATERIALIZED ( -- a picture has room for 24
	SELECT run_id, rank, row_number() OVER (PARTITION BY run_id ORDER BY rank) - 1 AS row
	FROM (SELECT DISTINCT e.run_id, e.rank FROM event AS e JOIN newest AS n USING (run_id))
	WHERE rank < 24),
slice AS (
	SELECT e.run_id, k.place, e.name, max(e.start_s, s.from_s) - s.from_s AS x,
		min(e.start_s + e.duration_s, s.to_s) - s.from_s AS x2, l.row AS y, l.row AS y2, k.colour
	FROM span AS s JOIN event AS e ON e.run_id = s.run_id
		AND e.start_s < s.to_s AND e.start_s + e.duration_s > s.from_s
		JOIN event_kind AS k ON k.name = e.name JOIN lane AS l ON l.run_id = e.run_id AND l.rank = e.rank
	UNION ALL
	SELECT a.run_id, 99, 'where a push goes', -- from the push's end, or from its start if read before the end
		iif(f.start_s + f.duration_s <= a.to_s, f.start_s + f.duration_s, a.from_s) - s.from_s,
		a.to_s - s.from_s, l.row, m.row, '#333333'
	FROM span AS s JOIN event_arrow AS a ON a.run_id = s.run_id AND a.from_s >= s.from_s AND a.to_s <= s.to_s
		JOIN event AS f ON f.run_id = a.run_id AND f.rank = a.from_rank AND f.seq = a.from_seq
		JOIN lane AS l ON l.run_id = a.run_id AND l.rank = a.from_rank
		JOIN lane AS m ON m.run_id = a.run_id AND m.rank = a.to_rank)
SELECT n.workload, i.name AS title, i.x, i.x2, i.y, i.y2, i.colour, r.workers,
	(SELECT count(*) FROM lane WHERE run_id = n.run_id) AS lanes, s.to_s - s.from_s AS most,
	s.epoch, s.first, s.last, n.run_id, c.cut
FROM slice AS i JOIN newest AS n USING (run_id) JOIN span AS s USING (run_id)
	JOIN run_summary AS r ON r.id = n.run_id JOIN selected AS c ON c.id = n.run_id
ORDER BY n.workload, i.place, i.y, i.x;
