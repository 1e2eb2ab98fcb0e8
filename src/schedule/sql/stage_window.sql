-- Called by stage: the database's clock, and the first instant from which notices can be waiting:
-- the start of the oldest partition of the outbox that still exists.
-- One row, always.
SELECT clock_timestamp() AS database_now,
       coalesce((SELECT to_date(min(right(c.relname, 8)), 'YYYYMMDD')
                 FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
                 WHERE i.inhparent = 'due_notices'::regclass)::timestamp AT TIME ZONE 'UTC',
                clock_timestamp()) AS oldest
