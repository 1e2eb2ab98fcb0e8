-- Called by database_now: the clock that decides "due".
-- One row, always.
SELECT clock_timestamp() AS at
