-- Called by compare_day: the first day whose lines are kept.
-- Index: none (the catalogue). One row, always; null: none was ever loaded.
SELECT to_date(min(right(c.relname, 8)), 'YYYYMMDD') AS first_day
FROM pg_inherits h JOIN pg_class c ON c.oid = h.inhrelid
WHERE h.inhparent = 'settlement_lines'::regclass
