-- Called by compare_day: the days whose payments are attached. Others' are archived, or were never made.
-- Index: none (the catalogue). One row, always; null: none is.
SELECT to_date(min(right(c.relname, 8)), 'YYYYMMDD') AS first_day,
       to_date(max(right(c.relname, 8)), 'YYYYMMDD') AS last_day,
       clock_timestamp() AS now
FROM pg_inherits h JOIN pg_class c ON c.oid = h.inhrelid
WHERE h.inhparent = 'payments'::regclass
