-- Called once by a connection that reads whole days, and that ends with the comparison: it may take its time, hold a day
-- of a million ids in memory, and is the only one for its gateway (it waits for another's end, which the end of that
-- connection is, too, as long as a statement may take: the time-out set here holds from the next one on). One row, always.
--   $1 gateway
SELECT set_config('statement_timeout', '600000', false), set_config('work_mem', '64MB', false),
       set_config('hash_mem_multiplier', '2', false), set_config('lock_timeout', '120000', false),
       pg_advisory_lock(hashtextextended('reconcile ' || $1, 1810))::text AS held
