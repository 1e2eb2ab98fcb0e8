-- Called by acquire_publisher: takes the lane if nobody holds it; the epoch grows with each change of
-- hands. Transaction ids of another server mean nothing here, so a cursor that came with a dump starts
-- over from the oldest row: everything goes out again, and readers remove duplicates by the event's id.
-- Index: the primary key. Zero rows: another publisher holds it.
--   $1 lane   $2 holder   $3 for how long
WITH free AS (
    SELECT c.lane, c.system_identifier = split_part(current_lineage(), '/', 1) AS same
    FROM publisher_cursor c
    WHERE c.lane = $1 AND c.until < clock_timestamp()
    FOR UPDATE
)
UPDATE publisher_cursor c SET
    holder = $2, epoch = c.epoch + 1, until = clock_timestamp() + $3::interval,
    system_identifier = split_part(current_lineage(), '/', 1),
    xid = CASE WHEN f.same THEN c.xid ELSE '0' END,
    seq = CASE WHEN f.same THEN c.seq ELSE 0 END,
    payment_id = CASE WHEN f.same THEN c.payment_id ELSE '00000000-0000-0000-0000-000000000000' END,
    -- Instants mean the same on every server. What is owed to endpoints is owed once; it need only be
    -- looked at again from where it may have stood.
    floor_at = CASE WHEN f.same OR c.lane = 'webhooks' THEN c.floor_at ELSE '1970-01-01 00:00:00+00' END,
    mark_at = CASE WHEN f.same THEN c.mark_at ELSE '1970-01-01 00:00:00+00' END,
    mark_xid = CASE WHEN f.same THEN c.mark_xid ELSE '0' END
FROM free f
WHERE c.lane = f.lane
RETURNING c.epoch, NOT f.same AS started_over
