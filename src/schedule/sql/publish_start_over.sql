-- Called by start_over: takes the lane from whoever has it and puts its cursor before the oldest row, so that
-- everything is published again, in order and by one writer. The former leader is fenced by the epoch.
-- Index: the primary key. Zero rows: never; the row is made before.
--   $1 lane   $2 holder   $3 for how long
UPDATE publisher_cursor SET
    holder = $2, epoch = epoch + 1, until = clock_timestamp() + $3::interval,
    system_identifier = split_part(current_lineage(), '/', 1),
    xid = '0', seq = 0, payment_id = '00000000-0000-0000-0000-000000000000',
    floor_at = '1970-01-01 00:00:00+00', mark_at = '1970-01-01 00:00:00+00', mark_xid = '0'
WHERE lane = $1
RETURNING epoch
