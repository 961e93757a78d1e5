-- Seeds' spread: final test accuracy of every run beside its configuration's median and interval; test loss where there is none.
-- Needs runs that evaluated their model; several seeds of each.
SELECT f.workload, f.title, o.value, f.median, f.low, f.high, f.is_loss,
	row_number() OVER (PARTITION BY f.place ORDER BY o.value) AS i, f.look
FROM final AS f JOIN outcome AS o USING (place)
WHERE o.value IS NOT NULL
ORDER BY f.place, o.value;
