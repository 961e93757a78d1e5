-- 8.sql - from version 9 on: where in a sweep's order a run stood; before, that was the file's.
ALTER TABLE run ADD COLUMN sweep_round INTEGER;
ALTER TABLE run ADD COLUMN sweep_seed INTEGER;
-- What epoch and baseline called the training loss is the running one; the evaluated model's was not
-- known.
ALTER TABLE epoch RENAME COLUMN train_loss TO running_loss;
ALTER TABLE epoch RENAME COLUMN train_accuracy TO running_accuracy;
ALTER TABLE epoch ADD COLUMN train_loss REAL;
ALTER TABLE epoch ADD COLUMN train_accuracy REAL;
ALTER TABLE epoch ADD COLUMN validation_loss REAL;
ALTER TABLE epoch ADD COLUMN validation_accuracy REAL;
ALTER TABLE baseline RENAME COLUMN train_loss TO running_loss;
ALTER TABLE baseline ADD COLUMN train_loss REAL;
DROP TABLE IF EXISTS run_kept; -- it has more columns now, and is filled anew
ALTER TABLE epoch ADD COLUMN consensus REAL;
-- The limits of the newest check are made again by the next; they say now whether what is unsure
-- fails.
DROP TABLE IF EXISTS gate_limit;
