-- Called by ping: is the database there, does it take writes, and is today's partition made?
-- One row, always.
SELECT pg_is_in_recovery() AS read_only,
       to_regclass('payments_' || to_char(statement_timestamp() AT TIME ZONE 'UTC', 'YYYYMMDD')) IS NOT NULL AS today_is_made
