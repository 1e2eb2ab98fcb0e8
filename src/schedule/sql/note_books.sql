-- Called after a comparison: in how many currencies the books of a due day differ.
-- Index: the primary key. One row, always.
--   $1 gateway   $2 due day   $3 how many
INSERT INTO reconciliation_books AS b (gateway, due_day, apart) VALUES ($1, $2, $3)
ON CONFLICT (gateway, due_day) DO UPDATE SET apart = excluded.apart, added_up_at = clock_timestamp()
