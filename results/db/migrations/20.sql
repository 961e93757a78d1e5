-- 20.sql - from version 21 on: --codec.pull is text, as it may name a codec. It was 0 or 1.
ALTER TABLE run RENAME COLUMN codec_pull TO was;
ALTER TABLE run ADD COLUMN codec_pull TEXT NOT NULL DEFAULT 'false';
UPDATE run SET codec_pull = 'true' WHERE was IN (1, 'true');
ALTER TABLE run DROP COLUMN was;
