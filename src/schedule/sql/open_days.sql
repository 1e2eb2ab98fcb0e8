-- Called before every scan by time: the days that can hold open rows which are due, and whether this
-- database is released (R17).
-- One row, always.
SELECT oldest_open_day, (statement_timestamp() AT TIME ZONE 'UTC')::date AS today, lineage_is_released() AS released
FROM installation
