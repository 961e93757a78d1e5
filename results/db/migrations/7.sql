-- 7.sql - from version 8 on: what column deal says. Before, every worker had as many mini-batches as the others.
UPDATE run SET deal = 'static';
