-- Called by unpublished, and by fan_out, where a row waits (publish_waiting.sql): one whose transaction id this server has
-- not given out yet, since it is another's. Not the first that waits need be it.
-- Index: payment_history_to_publish of the days between $1 and $2, from its end. Zero rows: none is.
--   $1 from instant   $2 to instant
SELECT 1 AS is_ahead
FROM payment_history h
-- One past the newest transaction that is over: no row that is visible here can carry it or more, except from elsewhere.
-- Of this statement's own snapshot, since in one of the pass's beginning all that was committed since would seem to come
-- from elsewhere.
WHERE h.xid >= pg_snapshot_xmax(pg_current_snapshot()) AND h.at >= $1 AND h.at < $2
ORDER BY h.xid, h.seq, h.payment_id
LIMIT 1
