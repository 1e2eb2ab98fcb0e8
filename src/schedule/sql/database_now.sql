-- Called by workers to know how far their own clock is from the database's.
-- Index: none. One row, always.
SELECT clock_timestamp() AS database_now
