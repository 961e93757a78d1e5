-- 8.sql - from version 9 on. The train_loss of epoch and baseline was the running loss; that of the evaluated model
-- was not known.
ALTER TABLE epoch RENAME COLUMN train_loss TO running_loss;
ALTER TABLE epoch RENAME COLUMN train_accuracy TO running_accuracy;
ALTER TABLE baseline RENAME COLUMN train_loss TO running_loss;
-- The next check makes its limits again; they now contain whether unsure cells fail.
DROP TABLE IF EXISTS gate_limit;
