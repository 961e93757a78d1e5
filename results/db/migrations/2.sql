-- 2.sql - from version 2 on. Versions 0 and 1 had the same schema. All parameter-server tables were in shared
-- memory, and only asgd had any.
UPDATE run SET table_home = 'shared' WHERE strategy = 'asgd';
