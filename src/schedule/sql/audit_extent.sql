-- Called once by audit_extent: what the database holds, and how far the publisher has come.
-- Index: the partitions' primary keys, from their ends. One row, always.
--   $1 lane of the publisher
SELECT clock_timestamp() AS now,
       (SELECT min(p.due_day) FROM payments p) AS first_day,
       (SELECT max(p.due_day) FROM payments p) AS last_day,
       c.xid::text AS xid, c.seq, c.payment_id
FROM (SELECT 1) one
LEFT JOIN publisher_cursor c ON c.lane = $1
