-- 7.sql - from version 8 on: what column deal says. Before, every worker had as many mini-batches as the others.
-- The limits of the newest check are made again by the next; they say now whether what is unsure fails.
UPDATE run SET deal = 'static';
DROP TABLE IF EXISTS gate_limit;
