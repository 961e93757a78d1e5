-- 7.sql - from version 8 on: what column deal says (before, every worker had as many mini-batches as the
-- others), and consensus distance.
UPDATE run SET deal = 'static';
ALTER TABLE epoch ADD COLUMN consensus REAL;
