-- 9.sql - from version 10 on: the network of a run. That of a run with a hostfile was named after that file.
UPDATE run SET network = 'hostfile ' || hostfile WHERE hostfile <> '';
