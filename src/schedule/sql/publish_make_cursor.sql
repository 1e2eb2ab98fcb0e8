-- Called by acquire_publisher: the lane's row, before anything was ever published.
-- Index: the primary key. Zero rows: it is there already.
--   $1 lane
INSERT INTO publisher_cursor (lane, system_identifier, xid, seq, payment_id)
VALUES ($1, split_part(current_lineage(), '/', 1), '0', 0, '00000000-0000-0000-0000-000000000000')
ON CONFLICT DO NOTHING
