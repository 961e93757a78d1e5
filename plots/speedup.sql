-- Speed-up over serial: median epoch times and their intervals, and the ideal line.
-- Needs serial runs and runs of several workers, of the same workload and batch.
SELECT workload, title, workers, one / seconds AS speedup, one / high AS low, one / low AS high, look
FROM scaling
ORDER BY workload, place, title, workers;
