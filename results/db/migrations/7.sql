-- 7.sql - from version 8 on: column deal. Before, every worker had the same number of mini-batches.
UPDATE run SET deal = 'static';
