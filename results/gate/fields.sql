-- fields.sql - the fields of a run in the file of a baseline, in their order: the columns of table
-- baseline, except those that follow from others. type: as json_each names it.
CREATE TEMP TABLE IF NOT EXISTS field AS
SELECT name, iif(name = 'options', 'object', lower(type)) AS type, "notnull" AS needed
FROM pragma_table_info('baseline') WHERE name NOT IN ('name', 'made', 'cell', 'run_id')
ORDER BY name <> 'config', cid
