-- junit.sql - for each cell: does it fail, its verdict, its name, and the message.
SELECT fails, lower(verdict), configuration, ltrim(
	ifnull(metric || ' ' || base || ' -> ' || now || ', ' || change ||
		' (95 % interval ' || interval || '), p ' || p || ', ' || n || ' runs', '') ||
	iif(note = '', '', '; ' || note), '; ')
FROM shown
