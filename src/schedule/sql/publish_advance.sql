-- Called by advance_publisher after Kafka has acknowledged every event of a batch.
-- Index: the primary key. Zero rows: the lane is not ours any more; nothing moved.
--   $1 lane   $2 holder   $3 epoch   $4 xid   $5 seq   $6 payment id
--   $7 no unpublished row is below this xid, and none has one that this server has not given out yet; null: nobody
--      looked, or there is one, and it may be of any instant: the floor stays where it is
UPDATE publisher_cursor c SET
    xid = $4::text::xid8, seq = $5, payment_id = $6, updated_at = clock_timestamp(),
    -- A day covers the wait of a statement for its locks and a database clock that is set back.
    floor_at = CASE WHEN c.mark_xid < $7::text::xid8 THEN greatest(c.floor_at, c.mark_at - interval '1 day')
                    ELSE c.floor_at END,
    -- Our own transaction id is given out after this statement began, so whoever gets a higher one
    -- writes later than that. The end of a snapshot would not do: it may be given out long ago.
    mark_at = CASE WHEN c.mark_xid < $7::text::xid8 THEN statement_timestamp() ELSE c.mark_at END,
    mark_xid = CASE WHEN c.mark_xid < $7::text::xid8 THEN pg_current_xact_id() ELSE c.mark_xid END
WHERE c.lane = $1 AND c.holder = $2 AND c.epoch = $3
  AND c.system_identifier = split_part(current_lineage(), '/', 1)
  -- Only forwards.
  AND (c.xid, c.seq, c.payment_id) <= ($4::text::xid8, $5, $6)
RETURNING c.epoch
