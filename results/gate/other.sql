-- other.sql - a run that is compared with the baseline ?1, but is of another model or data set.
SELECT json_extract(b.options, '$.workload') || ' ' || b.config,
	CASE WHEN b.params <> r.params
			THEN b.params || ' parameters there, and ' || r.params
		WHEN b.train_size <> r.train_size
			THEN b.train_size || ' rows to train on there, and ' || r.train_size
		ELSE b.test_size || ' rows to test on there, and ' || r.test_size END,
	r.id
FROM baseline AS b JOIN checked AS c USING (name, cell, seed) JOIN run AS r ON r.id = c.run_id
WHERE name = ?1 AND (b.params <> r.params OR b.train_size <> r.train_size
	OR b.test_size <> r.test_size)
LIMIT 1
