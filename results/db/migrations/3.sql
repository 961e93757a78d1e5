-- 3.sql - from version 3 on: devices.
ALTER TABLE run ADD COLUMN cuda TEXT;
