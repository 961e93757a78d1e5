-- cells.sql - one row for each cell of the baseline ?1, worst first: its verdict, and every figure
-- without rounding. gate_test negates accuracies; here they and the ends of their intervals are
-- negated again.
CREATE TEMP TABLE shown AS
WITH test AS MATERIALIZED (SELECT * FROM gate_test WHERE name = ?1)
SELECT c.verdict, c.fails, c.cell, c.configuration, c.wanted AS runs_wanted, c.runs,
	c.n_base AS baseline_runs, c.paired, c.metric AS figure, c.chance AS p,
	-1 * a.base AS test_accuracy_baseline, -1 * a.now AS test_accuracy,
	-1 * a.change AS test_accuracy_change, -1 * a.change_high AS test_accuracy_low,
	-1 * a.change_low AS test_accuracy_high, a.p_holm AS test_accuracy_p,
	l.base AS test_loss_baseline, l.now AS test_loss, l.change AS test_loss_change,
	l.change_low AS test_loss_low, l.change_high AS test_loss_high, l.p_holm AS test_loss_p,
	t.base AS train_loss_baseline, t.now AS train_loss, t.change AS train_loss_change,
	t.change_low AS train_loss_low, t.change_high AS train_loss_high, t.p_holm AS train_loss_p,
	c.differs AS simulated_time_differs, c.comparable AS simulated_time_comparable,
	c.longer AS simulated_time_change, c.note
FROM gate_cell AS c
	LEFT JOIN test AS a ON a.cell = c.cell AND a.metric = 'test accuracy'
	LEFT JOIN test AS l ON l.cell = c.cell AND l.metric = 'test loss'
	LEFT JOIN test AS t ON t.cell = c.cell AND t.metric = 'train loss'
WHERE c.name = ?1
ORDER BY c.rank, c.chance, c.configuration
