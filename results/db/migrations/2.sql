-- 2.sql - from version 2 on. 0 and 1 had the same tables. All tables were in memory that workers share, and
-- asgd was the only strategy that had any.
UPDATE run SET table_home = 'shared' WHERE strategy = 'asgd';
ALTER TABLE epoch ADD COLUMN pushes INTEGER;
ALTER TABLE epoch ADD COLUMN dropped INTEGER;
ALTER TABLE rank_epoch ADD COLUMN pushes INTEGER;
ALTER TABLE rank_epoch ADD COLUMN dropped INTEGER;
