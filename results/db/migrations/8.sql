-- 8.sql - from version 9 on: the place of a run in the order of its sweep; before, the order was that of the file.
ALTER TABLE run ADD COLUMN sweep_round INTEGER;
ALTER TABLE run ADD COLUMN sweep_seed INTEGER;
-- The train_loss of epoch and baseline was the running loss; that of the evaluated model was not known.
ALTER TABLE epoch RENAME COLUMN train_loss TO running_loss;
ALTER TABLE epoch RENAME COLUMN train_accuracy TO running_accuracy;
ALTER TABLE epoch ADD COLUMN train_loss REAL;
ALTER TABLE epoch ADD COLUMN train_accuracy REAL;
ALTER TABLE epoch ADD COLUMN validation_loss REAL;
ALTER TABLE epoch ADD COLUMN validation_accuracy REAL;
ALTER TABLE baseline RENAME COLUMN train_loss TO running_loss;
ALTER TABLE baseline ADD COLUMN train_loss REAL;
DROP TABLE IF EXISTS run_kept; -- it has more columns now, and is filled again
ALTER TABLE epoch ADD COLUMN consensus REAL;
-- The next check makes its limits again; they now contain whether unsure cells fail.
DROP TABLE IF EXISTS gate_limit;
